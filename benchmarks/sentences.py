"""Sentence vectors: models, training and distillation against sentence-transformers and model2vec, on the same pairs.

    python benchmarks/sentences.py scores --test NAME=FILE ... --model NAME=PATH ...
    python benchmarks/sentences.py train --base PATH --train FILE --test FILE [--epochs 1] [--pairs 2000] [--repeats 1]
        [--seeds 1] [--loss cosent]
    python benchmarks/sentences.py static --model PATH --test NAME=FILE ... [--text FILE] [--repeats 3]

FILE has pairs of texts with a score in its last three tab-separated columns, with a header or not (also .gz).

scores  Spearman of cosines and scores, and average precision where the scores are 0 and 1
train   firth finetune embed and SentenceTransformerTrainer from the same base, with the same loss (CoSENT with scale 20, or cosine,
        or ranking), batches of 64, rate 5e-5, linear decay after a tenth of warm-up, 128 tokens, one thread, both in float32:
        seconds of the whole call and Spearman on the test pairs; interleaved. Firth also in bfloat16 where the machine has it
static  firth export --to static and model2vec's distillation to 256 dimensions: Spearman, and texts a second of both and of the
        model itself (medians, interleaved); with --text also Firth's with counted frequencies
"""

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Pairs = list[tuple[str, str, float]]
Fit = Callable[[Pairs, Path, int, Path, str, int], tuple[float, Callable[[list[str]], Any]]]


def read_pairs(path: Path) -> Pairs:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as handle:
        rows = [line.rstrip("\n").split("\t")[-3:] for line in handle if line.strip()]
    found = []
    for row in rows:
        try:
            found.append((row[0], row[1], float(row[2])))
        except (ValueError, IndexError):
            continue  # a header, or a line without a score
    return found


def named(words: Sequence[str]) -> dict[str, Path]:
    return {word.partition("=")[0]: Path(word.partition("=")[2]) for word in words}


def spearman_of(encode: Callable[[list[str]], Any], pairs: Pairs) -> str:
    from firth.evaluation.words import average_precision
    from firth.tasks.embed.scoring import score_pairs
    from firth.tasks.scores import spearman

    cosines = score_pairs([one for one, _, _ in pairs], [two for _, two, _ in pairs], lambda some: encode(list(some)))
    wanted = [score for _, _, score in pairs]
    extra = f" AP {average_precision(cosines, [one == 1 for one in wanted]):.4f}" if set(wanted) == {0.0, 1.0} else ""
    return f"{spearman(cosines, wanted):.4f}{extra}"


def scores(arguments: argparse.Namespace) -> None:
    import firth

    tests = {name: read_pairs(path) for name, path in named(arguments.test).items()}
    print("".join(f"{name:<24}" for name in ("", *tests)))
    for name, path in named(arguments.model).items():
        model = firth.load(path)
        print(
            f"{name:<24}" + "".join(f"{spearman_of(model.encode, pairs):<24}" for pairs in tests.values()), flush=True
        )


def train(arguments: argparse.Namespace) -> None:
    from firth.core.registry import choose_precision

    pairs, test = read_pairs(arguments.train)[: arguments.pairs], read_pairs(arguments.test)
    top = max(score for _, _, score in pairs)
    pairs = [(one, two, score / top) for one, two, score in pairs]
    ways: dict[str, Fit] = {"Firth, float32": partial(train_firth, "float32"), "sentence-transformers": train_peer}
    if choose_precision("auto", "cpu") == "bfloat16":  # the peer computes in float32
        ways["Firth, bfloat16"] = partial(train_firth, "bfloat16")
    times: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        for _ in range(arguments.repeats):
            for name, fit in ways.items():
                with tempfile.TemporaryDirectory() as folder:
                    busy = time.process_time()
                    seconds, encode = fit(pairs, arguments.base, arguments.epochs, Path(folder), arguments.loss, seed)
                    busy = time.process_time() - busy
                    found = spearman_of(encode, test)
                    times.setdefault(name, []).append(seconds)
                    told = f"{seconds:8.1f} s ({busy:.1f} s of processor time)   Spearman {found}"
                    print(f"{name:<24}seed {seed} {told}", flush=True)
    for name, some in times.items():
        print(f"{name:<24}median {statistics.median(some):8.1f} s")


def train_firth(
    precision: str, pairs: Pairs, base: Path, epochs: int, folder: Path, loss: str, seed: int
) -> tuple[float, Callable[[list[str]], Any]]:
    import firth

    lines = [f"{one}\t{two}\t{score}" for one, two, score in pairs]
    (folder / "train.tsv").write_text("sentence1\tsentence2\tscore\n" + "\n".join(lines) + "\n", encoding="utf-8")
    begun = time.perf_counter()
    model = firth.finetune(
        "embed",
        base=base,
        train=folder / "train.tsv",
        out=folder / "run",
        epochs=epochs,
        learning_rate=5e-5,
        precision=precision,
        loss=loss,
        seed=seed,
    )
    return time.perf_counter() - begun, model.encode


