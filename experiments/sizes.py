"""CBOW, skip-gram or GloVe: which needs how much text?

    python experiments/sizes.py [--folder quickstart/en] [--seeds 2] [--out sizes.svg]

The same text in growing parts, the same dimension and window, as many passes as each usually makes (5, 5 and 25). Judged by a linear model on the mean vectors of the
quickstart's 800 labelled sentences, on its 1,000 test sentences. GloVe's x_max is tried at its usual 100 and at 10, since small texts have small counts.
"""

import csv
import tempfile
from pathlib import Path
from statistics import mean, stdev

from sklearn.linear_model import LogisticRegression

import firth
from picture import draw, options, shown

SIZES = (100, 400, 1600)
CASES: dict[str, tuple[str, dict[str, object]]] = {
    "CBOW": ("word2vec", {}),
    "skip-gram": ("word2vec-skipgram", {}),
    "GloVe": ("glove", {}),
    "GloVe, x_max 10": ("glove", {"x_max": 10.0}),
}
Labelled = tuple[list[str], list[str]]


def labelled(path: Path) -> Labelled:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def prepared(folder: Path, lines: int, work: Path) -> Path:
    """A corpus of the first lines of the text."""
    text, corpus = work / f"{lines}.txt", work / f"corpus{lines}"
    with open(folder / "text.txt", encoding="utf-8") as source:
        text.write_text("".join(line for line, _ in zip(source, range(lines), strict=False)), encoding="utf-8")
    firth.prepare(text, corpus, tokens="words", layout="line")
    return corpus


def accuracy(model: firth.Model, train: Labelled, test: Labelled) -> float:
    linear = LogisticRegression(max_iter=2000).fit(model.encode(train[0]), train[1])
    return float(linear.score(model.encode(test[0]), test[1]))


def main() -> None:
    parser = options(__doc__, seeds=2)
    parser.add_argument("--folder", type=Path, default=Path("quickstart/en"))
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    arguments = parser.parse_args()
    train, test = labelled(arguments.folder / "train.tsv"), labelled(arguments.folder / "test.tsv")
    sizes = [size for size in SIZES if size <= arguments.largest]
    print(f"accuracy by the reviews read ({arguments.seeds} seeds)")
    print(f"{'vectors':<18}" + "".join(f"{size:<16,}" for size in sizes))
    lines, spread = {}, {}
    with tempfile.TemporaryDirectory() as work:
        corpora = [prepared(arguments.folder, size, Path(work)) for size in sizes]
        for name, (recipe, more) in CASES.items():
            found = []
            for corpus in corpora:
                models = [
                    firth.pretrain(
                        recipe, corpus=corpus, out=Path(work) / "run", overwrite=True,
                        dim=50, window=5, seed=seed, threads=1, **more,
                    )
                    for seed in range(arguments.seeds)
                ]  # fmt: skip
                found.append([accuracy(model, train, test) for model in models])
            print(f"{name:<18}" + "".join(f"{shown(one):<16}" for one in found), flush=True)
            lines[name] = [(size, mean(one)) for size, one in zip(sizes, found, strict=True)]
            spread[name] = [stdev(one) if len(one) > 1 else 0.0 for one in found]
    draw(arguments.out, lines, "reviews", "accuracy", spread, log_x=True)


if __name__ == "__main__":
    main()
