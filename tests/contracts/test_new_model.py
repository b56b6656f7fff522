"""A model from outside the package, in one folder and registered by one line, does what every model does."""

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from starlette.testclient import TestClient

import firth
from compare_text import settings as compare_settings
from firth.core import registry
from firth.core.errors import FirthError, Interrupted
from firth.core.files import read_json
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
from ngram_model import SPEC
from task_text import files

TEXTS = ["The old doctor found a broken clock near the river.", "老师看见了一本书。", "An apple!"]
LOOP: dict[str, Any] = {"steps": 8, "evaluations": 2, "checkpoints": 2, "seq_len": 16}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_added", {})
    registry.register(SPEC)


def stop(event: Mapping[str, object]) -> None:
    if event["event"] == "train":
        signal.raise_signal(signal.SIGTERM)


def train(corpus: Path, out: Path) -> Path:
    firth.pretrain("ngram-tiny", corpus=corpus, out=out, **LOOP)
    return out


def test_train_save_load_and_learn(corpus_folder: Path, tmp_path: Path) -> None:
    trained = firth.pretrain("ngram-tiny", corpus=corpus_folder, out=tmp_path / "run", **LOOP)
    loaded = firth.load(tmp_path / "run")
    np.testing.assert_array_equal(trained.encode(TEXTS), loaded.encode(TEXTS))
    assert loaded.spec is SPEC
    assert loaded.layers(TEXTS[0]).hidden.shape[0] == 2
    shutil.copytree(
        tmp_path / "run", tmp_path / "published", ignore=shutil.ignore_patterns("firth.json", "checkpoints")
    )
    np.testing.assert_array_equal(firth.load(tmp_path / "published").encode(TEXTS), loaded.encode(TEXTS))
    longer = firth.pretrain("ngram-tiny", corpus=corpus_folder, out=tmp_path / "longer", **{**LOOP, "steps": 80})
    losses = [firth.evaluate(tmp_path / name)["loss"] for name in ("run", "longer")]
    assert losses[1] < losses[0] - 0.5
    assert longer.num_parameters == loaded.num_parameters


def test_resumed_runs_end_with_the_same_bytes(
    corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    whole = train(corpus_folder, tmp_path / "whole")
    with pytest.raises(Interrupted):
        firth.pretrain("ngram-tiny", corpus=corpus_folder, out=tmp_path / "run", **LOOP, progress=stop)
    firth.pretrain(resume=tmp_path / "run")
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, tmp_path / "run"))
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_it_is_the_base_of_tasks(task: str, corpus_folder: Path, tmp_path: Path) -> None:
    base = train(corpus_folder, tmp_path / "base")
    model = firth.finetune(task, base=base, **files(tmp_path, task, 24, 8), out=tmp_path / "task", epochs=2)
    said = model.predict(TEXTS)
    assert len(said) == 3
    assert firth.load(tmp_path / "task").predict(TEXTS) == said


def test_it_learns_sentence_vectors(corpus_folder: Path, tmp_path: Path) -> None:
    base, pairs = train(corpus_folder, tmp_path / "base"), tmp_path / "pairs.tsv"
    rows = [f"{TEXTS[number % 3]} {number}\tAgain: {TEXTS[number % 3]}" for number in range(12)]
    pairs.write_text("anchor\tpositive\n" + "\n".join(rows) + "\n", encoding="utf-8")
    firth.finetune("embed", base=base, train=pairs, out=tmp_path / "sentences", epochs=1, pool="last")
    found = firth.load(tmp_path / "sentences")
    assert found.sentence is not None
    assert found.sentence.config.pool == ("last",)
    assert read_json(tmp_path / "sentences" / "1_Pooling" / "config.json")["pooling_mode_lasttoken"]
    np.testing.assert_allclose(np.linalg.norm(found.encode(TEXTS), axis=1), 1.0, rtol=1e-5)


def test_it_is_compared(tmp_path: Path) -> None:
    given = {**compare_settings(tmp_path), "recipes": ["ngram-tiny steps=8", "scratch"]}
    found = firth.compare("classify", **given)
    assert "ngram-tiny steps=8" in {row["name"] for row in found["rows"]}


def test_it_is_served(corpus_folder: Path, tmp_path: Path) -> None:
    server = Server(load_models([train(corpus_folder, tmp_path / "ngram")]), ServeSettings(threads=1))
    server.start()
    try:
        client = TestClient(server.app, base_url="http://localhost")
        assert client.get("/models").json()["models"][0]["name"] == "ngram"
        vectors = client.post("/encode", json={"texts": TEXTS}).json()["vectors"]
        assert np.asarray(vectors).shape == (3, 64)
    finally:
        server.finish()


def test_names_that_are_taken_are_refused() -> None:
    with pytest.raises(FirthError, match="there is a model 'ngram' already"):
        registry.register(SPEC)
