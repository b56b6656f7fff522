"""Printing results: for people at 80 columns, or as JSON for programs."""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def say_json(value: Any, indent: int | None = 2) -> None:
    say(json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False))


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity: null stands in their place."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(rows: Sequence[tuple[str, str]]) -> None:
    """Two columns: names and values."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")


def say_found(found: dict[str, list[tuple[str, float]]], as_json: bool) -> None:
    """Words with scores under the question that they answer."""
    if as_json:
        say_json({name: [{"word": word, "score": score} for word, score in rows] for name, rows in found.items()})
        return
    for name, rows in found.items():
        say(name)
        for word, score in rows:
            say(f"  {score:.4f}  {word}")
