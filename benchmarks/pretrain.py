"""Masked-token pre-training: Firth against transformers' usual loop, same model, data and batch.

    python benchmarks/pretrain.py [--corpus CORPUS] [--rounds 5] [--only WORDS] [--tricks]

Contenders take turns; figures are medians. Useful tokens are those that are not padding.
transformers: BertForMaskedLM, AdamW, dropout 0.1, rows padded to the longest, the head on every
position, as run_mlm does it. Firth: packed rows, the head on masked positions only.
``--tricks``: Firth's own step with one of its tricks taken away at a time.
The share of the matmul peak counts the multiplications that Firth really does, not those it saves.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

import firth
from firth.cli.quickstart import write_sample
from firth.core.registry import TrainingConfig
from firth.core.types import Batch, Inputs, Losses
from firth.corpus.format import Corpus, PackedRows, Split
from firth.models.bert.config import MaskedTokensConfig
from firth.models.bert.objective import MaskedTokens
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.rows import Specials, specials_of
from firth.nn.blocks import initialize
from firth.training.optimizer import build_optimizer

ROWS, LENGTH = 32, 128
SIZES = {"256 x 4, vocabulary 8k": (256, 4, 8000), "512 x 6, vocabulary 30k": (512, 6, 30522)}
Step = Callable[[], int]  # one step; how many useful tokens it took


def peak_gflops() -> float:
    """The best of a few large matrix products."""
    matrix = torch.randn(1024, 1024)
    best = 0.0
    for _ in range(20):
        started = time.perf_counter()
        torch.mm(matrix, matrix)
        best = max(best, 2 * 1024**3 / (time.perf_counter() - started) / 1e9)
    return best


def paragraphs(corpus: Corpus, vocab_size: int, full: bool, seed: int) -> list[np.ndarray]:
    """Token ids of real paragraphs, or of full rows, with [CLS] and [SEP]."""
    generator = np.random.default_rng(seed)
    tokens, starts = corpus.train.tokens, corpus.train.document_starts
    room = LENGTH - 2
    found = []
    for document in generator.permutation(len(starts) - 1)[: 40 * ROWS].tolist():
        begin, end = int(starts[document]), int(starts[document + 1])
        sentences = corpus.train.sentences
        first, last = np.searchsorted(sentences, [begin, end])
        while first < last:  # a paragraph: up to three sentences
            stop = min(first + int(generator.integers(1, 4)), last)
            ids = np.asarray(tokens[sentences[first] : sentences[stop]], np.int64)[:room]
            first = stop
            found.append(ids)
    if full:
        together = np.concatenate(found)
        found = [together[at : at + room] for at in range(0, len(together) - room, room)]
    return [np.concatenate(([2], ids % vocab_size, [3])) for ids in found]


def peer(size: tuple[int, int, int], rows: list[np.ndarray], attention: str) -> Step:
    """transformers as people run it."""
    hidden, layers, vocab = size
    config = BertConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        attn_implementation=attention,
    )
    model = BertForMaskedLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = np.random.default_rng(1)
    place = 0

    def step() -> int:
        nonlocal place
        chosen = [rows[(place + row) % len(rows)] for row in range(ROWS)]
        place += ROWS
        longest = max(map(len, chosen))
        ids = np.zeros((ROWS, longest), np.int64)
        mask = np.zeros((ROWS, longest), np.int64)
        for row, tokens in enumerate(chosen):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        labels = np.where((generator.random(ids.shape) < 0.15) & (ids > 4), ids, -100)
        ids = np.where((labels >= 0) & (generator.random(ids.shape) < 0.8), 4, ids)
        tensors = {"input_ids": ids, "attention_mask": mask, "labels": labels}
        loss = model(**{name: torch.from_numpy(array) for name, array in tensors.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return int(mask.sum())

    return step


class Packed:
    """Firth's rows over the same paragraphs."""

    def __init__(self, rows: list[np.ndarray]) -> None:
        lens = np.asarray([len(ids) - 2 for ids in rows])
        self.tokens = np.concatenate([ids[1:-1] for ids in rows])
        self.rows = PackedRows(np.cumsum(lens) - lens, lens, LENGTH, 2, 0)


