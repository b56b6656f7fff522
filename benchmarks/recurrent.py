"""Recurrent language models: cells beside nn.LSTM, a whole model beside a plain loop, NCE beside the softmax.

    python benchmarks/recurrent.py cells [--rounds 5]
    python benchmarks/recurrent.py model [--rounds 5]
    python benchmarks/recurrent.py outputs [--rounds 5]
    python benchmarks/recurrent.py nce --corpus TEXT [--layout line] [--as-written] [--vocab 50000 200000] [--steps 2000]
    python benchmarks/recurrent.py nce --data FOLDER [--steps 2000]
    python benchmarks/recurrent.py wikitext --data FOLDER [--budget 30m] [--out FOLDER] [key=value ...]

Contenders take turns; figures are medians, ratios are of medians. ``cells`` trains one layer (forward and
backward) of each kind beside ``nn.LSTM`` of the same size. ``model`` trains a word language model with the
whole step (clipping, optimizer) beside the loop that PyTorch users write: nn.Embedding, nn.LSTM, nn.Linear with
tied weights, cross-entropy, clip_grad_norm_, Adam. ``outputs`` times forward and backward of the output layer
alone. ``nce`` trains the same model twice, by NCE and by the full softmax, equally many steps, and gives the
perplexity of both by full normalisation, for each size of vocabulary that is asked for; --as-written takes what stands between white
spaces as words, so that there are many. ``wikitext`` (and ``nce --data``) wants a folder with a train, a valid and a test part
(wiki.train.tokens, train.txt.gz ...); words seen fewer than three times in the training part become <unk>.
"""

import argparse
import gzip
import math
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import firth
from firth.core.config import parse_settings
from firth.core.registry import TrainingConfig
from firth.core.run import Run
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.model import RecurrentModel
from firth.models.recurrent.network import Recurrent
from firth.nn.recurrent import RecurrentLayer
from firth.nn.softmax import NCEOutput, Noise, TokenOutput, noise_probs
from firth.training.checkpoints import read_history
from firth.training.optimizer import build_optimizer

CELLS = ("rnn_tanh", "lstm", "peephole", "coupled", "gru", "gru_after")
SIZES = {"20 x 35, 200 units": (20, 35, 200), "20 x 70, 650 units": (20, 70, 650)}


def interleaved(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def show(title: str, seconds: Mapping[str, float], base: str, tokens: int) -> None:
    print(f"\n{title}")
    for name, found in seconds.items():
        print(
            f"  {name:28} {found * 1e3:9.1f} ms {tokens / found:10,.0f} tokens/s   {found / seconds[base]:5.2f} x the time of {base}"
        )


def cells(rounds: int) -> None:
    for title, (batch, steps, size) in SIZES.items():
        inputs = torch.randn(steps, batch, size)
        library = nn.LSTM(size, size)

        def run_library(library: nn.LSTM = library, inputs: torch.Tensor = inputs) -> None:
            library(inputs)[0].sum().backward()

        contenders: dict[str, Callable[[], object]] = {"nn.LSTM": run_library}
        for kind in CELLS:
            layer = RecurrentLayer(kind, size, size)

            def run(layer: RecurrentLayer = layer, inputs: torch.Tensor = inputs) -> None:
                layer(inputs, layer.zero_state(inputs.shape[1]), all_cells=False)[0].sum().backward()

            contenders[kind] = run
        show(f"one layer, forward and backward, {title}", interleaved(contenders, rounds), "nn.LSTM", batch * steps)


class PlainModel(nn.Module):
    """The word language model of many tutorials."""

    def __init__(self, vocab_size: int, size: int, num_layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, size)
        self.lstm = nn.LSTM(size, size, num_layers)
        self.decoder = nn.Linear(size, vocab_size)
        self.decoder.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor, state: Any) -> tuple[torch.Tensor, Any]:
        hidden, state = self.lstm(self.embedding(ids), state)
        return self.decoder(hidden), state


