"""The server under more than it can do, under nonsense, and while it is told to stop."""

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served_process import Served, ask, serve

import firth
from sample_text import documents

TEXTS = documents(40)
ROUTES = {
    "/encode": {"texts": ["An apple!"], "layer": -1, "pool": "mean"},
    "/fill": {"text": "The old [MASK] found a clock.", "top": 3},
    "/similarity": {"first": "a", "second": "b"},
    "/map": {"words": ["an", "apple", "clock"]},
    "/attention": {"text": "An apple!", "second": None},
    "/layers": {"text": "An apple!"},
    "/context": {"sentences": [{"text": "An apple!", "word": "apple"}] * 2, "layer": 0},
    "/follows": {"first": "a", "second": "b"},
    "/generate": {"text": "a", "max_tokens": 3, "beams": 2, "trace": True},
    "/predict": {"texts": ["a"]},
    "/v1/embeddings": {"input": ["An apple!"], "encoding_format": "base64"},
}


@pytest.fixture(scope="module")
def served(run_folder: Path, gpt_folder: Path) -> Iterator[Served]:
    with serve([run_folder, gpt_folder], "--max-queue", "4") as found:
        yield found


def test_overload_is_refused_and_nothing_is_mixed_up(served: Served, run_folder: Path) -> None:
    expected = firth.load(run_folder).encode(TEXTS)
    statuses: Counter[int] = Counter()
    wrong: list[str] = []
    ends = time.monotonic() + 3

    def client(seed: int) -> None:
        pick = random.Random(seed)
        connection = served.connect()
        while time.monotonic() < ends:
            places = pick.choices(range(len(TEXTS)), k=pick.randint(1, 3))
            status, answer = ask(connection, "/encode", {"texts": [TEXTS[place] for place in places]})
            statuses[status] += 1
            if status == 200 and not np.allclose(answer["vectors"], expected[places], atol=1e-4):
                wrong.append(str(places))

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert set(statuses) <= {200, 503}
    assert statuses[200] > 16
    begun = time.monotonic()
    assert served.ask("/encode", {"text": "a"})[0] == 200
    assert served.ask("/health")[1]["queue"] == 0
    assert time.monotonic() - begun < 20  # a loaded machine; alone it is milliseconds


def mutated(pick: random.Random, value: Any) -> Any:
    """The value with something wrong, strange or large in it."""
    strange = [None, True, -1, 0, 3, 10**30, 1e308, "", "\x00", "[MASK] " * 30, "\U0001f9ff", "é" * 3000, [], {}, [[]]]
    if isinstance(value, dict) and value and pick.random() < 0.8:
        changed = dict(value)
        key = pick.choice([*changed, "other"])
        if pick.random() < 0.2:
            changed.pop(key, None)
        else:
            changed[key] = mutated(pick, changed.get(key))
        return changed
    if isinstance(value, list) and value and pick.random() < 0.6:
        return [mutated(pick, one) if pick.random() < 0.5 else one for one in value * pick.randint(1, 3)]
    return pick.choice(strange)


def test_nonsense_never_becomes_a_mistake_of_the_server(served: Served) -> None:
    pick = random.Random(5)
    statuses: Counter[int] = Counter()
    for _ in range(250):
        path = pick.choice(list(ROUTES))
        body: Any = mutated(pick, ROUTES[path])
        if pick.random() < 0.1:
            body = pick.randbytes(pick.randint(0, 200))
        elif pick.random() < 0.1:
            whole = json.dumps(body).encode()
            body = whole[: pick.randint(0, len(whole))]
        status, answer = served.ask(path, body)
        statuses[status] += 1
        assert status < 500, (path, body, answer)
        assert status == 200 or set(answer) == {"error"}
    assert statuses[200] > 10
    assert statuses[422] > 50


def test_bytes_that_are_no_http(served: Served) -> None:
    pick = random.Random(6)
    starts = [b"", b"GET / HTTP/1.1\r\n", b"POST /encode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n"]
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
            connection.sendall(pick.choice(starts) + pick.randbytes(pick.randint(0, 300)))
    assert served.ask("/health")[1]["status"] == "ok"


def test_a_stop_under_load_loses_nothing(run_folder: Path) -> None:
    """Whatever was begun before the signal is answered; the process leaves with 0."""
    stopping = threading.Event()
    lost: list[str] = []
    statuses: Counter[int] = Counter()
    with serve([run_folder]) as served:

        def client() -> None:
            while True:
                begun_before = not stopping.is_set()
                try:
                    status, _ = served.ask("/encode", {"texts": TEXTS[:8]})
                except OSError as error:
                    if begun_before and not isinstance(error, ConnectionRefusedError):
                        lost.append(repr(error))
                    return
                statuses[status] += 1
                if status == 503:
                    return

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        while statuses[200] < 20:
            time.sleep(0.01)
        stopping.set()
        time.sleep(0.05)  # requests that were counted as begun have been sent
        served.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert served.process.wait(60) == 0
    assert not lost
    assert set(statuses) <= {200, 503}


def test_nothing_to_serve(work: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "firth", "serve"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("firth: quickstart: no run below it to serve; make some with: firth quickstart")
