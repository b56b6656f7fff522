"""What the experiments share: their options, mean and spread over seeds, and a chart as a file of the documentation,
in English and Chinese."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import mean, stdev

from firth.reports.page import line_chart

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
from drawing import STYLE, in_chinese  # noqa: E402


def options(about: str | None, steps: int = 300, seeds: int = 3) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--out", type=Path, help="where the picture goes (svg)")
    return parser


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Mean and standard deviation."""
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def draw(
    path: Path | None,
    series: Mapping[str, Sequence[tuple[float, float]]],
    x: str,
    y: str,
    spread: Mapping[str, Sequence[float]] | None = None,
    log_x: bool = False,
) -> None:
    """Writes the chart, if a path is given."""
    if path is None:
        return
    svg = line_chart(series, x, y, spread, log_x)
    svg = svg.replace(f">{escape(x)}</text>", f">{escape(y)} by {escape(x)}</text>")
    svg = svg.replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" class="firth chart" style="max-width:720px" ', 1
    )
    svg = svg.replace(">", f"><style>{STYLE}</style>", 1)
    _write(path, svg + "\n")


def draw_groups(
    path: Path | None, groups: Sequence[str], series: Mapping[str, Sequence[tuple[float, float]]], y: str
) -> None:
    """Writes a chart with a dot, and a bar of the standard deviation up and down, for each name in each group of cases; the
    values (mean, deviation) lie between 0 and 1."""
    if path is None:
        return
    left, top, height, room = 56, 22 + 18 * -(-len(series) // 4), 220, 648 / len(groups)
    parts = []
    for tick in range(6):
        level = top + height * (1 - tick / 5)
        parts.append(f'<line class="grid" x1="{left}" x2="704" y1="{level:.1f}" y2="{level:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{level + 4:.1f}" text-anchor="end">{tick / 5:.1f}</text>')
    for place, group in enumerate(groups):
        middle = left + room * (place + 0.5)
        parts.append(f'<text x="{middle:.1f}" y="{top + height + 20}" text-anchor="middle">{escape(group)}</text>')
    for number, (name, values) in enumerate(series.items()):
        across, down = left + 12 + 160 * (number % 4), 14 + 18 * (number // 4)
        parts.append(f'<circle class="dot c{number}" cx="{across}" cy="{down}" r="4"/>')
        parts.append(f'<text x="{across + 10}" y="{down + 4}">{escape(name)}</text>')
        for place, (value, spread) in enumerate(values):
            x = left + room * (place + 0.5 + 0.6 * ((number + 0.5) / len(series) - 0.5))
            low, at, high = (top + height * (1 - one) for one in (value - spread, value, value + spread))
            parts.append(f'<line class="line c{number}" x1="{x:.1f}" x2="{x:.1f}" y1="{high:.1f}" y2="{low:.1f}"/>')
            parts.append(f'<circle class="dot c{number}" cx="{x:.1f}" cy="{at:.1f}" r="4"/>')
    parts.append(f'<text x="704" y="{top + height + 38}" text-anchor="end">{escape(y)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="firth chart" style="max-width:720px" viewBox="0 0 720 {top + height + 42}" role="img" aria-label="{escape(y)}">'
    _write(path, f"{head}<style>{STYLE}</style>{''.join(parts)}</svg>\n")


def _write(path: Path, svg: str) -> None:
    """The picture, and beside it the same with Chinese words (docs/picture_words.py)."""
    path.write_text(svg, encoding="utf-8")
    path.with_suffix(".zh.svg").write_text(in_chinese(svg), encoding="utf-8")
    print(f"picture: {path}")