def firth_step(
    size: tuple[int, int, int], packed: Packed, specials: Specials, without: str = ""
) -> tuple[Step, Callable[[], Batch]]:
    """One step of Firth's loop, batches ready as the background thread has them; ``without`` one of TRICKS."""
    hidden, layers, vocab = size
    config = EncoderConfig(
        vocab_size=vocab,
        hidden_dim=hidden,
        num_layers=layers,
        num_heads=hidden // 64,
        ffn_dim=4 * hidden,
        dropout_prob=0.1 if without == "no dropout" else 0.0,
        attention_dropout_prob=0.1 if without == "no dropout" else 0.0,
    )
    encoder = Encoder(config)
    objective = MaskedTokens(MaskedTokensConfig(seq_len=LENGTH), config, specials)
    module = torch.nn.ModuleDict({"encoder": encoder, "objective": objective}).train()
    initialize(module, 0.02, torch.Generator().manual_seed(0))
    optimizer = (
        torch.optim.AdamW(module.parameters(), lr=1e-4, foreach=False)
        if without == "fused optimizer"
        else build_optimizer(module, TrainingConfig())
    )
    compute = (
        torch.compile(objective.loss)
        if without == "no compiling"
        else whole_rows(objective, without == "head on masked tokens")
        if without in ("last block on masked tokens", "head on masked tokens")
        else objective.loss
    )
    place = 0

    def batch() -> Batch:
        nonlocal place
        made = objective.batch(cast(Split, packed), packed.rows, 0, place, ROWS)
        place += ROWS
        return made

    def step() -> int:
        made = batch().to("cpu")
        loss = compute(encoder, made).sums["masked"] / made.counts["masked"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return made.num_tokens

    return step, batch


TRICKS = (
    "packed rows",
    "last block on masked tokens",
    "head on masked tokens",
    "no dropout",
    "fused optimizer",
    "no compiling",
)


def whole_rows(objective: MaskedTokens, all_heads: bool) -> Callable[[Encoder, Batch], Losses]:
    """The loss with the last block, and if asked the head, computed at every token."""

    def loss(encoder: Encoder, batch: Batch) -> Losses:
        tensors = batch.tensors
        hidden = encoder.last(Inputs.of(tensors))
        rows = torch.arange(len(hidden))[:, None].expand_as(tensors["picks"])
        table = encoder.embeddings.tokens.weight
        if all_heads:
            scores = objective.head(hidden.flatten(0, 1), table).unflatten(0, hidden.shape[:2])[rows, tensors["picks"]]
        else:
            scores = objective.head(hidden[rows, tensors["picks"]], table)
        chosen = scores.flatten(0, 1)[tensors["masked"]]
        return Losses({"masked": torch.nn.functional.cross_entropy(chosen, tensors["labels"], reduction="sum")})

    return loss


class Apart(Packed):
    """A row a paragraph, padded."""

    def __init__(self, rows: list[np.ndarray]) -> None:
        super().__init__(rows)
        self.rows.first = np.arange(len(self.rows.members) + 1)  # each sequence a row of its own


def measure_tricks(name: str, size: tuple[int, int, int], rows: list[np.ndarray], corpus: Corpus, rounds: int) -> None:
    """Each trick taken away by itself, on real paragraphs."""
    specials = specials_of(corpus.pieces, corpus.folder)
    steps = {"all of them": firth_step(size, Packed(rows), specials)[0]}
    for trick in TRICKS:
        packed = Apart(rows) if trick == "packed rows" else Packed(rows)
        steps[f"without: {trick}"] = firth_step(size, packed, specials, trick)[0]
    speeds: dict[str, list[float]] = {title: [] for title in steps}
    for number in range(rounds + 1):
        for title, step in steps.items():
            started = time.perf_counter()
            tokens = sum(step() for _ in range(3 if number else 1))
            if number:
                speeds[title].append(tokens / (time.perf_counter() - started))
    best = statistics.median(speeds["all of them"])
    print(f"\ntricks, {name}, real paragraphs")
    for title, found in speeds.items():
        print(f"  {title:<38} {statistics.median(found):>8,.0f} tokens/s {statistics.median(found) / best:6.2f}x")


def flops_a_token(size: tuple[int, int, int]) -> float:
    """Multiplications and additions that Firth does for a token, forward and backward."""
    hidden, layers, vocab = size
    share = 0.15
    block = 2 * 12 * hidden**2 + 4 * LENGTH * hidden
    last = 2 * (2 + 10 * share) * hidden**2 + 4 * LENGTH * hidden * share
    head = share * 2 * (hidden**2 + hidden * vocab)
    return 3 * ((layers - 1) * block + last + head)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a corpus of wordpiece; by default the English sample is prepared")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tricks", action="store_true", help="Firth without one of its tricks at a time")
    parser.add_argument("--only", default="", help="comparisons that have this in their title")
    parser.add_argument("--steps", type=int, default=3, help="steps of a contender in a round")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.corpus
        if path is None:
            path = Path(folder) / "corpus"
            write_sample("en", Path(folder) / "text.txt")
            firth.prepare(Path(folder) / "text.txt", path, layout="line")
        corpus = Corpus.open(path, verify=False)
        print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, rows {ROWS} x {LENGTH}")
        for name, size in SIZES.items():
            if arguments.tricks:
                measure_tricks(name, size, paragraphs(corpus, size[2], False, 0), corpus, arguments.rounds)
                continue
            for kind, full in (("full rows", True), ("real paragraphs", False)):
                if arguments.only in f"{name}, {kind}":
                    compare(f"{name}, {kind}", size, paragraphs(corpus, size[2], full, 0), corpus, arguments)


def compare(
    title: str, size: tuple[int, int, int], rows: list[np.ndarray], corpus: Corpus, arguments: argparse.Namespace
) -> None:
    step, batch = firth_step(size, Packed(rows), specials_of(corpus.pieces, corpus.folder))
    contenders = {
        "transformers, eager": peer(size, rows, "eager"),
        "transformers, sdpa": peer(size, rows, "sdpa"),
        "firth": step,
    }
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    peaks, building = [], []
    for number in range(arguments.rounds + 1):
        peaks.append(peak_gflops())
        for name, contender in contenders.items():
            started = time.perf_counter()
            tokens = sum(contender() for _ in range(arguments.steps if number else 1))
            if number:
                speeds[name].append(tokens / (time.perf_counter() - started))
        started = time.perf_counter()
        made = batch()
        building.append((time.perf_counter() - started) / made.num_tokens)
    peak = statistics.median(peaks)
    print(f"\n{title}   (matmul peak {peak:.0f} GFLOP/s)")
    best = statistics.median(speeds["transformers, sdpa"])
    for name, found in speeds.items():
        speed = statistics.median(found)
        print(f"  {name:<20} {speed:>8,.0f} tokens/s   {min(found):>7,.0f} - {max(found):<7,.0f} {speed / best:5.2f}x")
    speed = statistics.median(speeds["firth"])
    useful = speed * flops_a_token(size) / 1e9
    print(
        f"  firth does {useful:.0f} GFLOP/s, {useful / peak:.0%} of the peak; building a batch takes {statistics.median(building) * speed:.1%} of a step (in the background)"
    )


if __name__ == "__main__":
    main()
