"""Does next-sentence prediction help? Against sentence order, and against no pairs.

    python experiments/next_sentence.py [--folder quickstart/en] [--steps 600] [--seeds 3] [--out next_sentence.svg]

Three encoders (2 layers of 64) read the same film reviews and predict masked tokens: rows without pairs, pairs whose second part comes from another document in half of
the cases (BERT), pairs whose parts are swapped in half of the cases (ALBERT). All are then frozen and judged alike: the mean log-probability of a token that alone is
masked; and a logistic regression on the vectors of two sentences read together, from reviews that no encoder has seen: is the second one from the same review (topic),
do the two stand in this order (order); and one on single labelled sentences (sentiment).
"""

import argparse
import random
import re
import tempfile
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import firth
from firth.core.types import Inputs
from masking import labelled, prepared
from picture import draw_groups, options, shown

CASES = ("none", "next_sentence", "sentence_order")
SIZE = {"hidden_dim": 64, "ffn_dim": 256, "num_layers": 2, "seq_len": 64, "batch_size": 16, "mask_prob": 0.15}
MEASURES = ("topic", "order", "sentiment")
Pairs = list[tuple[str, str, bool]]


def sentence_pairs(folder: Path, first: int, count: int, task: str) -> Pairs:
    """Two neighbours of a review from line ``first`` on, or what only looks like it: half of each kind."""
    with open(folder / "text.txt", encoding="utf-8") as file:
        rows = [line for number, line in enumerate(file) if number >= first][: 2 * count]
    cut = [[one for one in re.split(r"(?<=[.!?]) +", row.strip()) if 5 <= len(one.split()) <= 30] for row in rows]
    cut, pick = [one for one in cut if len(one) >= 2], random.Random(0)
    found: Pairs = []
    for number, sentences in enumerate(cut[:count]):
        place, true = pick.randrange(len(sentences) - 1), number % 2 == 0
        one, other = sentences[place : place + 2]
        if not true:
            one, other = (other, one) if task == "order" else (one, pick.choice(cut[number - 1]))
        found.append((one, other, true))
    return found


def read_together(model: firth.Model, pairs: Pairs) -> np.ndarray:
    """The first vector and the mean of the last layer, for [CLS] one [SEP] other [SEP]."""
    rows = []
    for one, other, _ in pairs:
        read = model.pieces.encode(one, other)
        inputs = Inputs(torch.from_numpy(read.ids)[None], segments=torch.from_numpy(read.segments)[None])
        with torch.inference_mode():
            hidden = model.encoder.last(inputs)[0]
        rows.append(torch.cat([hidden[0], hidden.mean(0)]).numpy())
    return np.array(rows)


def right(features: np.ndarray, labels: np.ndarray, cut: int) -> float:
    """The share of right answers of a linear model on everything behind ``cut``."""
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, C=0.01))
    return float(linear.fit(features[:cut], labels[:cut]).score(features[cut:], labels[cut:]))


def judged(run: Path, arguments: argparse.Namespace) -> dict[str, float]:
    model, folder = firth.load(run), arguments.folder
    found = {}
    for task in ("topic", "order"):
        pairs = sentence_pairs(folder, arguments.lines, arguments.pairs, task)
        true = np.array([one[2] for one in pairs])
        found[task] = right(read_together(model, pairs), true, len(pairs) * 2 // 3)
    train, test = labelled(folder / "train.tsv"), labelled(folder / "test.tsv")
    both = [one + other for one, other in zip(train, test, strict=True)]
    found["sentiment"] = right(model.encode(both[0]), np.array(both[1]), len(train[0]))
    scored = model.score_texts(test[0][: arguments.sentences])
    return {**found, "log p": mean(float(value) for one in scored for value in one.log_probs)}


def main() -> None:
    parser = options(__doc__, steps=600)
    parser.add_argument("--folder", type=Path, default=Path("quickstart/en"))
    parser.add_argument("--lines", type=int, default=4000, help="reviews to learn from; the pairs come from others")
    parser.add_argument("--pairs", type=int, default=3000, help="two thirds of them to train the linear models")
    parser.add_argument("--sentences", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"2 layers of 64, {arguments.steps} steps, {arguments.seeds} seeds; topic, order: chance .500")
    print(f"{'pairs':<17}{'topic':<16}{'order':<16}{'sentiment':<16}log p of a masked token")
    values: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as work:
        corpus = prepared(arguments.folder, arguments.lines, Path(work))
        for case in CASES:
            found = []
            for seed in range(arguments.seeds):
                run = Path(work) / f"{case}-{seed}"
                often = {"steps": arguments.steps, "seed": seed, "evaluations": 1, "checkpoints": 1}
                firth.pretrain("bert-tiny-modern", corpus=corpus, out=run, pairs=case, **often, **SIZE)
                found.append(judged(run, arguments))
            by = {name: [one[name] for one in found] for name in found[0]}
            print(f"{case:<17}" + "".join(f"{shown(by[name]):<16}" for name in (*MEASURES, "log p")), flush=True)
            values[case] = [(mean(by[name]), stdev(by[name]) if len(found) > 1 else 0.0) for name in MEASURES]
    draw_groups(arguments.out, MEASURES, values, "accuracy")


if __name__ == "__main__":
    main()
