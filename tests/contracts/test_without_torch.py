"""What firth-runtime does: exports, tables, counts and indexes answer where neither torch nor Numba can be imported, as they do with
them; what needs torch says so in a sentence."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import firth
from firth.models.shared.sentences import SentenceConfig, SentenceModules
from firth.nn.sentences import Dense, Norm, Normalize
from task_text import files, write_vectors

MISSING = ("torch", "numba", "llvmlite", "sklearn", "scipy", "pyarrow", "sacrebleu")
BLOCK = f"import sys\nfor name in {MISSING}: sys.modules[name] = None\n"
ASK = """
import json, sys
import numpy as np
import firth
found = []
for path, ability, given in json.load(open(sys.argv[1])):
    answer = getattr(firth.load(path), ability)(*given)
    found.append(answer.tolist() if isinstance(answer, np.ndarray) else answer)
print(json.dumps(found))
"""
SERVE = """
import json, sys
from pathlib import Path
from starlette.testclient import TestClient
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
paths = [Path(one) for one in sys.argv[1:]]
server = Server(load_models(paths), ServeSettings.build({}, "test"))
server.start()
client = TestClient(server.app, base_url="http://localhost")
for path, body in (("predict", {"texts": ["The doctor found a map."]}), ("encode", {"texts": ["A map."], "model": "static"}),
                   ("search", {"question": "a map"}), ("explain", {"text": "The doctor found a map."})):
    answer = client.post("/" + path, json=body)
    assert answer.status_code == 200, answer.text
    print(json.dumps(answer.json()))
assert client.get("/models").status_code == client.get("/").status_code == 200
server.finish()
assert sys.modules["torch"] is None
"""
TEXTS = ["The doctor found a map.", "老师看见了书。", "", "The nurse sold a book and a gate. " * 30]
TAGGED = [["the", "old", "nurse", "found", "a", "map"], "The old doctor slept."]
ASKED = [("What did the nurse find?", "The nurse found a map.")]


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCK + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def firth_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run("from firth.cli.main import main\nmain()", *arguments)


@pytest.fixture(scope="module")
def made(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports and runs of every kind that needs no torch."""
    folder, given = tmp_path_factory.mktemp("runtime"), dict[str, dict[str, Path]]()
    for kind, settings in {"classify": {}, "tag": {"crf": True}, "answer": {}}.items():
        (folder / kind).mkdir()
        given[kind] = files(folder / kind, kind, 12, 6)
        firth.finetune(kind, base=run_folder, **given[kind], out=folder / kind / "run", epochs=1, **settings)  # type: ignore[arg-type]
        firth.export(folder / kind / "run", folder / f"onnx-{kind}", to="onnx", int8=kind == "classify")
    for base in ("counts", "fasttext"):
        firth.finetune("classify", base=base, train=given["classify"]["train"], out=folder / base)
    firth.finetune("tag", base="counts", train=given["tag"]["train"], out=folder / "counts-tag")
    firth.finetune(
        "classify", base=run_folder, train=given["classify"]["train"], out=folder / "frozen", candidates=("linear",)
    )
    firth.export(folder / "frozen", folder / "onnx-frozen", to="onnx")
    firth.export(run_folder, folder / "static", to="static", dim=16)
    firth.export(run_folder, folder / "onnx-sentences", to="onnx")
    tail = nn.Sequential(Dense(32, 8, True, "GELU"), Norm(8), Normalize())
    config = SentenceConfig(pool=("mean", "cls"), prompts={"query": "question: "}, include_prompt=False)
    SentenceModules(config.replace(pool=("weightedmean",)), tail).save(folder / "onnx-sentences", 32)
    write_vectors(folder / "words.vec")
    (folder / "documents.txt").write_text("The doctor found a map.\nThe nurse sold a book.\n", encoding="utf-8")
    firth.index(folder / "documents.txt", folder / "index", model=folder / "static")
    return folder


