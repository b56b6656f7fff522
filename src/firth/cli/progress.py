"""What a person sees while something long runs: a bar on a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from firth.core.types import Progress
from firth.core.units import show_bytes, show_count, show_duration

_PLAIN_S = 10.0


def _describe(event: Mapping[str, Any]) -> tuple[str, float, float]:
    """(words, done, total) of an event; a total of 0 means that nobody knows."""
    kind = event["event"]
    if kind == "train":
        words = f"loss {event['loss']:.3f}  {show_count(event['tokens_per_s'])} tokens/s"
        return words, event["step"], event["steps"]
    if kind == "pairs":
        return f"{event['pairs']:,} pairs", 0, 0
    if kind == "block":
        return show_bytes(event["bytes"]), event["bytes"], event["total"]
    return (
        {"vocabulary": "learning the vocabulary", "merge": "merging", "measure": "timing the first steps"}.get(
            kind, kind
        ),
        0,
        0,
    )


@contextmanager
def progress_display(title: str, quiet: bool) -> Iterator[Progress]:
    """A function to be told of events."""
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

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None, words="")

        def show(event: Mapping[str, Any]) -> None:
            if event["event"] == "evaluate":
                bars.console.print(_heldout(event), highlight=False)
                return
            words, done, total = _describe(event)
            bars.update(task, completed=min(done, total) if total else 0, total=total or None, words=words)

        yield show


def _heldout(event: Mapping[str, Any]) -> str:
    found = "  ".join(
        f"{name.removeprefix('heldout_').replace('_', ' ')} {value:.4f}"
        for name, value in event.items()
        if name.startswith("heldout_")
    )
    return f"  step {event['step']:,}  held-out {found}"


def _note(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _plain(title: str) -> Progress:
    started = time.monotonic()
    last = [0.0]

    def show(event: Mapping[str, Any]) -> None:
        if event["event"] == "evaluate":
            _note(_heldout(event))
            return
        now = time.monotonic()
        words, done, total = _describe(event)
        if now - last[0] < _PLAIN_S and done < total:
            return
        last[0] = now
        share = f"{min(1.0, done / total):4.0%}  " if total else ""
        left = f"  {show_duration((now - started) * (total - done) / done)} left" if total and 0 < done < total else ""
        _note(f"{title}: {share}{words}{left}")

    return show
