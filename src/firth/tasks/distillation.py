"""Knowledge distillation: soft labels, and the teacher's layers (Hinton et al. 2015; Jiao et al. 2020, TinyBERT).

The loss is ``(1 - α) task + α soft + β hidden``. With scores s of the student and t of the teacher, and a temperature τ,

    soft   = τ² KL(softmax(t / τ) ‖ softmax(s / τ))      of classes, of each word's tags, of start and end; (s - t)² of scores
    hidden = Σ_m |W h_m - g_l(m)|² / D'                  of each token, l(m) = round(m L' / L), W learned, layer 0 the tokens

What the teacher says is a pure function of the text: it is computed before the first step and kept as arrays.

B rows, N examples, T tokens, K outputs, D width of the student, D' of the teacher, M layers that are compared.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.types import Batch, Inputs, Ints, Losses, batches_by_length
from firth.data.labelled import TagExample
from firth.models.shared.model import Model
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.config import TaskConfig
from firth.tasks.model import TaskModel
from firth.tasks.network import ComparingNetwork, TagNetwork, TaskNetwork
from firth.tasks.training import Finetuning, Item, Row, Task, collate, item_cost

_KEPT_BYTES = 1_500_000_000  # of the teacher's layers; beyond that they are computed for each batch
_MAX_TOKENS, _MAX_ROWS = 4096, 64
_SMALL = 1e-12

Floats = NDArray[np.float32]


def layer_map(num_student: int, num_teacher: int) -> list[int]:
    """The teacher's layer for each of the student's, evenly spread; both counts are without the token layer."""
    return [(2 * layer * num_teacher + num_student) // (2 * num_student) for layer in range(num_student + 1)]


def soft_loss(scores: torch.Tensor, taught: torch.Tensor, temperature: float) -> torch.Tensor:
    """τ² KL(teacher ‖ student) over the last axis, summed over all others."""
    wanted = (taught / temperature).log_softmax(-1)
    found = (scores / temperature).log_softmax(-1)
    return temperature**2 * functional.kl_div(found, wanted, reduction="sum", log_target=True)


class Teacher:
    """A task that was learned, asked about the student's examples.

    ``columns`` are its outputs in the order of the student's labels. Only with ``same_tokens`` do its rows have the student's
    tokens in their places, so that answers and layers can be compared.
    """

    def __init__(
        self, task: Task, network: TaskNetwork, config: TaskConfig, columns: list[int], same_tokens: bool
    ) -> None:
        self.task, self.network, self.config = task, network, config
        self.columns, self.same_tokens = columns, same_tokens
        self._scores: dict[
            int, tuple[AnyExample, Floats]
        ] = {}  # by the example's identity; the example is kept so that it stays one
        self._rows: dict[tuple[bytes, bytes], Floats] = {}
        self._layers: dict[tuple[bytes, bytes], Floats] = {}

    # -- scores

    def score_examples(self, examples: Sequence[AnyExample], device: str) -> None:
        """What it says about each example that it was not asked about yet: [K], or [words, K]."""
        new = [example for example in examples if id(example) not in self._scores]
        items = [self.task.item(example, number) for number, example in enumerate(new)]
        self.network.to(device).eval()
        with torch.inference_mode():
            costs = [item_cost(item) for item in items]
            for numbers in batches_by_length(costs, _MAX_TOKENS, _MAX_ROWS, longest_first=True):
                some = [items[number] for number in numbers]
                asked = self._asked(some, [new[number] for number in numbers], device)
                for number, found in zip(numbers.tolist(), asked, strict=True):
                    self._scores[id(new[number])] = (new[number], found)

    def _asked(self, items: Sequence[Item], examples: Sequence[AnyExample], device: str) -> list[Floats]:
        batch = self.task.batch(items).to(device)
        if self.config.task != "tag":
            scores = self.network.text_scores(batch.tensors, len(items))[:, self.columns]
            return list(scores.cpu().numpy())
        scores, words = self.network.token_scores(batch.tensors), batch.arrays["words"]
        crf = self.network.crf if isinstance(self.network, TagNetwork) else None
        if crf is not None:  # what a CRF says of a word is its marginal, given all others
            scores = crf.marginals(scores, batch.tensors["words"] >= 0).clamp(min=_SMALL).log()
        found_BTK = scores[:, :, self.columns].cpu().numpy()
        taught = []
        for number, example in enumerate(all_of(TagExample, examples)):
            mine = batch.arrays["owner"] == number
            judged = words[mine]
            table = np.zeros((len(example.words), len(self.columns)), np.float32)
            table[judged[judged >= 0]] = found_BTK[mine][judged >= 0]
            taught.append(table)
        return taught

    def scores(self, example: AnyExample) -> Floats:
        return self._scores[id(example)][1]

    # -- what has a place at every token of a row

    def score_rows(self, rows: Sequence[Row], layers: Sequence[int], device: str) -> None:
        """Start and end scores [T, 2] of answers, and the named layers [M, T, D'] where there are any, of new rows."""
        new = list(
            {_key(row): row for row in rows if _key(row) not in self._rows and _key(row) not in self._layers}.values()
        )
        self.network.to(device).eval()
        with torch.inference_mode():
            lens = [len(row.ids) for row in new]
            for numbers in batches_by_length(lens, _MAX_TOKENS, _MAX_ROWS, longest_first=True):
                some = [new[number] for number in numbers]
                if self.config.task == "answer":
                    for row, found in zip(some, self._row_scores(some, device), strict=True):
                        self._rows[_key(row)] = found
                if layers:
                    for row, found in zip(some, self.layers(some, layers, device), strict=True):
                        self._layers[_key(row)] = found

    def _tensors(self, rows: Sequence[Row], device: str) -> dict[str, torch.Tensor]:
        arrays = collate(rows, self.network.reader.pad_id)
        return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}

    def _row_scores(self, rows: Sequence[Row], device: str) -> list[Floats]:
        found = self.network.token_scores(self._tensors(rows, device)).cpu().numpy()
        return [found[number, : len(row.ids)] for number, row in enumerate(rows)]

    def row_scores(self, row: Row) -> Floats:
        return self._rows[_key(row)]

    def layers(self, rows: Sequence[Row], layers: Sequence[int], device: str) -> list[Floats]:
        """[M, T, D'] of each row."""
        known = [self._layers.get(_key(row)) for row in rows]
        if all(found is not None for found in known):
            return [found for found in known if found is not None]
        tensors = self._tensors(rows, device)
        with torch.inference_mode():
            hidden = self.network.reader_module(Inputs.of(tensors)).hidden[list(layers)]
        found = hidden.cpu().numpy()
        return [found[:, number, : len(row.ids)] for number, row in enumerate(rows)]


