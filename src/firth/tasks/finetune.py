"""Fine-tuning: base, network and loop put together for one training, on single texts or on pairs of labelled texts first
(contrastive); ``firth.tasks.run`` makes a run of it."""

import itertools
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import JsonValue
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.registry import TrainingConfig, choose_precision
from firth.core.run import SharePoint
from firth.core.types import Batch, Frame, Losses, Prediction, Progress, generator
from firth.data.labelled import TagExample, TextExample
from firth.models.counts.model import CountsModel, WordCounts
from firth.models.shared.model import Model
from firth.models.shared.static import ExtraVectors, ScratchModel
from firth.reports.page import line_figure
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.config import CandidateName, TaskConfig
from firth.tasks.counts import targets_of, text_features
from firth.tasks.data import TaskData, take_share, texts_of
from firth.tasks.distillation import Distillation, Teacher, check_distillation
from firth.tasks.linear import Head, refit_logistic
from firth.tasks.model import TaskModel, build_model, load_base_model
from firth.tasks.network import TaskNetwork
from firth.tasks.training import Finetuning, Item, Task, frame_row
from firth.training.loop import Loop
from firth.training.ranks import Ranks, code_hash

_TRIED = 2


def load_base(base: str, data: TaskData, config: TaskConfig) -> Model:
    """The representation below the task; ``scratch`` and ``counts`` are none at all."""
    if base == COUNTS:
        if config.task == "tag":
            return WordCounts.of_sentences([example.words for example in all_of(TagExample, data.train)])
        if config.task not in ("classify", "score"):
            raise FirthError(
                f"counts says something of texts and words, not what {config.task} needs: choose another --base"
            )
        return CountsModel.of_texts([text for example in data.train for text in texts_of(example)])
    if base == SCRATCH:
        texts = [
            text
            for example in data.train
            for text in ([example.words] if isinstance(example, TagExample) else texts_of(example))
        ]
        return ScratchModel.of_texts(texts, seed=config.seed)
    return load_base_model(Path(base))


def try_settings(
    config: TaskConfig,
    base: Model,
    data: TaskData,
    extra_vectors: ExtraVectors | None = None,
    teacher: Teacher | None = None,
) -> None:
    """The shortest examples all the way from text to score, and the longest to its rows, nothing learned: settings that
    cannot work are refused before anything is made or removed."""
    if "tuned" not in config.candidates:
        return
    train, dev = (sorted(some, key=_size)[:_TRIED] for some in (data.train, data.dev or data.train))
    model, trainable, loop = _prepared(config, base, data, train, dev, extra_vectors, Path(), None, teacher)
    model.network.eval()
    with torch.no_grad():
        trainable.loss(trainable.batch(0).to(loop.config.device))
    trainable.evaluate()
    model.task.item(max((*data.train, *data.dev), key=_size), 0)


def _size(example: AnyExample) -> int:
    return sum(len(getattr(example, name, None) or "") for name in ("text", "second", "words", "question", "passage"))


def train_model(
    config: TaskConfig,
    base: Model,
    data: TaskData,
    folder: Path,
    progress: Progress | None,
    extra_vectors: ExtraVectors | None = None,
    teacher: Teacher | None = None,
    head: Head | None = None,
) -> tuple[TaskModel, Finetuning, float]:
    """The network trained on the data, at its best on the dev examples; from a ``head`` on where there is one."""
    model, trainable, loop = _prepared(
        config, base, data, data.train, data.dev, extra_vectors, folder, progress, teacher
    )
    if head is not None:
        model.network.set_head(head)
    loop.run(trainable.steps, "the same command")
    trainable.take_best()
    if trainable.best and "null_threshold" in trainable.best:
        model.config = config.replace(null_threshold=trainable.best["null_threshold"])
    model.network.eval()
    return model, trainable, loop.seconds


