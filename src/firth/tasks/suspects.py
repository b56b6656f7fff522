"""What to look at next: labels that are probably wrong, and texts that are worth a label."""

import heapq
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firth.core.errors import FirthError
from firth.core.types import Prediction
from firth.data.labelled import Columns, TextExample
from firth.data.sources import PassedOver, find_sources
from firth.data.tables import open_table, output_format, table_writer
from firth.models.shared.model import Model
from firth.tasks.checking import Problem, all_of, check_lines
from firth.tasks.config import TaskConfig, task_config, writing_config
from firth.tasks.counts import fit_counts, fit_frozen, unit_counts
from firth.tasks.data import Reading, TaskData, build_data, copies_of, read_task
from firth.tasks.embed.config import EmbedConfig
from firth.tasks.embed.run import describe_data
from firth.tasks.fasttext import FASTTEXT
from firth.tasks.finetune import MADE
from firth.tasks.judging import FEWEST_JUDGED, Suspect, suspect_labels, write_suspects
from firth.tasks.linear import NUM_FOLDS, Floats, Ints, stratified_folds
from firth.tasks.model import TaskModel, load_base_model
from firth.tasks.predict import predict_source, stored_reading
from firth.tasks.score_table import table_names, table_rows, text_columns
from firth.tasks.write.data import describe_writing

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def find_suspects(examples: Sequence[TextExample], base: Model | None = None) -> list[Suspect]:
    """By counts, or with a base by the linear model on it, whichever makes the labels likelier."""
    labels = sorted({str(example.label) for example in examples})
    if len(labels) < 2 or len(examples) < FEWEST_JUDGED:
        return []
    targets_N = np.asarray([labels.index(str(example.label)) for example in examples])
    copies = copies_of(examples)
    folds_N = stratified_folds(targets_N.tolist(), NUM_FOLDS, 0, copies)
    pairs = any(example.second is not None for example in examples)
    config = TaskConfig(task="classify", labels=tuple(labels))
    best = fit_counts(config, examples, pairs, folds_N)[1]
    if base is not None:
        linear = fit_frozen(config, base, build_data("classify", examples, []), folds_N).linear
        best = max(best, linear, key=lambda one: one.goodness)
    return suspect_labels(best.outside, targets_N, labels, copies)


# -- files

_SHOWN = 5


@dataclass(frozen=True)
class Checked:
    """What is said of the files, and whether training would refuse them."""

    lines: list[str]
    refused: bool = False


def check_files(
    task: str,
    train: Path,
    dev: Path | None,
    reading: Reading,
    settings: Mapping[str, object],
    closely: bool = False,
    suspects: Path | None = None,
    base: str = "",
) -> Checked:
    """Labels, counts, lengths and problems, as lines for a terminal; of writing, the first example. ``closely``: labels
    that are probably wrong as well, which takes a training on counts and on the ``base``; all of them go to the file
    ``suspects``."""
    if suspects is not None and task != "classify":
        raise FirthError(f"--suspects is for the labels of classify, not {task}: leave it out")
    if task == "embed":
        return Checked(describe_data(train, EmbedConfig().update(settings), reading, dev))
    if task == "write":
        return Checked(describe_writing(writing_config(settings)[0], train, dev, reading))
    data = read_task(task_config(task).task, train, dev, reading)
    check, refused = data.check, any(problem.grave for problem in data.check.problems)
    if closely and task == "classify" and not refused and not data.several:
        stands_on = load_base_model(Path(base)) if base and base not in (*MADE, FASTTEXT) else None
        found = find_suspects(all_of(TextExample, data.train), stands_on)
        check = replace(check, problems=[*check.problems, *_wrong_labels(data, found)])
        if suspects is not None:
            write_suspects(found, all_of(TextExample, data.train), suspects)
    return Checked(check_lines(check), refused)


