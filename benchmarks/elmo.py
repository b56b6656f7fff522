"""ELMo: what it saves to look at characters once a distinct word, what the softmaxes cost and give, what tasks gain.

    python benchmarks/elmo.py words TEXT... [--recipe elmo-small] [--repeats 5] [--settings key=value ...]
    python benchmarks/elmo.py softmax TEXT... [--recipe elmo-small] [--minutes 10] [--only NAME] [--settings key=value ...]
    python benchmarks/elmo.py tasks --elmo RUN --vectors FILE --data tag:TRAIN:DEV classify:TRAIN:DEV [--seeds 3]
                                    [--shares 0.01,0.05,0.1,0.25,1] [--limit N] [--task-settings key=value ...] [--plot FILE.html] [--only-shares]

``words``: tokens/s of whole training steps (batch, forward, backward, update), contenders in turn, medians: every
word of both directions by itself over all 50 characters, as the original graph has it; once a distinct word; once a
distinct word without padding that no convolution can tell apart (what Firth does).
``softmax``: the same recipe for the same wall-clock time with each softmax, then the perplexity over the whole
vocabulary on the same held-out text, the softmax's parameters, and tokens/s.
``tasks``: a BiLSTM over word vectors alone, and with a mix of ELMo's layers below it, above it and in both places (Peters et
al. 2018, §3.3, §5.1, §5.2), each with λ = 1 and λ = 0.001 on the mix; dev score of the best epoch, mean and standard deviation
over seeds, the learned mix of the first seed. Then the same task from shares of the labels (§5.4, figure 1) with and without
ELMo. ELMo and the vectors are not tuned. ``--limit`` takes about so many examples of every file; ``--shares ""`` leaves that out,
and ``--plot`` draws them.
Held-out text is set apart by ``firth prepare``; a corpus folder may be given instead of text.
"""

import argparse
import html
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import firth
from firth.core.files import write_text
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run, SharePoint
from firth.core.types import Progress
from firth.corpus.format import Corpus
from firth.models.elmo.objective import BothDirections, ElmoPretraining, Ids
from firth.models.shared.static import ExtraVectors
from firth.reports.page import page
from firth.tasks.config import TaskConfig
from firth.tasks.data import Reading, TaskData, build_data, check_shares, read_examples, take_share
from firth.tasks.finetune import default_settings, load_base, points_of, share_chart, train_model, with_share
from firth.tasks.model import load_extra_vectors
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
    "characters, 256 samples": ["softmax=characters", "num_samples=256"],
    "characters shared with input, 256": ["softmax=characters", "softmax_network=shared", "num_samples=256"],
}
METRICS = {"tag": "f1", "classify": "accuracy"}


class Contender:
    """A family whose objective looks at characters in its own way."""

    def __init__(self, config: RunConfig, corpus: Corpus, way: type[BothDirections]) -> None:
        self.family = ElmoPretraining(config, corpus)
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


def compare_softmaxes(config: RunConfig, path: Path, minutes: float, folder: Path, only: str) -> None:
    print(f"\n{'softmax':<38} {'perplexity':>10} {'forward':>8} {'backward':>8} {'parameters':>11} {'tokens/s':>9}")
    corpus = Corpus.open(path)
    for number, (name, settings) in enumerate(SOFTMAXES.items()):
        if only and not name.startswith(only):
            continue
        out = folder / f"run-{number}"
        chosen = config.override([*settings, f"budget={minutes * 60:.0f}s"])
        firth.pretrain(chosen, corpus=path, out=out)
        record = Run.open(out).record
        family = ElmoPretraining(chosen.override(["evaluation_batches=64"]), corpus)
        family.restore(out)
        scores = family.evaluate()
        parameters = sum(parameter.numel() for parameter in family.objective.parameters())
        print(
            f"{name:<38} {scores['perplexity']:10.1f} {scores['forward_perplexity']:8.1f} {scores['backward_perplexity']:8.1f}"
            f" {parameters:11,} {record.tokens / record.seconds:9,.0f}",
            flush=True,
        )


# -- tasks


def read_data(word: str, limit: int) -> tuple[str, TaskData]:
    kind, train, dev = word.split(":")
    files = [read_examples(kind, Path(path), Reading(), for_scoring=path == dev) for path in (train, dev)]
    if limit:
        files = [take_share(some, min(1.0, limit / len(some)), 0) for some in files]
    data = build_data(kind, *files)
    data.check.refuse()
    return kind, data


def contenders() -> dict[str, dict[str, Any]]:
    """Settings by name; the first has no ELMo."""
    found: dict[str, dict[str, Any]] = {"word vectors only": {}}
    for place in ("input", "output", "both"):
        for l2 in (1.0, 0.001):
            found[f"+ ELMo, {place}, λ {l2:g}"] = {"layers": "mix", "place": place, "mix_l2": l2}
    return found


def prepared(
    kind: str, data: TaskData, settings: dict[str, Any], own: dict[str, Any], base: str, num_train: int
) -> TaskConfig:
    """Complete settings of a contender that learns from so many examples."""
    given = {"body": "bilstm", "tune": False, **settings, **own}
    config = data.configured(TaskConfig.build({"task": kind, **given}, "benchmark"))
    return default_settings(config, load_base(base, data, config), num_train, set(given))


