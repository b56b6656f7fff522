"""A small comparison, and the same in a process that is killed on its way."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import firth
from sample_text import write_documents
from task_text import files

SMALL = "num_layers=1 hidden_dim=32 num_heads=2 ffn_dim=64 seq_len=32 batch_size=4 evaluations=1 steps=2"
RECIPES = ["word2vec epochs=1 dim=8 min_count=1 threads=1", f"bert-tiny-modern {SMALL}", "scratch"]


def settings(folder: Path, kind: str = "classify") -> dict[str, Any]:
    """Of a comparison whose length does not depend on the clock."""
    if not (folder / "news.txt").exists():
        write_documents(folder / "news.txt", 80)
        files(folder, kind, 24, 9)
    ending = {"tag": ".conll", "answer": ".json"}.get(kind, ".tsv")
    return {
        "corpus": folder / "news.txt",
        "layout": "line",
        "train": folder / f"train{ending}",
        "dev": folder / f"dev{ending}",
        "out": folder / "out",
        "budget": "2h",
        "seeds": 2,
        "vocab_size": 400,
        "settings": {"epochs": 1, "max_len": 24, **({"body_dim": 8} if kind != "answer" else {})},
        "recipes": RECIPES,
    }


def killed_at(folder: Path, title: str, number: int) -> None:
    """The comparison until a stage of that name has told the n-th event, then no more."""
    seen = [0]

    @contextmanager
    def stage(name: str) -> Iterator[Any]:
        def told(event: object) -> None:
            seen[0] += name == title
            if seen[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

        yield told

    firth.compare("classify", stage=stage, **settings(folder))


if __name__ == "__main__":
    killed_at(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
