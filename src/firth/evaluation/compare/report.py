"""``report.html`` of a comparison: the table, score against cost and against labels, layer weights, errors side by side."""

import html
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from firth.core.files import write_text
from firth.core.units import show_bytes, show_count, show_duration
from firth.evaluation.compare.ranking import Outcome, Row, mark
from firth.reports.charts import Dot, line_chart, scatter_chart
from firth.reports.page import cards, page

_WORST = 30
_SHORT = 260
_SOONEST_S = 0.05  # where the axis of costs begins: the majority costs nothing

Predictions = dict[str, list[dict[str, Any]]]


def write_compare_report(out: Path, outcome: Outcome, examples: Sequence[Any], predictions: Predictions) -> None:
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
        f"<figure>{scatter_chart(_dots(rows), 'seconds', metric)}</figure>",
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
    return [Dot(row.name, max(row.cost_s, _SOONEST_S), row.score, row.low, row.high) for row in rows]


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
    drawn = line_chart({name: sorted(points) for name, points in series.items()}, "labelled examples", metric)
    return f"<h2>{metric.capitalize()} against labels</h2><figure>{drawn}</figure>"


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


def told(task: str, prediction: dict[str, Any]) -> str:
    """A prediction in few characters."""
    if task == "classify":
        return str(prediction["label"])
    if task == "score":
        return f"{prediction['score']:.2f}"
    return " ".join(prediction["tags"]) if task == "tag" else prediction["answer"] or "no answer"


def _truth(task: str, example: Any) -> str:
    if task in ("classify", "score"):
        return str(example.label)
    if task == "tag":
        return " ".join(example.tags)
    return " / ".join(example.references or [answer.text for answer in example.answers]) or "no answer"


def _wrong(task: str, example: Any, prediction: dict[str, Any]) -> float:
    """How wrong: 0 is right."""
    if task == "classify":
        right = prediction["label"] == str(example.label)
        return 0.0 if right else prediction["probabilities"].get(prediction["label"], 1.0)
    if task == "score":
        return abs(prediction["score"] - float(example.label))
    if task == "tag":
        return float(sum(a != b for a, b in zip(example.tags, prediction["tags"], strict=True)))
    return float(told(task, prediction) not in _truth(task, example).split(" / "))


def _text(task: str, example: Any) -> str:
    if task == "tag":
        found = " ".join(example.words)
    elif task == "answer":
        found = example.question
    else:
        found = example.text + (f"  |  {example.second}" if example.second is not None else "")
    return found if len(found) <= _SHORT else f"{found[: _SHORT - 3]}..."


def _errors(task: str, rows: Sequence[Row], examples: Sequence[Any], predictions: Predictions) -> str:
    """Where all together are most wrong, and what each says there (floors that learn nothing apart)."""
    names = [row.name for row in rows if row.kind != "floor" or row.parameters]
    if not names:
        return ""
    amounts = [
        sum(_wrong(task, example, predictions[name][number]) for name in names)
        for number, example in enumerate(examples)
    ]
    worst = sorted((number for number, amount in enumerate(amounts) if amount), key=lambda number: -amounts[number])
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("text", "true", *names))
    lines = []
    for number in worst[:_WORST]:
        example = examples[number]
        cells = "".join(
            f'<td class="{"" if _wrong(task, example, found) else "right"}">{html.escape(told(task, found))}</td>'
            for found in (predictions[name][number] for name in names)
        )
        truth = html.escape(_truth(task, example))
        lines.append(f"<tr><td>{html.escape(_text(task, example))}</td><td>{truth}</td>{cells}</tr>")
    if not lines:
        return ""
    return f'<h2>Worst errors side by side</h2><div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'
