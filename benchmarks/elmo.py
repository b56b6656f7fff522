"""ELMo: what it saves to look at characters once a distinct word, and what the softmaxes cost and give.

    python benchmarks/elmo.py words TEXT... [--recipe elmo-small] [--repeats 5] [--settings key=value ...]
    python benchmarks/elmo.py softmax TEXT... [--recipe elmo-small] [--minutes 10] [--settings key=value ...]

``words``: tokens/s of whole training steps (batch, forward, backward, update), contenders in turn, medians: every
word of both directions by itself over all 50 characters, as the original graph has it; once a distinct word; once a
distinct word without padding that no convolution can tell apart (what Firth does).
``softmax``: the same recipe for the same wall-clock time with each softmax, then the perplexity over the whole
vocabulary on the same held-out text, the softmax's parameters, and tokens/s.
Held-out text is set apart by ``firth prepare``; a corpus folder may be given instead of text.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from firth import api
from firth.assembly.elmo import ElmoFamily
from firth.core.configs import RunConfig
from firth.core.runs import Run
from firth.corpus.format import Corpus
from firth.objectives.both_directions import BothDirections, Ids
from firth.recipes.registry import find_recipe
from firth.training.optimizer import build_optimizer


class EveryWord(BothDirections):
    """Each place by itself, with all its padding."""

    def distinct(self, inputs: Ids) -> tuple[Ids, Ids]:
        return inputs.reshape(-1), np.arange(inputs.size).reshape(inputs.shape)

    def spell(self, types: Ids) -> Ids:
        return self.spellings.characters(types, self.spellings.max_chars)


class WithPadding(BothDirections):
    """Once a distinct word, with all its padding."""

    spell = EveryWord.spell


WAYS = {"every word": EveryWord, "distinct words": WithPadding, "distinct, trimmed (Firth)": BothDirections}
SOFTMAXES = {
    "full": ["softmax=table", "num_samples=0"],
    "sampled": ["softmax=table"],
    "characters, sampled": ["softmax=characters"],
    "characters shared with input, sampled": ["softmax=characters", "softmax_network=shared"],
}


class Contender:
    """A family whose objective looks at characters in its own way."""

    def __init__(self, config: RunConfig, corpus: Corpus, way: type[BothDirections]) -> None:
        self.family = ElmoFamily(config, corpus)
        self.family.objective.__class__ = way
        self.optimizer = build_optimizer(self.family.module, config.training)
        self.family.module.train()
        self.step = 0

    def time_step(self) -> tuple[float, int]:
        started = time.perf_counter()
        batch = self.family.batch(self.step)
        losses = self.family.loss(batch.to("cpu"))
        (sum(losses.sums.values()) / batch.num_tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.family.module.parameters(), 10.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return time.perf_counter() - started, batch.num_tokens


def compare_words(config: RunConfig, corpus: Corpus, repeats: int) -> None:
    contenders = {name: Contender(config, corpus, way) for name, way in WAYS.items()}
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, contender in contenders.items():
            seconds, tokens = contender.time_step()
            if turn:  # the first builds tables and warms caches
                speeds[name].append(tokens / seconds)
    arrays = contenders["distinct words"].family.batch(0).arrays
    print(f"{arrays['inputs'].size:,} places a batch, {int(arrays['num_inputs']):,} distinct words")
    slowest = statistics.median(speeds["every word"])
    print(f"\n{'':<28} {'tokens/s':>9} {'slowest - fastest':>20} {'ratio':>6}")
    for name, values in speeds.items():
        middle = statistics.median(values)
        print(f"{name:<28} {middle:9,.0f} {min(values):9,.0f} - {max(values):8,.0f} {middle / slowest:5.2f}x")


def compare_softmaxes(config: RunConfig, path: Path, minutes: float, folder: Path) -> None:
    print(f"\n{'softmax':<38} {'perplexity':>10} {'forward':>8} {'backward':>8} {'parameters':>11} {'tokens/s':>9}")
    corpus = Corpus.open(path)
    for number, (name, settings) in enumerate(SOFTMAXES.items()):
        out = folder / f"run-{number}"
        chosen = config.override([*settings, f"budget={minutes * 60:.0f}s"])
        api.pretrain(chosen, corpus=path, out=out)
        facts = Run.open(out).facts
        family = ElmoFamily(chosen.override(["evaluation_batches=64"]), corpus)
        family.restore(out)
        scores = family.evaluate()
        parameters = sum(parameter.numel() for parameter in family.objective.parameters())
        print(
            f"{name:<38} {scores['perplexity']:10.1f} {scores['forward_perplexity']:8.1f} {scores['backward_perplexity']:8.1f}"
            f" {parameters:11,} {facts['tokens'] / facts['seconds']:9,.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["words", "softmax"])
    parser.add_argument("text", nargs="+", help="files of text, or one corpus of words")
    parser.add_argument("--recipe", default="elmo-small")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--settings", nargs="*", default=[])
    arguments = parser.parse_args()
    config = find_recipe(arguments.recipe).override(arguments.settings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = Path(arguments.text[0])
        if not (path / "corpus.json").is_file():
            path = folder / "corpus"
            api.prepare(arguments.text, path, tokens="words", layout="line")
        if arguments.what == "words":
            compare_words(config, Corpus.open(path), arguments.repeats)
        else:
            compare_softmaxes(config, path, arguments.minutes, folder)


if __name__ == "__main__":
    main()