def train_peer(
    pairs: Pairs, base: Path, epochs: int, folder: Path, loss: str, seed: int
) -> tuple[float, Callable[[list[str]], Any]]:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import CoSENTLoss, CosineSimilarityLoss, MultipleNegativesRankingLoss

    begun = time.perf_counter()
    model = SentenceTransformer(str(base), device="cpu")
    model.max_seq_length = 128
    if loss == "ranking":  # as Firth: the pairs that belong together
        pairs = [pair for pair in pairs if pair[2] > 0.8]
    columns = {"sentence1": [one for one, _, _ in pairs], "sentence2": [two for _, two, _ in pairs]}
    scores = {} if loss == "ranking" else {"score": [score for _, _, score in pairs]}
    data = Dataset.from_dict({**columns, **scores})
    losses = {"cosent": CoSENTLoss, "cosine": CosineSimilarityLoss, "ranking": MultipleNegativesRankingLoss}
    settings = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        per_device_train_batch_size=64,
        learning_rate=5e-5,
        warmup_ratio=0.1,
        weight_decay=0.01,
        save_strategy="no",
        report_to="none",
        seed=seed,
        disable_tqdm=True,
        use_cpu=True,
    )
    SentenceTransformerTrainer(model, settings, train_dataset=data, loss=losses[loss](model)).train()
    return time.perf_counter() - begun, lambda texts: model.encode(texts)


def static(arguments: argparse.Namespace) -> None:
    import firth

    tests = {name: read_pairs(path) for name, path in named(arguments.test).items()}
    ways: dict[str, tuple[float, Callable[[list[str]], Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("Firth, static", None), ("Firth, static, counted", arguments.text)):
            if name == "Firth, static" or text is not None:
                begun = time.perf_counter()
                firth.export(arguments.model, Path(folder) / name, to="static", data=text)
                ways[name] = time.perf_counter() - begun, firth.load(Path(folder) / name).encode
        try:
            from model2vec.distill import distill

            begun = time.perf_counter()
            peer = distill(str(arguments.model), pca_dims=256, device="cpu", quantize_to="float32")
            ways["model2vec"] = time.perf_counter() - begun, lambda texts: peer.encode(texts, use_multiprocessing=False)
        except ImportError as error:
            print(f"model2vec: {error}")
        ways["the model itself"] = 0.0, firth.load(arguments.model).encode
        print("".join(f"{name:<26}" for name in ("", "seconds to distil", *tests)))
        for name, (seconds, encode) in ways.items():
            row = "".join(f"{spearman_of(encode, pairs):<26}" for pairs in tests.values())
            print(f"{name:<26}{seconds:<26.1f}{row}", flush=True)
    speeds(ways, [text for pairs in tests.values() for one, two, _ in pairs for text in (one, two)], arguments.repeats)


def speeds(ways: dict[str, tuple[float, Callable[[list[str]], Any]]], texts: list[str], repeats: int) -> None:
    many = (texts * (20_000 // len(texts) + 1))[:20_000]
    times: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, (_, encode) in ways.items():
            some = many[:200] if name == "the model itself" else many
            begun = time.perf_counter()
            np.asarray(encode(some))
            times.setdefault(name, []).append(len(some) / (time.perf_counter() - begun))
    print("\ntexts a second (median)")
    for name, found in times.items():
        print(f"{name:<26}{statistics.median(found):>12,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("scores")
    one.add_argument("--test", action="append", required=True)
    one.add_argument("--model", action="append", required=True)
    two = parts.add_parser("train")
    two.add_argument("--base", type=Path, required=True)
    two.add_argument("--train", type=Path, required=True)
    two.add_argument("--test", type=Path, required=True)
    two.add_argument("--epochs", type=int, default=1)
    two.add_argument("--pairs", type=int, default=2000)
    two.add_argument("--repeats", type=int, default=1)
    two.add_argument("--seeds", type=int, default=1)
    two.add_argument("--loss", choices=("cosent", "cosine", "ranking"), default="cosent")
    three = parts.add_parser("static")
    three.add_argument("--model", type=Path, required=True)
    three.add_argument("--test", action="append", required=True)
    three.add_argument("--text", type=Path)
    three.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    {"scores": scores, "train": train, "static": static}[arguments.part](arguments)


if __name__ == "__main__":
    main()
