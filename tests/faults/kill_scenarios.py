"""Runs a job again and again, kills it at many moments, lets it go on, and compares what comes out.

A script of its own: it imports everything once and forks a fresh process for every try, so that
dozens of kills take seconds. Some kills come after a random time, some at a random operation on
files (an audit event: open, rename, remove ...), which hits the writing of checkpoints precisely.

    python kill_scenarios.py SCENARIO FOLDER KILLS     prints one JSON object

Scenarios: train, prepare, images, index, full_disk, index_full_disk; the jobs of ``JOBS``, and ``pretrain-RECIPE`` for
the recipes of ``RECIPES``. After a kill the same command is given again (with ``--resume`` where a run has begun); it must
end with the same bytes, and nothing hidden may be left. ``full-JOB`` fills the disk at many moments instead, and what the
message advises must then lead to the same bytes.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import firth
import firth.corpus.prepare as preparing
import firth.retrieval.build as building
import firth.retrieval.store as stores
from firth.core.config import parse_settings
from firth.core.run import Run
from firth.retrieval.search import SearchIndex
from image_samples import make_folder

WORDS = "the a cat dog bird house tree river runs sleeps sings sees finds under over near old young red green".split()


def write_text(path: Path, documents: int, seed: int = 1) -> None:
    random.seed(seed)
    lines = []
    for _ in range(documents):
        sentences = [" ".join(random.choices(WORDS, k=random.randint(4, 12))).capitalize() + "." for _ in range(6)]
        lines.append(" ".join(sentences))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def attempt(
    job: Callable[[], None],
    seconds: float | None = None,
    event: int | None = None,
    limit: int | None = None,
    full: int | None = None,
) -> dict[str, object]:
    """The job in a forked process, killed after some seconds or at the n-th operation on files; or the disk is full from
    the n-th opening of a file for writing on."""
    where = sys.argv[2]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        seen, written = [0], [0]

        def count(name: str, arguments: tuple[object, ...]) -> None:
            if not name.startswith(("open", "os.", "shutil.")) or where not in repr(arguments):
                return
            seen[0] += 1
            if seen[0] == event:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
                written[0] += 1
                if full is not None and written[0] >= full:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        code, message = 0, ""
        try:
            sys.addaudithook(count)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            job()
        except Exception as error:
            code, message = 1, f"{type(error).__name__}: {error}"
        facts = {"code": code, "message": message, "events": seen[0], "written": written[0]}
        os.write(writer, json.dumps(facts).encode())
        os._exit(code)
    os.close(writer)
    started = time.monotonic()
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    answer = os.read(reader, 1 << 16)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    found: dict[str, object] = json.loads(answer) if answer else {"code": None, "message": "", "events": 0}
    return {**found, "killed": os.WIFSIGNALED(status), "seconds": time.monotonic() - started}


def digest(folder: Path, names: list[str]) -> str:
    found = hashlib.sha256()
    for name in names:
        found.update((folder / name).read_bytes())
    return found.hexdigest()


def hidden(goal: Path) -> list[str]:
    """Temporary files and folders in a result and next to it."""
    inside = [str(path) for path in goal.rglob(".*")]
    return inside + [str(path) for path in goal.parent.glob(f".{goal.name}*")]


def kill_often(
    job: Callable[[Path], None], result: Callable[[Path], str], folder: Path, kills: int
) -> dict[str, object]:
    """Half of the kills by the clock, half by operations; each followed by an undisturbed second try."""
    job(folder / "warm")  # once in this process, so that the forks find everything imported
    whole = attempt(lambda: job(folder / "whole"))
    assert whole["code"] == 0, whole
    wanted = result(folder / "whole")
    again = attempt(lambda: job(folder / "again"))
    assert again["code"] == 0, again
    chance = random.Random(7)
    equal, killed, failures = 0, 0, []
    for number in range(kills):
        goal = folder / f"kill-{number}"
        if number % 2:
            first = attempt(lambda goal=goal: job(goal), event=chance.randrange(1, int(str(whole["events"]))))
        else:
            first = attempt(
                lambda goal=goal: job(goal), seconds=chance.uniform(0.02, 0.98) * float(str(again["seconds"]))
            )
        killed += bool(first["killed"])
        second = attempt(lambda goal=goal: job(goal))
        left = hidden(goal)
        if second["code"] == 0 and not left and result(goal) == wanted:
            equal += 1
        else:
            failures.append({"number": number, "first": first, "second": second, "left": left})
        shutil.rmtree(goal, ignore_errors=True)
    return {
        "kills": kills,
        "killed": killed,
        "equal": equal,
        "repeatable": result(folder / "again") == wanted,
        "failures": failures,
    }


SMALL = [
    "num_layers=2",
    "hidden_dim=32",
    "num_heads=2",
    "ffn_dim=64",
    "max_positions=32",
    "seq_len=32",
    "dropout_prob=0.1",
]
SMALL += ["batch_size=8", "evaluations=4", "checkpoints=8", "evaluation_batches=2"]


def train_job(corpus: Path) -> Callable[[Path], None]:
    def job(out: Path) -> None:
        if (out / "firth.json").exists():
            firth.pretrain(resume=out)
        else:
            firth.pretrain("bert-tiny", corpus=corpus, out=out, steps=24, settings=parse_settings(SMALL))

    return job


def train(folder: Path, kills: int) -> dict[str, object]:
    text, corpus = folder / "text.txt", folder / "corpus"
    write_text(text, 200)
    firth.prepare(text, corpus, vocab_size=300, heldout=0.2)
    return kill_often(train_job(corpus), lambda out: digest(out, ["model.safetensors"]), folder, kills)


def prepare(folder: Path, kills: int) -> dict[str, object]:
    text = folder / "text.txt"
    write_text(text, 1500)
    preparing._BLOCK_CHARS = 20_000

    def job(out: Path) -> None:
        with (
            contextlib.suppress(firth.FirthError) if out.exists() else contextlib.nullcontext()
        ):  # whole: it is left so
            firth.prepare(text, out, vocab_size=300, heldout=0.1, deduplicate=True)

    def result(out: Path) -> str:
        names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
        return digest(out, names) + ",".join(names)

    return kill_often(job, result, folder, kills)


def images(folder: Path, kills: int) -> dict[str, object]:
    """All the way with images: a corpus, masked patches, classes from there on. What is whole is not made again."""
    given = make_folder(folder / "in", 24)
    small = ["hidden_dim=16", "num_layers=1", "num_heads=2", "ffn_dim=32", "batch_size=8"]

    def job(out: Path) -> None:
        if not (out / "corpus").exists():
            firth.prepare_images(given, out / "corpus", image_size=16, heldout=0.2)
        settings = parse_settings([*small, "evaluations=2", "checkpoints=4", "mix_prob=0.5", "color=0.2"])
        if (out / "base" / "firth.json").exists():
            firth.pretrain(resume=out / "base")
        else:
            firth.pretrain("vit-tiny-masked", corpus=out / "corpus", out=out / "base", steps=8, settings=settings)
        if not (out / "run" / "config.json").exists() or not Run.open(out / "run").record.finished:
            firth.finetune("classify", base=out / "base", train=given, out=out / "run", epochs=2, batch_size=8)

    return kill_often(job, lambda out: digest(out / "run", ["model.safetensors"]), folder, kills)


def full_disk(folder: Path, kills: int) -> dict[str, object]:
    """A file-size limit stands for the full disk, at a checkpoint and at the end of a run."""
    text, corpus = folder / "text.txt", folder / "corpus"
    write_text(text, 200)
    firth.prepare(text, corpus, vocab_size=300, heldout=0.2)
    job, out = train_job(corpus), folder / "run"
    whole = attempt(lambda: job(folder / "whole"))
    stopped = attempt(lambda: job(out), event=int(str(whole["events"])) // 2)
    before = sorted(path.name for path in (out / "checkpoints").glob("step-*"))
    full = attempt(lambda: job(out), limit=20_000)
    after = sorted(path.name for path in (out / "checkpoints").glob("*"))
    resumed = attempt(lambda: job(out))
    corpus_full = attempt(lambda: firth.prepare(text, folder / "corpus-2", vocab_size=300), limit=20_000)
    return {
        "killed": stopped["killed"],
        "message": full["message"],
        "before": before,
        "kept": before == after,
        "resumed": resumed["code"],
        "equal": digest(out, ["model.safetensors"]) == digest(folder / "whole", ["model.safetensors"]),
        "prepare_message": corpus_full["message"],
        "prepare_left": sorted(path.name for path in folder.glob("*corpus-2*")),
    }


def index_job(folder: Path) -> Callable[[Path], None]:
    """Documents with vectors; what an earlier try left has to be readable."""
    text, vectors = folder / "text.txt", folder / "vectors.txt"
    write_text(text, 300)
    vectors.write_text(
        "".join(f"{word} {' '.join(str((7 * n + k) % 11 - 5) for k in range(8))}\n" for n, word in enumerate(WORDS))
    )
    building._COMMITTED, stores._TOGETHER = 40, 3

    def job(out: Path) -> None:
        if (out / "index.json").exists():
            SearchIndex(out, firth.load).search("the old cat", mode="words")
        firth.index(text, out, model=vectors, passage_size=30)

    return job


def index_content(out: Path) -> str:
    found = SearchIndex(out, firth.load)
    hits = [found.search(" ".join(WORDS[k : k + 4]), top=50, weight=0.5) for k in range(0, 18, 3)]
    shown = [[(hit.id, hit.start, round(hit.score, 6), round(hit.words or 0, 4)) for hit in some] for some in hits]
    names = {path.name for path in out.iterdir()} - found.record.names - {"index.json"}
    left = sorted(name for name in names if name.startswith("."))
    return json.dumps([shown, found.record.num_documents, left])


def index(folder: Path, kills: int) -> dict[str, object]:
    return kill_often(index_job(folder), index_content, folder, kills)


def index_full_disk(folder: Path, kills: int) -> dict[str, object]:
    job, out = index_job(folder), folder / "index"
    job(out)
    before = index_content(out)
    more = folder / "more.txt"
    write_text(more, 400, 2)
    full = attempt(lambda: firth.index(more, out, model=folder / "vectors.txt", passage_size=30), limit=9_000)
    fresh = attempt(lambda: job(folder / "fresh"), limit=9_000)
    return {
        "message": full["message"],
        "fresh_message": fresh["message"],
        "kept": index_content(out) == before,
        "resumed": attempt(lambda: job(folder / "fresh"))["code"],
        "equal": index_content(folder / "fresh") == before,
    }


_LOOP = "batch_size=8 evaluations=2 checkpoints=6 evaluation_batches=1 steps=12".split()
_ENCODER = "num_layers=1 hidden_dim=16 num_heads=2 ffn_dim=32 max_positions=32 seq_len=24".split()
_TRANSLATOR = "num_layers=1 num_decoder_layers=1 hidden_dim=16 num_heads=2 ffn_dim=32".split()
RECIPES: dict[str, tuple[str, list[str]]] = {  # kind of corpus, settings
    "gpt-tiny": ("bpe", [*_ENCODER, *_LOOP]),
    "electra-tiny": ("wordpiece", [*_ENCODER, *_LOOP]),
    "modernbert-1m": ("wordpiece", [*_ENCODER, *_LOOP]),
    "t5-tiny": ("wordpiece", [*_TRANSLATOR, "seq_len=32", *_LOOP]),
    "elmo-tiny": (
        "words",
        [*"filters=[[1,4],[3,8]] projection_dim=8 cell_dim=16 seq_len=12 num_samples=16".split(), *_LOOP],
    ),
    "lstm-lm": ("wordpiece", [*"num_layers=1 hidden_dim=16 embedding_dim=12 seq_len=8".split(), *_LOOP]),
    "transformer-tiny": ("pairs", [*_TRANSLATOR, "batch_tokens=128", "average=2", *_LOOP[1:]]),
    "seq2seq": ("pairs", ["hidden_dim=16", "batch_tokens=128", *_LOOP[1:]]),
    "word2vec": ("words", "dim=8 min_count=1 epochs=3 threads=1 checkpoint_s=0".split()),
    "fasttext": ("words", "dim=8 min_count=1 epochs=3 bucket=50 threads=1 checkpoint_s=0".split()),
    "glove": ("words", "dim=8 min_count=1 epochs=3 threads=1 checkpoint_s=0".split()),
}


def _corpus(folder: Path, kind: str) -> Path:
    corpus = folder / "corpus"
    if kind == "pairs":
        _pairs(folder, corpus)
    else:
        write_text(folder / "text.txt", 80)
        size = {} if kind == "words" else {"vocab_size": 300}
        firth.prepare(folder / "text.txt", corpus, tokens=kind, heldout=0.2, workers=1, **size)
    return corpus


def _pairs(folder: Path, out: Path) -> None:
    """Makes a corpus of pairs, unless it is there."""
    rows = folder / "pairs.tsv"
    if not rows.is_file():
        chance = random.Random(2)
        lines = [" ".join(chance.choices(WORDS, k=5)) for _ in range(200)]
        rows.write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    with contextlib.suppress(firth.FirthError) if out.exists() else contextlib.nullcontext():  # whole: it is left so
        firth.prepare_pairs(rows, out, vocab_size=300, heldout=0.1)


def pretrain(recipe: str, folder: Path, kills: int) -> dict[str, object]:
    kind, settings = RECIPES[recipe]
    corpus = _corpus(folder, kind)
    vectors = recipe in ("word2vec", "fasttext", "glove")

    def job(out: Path) -> None:
        if (out / "firth.json").exists():
            firth.pretrain(resume=out)
        else:
            firth.pretrain(recipe, corpus=corpus, out=out, settings=parse_settings(settings))

    def result(out: Path) -> str:
        names = sorted(path.name for path in out.iterdir() if path.suffix in (".safetensors", ".hdf5", ".bin", ".vec"))
        return digest(out, names) + ",".join(names)

    assert vectors or any(name.startswith("steps=") for name in settings)
    return kill_often(job, result, folder, kills)


def _base(folder: Path) -> Path:
    corpus = _corpus(folder, "wordpiece")
    firth.pretrain("bert-tiny", corpus=corpus, out=folder / "base", settings=parse_settings([*_ENCODER, *_LOOP]))
    return folder / "base"


def _rows(folder: Path) -> Path:
    chance = random.Random(4)
    rows = [f"{' '.join(chance.choices(WORDS, k=6))}\t{'ab'[number % 2]}" for number in range(60)]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return folder / "rows.tsv"


Job = Callable[[Path], object]


def _classify(folder: Path) -> Job:
    base, given = _base(folder), _rows(folder)
    return lambda out: firth.finetune("classify", base=base, train=given, dev=given, out=out, epochs=2, batch_size=8)


def _fasttext(folder: Path) -> Job:
    given = _rows(folder)
    return lambda out: firth.finetune("classify", base="fasttext", train=given, dev=given, out=out, seeds=2, threads=1)


def _embed(folder: Path) -> Job:
    base, given = _base(folder), folder / "sides.tsv"
    chance = random.Random(6)
    rows = [[" ".join(chance.choices(WORDS, k=5)) for _ in range(2)] for _ in range(40)]
    given.write_text("text\tsecond\n" + "".join(f"{one}\t{two}\n" for one, two in rows), encoding="utf-8")
    return lambda out: firth.finetune("embed", base=base, train=given, out=out, epochs=1, batch_size=8)


def _sweep(folder: Path) -> Job:
    corpus = _corpus(folder, "wordpiece")
    settings = parse_settings([*_ENCODER, *_LOOP])
    grid = {"learning_rate": (1e-3, 1e-4)}
    return lambda out: firth.pretrain("bert-tiny", corpus=corpus, out=out, sweep=grid, settings=settings)


def _export(folder: Path, to: str) -> Job:
    base = _base(folder)
    return lambda out: firth.export(base, out, to=to)


def _pretrain(folder: Path, recipe: str) -> Job:
    kind, settings = RECIPES[recipe]
    corpus = _corpus(folder, kind)
    return lambda out: firth.pretrain(recipe, corpus=corpus, out=out, settings=parse_settings(settings))


JOBS: dict[str, tuple[Callable[[Path], Job], tuple[str, ...]]] = {  # how it is made, what is compared
    "pairs": (lambda folder: lambda out: _pairs(folder, out), ("tokens.bin", ".json")),
    "classify": (_classify, ("model.safetensors",)),
    "fasttext": (_fasttext, ("fasttext.safetensors",)),
    "embed": (_embed, ("model.safetensors",)),
    "sweep": (_sweep, ("model.safetensors",)),
    "export": (functools.partial(_export, to="onnx"), ("model.onnx",)),
    "static": (functools.partial(_export, to="static"), ("model.safetensors",)),
    "gpt": (functools.partial(_pretrain, recipe="gpt-tiny"), ("model.safetensors",)),
    "vectors": (functools.partial(_pretrain, recipe="word2vec"), ("vectors.bin",)),
    "glove": (functools.partial(_pretrain, recipe="glove"), ("vectors.bin",)),
}


def _compared(out: Path, endings: tuple[str, ...]) -> str:
    names = sorted(
        str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and path.name.endswith(endings)
    )
    assert names, out
    return digest(out, names) + ",".join(names)


def kill_job(name: str, folder: Path, kills: int) -> dict[str, object]:
    """The same command until it is done; what is whole is not made again."""
    made, endings = JOBS[name]
    begin = made(folder)

    def job(out: Path) -> None:
        run = Run.find(out)
        if run is not None and run.record.kind in ("pretrain", "vectors"):
            firth.pretrain(resume=out)
        elif run is None or not run.record.finished:
            begin(out)

    return kill_often(job, lambda out: _compared(out, endings), folder, kills)


def fill_disk(name: str, folder: Path, moments: int) -> dict[str, object]:
    """The disk is full from some moment on, then there is space again, and the advice is followed to the letter."""
    made, endings = JOBS[name]
    begin = made(folder)
    begin(folder / "warm")
    whole = attempt(lambda: begin(folder / "whole"))
    assert whole["code"] == 0, whole
    wanted, num = _compared(folder / "whole", endings), int(str(whole["written"]))
    messages, failures = [], []
    for number in range(moments):
        out = folder / f"full-{number}"
        first = attempt(lambda out=out: begin(out), full=1 + number * (num - 1) // max(moments - 1, 1))
        message = str(first["message"])
        resumes = f"go on with: firth pretrain --resume {out}" in message
        second = attempt(lambda out=out, how=resumes: firth.pretrain(resume=out) if how else begin(out))
        messages.append(message.replace(str(out), "OUT"))
        told = first["code"] == 0 or "the disk is full" in message
        if not told or second["code"] or hidden(out) or _compared(out, endings) != wanted:
            failures.append({"number": number, "first": first, "second": second, "left": hidden(out)})
        shutil.rmtree(out, ignore_errors=True)
    return {"written": num, "messages": messages, "failures": failures}


if __name__ == "__main__":
    torch.set_num_threads(1)
    scenario = {
        **{f"pretrain-{recipe}": functools.partial(pretrain, recipe) for recipe in RECIPES},
        **{name: functools.partial(kill_job, name) for name in JOBS},
        **{f"full-{name}": functools.partial(fill_disk, name) for name in JOBS},
        "train": train,
        "prepare": prepare,
        "full_disk": full_disk,
        "images": images,
        "index": index,
        "index_full_disk": index_full_disk,
    }[sys.argv[1]]
    sys.stdout.write(json.dumps(scenario(Path(sys.argv[2]), int(sys.argv[3]))) + "\n")