def _wrong_labels(data: TaskData, found: Sequence[Suspect]) -> list[Problem]:
    """The surest ones by name."""
    if not found:
        return []
    shown = [
        f"{data.train[one.number].where or one.number + 1}: '{one.label}', looks like '{one.likely}' ({one.wrong_prob:.2f})"
        for one in found[:_SHOWN]
    ]
    first = data.train[found[0].number].where or str(found[0].number + 1)
    return [Problem("labels that are probably wrong", len(found), first, remedy=f"look at {'; '.join(shown)}")]


_COMPARED, _FEWEST = 10, 500  # times as many as are wanted are compared, at least so many


@dataclass(frozen=True)
class Suggestion:
    """A text, what the model says of it, and how unsure it is (0 to 1)."""

    text: str
    second: str | None
    predicted: str | list[str]
    probability: float
    uncertainty: float
    where: str = ""  # in the pool: file:line


def uncertainty(found: Prediction) -> float:
    """0: it is sure; 1: it knows nothing."""
    chances_K = np.clip(np.asarray(list(found["probabilities"].values())), 1e-12, 1.0)
    if "labels" in found:
        other_K = np.clip(1 - chances_K, 1e-12, 1.0)
        return float(-(chances_K * np.log2(chances_K) + other_K * np.log2(other_K)).mean())
    return float(-(chances_K * np.log(chances_K)).sum() / np.log(len(chances_K))) if len(chances_K) > 1 else 0.0


def choose_diverse(unsure_N: Floats, vectors_ND: "Floats | csr_matrix", num: int) -> Ints:
    """Numbers of texts in the order in which they are chosen; fewer than ``num`` where the others are copies."""
    away_N = np.ones(len(unsure_N))
    chosen: list[int] = []
    while len(chosen) < num:
        worth_N = unsure_N * away_N
        best = int(worth_N.argmax())
        if worth_N[best] <= 1e-9:
            break
        chosen.append(best)
        near = vectors_ND @ vectors_ND[best].T
        cosines_N = np.asarray(near.toarray() if hasattr(near, "toarray") else near).reshape(-1)
        away_N = np.minimum(away_N, np.maximum(1 - cosines_N, 0.0))
    return np.asarray(chosen, np.int64)


def suggest(
    model: TaskModel,
    run: Path,
    pool: str,
    num: int,
    text: str | None = None,
    second: str | None = None,
    encoding: str | None = None,
) -> list[Suggestion]:
    """The ``num`` texts of a file that would teach a classifier most; those that have one of its labels are left out."""
    if model.config.task != "classify":
        raise FirthError(f"{run}: texts are suggested for classify, not {model.config.task}; name such a run")
    found = predict_source(model, run, pool, text, second, encoding, unlabelled=True)
    kept = _most_unsure(found, max(_COMPARED * num, _FEWEST))
    if not kept:
        raise FirthError(f"{pool}: no texts without a label in it; check the file")
    return _diverse(model, kept, num)


def suggest_texts(model: TaskModel, texts: list[str], num: int) -> list[Suggestion]:
    """The same for texts at hand."""
    if model.config.task != "classify" or model.pairs:
        raise FirthError("texts are suggested for classifiers of single texts: name such a run")
    found = (Prediction({**one, "text": text}) for text, one in zip(texts, model.predict(texts), strict=True))
    kept = _most_unsure(found, max(_COMPARED * num, _FEWEST))
    return _diverse(model, kept, num) if kept else []


def _diverse(model: TaskModel, kept: list[Suggestion], num: int) -> list[Suggestion]:
    texts = [f"{one.text} {one.second or ''}".strip() for one in kept]
    unsure_N = np.asarray([one.uncertainty for one in kept])
    return [kept[number] for number in choose_diverse(unsure_N, _vectors(model, texts), num).tolist()]


def _most_unsure(found: Iterable[Prediction], most: int) -> list[Suggestion]:
    """The most uncertain first; of equals the earlier."""
    heap: list[tuple[float, int, Suggestion]] = []
    for number, one in enumerate(found):
        if not one["text"].strip():
            continue
        guessed: str | list[str] = one["labels"] if "labels" in one else str(one["label"])
        unsure = uncertainty(one)
        surest = max(one["probabilities"].values())
        entry = (
            unsure,
            -number,
            Suggestion(one["text"], one.get("second"), guessed, surest, unsure, one.get("where", "")),
        )
        if len(heap) < most:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    return [entry[2] for entry in sorted(heap, key=lambda entry: (-entry[0], -entry[1]))]


