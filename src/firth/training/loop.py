"""The one training loop, for every model.

A step takes its batches by number, adds the gradients of all of them, clips, and updates. All
randomness of a step is a function of (seed, step, rank), so a run that was killed and resumed
ends with the same bytes as one that was not.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from firth.core.errors import FirthError, Interrupted
from firth.core.registry import TrainingConfig, precision_context
from firth.core.types import Batch, Progress, Trainable, hashed
from firth.training.checkpoints import History, list_checkpoints, prefetched, prune, read_state, stop_signals
from firth.training.optimizer import (
    AveragedSGD,
    build_optimizer,
    give_shards,
    learning_rate,
    load_model,
    load_optimizer,
    save_checkpoint,
    set_rate,
    stopped_improving,
    whole_tensors,
)
from firth.training.ranks import Parallel, Ranks, code_hash, whole, wrap

_REPORT_S, _MIN_REPORTS = 1.0, 20  # a short run has a learning curve as well
_SAVE_S = 300.0
_MEASURED_STEPS = 9
_EVALUATING = 0.2  # of a budget


class StepResult(NamedTuple):
    """One update: loss sums and counts over all processes, tokens read, learning rate and gradient norm."""

    sums: dict[str, float]
    counts: dict[str, int]
    tokens: int
    rate: float
    norm: float


@dataclass
class Window:
    """What happened since the last report."""

    seconds: float = 0.0  # in steps: evaluations and checkpoints are not training
    steps: int = 0
    tokens: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, sums: Mapping[str, float], counts: Mapping[str, int], tokens: int, seconds: float) -> None:
        self.seconds += seconds
        self.steps += 1
        self.tokens += tokens
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + counts[name]


@dataclass(frozen=True)
class Timing:
    """Seconds of a step, of an evaluation on held-out text, and of the measuring itself."""

    step_s: float
    evaluation_s: float
    spent_s: float

    def fit(self, budget_s: float, evaluations: int, least: int = 1) -> tuple[int, int]:
        """How many steps fit into so much time, and how many of the evaluations asked for: they may take a
        fifth of it, but ``least`` are always made."""
        most = int(_EVALUATING * budget_s / max(self.evaluation_s, 1e-9))
        evaluations = max(least, min(evaluations, most))
        return max(1, int((budget_s - evaluations * self.evaluation_s) / self.step_s)), evaluations


class Loop:
    """One training: a trainable, its optimizer, where it is, and what it has to keep."""

    def __init__(
        self,
        trainable: Trainable,
        config: TrainingConfig,
        folder: Path,
        progress: Progress | None = None,
        saves: bool = True,
    ) -> None:
        """``saves=False``: short trainings that are begun again rather than resumed keep no checkpoints."""
        self.trainable = trainable
        self.config = config
        self.folder = folder
        self.saves = saves
        self.progress: Progress = progress or (lambda event: None)
        self.ranks = Ranks(config.rank_timeout_s)
        self.parallel: Parallel | None = None  # from the first step on
        try:
            self.module: nn.Module = trainable.module.to(config.device)
        except (RuntimeError, AssertionError) as error:
            raise FirthError(
                f"device '{config.device}' cannot be used ({str(error).splitlines()[0]}): try device=cpu"
            ) from None
        self.autocast = precision_context(config.precision, config.device)
        self._reset()
        self.step = 0
        self.seconds = 0.0
        self.tokens = 0
        self.averaged: list[int] = []
        self.best: dict[str, float] | None = None
        self.last: dict[str, float] = {}
        self.samples: Callable[[], list[str]] | None = None  # texts to watch by, kept after each evaluation
        self.tested: list[float] = []  # for averaged SGD: every loss on held-out text before averaging began

    def _reset(self) -> None:
        """What training changes besides the weights, as it is at the beginning."""
        self.optimizer = build_optimizer(self.module, self.config, self.trainable.rate_factors)
        self.scaler = torch.amp.GradScaler(enabled=self.config.precision == "float16")

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def sharded(self) -> bool:
        return self._join().sharded

    def require_same(self, facts: Mapping[str, str]) -> None:
        """Refuses to begin where ranks differ in their code, their settings or these facts."""
        with self.ranks.losses_named("the start"):
            self.ranks.require_same({"code": code_hash(), "settings": self.config.model_dump_json(), **facts})

    def _join(self) -> Parallel:
        """The exchange with the other ranks, once the weights to begin with are there."""
        if self.parallel is None:
            self.parallel = wrap(self.config.parallel, self.module, self.ranks, self.config.device)
            if self.parallel.sharded:
                self._reset()  # the moments are in shards as the weights are
        return self.parallel

    # -- where to begin and how far to go

    def resume(self) -> bool:
        """Goes back to the latest checkpoint; false if there is none."""
        found = list_checkpoints(self.checkpoints)
        if not found:
            return False
        self.step, path = found[-1]
        state = read_state(path)
        self._join()
        load_model(path, self.module)
        load_optimizer(path, self.module, self.optimizer)
        self.seconds, self.tokens = state["seconds"], state["tokens"]
        self.best, self.last, self.tested = state["best"], state["last"], state.get("tested", [])
        if state.get("scaler"):
            self.scaler.load_state_dict(state["scaler"])
        return True

    def measure(self, budget_s: float) -> tuple[int, int]:
        """How many steps fit into the budget, and how many evaluations."""
        timing = self.time_steps(0.1 * budget_s)
        # averaging begins by what the evaluations say
        least = self.config.average_patience + 2 if isinstance(self.optimizer, AveragedSGD) else 1
        steps, evaluations = timing.fit(budget_s - timing.spent_s, self.config.evaluations, least)
        sums = self.ranks.sum_values({"steps": steps, "evaluations": evaluations})
        return int(sums["steps"] / self.ranks.size), int(sums["evaluations"] / self.ranks.size)

    def time_steps(self, limit_s: float) -> Timing:
        """Times the first steps (at least two, the very first apart) and an evaluation, then puts everything back."""
        begun, parallel = time.perf_counter(), self._join()
        before = {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}
        times: list[float] = []
        with prefetched(self.trainable.batch, self._numbers(0, 1 << 60)) as batches:
            while len(times) < _MEASURED_STEPS:
                # all ranks must stop after the same step: they wait for each other in every one
                if len(times) >= 3 and self.ranks.any(time.perf_counter() - begun > limit_s):
                    break
                started = time.perf_counter()
                self._step(batches, 0, 1000)
                times.append(time.perf_counter() - started)
        started = time.perf_counter()
        parallel.test(self.trainable.evaluate)
        evaluation_s = time.perf_counter() - started
        self.module.load_state_dict(before)
        self._reset()
        return Timing(statistics.median(times[1:]), evaluation_s, time.perf_counter() - begun)

    def _save_every(self, steps: int) -> int:
        return math.ceil(steps / self.config.checkpoints) if self.config.checkpoints else steps

    def averaged_steps(self, steps: int) -> list[int]:
        """The checkpoints whose mean is the finished model, none for the last alone. Only those that do not
        depend on the clock, so that the same run ends the same."""
        if self.config.average == 1:
            return []
        return sorted({*range(self._save_every(steps), steps, self._save_every(steps)), steps})[-self.config.average :]

    # -- training

    def run(self, steps: int, resume_hint: str, evaluations: int | None = None) -> dict[str, float]:
        """Trains up to ``steps``, tested ``evaluations`` times (as configured, if not said); returns the last metrics."""
        self._join()
        count = self.config.evaluations if evaluations is None else evaluations
        every = math.ceil(steps / count) if count else steps
        save_every = self._save_every(steps)
        self.averaged = self.averaged_steps(steps)
        if self.ranks.first:
            self._prune()  # what a killed process had no time to
        saved = time.perf_counter()
        window = Window()
        with stop_signals() as stop, prefetched(self.trainable.batch, self._numbers(self.step, steps)) as batches:
            history = History(self.folder / "metrics.jsonl", self.step) if self.ranks.first else None
            while self.step < steps:
                begun = time.perf_counter()
                with self.ranks.losses_named(f"step {self.step + 1}"):
                    self.ranks.beat(self.step)
                    result = self._step(batches, self.step, steps)
                self.step += 1
                elapsed = time.perf_counter() - begun
                window.add(result.sums, result.counts, result.tokens, elapsed)
                self.tokens += result.tokens
                self.seconds += elapsed
                final = self.step == steps
                due = window.seconds > _REPORT_S or final
                if due or self.step * _MIN_REPORTS // steps > (self.step - 1) * _MIN_REPORTS // steps:
                    self._report(window, steps, history, result, shown=due)
                    window = Window()
                if self.step % every == 0 or final:
                    self._evaluate(history)
                # all ranks must do the same, and their clocks differ
                late = time.perf_counter() - saved > _SAVE_S
                with self.ranks.losses_named(f"step {self.step}"):
                    votes = self.ranks.sum_counts(
                        {"halt": len(stop), "late": int(late), "enough": int(self.trainable.enough())}
                    )
                halt = votes["halt"] > 0
                if self.saves and (
                    self.step % save_every == 0 or self.step % every == 0 or final or halt or votes["late"]
                ):
                    self._save()
                    saved = time.perf_counter()
                if halt and not final:
                    kept = ", which is saved" if self.saves else ""
                    raise Interrupted(f"stopped at step {self.step} of {steps}{kept}", f"go on with: {resume_hint}")
                if votes["enough"]:
                    break
        return self.last

    def _numbers(self, step: int, steps: int) -> Iterator[int]:
        """The batches of this rank from a step on."""
        share, divided = self.config.gradient_accumulation, getattr(self.trainable, "divides_batches", False)
        size, rank = (1, 0) if divided else (self.ranks.size, self.ranks.rank)
        for at in range(step, steps):
            for part in range(share):
                yield (at * size + rank) * share + part

    def _step(self, batches: Iterator[Batch], step: int, steps: int) -> StepResult:
        """One update from ``accumulation`` batches; equal to one batch of all of them, unless their rows are compared (``half_weight``)."""
        parts = [next(batches) for _ in range(self.config.gradient_accumulation)]
        own = {name: sum(part.counts[name] for part in parts if part.counted) for name in parts[0].counts}
        counts = self.ranks.sum_counts(own)
        factors = self.ranks.sum_values({"rate": statistics.mean(part.rate for part in parts)})
        rate = learning_rate(self.config, step, steps) * factors["rate"] / self.ranks.size
        set_rate(self.optimizer, rate)
        torch.manual_seed(int(hashed(self.config.seed, step, self.ranks.rank)) >> 1)
        self.module.train()
        sums: dict[str, float] = dict.fromkeys(counts, 0.0)
        parallel = self._join()
        for number, part in enumerate(parts):
            with parallel.collecting(number == len(parts) - 1):
                total, found = parallel.run(partial(self._loss, part, counts))
                self.scaler.scale(total).backward()
            for name, value in found.items():
                sums[name] += float(value.detach())
        self.scaler.unscale_(self.optimizer)
        limit = self.config.clip_norm or math.inf
        norm = float(whole(nn.utils.clip_grad_norm_(self.module.parameters(), limit)))
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            raise FirthError(self._not_finite(step))
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        totals = self.ranks.sum_values({**sums, "tokens": sum(part.num_tokens for part in parts)})
        tokens = int(totals.pop("tokens"))
        return StepResult(totals, counts, tokens, rate, norm)

    def _loss(self, part: Batch, counts: Mapping[str, int]) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """What the step learns from a batch, and the sums of its losses."""
        with self.autocast:
            losses = self.trainable.loss(part.to(self.config.device))
        weights = self.trainable.weights
        total = sum((weights.get(name, 1.0) / max(counts[name], 1)) * value for name, value in losses.sums.items())
        assert isinstance(total, torch.Tensor)
        if not part.counted:
            return 0 * total, {name: 0 * value for name, value in losses.sums.items()}
        return total, losses.sums

    def _not_finite(self, step: int) -> str:
        found = list_checkpoints(self.checkpoints)
        last = f"the last good checkpoint is {found[-1][1]}" if found else "there is no checkpoint yet"
        return f"loss or gradient became NaN or infinite at step {step + 1}; {last}; train with a smaller learning_rate or clip_norm"

    # -- reports, evaluations, checkpoints

    def _report(self, window: Window, steps: int, history: History | None, result: StepResult, shown: bool) -> None:
        means = {name: window.sums[name] / max(window.counts[name], 1) for name in window.sums}
        loss = sum(self.trainable.weights.get(name, 1.0) * mean for name, mean in means.items())
        line = {
            "event": "train",
            "step": self.step,
            "steps": steps,
            "loss": loss,
            **{f"loss_{name}": mean for name, mean in means.items() if len(means) > 1},
            "learning_rate": result.rate,
            "gradient_norm": result.norm,
            "tokens": self.tokens,
            "tokens_per_s": window.tokens / window.seconds,
            "seconds": self.seconds,
        }
        if history:
            history.add(line)
        if self.ranks.first and shown:
            self.progress(line)

    def _evaluate(self, history: History | None) -> None:
        means = self.optimizer.averaged() if isinstance(self.optimizer, AveragedSGD) else nullcontext()
        with means, self.ranks.losses_named("an evaluation on held-out text"):
            found = self._join().test(self.trainable.evaluate)
        if not found:
            return
        if not math.isfinite(found.get("loss", 0.0)):
            raise FirthError(self._not_finite(self.step - 1))
        self._watch(found)
        self.last = found
        if "loss" in found and (self.best is None or found["loss"] < self.best["loss"]):
            self.best = {**found, "step": self.step}
        line = {
            "event": "evaluate",
            "step": self.step,
            "seconds": self.seconds,
            **{f"heldout_{name}": value for name, value in found.items()},
        }
        if history:
            history.add(line)
            if self.samples is not None and self.ranks.size == 1 and (texts := self.samples()):
                history.add({"event": "samples", "step": self.step, "texts": texts})
        if self.ranks.first:
            self.progress(line)

    def _watch(self, found: Mapping[str, float]) -> None:
        """Averaging begins once the loss on held-out text has stopped to fall."""
        if isinstance(self.optimizer, AveragedSGD) and not self.optimizer.averages and "loss" in found:
            if stopped_improving(self.tested, found["loss"], self.config.average_patience):
                self.optimizer.begin_average()
            self.tested.append(found["loss"])

    def take_average(self) -> None:
        """The mean of the iterates becomes the model, where there is one."""
        if isinstance(self.optimizer, AveragedSGD):
            self.optimizer.exchange()

    def whole_state(self) -> dict[str, torch.Tensor]:
        """All weights and buffers, with the lanes of all ranks."""
        return whole_tensors(self._state())

    def _state(self) -> dict[str, torch.Tensor]:
        """By name; weights may be shards, lanes are whole."""
        lanes: Mapping[str, int] = getattr(self.trainable, "lanes", {})
        return {
            name: self.ranks.whole_lanes(tensor, lanes[name]) if name in lanes else tensor
            for name, tensor in self.module.state_dict().items()
        }

    def _prune(self) -> None:
        best = int(self.best["step"]) if self.best else None
        prune(self.checkpoints, self.config.keep, best, self.averaged)

    def _save(self) -> None:
        """Written once, by the first rank; the others give their shards and lanes."""
        with self.ranks.losses_named(f"the checkpoint of step {self.step}"):
            tensors = self._state()
            state = {
                "seconds": self.seconds,
                "tokens": self.tokens,
                "best": self.best,
                "last": self.last,
                "tested": self.tested,
                "scaler": self.scaler.state_dict(),
            }
            if self.ranks.first:
                save_checkpoint(self.checkpoints, self.step, self.module, self.optimizer, state, tensors)
                self._prune()
            elif self._join().sharded:
                give_shards(self.module, self.optimizer, tensors)
            self.ranks.wait()
