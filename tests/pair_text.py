"""Sentences and what they become when every word is replaced and the order turned."""

import random
from pathlib import Path

WORDS = "dog cat bird house river garden letter clock apple boat".split()
TURNED = {word: word[::-1].title() for word in WORDS}


def sentence_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    pick = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [pick.choice(WORDS) for _ in range(pick.randint(2, 9))]
        pairs.append((" ".join(words), " ".join(TURNED[word] for word in words[::-1])))
    return pairs


def write_sides(folder: Path, pairs: list[tuple[str, str]], name: str = "train") -> tuple[str, str]:
    """Two line-aligned files."""
    paths = [folder / f"{name}.{language}" for language in ("en", "de")]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return str(paths[0]), str(paths[1])
