"""``report.html``: one self-contained page about a run, light or dark as the system is set, in English and Chinese; its line
charts, scatter charts and heat maps are inline SVG, without any library. Its design is that of the web page (``design.css``).
"""

import html
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.config import show_count, show_duration
from firth.core.files import write_text
from firth.core.run import Chart, Run, RunRecord
from firth.reports.card import write_card
from firth.reports.words import in_both_languages, reflowing
from firth.training.checkpoints import read_history

_WIDTH, _HEIGHT = 720, 260
_NARROW = 360  # of the same chart on a small screen
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 34
COLOURS = 8  # classes c0 to c7 of the page's style
_FAR = 1e100  # what is farther away is not drawn
_UNITS = ((1e6, "M"), (1e4, "k"), (0.0, ""))  # from this size on
_LETTER = 6.6  # about the width of a letter of a chart


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover the range."""
    raw = (high - low) / max(count, 1) or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _fits(*values: float) -> bool:
    """Whether a point can be drawn: a training may have run into infinity."""
    return all(math.isfinite(value) and abs(value) < _FAR for value in values)


def _show(value: float, largest: float = 0.0) -> str:
    """In the unit of the largest number of its axis."""
    name = next(name for least, name in _UNITS if max(abs(value), largest) >= least)
    return f"{value / {'M': 1e6, 'k': 1e3, '': 1.0}[name]:g}{name if value else ''}"


def _distinct(ticks: Sequence[float]) -> list[float]:
    """Those whose labels differ."""
    return list({_show(tick): tick for tick in reversed(ticks)}.values())[::-1]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]


def _opened(width: int, height: int, x_name: str, y_name: str) -> str:
    said = f"{html.escape(y_name)} by {html.escape(x_name)}"
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{said}">'


def line_figure(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_name: str,
    y_name: str,
    spread: Mapping[str, Sequence[float]] | None = None,
    log_x: bool = False,
) -> str:
    """A figure with the chart for wide and for narrow screens; a single measurement is written out, since it is no curve."""
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    if all(len(line) < 2 for line in series.values()):
        said = ", ".join(f"{html.escape(name)} {line[0][1]:.4g}" for name, line in series.items() if line)
        return f'<p>{said} <span class="soft">({html.escape(x_name)} {_show(points[0][0])})</span></p>'
    wide, narrow = (line_chart(series, x_name, y_name, spread, log_x, width) for width in (_WIDTH, _NARROW))
    return f'<figure><div class="on-wide">{wide}</div><div class="on-narrow">{narrow}</div></figure>'


def line_chart(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_name: str,
    y_name: str,
    spread: Mapping[str, Sequence[float]] | None = None,
    log_x: bool = False,
    width: int = _WIDTH,
) -> str:
    """One line per name; an SVG with axes, grid and a legend. ``spread`` draws a bar of that much up and down at each point;
    with ``log_x`` equal ratios of x are equally far apart."""
    kept = {name: [place for place, point in enumerate(line) if _fits(*point)] for name, line in series.items()}
    spread = {name: [sizes[place] for place in kept.get(name, ())] for name, sizes in (spread or {}).items()}
    series = {name: [line[place] for place in kept[name]] for name, line in series.items() if kept[name]}
    if not series:
        return ""
    places, head = _legend_places(list(series), width)
    axes = _Axes.around(series, spread or {}, log_x, width, head)
    parts = [_opened(width, _HEIGHT, x_name, y_name), *axes.ticks()]
    for number, (name, line) in enumerate(series.items()):
        colour = number % COLOURS
        path = " ".join(f"{across:.1f},{height:.1f}" for across, height in (axes.place(x, y) for x, y in line))
        parts.append(f'<polyline class="line c{colour}" points="{path}"/>')
        for (x, y), size in zip(line, (spread or {}).get(name, ()), strict=False):
            (across, top), (_, bottom) = axes.place(x, y + size), axes.place(x, y - size)
            parts.append(
                f'<line class="line c{colour}" x1="{across:.1f}" x2="{across:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
            )
        if len(line) <= 40:
            parts += [
                f'<circle class="dot c{colour}" cx="{axes.place(x, y)[0]:.1f}" cy="{axes.place(x, y)[1]:.1f}" r="3">'
                f"<title>{_show(x)}: {y:.4g}</title></circle>"
                for x, y in line
            ]
        at, down = places[number]
        parts.append(f'<line class="line c{colour}" x1="{at}" x2="{at + 22}" y1="{down}" y2="{down}"/>')
        parts.append(f'<text x="{at + 28}" y="{down + 4}">{html.escape(name)}</text>')
    parts.append(f'<text x="{width - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">{html.escape(x_name)}</text></svg>')
    return "".join(parts)


def _legend_places(names: Sequence[str], width: int) -> tuple[list[tuple[int, int]], int]:
    """Where the names of lines stand, in as many rows as they need, and where the chart begins below them."""
    places, x, y = [], _LEFT + 12, _TOP + 2
    for name in names:
        room = 48 + int(sum(_LETTER * (1 + (ord(char) >= 0x2E80)) for char in name))
        if x > _LEFT + 12 and x + room > width - _RIGHT:
            x, y = _LEFT + 12, y + 16
        places.append((x, y))
        x += room
    return places, y + 14


class _Axes(NamedTuple):
    """The ranges of a chart and where its points lie."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    log_x: bool
    width: int
    head: int

    @classmethod
    def around(
        cls,
        series: Mapping[str, Sequence[tuple[float, float]]],
        spread: Mapping[str, Sequence[float]],
        log_x: bool,
        width: int,
        head: int,
    ) -> "_Axes":
        points = [point for line in series.values() for point in line]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        for name, sizes in spread.items():
            pairs = zip(series.get(name, ()), sizes, strict=False)
            ys += [y + sign * size for (_, y), size in pairs for sign in (1, -1)]
        low_x, high_x = min(xs), max(xs)
        if low_x == high_x:  # one place: in the middle
            low_x, high_x = (low_x / 2, high_x * 2) if log_x else (low_x - 1, high_x + 1)
        size = max(map(abs, ys))
        flat = max(ys) - min(ys) <= 1e-9 * size
        margin = (size or 1.0) * 0.05 if flat else (max(ys) - min(ys)) * 0.05
        ticks = _ticks(min(ys) - margin, max(ys) + margin)
        step = ticks[1] - ticks[0] if len(ticks) > 1 else margin
        top = math.ceil(max(ys) / step - 1e-9) * step  # the highest value lies below a tick
        return cls(low_x, high_x, min(ys) - margin, top, log_x, width, head)

    def place(self, x: float, y: float) -> tuple[float, float]:
        low, high = self.low_x, self.high_x
        part = math.log(x / low) / math.log(high / low) if self.log_x else (x - low) / (high - low)
        down = (y - self.low_y) / (self.high_y - self.low_y) * (_HEIGHT - self.head - _BOTTOM)
        return _LEFT + part * (self.width - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - down

    def ticks(self) -> list[str]:
        """The grid and the numbers along both axes, each number once."""
        parts = []
        for y in _distinct(_ticks(self.low_y, self.high_y)):
            _, height = self.place(self.low_x, y)
            ends = f'x1="{_LEFT}" x2="{self.width - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"'
            parts.append(f'<line class="grid" {ends}/>')
            parts.append(f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{_show(y, self.high_y)}</text>')
        between = (self.low_x, self.high_x)
        found = _log_ticks(*between) if self.log_x else _ticks(*between, max(2, (self.width - _LEFT) // 80))
        # Steps and examples are counted, shares are not.
        counted = self.high_x - self.low_x >= 2 or (self.low_x >= 1 and float(self.high_x).is_integer())
        whole, largest = float(self.low_x).is_integer() and counted, 0.0 if self.log_x else self.high_x
        for x in _distinct([x for x in found if not whole or float(x).is_integer()]):
            across, _ = self.place(x, self.low_y)
            parts.append(f'<text x="{across:.1f}" y="{_HEIGHT - 18}" text-anchor="middle">{_show(x, largest)}</text>')
        return parts


class Dot(NamedTuple):
    """A named point with the interval of its height."""

    name: str
    x: float
    y: float
    low: float
    high: float


def scatter_figure(dots: Sequence[Dot], x_name: str, y_name: str) -> str:
    """A figure with the chart for wide and for narrow screens."""
    if not dots:
        return ""
    wide, narrow = (scatter_chart(dots, x_name, y_name, width) for width in (_WIDTH, _NARROW))
    return f'<figure><div class="on-wide">{wide}</div><div class="on-narrow">{narrow}</div></figure>'


def scatter_chart(dots: Sequence[Dot], x_name: str, y_name: str, width: int = _WIDTH) -> str:
    """Dots with their names and intervals; the axis below grows by factors."""
    height = _HEIGHT + 60
    powers = [math.log10(dot.x) for dot in dots]
    first, last = math.floor(min(powers)), max(math.ceil(max(powers)), math.floor(min(powers)) + 1)
    low, high = min(dot.low for dot in dots), max(dot.high for dot in dots)
    margin = (high - low) * 0.08 or 0.01
    low, high = low - margin, high + margin
    room = min(90, width // 5)  # for the name of the last dot

    def across(x: float) -> float:
        return _LEFT + (math.log10(x) - first) / (last - first) * (width - _LEFT - _RIGHT - room)

    def down(y: float) -> float:
        return height - _BOTTOM - (y - low) / (high - low) * (height - _TOP - _BOTTOM)

    parts = [_opened(width, height, x_name, y_name)]
    for y in _distinct(_ticks(low, high)):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{down(y) + 4:.1f}" text-anchor="end">{_show(y)}</text>')
    for power in range(first, last + 1):
        x = across(10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{_show(10.0**power)}</text>')
    spots = [(across(dot.x), down(dot.y)) for dot in dots]
    names = _name_places([dot.name for dot in dots], spots, width)
    for number, (dot, (x, y), name) in enumerate(zip(dots, spots, names, strict=True)):
        colour = number % COLOURS
        parts.append(
            f'<line class="line c{colour}" x1="{x:.1f}" x2="{x:.1f}" y1="{down(dot.low):.1f}" y2="{down(dot.high):.1f}"/>'
            f'<circle class="dot c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{html.escape(dot.name)}: '
            f"{dot.x:.3g} s, {dot.y:.4f}</title></circle>"
            f'<text class="over" x="{name[0]:.1f}" y="{name[1]:.1f}">{html.escape(dot.name)}</text>'
        )
    parts.append(f'<text x="{width - _RIGHT}" y="{height - 2}" text-anchor="end">{html.escape(x_name)}</text></svg>')
    return "".join(parts)


def _name_places(names: Sequence[str], spots: Sequence[tuple[float, float]], width: int) -> list[tuple[float, float]]:
    """Where the names of dots stand so that none lies over another: beside the dot, else higher or lower."""
    taken: list[tuple[float, float, float]] = []
    found = []
    for name, (x, y) in zip(names, spots, strict=True):
        wide = _LETTER * len(name)
        left = min(x + 7, width - _RIGHT - wide)
        steps = (step * sign for step in range(0, 120, 4) for sign in (1, -1))
        free = (
            y + 4 + step
            for step in steps
            if all(abs(y + 4 + step - other) >= 12 or left + wide < start or end < left for start, end, other in taken)
        )
        height = next(free, y + 4)
        taken.append((left, left + wide, height))
        found.append((left, height))
    return found


_LEGEND_TICKS = (0.0, 0.05, 0.25, 0.5, 1.0)


def heat_map(
    values: NDArray[np.floating], rows: Sequence[str], columns: Sequence[str], full: float | None = None
) -> str:
    """Attention weights as squares, words at the left and on top, with a legend. The colour is the root of the weight, from 0 to 1:
    the scale of every picture of attention. With ``full`` other numbers, from 0 to that."""
    size, left, top = 22, 110, 84
    width, height = max(left + size * len(columns) + 8, 330), top + size * len(rows) + 54

    def shade(value: float) -> float:
        share = min(max(value if full is None else value / full, 0.0), 1.0)
        return math.sqrt(share) if full is None else share

    parts = [f'<svg viewBox="0 0 {width} {height}" style="width:{width}px" role="img" aria-label="attention">']
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
                f'fill-opacity="{max(shade(value), 0.03):.3f}"><title>{html.escape(word)} – {html.escape(other)}: {value:.3f}</title></rect>'
            )
    ticks = _LEGEND_TICKS if full is None else (0.0, full / 2, full)
    return "".join(parts) + _heat_legend([(tick, shade(tick)) for tick in ticks], left, height - 40) + "</svg>"


def _heat_legend(ticks: Sequence[tuple[float, float]], left: int, top: int) -> str:
    """A strip of colours with numbers at their places."""
    strip = "".join(
        f'<rect class="cell" x="{left + 5 * part}" y="{top}" width="5" height="9" fill-opacity="{max(part / 40, 0.03):.3f}"/>'
        for part in range(40)
    )
    return strip + "".join(
        f'<text x="{left + 200 * place:.1f}" y="{top + 24}" text-anchor="middle">{tick:.3g}</text>'
        for tick, place in ticks
    )


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
body{max-width:62rem;margin:0 auto;padding:1rem 1.25rem 4rem}
header{display:flex;justify-content:space-between;align-items:center;gap:1rem;margin-bottom:1.6rem}
.mark{width:1.75rem;height:1.75rem;fill:none;stroke:var(--accent);stroke-width:2.4;stroke-linecap:round;vertical-align:-.4rem;margin-right:.6rem}
.name{font:500 1.45rem/1 var(--serif)}h2{margin:2.2rem 0 .7rem}p{margin:.3rem 0}.soft{color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.7rem;margin:1.2rem 0}
.facts div,figure{background:var(--card);border:1px solid var(--rule);border-radius:.9rem}
.facts div{padding:.6rem .9rem;font-size:.85rem;color:var(--soft)}
.facts b{display:block;font-size:1.2rem;font-weight:500;color:var(--ink);font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
figure{margin:0;padding:.9rem;overflow-x:auto}figure svg{width:100%;height:auto;display:block;max-width:100%}
figure.wide svg,figure.fixed svg{max-width:none}figure.fixed svg{min-width:40rem}svg text{font:11px var(--sans);fill:var(--soft)}svg .strong{fill:var(--ink);font-weight:600}svg .over{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--rule);stroke-width:1}.line{fill:none;stroke:var(--kind);stroke-width:2}.dot{fill:var(--kind)}.cell{fill:var(--accent)}
td.right{color:var(--accent)}.wide{overflow-x:auto}td.n{font-variant-numeric:tabular-nums}
details summary{cursor:pointer}code,pre{font-family:var(--mono);font-size:.85em}
pre{background:var(--track);padding:.8rem 1rem;border-radius:.5rem;overflow-x:auto}
.on-narrow{display:none}@media(max-width:40rem){.on-wide{display:none}.on-narrow{display:block}body{padding:1rem 1rem 3rem}}
.zh{display:none}:root:has(#zh:target) .zh{display:revert}:root:has(#zh:target) .en{display:none}:root:has(#zh:target) td[data-zh]::before{content:attr(data-zh)!important}
"""
_MARK = (
    '<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><path d="M2 10c5 0 5-4 10-4s5 4 10 4 5-4 8-4"/>'
    '<path d="M2 18c5 0 5-4 10-4s5 4 10 4 5-4 8-4"/><path d="M2 26c5 0 5-4 10-4s5 4 10 4 5-4 8-4"/></svg>'
)


def page(title: str, body: str) -> str:
    """A whole page. Headings and names are there in both languages; a link changes which is seen, without any script."""
    design = (files("firth.reports") / "design.css").read_text(encoding="utf-8")
    switch = '<a id="zh" class="en" href="#zh" lang="zh">中文</a><a id="en" class="zh" href="#en" lang="en">English</a>'
    shown = in_both_languages(reflowing(body)).replace("<pre>", '<pre tabindex="0">')  # so that keys can scroll it
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{design}{_STYLE}</style></head><body>"
        f'<header><span>{_MARK}<span class="name">Firth</span></span>{switch}</header>'
        f"<main>{shown}</main></body></html>\n"
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
                f'<text x="{x:.1f}" y="{size - y:.1f}" text-anchor="middle" class="strong over">'
                f"{html.escape(names[number].split(',')[0])}</text>"
            )
    rows = "".join(
        f'<tr><td class="n">{len(members[number]):,}</td><td>{html.escape(name)}</td></tr>'
        for number, name in names.items()
    )
    table = f'<div class="wide"><table><tr><th>documents</th><th>words</th></tr>{rows}</table></div>'
    return page(title, f"<h1><span>{html.escape(title)}</span></h1><figure>{''.join(parts)}</svg></figure>{table}")


def _named(name: str) -> str:
    """A name as people write it: macro F1, not macro_f1."""
    return re.sub(r"\bf1\b", "F1", name.replace("_", " "))


def cards(values: dict[str, str]) -> str:
    return (
        '<div class="facts">'
        + "".join(
            f"<div>{html.escape(_named(name))}<b>{html.escape(value)}</b></div>" for name, value in values.items()
        )
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
        f'<div class="wide"><table><tr><th>setting</th><th>value</th></tr>{rows}</table></div></details>'
    )


def _chart(chart: Chart) -> str:
    """A chart that only this model has."""
    drawn = line_figure(chart.series, chart.x, chart.y)
    return f'<h2>{html.escape(chart.title)}</h2><p class="soft">{html.escape(chart.note)}</p>{drawn}'


def _perplexities(heldout: Sequence[dict[str, Any]]) -> str:
    """Held-out perplexity by step, a line for each that was measured (ELMo: forward, backward and their mean)."""
    names = [name for name in (heldout[-1] if heldout else ()) if name.endswith("perplexity")]
    return _titled("Held-out perplexity", line_figure(_by_step(heldout, names), "step", "perplexity"))


def _scores(heldout: Sequence[dict[str, Any]]) -> str:
    """Held-out scores by step, where no loss is measured (sentence vectors)."""
    names = [name for name in (heldout[-1] if heldout else ()) if name.startswith("heldout_")]
    if "heldout_loss" in names or any(name.endswith("perplexity") for name in names):
        return ""
    return _titled("Held-out scores", line_figure(_by_step(heldout, names), "step", "score"))


def _by_step(lines: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    found = {name: [(line["step"], line[name]) for line in lines if name in line] for name in names}
    return {name.removeprefix("heldout_").replace("_", " "): line for name, line in found.items()}


def _titled(title: str, figure: str) -> str:
    return f"<h2>{title}</h2>{figure}" if figure else ""


def write_report(run: Run, parts: Sequence[str] = ()) -> None:
    """Curves, results, settings and the next commands; ``parts`` are specific to a model."""
    record = run.record
    lines = read_history(run.folder / "metrics.jsonl")
    train = [line for line in lines if line["event"] == "train"]
    heldout = [line for line in lines if line["event"] == "evaluate"]
    losses = {
        "training": [(line["step"], line["loss"]) for line in train],
        "held-out": [(line["step"], line["heldout_loss"]) for line in heldout if "heldout_loss" in line],
    }
    rates = {"learning rate": [(line["step"], line["learning_rate"]) for line in train]}
    speeds = {"tokens/s": [(line["step"], line["tokens_per_s"]) for line in train]}
    shown = {
        "parameters": show_count(record.parameters),
        "steps": f"{record.steps or 0:,}",
        "tokens seen": show_count(record.tokens),
        **({"epochs": f"{record.epochs:.2f}"} if record.epochs else {}),  # pairs of sentences are not counted in epochs
        "time": show_duration(record.seconds),
        "tokens/s": show_count(record.tokens / max(record.seconds, 1e-9)),
    }
    shown |= {f"held-out {name.replace('_', ' ')}": f"{value:.4g}" for name, value in record.metrics.items()}
    name = html.escape(run.folder.name)
    uses = "\n".join(f"firth {command.format(name=shlex.quote(run.folder.name))}" for command in record.uses)
    body = [
        f'<p class="soft">Firth run</p><h1>{name}</h1><p class="soft">recipe {html.escape(record.recipe)}</p>',
        cards(shown),
        _titled("Loss", line_figure(losses, "step", "loss")),
        _perplexities(heldout),
        _scores(heldout),
        _titled("Learning rate", line_figure(rates, "step", "rate")),
        _titled("Speed", line_figure(speeds, "step", "tokens/s")),
        *(_chart(chart) for chart in record.charts),
        *parts,
        *(f'<p class="soft">{html.escape(note)}</p>' for note in record.notes.values()),
        f"<h2>Use it</h2><pre>{html.escape(uses)}</pre>",
        settings_table(record),
    ]
    write_text(run.folder / "report.html", page(f"{run.folder.name} · Firth", "".join(body)))
    write_card(run)
