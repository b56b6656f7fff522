"""What the experiments share: their options, mean and spread over seeds, and a chart as a file of the documentation."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from firth.reports.page import line_chart

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
from pictures import STYLE  # noqa: E402


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
    svg = svg.replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" class="firth chart" style="max-width:720px" ', 1
    )
    svg = svg.replace(">", f"><style>{STYLE}</style>", 1)
    path.write_text(svg + "\n", encoding="utf-8")
    print(f"picture: {path}")
