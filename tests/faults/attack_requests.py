"""Hostile requests to a server of all honest models: valid bodies with something wrong in them, damaged images, long texts,
odd headers, broken HTTP. A case is its number; whatever it is, the server answers in time, with a sentence, and lives on.
"""

import atexit
import base64
import contextlib
import http.client
import json
import random
import socket
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from attack_models import hostile_bytes, hostile_json
from attack_runner import LIMIT_S, Outcome
from served_process import Served, serve

RUNS = (
    "bert",
    "gpt",
    "t5",
    "marian",
    "seq2seq",
    "elmo",
    "recurrent",
    "xlnet",
    "task",
    "vectors",
    "vit",
    "index",
    "static",
)
LONG = (
    "a" * 3000,
    "dog cat " * 3000,
    "\u8001\u5e08" * 9000,
    "\U0001f469\u200d" * 4000,
    "[MASK] " * 4000,
    "\0" * 500,
    "\ud800",
)
BODIES: dict[str, dict[str, object]] = {
    "/encode": {"texts": ["An apple!"], "layer": -1, "pool": "mean", "prompt": None},
    "/predict": {"texts": ["good film"]},
    "/translate": {"texts": ["dog cat"], "beams": 2, "nbest": 1, "stream": False},
    "/fill": {"text": "The old [MASK] found a clock.", "top": 3},
    "/nearest": {"word": "the", "top": 3},
    "/analogy": {"first": "the", "second": "a", "third": "old", "top": 3, "method": "add"},
    "/similarity": {"first": "a", "second": "b"},
    "/follows": {"first": "a", "second": "b"},
    "/map": {"words": ["an", "apple", "clock"]},
    "/generate": {"text": "The old", "max_tokens": 3, "beams": 2, "number": 1, "trace": True, "stream": False},
    "/alignment": {"text": "dog cat", "target": None},
    "/attention": {"text": "An apple!", "second": None},
    "/tokens": {"text": "An apple!"},
    "/layers": {"text": "An apple!"},
    "/context": {"sentences": [{"text": "An apple!", "word": "apple"}] * 2, "layer": 0},
    "/occurrences": {"sentence": "An apple!", "word": "apple", "top": 3},
    "/search": {"question": "old doctor", "top": 3, "mode": "auto", "where": [], "passages": False},
    "/look": {"images": []},
    "/explain": {"text": "good film", "second": None, "label": "yes"},
    "/neighbours": {"sentence": "An apple!", "word": "apple", "top": 3},
    "/suggest": {"texts": ["good film", "bad book", "a song"], "num": 2},
    "/labelled": {"rows": [{"text": "good film", "label": "yes"}]},
    "/v1/embeddings": {"input": ["An apple!"], "encoding_format": "base64"},
}
GETS = (
    *("/", "/docs", "/openapi.json", "/health", "/models", "/runs", "/metrics", "/v1/models", "/static/main.js"),
    *("/runs/bert/report", "/runs/task/dev", "/runs/index/dev"),
)
ODD_PATHS = (
    "/runs/../../etc/passwd/report",
    "/static/%2e%2e/%2e%2e/x",
    "/runs/%00/report",
    "//encode",
    "/encode/",
    "/\u00e9",
)


class Target(NamedTuple):
    """What is served: where the first seeds are, names of runs, the words before ``serve``."""

    seeds: Path
    folder: Path
    runs: tuple[str, ...] = RUNS
    program: tuple[str, ...] = ("-m", "firth")


