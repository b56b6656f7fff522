"""``firth finetune classify`` on images: a linear model on the frozen vectors of the base, then the base tuned from that head; the
better one on the dev images is kept, calibrated by them. The run is a directory of the base's own format.

Without dev images a stratified fifth of the training images decides, and the better one is trained again on all. A run that
was interrupted goes on with the same command.
"""

import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.config import parse_duration, usable_cores
from firth.core.errors import FirthError
from firth.core.files import atomic_folder, checksum
from firth.core.registry import RunConfig, TrainingConfig
from firth.core.run import CalibrationResult, CandidateResult, CellSettings, Run, ScoreInterval, TaskResult, is_run
from firth.core.types import Prediction, Progress
from firth.corpus.images import ImageCorpus, ImageReading, ImageSplit, as_shares, normalize, write_images
from firth.data.images import MAX_PIXELS, ImageExample, find_images, label_names
from firth.data.labelled import TextExample
from firth.models.pretrain import resume_run, start_run
from firth.models.shared.configs import ImageClassesConfig
from firth.models.shared.image_model import ImageModel, class_predictions
from firth.models.shared.model import load_model
from firth.reports.card import write_card
from firth.tasks.config import TaskConfig
from firth.tasks.data import build_data
from firth.tasks.finetune import tuned_rate
from firth.tasks.linear import NUM_FOLDS, fit_logistic, stratified_folds
from firth.tasks.report import write_task_report
from firth.tasks.run import HISTORY, Source, open_or_create, task_record
from firth.tasks.scores import (
    accuracy,
    classify_scores,
    confusion_interval,
    error_of,
    fit_factor,
    label_scores,
    log_probs,
    rescaled,
)
from firth.training.checkpoints import learning, same_command

_UNDERSTOOD = {
    "candidates",
    "budget",
    "batch_size",
    "learning_rate",
    "epochs",
    "warmup_ratio",
    "weight_decay",
    "seed",
    "device",
}
_OF_TRAINING = {"batch_size", "learning_rate", "epochs", "warmup_ratio", "weight_decay"}
_SEEN, _FEWEST, _MOST = 50_000, 5, 30  # images that tuning sees at least, in so many epochs
_BATCH, _DECAY = 64, 0.05
_LEARNING = 3.3  # so many times as long as reading an image takes learning from it
_HELDOUT_FOLDS = 5  # one of which decides where there are no dev images
_CALIBRATED = 20
_AT_ONCE = 256
_PARTS = "seeds/0"  # where a task has the parts of a training


@dataclass(frozen=True)
class ImageData:
    """Labelled images for training and for the choice; ``is_split``: the latter are a part of what was given."""

    train: list[ImageExample]
    dev: list[ImageExample]
    labels: list[str]
    is_split: bool

    @property
    def everything(self) -> list[ImageExample]:
        return [*self.train, *self.dev] if self.is_split else self.train


def read_data(source: Source, seed: int = 0) -> ImageData:
    """The images of the files, checked."""
    columns = source.reading.text, source.reading.label
    train = find_images(source.train, *columns)
    labels = label_names(train)
    counts = Counter(example.label for example in train)
    if len(labels) < 2:
        raise FirthError(
            f"{source.train}: {len(labels)} labels, classes need two; give a folder per class, or a column 'label'"
        )
    dev = [] if source.dev is None else find_images(source.dev, *columns)
    unknown = next((one for one in dev if one.label not in labels), None)
    if unknown is not None:
        raise FirthError(f"{unknown.name}: the label '{unknown.label}' is not among those of the training images")
    if dev:
        return ImageData(train, dev, labels, False)
    rare, count = min(counts.items(), key=lambda item: item[1])
    if count < 2:
        raise FirthError(f"{source.train}: '{rare}' has a single image; give more, or images to choose by with --dev")
    folds_N = stratified_folds([example.label for example in train], _HELDOUT_FOLDS, seed)
    parts = [[one for one, fold in zip(train, folds_N, strict=True) if (fold == 0) == held] for held in (False, True)]
    return ImageData(parts[0], parts[1], labels, True)


