"""The attack on the runtime without torch (the distribution firth-runtime): the same cases, and those of what it loads - exports,
taggers and classifiers on counts, fastText's, tables, sentence modules on an export, an index - in processes that cannot
import what the runtime does not bring.

    python tests/faults/attack.py FOLDER --runtime
    python tests/faults/attack_runtime.py SEEDS    makes the honest models, which needs torch
"""

import importlib
import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import attack_files
import attack_graphs
import attack_models
import attack_native
import attack_seeds
from attack_requests import Target
from attack_runner import Case, run_command

sys.path.insert(0, str(Path(__file__).parents[1]))
import firth
from task_text import files

BLOCKED = ("torch", "numba", "llvmlite", "sklearn", "scipy", "sacrebleu", "transformers", "gensim", "sentencepiece")
GENERATORS = ("pyarrow", "fasttext", "h5py", "PIL", "onnx")  # used to make the cases, and hidden from the commands
HIDE = f"import sys\nfor name in {(*BLOCKED, *GENERATORS)!r}: sys.modules[name] = None\n"
PREDICT, ENCODE = ["predict", "model", "texts.txt"], ["encode", "model", "texts.txt"]
ASK: dict[str, list[str]] = {
    **dict.fromkeys(("onnx-classify", "onnx-tag", "onnx-answer", "counts", "counts-tag", "fasttext"), PREDICT),
    **dict.fromkeys(("onnx", "onnx-sentences", "static"), ENCODE),
    "vectors": ["nearest", "model", "the"],
    "index": ["search", "model", "old doctor"],
}
GRAPHS = ("onnx", "onnx-classify", "onnx-tag")


def build(seeds: Path) -> Path:
    """The honest models, in a folder of their own."""
    folder = seeds / "runtime"
    if (folder / "ready").is_file():
        return folder
    attack_seeds.build(seeds)
    for recipe in attack_files.RESUMED:
        attack_files.interrupted(seeds, recipe)
    attack_files.classifier(seeds)
    attack_native.index(seeds)
    attack_native.translator(seeds)
    shutil.rmtree(folder, ignore_errors=True)
    for kind in ("classify", "tag", "answer"):
        (folder / "tasks" / kind).mkdir(parents=True)
        given = files(folder / "tasks" / kind, kind, 12, 6)
        run = folder / "tasks" / kind / "run"
        settings = {"candidates": ("tuned",)} if kind == "classify" else {}
        firth.finetune(kind, base=seeds / "runs" / "bert", **given, out=run, epochs=1, settings=settings)  # type: ignore[arg-type]
        firth.export(run, folder / f"onnx-{kind}", to="onnx", int8=kind == "classify")
        if kind != "answer":
            name = "counts-tag" if kind == "tag" else "counts"
            firth.finetune(kind, base="counts", train=given["train"], out=folder / name)  # type: ignore[arg-type]
    shutil.copytree(seeds / "classifier" / "run", folder / "fasttext")
    for name in ("onnx", "static", "vectors", "index"):
        shutil.copytree(seeds / "runs" / name, folder / name)
    attack_files.sentence_folder(seeds, folder / "sentences")
    firth.export(folder / "sentences", folder / "onnx-sentences", to="onnx")
    (folder / "ready").write_text("")
    return folder


def block() -> None:
    """Nothing in this process imports what the runtime does not bring, from now on."""
    loaded = [name for name in BLOCKED if name in sys.modules]
    assert not loaded, f"{loaded} are loaded already"
    for name in BLOCKED:
        sys.modules[name] = None  # type: ignore[assignment]


def warm_up() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in ("onnxruntime", "tokenizers", "firth.cli.main", "firth.core.registry", "firth.exporters.onnx_model"):
        importlib.import_module(name)


def run(words: Sequence[str]) -> None:
    """In the child."""
    for name in list(sys.modules):
        if name.partition(".")[0] in GENERATORS:
            sys.modules[name] = None  # type: ignore[assignment]
    run_command(words)


def target(seeds: Path) -> Target:
    """A server of the runtime."""
    program = ("-c", f"{HIDE}from firth.cli.main import main\nmain()")
    return Target(seeds, seeds / "runtime", tuple(ASK), program)


def runtime_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"runtime {seed}")
    name = pick.choice(list(ASK))
    place.mkdir(parents=True)
    shutil.copy(seeds / "texts.txt", place)
    if name == "onnx-answer":
        (place / "texts.txt").write_text("who?\tThe old doctor slept.\n")
    shutil.copytree(seeds / "runtime" / name, place / "model")
    path = attack_models.damage_file(place / "model", pick)
    words = pick.choice([ASK[name], ASK[name], ASK[name], ["info", "model"]])
    return Case(f"runtime:{seed} ({name}, {path.relative_to(place / 'model')})", words, place)


def graph_case(seeds: Path, number: int, place: Path) -> Case:
    place.mkdir(parents=True)
    shutil.copy(seeds / "texts.txt", place)
    models = [seeds / "runtime" / name for name in GRAPHS]
    words = ASK[GRAPHS[number % len(GRAPHS)]]
    return attack_graphs.graph_case(models, words, number, place)


MAKERS = {"runtime": runtime_case, "graph": graph_case}

if __name__ == "__main__":
    build(Path(sys.argv[1]))