def _prepared(
    config: TaskConfig,
    base: Model,
    data: TaskData,
    train: list[AnyExample],
    dev: list[AnyExample],
    extra_vectors: ExtraVectors | None,
    folder: Path,
    progress: Progress | None,
    teacher: Teacher | None = None,
) -> tuple[TaskModel, Finetuning, Loop]:
    model = build_model(config, base, data.pairs, extra_vectors)
    network = model.network
    network.start(torch.Generator().manual_seed(config.seed))
    model.task.start(network, data.train)
    model.task.learn_from(data.train)
    if teacher is None:
        trainable = Finetuning(config, model.task, network, train, dev)
    else:
        check_distillation(config, teacher, network)
        trainable = Distillation(config, model.task, network, train, dev, teacher)
    return model, trainable, Loop(trainable, loop_settings(config, trainable.steps), folder, progress, saves=False)


def loop_settings(config: TaskConfig, steps: int) -> TrainingConfig:
    """What the loop needs to know of a task."""
    assert config.learning_rate is not None
    return TrainingConfig(
        batch_size=config.batch_size,
        steps=steps,
        learning_rate=config.learning_rate,
        warmup_ratio=config.warmup_ratio,
        weight_decay=config.weight_decay,
        beta2=0.999,
        adam_eps=1e-8,
        evaluations=config.epochs,
        checkpoints=0,
        seed=config.seed,
        device=config.device,
    )


SCRATCH, COUNTS = "scratch", "counts"
MADE = (SCRATCH, COUNTS)  # bases that are made of the task's own texts
_RATES = ((192, 1e-3), (256, 4e-4), (384, 1e-4))  # up to a width; the published rate above
_RATE = 5e-5
_FEW = 2000  # labelled texts
_READ_FROM_HEAD, _FEWEST_FROM_HEAD, _MOST_FROM_HEAD = 2000, 4, 10  # texts read, and epochs, from a linear head on
_READ = 16_000  # texts that a training reads at least, in at most so many epochs:
_MOST, _MOST_TAGGED = 20, 100  # a tagger on no Transformer finds nothing at all in its first thousand steps


_NOT_OF_TRAINING = {"task", "labels", "candidates", "budget", "max_len", "class_weights", "metric", "seed", "device"}
_NOT_OF_TRAINING |= {
    "precision",
    "adapt_epochs",
    "adapt_learning_rate",
}  # nor of the candidates, which stand on the adapted base


def tuned_rate(dim: int) -> float:
    """The learning rate of a tuned Transformer of this width."""
    return next((rate for most, rate in _RATES if dim <= most), _RATE)


def usual_candidates(config: TaskConfig, base: Model, given: Set[str]) -> tuple[CandidateName, ...]:
    """What is tried. Whoever says how to train gets that training."""
    if config.task not in ("classify", "score", "tag") or given - _NOT_OF_TRAINING:
        return ("tuned",)
    if base.spec_name == SCRATCH:
        return ("counts", "tuned")
    if config.task == "classify" and base.spec.tuned_whole:
        return ("counts", "linear", "contrastive", "tuned")
    return ("counts", "linear", "tuned")


