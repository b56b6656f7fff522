"""``report.html``: one self-contained page about a run, light or dark as the system is set; its line charts,
scatter charts and heat maps are inline SVG, without any library.
"""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.config import show_count, show_duration
from firth.core.files import write_text
from firth.core.run import Chart, Run, RunRecord
from firth.training.checkpoints import read_history

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 34
COLOURS = 8  # classes c0 to c7 of the page's style
_FAR = 1e100  # what is farther away is not drawn
_A_LINE = 4  # names of a legend in one line


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover the range."""
    raw = (high - low) / max(count, 1) or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(number * step, 10) for number in range(first, math.floor(high / step) + 1)]


def _fits(*values: float) -> bool:
    """Whether a point can be drawn: a training may have run into infinity."""
    return all(math.isfinite(value) and abs(value) < _FAR for value in values)


def _show(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:g}"


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]


def line_chart(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_name: str,
    y_name: str,
    spread: Mapping[str, Sequence[float]] | None = None,
    log_x: bool = False,
) -> str:
    """One line per name; an SVG with axes, grid and a legend. ``spread`` draws a bar of that much up and down at each point;
    with ``log_x`` equal ratios of x are equally far apart."""
    kept = {name: [place for place, point in enumerate(line) if _fits(*point)] for name, line in series.items()}
    spread = {name: [sizes[place] for place in kept.get(name, ())] for name, sizes in (spread or {}).items()}
    series = {name: [line[place] for place in kept[name]] for name, line in series.items() if kept[name]}
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    head = _TOP + 16 * ((len(series) - 1) // _A_LINE)
    xs, ys = [x for x, _ in points], [y for _, y in points]
    for name, sizes in (spread or {}).items():
        ys += [y + sign * size for (_, y), size in zip(series.get(name, ()), sizes, strict=False) for sign in (1, -1)]
    low_x, high_x = min(xs), max(*xs, min(xs) + 1e-9, min(xs) * (1 + 1e-9))
    margin = (max(ys) - min(ys)) * 0.05 or max(abs(max(ys)) * 0.05, 1e-9)
    low_y, high_y = min(ys) - margin, max(ys) + margin

    def place(x: float, y: float) -> tuple[float, float]:
        part = math.log(x / low_x) / math.log(high_x / low_x) if log_x else (x - low_x) / (high_x - low_x)
        across = _LEFT + part * (_WIDTH - _LEFT - _RIGHT)
        return across, _HEIGHT - _BOTTOM - (y - low_y) / (high_y - low_y) * (_HEIGHT - head - _BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html.escape(y_name)} by {html.escape(x_name)}">'
    ]
    for y in _ticks(low_y, high_y):
        _, height = place(low_x, y)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{_show(y)}</text>')
    for x in _log_ticks(low_x, high_x) if log_x else _ticks(low_x, high_x, 8):
        across, _ = place(x, low_y)
        parts.append(f'<text x="{across:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{_show(x)}</text>')
    for number, (name, line) in enumerate(series.items()):
        path = " ".join(f"{across:.1f},{height:.1f}" for across, height in (place(x, y) for x, y in line))
        colour = number % COLOURS
        parts.append(f'<polyline class="line c{colour}" points="{path}"/>')
        for (x, y), size in zip(line, (spread or {}).get(name, ()), strict=False):
            (across, top), (_, bottom) = place(x, y + size), place(x, y - size)
            parts.append(
                f'<line class="line c{colour}" x1="{across:.1f}" x2="{across:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
            )
        if len(line) <= 40:
            parts += [
                f'<circle class="dot c{colour}" cx="{place(x, y)[0]:.1f}" cy="{place(x, y)[1]:.1f}" r="3"><title>{_show(x)}: {y:.4g}</title></circle>'
                for x, y in line
            ]
        at, down = _LEFT + 12 + number % _A_LINE * 160, _TOP + 2 + 16 * (number // _A_LINE)
        parts.append(f'<line class="line c{colour}" x1="{at}" x2="{at + 22}" y1="{down}" y2="{down}"/>')
        parts.append(f'<text x="{at + 28}" y="{down + 4}">{html.escape(name)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">{html.escape(x_name)}</text></svg>')
    return "".join(parts)


class Dot(NamedTuple):
    """A named point with the interval of its height."""

    name: str
    x: float
    y: float
    low: float
    high: float


def scatter_chart(dots: Sequence[Dot], x_name: str, y_name: str) -> str:
    """Dots with their names and intervals; the axis below grows by factors."""
    if not dots:
        return ""
    height = _HEIGHT + 60
    powers = [math.log10(dot.x) for dot in dots]
    first, last = math.floor(min(powers)), max(math.ceil(max(powers)), math.floor(min(powers)) + 1)
    low, high = min(dot.low for dot in dots), max(dot.high for dot in dots)
    margin = (high - low) * 0.08 or 0.01
    low, high = low - margin, high + margin

    def across(x: float) -> float:
        return _LEFT + (math.log10(x) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT - 90)

    def down(y: float) -> float:
        return height - _BOTTOM - (y - low) / (high - low) * (height - _TOP - _BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(y_name)} by {html.escape(x_name)}">'
    ]
    for y in _ticks(low, high):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{down(y) + 4:.1f}" text-anchor="end">{_show(y)}</text>')
    for power in range(first, last + 1):
        x = across(10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{_show(10.0**power)}</text>')
    for number, dot in enumerate(dots):
        colour, x, y = number % COLOURS, across(dot.x), down(dot.y)
        parts.append(
            f'<line class="line c{colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{down(dot.low):.1f}" y2="{down(dot.high):.1f}"/>'
            f'<circle class="dot c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{html.escape(dot.name)}: '
            f"{dot.x:.3g} s, {dot.y:.4f}</title></circle>"
            f'<text x="{x + 7:.1f}" y="{y + 4:.1f}">{html.escape(dot.name)}</text>'
        )
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{height - 2}" text-anchor="end">{html.escape(x_name)}</text></svg>')
    return "".join(parts)


def heat_map(values: NDArray[np.floating], rows: Sequence[str], columns: Sequence[str], full: float = 1.0) -> str:
    """Numbers from 0 to ``full`` as squares, darker for more; words at the left and on top."""
    size, left, top = 22, 110, 84
    width, height = left + size * len(columns) + 8, top + size * len(rows) + 8
    parts = [f'<svg viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img" aria-label="attention">']
    for number, word in enumerate(columns):
        x, y = left + size * number + 15, top - 6
        parts.append(f'<text transform="rotate(-45 {x} {y})" x="{x}" y="{y}">{html.escape(word[:16])}</text>')
    for row, word in enumerate(rows):
        y = top + size * row
        parts.append(f'<text x="{left - 6}" y="{y + 15}" text-anchor="end">{html.escape(word[:16])}</text>')
        for column, other in enumerate(columns):
            value = float(values[row, column])
            parts.append(
                f'<rect class="cell" x="{left + size * column}" y="{y}" width="{size - 1}" height="{size - 1}" '
                f'fill-opacity="{min(max(value / full, 0.03), 1.0):.3f}"><title>{html.escape(word)} – {html.escape(other)}: {value:.3f}</title></rect>'
            )
    return "".join(parts) + "</svg>"


def principal_plane(units_ND: NDArray[np.float32]) -> NDArray[np.float64]:
    """The first two principal components of each row; signs are fixed so that the same rows always give the same
    picture."""
    centred = units_ND.astype(np.float64) - units_ND.mean(0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found = np.zeros((len(units_ND), 2))
    width = min(2, len(sizes))
    found[:, :width] = left[:, :width] * sizes[:width]
    peaks = found[np.abs(found).argmax(0), [0, 1]]
    return found * np.where(peaks < 0, -1.0, 1.0)


_STYLE = """
:root{color-scheme:light dark;--text:#1c2126;--soft:#5c6670;--back:#fff;--card:#f5f6f8;--rule:#d9dde2;--c0:#1f6feb;--c1:#d1580a;--c2:#2a8f4f;--c3:#8b46c9;--c4:#b3263e;--c5:#0b8a8f;--c6:#7a6a00;--c7:#5c6670}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ec;--soft:#9aa5b0;--back:#14171a;--card:#1d2226;--rule:#343b42;--c0:#6aa8ff;--c1:#ff9d5c;--c2:#6fd08c;--c3:#c493ff;--c4:#ff8296;--c5:#5fd3d8;--c6:#d8c65a;--c7:#9aa5b0}}
body{font:16px/1.5 system-ui,"Noto Sans CJK SC",sans-serif;color:var(--text);background:var(--back);max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.3rem 0}.soft{color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;margin:1rem 0}
.facts div{background:var(--card);border-radius:.5rem;padding:.6rem .8rem}.facts b{display:block;font-size:1.25rem}
figure{margin:0;background:var(--card);border-radius:.5rem;padding:.6rem}svg{width:100%;height:auto;display:block}
svg text{font-size:11px;fill:var(--soft)}.grid{stroke:var(--rule);stroke-width:1}.line{fill:none;stroke-width:2}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.dot.c0{fill:var(--c0)}.dot.c1{fill:var(--c1)}.dot.c2{fill:var(--c2)}
.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
.dot.c3{fill:var(--c3)}.dot.c4{fill:var(--c4)}.dot.c5{fill:var(--c5)}.dot.c6{fill:var(--c6)}.dot.c7{fill:var(--c7)}td.right{color:var(--c2)}.cell{fill:var(--c0)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid var(--rule);padding:.3rem .6rem;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}details summary{cursor:pointer}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{background:var(--card);padding:.8rem;border-radius:.5rem;overflow-x:auto}
"""


def page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def map_page(
    title: str, places_N2: NDArray[np.floating], groups: Sequence[int], names: Mapping[int, str], texts: Sequence[str]
) -> str:
    """A page with texts as dots in a plane, coloured by group; a group is named where its middle is, -1 stays without a name."""
    size = 560
    low, high = places_N2.min(0), places_N2.max(0)
    scaled = 20 + (places_N2 - low) / np.where(high > low, high - low, 1) * (np.asarray((_WIDTH, size)) - 40)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {size}" role="img" aria-label="{html.escape(title)}">']
    for (x, y), group, text in zip(scaled.tolist(), groups, texts, strict=True):
        shade = "0.25" if group < 0 else "0.8"
        shown = html.escape(" ".join(text.split())[:160])
        parts.append(
            f'<circle class="dot c{group % COLOURS if group >= 0 else 7}" cx="{x:.1f}" cy="{size - y:.1f}" r="3" '
            f'opacity="{shade}"><title>{shown}</title></circle>'
        )
    members = {number: np.flatnonzero(np.asarray(groups) == number) for number in names}
    for number, inside in members.items():
        if number >= 0 and len(inside):
            x, y = scaled[inside].mean(0).tolist()
            parts.append(
                f'<text x="{x:.1f}" y="{size - y:.1f}" text-anchor="middle" style="fill:var(--text);font-weight:600">'
                f"{html.escape(names[number].split(',')[0])}</text>"
            )
    rows = "".join(
        f'<tr><td class="n">{len(members[number]):,}</td><td>{html.escape(name)}</td></tr>'
        for number, name in names.items()
    )
    table = f'<div class="wide"><table><tr><th>documents</th><th>words</th></tr>{rows}</table></div>'
    return page(title, f"<h1>{html.escape(title)}</h1><figure>{''.join(parts)}</svg></figure>{table}")


def cards(values: dict[str, str]) -> str:
    return (
        '<div class="facts">'
        + "".join(f"<div>{html.escape(name)}<b>{html.escape(value)}</b></div>" for name, value in values.items())
        + "</div>"
    )


def _rows(values: Mapping[str, object], prefix: str = "") -> str:
    out = ""
    for name, value in values.items():
        if isinstance(value, dict):
            out += _rows(value, f"{prefix}{name}.")
        else:
            out += f"<tr><td><code>{html.escape(prefix + name)}</code></td><td>{html.escape(str(value))}</td></tr>"
    return out


def settings_table(record: RunRecord) -> str:
    """All settings, collapsed."""
    rows = _rows(record.config) + _rows(record.versions, "version.")
    return (
        "<h2>Settings</h2><details><summary>all settings and versions</summary>"
        f'<div class="wide"><table>{rows}</table></div></details>'
    )


def _chart(chart: Chart) -> str:
    """A chart that only this model has."""
    drawn = line_chart(chart.series, chart.x, chart.y)
    return f'<h2>{html.escape(chart.title)}</h2><p class="soft">{html.escape(chart.note)}</p><figure>{drawn}</figure>'


def _perplexities(heldout: Sequence[dict[str, Any]]) -> str:
    """Held-out perplexity by step, a line for each that was measured (ELMo: forward, backward and their mean)."""
    names = [name for name in (heldout[-1] if heldout else ()) if name.endswith("perplexity")]
    series = {
        name.removeprefix("heldout_").replace("_", " "): [
            (line["step"], line[name]) for line in heldout if name in line
        ]
        for name in names
    }
    drawn = line_chart(series, "step", "perplexity")
    return f"<h2>Held-out perplexity</h2><figure>{drawn}</figure>" if drawn else ""


def write_report(run: Run, parts: Sequence[str] = ()) -> None:
    """Curves, results, settings and the next commands; ``parts`` are specific to a model."""
    record = run.record
    lines = read_history(run.folder / "metrics.jsonl")
    train = [line for line in lines if line["event"] == "train"]
    heldout = [line for line in lines if line["event"] == "evaluate"]
    losses = {
        "training": [(line["step"], line["loss"]) for line in train],
        "held-out": [(line["step"], line["heldout_loss"]) for line in heldout],
    }
    shown = {
        "parameters": show_count(record.parameters),
        "steps": f"{record.steps or 0:,}",
        "tokens seen": show_count(record.tokens),
        "epochs": f"{record.epochs:.2f}",
        "time": show_duration(record.seconds),
        "tokens/s": show_count(record.tokens / max(record.seconds, 1e-9)),
    }
    shown |= {f"held-out {name.replace('_', ' ')}": f"{value:.4g}" for name, value in record.metrics.items()}
    name = html.escape(run.folder.name)
    uses = "\n".join(f"firth {command.format(name=run.folder.name)}" for command in record.uses)
    body = [
        f'<p class="soft">Firth run</p><h1>{name}</h1><p class="soft">recipe {html.escape(record.recipe)}</p>',
        cards(shown),
        f"<h2>Loss</h2><figure>{line_chart(losses, 'step', 'loss')}</figure>",
        _perplexities(heldout),
        f"<h2>Learning rate</h2><figure>{line_chart({'learning rate': [(line['step'], line['learning_rate']) for line in train]}, 'step', 'rate')}</figure>",
        f"<h2>Speed</h2><figure>{line_chart({'tokens/s': [(line['step'], line['tokens_per_s']) for line in train]}, 'step', 'tokens/s')}</figure>",
        *(_chart(chart) for chart in record.charts),
        *parts,
        *(f'<p class="soft">{html.escape(note)}</p>' for note in record.notes.values()),
        f"<h2>Use it</h2><pre>{html.escape(uses)}</pre>",
        settings_table(record),
    ]
    write_text(run.folder / "report.html", page(f"{run.folder.name} · Firth", "".join(body)))
