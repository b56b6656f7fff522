"""Characters or words for Chinese? And what becomes of rare characters?

    python experiments/characters.py [--folder quickstart/zh] [--lines 3000] [--seeds 2] [--out characters.svg]

The quickstart's Chinese text is cut into words, into characters (WordPiece, as BERT does), into characters with bytes for unknown ones, and into BPE of 8,000 pieces over bytes. First: how many
tokens do the test texts have, what share of them is unknown, and what becomes of a sentence with the rare characters 龘 and 𠮷? Then word vectors are trained on each, and a linear
model on mean vectors is judged at 200 and 800 labels.
"""

import csv
import tempfile
from pathlib import Path
from statistics import mean, stdev

from sklearn.linear_model import LogisticRegression

import firth
from picture import draw, options, shown

LABELS = (200, 800)
CUTS: dict[str, dict[str, object]] = {
    "words": {"tokens": "words"},
    "characters": {"tokens": "wordpiece"},
    "characters, bytes": {"tokens": "wordpiece", "byte_fallback": True},
    "BPE over bytes": {"tokens": "bpe"},
}
RARE = "龘字和𠮷野家"
Labelled = tuple[list[str], list[str]]


def labelled(path: Path) -> Labelled:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def counted(corpus: Path, texts: list[str]) -> tuple[float, float]:
    """Tokens per text, and the share of them that is unknown."""
    found = [firth.tokens(corpus, text) for text in texts]
    total = sum(len(one["tokens"]) for one in found)
    return total / len(texts), sum(one["unknown"] for one in found) / total


def accuracies(model: firth.Model, train: Labelled, test: Labelled) -> list[float]:
    """By the number of labels."""
    vectors, goal, found = model.encode(train[0]), model.encode(test[0]), []
    for count in LABELS:
        linear = LogisticRegression(max_iter=2000).fit(vectors[:count], train[1][:count])
        found.append(float(linear.score(goal, test[1])))
    return found


def main() -> None:
    parser = options(__doc__, seeds=2)
    parser.add_argument("--folder", type=Path, default=Path("quickstart/zh"))
    parser.add_argument("--lines", type=int, default=3000)
    arguments = parser.parse_args()
    train, test = labelled(arguments.folder / "train.tsv"), labelled(arguments.folder / "test.tsv")
    print(f"{arguments.lines} lines of text, {arguments.seeds} seeds; accuracy at {LABELS} labels")
    print(f"{'cut into':<20}tokens/text  unknown  {RARE:<16}" + "".join(f"{count:<16}" for count in LABELS))
    lines, spread = {}, {}
    with tempfile.TemporaryDirectory() as work:
        text = Path(work) / "text.txt"
        with open(arguments.folder / "text.txt", encoding="utf-8") as source:  # the last lines: reviews and news
            text.write_text("".join(source.readlines()[-arguments.lines :]), encoding="utf-8")
        for name, tokens in CUTS.items():
            corpus = Path(work) / name
            firth.prepare(text, corpus, layout="line", **tokens)
            length, unknown = counted(corpus, test[0][:100])
            rare = firth.tokens(corpus, RARE)
            found = []
            for seed in range(arguments.seeds):
                run = Path(work) / f"{name}-{seed}"
                model = firth.pretrain("word2vec-skipgram", corpus=corpus, out=run, dim=50, seed=seed, threads=1)
                found.append(accuracies(model, train, test))
            columns = list(zip(*found, strict=True))
            kept = f"{len(rare['tokens'])}, lost {rare['lost']}"
            print(
                f"{name:<20}{length:<13.1f}{unknown:<9.2%}{kept:<20}" + "".join(f"{shown(one):<16}" for one in columns)
            )
            lines[name] = [(count, mean(one)) for count, one in zip(LABELS, columns, strict=True)]
            spread[name] = [stdev(one) if len(one) > 1 else 0.0 for one in columns]
    draw(arguments.out, lines, "labels", "accuracy", spread, log_x=True)


if __name__ == "__main__":
    main()
