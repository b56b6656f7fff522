"""A translator of your own sentence pairs: prepare, train, translate, look at what it looked at.

    python examples/04_translate.py [PAIRS.tsv] [--steps 200] [--out DIR]

Without a file a made language is learned, in which the adjective follows its noun.
"""

import argparse
import random
import tempfile
from pathlib import Path

import firth

NOUNS = {"dog": "hundo", "cat": "kato", "bird": "birdo", "house": "domo"}
ADJECTIVES = {"old": "maljuna", "red": "ruĝa", "small": "malgranda"}
VERBS = {"sees": "vidas", "likes": "ŝatas", "has": "havas"}


def pair(pick: random.Random) -> tuple[str, str]:
    nouns = [pick.choice(list(NOUNS)) for _ in range(2)]
    kinds = [pick.choice(list(ADJECTIVES)) for _ in range(2)]
    verb = pick.choice(list(VERBS))
    source = f"the {kinds[0]} {nouns[0]} {verb} the {kinds[1]} {nouns[1]}"
    target = f"la {NOUNS[nouns[0]]} {ADJECTIVES[kinds[0]]} {VERBS[verb]} la {NOUNS[nouns[1]]} {ADJECTIVES[kinds[1]]}"
    return source, target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, nargs="?", help="source<TAB>target lines")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = arguments.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    pick = random.Random(0)
    pairs = arguments.pairs
    if pairs is None:
        pairs = folder / "pairs.tsv"
        lines = ["\t".join(pair(pick)) for _ in range(3000)]
        pairs.write_text("\n".join(lines) + "\n", encoding="utf-8")

    firth.prepare_pairs([pairs], folder / "pairs", vocab_size=400 if arguments.pairs is None else 8000, overwrite=True)
    firth.pretrain(
        "transformer-tiny",
        corpus=folder / "pairs",
        out=folder / "mt",
        steps=arguments.steps,
        batch_tokens=512,
        overwrite=True,
    )
    model = firth.load(folder / "mt")
    for text in ["the old dog sees the red house", "the small bird likes the old cat"]:
        print(f"{text}\n  {model.translate([text], beams=5)[0]}")


if __name__ == "__main__":
    main()
