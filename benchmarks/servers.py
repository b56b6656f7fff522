"""The servers that benchmarks/serve.py and serve_fuzz.py ask: Firth's, and plain ones around other tools.

python benchmarks/servers.py PEER --port N [--threads 2]     a plain server
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from packages import minilm

PEERS = ("firth", "firth-torch", "pipeline", "sentence-transformers")
_START_S = 600
REQUEST = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"


def build_encode(peer: str, threads: int) -> Callable[[list[str], int], Any]:
    """Texts to vectors, ``batch`` at a time where the tool asks for it."""
    import torch

    torch.set_num_threads(threads)
    if peer.startswith("firth"):
        import firth

        model = firth.load(str(minilm()))
        return lambda texts, batch: np.concatenate(
            [model.encode(texts[start : start + batch]) for start in range(0, len(texts), batch)]
        )
    if peer == "pipeline":
        from transformers import pipeline

        pipe = pipeline("feature-extraction", model=str(minilm()), device="cpu")

        def encode(texts: list[str], batch: int) -> Any:
            found = pipe(texts, batch_size=batch, return_tensors=True)
            return np.stack([one[0].numpy().mean(0) for one in found])

        return encode
    from sentence_transformers import SentenceTransformer

    sentences = SentenceTransformer(str(minilm()), device="cpu")
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


class Connection:
    """HTTP over a stream, as thin as it can be, so that the load costs little beside what is measured."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes | None, kind: str = "application/json") -> tuple[int, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        if body is None:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        else:
            writer.write(REQUEST.format(path=path, size=len(body), kind=kind).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if "transfer-encoding: chunked" in head:
            answer = b""
            while size := int(await reader.readline(), 16):
                answer += await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        else:
            answer = await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
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


class Server:
    """One in a process of its own."""

    def __init__(self, peer: str, port: int, threads: int, *options: str) -> None:
        self.peer, self.port = peer, port
        command = [sys.executable, __file__, peer, "--port", str(port), "--threads", str(threads)]
        if peer.startswith("firth"):
            command = [
                sys.executable,
                "-m",
                "firth",
                "serve",
                str(minilm()),
                "--port",
                str(port),
                "--threads",
                str(threads),
                *(["--torch"] if peer == "firth-torch" else []),
            ]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS[2:])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    run_plain_server(given.peer, given.port, given.threads)


if __name__ == "__main__":
    main()
