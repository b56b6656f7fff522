"""The result of ``firth probe`` as a type, as text and as ``report.html``; and what is measured of attention heads.

L layers, H heads, T tokens.
"""

import html
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from firth.core.files import write_text
from firth.reports.page import heat_map, line_figure, page

_MAPS = (
    ("distance", "Mean attention distance of each head, in tokens"),
    ("entropy", "Attention entropy of each head, in nats"),
)

Floats = NDArray[np.float64]
Measures: TypeAlias = dict[str, Any]
"""The fields of ``TagScores``, ``SenseScores`` or ``HeadMeasures`` as plain data."""


class ProbeRow(TypedDict):
    """A measure: its value for each layer (None where there is none), and reference values such as baselines."""

    name: str
    layers: list[float | None]
    reference: dict[str, float]


class ProbeResult(TypedDict):
    """All that ``firth probe`` found, as plain data (``probe.json``)."""

    kind: str  # of model
    rows: list[ProbeRow]
    notes: list[str]  # which probes are missing, and why
    tags: NotRequired[Measures]
    senses: NotRequired[Measures]
    similarity: NotRequired[list[dict[str, object]]]
    analogies: NotRequired[list[dict[str, object]]]
    perplexity: NotRequired[dict[str, float]]
    attention: NotRequired[Measures]
    report: NotRequired[str]  # path


class ProbeTable(dict[str, Any]):
    """A ``ProbeResult`` that is shown as a table."""

    def lines(self) -> list[str]:
        """The table for a terminal: a row per measure, a column per layer, reference values; then the notes."""
        rows: list[ProbeRow] = self["rows"]
        most = max((len(row["layers"]) for row in rows), default=0)
        width = max((len(row["name"]) for row in rows), default=0)
        lines = (
            [f"{'layer':<{width}}" + "".join(f"{layer:>8}" for layer in range(most)) + "   reference"] if rows else []
        )
        for row in rows:
            cells = [show(value) for value in row["layers"]] + [""] * (most - len(row["layers"]))
            lines.append(f"{row['name']:<{width}}" + "".join(f"{cell:>8}" for cell in cells) + f"   {_reference(row)}")
        lines += self["notes"]
        return [line.rstrip() for line in lines] + ([f"report: {self['report']}"] if "report" in self else [])

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def write_probe_report(folder: Path, name: str, found: ProbeResult) -> Path:
    """Writes the self-contained page ``report.html``."""
    body = [
        f'<p class="soft">Firth probe</p><h1>{html.escape(name)}</h1><p class="soft">{html.escape(found["kind"])}; '
        "layer 0 is the token layer</p>",
        _table(found["rows"]),
        _tags(found),
        _senses(found),
        _heads(found),
        "".join(f'<p class="soft">{html.escape(note)}</p>' for note in found["notes"]),
    ]
    path = folder / "report.html"
    write_text(path, page(f"{name} probed · Firth", "".join(body)))
    return path


def show(value: float | None) -> str:
    """A cell of the table: shares with three digits, large numbers with one."""
    if value is None or value != value:
        return "–"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def _reference(row: ProbeRow) -> str:
    """The reference values with their names."""
    return ", ".join(
        show(value) if name == "all" else f"{name} {show(value)}" for name, value in row["reference"].items()
    )


def _table(rows: list[ProbeRow]) -> str:
    most = max((len(row["layers"]) for row in rows), default=0)
    head = "".join(f"<th>{layer}</th>" for layer in range(most))
    lines = "".join(
        f'<tr><td class="said">{html.escape(row["name"]).replace("  ", "&emsp;")}</td>'
        + "".join(f'<td class="n">{show(value)}</td>' for value in row["layers"])
        + "<td></td>" * (most - len(row["layers"]))
        + f'<td class="said">{html.escape(_reference(row))}</td></tr>'
        for row in rows
    )
    return f'<div class="wide"><table><tr><th>layer</th>{head}<th>reference</th></tr>{lines}</table></div>'


def _curve(title: str, note: str, lines: dict[str, list[float]], flat: dict[str, float]) -> str:
    """Lines over layers; ``flat`` are baselines, the same in every layer."""
    num_layers = max(len(values) for values in lines.values())
    series = {name: [(float(layer), value) for layer, value in enumerate(values)] for name, values in lines.items()}
    series |= {name: [(0.0, value), (float(max(num_layers - 1, 1)), value)] for name, value in flat.items()}
    return f'<h2>{html.escape(title)}</h2><p class="soft">{html.escape(note)}</p>{line_figure(series, "layer", title)}'


