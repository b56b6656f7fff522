"""The progress display: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from firth.cli.main import columns, say, wrap
from firth.core.config import show_bytes, show_count, show_duration
from firth.core.types import Event, Progress

_STAGES: dict[str, str] = {
    "vocabulary": "learning the vocabulary",
    "merge": "merging",
    "measure": "timing the first steps",
}
_PLAIN_S = 10.0  # seconds between two lines where there is no terminal


def _describe(event: Event) -> tuple[str, float, float]:
    """(text, done, total) of an event; a total of 0 is unknown."""
    kind: str = event["event"]
    if kind == "train":
        stage = f"{event['stage']}  " if "stage" in event else ""
        words = f"{stage}loss {event['loss']:.3f}  {show_count(event['tokens_per_s'])} tokens/s"
        return words, event["step"], event["steps"]
    if kind == "candidate":
        return f"trying {event['name']}", 0, 0
    if kind == "pairs":
        return f"{event['pairs']:,} pairs", 0, 0
    if kind == "images":
        return f"{event['images']:,} images", event["images"], event["total"]
    if kind == "scored":
        return f"{event['pairs']:,} pairs", event["pairs"], event["total"]
    if kind == "indexed":
        return f"{event['documents']:,} documents, {event['passages']:,} passages", event["bytes"], event["total"]
    if kind == "encoded":
        return f"{event['passages']:,} of {event['total']:,} passages encoded", event["passages"], event["total"]
    if kind == "cells":
        return f"{event['done']} of {event['total']} trainings", event["done"], event["total"]
    if kind == "block":
        return show_bytes(event["bytes"]), event["bytes"], event["total"]
    return _STAGES.get(kind, kind), 0, 0


@contextmanager
def progress_display(title: str, quiet: bool) -> Iterator[Progress]:
    """A context with the callback that displays progress events: a bar, lines, or nothing."""
    if quiet:
        yield lambda event: None
    elif sys.stderr.isatty():
        yield from _bar(title)
    else:
        yield _plain(title)


def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    shown = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
    )
    with Bars(*shown, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None, words="")

        def show(event: Event) -> None:
            if event["event"] == "evaluate":
                bars.console.print(_heldout(event), highlight=False)
                return
            if event["event"] == "examples":
                _say_lines(event)
                return
            words, done, total = _describe(event)
            bars.update(task, completed=min(done, total) if total else 0, total=total or None, words=words)

        yield show


def _say_lines(event: Event) -> None:
    for line in event["lines"]:
        say(line)


def _heldout(event: Event) -> str:
    found = "  ".join(
        f"{name.removeprefix('heldout_').replace('_', ' ')} {value:.4f}"
        for name, value in event.items()
        if name.startswith("heldout_")
    )
    head, *more = wrap(f"step {event['step']:,}  held-out {found}", columns() - 4)
    return "\n    ".join([f"  {head}", *more])


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Remaining:
    """The time that is left, by the speed since the first event of a stage: what came before it (imports,
    compilation) is not repeated."""

    def __init__(self) -> None:
        self.total, self.first, self.last = 0.0, (0.0, 0.0), 0.0

    def seconds(self, done: float, total: float, now: float) -> float | None:
        """None before there are two events, and at the end."""
        if total != self.total or done < self.last:
            self.total, self.first = total, (done, now)
        self.last = done
        since, began = self.first
        return (now - began) * (total - done) / (done - since) if since < done < total else None


def _plain(title: str) -> Progress:
    last = [0.0]
    remaining = Remaining()

    def show(event: Event) -> None:
        if event["event"] == "evaluate":
            _note(_heldout(event))
            return
        if event["event"] == "examples":
            _say_lines(event)
            return
        now = time.monotonic()
        words, done, total = _describe(event)
        left = remaining.seconds(done, total, now)
        if now - last[0] < _PLAIN_S and done < total:
            return
        last[0] = now
        share = f"{min(1.0, done / total):4.0%}  " if total else ""
        _note(f"{title}: {share}{words}{'' if left is None else f'  {show_duration(left)} left'}")

    return show