@lru_cache(1)
def server(target: Target) -> Served:
    """Started once; it ends with this process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    runs = [target.folder / name for name in target.runs]
    return stack.enter_context(serve(runs, "--max-queue", "8", "--timeout", "8", program=target.program))


def attack_server(target: Target, number: int) -> Outcome:
    pick = random.Random(f"request {number}")
    served, started = server(target), time.monotonic()
    before = resident_mb(served)
    name, verdict, told = f"request:{number}", "hang", ""
    try:
        way, told, verdict = _ask(served, pick, target)
        name = f"{name} ({way})"
    except TimeoutError:
        pass
    except (OSError, http.client.HTTPException) as error:
        told, verdict = repr(error), "refused" if alive(served) else "the server is gone"
    grown = max(0.0, resident_mb(served) - before) if served.process.poll() is None else 0.0
    return Outcome(name, verdict, told[-400:], time.monotonic() - started, grown)


def resident_mb(served: Served) -> float:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{served.process.pid}/statm").read_text().split()[1]) * 4096 / 1e6
    return 0.0


def alive(served: Served) -> bool:
    with contextlib.suppress(OSError):
        return served.process.poll() is None and served.ask("/health")[0] == 200
    return False


def _ask(served: Served, pick: random.Random, target: Target) -> tuple[str, str, str]:
    """What was asked, what was said, and the verdict."""
    way = pick.choices(list(WAYS), weights=[8, 2, 2, 1, 1])[0]
    if way == "bytes":
        with socket.create_connection(("127.0.0.1", served.port), timeout=LIMIT_S) as connection:
            connection.sendall(_broken(pick))
        return way, "", "refused" if alive(served) else "the server is gone"
    path, body, headers = WAYS[way](pick, target)
    connection = served.connect(LIMIT_S)
    try:
        connection.putrequest("GET" if body is None else "POST", path, skip_host=True, skip_accept_encoding=True)
        given = {"Host": f"127.0.0.1:{served.port}", **headers}
        for name, value in (given if body is None else {**given, "Content-Length": str(len(body))}).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        raw = answer.read()
    finally:
        connection.close()
    return f"{way} {path}", f"{answer.status} {raw[:300]!r}", _verdict(answer.status, raw)


def _verdict(status: int, raw: bytes) -> str:
    if status < 400:
        return "done"
    if status >= 500 and status not in (503, 504):  # 504: long work is stopped after the time that the server gives it
        return f"status {status}"
    try:
        found = json.loads(raw)["error"]
    except (ValueError, KeyError, TypeError):
        return "refused" if status in (400, 404, 405) else f"no sentence with status {status}"
    sentence = found["message"] if isinstance(found, dict) else found
    return (
        "refused"
        if isinstance(sentence, str) and len(sentence) < 1000 and "Traceback" not in sentence
        else "long error"
    )


Asked = tuple[str, bytes | None, dict[str, str]]
_JSON = {"Content-Type": "application/json"}


def _body(pick: random.Random, target: Target) -> Asked:
    """A valid body with one place changed."""
    path = pick.choice(list(BODIES))
    body = dict(BODIES[path])
    if pick.random() < 0.5:
        body["model"] = pick.choice(target.runs)
    if path in ("/look", "/encode", "/predict") and pick.random() < 0.3:
        body = {"images": [base64.b64encode(_image(pick, target)).decode()], "model": "vit"}
    raw = hostile_json(body, pick) if pick.random() < 0.85 else json.dumps(body).encode()
    return path, hostile_bytes(raw, pick) if raw and pick.random() < 0.1 else raw, _JSON


def _long(pick: random.Random, target: Target) -> Asked:
    """Long or odd texts where a text belongs."""
    path = pick.choice([path for path in BODIES if path != "/look"])
    text = pick.choice(LONG)

    def put(value: object) -> object:
        if isinstance(value, str) and value not in ("mean", "auto", "add", "base64"):
            return text
        if isinstance(value, list):
            return [put(one) for one in value]
        return {name: put(one) for name, one in value.items()} if isinstance(value, dict) else value

    body = {name: put(value) for name, value in BODIES[path].items()}
    return path, json.dumps({**body, "model": pick.choice(target.runs)}).encode(), _JSON


def _image(pick: random.Random, target: Target) -> bytes:
    raw = (target.seeds / "runs" / "vit" / "one.png").read_bytes()
    return hostile_bytes(raw, pick) if pick.random() < 0.8 else raw


def _upload(pick: random.Random, target: Target) -> Asked:
    """An image as the body."""
    path = pick.choice(["/look", "/encode", "/predict", "/tokens"]) + pick.choice(
        ["", "?model=vit", "?model=bert", "?model=%00"]
    )
    return (
        path,
        _image(pick, target),
        {"Content-Type": pick.choice(["image/png", "image/jpeg", "image/svg+xml", "text/html"])},
    )


def _get(pick: random.Random, target: Target) -> Asked:
    """Pages and facts, with odd headers and paths."""
    headers = {"Host": pick.choice(["127.0.0.1", "localhost", "evil.example", "[::1]", "a" * 5000, ""])}
    headers |= (
        {}
        if pick.random() < 0.5
        else {"Origin": pick.choice(["null", "http://evil.example", "http://localhost", "://"])}
    )
    path = pick.choice([*GETS, *ODD_PATHS])
    return path.encode("ascii", "ignore").decode(), None, headers


def _broken(pick: random.Random) -> bytes:
    start = pick.choice(
        [b"", b"GET / HTTP/1.1\r\n", b"POST /encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n"]
    )
    return start + pick.randbytes(pick.randint(0, 300))


WAYS: dict[str, Callable[[random.Random, Target], Asked]] = {
    "body": _body,
    "long": _long,
    "upload": _upload,
    "get": _get,
    "bytes": _get,
}
