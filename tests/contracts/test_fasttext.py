"""fastText's classifier as a run: trained, loaded, asked, evaluated, exported, served, interrupted, searched."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fasttext
import numpy as np
import pytest
from starlette.testclient import TestClient

import firth
from firth.cli.main import main
from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.run import Run
from firth.models.fasttext.classifier import FastTextClassifierConfig, find_split
from firth.serve.application import Server
from firth.serve.guard import ServeSettings
from firth.serve.models import load_models
from firth.tasks.fasttext import FastTextTask
from firth.tasks.model import TaskModel
from task_text import PEOPLE, THINGS, files, write_vectors

TEXTS = ["The doctor found a map.", "老师看见了书。", "", "🙂"]
QUESTIONS: dict[str, dict[str, object]] = {
    "predict": {"texts": ["the old doctor"]},
    "map": {"words": ["doctor", "clock", "old"]},
    "context": {"sentences": [{"text": "the old doctor", "word": "doctor"}, {"text": "a doctor", "word": "doctor"}]},
}
SMALL = {"dim": 16, "bucket": 5000, "threads": 1}


def write_rows(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return path


def english(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """About people or about things."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        kind = ("person", "thing")[number % 2]
        words = [
            str(random.choice(PEOPLE if kind == "person" else THINGS)),
            *random.choice(["an old", "the", "a new"], 3),
        ]
        rows.append((" ".join(random.permutation(words)), kind))
    return rows


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    return {
        "train": write_rows(tmp_path / "train.tsv", english(80)),
        "dev": write_rows(tmp_path / "dev.tsv", english(30, seed=1)),
    }


def test_train_load_predict_evaluate(tmp_path: Path) -> None:
    trained = firth.finetune(
        "classify",
        base="fasttext",
        **files(tmp_path, "classify", 60, 20),  # type: ignore[arg-type]
        out=tmp_path / "run",
        settings=SMALL,
    )
    loaded = firth.load(tmp_path / "run")
    assert isinstance(loaded, TaskModel)
    assert isinstance(loaded, FastTextTask)
    found = loaded.predict(TEXTS)
    assert found == trained.predict(TEXTS)
    assert [one["label"] for one in found[:2]] == ["en", "zh"]
    for one in found:
        assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert one["label"] == max(one["probabilities"], key=one["probabilities"].get)
    assert loaded.encode(TEXTS).shape == (4, 16)
    assert loaded.layers("The doctor").hidden.shape == (1, 2, 16)
    assert firth.evaluate(tmp_path / "run", data=tmp_path / "dev.tsv")["accuracy"] == 1.0
    record = Run.open(tmp_path / "run").record
    assert record.finished
    assert (record.model, record.kind, record.base) == ("fasttext", "task", "fasttext")
    assert record.metrics["accuracy"] == 1.0
    assert record.config["dim"] == 16
    assert (tmp_path / "run" / "report.html").is_file()
    assert "fastText classifier" in repr(loaded)


