"""Several processes and Ray workers against one process.

Training: the same steps in one process (with so much more accumulation) and by torchrun with ``parallel=ddp`` and ``fsdp``: tokens a
second, bytes that a rank exchanges in a step, the share of a step that the exchange of gradients costs (steps with it
against steps without), the peak memory of a rank, and the loss of the last step, which must be the same.
Preparing: the plain path and ``--engine ray`` with 1, 2 and 4 workers: MB a second, and whether the files are the same.

    python benchmarks/cluster.py train --corpus CORPUS [--recipe bert-mini] [--ranks 2] [--steps 30] [key=value ...]
    python benchmarks/cluster.py prepare FILE...

Processes that share cores slow each other down: more ranks than free cores say nothing about speed.
"""

import argparse
import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MARK = "result: "


def worker(settings: dict) -> None:
    """One rank: the steps as they are, then as many without the exchange of gradients."""
    import torch

    from firth.core.registry import find_run_recipe
    from firth.models.pretrain import configure
    from firth.models.shared.pretraining import find_pretraining
    from firth.training.checkpoints import prefetched
    from firth.training.loop import Loop

    torch.set_num_threads(1)
    config = find_run_recipe(settings["recipe"]).override(settings["settings"])
    kind = find_pretraining(config)
    corpus = kind.open_corpus(Path(settings["corpus"]))
    config = configure(config, corpus)
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(kind(config, corpus), config.training, Path(folder), saves=False)
        steps, tokens, losses = settings["steps"], 0, []
        parallel = loop._join()
        with prefetched(loop.trainable.batch, loop._numbers(0, 1 << 60)) as batches:
            loop._step(batches, 0, 10 * steps)  # the first one is slow
            before, began = parallel.exchanged, time.perf_counter()
            for step in range(1, 1 + steps):
                result = loop._step(batches, step, 10 * steps)
                tokens += result.tokens
                losses.append(sum(result.sums.values()) / max(next(iter(result.counts.values())), 1))
            seconds, exchanged = time.perf_counter() - began, parallel.exchanged - before
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            plain = parallel.collecting
            parallel.collecting = lambda last: plain(False)
            loop.optimizer.step = lambda *arguments, **named: (
                None
            )  # gradients that were not exchanged are worth nothing
            began = time.perf_counter()
            for step in range(1 + steps, 1 + 2 * steps):
                loop._step(batches, step, 10 * steps)
            alone = time.perf_counter() - began
    found = {
        "tokens/s": tokens / seconds,
        "MB exchanged a step": exchanged / steps / 1e6,
        "share of the exchange": max(0.0, 1 - alone / seconds) if loop.ranks.size > 1 else 0.0,
        "peak MB of a rank": peak / 1e6,
        "MB of weights": sum(value.numel() * 4 for value in loop.module.parameters()) / 1e6,
        "loss": losses[-1],
    }
    if loop.ranks.first:
        sys.stdout.write(MARK + json.dumps(found) + "\n")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train(arguments: argparse.Namespace) -> None:
    more = [f"gradient_accumulation={arguments.ranks}"]
    ways = {"one process": (1, more), "ddp": (arguments.ranks, []), "fsdp": (arguments.ranks, ["parallel=fsdp"])}
    for name, (ranks, settings) in ways.items():
        told = {
            "recipe": arguments.recipe,
            "corpus": str(arguments.corpus),
            "steps": arguments.steps,
            "settings": [*arguments.settings, *settings],
        }
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
        command += ["--master-addr=127.0.0.1", f"--master-port={free_port()}", __file__, "worker", json.dumps(told)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        line = next(line for line in done.stdout.splitlines() if line.startswith(MARK))
        found = json.loads(line.removeprefix(MARK))
        print(f"{name:12}", "  ".join(f"{key} {value:,.3f}" for key, value in found.items()), flush=True)


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


def prepare(arguments: argparse.Namespace) -> None:
    import firth

    size = sum(Path(path).stat().st_size for path in arguments.files) / 1e6
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        firth.prepare(arguments.files, root / "first", workers=1)  # for the tokenizer, and to warm the disk's cache
        for engine, workers in (("local", 1), ("local", 2), ("ray", 1), ("ray", 2), ("ray", 4)):
            if engine == "ray":
                from firth.core.storage import Cluster

                Cluster(num_cpus=workers)  # its start is not counted
            out, began = root / f"{engine}-{workers}", time.perf_counter()
            firth.prepare(arguments.files, out, tokenizer=root / "first" / "tokenizer", workers=workers, engine=engine)
            seconds = time.perf_counter() - began
            print(f"{engine} {workers}: {size / seconds:.1f} MB/s, files {digest(out)}", flush=True)
            if engine == "ray":
                import ray

                ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("--corpus", type=Path, required=True)
    training.add_argument("--recipe", default="bert-mini")
    training.add_argument("--ranks", type=int, default=2)
    training.add_argument("--steps", type=int, default=30)
    training.add_argument("settings", nargs="*")
    preparing = commands.add_parser("prepare")
    preparing.add_argument("files", nargs="+")
    commands.add_parser("worker").add_argument("told")
    arguments = parser.parse_args()
    if arguments.command == "worker":
        worker(json.loads(arguments.told))
    else:
        {"train": train, "prepare": prepare}[arguments.command](arguments)


if __name__ == "__main__":
    main()
