"""Nonsense for the server: bodies with something wrong in them, random bytes, requests that break off; no 500, no crash.

    python benchmarks/serve_fuzz.py [--count 100000] [--threads 2]

Then the cases that schemathesis makes of the server's own description, if it is installed.
"""

import argparse
import asyncio
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from typing import Any

from servers import REQUEST, Connection, Server, one_request

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
        statuses = asyncio.run(fuzz_server(args.port, args.count))
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
                str(args.count // 200 + 1),
            ]
            with tempfile.TemporaryDirectory() as folder:  # it keeps a cache where it runs
                done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, cwd=folder)
            print("\n".join(done.stdout.splitlines()[-12:]))
            assert server.process.poll() is None
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--port", type=int, default=8700)
    parser.add_argument("--threads", type=int, default=2)
    fuzz(parser.parse_args())


if __name__ == "__main__":
    main()
