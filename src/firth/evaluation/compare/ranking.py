"""The result of a comparison: rows of scores and costs, the best and the cheapest of them, the budget, the table for the
terminal, and ``report.html``."""

import html
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from firth.core.config import show_bytes, show_count, show_duration
from firth.core.files import write_text
from firth.core.types import Prediction
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.reports.page import Dot, cards, line_figure, page, scatter_figure
from firth.tasks.checking import AnyExample

PRETRAIN_SHARE = 0.7
"""Of the budget; the rest is for fine-tuning."""


@dataclass(frozen=True)
class Row:
    """One representation (or floor): how well it does and what it costs. Seconds of fine-tuning are those of one
    training; ``low`` and ``high`` are the 95 % interval over examples, the mean over seeds."""

    name: str
    kind: str  # floor, scratch, trained, given
    scores: tuple[float, ...]  # one per seed
    low: float
    high: float
    parameters: int = 0
    pretrain_s: float = 0.0
    finetune_s: float = 0.0
    ms_per_text: float = 0.0
    num_bytes: int = 0
    layer_weights: tuple[float, ...] = ()
    by_share: dict[str, tuple[float, ...]] = field(default_factory=dict)  # share of the labels: scores
    folder: str = ""

    @property
    def score(self) -> float:
        return statistics.mean(self.scores)

    @property
    def deviation(self) -> float:
        """Over seeds; 0 where there is one."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else 0.0

    @property
    def cost_s(self) -> float:
        """Seconds of pre-training and one fine-tuning."""
        return self.pretrain_s + self.finetune_s

    def as_dict(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {**asdict(self), "score": self.score, "deviation": self.deviation, "cost_s": self.cost_s}


@dataclass(frozen=True)
class Marks:
    """The best row, those whose score is within its error, and the cheapest of those."""

    best: str
    cheapest: str
    within: tuple[str, ...]


def mark(rows: Sequence[Row]) -> Marks:
    """The best has the highest mean score. Its error is the larger of the lower half of its interval (other examples)
    and its spread (other seeds); the cheapest within it takes the least time to make."""
    best = max(rows, key=lambda row: (row.score, -row.cost_s))
    error = max(best.score - best.low, best.deviation)
    within = [row for row in rows if row.score >= best.score - error - 1e-12]
    cheapest = min(within, key=lambda row: (row.cost_s, row.ms_per_text))
    return Marks(best.name, cheapest.name, tuple(row.name for row in within))


@dataclass(frozen=True)
class Outcome:
    """The result of a comparison with its settings."""

    task: str
    metric: str
    scored_on: Literal["test", "dev"]
    num_train: int
    num_scored: int
    budget: str
    seeds: int
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, object]:
        """Plain data, for JSON."""
        marks = mark(self.rows)
        rows = [row.as_dict() for row in self.rows]
        return {**vars(self), "rows": rows, "best": marks.best, "cheapest": marks.cheapest}


@dataclass(frozen=True)
class Shares:
    """Seconds for each pre-training and for each single fine-tuning."""

    pretrain_s: float
    finetune_s: float


def share_budget(budget_s: float, num_pretrained: int, num_finetuned: int, num_trainings: float) -> Shares:
    """Seven tenths for pre-training, in equal parts; the rest for fine-tuning, in equal parts for each representation
    and training (seeds times the shares of labels). With nothing to pre-train all is for fine-tuning."""
    first = PRETRAIN_SHARE if num_pretrained else 0.0
    pretrain_s = first * budget_s / max(num_pretrained, 1)
    return Shares(pretrain_s, (1 - first) * budget_s / max(num_finetuned * num_trainings, 1e-9))


def fit_length(allowed_s: float, step_s: float, evaluation_s: float, epoch_steps: int, wanted: int) -> tuple[int, int]:
    """(epochs, steps) of a fine-tuning that keeps to its seconds: as many whole epochs as fit, at most as many as wanted,
    with an evaluation after each. One epoch may take twice the time; if not even that is enough, as many of its steps as
    fit into the seconds, at least one."""
    epoch_s = epoch_steps * step_s + evaluation_s
    epochs = min(wanted, int(allowed_s / max(epoch_s, 1e-12)))
    if epochs >= 1 or epoch_s <= 2 * allowed_s:
        return max(epochs, 1), max(epochs, 1) * epoch_steps
    return 1, max(1, min(epoch_steps, int((allowed_s - evaluation_s) / max(step_s, 1e-12))))


_HEAD = ("95 %", "params", "pretrain", "tune", "ms/text", "disk")
_WIDTHS = (19, 12, 12, 7, 9, 6, 8, 7)  # 80 columns


def table_lines(rows: Sequence[Row], metric: str, names: dict[str, str] | None = None) -> list[str]:
    """The table for a terminal, the best score first. ``names`` translate the heads and words."""
    words = names or {}
    marks = mark(rows)
    several = any(len(row.scores) > 1 for row in rows)
    lines = [_line([words.get(cell, cell) for cell in ("", metric, *_HEAD)])]
    for row in sorted(rows, key=lambda row: -row.score):
        spread = f"±{row.deviation:.3f}" if len(row.scores) > 1 else " " * 6 if several else ""
        cells = [
            f"{_flag(row, marks)} {row.name}",
            f"{row.score:.3f}{spread}",
            f"{row.low:.3f}–{row.high:.3f}",
            show_count(row.parameters) if row.parameters else "–",
            _seconds(row.pretrain_s),
            _seconds(row.finetune_s),
            f"{row.ms_per_text:.2f}" if row.ms_per_text >= 0.005 else "–",
            _size(row.num_bytes) if row.num_bytes else "–",
        ]
        lines.append(_line(cells))
    best = words.get("best", "* best")
    cheapest = words.get("cheapest", "+ cheapest within the best one's error")
    lines.append(f"{best}: {marks.best}   {cheapest}: {marks.cheapest}")
    return lines


def _flag(row: Row, marks: Marks) -> str:
    if row.name == marks.best:
        return "*"
    return "+" if row.name == marks.cheapest else " "


def _line(cells: Sequence[str]) -> str:
    first, *others = zip(cells, _WIDTHS, strict=True)
    return (_left(*first) + "".join(_right(*cell) for cell in others)).rstrip()


def _left(text: str, width: int) -> str:
    return (text if len(text) <= width else f"{text[: width - 1]}…").ljust(width)


def _right(text: str, width: int) -> str:
    wide = sum(ord(char) >= 0x2E80 for char in text)  # Chinese characters take two columns
    return text.rjust(max(width - wide, len(text) + 1))


def _size(num_bytes: int) -> str:
    number, unit = show_bytes(num_bytes).split()
    return f"{float(number):.0f}{unit}" if float(number) >= 10 else f"{number}{unit}"


def _seconds(seconds: float) -> str:
    """In the few characters of a column."""
    if seconds <= 0:
        return "–"
    if seconds < 99.5:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    return f"{seconds / 60:.1f}m" if seconds < 5970 else f"{seconds / 3600:.1f}h"


_ROWS = TypeAdapter(list[Row])


class ComparisonTable(dict[str, Any]):
    """``rows`` with scores, intervals and costs, ``metric``, ``best``, ``cheapest`` and more, as in compare.json."""

    def lines(self, names: dict[str, str] | None = None) -> list[str]:
        """The table for a terminal; ``names`` translate its words."""
        return table_lines(_ROWS.validate_python(self["rows"]), self["metric"], names)

    def __repr__(self) -> str:
        return "\n".join(self.lines())


# -- report.html

_NUM_WORST = 30
_MAX_CHARS = 260  # of a text
_MIN_COST_S = 0.05  # where the logarithmic axis of costs begins
Predictions = Mapping[str, Sequence[Prediction]]  # by the name of the row


def write_compare_report(out: Path, outcome: Outcome, examples: Sequence[AnyExample], predictions: Predictions) -> None:
    """Writes the self-contained page ``report.html``."""
    rows = sorted(outcome.rows, key=lambda row: -row.score)
    metric, marks = outcome.metric, mark(outcome.rows)
    shown = {
        "best": marks.best,
        "cheapest within its error": marks.cheapest,
        "labelled examples": f"{outcome.num_train:,}",
        f"scored on {outcome.scored_on}": f"{outcome.num_scored:,}",
        "budget": outcome.budget,
        "seeds": str(outcome.seeds),
    }
    body = [
        f'<p class="soft">Firth comparison</p><h1>{html.escape(out.name)}</h1><p class="soft">{outcome.task}</p>',
        cards(shown),
        _table(rows, metric),
        f"<h2>{metric.capitalize()} against cost</h2>"
        '<p class="soft">Seconds of pre-training and one fine-tuning on this machine; bars are 95 % intervals.</p>'
        f"{scatter_figure(_dots(rows), 'seconds', metric)}",
        _shares(rows, metric, outcome.num_train),
        _layers(rows),
        _errors(outcome.task, rows, examples, predictions),
        "<h2>Use the best</h2><pre>" + html.escape(_uses(out, rows)) + "</pre>",
    ]
    write_text(out / "report.html", page(f"{out.name} · Firth", "".join(body)))


def _uses(out: Path, rows: Sequence[Row]) -> str:
    trained = [row for row in rows if row.kind != "floor"]
    best = max(trained, key=lambda row: row.score)
    return f"firth predict {out / best.folder} texts.txt\nfirth serve --folder {out}"


def _cells(cells: Sequence[str], tag: str = "td") -> str:
    first, *others = cells
    return (
        f"<tr><{tag}>{html.escape(first)}</{tag}>"
        + "".join(f'<{tag} class="n">{html.escape(cell)}</{tag}>' for cell in others)
        + "</tr>"
    )


def _table(rows: Sequence[Row], metric: str) -> str:
    marks = mark(rows)
    head = _cells(["", metric, "± seeds", "95 %", "parameters", "pre-training", "fine-tuning", "ms/text", "disk"], "th")
    lines = []
    for row in rows:
        words = [word for word, name in (("best", marks.best), ("cheapest", marks.cheapest)) if row.name == name]
        lines.append(
            _cells(
                [
                    row.name + (f" ({', '.join(words)})" if words else ""),
                    f"{row.score:.4f}",
                    f"{row.deviation:.4f}" if len(row.scores) > 1 else "–",
                    f"{row.low:.3f} – {row.high:.3f}",
                    show_count(row.parameters) if row.parameters else "–",
                    show_duration(row.pretrain_s) if row.pretrain_s else "–",
                    show_duration(row.finetune_s),
                    f"{row.ms_per_text:.2f}",
                    show_bytes(row.num_bytes) if row.num_bytes else "–",
                ]
            )
        )
    return f'<div class="wide"><table>{head}{"".join(lines)}</table></div>'


def _dots(rows: Sequence[Row]) -> list[Dot]:
    return [Dot(row.name, max(row.cost_s, _MIN_COST_S), row.score, row.low, row.high) for row in rows]


def _shares(rows: Sequence[Row], metric: str, num_train: int) -> str:
    """Sample efficiency: the mean over seeds against the number of labels."""
    series = {
        row.name: [
            *((float(share) * num_train, statistics.mean(scores)) for share, scores in row.by_share.items()),
            (float(num_train), row.score),
        ]
        for row in rows
        if row.by_share
    }
    if not series:
        return ""
    drawn = line_figure({name: sorted(points) for name, points in series.items()}, "labelled examples", metric)
    return f"<h2>{metric.capitalize()} against labels</h2>{drawn}"


def _layers(rows: Sequence[Row]) -> str:
    mixed = [row for row in rows if row.layer_weights]
    if not mixed:
        return ""
    most = max(len(row.layer_weights) for row in mixed)
    head = _cells(["", *(f"layer {layer}" for layer in range(most))], "th")
    lines = "".join(
        _cells([row.name, *(f"{weight:.3f}" for weight in row.layer_weights), *[""] * (most - len(row.layer_weights))])
        for row in mixed
    )
    return f'<h2>Weight of each layer</h2><div class="wide"><table>{head}{lines}</table></div>'


# -- errors side by side


def _predicted(task: str, prediction: Prediction) -> str:
    """A prediction as a short text."""
    if task == "classify":
        return str(prediction["label"])
    if task == "score":
        return f"{prediction['score']:.2f}"
    return " ".join(map(str, prediction["tags"])) if task == "tag" else prediction["answer"] or "no answer"


def _truth(example: AnyExample) -> str:
    if isinstance(example, TextExample):
        return str(example.label)
    if isinstance(example, TagExample):
        return " ".join(example.tags or ())
    return " / ".join(example.references or [answer.text for answer in example.answers]) or "no answer"


def _error(task: str, example: AnyExample, prediction: Prediction) -> float:
    """The size of an error; 0 is correct."""
    if isinstance(example, TextExample) and task == "classify":
        label = str(prediction["label"])
        return 0.0 if label == str(example.label) else prediction["probabilities"].get(label, 1.0)
    if isinstance(example, TextExample):
        return abs(prediction["score"] - float(example.label or 0.0))
    if isinstance(example, TagExample):
        return float(sum(a != b for a, b in zip(example.tags or (), prediction["tags"], strict=True)))
    return float(_predicted(task, prediction) not in _truth(example).split(" / "))


def _text(example: AnyExample) -> str:
    if isinstance(example, TagExample):
        found = " ".join(example.words)
    elif isinstance(example, AnswerExample):
        found = example.question
    else:
        found = example.text + (f"  |  {example.second}" if example.second is not None else "")
    return found if len(found) <= _MAX_CHARS else f"{found[: _MAX_CHARS - 3]}..."


def _errors(task: str, rows: Sequence[Row], examples: Sequence[AnyExample], predictions: Predictions) -> str:
    """The examples with the largest total error, and each prediction for them (without floors that learn nothing)."""
    names = [row.name for row in rows if row.kind != "floor" or row.parameters]
    if not names:
        return ""
    amounts = [
        sum(_error(task, example, predictions[name][number]) for name in names)
        for number, example in enumerate(examples)
    ]
    worst = sorted((number for number, amount in enumerate(amounts) if amount), key=lambda number: -amounts[number])
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("text", "true", *names))
    lines = []
    for number in worst[:_NUM_WORST]:
        example = examples[number]
        cells = "".join(
            f'<td class="{"" if _error(task, example, found) else "right"}">{html.escape(_predicted(task, found))}</td>'
            for found in (predictions[name][number] for name in names)
        )
        truth = html.escape(_truth(example))
        lines.append(f"<tr><td>{html.escape(_text(example))}</td><td>{truth}</td>{cells}</tr>")
    if not lines:
        return ""
    return f'<h2>Worst errors side by side</h2><div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'
