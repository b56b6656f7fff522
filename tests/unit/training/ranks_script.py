"""Started on every rank by tests: trainings named in a JSON file, one after another in the same processes.

A job may have a ``fault`` (rank, step, kind) and a corpus for each rank; what a job says when it fails goes to standard output.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import firth
from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe
from firth.training.loop import Loop
from firth.training.ranks import process_rank, restarted

torch.set_num_threads(1)


@contextlib.contextmanager
def fault(rank: int, step: int, kind: str) -> Iterator[None]:
    """Something happens to this rank after a step of its training."""
    plain = Loop._step

    def faulty(loop: Loop, batches: Any, at: int, steps: int) -> Any:
        found = plain(loop, batches, at, steps)
        if at + 1 == step and process_rank() == rank and not restarted():
            if kind == "slow":
                time.sleep(600)
            elif kind == "full disk":
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            else:
                os.kill(os.getpid(), signal.Signals[kind])
        return found

    Loop._step = faulty  # type: ignore[method-assign]
    try:
        yield
    finally:
        Loop._step = plain  # type: ignore[method-assign]


def run(job: dict[str, Any]) -> None:
    if "resume" in job:
        firth.pretrain(resume=job["resume"])
    elif "recipe" in job:
        corpus = job["corpus"] if isinstance(job["corpus"], str) else job["corpus"][process_rank()]
        firth.pretrain(find_run_recipe(job["recipe"]).override(job["settings"]), corpus=corpus, out=job["out"])
    else:
        train = job["train"] if isinstance(job["train"], str) else job["train"][process_rank()]
        firth.finetune(**{**job, "train": train})


for one in json.loads(Path(sys.argv[1]).read_text()):
    happens = one.pop("fault", None)
    with fault(*happens) if happens else contextlib.nullcontext():
        try:
            run(one)
        except FirthError as error:
            sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
