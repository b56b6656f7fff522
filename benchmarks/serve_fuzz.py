"""Nonsense for the server: bodies with something wrong in them, images, streams, random bytes, requests that break off; no 500,
no crash.

    python benchmarks/serve_fuzz.py FOLDER [--count 100000]

FOLDER gets a small model of each kind (once). Every route of the server's own description is asked; then come the cases
that schemathesis makes of it, if it is installed.
"""

import argparse
import asyncio
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from servers import REQUEST, Connection, one_request

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))
import attack_requests
import attack_seeds
from served_process import serve

VALID: dict[str, Any] = {
    **attack_requests.BODIES,
    "/generate ": {"text": "a", "max_tokens": 9, "stream": True},
    "/translate ": {"texts": ["dog cat"], "beams": 2, "stream": True},
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


async def check_routes(port: int) -> None:
    """That every route is asked."""
    paths: dict[str, dict[str, object]] = json.loads((await one_request(port, "/openapi.json", None))[1])["paths"]
    known = {path for path, ways in paths.items() if "post" in ways}
    assert known == set(attack_requests.BODIES), known ^ set(attack_requests.BODIES)
    for path in (path for path, ways in paths.items() if "get" in ways):
        start, _, end = path.partition("{name}")
        assert any(one.startswith(start) and one.endswith(end) for one in attack_requests.GETS), path


async def fuzz_server(port: int, count: int, seeds: Path) -> Counter[str]:
    statuses: Counter[str] = Counter()
    numbers = iter(range(count))

    async def client() -> None:
        connection = Connection(port)
        for number in numbers:
            pick = random.Random(number)
            if pick.random() < 0.05:  # no HTTP at all, or a request that breaks off
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                start = pick.choice([b"", REQUEST.format(path="/encode", size=500, kind="application/json").encode()])
                writer.write(start + pick.randbytes(pick.randint(1, 400)))
                writer.close()
                statuses["bytes"] += 1
                continue
            path, body, kind = request(pick, seeds)
            try:
                status, _ = await connection.ask(path, body, kind)
            except (OSError, asyncio.IncompleteReadError):
                connection.close()
                statuses["closed"] += 1
                continue
            statuses[str(status)] += 1
            if status >= 500 and status != 503:
                print(f"  {status} {path} {(body or b'')[:300]!r}")
        connection.close()

    await asyncio.gather(*(client() for _ in range(16)))
    return statuses


def request(pick: random.Random, seeds: Path) -> tuple[str, bytes | None, str]:
    """Path, body and type: nothing but a path, an image, or JSON with something wrong in it."""
    way = pick.random()
    if way < 0.1:
        return pick.choice([*attack_requests.GETS, "/" + "".join(pick.choices("abc/.%20", k=8))]), None, ""
    if way < 0.2:
        path, image, headers = attack_requests.WAYS["upload"](pick, attack_requests.Target(seeds, seeds / "runs"))
        return path, image, headers["Content-Type"]
    path = pick.choice([*VALID, "/" + "".join(pick.choices("abc/.%20", k=8))])
    body = VALID.get(path, {})
    if pick.random() < 0.5:
        body = {**body, "model": pick.choice(attack_requests.RUNS)}
    raw = json.dumps(mutated(pick, body)).encode() if pick.random() < 0.9 else pick.randbytes(pick.randint(0, 300))
    return path.strip(), raw, "application/json"


def fuzz(args: argparse.Namespace) -> None:
    seeds = args.folder.absolute() / "seeds"
    attack_seeds.build(seeds)
    with serve([seeds / "runs" / name for name in attack_requests.RUNS], "--max-queue", "64") as server:
        asyncio.run(check_routes(server.port))
        first, begun = attack_requests.resident_mb(server), time.monotonic()
        statuses = asyncio.run(fuzz_server(server.port, args.count, seeds))
        grown = attack_requests.resident_mb(server) - first
        print(f"  {dict(sorted(statuses.items()))}; {time.monotonic() - begun:.0f} s, memory grew by {grown:.0f} MB")
        assert asyncio.run(one_request(server.port, "/health", None))[0] == 200
        assert not [name for name in statuses if name.startswith("5") and name not in ("503", "504")]
        if importlib.util.find_spec("schemathesis") is not None:
            command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{server.port}/openapi.json"]
            checks = ["--checks", "not_a_server_error", "--phases", "fuzzing"]
            most = ["--max-examples", str(args.count // 200 + 1)]
            with tempfile.TemporaryDirectory() as folder:  # it keeps a cache where it runs
                done = subprocess.run(
                    [*command, *checks, *most], capture_output=True, text=True, check=False, cwd=folder
                )
            print("\n".join(done.stdout.splitlines()[-12:]))
            assert server.process.poll() is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100_000)
    fuzz(parser.parse_args())


if __name__ == "__main__":
    main()