def check_images(source: Source, closely: bool) -> list[str]:
    """What there is, as lines for a terminal; ``closely``: every image is decoded, and the first damaged one is refused."""
    data = read_data(source)
    counts = Counter(example.label for example in data.everything)
    (most, many), (least, few) = (counts.most_common()[place] for place in (0, -1))
    lines = [
        f"{len(data.everything):,} images, {len(data.labels)} labels ({many:,} of '{most}', {few:,} of '{least}')",
        f"{len(data.dev):,} images choose the model" + (", a fifth of these" if data.is_split else ""),
    ]
    if closely:
        reading = ImageReading(8, 3, MAX_PIXELS, False, usable_cores(), None)
        for found in reading.decode([*data.train, *data.dev]):
            if isinstance(found, FirthError):
                raise found
        lines.append("all images are whole")
    return lines


def image_settings(config: TaskConfig, base: ImageModel, data: ImageData, given: Set[str]) -> TaskConfig:
    """What is not given, by the number of images and the width of the base."""
    wrong = sorted(given - _UNDERSTOOD)
    if wrong:
        raise FirthError(f"{wrong[0]}: not a setting of images, which know {', '.join(sorted(_UNDERSTOOD))}")
    if set(config.candidates) - {"linear", "tuned"}:
        raise FirthError("candidates of images are linear and tuned: leave out the others")
    candidates = config.candidates or (("tuned",) if given & _OF_TRAINING else ("linear", "tuned"))
    epochs = min(_MOST, max(_FEWEST, round(_SEEN / max(1, len(data.everything)))))
    usual: dict[str, object] = {"epochs": epochs, "batch_size": _BATCH, "weight_decay": _DECAY}
    usual |= {"learning_rate": tuned_rate(base.dim) / 2}
    return config.replace(
        labels=data.labels, candidates=candidates, **{name: value for name, value in usual.items() if name not in given}
    )


def finetune_images(
    config: TaskConfig, given: Set[str], source: Source, out: Path, overwrite: bool, progress: Progress | None
) -> Run:
    """A new run, or the rest of one that was interrupted."""
    if config.task != "classify":
        raise FirthError(
            f"{source.base}: reads images, which can be classified, not what '{config.task}' does; use classify"
        )
    if source.extra_vectors is not None or source.teacher is not None:
        raise FirthError("images have no --extra-vectors and no --teacher: leave them out")
    Run.keep_apart(out, source.paths(), overwrite)
    base = load_model(Path(source.base))
    if not isinstance(base, ImageModel):
        raise FirthError(
            f"{source.base}: reads text, {source.train} has images; choose a base such as a run of vit-tiny"
        )
    data = read_data(source, config.seed)
    config = image_settings(config, base, data, given)
    run = open_or_create(out, task_record(config, source, base, source.fingerprints(), 1), overwrite)
    if run.record.finished:
        return run
    with run.lock(), learning(out, same_command(run.replaces), lambda: is_run(out / _PARTS / "tuned")):
        return _Finetuning(run, config, base, data, "epochs" in given, progress).finish()