def plain_step(vocab_size: int, size: int, num_layers: int, ids: torch.Tensor) -> Callable[[], object]:
    model = PlainModel(vocab_size, size, num_layers)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    batch = ids.shape[1]
    state = [torch.zeros(num_layers, batch, size) for _ in range(2)]

    def run() -> None:
        optimizer.zero_grad()
        scores, after = model(ids[:-1], tuple(part.detach() for part in state))
        state[:] = after
        loss = functional.cross_entropy(scores.view(-1, vocab_size), ids[1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        loss.item()

    return run


def firth_step(vocab_size: int, size: int, num_layers: int, ids: torch.Tensor, noise: int = 0) -> Callable[[], object]:
    config = RecurrentConfig(vocab_size=vocab_size, embedding_dim=size, hidden_dim=size, num_layers=num_layers)
    model = Recurrent(config)
    shares = noise_probs("uniform", torch.ones(vocab_size, dtype=torch.int64).numpy())
    head = NCEOutput(size, vocab_size, True, Noise(shares), noise) if noise else TokenOutput(size, vocab_size, True)
    module = nn.ModuleList([model, head])
    optimizer = build_optimizer(module, TrainingConfig(learning_rate=1e-3, weight_decay=0.0))
    batch = ids.shape[1]
    state = model.zero_state(batch)

    def run() -> None:
        reading = model.read(ids[:-1].t(), state)
        state[:] = [part.detach() for part in reading.state]
        total = head.loss(reading.hidden_TBD.flatten(0, 1), ids[1:].reshape(-1), model.tokens.weight)
        (total / ids[1:].numel()).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.25)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        float(total.detach())

    return run


def model(rounds: int) -> None:
    for title, (batch, steps, size, vocab_size) in {
        "2 x 200 units, vocabulary 10k, 20 x 35": (20, 35, 200, 10_000),
        "2 x 650 units, vocabulary 33k, 20 x 35": (20, 35, 650, 33_278),
    }.items():
        ids = torch.randint(vocab_size, (steps + 1, batch))
        contenders = {
            "plain PyTorch": plain_step(vocab_size, size, 2, ids),
            "Firth": firth_step(vocab_size, size, 2, ids),
            "Firth, NCE": firth_step(vocab_size, size, 2, ids, 1024),
        }
        show(f"whole training step, {title}", interleaved(contenders, rounds), "plain PyTorch", batch * steps)


def outputs(rounds: int, size: int = 400, positions: int = 700) -> None:
    for vocab_size in (50_000, 200_000):
        hidden = torch.randn(positions, size, requires_grad=True)
        labels = torch.randint(vocab_size, (positions,))
        shares = noise_probs("unigram", torch.arange(vocab_size, 0, -1).numpy())
        linear = nn.Linear(size, vocab_size)
        heads: dict[str, TokenOutput] = {
            "Firth, full softmax": TokenOutput(size, vocab_size, False),
            "Firth, NCE of 1024": NCEOutput(size, vocab_size, False, Noise(shares), 1024),
        }
        for head in heads.values():
            head.start(0.05, torch.Generator().manual_seed(0), torch.full((vocab_size,), -math.log(vocab_size)))

        def plain(linear: nn.Linear = linear, hidden: torch.Tensor = hidden, labels: torch.Tensor = labels) -> None:
            linear.zero_grad()
            functional.cross_entropy(linear(hidden), labels, reduction="sum").backward()

        def run(head: TokenOutput, hidden: torch.Tensor = hidden, labels: torch.Tensor = labels) -> None:
            head.zero_grad()
            head.loss(hidden, labels, hidden).backward()  # tables of their own: the last is not read

        contenders: dict[str, Callable[[], object]] = {"nn.Linear + cross_entropy": plain}
        contenders |= {name: (lambda head=head: run(head)) for name, head in heads.items()}
        show(f"output layer, {positions} positions, vocabulary {vocab_size:,}", interleaved(contenders, rounds), "Firth, full softmax", positions)  # fmt: skip


def nce(corpus: Path, vocabularies: list[int], steps: int) -> None:
    """Both outputs on each vocabulary (words beyond it are <unk>), measured on held-out text."""
    with tempfile.TemporaryDirectory() as folder:
        for vocab_size in vocabularies or [0]:
            limit = [f"max_vocab={vocab_size}", "min_count=1"] if vocab_size else ["min_count=3"]
            for name in ("lstm-lm", "lstm-lm-nce"):
                run = Path(folder) / f"{name}-{vocab_size}"
                firth.pretrain(name, corpus=corpus, out=run, steps=steps, settings=parse_settings(limit))
                record, found = Run.open(run).record, firth.evaluate(run)
                told = "  ".join(f"{key} {value:.4g}" for key, value in found.items())
                print(f"{name:12} {record.config['model']['vocab_size']:,} words {record.seconds:7.0f} s  {told}", flush=True)  # fmt: skip


def _lines(folder: Path, part: str) -> list[list[str]]:
    """The words of each line, also of empty ones."""
    found = sorted(path for path in folder.iterdir() if part in path.name.split("."))
    if not found:
        raise SystemExit(f"{folder}: no {part} part in it")
    data = found[0].read_bytes()
    text = gzip.decompress(data) if found[0].suffix == ".gz" else data
    return [line.split() for line in text.decode().split("\n")[:-1]]


def _usual(lines: list[list[str]], known: set[str]) -> list[str]:
    """Words that are not known as <unk>; an empty line is an <eos> of its own, as usual for these texts: it is
    written behind the line before (or before the first)."""
    documents: list[list[str]] = []
    waiting: list[str] = []
    for words in lines:
        if words:
            documents.append(waiting + [word if word in known else "<unk>" for word in words])
            waiting = []
        elif documents:
            documents[-1].append("<eos>")
        else:
            waiting.append("<eos>")
    return [" ".join(words) for words in documents]


@torch.inference_mode()
def stream_loss(model: RecurrentModel, lines: list[str], num_streams: int = 10, window: int = 70) -> tuple[float, int]:
    """-log p of every token and <eos> with carried state, and their number."""
    ends = [torch.tensor([model.eos_id])]
    labels = torch.cat([part for line in lines for part in (torch.from_numpy(model.tokens.encode(line).ids), ends[0])])
    ids = torch.cat((ends[0], labels[:-1]))
    size = -(-len(labels) // num_streams)
    padded = functional.pad(torch.stack((ids, labels)), (0, size * num_streams - len(labels)), value=-1)
    ids, wanted = padded.view(2, num_streams, size)
    state, total = model.model.zero_state(num_streams), 0.0
    for start in range(0, size, window):
        reading = model.model.read(ids[:, start : start + window].clamp(min=0), state)
        state, goal = reading.state, wanted[:, start : start + window].t().flatten()
        there = goal >= 0
        hidden = reading.hidden_TBD.flatten(0, 1)[there]
        total -= float(model.head.judge(hidden, goal[there], model.model.tokens.weight)[0].double().sum())
    return total, len(labels)


def prepare_wikitext(data: Path, work: Path) -> tuple[Path, set[str]]:
    """A corpus of the training part, and the words that it knows."""
    lines = _lines(data, "train")
    counts = Counter(word for words in lines for word in words)
    known = {word for word, count in counts.items() if count >= 3}
    (work / "train.txt").write_text("\n".join(_usual(lines, known)) + "\n", encoding="utf-8")
    firth.prepare(work / "train.txt", work / "corpus", tokens="words", word_split="whitespace", lowercase=False, layout="line", heldout=0.01, overwrite=True)  # fmt: skip
    return work / "corpus", known


def wikitext(data: Path, budget: str, out: Path | None, settings: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = out or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        corpus, known = prepare_wikitext(data, work)
        run = work / "run"
        firth.pretrain("lstm-lm-regularised", corpus=corpus, out=run, budget=budget, overwrite=True, settings=parse_settings(settings))  # fmt: skip
        record = Run.open(run).record
        print(f"{record.parameters:,} parameters, {record.epochs:.2f} epochs, {record.tokens / record.seconds:,.0f} tokens/s, vocabulary {record.config['model']['vocab_size']:,}")  # fmt: skip
        for line in read_history(run / "metrics.jsonl"):
            if line["event"] == "evaluate":
                print(
                    f"  {line['seconds']:8.0f} s  held-out perplexity a token {line['heldout_perplexity_token']:8.1f}"
                )
        model = firth.load(run)
        assert isinstance(model, RecurrentModel)
        for part in ("valid", "test"):
            loss, count = stream_loss(model, _usual(_lines(data, part), known))
            print(f"{part:6} {count:,} tokens, perplexity a token {math.exp(loss / count):.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cells", "model", "outputs", "nce", "wikitext"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--corpus", type=Path, help="a text file, for nce")
    parser.add_argument(
        "--layout", default="auto", help="how the text file is divided into documents, as of firth prepare"
    )
    parser.add_argument("--as-written", action="store_true", help="words are what stands between white spaces")
    parser.add_argument("--vocab", type=int, nargs="+", default=[], help="sizes of vocabularies, for nce")
    parser.add_argument("--data", type=Path, help="a folder with train, valid and test, for wikitext and nce")
    parser.add_argument("--budget", default="30m")
    parser.add_argument("--out", type=Path)
    parser.add_argument("settings", nargs="*", help="key=value for lstm-lm-regularised")
    given = parser.parse_args()
    if given.part == "nce":
        with tempfile.TemporaryDirectory() as folder:
            if given.data is not None:
                corpus, _ = prepare_wikitext(given.data, Path(folder))
            else:
                words: dict[str, Any] = {"word_split": "whitespace", "lowercase": False} if given.as_written else {}
                corpus = Path(folder) / "corpus"
                firth.prepare(given.corpus, corpus, tokens="words", layout=given.layout, **words)
            nce(corpus, given.vocab, given.steps)
    elif given.part == "wikitext":
        wikitext(given.data, given.budget, given.out, given.settings)
    else:
        {"cells": cells, "model": model, "outputs": outputs}[given.part](given.rounds)


if __name__ == "__main__":
    main()
