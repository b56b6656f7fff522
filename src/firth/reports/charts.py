"""Line charts, dots and heat maps as inline SVG, without any library."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 34
COLOURS = 8  # classes c0 to c7 of the page's style
_A_LINE = 4  # names of a legend that fit beside one another


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover the range."""
    raw = (high - low) / max(count, 1) or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step)
    return [round(number * step, 10) for number in range(first, math.floor(high / step) + 1)]


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
    """One line a name; an SVG with axes, grid and a legend. ``spread`` draws a bar of that much up and down at each point;
    with ``log_x`` equal ratios of x are equally far apart."""
    series = {name: points for name, points in series.items() if points}
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
    """Numbers from 0 to ``full`` as squares, darker for more; the words stand beside and above."""
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
    """The first two principal components of each row; what leans most to one side is put on the positive one, so
    that the same rows always give the same picture."""
    centred = units_ND.astype(np.float64) - units_ND.mean(0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    found = np.zeros((len(units_ND), 2))
    width = min(2, len(sizes))
    found[:, :width] = left[:, :width] * sizes[:width]
    peaks = found[np.abs(found).argmax(0), [0, 1]]
    return found * np.where(peaks < 0, -1.0, 1.0)
