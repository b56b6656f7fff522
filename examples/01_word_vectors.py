"""Word vectors of your own text: prepare, train, ask, and hand them on.

    python examples/01_word_vectors.py [TEXT] [--out DIR]

Without TEXT a made one is used, in which animals and towns keep different company.
"""

import argparse
import random
import tempfile
from pathlib import Path

import firth

ANIMALS, TOWNS = ["dog", "cat", "horse", "bird"], ["Paris", "Rome", "Oslo", "Cairo"]


def made_text(path: Path) -> Path:
    pick = random.Random(0)
    lines = []
    for _ in range(2000):
        animal, town = pick.choice(ANIMALS), pick.choice(TOWNS)
        lines.append(f"The {animal} {pick.choice(['slept', 'ate', 'ran'])} on the {pick.choice(['straw', 'grass'])}.")
        lines.append(f"We {pick.choice(['flew', 'moved', 'went'])} to {town} {pick.choice(['today', 'in spring'])}.")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = arguments.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    text = arguments.text or made_text(folder / "text.txt")

    firth.prepare(text, folder / "words", tokens="words", layout="line", overwrite=True)
    firth.pretrain(
        "word2vec-skipgram",
        corpus=folder / "words",
        out=folder / "vectors",
        dim=50,
        epochs=5,
        min_count=5,
        overwrite=True,
    )
    vectors = firth.load(folder / "vectors")
    for word in ["dog", "rome"] if arguments.text is None else ["good", "man"]:
        near = "  ".join(f"{other} {score:.2f}" for other, score in vectors.nearest(word, top=5))
        print(f"{word:<8} {near}")

    firth.export(folder / "vectors", folder / "vectors.vec")  # what gensim, fastText and spaCy read
    print(f"written: {folder / 'vectors.vec'}")


if __name__ == "__main__":
    main()
