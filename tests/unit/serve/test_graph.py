"""A server answers with the exported graph of a run, made once, compared, and kept in the run's folder."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import firth
from firth.core.files import fingerprint, read_json, write_json
from firth.core.run import OutputCheck
from firth.exporters import onnx
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
from task_text import files

TEXTS = ["The old doctor found a broken clock.", "An apple!"]


def test_made_once_and_used(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "bert"
    shutil.copytree(run_folder, run)
    before, names = fingerprint(run), {path.name for path in run.iterdir()}
    served = load_models([run], graphs=True).by_name["bert"]
    assert served.graph is not None
    assert served.facts.engine == "onnxruntime"
    assert "fill" in served.abilities  # which the graph cannot do
    np.testing.assert_allclose(served.encoder.encode(TEXTS), served.model.encode(TEXTS), atol=2e-5)
    assert {path.name for path in run.iterdir()} - names == {onnx.SERVED}
    assert fingerprint(run) == before
    made = (run / onnx.SERVED / "model.onnx").stat().st_mtime_ns
    again = load_models([run], graphs=True)
    assert (run / onnx.SERVED / "model.onnx").stat().st_mtime_ns == made
    server = Server(again, ServeSettings.build({}, "test"))
    server.start()
    client = TestClient(server.app, base_url="http://localhost")
    assert client.get("/models").json()["models"][0]["engine"] == "onnxruntime"
    found = client.post("/encode", json={"texts": TEXTS}).json()["vectors"]
    np.testing.assert_allclose(found, served.model.encode(TEXTS), atol=2e-5)
    assert client.post("/fill", json={"text": "The [MASK] slept."}).status_code == 200
    server.finish()


def test_a_changed_run_gets_a_new_graph(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "mood"
    firth.finetune("classify", base=run_folder, **files(tmp_path, "classify", 12, 6), out=run, epochs=1)  # type: ignore[arg-type]
    served = load_models([run], graphs=True).by_name["mood"]
    assert served.predictor is served.graph
    ours, theirs = served.predictor.predict(TEXTS), served.model.predict(TEXTS)
    for one, other in zip(ours, theirs, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)
    facts = read_json(run / onnx.SERVED / "graph.json")
    write_json(run / onnx.SERVED / "graph.json", {**facts, "fingerprint": "of another run"})
    (run / onnx.SERVED / "model.onnx").write_bytes(b"damaged")
    assert load_models([run], graphs=True).by_name["mood"].graph is not None


def test_what_does_not_agree_is_not_used(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "bert"
    shutil.copytree(run_folder, run)
    wrong = OutputCheck(texts=1, largest_difference=0.5, smallest_cosine=0.7)
    monkeypatch.setattr(onnx, "_verify", lambda *given: wrong)
    for _ in range(2):  # the second time it is known
        served = load_models([run], graphs=True).by_name["bert"]
        assert served.graph is None
        assert served.encoder is served.model
        assert served.facts.engine_note == "the exported graph does not agree with the model"
        monkeypatch.setattr(onnx, "_verify", None)
    assert "answers by torch" in caplog.text
    assert not (run / onnx.SERVED / "model.onnx").exists()


def test_nothing_is_written_into_what_is_no_run(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published directory is somebody else's."""
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    published = tmp_path / "published"
    shutil.copytree(run_folder, published, ignore=shutil.ignore_patterns("firth.json"))
    names = {path.name for path in published.iterdir()}
    assert load_models([published], graphs=True).by_name["published"].graph is not None
    assert {path.name for path in published.iterdir()} == names
    assert list((tmp_path / "cache").rglob("model.onnx"))


def test_what_has_no_graph(words_folder: Path, tmp_path: Path) -> None:
    firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "words", epochs=1, dim=8)
    served = load_models([tmp_path / "words"], graphs=True).by_name["words"]
    assert (served.graph, served.facts.engine, served.facts.engine_note) == (None, None, None)