def near(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return one == pytest.approx(other, abs=1e-5)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(near(*both) for both in zip(one, other, strict=True))
    return bool(one == other)


def test_the_same_answers(made: Path, tmp_path: Path) -> None:
    jobs: list[tuple[str, str, list[Any]]] = [
        *((name, "predict", [TEXTS]) for name in ("onnx-classify", "onnx-frozen", "counts", "fasttext")),
        ("onnx-tag", "predict", [TAGGED]),
        ("counts-tag", "predict", [TAGGED]),
        ("onnx-answer", "predict", [ASKED]),
        ("onnx-classify", "encode", [TEXTS]),
        ("onnx-sentences", "encode", [TEXTS]),
        ("onnx-sentences", "encode", [TEXTS, -1, None, "query"]),
        *(("static", "encode", [TEXTS, -1, pool]) for pool in (None, "mean", "max")),
        ("words.vec", "nearest", ["doctor", 3]),
        ("words.vec", "encode", [TEXTS]),
    ]
    asked = [(str(made / name), ability, given) for name, ability, given in jobs]
    (tmp_path / "jobs.json").write_text(json.dumps(asked), encoding="utf-8")
    done = run(ASK, tmp_path / "jobs.json")
    assert done.returncode == 0, done.stderr[-3000:]
    for (path, ability, given), found in zip(asked, json.loads(done.stdout), strict=True):
        expected = getattr(firth.load(path), ability)(*given)
        plain = expected.tolist() if isinstance(expected, np.ndarray) else expected
        assert near(json.loads(json.dumps(plain)), found), (path, ability)


def test_export_answers_as_its_run(made: Path) -> None:
    """A linear model on frozen features, with the layers side by side or not."""
    ours, theirs = (firth.load(made / name).predict(TEXTS) for name in ("onnx-frozen", "frozen"))
    assert all(near({**one}, {**other, "unknown": one["unknown"]}) for one, other in zip(ours, theirs, strict=True))


def test_commands(made: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("The doctor found a map.\n", encoding="utf-8")
    done = firth_command("predict", made / "onnx-classify", tmp_path / "texts.txt")
    assert json.loads(done.stdout)["label"] in ("en", "zh"), done.stderr
    done = firth_command("predict", made / "counts", tmp_path / "texts.txt", "--out", tmp_path / "scored.tsv")
    assert done.returncode == 0, done.stderr
    done = firth_command("search", made / "index", "which map", "--json")
    assert "map" in done.stdout, done.stderr
    done = firth_command("encode", made / "static", "A map.")
    assert len(json.loads(done.stdout)["vector"]) == 16
    assert "onnx" in firth_command("info", made / "onnx-tag").stdout


def test_server(made: Path) -> None:
    done = run(SERVE, made / "onnx-classify", made / "static", made / "index", made / "counts")
    assert done.returncode == 0, done.stderr[-3000:]
    predicted, encoded, searched, explained = map(json.loads, done.stdout.splitlines())
    assert near(predicted["predictions"], firth.load(made / "onnx-classify").predict(["The doctor found a map."]))
    np.testing.assert_allclose(encoded["vectors"], firth.load(made / "static").encode(["A map."]), atol=1e-6)
    assert searched["found"][0]["text"] == "The doctor found a map."
    assert explained["words"]


def test_what_needs_torch(made: Path, tmp_path: Path) -> None:
    done = firth_command("predict", made / "classify/run", "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert "torch" in done.stderr
    assert "pip install firth" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    given = files(tmp_path, "classify")
    done = firth_command(
        "finetune", "classify", "--base", "counts", "--train", given["train"], "--out", tmp_path / "run"
    )
    assert done.returncode == 2, done.stderr
    assert "pip install firth" in done.stderr
    program = (
        f"import firth\ntry: firth.load({str(made / 'classify/run')!r})\nexcept firth.FirthError as error: print(error)"
    )
    assert "pip install firth" in run(program).stdout