def test_the_same_command_gives_the_same_bytes(data: dict[str, Path], tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        firth.finetune("classify", base="fasttext", **data, out=tmp_path / name, settings={**SMALL, "word_ngrams": 2})
        written.append((tmp_path / name / "fasttext.safetensors").read_bytes())
    assert written[0] == written[1]


def test_export_is_read_by_the_original(data: dict[str, Path], tmp_path: Path) -> None:
    firth.finetune("classify", base="fasttext", **data, out=tmp_path / "run", settings={**SMALL, "word_ngrams": 2})
    firth.export(tmp_path / "run", tmp_path / "out.bin")
    theirs = fasttext.load_model(str(tmp_path / "out.bin"))
    ours, run = firth.load(tmp_path / "out.bin"), firth.load(tmp_path / "run")
    for text, _ in english(20, seed=2):
        said = {label.removeprefix("__label__"): p for p, label in theirs.f.predict(text + "\n", -1, 0.0, "strict")}
        assert ours.predict([text])[0]["probabilities"] == pytest.approx(said, abs=1e-5)
        assert run.predict([text])[0]["probabilities"] == pytest.approx(said, abs=1.1e-5)
    with pytest.raises(FirthError, match="exists already"):
        firth.export(tmp_path / "run", tmp_path / "out.bin")
    with pytest.raises(FirthError, match=r"whole \.bin"):
        firth.export(tmp_path / "run", tmp_path / "out.vec")
    with pytest.raises(FirthError, match=r"whole \.bin"):
        firth.export(tmp_path / "run", tmp_path / "other.bin", int8=True)


def test_files_of_the_original_are_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = english(300)
    (tmp_path / "t.txt").write_text("".join(f"__label__{label} {text}\n" for text, label in rows))
    settings = {"bucket": 3000, "dim": 8, "minn": 2, "maxn": 4, "verbose": 0, "thread": 12, "epoch": 20, "lr": 0.5}
    model = fasttext.train_supervised(str(tmp_path / "t.txt"), **settings)
    model.save_model(str(tmp_path / "m.bin"))
    model.quantize(qnorm=True, cutoff=300)
    model.save_model(str(tmp_path / "m.ftz"))
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{text}\n" for text, _ in english(10, seed=3)))
    for name in ("m.bin", "m.ftz"):
        original = fasttext.load_model(str(tmp_path / name))
        main(["predict", str(tmp_path / name), str(lines)])
        for line in capsys.readouterr().out.splitlines():
            found = json.loads(line)
            said = original.f.predict(found["text"] + "\n", -1, 0.0, "strict")
            expected = {label.removeprefix("__label__"): probability for probability, label in said}
            assert found["probabilities"] == pytest.approx(expected, abs=1e-5)
        dev = write_rows(tmp_path / "dev.tsv", english(30, seed=1))
        assert firth.evaluate(tmp_path / name, data=dev)["accuracy"] > 0.9


def test_it_is_served(data: dict[str, Path], tmp_path: Path) -> None:
    """The run, and its file; every ability that it says it has."""
    firth.finetune("classify", base="fasttext", **data, out=tmp_path / "run", settings=SMALL)
    firth.export(tmp_path / "run", tmp_path / "out.bin")
    server = Server(load_models([tmp_path / "run", tmp_path / "out.bin"]), ServeSettings(threads=1))
    server.start()
    try:
        client = TestClient(server.app, base_url="http://localhost")
        for facts in client.get("/models").json()["models"]:
            assert facts["labels"] == ["person", "thing"]
            name = {"model": facts["name"]}
            found = client.post("/predict", json={"texts": ["the old doctor", ""], **name}).json()
            assert found["predictions"][0]["label"] == "person"
            vectors = client.post("/encode", json={"texts": ["the old doctor", ""], **name}).json()["vectors"]
            assert np.asarray(vectors).shape == (2, 16)
            for ability in facts["abilities"]:
                body = QUESTIONS.get(ability, {"text": "the old doctor"})
                assert client.post(f"/{ability}", json={**body, **name}).status_code == 200, ability
    finally:
        server.finish()


def test_several_seeds_and_shares(data: dict[str, Path], tmp_path: Path) -> None:
    firth.finetune("classify", base="fasttext", **data, out=tmp_path / "seeds", seeds=2, settings=SMALL)
    task = Run.open(tmp_path / "seeds").record.task
    assert task is not None
    assert [result.seed for result in task.results] == [0, 1]
    assert task.spread is not None
    firth.finetune(
        "classify", base="fasttext", **data, out=tmp_path / "shares", shares=(0.25, 1), seeds=1, settings=SMALL
    )
    task = Run.open(tmp_path / "shares").record.task
    assert task is not None
    assert [point.examples for point in task.efficiency] == [20, 80]


@pytest.mark.parametrize("with_dev", [True, False])
def test_settings_are_searched_in_a_budget(with_dev: bool, data: dict[str, Path], tmp_path: Path) -> None:
    given = data if with_dev else {"train": data["train"]}
    firth.finetune(
        "classify", base="fasttext", **given, out=tmp_path / "run", budget="3s", settings={**SMALL, "epochs": 4}
    )
    trials = read_json(tmp_path / "run" / "trials.json")
    record = Run.open(tmp_path / "run").record
    assert len(trials) > 1
    assert {trial["config"]["epochs"] for trial in trials} == {4}  # what was given stays
    assert {trial["config"]["dim"] for trial in trials} == {16}
    assert len({trial["config"]["learning_rate"] for trial in trials}) > 1
    best = max(trials, key=lambda trial: trial["score"])["config"]
    assert record.config == best
    assert "settings in 3s" in record.notes["autotune"]
    # the same settings without a search give the same model
    again = {name: value for name, value in best.items() if name not in ("budget", "seed")}
    firth.finetune("classify", base="fasttext", **given, out=tmp_path / "again", settings=again)
    names = [tmp_path / name / "fasttext.safetensors" for name in ("run", "again")]
    assert names[0].read_bytes() == names[1].read_bytes()


def test_words_begin_with_given_vectors(data: dict[str, Path], tmp_path: Path) -> None:
    path = write_vectors(tmp_path / "words.vec")
    dim = int(path.read_text().split()[1])
    settings = {"bucket": 0, "threads": 1, "epochs": 1, "learning_rate": 1e-9}
    firth.finetune("classify", base="fasttext", **data, out=tmp_path / "run", extra_vectors=path, settings=settings)
    model = firth.load(tmp_path / "run")
    assert model.dim == dim
    vectors = firth.load(path)
    np.testing.assert_allclose(
        model.layers(["doctor"]).hidden[0, 0], vectors.layers(["doctor"]).hidden[0, 0], atol=1e-6
    )
    with pytest.raises(FirthError, match="leave out dim"):
        firth.finetune(
            "classify", base="fasttext", **data, out=tmp_path / "other", extra_vectors=path, settings={"dim": dim + 1}
        )


def test_a_label_that_is_too_rare(data: dict[str, Path], tmp_path: Path) -> None:
    rows = [*english(60), ("a strange text", "rare")]
    train = write_rows(tmp_path / "more.tsv", rows)
    firth.finetune(
        "classify",
        base="fasttext",
        train=train,
        dev=train,
        out=tmp_path / "run",
        settings={**SMALL, "min_count_label": 2},
    )
    found = firth.load(tmp_path / "run").predict(["a strange text"])[0]["probabilities"]
    assert found["rare"] == 0.0
    assert firth.evaluate(tmp_path / "run", data=train)["accuracy"] < 1.0


def test_how_texts_are_cut() -> None:
    assert find_split(["The old doctor .", "internationalisation"]) == "whitespace"
    assert find_split(["老师看见了书，老师看见了船。", "小王看见了书。"]) == "words"
    assert find_split(["老师 看见 了 书 ，", "小王 看见 了 船 。"]) == "whitespace"
    config = FastTextClassifierConfig().fitted(["老师看见了书，老师看见了船。"] * 100, set())
    assert (config.word_split, config.min_n, config.max_n, config.epochs) == ("words", 1, 3, 500)
    config = FastTextClassifierConfig(max_n=4).fitted(["a b"] * 100_000, {"max_n"})
    assert (config.word_split, config.min_n, config.max_n, config.epochs) == ("whitespace", 0, 4, 5)


# -- what is refused


def test_what_fasttext_cannot_do_is_said(data: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "run"
    for name in ("pairs", "tags"):
        (tmp_path / name).mkdir()
    pairs, tags = files(tmp_path / "pairs", "pair", 12, 6), files(tmp_path / "tags", "tag", 12, 6)
    for settings, message in (
        ({"task": "tag", **tags}, "another --base for tag"),
        ({**pairs}, "reads one text"),
        ({**data, "sweep": True}, "--budget"),
        ({**data, "settings": {"minn": 2}}, "unknown setting 'minn': did you mean 'min_n'"),
        ({**data, "settings": {"min_n": 5, "max_n": 2}}, "must be at most max_n"),
        ({**data, "settings": {"loss": "hs"}}, "cannot be 'hs'"),
        ({**data, "budget": "soon"}, "soon"),
        ({"train": data["train"], "seeds": 2}, "judged on a dev file"),
        ({**data, "settings": {"min_count": 10_000}}, "no word occurs"),
        ({**data, "settings": {"learning_rate": 1e30}}, "smaller learning_rate"),
    ):
        task = str(settings.pop("task", "classify"))
        with pytest.raises(FirthError, match=message) as error:
            firth.finetune(task, base="fasttext", out=out, **settings)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
        assert not out.exists(), settings


def test_damaged_runs_are_refused(data: dict[str, Path], tmp_path: Path) -> None:
    firth.finetune("classify", base="fasttext", **data, out=tmp_path / "run", settings=SMALL)
    settings, arrays = tmp_path / "run" / "fasttext.json", tmp_path / "run" / "fasttext.safetensors"
    whole, weights = settings.read_text(), arrays.read_bytes()
    for text, raw in (
        ("[]", weights),
        ("{}", weights),
        (whole.replace('"dim": 16', '"dim": 17'), weights),
        (whole.replace('"person"', '"a", "b"'), weights),
        (whole, weights[:-100]),
        (whole, b""),
    ):
        settings.write_text(text)
        arrays.write_bytes(raw)
        with pytest.raises(FirthError):
            firth.load(tmp_path / "run")


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on(kind: signal.Signals, data: dict[str, Path], tmp_path: Path) -> None:
    """Two seeds; stopped in the second, the same command keeps the first and ends with the same bytes."""
    command = ["finetune", "classify", "--base", "fasttext", "--train", str(data["train"]), "--dev", str(data["dev"])]
    command += ["--seeds", "2", "dim=64", "bucket=50000", "threads=1", "epochs=400", "word_ngrams=3"]
    main([*command, "--out", str(tmp_path / "whole")])
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "firth", *command, "--out", str(out)], env=os.environ, stderr=subprocess.PIPE
    )
    first = out / "seeds" / "0" / "result.json"
    until = time.monotonic() + 120
    while not first.is_file() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(kind)
    code = process.wait(60)
    assert first.is_file()
    if code != 0:  # it may have been faster than the signal
        assert not Run.open(out).record.finished
        before = first.read_bytes()
        main([*command, "--out", str(out)])
        assert first.read_bytes() == before
    names = [folder / "fasttext.safetensors" for folder in (out, tmp_path / "whole")]
    assert names[0].read_bytes() == names[1].read_bytes()
    assert Run.open(out).record.finished
