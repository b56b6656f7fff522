"""A worker process of ``prepare``: blocks come in on standard input, a line goes out for each.

Plain processes rather than a pool: they need no ``if __name__ == "__main__"`` in the user's
script, nothing is unpickled, and they end by themselves when the parent is gone.

A block is one line of JSON ({number, lengths in bytes, heldout, sentences}) and the texts as UTF-8.
"""

import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from firth.core.errors import FirthError, Interrupted
from firth.core.storage import Cluster
from firth.core.types import Arrays
from firth.corpus.encoded import WordRules
from firth.corpus.parts import Block, PartMaker, write_part

# A worker is one of many: it starts no threads, and keeps the memory of one block for the next
# instead of giving it back to the system and asking again (a fifth of the time).
_FRUGAL = {
    "TOKENIZERS_PARALLELISM": "false",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def send_block(stream: BinaryIO, number: int, block: Block) -> None:
    head = {
        "number": number,
        "lengths": [len(text) for text in block.texts],
        "heldout": block.heldout,
        "sentences": block.sentences,
    }
    stream.write(json.dumps(head).encode() + b"\n")
    stream.write(b"".join(block.texts))
    stream.flush()


def receive_block(stream: BinaryIO) -> tuple[int, Block] | None:
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    head = json.loads(line)
    ends = list(itertools.accumulate(head["lengths"], initial=0))
    text = stream.read(ends[-1])
    if len(text) < ends[-1]:
        return None
    texts = [text[start:end] for start, end in itertools.pairwise(ends)]
    return head["number"], Block(texts, head["sentences"], head["heldout"])


class Worker:
    """The parent's side: sends a block, waits until its part is written."""

    def __init__(self, rules: WordRules | Path, parts: Path) -> None:
        words = rules.model_dump() if isinstance(rules, WordRules) else None
        settings = {"words": words, "tokenizer": None if words else str(rules), "parts": str(parts)}
        environment = {**_FRUGAL, **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "firth.corpus.worker", json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def make(self, number: int, block: Block) -> None:
        try:
            send_block(cast(BinaryIO, self.process.stdin), number, block)
            answer = cast(BinaryIO, self.process.stdout).readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise Interrupted(
                f"a worker process ended unexpectedly (exit code {self.process.poll()}); run the same command again to go on where it stopped, with fewer --workers if memory is short"
            )
        error = json.loads(answer).get("error")
        if error:
            raise FirthError(error)

    def close(self) -> None:
        cast(BinaryIO, self.process.stdin).close()
        self.process.wait()
        cast(BinaryIO, self.process.stdout).close()


class ClusterWorker:
    """The same on a Ray cluster: blocks go out as jobs, arrays come back and are written here. Nothing need be shared but
    what Ray carries; the tokenizer goes to each node once."""

    def __init__(self, cluster: Cluster, rules: WordRules | Path, parts: Path) -> None:
        self.cluster, self.parts = cluster, parts
        if isinstance(rules, WordRules):
            self.rules = cluster.put(rules)
        else:
            self.rules = cluster.put({path.name: path.read_bytes() for path in sorted(rules.iterdir())})

    def make(self, number: int, block: Block) -> None:
        write_part(self.parts, number, self.cluster.call(_encode_block, self.rules, block))


_kept: dict[str, PartMaker] = {}


def _encode_block(rules: WordRules | dict[str, bytes], block: Block) -> Arrays:
    """One job of a cluster. A worker keeps what it has loaded for the next one."""
    key = repr(rules) if isinstance(rules, WordRules) else hashlib.sha256(b"\0".join(rules.values())).hexdigest()
    if key not in _kept:
        _kept.clear()
        with tempfile.TemporaryDirectory() as folder:
            if not isinstance(rules, WordRules):
                for name, content in rules.items():
                    (Path(folder) / name).write_bytes(content)
            _kept[key] = PartMaker(rules if isinstance(rules, WordRules) else Path(folder), Path())
    return _kept[key].encode(block)


def main() -> None:
    """The child's side."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.argv[1])
    rules = WordRules.model_validate(settings["words"]) if settings["words"] else Path(settings["tokenizer"])
    maker = PartMaker(rules, Path(settings["parts"]))
    while (block := receive_block(sys.stdin.buffer)) is not None:
        answer = {"error": ""}
        try:
            maker.make(*block)
        except FirthError as error:
            answer["error"] = str(error)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the parent process has ended
        main()
