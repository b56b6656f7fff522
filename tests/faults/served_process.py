"""A server in a process of its own, and plain ways to ask it."""

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Served(NamedTuple):
    process: "subprocess.Popen[str]"
    port: int

    def connect(self, timeout_s: float = 60) -> http.client.HTTPConnection:
        found = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        found.connect()
        return found

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer, over a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, path, body)


def ask(connection: http.client.HTTPConnection, path: str, body: Any = None) -> tuple[int, Any]:
    if body is None:
        connection.request("GET", path)
    else:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, content, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    raw = answer.read()
    if answer.status == 503:
        assert int(answer.headers["Retry-After"]) > 0
    return answer.status, json.loads(raw) if "json" in answer.headers["Content-Type"] else raw


@contextlib.contextmanager
def serve(runs: list[Path], *options: str, program: Sequence[str] = ("-m", "firth")) -> Iterator[Served]:
    command = [sys.executable, *program, "serve", *map(str, runs), "--port", "0", "--threads", "1", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving "), line + (process.stderr.read() if process.stderr else "")
        yield Served(process, int(line.split(" at http://127.0.0.1:")[1].split()[0]))
    finally:
        process.kill()
        process.communicate()
