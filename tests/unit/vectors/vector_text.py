"""A small text whose words keep company: topics, so that neighbours mean something."""

import random
from pathlib import Path

from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare

TOPICS = {
    "sea": "ship sail wave captain harbour anchor island storm".split(),
    "home": "kitchen bread table oven plate butter knife spoon".split(),
    "sky": "cloud bird wing wind rain thunder feather nest".split(),
}
COMMON = "the a of and to in".split()


def lines(count: int, seed: int = 0) -> list[str]:
    """Each line is about one topic; function words stand everywhere."""
    pick = random.Random(seed)
    found = []
    for _ in range(count):
        words = TOPICS[pick.choice(sorted(TOPICS))]
        found.append(
            " ".join(pick.choice(words if pick.random() < 0.6 else COMMON) for _ in range(pick.randint(8, 20)))
        )
    return found


def word_corpus(folder: Path, text: list[str], name: str = "corpus") -> Corpus:
    """The lines as documents, in a corpus of words."""
    file = folder / f"{name}.txt"
    file.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    tokens = TokensConfig(kind="words", word_split="whitespace")
    prepare([str(file)], folder / name, tokens, heldout=0.0, workers=1)
    return Corpus.open(folder / name)