def _vectors(model: TaskModel, texts: list[str]) -> "Floats | csr_matrix":
    """Of length 1: those of the base, or TF-IDF where it has none."""
    if "encode" in model.abilities:
        vectors_ND = np.asarray(model.encode(texts), np.float64)
        return np.asarray(vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12))
    return unit_counts(texts)


def write_suggestions(
    found: list[Suggestion], out: Path, pool: str, run: Path, columns: Columns, encoding: str | None
) -> None:
    """A table to be filled in. Of a pool that is a table it has all columns, under their names, so that it can be put back or
    added to the training file; an empty column of labels, and what the model says, are added where they are not there. Of
    other pools: the texts."""
    output_format(out)
    reading = stored_reading(run)
    encoding = encoding or reading.encoding or "utf-8"
    sources = find_sources([pool]) if pool != "-" else []
    if len(sources) == 1 and sources[0].format != "txt":
        if columns.text is None and columns.second is None:
            columns = Columns(reading.text, reading.second)
        try:
            table = open_table(sources[0], encoding, every_field=True)
            chosen = text_columns(table, columns, reading.label)
            names, wanted = table_names(table, chosen), {one.where for one in found}
            rows = {where: row for where, row in table_rows(table, chosen, len(names)) if where in wanted}
        except FirthError as error:  # its texts could be read all the same
            warnings.warn(f"{out}: the texts without the other columns of the pool ({error})", PassedOver, stacklevel=2)
        else:
            _write_rows(found, rows, names, _label_place(names, reading.label, rows), out, table.types)
            return
    pairs = any(one.second is not None for one in found)
    names = ["text", *(["second"] if pairs else []), "label", "predicted", "probability", "uncertainty"]
    with table_writer(out, names, {}) as write:
        for one in found:
            texts = [one.text, one.second or ""] if pairs else [one.text]
            write([*texts, None, one.predicted, round(one.probability, 4), round(one.uncertainty, 4)])


_PLAIN = ("label", "labels", "标签")  # others, such as rating, may mean something else in a pool


def _label_place(names: list[str], label: str | None, rows: Mapping[str, list[object]]) -> int:
    """The column of labels, which is added to ``names`` where there is none."""
    lower = [name.lower() for name in names]
    if label is not None and label.lower() in lower:
        return lower.index(label.lower())
    if label is not None and label.isdecimal() and 1 <= int(label) <= len(names):
        return int(label) - 1  # of a table without a header
    plain = next((lower.index(one) for one in _PLAIN if one in lower), None)
    if plain is not None and all(row[plain] is None or not str(row[plain]).strip() for row in rows.values()):
        return plain
    name = label if label is not None and not label.isdecimal() else "label"
    while name.lower() in lower:
        name += "_"
    names.append(name)
    return len(names) - 1


def _write_rows(
    found: list[Suggestion],
    rows: Mapping[str, list[object]],
    names: list[str],
    label: int,
    out: Path,
    types: Mapping[str, Any],
) -> None:
    """The rows of a pool, the most useful first; what an earlier suggestion said of them is replaced."""
    said = ("predicted", "probability", "uncertainty")
    every = [*names, *(name for name in said if name not in names)]
    places = [every.index(name) for name in said]
    kept = {name: kind for name, kind in types.items() if name not in said and name != names[label]}
    with table_writer(out, every, kept) as write:
        for one in found:
            row = [*rows[one.where], *(None for _ in range(len(every) - len(rows[one.where])))]
            row[label] = None if row[label] in (None, "") else row[label]
            for place, value in zip(
                places, (one.predicted, round(one.probability, 4), round(one.uncertainty, 4)), strict=True
            ):
                row[place] = value
            write(row)
