"""Several processes and Ray workers against one process.

train: the same steps in one process (with so much more accumulation) and by torchrun with ``parallel=ddp``, ``fsdp`` and a flat
exchange (one all-reduce of all gradients after the backward pass): tokens a second, processor seconds of all ranks, bytes that a
rank exchanges in a step, the share of a step that the exchange costs (steps with it against steps without), the peak
memory of a rank, and the loss of the last step, which must be the same.
prepare: the plain path and ``--engine ray`` with so many workers: MB a second and MB a processor second, and whether the
files are the same. ``--repeat`` makes a text of so many MB from the files, each copy of a line with other numbers.
vectors: skip-gram on N machines that learn from their own share of the text and average their tables so many times an epoch,
simulated one after another: rank correlation with word similarities, and the bytes that are exchanged.

    python benchmarks/cluster.py train --corpus CORPUS [--recipe bert-mini] [--ranks 2] [--steps 30] [key=value ...]
    python benchmarks/cluster.py prepare FILE... [--repeat MB] [--ways local-1 ray-1 ray-2 ray-4]
    python benchmarks/cluster.py vectors --corpus CORPUS --similarity FILE... [--machines 1 2 4 8] [--averages 1 10]

Processes that share cores slow each other down: more ranks than free cores say nothing about speed, and processor seconds
are the figure to read on a busy machine.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import resource
import shutil
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
    from firth.training.ranks import Parallel, ring_bytes

    class Flat(Parallel):
        """All gradients in one exchange after the last backward pass of a step."""

        def __init__(self, module: torch.nn.Module) -> None:
            self.module = module

        @contextlib.contextmanager
        def collecting(self, last: bool):
            yield
            if last:
                grads = [value.grad for value in self.module.parameters() if value.grad is not None]
                flat = torch.cat([grad.flatten() for grad in grads])
                torch.distributed.all_reduce(flat)
                self.exchanged += ring_bytes(flat.nbytes, 2)
                for grad, summed in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
                    grad.copy_(summed.view_as(grad))

    torch.set_num_threads(1)
    config = find_run_recipe(settings["recipe"]).override(settings["settings"])
    kind = find_pretraining(config)
    corpus = kind.open_corpus(Path(settings["corpus"]))
    config = configure(config, corpus)
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(kind(config, corpus), config.training, Path(folder), saves=False)
        steps, tokens, losses = settings["steps"], 0, []
        if settings["flat"]:
            loop.parallel = Flat(loop.module)
        parallel = loop._join()
        with prefetched(loop.trainable.batch, loop._numbers(0, 1 << 60)) as batches:
            loop._step(batches, 0, 10 * steps)  # the first one is slow
            before, began, processor = parallel.exchanged, time.perf_counter(), time.process_time()
            for step in range(1, 1 + steps):
                result = loop._step(batches, step, 10 * steps)
                tokens += result.tokens
                losses.append(sum(result.sums.values()) / max(next(iter(result.counts.values())), 1))
            seconds, exchanged = time.perf_counter() - began, parallel.exchanged - before
            processor = sum(loop.ranks.sum_values({"s": time.process_time() - processor}).values())
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
        "tokens a processor second": tokens / processor,
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
    many = arguments.ranks
    ways = {"one process": (1, more), "flat": (many, []), "ddp": (many, []), "fsdp": (many, ["parallel=fsdp"])}
    for name, (ranks, settings) in ways.items():
        told = {
            "recipe": arguments.recipe,
            "corpus": str(arguments.corpus),
            "steps": arguments.steps,
            "flat": name == "flat",
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


def processor_seconds() -> float:
    """Of this process, of all below it, and of those that have ended."""
    import psutil

    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def repeated(files: list[str], megabytes: int, goal: Path) -> None:
    """A text of so many MB: every copy of a line ends in words of its own, so that no two are alike."""
    lines = [line for path in files for line in Path(path).read_text().splitlines() if line.strip()]
    size, copy = 0, 0
    with open(goal, "w") as handle:
        while size < megabytes * 1e6:
            copy += 1
            for number, line in enumerate(lines):
                size += handle.write(f"{line} {copy:x}{number % 9973:x}\n")
                if size >= megabytes * 1e6:
                    break


def prepare(arguments: argparse.Namespace) -> None:
    import firth

    with tempfile.TemporaryDirectory() as scratch:
        root, files = Path(scratch), arguments.files
        given: dict = {"layout": "line"} if arguments.repeat else {}
        if arguments.repeat:
            repeated(files, arguments.repeat, root / "text.txt")
            files = [str(root / "text.txt")]
        size = sum(Path(path).stat().st_size for path in files) / 1e6
        small = [path for path in arguments.files if not path.endswith(".npz")]
        firth.prepare(small, root / "first", workers=1, **given)  # for the tokenizer
        for way in arguments.ways:
            engine, _, workers = way.partition("-")
            if engine == "ray":
                from firth.core.storage import Cluster

                cluster = Cluster(
                    num_cpus=int(workers)
                )  # its start and the first imports of its workers are not counted
                firth.prepare(
                    small, root / f"warm-{way}", tokenizer=root / "first" / "tokenizer", engine="ray", **given
                )
            out, began, used = root / way, time.perf_counter(), processor_seconds()
            tokenizer = root / "first" / "tokenizer"
            firth.prepare(files, out, tokenizer=tokenizer, workers=int(workers), engine=engine, **given)
            seconds, used = time.perf_counter() - began, processor_seconds() - used
            print(f"{way}: {size:.0f} MB, {size / seconds:.1f} MB/s, {size / used:.2f} MB a processor second, ", end="")
            print(f"files {digest(out)}", flush=True)
            shutil.rmtree(out)
            if engine == "ray":
                cluster.ray.shutdown()


def vectors(arguments: argparse.Namespace) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    from firth.corpus.format import Corpus
    from firth.evaluation.words import score_similarity
    from firth.vectors.configs import Word2VecConfig
    from firth.vectors.learners import WordLearner
    from firth.vectors.vocabulary import view_vocabulary
    from firth.vectors.word_vectors import WordVectors

    corpus = Corpus.open(arguments.corpus)
    config = Word2VecConfig(dim=arguments.dim, epochs=arguments.epochs, threads=1)
    vocabulary = view_vocabulary(corpus, config.min_count, config.max_vocab)
    for machines in arguments.machines:
        for averages in arguments.averages if machines > 1 else [0]:
            learner = WordLearner(corpus.train, vocabulary, config, 1)
            steps = learner.num_steps
            rounds = max(1, averages * config.epochs)
            edges = np.linspace(0, steps, rounds + 1).astype(int) if machines > 1 else [0, steps]
            began, exchanged = time.process_time(), 0
            with ThreadPoolExecutor(1) as pool:
                for first, last in itertools.pairwise(edges):
                    common = {name: value.copy() for name, value in learner.arrays().items()}
                    sums = {name: np.zeros_like(value) for name, value in common.items()}
                    for machine in range(machines):
                        learner.restore(common)
                        for step in range(first + machine, last, machines):
                            learner.run_step(step, pool)
                        for name, value in learner.arrays().items():
                            sums[name] += value
                    learner.restore({name: value / machines for name, value in sums.items()})
                    exchanged += sum(common[name].nbytes for name in ("input", "output")) * (machines > 1)
            found = WordVectors(vocabulary.words, learner.arrays()["input"].copy(), None, None, vocabulary.counts)
            scores = [score_similarity(found, path).spearman for path in arguments.similarity]
            print(f"{machines} machines, {averages} averages an epoch: ", end="")
            print(f"{'  '.join(f'{score:.3f}' for score in scores)}  mean {np.mean(scores):.3f}  ", end="")
            print(f"{2 * (machines - 1) / machines * exchanged / 1e6:,.0f} MB sent by each, ", end="")
            print(f"{time.process_time() - began:.0f} processor seconds in all", flush=True)


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
    preparing.add_argument("--repeat", type=int, metavar="MB")
    preparing.add_argument("--ways", nargs="+", default=["local-1", "local-2", "ray-1", "ray-2", "ray-4"])
    averaging = commands.add_parser("vectors")
    averaging.add_argument("--corpus", type=Path, required=True)
    averaging.add_argument("--similarity", type=Path, nargs="+", required=True)
    averaging.add_argument("--machines", type=int, nargs="+", default=[1, 2, 4, 8])
    averaging.add_argument("--averages", type=int, nargs="+", default=[1, 10])
    averaging.add_argument("--dim", type=int, default=100)
    averaging.add_argument("--epochs", type=int, default=3)
    commands.add_parser("worker").add_argument("told")
    arguments = parser.parse_args()
    if arguments.command == "worker":
        worker(json.loads(arguments.told))
    else:
        {"train": train, "prepare": prepare, "vectors": vectors}[arguments.command](arguments)


if __name__ == "__main__":
    main()
