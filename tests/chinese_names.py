"""Which names of models and scores have no Chinese one, on the page of ``firth serve`` or in reports."""

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from firth.reports.words import chinese
from firth.serve.runs import run_summary

_NOT_SHOWN = {"seconds", "step", "steps", "tokens", "gradient_norm", "loss_scale"}


def page_words() -> dict[str, str]:
    """The words of the Chinese page."""
    text = (files("firth.serve") / "page" / "words" / "zh.js").read_text(encoding="utf-8")
    found = re.findall(r'^  ("(?:[^"\\]|\\.)*"):\s*("(?:[^"\\]|\\.)*"),$', text, re.MULTILINE)
    return {json.loads(key): json.loads(value) for key, value in found}


def without_kind(kinds: Iterable[str]) -> list[str]:
    """Kinds of models that the page says in English; "classify on encoder" is a task on a kind."""
    words = page_words()

    def known(kind: str) -> bool:
        task, on, base = kind.partition(" on ")
        if on and f"task.{task}" in words:
            return f"kind.{base}" in words
        return f"kind.{kind}" in words

    return sorted({kind for kind in kinds if not known(kind)})


def without_metric(names: Iterable[str]) -> list[str]:
    """Scores that the page or a report says in English."""
    words = page_words()
    bare = {name.removeprefix("heldout_") for name in names}
    return sorted(
        name for name in bare if f"metric.{name}" not in words or (chinese(name) is None and not _is_proper(name))
    )


def _is_proper(name: str) -> bool:
    """BLEU and F1 are written alike in both languages."""
    return name in ("bleu", "chrf", "f1")


def metrics_of_run(folder: Path) -> set[str]:
    """All that a run has measured and the page can show."""
    summary = run_summary(folder)
    curves = {name for line in summary["curve"] for name in line if name.startswith("heldout_")}
    return {*summary["scores"], *curves} - _NOT_SHOWN
