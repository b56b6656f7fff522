"""Why 80 / 10 / 10? And is 15 % the right share?

    python experiments/masking.py [--folder quickstart/en] [--steps 300] [--seeds 3] [--out masking.svg]

Of the selected tokens BERT turns 80 % into [MASK], 10 % into a random token and leaves 10 %. Other shares are trained on the same text with the
same encoder (2 layers of 64). Held-out losses of different shares cannot be compared, so all are judged by the same two measures: the mean
log-probability of a token when it alone is masked (pseudo-log-likelihood), and a logistic regression on the mean vectors of the
frozen encoder, which never sees [MASK].
"""

import csv
import tempfile
from pathlib import Path
from statistics import mean, stdev

from sklearn.linear_model import LogisticRegression

import firth
from picture import draw, options, shown

CASES = {  # share selected, of it [MASK], random, unchanged
    "80/10/10": (0.15, 0.8, 0.1),
    "100/0/0": (0.15, 1.0, 0.0),
    "80/20/0": (0.15, 0.8, 0.2),
    "80/0/20": (0.15, 0.8, 0.0),
    "80/10/10, 40 %": (0.4, 0.8, 0.1),
}
SIZE = {
    "hidden_dim": 64,
    "ffn_dim": 256,
    "num_layers": 2,
    "seq_len": 64,
    "batch_size": 16,
    "evaluations": 1,
    "checkpoints": 1,
}
Labelled = tuple[list[str], list[str]]


def prepared(folder: Path, lines: int, work: Path) -> Path:
    """A corpus of the first lines of the text."""
    text = work / "text.txt"
    with open(folder / "text.txt", encoding="utf-8") as source:
        text.write_text("".join(line for line, _ in zip(source, range(lines), strict=False)), encoding="utf-8")
    firth.prepare(text, work / "corpus", layout="line", vocab_size=4000)
    return work / "corpus"


def labelled(path: Path) -> Labelled:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["text"] for row in rows], [row["label"] for row in rows]


def judged(run: Path, train: Labelled, test: Labelled, sentences: int) -> tuple[float, float]:
    """Log-probability of a masked token, and accuracy of a linear model on frozen vectors."""
    model = firth.load(run)
    scored = model.score_texts(test[0][:sentences])
    tokens = [float(value) for one in scored for value in one.log_probs]
    linear = LogisticRegression(max_iter=2000, C=0.1).fit(model.encode(train[0]), train[1])
    return float(mean(tokens)), float(linear.score(model.encode(test[0]), test[1]))


def main() -> None:
    parser = options(__doc__, steps=300)
    parser.add_argument("--folder", type=Path, default=Path("quickstart/en"))
    parser.add_argument("--lines", type=int, default=4000)
    parser.add_argument("--sentences", type=int, default=60)
    arguments = parser.parse_args()
    train, test = labelled(arguments.folder / "train.tsv"), labelled(arguments.folder / "test.tsv")
    print(f"2 layers of 64, {arguments.steps} steps, {arguments.seeds} seeds")
    print("[MASK]/random/same    log p of a masked token    linear accuracy, frozen")
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as work:
        corpus = prepared(arguments.folder, arguments.lines, Path(work))
        for number, (name, (share, mask, random)) in enumerate(CASES.items()):
            found = []
            for seed in range(arguments.seeds):
                run = Path(work) / f"{number}-{seed}"
                shares = {"mask_prob": share, "mask_token_prob": mask, "random_token_prob": random}
                firth.pretrain(
                    "bert-tiny-modern", corpus=corpus, out=run, steps=arguments.steps, seed=seed, **SIZE, **shares
                )
                found.append(judged(run, train, test, arguments.sentences))
            chances, right = [one[0] for one in found], [one[1] for one in found]
            print(f"  {name:<19} {shown(chances):<26} {shown(right)}")
            lines[name] = [(number + 1, mean(right))]
            spread[name] = [stdev(right) if len(right) > 1 else 0.0]
    draw(arguments.out, lines, "scheme", "linear accuracy", spread)


if __name__ == "__main__":
    main()
