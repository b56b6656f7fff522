"""Runs hostile cases, each in a forked process of its own with limits, and judges how it ended.

A command must do what it was asked (exit code 0) or refuse it in one sentence (exit code 2). Everything else is a
finding: a traceback, a signal (an abort of a library, too), more than ``LIMIT_S`` seconds, more memory than
``LIMIT_BYTES`` above that of the empty process, a refusal that leaves files behind.
"""

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 10.0
LIMIT_BYTES = 1_200_000_000


class Case(NamedTuple):
    """One attack: its name says how to make it again, ``words`` are the command in the folder ``place``."""

    name: str
    words: list[str]
    place: Path


class Outcome(NamedTuple):
    name: str
    verdict: str  # done, refused, or what is wrong
    told: str  # the end of what was said
    seconds: float
    megabytes: float  # beyond the process that it was forked from

    @property
    def bad(self) -> bool:
        return self.verdict not in ("done", "refused")


def listing(folder: Path) -> set[str]:
    return {os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace") for path in folder.rglob("*")}


def run_command(words: Sequence[str]) -> None:
    from firth.cli.main import main

    main(list(words))


def run_case(case: Case, run: Callable[[Sequence[str]], None] = run_command, limit_s: float = LIMIT_S) -> Outcome:
    before = listing(case.place)
    log = case.place.with_name(f"{case.place.name}.log")
    own = _resident_kb()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(case, log, run)
    status, usage = _wait(child, started + limit_s)
    seconds = time.monotonic() - started
    told = log.read_text(encoding="utf-8", errors="replace")
    log.unlink()
    megabytes = max(0.0, (usage.ru_maxrss - own) / 1024) if usage else 0.0
    verdict = _verdict(status, told, before, listing(case.place))
    if verdict in ("done", "refused") and megabytes * 1e6 > LIMIT_BYTES:
        verdict = "memory"
    return Outcome(case.name, verdict, told[-400:], seconds, megabytes)


def _resident_kb() -> int:
    """Of this process now: a forked one begins with as much."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 1024


def _child(case: Case, log: Path, run: Callable[[Sequence[str]], None]) -> None:
    """Never returns."""
    code = 70
    try:
        os.setsid()
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0), os.dup2(sink, 1), os.dup2(sink, 2)
        faulthandler.disable()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (here + 4 * LIMIT_BYTES, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(case.place)
        sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        run(case.words)
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


def _wait(child: int, deadline: float) -> tuple[int | None, resource.struct_rusage | None]:
    """The status; None where it had to be killed. Its own children go with it."""
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            return status, usage
        if time.monotonic() > deadline and time.monotonic() > deadline + _waited_s(child):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, None
        time.sleep(0.003)


def _waited_s(child: int) -> float:
    """How long it could have computed but had no core, because other programs did: no time of its own."""
    try:
        return int(Path(f"/proc/{child}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _verdict(status: int | None, told: str, before: set[str], after: set[str]) -> str:
    if status is None:
        return "hang"
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    if "Traceback (most recent call last)" in told or "panicked at" in told:
        return "traceback"
    if code == 0:
        hidden = sorted(name for name in after - before if any(part.startswith(".") for part in Path(name).parts))
        return f"left {hidden[0]}" if hidden else "done"
    if code != 2:
        return f"exit code {code}"
    lines = [line for line in told.splitlines() if line.startswith("firth: ")]
    if len(lines) != 1 or told.splitlines()[-1] != lines[0] or len(lines[0]) > 1000:
        return "not one sentence"
    left = sorted(after ^ before)
    return f"left {left[0]}" if left else "refused"


def warm_up() -> None:
    """Everything heavy is imported before the first fork; one thread, since threads do not survive a fork."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    torch.set_num_threads(1)
    import firth.api.using
    import firth.cli.main
    import firth.core.registry

    firth.cli.main.application()
    firth.core.registry.specs()