def _tags(found: ProbeResult) -> str:
    if "tags" not in found:
        return ""
    tags = found["tags"]
    note = (
        f"A linear probe on {tags['num_train']:,} words, tested on {tags['num_test']:,}, {tags['num_tags']} tags. "
        "The control task gives every word type a fixed random tag; the gap between both lines is the selectivity."
    )
    lines = {"accuracy": tags["accuracy"], "control task": tags["control"]}
    return _curve("Part of speech", note, lines, {"tag of the word": tags["per_word"]})


def _senses(found: ProbeResult) -> str:
    if "senses" not in found:
        return ""
    senses = found["senses"]
    note = (
        f"The nearest mean vector of a sense, {senses['num_train']:,} words in training, {senses['num_test']:,} in the test; "
        f"{senses['num_choice']:,} of these had a choice."
    )
    return _curve("Senses, F1", note, {"nearest sense": senses["f1"]}, {"first sense": senses["first_f1"]})


def _heads(found: ProbeResult) -> str:
    if "attention" not in found:
        return ""
    attention = found["attention"]
    body = ""
    for key, title in _MAPS:
        values = np.asarray(attention[key])
        rows = [f"layer {layer + 1}" for layer in range(values.shape[0])]
        columns = [str(head + 1) for head in range(values.shape[1])]
        note = f"One column per head, darker is more; uniform attention has {show(attention[f'even_{key}'])}."
        drawn = heat_map(values, rows, columns, float(values.max()) or 1.0)
        body += f'<h2>{title}</h2><p class="soft">{note}</p><figure class="wide">{drawn}</figure>'
    return body


# -- attention heads


@dataclass(frozen=True)
class HeadMeasures:
    """Means over all tokens of all texts, [L, H] each."""

    distance: Floats
    entropy: Floats  # nats
    itself: Floats  # shares of attention, from 0 to 1: on the token itself,
    before: Floats  # on the one before,
    after: Floats  # on the one after,
    special: Floats  # on tokens that stand for no text, such as [SEP]
    even_distance: float  # of uniform attention
    even_entropy: float
    num_tokens: int


def measure(weights_LHTT: NDArray[np.float32], special_T: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums over the tokens of one text: six measures [6, L, H], and distance and entropy of even attention [2]."""
    weights = weights_LHTT.astype(np.float64)
    places = np.arange(weights.shape[-1])
    far_TT = np.abs(places[:, None] - places[None, :]).astype(np.float64)
    sums = np.stack(
        [
            (weights * far_TT).sum((-2, -1)),
            entropy(weights).sum(-1),
            np.einsum("lhtt->lh", weights),
            np.einsum("lhtt->lh", weights[:, :, 1:, :-1]),
            np.einsum("lhtt->lh", weights[:, :, :-1, 1:]),
            weights[..., special_T].sum((-2, -1)),
        ]
    )
    visible_TT = (weights > 0).any((0, 1))
    even_TT = visible_TT / np.maximum(visible_TT.sum(-1, keepdims=True), 1)
    return sums, np.asarray([(even_TT * far_TT).sum(), entropy(even_TT).sum()])


def entropy(weights: Floats) -> Floats:
    """-Σ w ln w over the last axis, where 0 ln 0 is 0."""
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    found: Floats = -(weights * logs).sum(-1)
    return found


def measure_heads(texts: Iterable[tuple[NDArray[np.float32], NDArray[np.bool_]]]) -> HeadMeasures | None:
    """Over (attention [L, H, T, T], special tokens [T]) of many texts; None without any."""
    total: Floats | None = None
    even, num_tokens = np.zeros(2), 0
    for weights_LHTT, special_T in texts:
        sums, of_even = measure(weights_LHTT, special_T)
        total = sums if total is None else total + sums
        even = even + of_even
        num_tokens += len(special_T)
    if total is None:
        return None
    distance, looks_entropy, itself, before, after, special = total / num_tokens
    even_distance, even_entropy = (even / num_tokens).tolist()
    return HeadMeasures(
        distance, looks_entropy, itself, before, after, special, even_distance, even_entropy, num_tokens
    )
