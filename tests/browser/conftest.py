"""A server with one small run of every kind, and a real browser in front of it."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_reader import Reader
from made_runs import make_runs
from more_runs import MoreRuns, make_more_runs

TOKEN = "a-long-secret"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def _made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, build: Callable[[Path], dict[str, list[Path]]]
) -> dict[str, list[Path]]:
    """Also when several processes test: the first makes them, the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    done = folder / "done.json"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.is_file():
            done.write_text(json.dumps(build(folder), default=str), encoding="utf-8")
    return {kind: [Path(one) for one in paths] for kind, paths in json.loads(done.read_text(encoding="utf-8")).items()}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return _made_once(tmp_path_factory, "browser", lambda folder: {"runs": make_runs(folder)})["runs"]


@pytest.fixture(scope="session")
def more_runs(tmp_path_factory: pytest.TempPathFactory) -> MoreRuns:
    return MoreRuns(**_made_once(tmp_path_factory, "more", lambda folder: make_more_runs(folder)._asdict()))


@contextmanager
def serving(runs: list[Path], *options: str, **more: str) -> Iterator[str]:
    """``firth serve`` on a free port, as a person starts it; its address."""
    command = [sys.executable, "-m", "firth", "serve", *map(str, runs), "--port", "0", "--threads", "1", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **more}, text=True)
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://\S+:\d+", line):
                yield found.group()
                return
        raise AssertionError(f"firth serve ended with {server.wait()}")
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="session")
def serve_runs() -> Callable[..., Any]:
    return serving


@pytest.fixture(scope="session")
def address(runs: list[Path]) -> Iterator[str]:
    with serving(runs) as found:
        yield found


@pytest.fixture(scope="session")
def indexes_address(more_runs: MoreRuns) -> Iterator[str]:
    with serving(more_runs.indexes) as found:
        yield found


@pytest.fixture(scope="session")
def guarded_address(runs: list[Path]) -> Iterator[str]:
    """A server that wants a token."""
    with serving(runs[:1], FIRTH_TOKEN=TOKEN) as found:
        yield found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        assert not os.environ.get("CI"), (
            "make test installs Chromium, so that nobody takes a page for tested that is not"
        )
        pytest.skip("there is no Chromium here: install it with your system's package manager")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Without its sandbox it also runs as root and in containers; it only ever sees this server.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``FIRTH_SCREENSHOTS`` names a folder that outlives the tests."""
    named = os.environ.get("FIRTH_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


Open = Callable[..., Reader]


@pytest.fixture
def visit(chromium: Any, address: str, screenshots: Path) -> Iterator[Open]:
    """Opens the page; what went wrong in the browser fails the test at its end."""
    opened: list[Reader] = []

    def begin(
        place: str = "", *, at: str | None = None, width: int = 1600, dark: bool = False, lang: str = "en-GB"
    ) -> Reader:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", locale=lang
        )
        context.set_default_timeout(20_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        opened.append(Reader(context.new_page(), at or address, screenshots))
        opened[-1].open(place)
        return opened[-1]

    yield begin
    for reader in opened:
        reader.page.context.close()
        assert reader.problems == []