class _Finetuning:
    """The candidates of one run, each in a folder of its own."""

    def __init__(
        self, run: Run, config: TaskConfig, base: ImageModel, data: ImageData, is_exact: bool, progress: Progress | None
    ) -> None:
        self.run, self.config, self.base, self.data = run, config, base, data
        self.is_exact, self.progress = is_exact, progress
        self.folder = run.folder / _PARTS
        self.folder.mkdir(parents=True, exist_ok=True)
        self.begun = time.perf_counter()
        self.read_s = 0.0  # for the training images, once
        self.truth = [str(example.label) for example in data.dev]
        self.skipped: list[CandidateResult] = []

    def finish(self) -> Run:
        corpus = self._corpus("images", self.data.train, self.data.dev)
        tried = self._candidates(corpus)
        scores = {name: self._scores(found) for name, (found, _) in tried.items()}
        best = max(tried, key=lambda name: scores[name]["accuracy"])  # of equals the first, which is cheaper
        predictions, folder = tried[best][0], self.folder / best
        if self.data.is_split:
            folder = self._again(best, self._corpus("all", self.data.everything, self.data.dev))
        factor, calibration = self._calibration(predictions)
        candidates = tuple(
            CandidateResult(
                name=name, score=scores[name]["accuracy"], seconds=seconds, chosen=name == best,
                note="on a fifth that was held out" if self.data.is_split else "",
            )
            for name, (_, seconds) in tried.items()
        )  # fmt: skip
        self._keep(folder, factor, corpus)
        result = self._result(
            rescaled(predictions, factor), scores[best], (*candidates, *self.skipped), calibration, best
        )
        assert self.run.record.task is not None
        self.run.change(
            config=self.config.model_dump(mode="json"),
            metrics=scores[best],
            parameters=result.parameters,
            seconds=result.train_s,
            task=self.run.record.task.replace(results=(result,), best=0),
        )
        self._report(rescaled(predictions, factor))
        write_card(self.run)
        published = sorted(path for path in self.run.folder.iterdir() if path.suffix in (".safetensors", ".json"))
        self.run.save(
            status="finished",
            checksums={path.name: checksum(path) for path in published if path != self.run.path},
        )
        self._tidy()
        return self.run

    def _corpus(self, name: str, train: list[ImageExample], dev: list[ImageExample]) -> ImageCorpus:
        """Decoded once, at the size and with the normalisation of the base."""
        size, channels, mean, std = self.base.processing
        if not (self.folder / name).exists():
            reading = ImageReading(size, channels, MAX_PIXELS, False, usable_cores(), self.progress)
            parts = {"train": train, "heldout": dev}
            write_images(parts, self.data.labels, self.folder / name, reading, name, spread=(mean, std))
        return ImageCorpus.open(self.folder / name)

    # -- the candidates

    def _candidates(self, corpus: ImageCorpus) -> dict[str, tuple[list[Prediction], float]]:
        """Name to predictions for the dev images and seconds."""
        tried: dict[str, tuple[list[Prediction], float]] = {}
        started = time.perf_counter()
        self._fit_linear(corpus, "linear")
        if "linear" in self.config.candidates:
            tried["linear"] = (self._predict("linear", corpus), time.perf_counter() - started)
        if "tuned" in self.config.candidates:
            started = time.perf_counter()
            epochs = self._epochs(bool(tried))
            if epochs:
                self._tune(corpus, "linear", "tuned", epochs)
                tried["tuned"] = (self._predict("tuned", corpus), time.perf_counter() - started)
            else:
                self.skipped.append(CandidateResult(name="tuned", note="not even one epoch within the budget"))
        return tried

    def _epochs(self, may_skip: bool) -> int:
        """As many as fit into what is left of the budget; half of it where the better one is trained again on all."""
        left = parse_duration(self.config.budget) - (time.perf_counter() - self.begun)
        most = int(left / ((2 if self.data.is_split else 1) * _LEARNING * max(self.read_s, 1e-3)))
        if self.is_exact or is_run(self.folder / "tuned"):
            return self.config.epochs
        return min(self.config.epochs, most if may_skip else max(1, most))

    def _fit_linear(self, corpus: ImageCorpus, name: str) -> None:
        """A directory whose head is a logistic regression on the vectors of the base."""
        if (self.folder / name).exists():
            return
        started = time.perf_counter()
        features = self._features(self.base, corpus.train)
        self.read_s = time.perf_counter() - started
        folds = stratified_folds(corpus.train.labels.tolist(), min(NUM_FOLDS, len(corpus.train)), self.config.seed)
        linear = fit_logistic(features.astype(np.float64), corpus.train.labels, len(self.data.labels), folds)
        head = {"weight": torch.from_numpy(linear.weights).float(), "bias": torch.from_numpy(linear.bias).float()}
        with atomic_folder(self.folder / name) as folder:
            self.base.save(folder, corpus.info, head)

    def _tune(self, corpus: ImageCorpus, start: str, name: str, epochs: int, is_judged: bool = True) -> None:
        if is_run(self.folder / name):
            resume_run(self.folder / name, self.progress)
            return
        config = self.config
        assert config.learning_rate is not None
        training = TrainingConfig(
            batch_size=min(config.batch_size, len(corpus.train)),
            epochs=float(epochs),
            learning_rate=config.learning_rate,
            warmup_ratio=config.warmup_ratio,
            weight_decay=config.weight_decay,
            evaluations=epochs,
            evaluation_batches=max(1, math.ceil(len(corpus.heldout) / config.batch_size)),
            checkpoints=epochs,
            finish="best" if is_judged else "last",
            seed=config.seed,
            device=config.device,
            precision=config.precision,
        )
        plan = RunConfig(
            recipe="finetune",
            spec=self.base.spec_name,
            model=self.base.config,
            objective=ImageClassesConfig(),
            training=training,
        )
        start_run(plan, corpus.folder, self.folder / name, base=self.folder / start, progress=self.progress)

    def _again(self, best: str, corpus: ImageCorpus) -> Path:
        """The better candidate on all images."""
        self._fit_linear(corpus, "linear-all")
        if best == "linear":
            return self.folder / "linear-all"
        epochs = Run.open(self.folder / "tuned").record.config["training"]
        assert isinstance(epochs, dict)
        self._tune(corpus, "linear-all", "tuned-all", int(float(str(epochs["epochs"]))), False)
        return self.folder / "tuned-all"

    # -- what they say

    @torch.inference_mode()
    def _features(self, model: ImageModel, split: ImageSplit) -> NDArray[np.float32]:
        found = [model.network.summary(pixels) for pixels in self._pixels(split)]
        return torch.cat(found).numpy()

    def _pixels(self, split: ImageSplit) -> Iterator[torch.Tensor]:
        _, _, mean, std = self.base.processing
        for start in range(0, len(split), _AT_ONCE):
            yield torch.from_numpy(normalize(as_shares(split.pixels[start : start + _AT_ONCE]), mean, std))

    def _predict(self, name: str, corpus: ImageCorpus) -> list[Prediction]:
        model = load_model(self.folder / name)
        assert isinstance(model, ImageModel)
        assert model.classifier is not None
        with torch.inference_mode():
            scores = model.classifier(torch.from_numpy(self._features(model, corpus.heldout)))
        return class_predictions([example.name for example in self.data.dev], self.data.labels, scores)

    def _numbers(self, found: Sequence[Prediction]) -> tuple[list[int], list[int]]:
        number = {label: place for place, label in enumerate(self.data.labels)}
        return [number[label] for label in self.truth], [number[str(one["label"])] for one in found]

    def _scores(self, found: Sequence[Prediction]) -> dict[str, float]:
        return classify_scores(*self._numbers(found), len(self.data.labels))

    def _calibration(self, found: Sequence[Prediction]) -> tuple[float, CalibrationResult | None]:
        if len(found) < _CALIBRATED:
            return 1.0, None
        true, _ = self._numbers(found)
        factor, _ = fit_factor(log_probs(found, self.data.labels), np.asarray(true, np.int64))
        before, after = error_of(found, self.truth), error_of(rescaled(found, factor), self.truth)
        return factor, CalibrationResult(factor=factor, error_before=before, error_after=after, examples=len(found))

    def _result(
        self,
        found: Sequence[Prediction],
        scores: dict[str, float],
        candidates: tuple[CandidateResult, ...],
        calibration: CalibrationResult | None,
        best: str,
    ) -> TaskResult:
        true, guessed = self._numbers(found)
        low, high = confusion_interval(true, guessed, len(self.data.labels), accuracy)
        head = (self.base.dim + 1) * len(self.data.labels)
        whole = sum(one.numel() for one in self.base.network.parameters()) + head
        seconds = time.perf_counter() - self.begun
        return TaskResult(
            seed=self.config.seed,
            share=1.0,
            examples=len(self.data.everything),
            settings=CellSettings(
                batch_size=self.config.batch_size,
                learning_rate=self.config.learning_rate or 0.0,
                epochs=self.config.epochs,
            ),
            metric="accuracy",
            scores=scores,
            interval=ScoreInterval(metric="accuracy", low=low, high=high),
            train_s=seconds,
            seconds=seconds,
            trained_parameters=head if best == "linear" else whole,
            parameters=whole,
            mixes={},
            candidates=candidates,
            calibration=calibration,
            by_label=label_scores(true, guessed, self.data.labels),
        )

    # -- the end

    def _keep(self, folder: Path, factor: float, corpus: ImageCorpus) -> None:
        """The model becomes that of the run, its scores times the factor that calibrates them."""
        model = load_model(folder)
        assert isinstance(model, ImageModel)
        assert model.classifier is not None
        head = {name: tensor.detach() * factor for name, tensor in model.classifier.state_dict().items()}
        with atomic_folder(self.folder / "kept") as kept:
            model.save(kept, corpus.info, head)
        for path in sorted((self.folder / "kept").iterdir()):
            os.replace(path, self.run.folder / path.name)
        (self.folder / "kept").rmdir()
        history = self.folder / "tuned" / HISTORY
        if history.is_file():
            for place in (self.folder, self.run.folder):
                shutil.copy2(history, place / HISTORY)

    def _report(self, predictions: list[Prediction]) -> None:
        train, dev = (
            [TextExample(one.name, label=one.label) for one in some] for some in (self.data.train, self.data.dev)
        )
        write_task_report(self.run, self.config, build_data("classify", train, dev), predictions)

    def _tidy(self) -> None:
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
