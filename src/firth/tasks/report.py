"""``report.html`` of a task: scores, seeds, confusions, layer weights, and the worst errors."""

import html
import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from firth.core.config import show_count, show_duration
from firth.core.files import write_text
from firth.core.run import CellSettings, Run, RunRecord, TaskRecord, TunedBase
from firth.core.types import Prediction
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.reports.card import show_curve
from firth.reports.page import cards, line_figure, page, settings_table
from firth.tasks.checking import AnyExample, all_of
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData
from firth.tasks.finetune import share_chart
from firth.tasks.judging import Suspect
from firth.tasks.scores import calibration_error, chances_of, confusion, coverage_curve, never_guessed, reliability
from firth.tasks.tag_schemes import spans_of
from firth.training.checkpoints import read_history

DEV = "dev.jsonl"  # dev examples with their predictions, for the page
_MOST_DEV = 1000
_WORST = 25
_ANSWERS = ("label", "labels", "probabilities", "score")
_FEW = 100  # dev examples: fewer say little
_MOST_CLASSES = 40
_IN_FOLDS = "No dev file: scores, confusions and errors are those of cross-validation on the training examples."


def write_task_report(
    run: Run,
    config: TaskConfig,
    data: TaskData,
    predictions: Sequence[Prediction],
    suspects: Sequence[Suspect] = (),
) -> None:
    """Without a dev file ``data.dev`` are training examples, each judged by a model that had not learned from it."""
    record, task = run.record, run.record.task
    assert task is not None
    in_folds = record.corpus is not None and record.corpus.dev is None and bool(data.dev)
    name = html.escape(run.folder.name)
    base = html.escape(str(record.base).rpartition("/")[2])
    body = [
        f'<p class="soft">Firth task</p><h1>{name}</h1><p class="soft">{html.escape(record.recipe)} on {base}</p>',
        cards(_shown(record, task, len(data.train))),
        f'<p class="soft">Only {len(data.dev)} examples: the interval is wide.</p>' if len(data.dev) < _FEW else "",
        f'<p class="soft">{_IN_FOLDS}</p>' if in_folds else "",
        _candidates(task),
        _curves(run.folder / "seeds" / str(task.best), task.metric),
        _shares(task),
        _more_labels(task),
        _seeds(task),
        _tuned(task.tuned_base),
        _mixes(task),
        _labels(task),
        _confusion(config, data, predictions),
        _confidence(config, data, predictions),
        _error_kinds(config, data, predictions),
        _errors(config.task, data, predictions),
        _suspects(suspects, data),
        f"<h2>Use it</h2><pre>firth predict {name} texts.txt\nfirth evaluate {name} --data test.tsv</pre>",
        settings_table(record),
    ]
    write_text(run.folder / "report.html", page(f"{run.folder.name} · Firth", "".join(body)))
    rows = _dev_rows(data.dev, predictions)
    write_text(run.folder / DEV, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _dev_rows(examples: Sequence[AnyExample], predictions: Sequence[Prediction]) -> list[dict[str, object]]:
    """The first dev examples, each with what is true (``true``) and what was predicted."""
    rows: list[dict[str, object]] = []
    for example, found in zip(examples[:_MOST_DEV], predictions, strict=False):
        if isinstance(example, TextExample):
            true: object = list(example.labels) if example.labels is not None else example.label
            answer = {name: value for name, value in found.items() if name in _ANSWERS}
            rows.append({"text": example.text, "second": example.second, "true": true, **answer})
        elif isinstance(example, TagExample):
            rows.append({"words": example.words, "true": example.tags, "tags": found["tags"]})
        else:
            true = [] if example.impossible else [answer.text for answer in example.answers]
            asked = {"question": example.question, "passage": example.passage}
            rows.append({**asked, "true": true, "answer": found["answer"]})
    return rows


def _shown(record: RunRecord, task: TaskRecord, num_train: int) -> dict[str, str]:
    """The cards at the top."""
    shown = {name: f"{value:.4f}" for name, value in record.metrics.items()}
    if task.interval is not None:
        shown[f"{task.interval.metric}, 95 %"] = f"{task.interval.low:.3f} – {task.interval.high:.3f}"
    shown |= {
        "parameters": show_count(record.parameters),
        "training": show_duration(record.seconds),
        "examples": f"{num_train:,}",
    }
    if task.spread is not None:
        shown["over seeds"] = f"{task.spread.mean:.4f} ± {task.spread.deviation:.4f}"
    return shown


def _curves(folder: Path, metric: str) -> str:
    lines = read_history(folder / "metrics.jsonl")
    if not lines:
        return ""  # nothing was tuned
    train = [(line["step"], line["loss"]) for line in lines if line["event"] == "train"]
    name = f"heldout_{metric}"
    dev = [(line["step"], line[name]) for line in lines if line["event"] == "evaluate" and name in line]
    drawn = f"<h2>Training loss</h2>{line_figure({'training': train}, 'step', 'loss')}"
    return f"{drawn}<h2>Dev {html.escape(metric)}</h2>{line_figure({metric: dev}, 'step', metric)}" if dev else drawn


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], said: Collection[int] = ()) -> str:
    """The columns in ``said`` are the report's own words, in both languages; the others are the user's."""
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    kinds = ['<td class="said">' if place in said else "<td>" for place in range(len(head))]
    lines = "".join(
        "<tr>" + "".join(f"{kind}{html.escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{top}</tr>{lines}</table></div>'


def _candidates(task: TaskRecord) -> str:
    """What was tried, and which was kept."""
    tried = [] if task.chosen is None else task.chosen.candidates
    rows = [
        [
            one.name,
            "" if one.score is None else f"{one.score:.4f}",
            "" if one.examples is None else f"{one.examples:,}",
            show_duration(one.seconds) if one.seconds else "",
            "chosen" if one.chosen else "",
            one.note,
        ]
        for one in tried
    ]
    return "<h2>Tried</h2>" + _table(["", task.metric, "examples", "time", "", ""], rows, (0, 4, 5)) if rows else ""


def _labels(task: TaskRecord) -> str:
    """Class by class, and what is never guessed."""
    found = {} if task.chosen is None else task.chosen.by_label
    rows = [
        [label, f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.true:,}", f"{one.guessed:,}"]
        for label, one in sorted(found.items(), key=lambda item: (item[1].true, item[0]))
    ]
    missed = "".join(f"<p><b>{html.escape(label)} is never predicted.</b></p>" for label in never_guessed(found))
    head = ["", "precision", "recall", "F1", "true", "predicted"]
    return f"<h2>By label</h2>{missed}" + _table(head, rows) if rows else ""


def _shares(task: TaskRecord) -> str:
    """The score by the number of labelled examples."""
    if not task.efficiency:
        return ""
    metric = task.metric
    rows = [
        [
            f"{100 * point.share:g} %",
            f"{point.examples:,}",
            f"{point.mean:.4f} ± {point.deviation:.4f}",
            "  ".join(f"{score:.4f}" for score in point.scores),
        ]
        for point in task.efficiency
    ]
    drawn = share_chart({metric: task.efficiency}, metric)
    return f"<h2>Dev {html.escape(metric)} by labelled examples</h2>{drawn}" + _table(
        ["share", "examples", f"{metric}, mean ± deviation", "every seed"], rows
    )


def _more_labels(task: TaskRecord) -> str:
    """The learning curve of the linear model, with what it predicts for twice the labels."""
    curve = None if task.chosen is None else task.chosen.curve
    if curve is None:
        return ""
    measured = [(float(point.examples), point.score) for point in curve.points]
    predicted = [(float(curve.examples), curve.fitted), (2.0 * curve.examples, curve.predicted)]
    series = {"cross-validation": measured, "predicted": predicted}
    drawn = line_figure(series, "labelled examples", curve.metric, log_x=True)
    said = f"More labels {show_curve(curve)}."
    return f"<h2>Would more labels help?</h2><p>{html.escape(said)}</p>{drawn}"


def _tuned(found: TunedBase | None) -> str:
    """What the base knew of the task's text, before and after it had read it."""
    if found is None or not found.after:
        return ""
    rows = [
        [name.replace("_", " "), f"{found.before[name]:.4f}" if name in found.before else "", f"{value:.4f}"]
        for name, value in found.after.items()
    ]
    title = f"<h2>Base on the task's text, {found.epochs:g} epochs (held-out part)</h2>"
    return title + _table(["", "before", "after"], rows)


def _seeds(task: TaskRecord) -> str:
    if len(task.results) < 2:
        return ""
    rows = [
        [
            str(result.seed),
            f"{result.examples:,}",
            f"{result.settings.batch_size:g}",
            f"{result.settings.learning_rate:g}",
            f"{result.settings.epochs:g}",
            ", ".join(
                f"{name}={value}" for name, value in result.point.items() if name not in CellSettings.model_fields
            ),
            f"{result.score:.4f}",
            f"{result.train_s:.1f} s",
        ]
        for result in task.results
    ]
    return "<h2>Every training</h2>" + _table(
        ["seed", "examples", "batch", "learning rate", "epochs", "", task.metric, "time"], rows
    )


def _mixes(task: TaskRecord) -> str:
    """What each place took of each layer, and how much of all."""
    mixes = task.mixes
    if not mixes:
        return ""
    layers = range(max(len(mix.weights) for mix in mixes.values()))
    rows = [[f"layer {layer}", *(f"{mix.weights[layer]:.3f}" for mix in mixes.values())] for layer in layers]
    rows.append(["γ", *(f"{mix.gamma:.3f}" for mix in mixes.values())])
    return "<h2>Weight of each layer</h2>" + _table(["", *(f"at the {place}" for place in mixes)], rows)


def _confusion(config: TaskConfig, data: TaskData, predictions: Sequence[Prediction]) -> str:
    labels = config.labels
    if config.task != "classify" or config.several or len(labels) > _MOST_CLASSES or not predictions:
        return ""
    number = {label: place for place, label in enumerate(labels)}
    counts = confusion(
        [number[str(example.label)] for example in all_of(TextExample, data.dev)],
        [number[str(found["label"])] for found in predictions],
        len(labels),
    )
    rows = [[label, *(str(count) for count in counts[place].tolist())] for place, label in enumerate(labels)]
    return "<h2>Confusions (rows: true, columns: predicted)</h2>" + _table(["", *labels], rows)


def _confidence(config: TaskConfig, data: TaskData, predictions: Sequence[Prediction]) -> str:
    """Whether probabilities mean what they say, and what is gained by giving no label to the doubtful texts."""
    if config.task != "classify" or config.several or not predictions:
        return ""
    truth = [str(example.label) for example in all_of(TextExample, data.dev)]
    chances_N, right_N = chances_of(predictions, truth)
    bins = reliability(chances_N, right_N)
    lowest = min(0.5, *(min(chance, right) for chance, right, _ in bins))
    drawn = line_figure(
        {"examples": [(chance, right) for chance, right, _ in bins], "ideal": [(lowest, lowest), (1.0, 1.0)]},
        "probability of the predicted label",
        "share that is right",
    )
    rows = [[f"{chance:.3f}", f"{right:.3f}", f"{count:,}"] for chance, right, count in bins]
    kept = [
        [f"{one['min_confidence']:g}", f"{one['coverage']:.1%}", f"{one['accuracy']:.4f}"]
        for one in coverage_curve(chances_N, right_N)
    ]
    said = f"Expected calibration error {calibration_error(chances_N, right_N):.3f}."
    return (
        f"<h2>Reliability</h2><p>{said}</p>{drawn}"
        + _table(["mean probability", "share that is right", "examples"], rows)
        + "<h2>With --min-confidence</h2>"
        + _table(["at least", "texts with a label", "accuracy on them"], kept)
    )


ERROR_KINDS = {
    "missed": "an entity that was not found",
    "invented": "none there, but one was found",
    "type": "the right stretch with another type",
    "border": "the right type, but it begins or ends elsewhere",
}


def _error_kinds(config: TaskConfig, data: TaskData, predictions: Sequence[Prediction]) -> str:
    """Errors of a tagger by kind, each with its first example."""
    if config.task != "tag" or config.scheme is None:
        return ""
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for example, found in zip(all_of(TagExample, data.dev), predictions, strict=True):
        for kind, text in entity_errors(example.words, example.tags or [], [tag or "O" for tag in found["tags"]]):
            counts[kind] += 1
            shown.setdefault(kind, text)
    rows = [[kind, str(counts[kind]), said, _short(shown[kind])] for kind, said in ERROR_KINDS.items() if counts[kind]]
    return "<h2>Errors by kind</h2>" + _table(["kind", "count", "", "example"], rows, (0, 2)) if rows else ""


def entity_errors(words: Sequence[str], true: Sequence[str], guessed: Sequence[str]) -> list[tuple[str, str]]:
    """(kind, what) for each entity that is wrong; an entity counts once."""
    wanted, found = ({(first, last + 1): name for name, first, last in spans_of(tags)} for tags in (true, guessed))
    errors, met = [], set()
    for (start, end), name in wanted.items():
        text = " ".join(words[start:end])
        near = [place for place in found if place[0] < end and start < place[1]]
        met.update(near)
        if (start, end) in found:
            if found[start, end] != name:
                errors.append(("type", f"{text}: {name} → {found[start, end]}"))
        elif same := [place for place in near if found[place] == name]:
            errors.append(("border", f"{text} → {' '.join(words[same[0][0] : same[0][1]])} ({name})"))
        else:
            errors.append(("missed", f"{text} ({name})"))
    errors += [("invented", f"{' '.join(words[a:b])} ({name})") for (a, b), name in found.items() if (a, b) not in met]
    return errors


def _errors(task: str, data: TaskData, predictions: Sequence[Prediction]) -> str:
    """The errors that the model was surest of."""
    find = {"classify": _class_errors, "score": _score_errors, "tag": _tag_errors, "answer": _answer_errors}
    rows = sorted(find[task](data.dev, predictions), key=lambda row: -row[0])[:_WORST]
    if not rows:
        return ""
    return "<h2>Worst errors</h2>" + _table(["true", "predicted", "text"], [row[1:] for row in rows])


def _suspects(found: Sequence[Suspect], data: TaskData) -> str:
    """Labels that are probably wrong; all of them are in a file."""
    examples = all_of(TextExample, data.train)
    rows = [
        [one.label, one.likely, f"{one.wrong_prob:.2f}", _short(_both(examples[one.number]))] for one in found[:_WORST]
    ]
    head = ["label", "looks like", "probability that it is wrong", "text"]
    said = f"<p>{len(found):,} in all: suspects.tsv in the folder of the run.</p>"
    return f"<h2>Labels that are probably wrong</h2>{said}" + _table(head, rows) if rows else ""


_Error = tuple[float, str, str, str]


def _class_errors(examples: Sequence[AnyExample], predictions: Sequence[Prediction]) -> list[_Error]:
    if predictions and "labels" in predictions[0]:
        return _several_errors(examples, predictions)
    return [
        (found["probabilities"][label], str(example.label), label, _short(_both(example)))
        for example, found in zip(all_of(TextExample, examples), predictions, strict=True)
        if (label := str(found["label"])) != str(example.label)
    ]


def _several_errors(examples: Sequence[AnyExample], predictions: Sequence[Prediction]) -> list[_Error]:
    """By the labels that are wrong or missing, then by how sure it was of the first."""
    rows = []
    for example, found in zip(all_of(TextExample, examples), predictions, strict=True):
        true, guessed = set(example.labels or ()), set(found["labels"])
        if true != guessed:
            surest = max(abs(found["probabilities"][label] - (label in true)) for label in true ^ guessed)
            first, second = (", ".join(sorted(some)) or "none" for some in (true, guessed))
            rows.append((len(true ^ guessed) + surest, first, second, _short(_both(example))))
    return rows


def _score_errors(examples: Sequence[AnyExample], predictions: Sequence[Prediction]) -> list[_Error]:
    return [
        (
            abs(found["score"] - (label := float(example.label or 0.0))),
            f"{label:g}",
            f"{found['score']:.2f}",
            _short(_both(example)),
        )
        for example, found in zip(all_of(TextExample, examples), predictions, strict=True)
    ]


def _tag_errors(examples: Sequence[AnyExample], predictions: Sequence[Prediction]) -> list[_Error]:
    rows = []
    for example, found in zip(all_of(TagExample, examples), predictions, strict=True):
        tags = example.tags or []
        wrong = np.flatnonzero([a != b for a, b in zip(tags, found["tags"], strict=True)])
        if len(wrong):
            true = " ".join(f"{example.words[place]}/{tags[place]}" for place in wrong.tolist())
            guessed = " ".join(f"{example.words[place]}/{found['tags'][place]}" for place in wrong.tolist())
            rows.append((float(len(wrong)), _short(true), _short(guessed), _short(" ".join(example.words))))
    return rows


def _answer_errors(examples: Sequence[AnyExample], predictions: Sequence[Prediction]) -> list[_Error]:
    rows = []
    for example, found in zip(all_of(AnswerExample, examples), predictions, strict=True):
        true = [] if example.impossible else [answer.text for answer in example.answers]
        if found["answer"] not in (true or [""]):
            rows.append(
                (
                    float(found["score"]),
                    " / ".join(true) or "no answer",
                    found["answer"] or "no answer",
                    _short(example.question),
                )
            )
    return rows


def _both(example: TextExample) -> str:
    return example.text + (f"  |  {example.second}" if example.second is not None else "")


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:297]}..."