def default_settings(config: TaskConfig, base: Model, num_train: int, given: Set[str]) -> TaskConfig:
    """Transformers are tuned whole, with higher rates if they are small; word vectors get a body to read them, but few
    texts need none, and an encoder whose first token has not learned to sum up gives the mean; few labels are read more
    often (Mosbach et al. 2021), but less so where a linear head is there to begin with; and a tagger reads a few of them
    at a time. Found by trying on a few hundred film reviews; the tagger on 600 sentences of news."""
    if base.spec_name == COUNTS:
        return config.replace(candidates=("counts",))
    if not config.candidates:
        config = config.replace(candidates=usual_candidates(config, base, given))
    spec, reader = base.spec, base.reader()
    tuned_whole, whole = spec.tuned_whole, config.task in ("classify", "score")
    fewest = 3 if tuned_whole else 10
    most = _MOST_TAGGED if config.task == "tag" and not tuned_whole else _MOST
    epochs = min(most, max(fewest, round(_READ / max(num_train, 1))))
    usual: dict[str, object] = {"epochs": epochs, "patience": max(4, epochs // 5)}
    if not tuned_whole:
        usual |= {"body": "bilstm", "dropout_prob": 0.3, "warmup_ratio": 0.0, "tune": spec.name == SCRATCH}
        if config.task == "tag" and num_train < _FEW:
            usual["batch_size"] = 8
    if spec.mixes_layers:
        usual["layers"] = "mix"  # Peters et al. 2018, eq. 1
    if whole and tuned_whole and reader.summary == "cls" and reader.pooler is None:
        usual["pool"] = "mean"
    if whole and tuned_whole and "linear" in config.candidates:  # its head is there already
        epochs = min(_MOST_FROM_HEAD, max(_FEWEST_FROM_HEAD, round(_READ_FROM_HEAD / max(num_train, 1))))
        usual |= {"epochs": epochs, "patience": epochs, "batch_size": 16, "layer_decay": 0.9, "dropout_prob": 0.0}
    if config.place != "input":
        usual["body"] = "bilstm"  # there is no other place without one
    elif whole and spec.is_table and num_train < _FEW and not given & {"body", "body_dim"}:
        usual |= {"body": "none", "pool": "mean", "learning_rate": 1e-2}
    config = config.replace(**{name: value for name, value in usual.items() if name not in given})
    tuned = tuned_whole and config.tune and config.body == "none"
    precision = choose_precision(config.precision, config.device) if tuned or "precision" in given else "float32"
    if precision == "float16":  # its small gradients would need factors that only the loop of pre-training has
        raise FirthError("precision=float16 is for pre-training and images: use bfloat16 or float32")
    config = config.replace(precision=precision)
    if config.learning_rate is None:
        rate = tuned_rate(base.dim) if tuned else 1e-3
        if tuned and whole and "linear" in config.candidates:
            rate /= 2
        config = config.replace(learning_rate=rate)
    return config


def with_share(data: TaskData, share: float, seed: int) -> TaskData:
    """The same dev examples with a share of the training ones."""
    return data if share == 1 else replace(data, train=take_share(data.train, share, seed))


def points_of(results: Sequence[tuple[float, int, float]]) -> list[SharePoint]:
    """Trainings, each as (share, examples, score), put together by their share."""
    points = []
    for share in sorted({share for share, _, _ in results}):
        own = [(examples, score) for other, examples, score in results if other == share]
        scores = tuple(score for _, score in own)
        points.append(
            SharePoint(
                share=share,
                examples=own[0][0],
                scores=scores,
                mean=statistics.mean(scores),
                deviation=statistics.stdev(scores) if len(scores) > 1 else 0.0,
            )
        )
    return points


def share_chart(curves: Mapping[str, Sequence[SharePoint]], metric: str) -> str:
    """The mean score by the number of labelled examples, one line per name, bars for the spread over seeds."""
    series = {name: [(float(point.examples), point.mean) for point in points] for name, points in curves.items()}
    spread = {name: [point.deviation for point in points] for name, points in curves.items()}
    return line_figure(series, "labelled examples", metric, spread=spread, log_x=True)


def tuned_together(config: TaskConfig, made_from: str, adapts: bool = False) -> TaskConfig:
    """What several processes can do together: tuning, in the batches of one process."""
    if config.candidates not in ((), ("tuned",)) or config.folds or config.adapt_epochs or adapts:
        raise FirthError(
            "several processes tune a model together, and nothing else: leave out candidates, folds, adapt_epochs and --unlabelled, or start firth finetune without torchrun"
        )
    Ranks().require_same({"code": code_hash(), "settings": config.model_dump_json(), "data": made_from})
    return config.replace(candidates=("tuned",))


# -- a sweep

GRID: dict[str, Sequence[object]] = {"batch_size": (16, 32), "learning_rate": (5e-5, 3e-5, 2e-5), "epochs": (3, 4)}
"""The published grid (Devlin et al. 2018, A.3), for bases of its size."""
Grid = Mapping[str, Sequence[object]]
_PUBLISHED_DIM = 512  # width from which on the published grid is tried
_NOT_SWEPT = ("task", "labels", "several", "seed", "folds", "budget", "candidates", "device", "metric")


def usual_grid(config: TaskConfig, base: Model) -> Grid:
    """The published one for bases of BERT's size; for others half, once and twice the usual rate, and once and twice the usual
    epochs: small encoders, word vectors and few labels need more of both."""
    if base.spec.tuned_whole and base.dim >= _PUBLISHED_DIM:
        return GRID
    rate = config.learning_rate or 1e-3
    return {"learning_rate": (rate / 2, rate, 2 * rate), "epochs": (config.epochs, min(1000, 2 * config.epochs))}


def sweep_points(config: TaskConfig, base: Model, sweep: bool | Grid) -> list[dict[str, object]]:
    """All combinations of the grid, each checked."""
    grid = usual_grid(config, base) if isinstance(sweep, bool) else sweep
    for name, values in grid.items():
        if not values or name in _NOT_SWEPT:
            reason = "has no values" if not values else "is not a setting that a sweep can try"
            raise FirthError(f"sweep: {name} {reason}; write for example learning_rate=1e-3,3e-4 epochs=5,20")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [{name: getattr(config.update(point), name) for name in point} for point in points]


def plain_point(point: Mapping[str, object]) -> dict[str, JsonValue]:
    """Settings as JSON has them."""
    found: dict[str, JsonValue] = json.loads(json.dumps(dict(point)))
    return found


@dataclass(frozen=True)
class Cell:
    """One training: its settings, and the share of the examples that it learns from."""

    config: TaskConfig
    share: float = 1.0
    point: Mapping[str, object] = field(default_factory=dict)  # the settings of a sweep


def plan_cells(
    plain: TaskConfig,
    base: Model,
    num_train: int,
    given: Set[str],
    seeds: int,
    grid: Sequence[Mapping[str, object]],
    shares: Sequence[float],
) -> list[Cell]:
    """Every training: settings of the grid × shares × seeds. Fewer examples have usual settings of their own."""
    settings = {share: default_settings(plain, base, round(share * num_train), given) for share in shares or (1.0,)}
    return [
        Cell(settings[share].replace(**point, seed=plain.seed + number), share, point)
        for point in grid or [{}]
        for share in settings
        for number in range(seeds)
    ]


TEXTS = 16  # in a batch
FEWEST, MOST = 40, 250  # batches
WINDOW = 128  # tokens of a longer text that are read in a batch, others each time
_STRENGTH = 3.0  # of the head: the classes are far apart by then
_STREAM = 0xC057


def pair_loss(vectors_ND: torch.Tensor, classes_N: torch.Tensor) -> torch.Tensor:
    """The mean squared distance of the cosines from 1 (one class) and from 0 (two), half from each kind of pair."""
    cosines_NN = functional.normalize(vectors_ND) @ functional.normalize(vectors_ND).T
    same_NN = classes_N[:, None] == classes_N[None]
    apart_NN = ~torch.eye(len(classes_N), dtype=torch.bool, device=classes_N.device)
    errors_NN = (cosines_NN - same_NN.float()).square()
    kinds = [errors_NN[kind] for kind in (same_NN & apart_NN, ~same_NN)]
    return torch.stack([errors.mean() for errors in kinds if len(errors)]).mean()


def class_batches(targets: Sequence[int], steps: int, size: int, seed: int) -> list[NDArray[np.int64]]:
    """Numbers of examples, batch by batch: classes in turn, at least two texts of each class that is in a batch."""
    targets_N = np.asarray(targets)
    members = [np.flatnonzero(targets_N == one) for one in np.unique(targets_N)]
    most = min(len(members), size // 2)
    found = []
    for step in range(steps):
        random = generator(seed, _STREAM, step)
        chosen = random.permutation(len(members))[:most]
        classes = np.resize(chosen, size)
        found.append(np.asarray([members[one][random.integers(len(members[one]))] for one in classes], np.int64))
    return found


class Contrastive(Finetuning):
    """A ``Trainable``: the encoder on pairs of training examples."""

    def __init__(
        self, config: TaskConfig, task: Task, network: TaskNetwork, train: Sequence[AnyExample], steps: int
    ) -> None:
        super().__init__(config.replace(epochs=1), task, network, train, [])
        targets = [item.target for item in self.items]
        self.order = class_batches([int(str(one)) for one in targets], steps, TEXTS, config.seed)

    def batch(self, number: int) -> Batch:
        """Of a long text one window, chosen anew in every batch: what a text is about is in each part of it."""
        chosen = self.order[number % len(self.order)].tolist()
        frame = self.network.reader.frame
        items = [
            self._window(self.items[one], frame, generator(self.config.seed, _STREAM + 1, number, place))
            for place, one in enumerate(chosen)
        ]
        return self.task.batch(items)

    @staticmethod
    def _window(item: Item, frame: Frame, random: np.random.Generator) -> Item:
        row = item.rows[int(random.integers(len(item.rows)))]
        inner = row.ids[len(frame.before) : len(row.ids) - len(frame.after)]
        if len(inner) <= WINDOW:
            return item if len(item.rows) == 1 else replace(item, rows=(row,))
        start = int(random.integers(len(inner) - WINDOW + 1))
        return replace(item, rows=(frame_row(frame, inner[start : start + WINDOW], None, np.arange(WINDOW)),))

    def loss(self, batch: Batch) -> Losses:
        count = batch.counts["task"]
        vectors_ND = self.network.texts(batch.tensors, count, self.config.window_pool)
        return Losses({"task": count * pair_loss(vectors_ND, batch.tensors["labels"])})


def train_contrastive(
    config: TaskConfig, base: Model, data: TaskData, steps: int, folder: Path, progress: Progress | None
) -> TaskModel:
    """The tuned encoder with a linear head."""
    model = build_model(config, base, data.pairs)
    model.network.start(torch.Generator().manual_seed(config.seed))
    trainable = Contrastive(config, model.task, model.network, data.train, steps)
    Loop(trainable, loop_settings(config, steps), folder, progress, saves=False).run(steps, "the same command")
    examples = all_of(TextExample, data.train)
    targets = targets_of(config, examples).astype(np.int64)
    features = text_features(model, examples)
    weights, bias = refit_logistic(features, targets, len(config.labels), _STRENGTH, bool(config.class_weights))
    model.network.set_head(Head(weights, bias))
    model.network.eval()
    return model


# -- folds


@dataclass(frozen=True)
class Fold:
    """A tuning that is judged on the examples that it does not learn from: ``steps`` batches of pairs, or the task itself, from
    the head of a linear model on."""

    config: TaskConfig
    outside_N: NDArray[np.bool_]
    steps: int
    head: Head | None


def judge_fold(
    base: Model,
    fold: Fold,
    data: TaskData,
    extra_vectors: ExtraVectors | None,
    teacher: Teacher | None = None,
    progress: Progress | None = None,
) -> tuple[Task, dict[int, Prediction]]:
    """What it says of the examples outside, by their number, and how that is scored."""
    some = replace(data, train=[data.train[number] for number in np.flatnonzero(~fold.outside_N).tolist()])
    with tempfile.TemporaryDirectory() as folder:
        if fold.steps:
            model = train_contrastive(fold.config, base, some, fold.steps, Path(folder), progress)
        else:
            more = (progress, extra_vectors, teacher, fold.head)
            model, _, _ = train_model(fold.config, base, some, Path(folder), *more)
    outside = np.flatnonzero(fold.outside_N).tolist()
    found = model.predict_examples([data.train[number] for number in outside])
    return model.task, dict(zip(outside, found, strict=True))


def judge_fold_there(
    base: str, fold: Fold, data: TaskData, extra_vectors: ExtraVectors | None
) -> dict[int, Prediction]:
    """One job of a cluster."""
    return judge_fold(load_base(base, data, fold.config), fold, data, extra_vectors)[1]
