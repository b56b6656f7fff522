"""ELMo under a task: its layers as a task reads them, frozen or tuned, the last or a mix, saved and loaded."""

from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.core.config import parse_settings
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from task_text import write_vectors

SMALL = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=6", "batch_size=3", "max_vocab=60"]
TEXTS = ["The old doctor found a clock.", "老师看见了一本书。", "A red boat near the flibbertigibbet!"]


@pytest.fixture(scope="module")
def run(words_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "elmo"
    firth.pretrain(find_run_recipe("elmo-tiny").override([*SMALL, "steps=2"]), corpus=words_folder, out=folder)
    return folder


def test_a_task_reads_the_same_layers(run: Path) -> None:
    model = firth.load(run)
    reader = model.reader()
    rows = [(*reader.frame.before, *reader.tokenize(text).ids.tolist(), *reader.frame.after) for text in TEXTS]
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[reader.pad_id] * (longest - len(row))] for row in rows])
    with torch.inference_mode():
        layers = reader.module(Inputs(ids, (ids != reader.pad_id).long()))
    for place, text in enumerate(TEXTS):
        wanted = model.layers(text).hidden
        found = layers.hidden[:, place, 1 : wanted.shape[1] + 1].numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert reader.num_layers == len(layers.hidden) == 3


@pytest.mark.parametrize(
    "settings", [["tune=false", "layers=mix"], ["layers=mix", "mix_l2=0.001"], ["body=bilstm", "body_dim=8"]]
)
def test_classify(run: Path, tmp_path: Path, settings: list[str]) -> None:
    lines = [
        f"{label}\t{text} {number}\n" for number in range(6) for label, text in (("en", TEXTS[0]), ("zh", TEXTS[1]))
    ]
    path = tmp_path / "train.tsv"
    path.write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    out = tmp_path / "run"
    trained = firth.finetune(
        "classify", base=run, train=path, dev=path, out=out, epochs=1, settings=parse_settings(settings)
    )
    loaded = firth.load(out)
    assert loaded.predict(TEXTS) == trained.predict(TEXTS)
    assert {found["label"] for found in loaded.predict(TEXTS)} <= {"en", "zh"}


def test_tag(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "train.conll"
    path.write_text("The O\nold O\ndoctor B-PER\nsleeps O\n\nAnna B-PER\nsold O\nbread O\n\n" * 4, encoding="utf-8")
    out = tmp_path / "run"
    trained = firth.finetune("tag", base=run, train=path, dev=path, out=out, epochs=1, layers="mix")
    words = ["The", "old", "nurse", "sleeps"]
    found = firth.load(out).predict([words])
    assert found == trained.predict([words])
    assert len(found[0]["tags"]) == 4


def test_a_published_pair_by_its_file(run: Path, tmp_path: Path) -> None:
    """Both files come along into the run, whatever they are called."""
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / f"elmo_2x_{name}").write_bytes((run / name).read_bytes())
    path = tmp_path / "train.tsv"
    path.write_text("label\ttext\n" + "a\tOne cat.\nb\tTwo dogs.\n" * 4)
    out = tmp_path / "run"
    base = tmp_path / "elmo_2x_weights.hdf5"
    trained = firth.finetune("classify", base=base, train=path, dev=path, out=out, epochs=1, tune=False)
    base.unlink()
    assert firth.load(out).predict(TEXTS) == trained.predict(TEXTS)


@pytest.mark.parametrize("tune", [False, True])
def test_word_vectors_beside(run: Path, tmp_path: Path, tune: bool) -> None:
    """[x; ELMo] below the BiLSTM and [h; ELMo] above it; what ELMo reads is what it read without vectors."""
    path = tmp_path / "train.conll"
    path.write_text("The O\nold O\ndoctor B-PER\nsleeps O\n\nAnna B-PER\nsold O\nbread O\n\n" * 4, encoding="utf-8")
    vectors = write_vectors(tmp_path / "words.vec", 5)
    trained = firth.finetune(
        "tag",
        base=run,
        extra_vectors=vectors,
        train=path,
        dev=path,
        out=tmp_path / "run",
        epochs=1,
        layers="mix",
        place="both",
        mix_l2=0.001,
        body_dim=6,
        tune=tune,
    )
    vectors.unlink()
    loaded = firth.load(tmp_path / "run")
    words = ["The", "old", "flibbertigibbet", "sleeps"]
    assert loaded.predict([words]) == trained.predict([words])
    network = loaded.network  # type: ignore[attr-defined]
    assert network.body.input_size == 5 + loaded.dim
    assert network.dim == 2 * 6 + loaded.dim
    if not tune:
        encoding = network.reader.tokenize(words)
        ids = torch.tensor([[*network.reader.frame.before, *encoding.ids.tolist(), *network.reader.frame.after]])
        with torch.inference_mode():
            hidden = network.reader_module(Inputs(ids, torch.ones_like(ids))).hidden[:, 0, 1:-1].numpy()
        np.testing.assert_allclose(hidden, firth.load(run).layers(words).hidden, atol=1e-5)
