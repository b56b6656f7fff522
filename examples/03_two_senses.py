"""One word, two senses: vectors of words in context tell them apart, vectors of words cannot.

    python examples/03_two_senses.py [--steps 200] [--out DIR]

The text is made: some banks lend money, some have reeds. An ELMo reads it; then every "bank" is compared with every other.
"""

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np

import firth

MONEY = ["lent money to the farmer", "raised its rates", "hired a new clerk", "closed the account"]
RIVER = ["was covered with reeds", "was muddy after the rain", "had been washed away", "was full of ducks"]


def sentence(pick: random.Random, about: list[str]) -> str:
    start = pick.choice(["Yesterday the", "Near the town the", "They say the", "In spring the"])
    return f"{start} bank {pick.choice(about)} ."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = arguments.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    pick = random.Random(0)

    lines = [sentence(pick, pick.choice([MONEY, RIVER])) for _ in range(3000)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    firth.prepare(folder / "text.txt", folder / "words", tokens="words", layout="line", overwrite=True)
    firth.pretrain("elmo-tiny", corpus=folder / "words", out=folder / "elmo", steps=arguments.steps, overwrite=True)

    model = firth.load(folder / "elmo")
    texts = [sentence(pick, about) for about in (MONEY, RIVER) for _ in range(20)]
    layers = [model.layers(text.split()) for text in texts]
    same = np.kron(np.eye(2), np.ones((20, 20))) > 0
    print("cosine of two banks   of one sense   of two senses")
    for layer in range(len(layers[0].hidden)):
        rows = [found.hidden[layer, text.split().index("bank")] for found, text in zip(layers, texts, strict=True)]
        apart = np.stack(rows) - np.mean(rows, axis=0)  # what all banks share says nothing
        units = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-6)
        cosines = units @ units.T
        other = ~np.eye(len(texts), dtype=bool)
        print(f"layer {layer}               {cosines[same & other].mean():12.3f} {cosines[~same].mean():15.3f}")
    near = firth.occurrences(model, folder / "words", "The bank was full of frogs .", "bank", top=3, same_word=True)
    for found in near:
        print(f"{found.score:.2f}  {found.sentence}")


if __name__ == "__main__":
    main()