def _key(row: Row) -> tuple[bytes, bytes]:
    return row.ids.tobytes(), row.segments.tobytes()


class Taught(nn.Module):
    """The student, and the matrix that makes its layers as wide as the teacher's; the latter is not kept."""

    def __init__(self, network: TaskNetwork, teacher_dim: int | None, seed: int) -> None:
        super().__init__()
        self.network = network
        self.project = None if teacher_dim is None else nn.Linear(network.reader.dim, teacher_dim, bias=False)
        if self.project is not None:
            generator = torch.Generator().manual_seed(seed)
            nn.init.normal_(self.project.weight, std=network.reader.dim**-0.5, generator=generator)


class _KeepsScores:
    """The student's network for its own loss; the scores are kept for the teacher's."""

    def __init__(self, network: TaskNetwork) -> None:
        self.network = network
        self.kept: torch.Tensor | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.network, name)

    def text_scores(self, tensors: Mapping[str, torch.Tensor], num_texts: int) -> torch.Tensor:
        self.kept = self.network.text_scores(tensors, num_texts)
        return self.kept

    def token_scores(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        self.kept = self.network.token_scores(tensors)
        return self.kept


class Distillation(Finetuning):
    """Fine-tuning on the labels and on the outputs of a teacher."""

    def __init__(
        self,
        config: TaskConfig,
        task: Task,
        network: TaskNetwork,
        train: Sequence[AnyExample],
        dev: Sequence[AnyExample],
        teacher: Teacher,
    ) -> None:
        super().__init__(config, task, network, train, dev)
        self.teacher, self.train = teacher, train
        hidden = config.hidden_weight > 0
        self.map = layer_map(network.reader.num_layers - 1, teacher.network.reader.num_layers - 1) if hidden else []
        taught = Taught(network, teacher.network.reader.dim if hidden else None, config.seed)
        self.module = taught
        self.rate_factors = {f"network.{name}": rate for name, rate in self.rate_factors.items()}
        self.weights = {
            "task": 1 - config.teacher_weight,
            "soft": config.teacher_weight,
            "hidden": config.hidden_weight,
        }
        rows = [row for item in self.items for row in item.rows]
        size = 4 * sum(len(row.ids) for row in rows) * teacher.network.reader.dim * len(self.map) if hidden else 0
        if config.task == "answer" or (hidden and size <= _KEPT_BYTES):
            teacher.score_rows(rows, self.map if size <= _KEPT_BYTES else (), config.device)
        if config.task != "answer":
            teacher.score_examples(train, config.device)

    # -- batches with what the teacher says

    def batch(self, number: int) -> Batch:
        items = [self.items[row] for row in self.order[number % len(self.order)].tolist()]
        batch = self._batch_of(items)
        arrays = dict(batch.arrays)
        rows = [row for item in items for row in item.rows]
        arrays["taught"] = self._taught(items, rows, arrays)
        counts = dict(batch.counts) | {"soft": batch.counts["task"]}
        if self.map:
            found = self.teacher.layers(rows, self.map, self.config.device)
            layers = np.zeros((len(self.map), *arrays["doc_ids"].shape, found[0].shape[2]), np.float32)
            for place, one in enumerate(found):
                layers[:, place, : one.shape[1]] = one
            arrays["taught_layers"] = layers
            counts["hidden"] = batch.num_tokens
        return Batch(arrays, counts, batch.num_tokens)

    def _taught(self, items: Sequence[Item], rows: Sequence[Row], arrays: Mapping[str, Ints]) -> Floats:
        """[N, K], or at every token of a row [B, T, K]."""
        if self.config.task in ("classify", "score"):
            return np.stack([self.teacher.scores(self.train[item.number]) for item in items])
        longest = arrays["doc_ids"].shape[1]
        if self.config.task == "answer":
            out = np.zeros((len(rows), longest, 2), np.float32)
            for place, row in enumerate(rows):
                out[place, : len(row.ids)] = self.teacher.row_scores(row)
            return out
        out = np.zeros((len(rows), longest, len(self.config.labels)), np.float32)
        for place, owner in enumerate(arrays["owner"].tolist()):
            words = arrays["words"][place]
            table = self.teacher.scores(self.train[items[owner].number])
            out[place, words >= 0] = table[words[words >= 0]]
        return out

    # -- the loss

    def loss(self, batch: Batch) -> Losses:
        taught = self.module
        assert isinstance(taught, Taught)
        tensors, hidden = batch.tensors, None
        if taught.project is not None:  # every layer is read once, by the task and by the comparison
            hidden = self.network.reader_module(Inputs.of(tensors)).hidden
            tensors = {**tensors, "features": hidden}
        student = _KeepsScores(self.network)
        own = self.task.loss(student, Batch(batch.arrays, batch.counts, batch.num_tokens, tensors))
        penalty = self.network.penalty()
        sums = {name: loss + penalty * batch.counts[name] for name, loss in own.sums.items()}
        assert student.kept is not None
        sums["soft"] = self._soft(student.kept, tensors)
        if hidden is not None and taught.project is not None:
            wide_LBTD = taught.project(hidden)
            square = (wide_LBTD - tensors["taught_layers"]).square().mean(-1)
            sums["hidden"] = (square * (tensors["doc_ids"] > 0)).sum()
        return Losses(sums)

    def _soft(self, scores: torch.Tensor, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        wanted, temperature = tensors["taught"], self.config.temperature
        if self.config.task == "score":
            return (scores - wanted).square().sum()
        if self.config.task == "classify":
            return soft_loss(scores, wanted, temperature)
        if self.config.task == "tag":
            judged = tensors["words"] >= 0
            return soft_loss(scores[judged], wanted[judged], temperature)
        gone = (tensors["doc_ids"] == 0)[:, None]
        both = [side.transpose(1, 2).masked_fill(gone, -1e9) for side in (scores, wanted)]
        return soft_loss(both[0], both[1], temperature) / 2  # as the task's loss: the mean of start and end


def check_distillation(config: TaskConfig, teacher: Teacher, network: TaskNetwork) -> None:
    """Refuses what this student cannot learn from this teacher."""
    if config.several:
        raise FirthError("several labels per text are learned from the labels themselves: leave out the teacher")
    if config.crf:
        raise FirthError(
            "a student with crf=true cannot learn from a teacher's single tags: leave out crf or the teacher"
        )
    if any(isinstance(one, ComparingNetwork) for one in (network, teacher.network)):
        raise FirthError(
            "one of the two models reads question and passage apart, so it is no teacher or student: use BERT"
        )
    if config.task == "answer" and not teacher.same_tokens:
        raise FirthError(
            "the teacher has another tokenizer, so its answers have no places in the student's: use one with the same"
        )
    if config.hidden_weight > 0:
        if not teacher.same_tokens:
            raise FirthError(
                "the teacher has another tokenizer, so its layers cannot be compared: leave out hidden_weight"
            )
        if not config.tune:
            raise FirthError("hidden_weight is for a student whose layers learn: leave out tune=false or hidden_weight")
        if network.reader.num_layers < 2 or teacher.network.reader.num_layers < 2:
            raise FirthError("hidden_weight compares layers, which one of the two models has not: leave it out")


def build_teacher(model: Model, run: Path, config: TaskConfig, student: Model, pairs: bool) -> Teacher:
    """The model of ``run`` as the teacher of a student with these settings; an error where it teaches something else."""
    if not isinstance(model, TaskModel):
        raise FirthError(
            f"{run}: no task was learned here ({model.kind}), so it cannot be the teacher; name a run of the same task"
        )
    if model.config.task != config.task or model.pairs != pairs:
        kinds = [
            f"{task} of {'pairs' if both else 'texts'}"
            for task, both in ((model.config.task, model.pairs), (config.task, pairs))
        ]
        raise FirthError(
            f"{run}: has learned {kinds[0]}, which is no teacher of {kinds[1]}; name a run of the same task"
        )
    unknown = sorted(set(config.labels) - set(model.config.labels))
    if unknown:
        raise FirthError(
            f"{run}: does not know the label '{unknown[0]}' (but {', '.join(model.config.labels[:8])}); name a teacher of the same labels"
        )
    columns = [model.config.labels.index(label) for label in config.labels] or list(
        range(1 if config.task == "score" else 2)
    )
    own = isinstance(model.network, TaskNetwork)  # an exported one gives scores, no layers
    return Teacher(model.task, model.network, model.config, columns, own and _same_tokens(model.base, student))


def _same_tokens(first: Model, second: Model) -> bool:
    """Whether both cut any text into the same tokens and put the same around it."""
    pieces = [getattr(model, "pieces", None) for model in (first, second)]
    if pieces[0] is None or pieces[1] is None:
        return False
    return bool(pieces[0].fingerprint == pieces[1].fingerprint and first.reader().frame == second.reader().frame)