def compare_tasks(arguments: argparse.Namespace) -> None:
    vectors = load_extra_vectors(Path(arguments.vectors))
    settings = dict(word.split("=", 1) for word in arguments.task_settings)
    charts = []
    for word in arguments.data:
        kind, data = read_data(word, arguments.limit)
        print(f"\n{word}: {len(data.train):,} examples to learn from, {len(data.dev):,} to test", flush=True)
        for name, own in contenders().items() if not arguments.only_shares else ():
            base = arguments.elmo if own else arguments.vectors
            config = prepared(kind, data, settings, own, base, len(data.train))
            results, started = [], time.perf_counter()
            for seed in range(arguments.seeds):
                chosen = config.replace(seed=seed)
                with tempfile.TemporaryDirectory() as folder:
                    model, trainable, _ = train_model(
                        chosen, load_base(base, data, chosen), data, Path(folder), None, vectors if own else None
                    )
                assert trainable.best is not None
                results.append((trainable.best[trainable.task.metric], model.network.learned_mixes()))
            scores = [score for score, _ in results]
            spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
            mixes = "  ".join(
                f"{place} {' '.join(f'{weight:.2f}' for weight in mix.weights)} γ {mix.gamma:.2f}"
                for place, mix in results[0][1].items()
            )
            each = (time.perf_counter() - started) / arguments.seeds
            print(
                f"  {name:<26} {trainable.task.metric} {statistics.mean(scores):.4f} ± {spread:.4f}  {each:7.1f} s each  {mixes}",
                flush=True,
            )
        if arguments.shares:
            curves = compare_shares(kind, data, settings, arguments)
            metric = METRICS[kind]
            charts.append(
                f"<h2>{html.escape(kind)}: {metric} by labels</h2><figure>{share_chart(curves, metric)}</figure>"
            )
    if arguments.plot and charts:
        write_text(arguments.plot, page("With and without ELMo", "".join(charts)))


def learn_from_shares(
    settings: Callable[[int], TaskConfig],
    base: str,
    data: TaskData,
    shares: Sequence[float],
    seeds: int = 3,
    extra_vectors: ExtraVectors | None = None,
    progress: Progress | None = None,
) -> list[SharePoint]:
    """One point per share, the smallest first.

    ``settings`` for so many examples are complete (``TaskData.configured``, ``default_settings``), so the labels are those of
    all the data, and few examples are read more often. Each seed draws shares of its own, so that the spread is also that of which examples were labelled.
    """
    results = []
    for share in check_shares(shares):
        config = settings(round(share * len(data.train)))
        for number in range(seeds):
            chosen = config.replace(seed=config.seed + number)
            part = with_share(data, share, chosen.seed)
            with tempfile.TemporaryDirectory() as folder:
                _, trainable, _ = train_model(
                    chosen, load_base(base, part, chosen), part, Path(folder), progress, extra_vectors
                )
            assert trainable.best is not None, "sample efficiency needs dev examples"
            results.append((share, len(part.train), trainable.best[trainable.task.metric]))
    return points_of(results)


def compare_shares(
    kind: str, data: TaskData, settings: dict[str, Any], arguments: argparse.Namespace
) -> dict[str, list[SharePoint]]:
    vectors = load_extra_vectors(Path(arguments.vectors))
    shares = [float(word) for word in arguments.shares.split(",")]
    named, curves = contenders(), {}
    for name in ("word vectors only", "+ ELMo, both, λ 0.001"):
        own = named[name]
        base = arguments.elmo if own else arguments.vectors
        settle = partial(prepared, kind, data, settings, own, base)
        curves[name] = learn_from_shares(settle, base, data, shares, arguments.seeds, vectors if own else None)
        for point in curves[name]:
            print(
                f"  {name:<26} {100 * point.share:5.4g} % {point.examples:7,}  {point.mean:.4f} ± {point.deviation:.4f}",
                flush=True,
            )
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["words", "softmax", "tasks"])
    parser.add_argument("text", nargs="*", help="files of text, or one corpus of words")
    parser.add_argument("--recipe", default="elmo-small")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--settings", nargs="*", default=[])
    parser.add_argument("--only", default="", help="softmax: those whose names begin so")
    parser.add_argument("--elmo", help="tasks: a run of ELMo or a published pair")
    parser.add_argument("--vectors", help="tasks: word vectors, a file or a run")
    parser.add_argument("--data", nargs="+", default=[], help="tasks: KIND:TRAIN:DEV")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=0, help="tasks: about so many examples of every file")
    parser.add_argument("--shares", default="0.01,0.05,0.1,0.25,1")
    parser.add_argument("--only-shares", action="store_true", help="tasks: nothing else")
    parser.add_argument("--task-settings", nargs="*", default=[])
    parser.add_argument("--plot", type=Path, help="tasks: a page with the curves of the shares")
    arguments = parser.parse_args()
    if arguments.what == "tasks":
        if not (arguments.elmo and arguments.vectors and arguments.data):
            parser.error("tasks needs --elmo, --vectors and --data")
        compare_tasks(arguments)
        return
    if not arguments.text:
        parser.error(f"{arguments.what} needs text: name files or a corpus")
    config = find_run_recipe(arguments.recipe).override(arguments.settings)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = Path(arguments.text[0])
        if not (path / "corpus.json").is_file():
            path = folder / "corpus"
            firth.prepare(arguments.text, path, tokens="words", layout="line")
        if arguments.what == "words":
            compare_words(config, Corpus.open(path), arguments.repeats)
        else:
            compare_softmaxes(config, path, arguments.minutes, folder, arguments.only)


if __name__ == "__main__":
    main()
