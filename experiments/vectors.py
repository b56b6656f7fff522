"""Input vectors, output vectors, or their mean: which are the word vectors of word2vec?

    python experiments/vectors.py [--lines 4000] [--seeds 3] [--out vectors.svg]

word2vec learns two vectors for each word, for when it is the centre and for when it is context. Made-up text with a known truth: 20 groups of 5 words that replace each other, and every
group has 5 verbs that stand behind its words. "Same": is the nearest word by cosine of the same group? "Beside": is the word with the highest product of this word's input vector and
the other word's output vector one that really occurs next to it? Then the film reviews of the quickstart: accuracy of a linear model on the mean vectors of 800 sentences.
"""

import csv
import random
import tempfile
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from sklearn.linear_model import LogisticRegression

import firth
from picture import draw_groups, options, shown

GROUPS, MEMBERS = 20, 5
RESULTS = ("input", "output", "mean")
Labelled = tuple[list[str], list[str]]


def made_up(path: Path, lines: int, seed: int) -> None:
    """Sentences such as 'x3 n7a v7c x1': a noun of a group, one of the group's verbs, and filler around them."""
    pick = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(lines):
            words = []
            for _ in range(4):
                group = pick.randrange(GROUPS)
                words += [
                    f"n{group}{pick.choice('abcde')}",
                    f"v{group}{pick.choice('abcde')}",
                    f"x{pick.randrange(30)}",
                ]
            out.write(" ".join(words) + "\n")


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def same_and_beside(vectors: dict[str, np.ndarray], words: list[str]) -> dict[str, tuple[float, float]]:
    """For each kind: how often the nearest word is of the same kind and group, and how often it is a neighbour in the text."""
    found = {}
    pairs = {name: (vectors[name], vectors[name]) for name in RESULTS} | {
        "input · output": (vectors["input"], vectors["output"])
    }
    for name, (left, right) in pairs.items():
        scores = left @ right.T if "·" in name else unit(left) @ unit(right).T
        np.fill_diagonal(scores, -np.inf)
        near = [words[place] for place in scores.argmax(1)]
        asked = [(word, other) for word, other in zip(words, near, strict=True) if word[0] == "n"]
        same = mean(word[:-1] == other[:-1] for word, other in asked)
        beside = mean(other[0] == "v" and word[1:-1] == other[1:-1] for word, other in asked)
        found[name] = (float(same), float(beside))
    return found


def labelled(path: Path) -> Labelled:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def trained(corpus: Path, out: Path, result: str, seed: int, **more: object) -> firth.Model:
    """The same training whatever is kept of it."""
    return firth.pretrain(
        "word2vec-skipgram", corpus=corpus, out=out, dim=50, result=result, seed=seed, threads=1, **more
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--folder", type=Path, default=Path("quickstart/en"))
    parser.add_argument("--lines", type=int, default=4000)
    arguments = parser.parse_args()
    train, test = labelled(arguments.folder / "train.tsv"), labelled(arguments.folder / "test.tsv")
    scores: dict[str, list[tuple[float, ...]]] = {name: [] for name in (*RESULTS, "input · output")}
    with tempfile.TemporaryDirectory() as work:
        reviews = Path(work) / "reviews.txt"
        with open(arguments.folder / "text.txt", encoding="utf-8") as text:
            reviews.write_text("".join(line for line, _ in zip(text, range(arguments.lines), strict=False)), "utf-8")
        firth.prepare(reviews, Path(work) / "reviews", tokens="words", layout="line")
        for seed in range(arguments.seeds):
            made_up(Path(work) / "made.txt", arguments.lines, seed)
            firth.prepare(Path(work) / "made.txt", Path(work) / f"made{seed}", tokens="words", layout="line")
            models = [trained(Path(work) / f"made{seed}", Path(work) / f"{one}{seed}", one, seed) for one in RESULTS]
            words = list(models[0].vectors.words)
            found = same_and_beside(
                {name: model.encode(words) for name, model in zip(RESULTS, models, strict=True)}, words
            )
            for name in scores:
                right = ()
                if name in RESULTS:
                    model = trained(Path(work) / "reviews", Path(work) / f"reviews{name}{seed}", name, seed, epochs=2)
                    linear = LogisticRegression(max_iter=2000).fit(model.encode(train[0]), train[1])
                    right = (float(linear.score(model.encode(test[0]), test[1])),)
                scores[name].append((*found[name], *right))
    print(f"{arguments.lines} lines of each text, {arguments.seeds} seeds")
    print("vectors           same group          beside              reviews")
    for name, found in scores.items():
        print(f"{name:<18}" + "".join(f"{shown(one):<20}" for one in zip(*found, strict=True)))
    values = {
        name: [(mean(one), stdev(one) if len(one) > 1 else 0.0) for one in zip(*found, strict=True)]
        for name, found in scores.items()
    }
    draw_groups(arguments.out, ("same group", "beside", "film reviews"), values, "share of words, or accuracy")


if __name__ == "__main__":
    main()
