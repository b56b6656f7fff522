"""Tasks as text, on T5 and UniLM alike: train, save, load, the same words; go on; bad input."""

import gzip
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.core.config import parse_settings
from firth.core.errors import FirthError, Interrupted
from firth.core.run import Run
from firth.corpus.pairs import PairsCorpus
from firth.tasks.config import WritingConfig
from firth.tasks.data import Reading
from firth.tasks.suspects import check_files
from firth.tasks.write.data import read_writing
from firth.tasks.write.model import WritingModel
from pair_text import sentence_pairs

SHAPE = ["num_layers=1", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "batch_size=4", "evaluations=1", "steps=2"]
SMALL: dict[str, Any] = {
    "epochs": 1,
    "settings": {"max_source_len": 32, "max_target_len": 12, "evaluations": 1, "checkpoints": 1},
}


@pytest.fixture(scope="module")
def bases(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One base of each kind that writes."""
    folder = tmp_path_factory.mktemp("bases")
    more = {"t5-tiny": ["num_decoder_layers=1", "seq_len=32"], "unilm-tiny": ["seq_len=32", "max_positions=64"]}
    for name, settings in more.items():
        firth.pretrain(name, corpus=corpus_folder, out=folder / name, settings=parse_settings([*SHAPE, *settings]))
    return {name: folder / name for name in more}


def write_pairs(path: Path, count: int, seed: int = 0) -> Path:
    rows = [f"{source}\t{target}\n" for source, target in sentence_pairs(count, seed)]
    path.write_text("source\ttarget\n" + "".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["t5-tiny", "unilm-tiny"])
def test_texts(name: str, bases: dict[str, Path], tmp_path: Path) -> None:
    train, dev = write_pairs(tmp_path / "train.tsv", 40), write_pairs(tmp_path / "dev.tsv", 5, 1)
    out = tmp_path / "run"
    trained = firth.finetune("write", base=bases[name], train=train, dev=dev, out=out, prefix="turn: ", **SMALL)
    assert isinstance(trained, WritingModel)
    loaded = firth.load(out)
    assert isinstance(loaded, WritingModel)
    texts = ["dog cat bird", "house river " * 60]  # the second is longer than what is read
    assert loaded.write(texts) == trained.write(texts)
    assert [found["written"] for found in loaded.predict(texts)] == loaded.write(texts)
    assert loaded.translate(texts, 2) == loaded.write(texts, 2)
    assert loaded.config.prefix == "turn: "
    metrics = Run.open(out).record.metrics
    assert {"loss", "exact_match", "rouge_1", "rouge_2", "rouge_l", "bleu", "chrf"} <= set(metrics)
    tested = firth.evaluate(out, data=dev)
    assert tested["examples"] == 5
    assert tested["rouge_l"] == pytest.approx(metrics["rouge_l"])
    assert tested["interval"]["metric"] == "rouge_l"
    assert "rouge_l" in firth.evaluate(out)
    assert {"encode", "fill", "translate", "layers"} <= set(loaded.abilities)
    (tmp_path / "texts.txt").write_text("dog\ncat bird\n", encoding="utf-8")
    found = list(firth.predict(out, file=str(tmp_path / "texts.txt")))
    assert [row["text"] for row in found] == ["dog", "cat bird"]
    learned, prefix = PairsCorpus.open(out / "corpus").train, loaded.reader().tokenize("turn:").ids.tolist()
    assert learned.num_pairs == 40
    assert all(learned.sentence("source", number).tolist()[: len(prefix)] == prefix for number in range(40))


WRITERS = pytest.mark.parametrize("name", ["t5-tiny", "unilm-tiny"])


@WRITERS
def test_the_best_test_says_which_model_is_kept(name: str, bases: dict[str, Path], tmp_path: Path) -> None:
    """What is tested is the contrary of what is learned, so it gets worse from test to test."""
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    for path, word in ((train, "dog"), (dev, "river")):
        path.write_text("source\ttarget\n" + f"the cat\t{' '.join([word] * 8)}\n" * 20, encoding="utf-8")
    settings = ["max_source_len=32", "max_target_len=12", "evaluations=3", "schedule=constant", "learning_rate=0.005"]
    found = {}
    for finish in ("best", "last"):
        out = tmp_path / finish
        more = [*settings, f"finish={finish}"]
        firth.finetune(
            "write", base=bases[name], train=train, dev=dev, out=out, steps=30, settings=parse_settings(more)
        )
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        tested = [line["heldout_loss"] for line in lines if "heldout_loss" in line]
        assert tested == sorted(tested)
        found[finish] = Run.open(out).record.metrics["loss"]
        assert found[finish] == pytest.approx(min(tested) if finish == "best" else tested[-1])
        assert firth.evaluate(out)["loss"] == pytest.approx(found[finish], rel=1e-4)
    assert found["best"] < found["last"]
    with pytest.raises(FirthError, match="evaluations above 0"):
        firth.finetune("write", base=bases[name], train=train, out=tmp_path / "no", evaluations=0, finish="best")


@WRITERS
def test_copying_first(name: str, bases: dict[str, Path], tmp_path: Path) -> None:
    """Plain text makes pairs; what learned to copy is the base of what writes."""
    (tmp_path / "text.txt").write_text(
        "The dog barked, the cat ran away. A bird sang; it rained.\n" * 3, encoding="utf-8"
    )
    first = SMALL | {"settings": {**SMALL["settings"], "form": "copy"}, "epochs": None, "steps": 2}
    copier = firth.finetune("write", base=bases[name], train=tmp_path / "text.txt", out=tmp_path / "copier", **first)
    assert isinstance(copier, WritingModel)
    assert copier.config.form == "text"
    learned = PairsCorpus.open(tmp_path / "copier" / "corpus").train
    for number in range(learned.num_pairs):
        source, target = (learned.sentence(side, number).tolist() for side in ("source", "target"))
        assert any(source[at : at + len(target)] == target for at in range(len(source)))
    train = write_pairs(tmp_path / "train.tsv", 10)
    model = firth.finetune("write", base=tmp_path / "copier", train=train, out=tmp_path / "run", **SMALL)
    assert model.predict(["dog"]) == firth.load(tmp_path / "run").predict(["dog"])
    (tmp_path / "none.txt").write_text(", ;\n", encoding="utf-8")
    for message, given in {
        "no clauses to copy": {"train": tmp_path / "none.txt"},
        "no such file": {"train": tmp_path / "nowhere.txt"},
        "leave out the columns of labels": {"train": train, "label": "target"},
        "no column|no field": {"train": train, "text": "abstract"},
    }.items():
        with pytest.raises(FirthError, match=message):
            firth.finetune("write", base=bases[name], out=tmp_path / "no", **first, **given)
        assert not (tmp_path / "no").exists()
    rows = read_writing(WritingConfig(form="copy"), train, None, Reading(text="source")).train
    assert all(row.label in row.text and row.text in train.read_text(encoding="utf-8") for row in rows)


@WRITERS
def test_classes_and_pairs(name: str, bases: dict[str, Path], tmp_path: Path) -> None:
    rows = ["a dog\ta cat\tNo", "a boat\ta boat\tYes"] * 6
    (tmp_path / "train.tsv").write_text("text\tsecond\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    train, out = tmp_path / "train.tsv", tmp_path / "run"
    base = bases[name]
    model = firth.finetune(
        "write", base=base, train=train, dev=train, out=out, form="classify", prefix="same? ", **SMALL
    )
    assert isinstance(model, WritingModel)
    assert model.config.labels == ("No", "Yes")
    assert model.config.pairs
    assert "predict" in model.abilities
    assert {found["label"] for found in model.predict([("a dog", "a boat")])} <= {"No", "Yes", None}
    assert 0 <= firth.evaluate(out, data=train)["accuracy"] <= 1
    with pytest.raises(FirthError, match="reads two strings"):
        model.predict(["a dog"])
    (tmp_path / "texts.txt").write_text("a dog\ta cat\n", encoding="utf-8")
    assert next(firth.predict(out, file=str(tmp_path / "texts.txt")))["second"] == "a cat"


@WRITERS
def test_tags(name: str, bases: dict[str, Path], tmp_path: Path) -> None:
    train, out = tmp_path / "train.conll", tmp_path / "run"
    train.write_text("The O\nold O\nAnna B-PER\n\nMr. B-PER\nBrown I-PER\nslept O\n\n" * 4, encoding="utf-8")
    model = firth.finetune("write", base=bases[name], train=train, dev=train, out=out, form="tag", **SMALL)
    assert isinstance(model, WritingModel)
    assert (model.config.scheme, model.config.labels) == ("bio", ("PER",))
    assert "entities" in model.predict(["The old Anna"])[0]
    assert {"precision", "recall", "f1"} <= set(firth.evaluate(out, data=train))


def stop(event: Mapping[str, Any]) -> None:
    if event["event"] == "train":
        signal.raise_signal(signal.SIGTERM)


def test_it_goes_on(bases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command after an interruption; then it is finished and in the way."""
    train, out = write_pairs(tmp_path / "train.tsv", 40), tmp_path / "run"
    given: dict[str, Any] = {
        "base": bases["t5-tiny"],
        "train": train,
        "out": out,
        "settings": {**SMALL["settings"], "steps": 3},
    }

    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    with pytest.raises(Interrupted):
        firth.finetune("write", progress=stop, **given)
    assert Run.open(out).record.status == "started"
    with pytest.raises(FirthError, match="go on with --resume"):  # with other settings it is another run
        firth.finetune("write", learning_rate=0.1, **given)
    before = train.read_bytes()
    train.write_bytes(before + b"one more\tpair\n")
    with pytest.raises(FirthError, match="go on with --resume"):  # and so it is with other examples
        firth.finetune("write", **given)
    train.write_bytes(before)
    firth.finetune("write", **given)
    assert Run.open(out).record.status == "finished"
    firth.finetune("write", **(given | {"out": tmp_path / "whole"}))
    assert Run.open(out).record.checksums == Run.open(tmp_path / "whole").record.checksums
    with pytest.raises(FirthError, match="exists already"):
        firth.finetune("write", **given)
    firth.finetune("write", overwrite=True, **given)


def test_bad_input(bases: dict[str, Path], run_folder: Path, tmp_path: Path) -> None:
    train = write_pairs(tmp_path / "train.tsv", 10)
    cases: dict[str, dict[str, Any]] = {
        "cannot write": {"base": run_folder, "train": train},
        "no pairs of texts": {"base": bases["t5-tiny"], "train": tmp_path / "empty.jsonl"},
        "2 fields|1 field|needs two": {"base": bases["t5-tiny"], "train": tmp_path / "one.tsv"},
        "unknown": {"base": bases["t5-tiny"], "train": train, "settings": {"colour": "red"}},
        "leave out --seeds": {"base": bases["t5-tiny"], "train": train, "seeds": 2},
        "no column 'abstract'": {"base": bases["t5-tiny"], "train": train, "text": "abstract", "label": "target"},
    }
    (tmp_path / "empty.jsonl").write_text(json.dumps({"source": " ", "target": "x"}) + "\n", encoding="utf-8")
    (tmp_path / "one.tsv").write_text("only one\n", encoding="utf-8")
    for message, given in cases.items():
        with pytest.raises(FirthError, match=message):
            firth.finetune("write", out=tmp_path / "no", **given)
        assert not (tmp_path / "no").exists()


def test_other_columns_and_packed_files(bases: dict[str, Path], tmp_path: Path) -> None:
    lines = [json.dumps({"abstract": f"{source} 研究", "title": target}) for source, target in sentence_pairs(12)]
    with gzip.open(tmp_path / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    looked = check_files("write", tmp_path / "train.jsonl.gz", None, Reading("abstract", None, "title"), {}).lines
    assert looked[0] == "examples   train 12"
    model = firth.finetune(
        "write",
        base=bases["t5-tiny"],
        train=tmp_path / "train.jsonl.gz",
        out=tmp_path / "run",
        text="abstract",
        label="title",
        **SMALL,
    )
    assert isinstance(model, WritingModel)
    assert model.fill("The <extra_id_0> river.", 1)[0][0].token


def test_stopped_before_it_began(bases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays, so that the same command can be said again."""

    def stopped(*words: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("firth.tasks.write.run.prepare_pairs", stopped)
    with pytest.raises(KeyboardInterrupt):
        firth.finetune(
            "write", base=bases["t5-tiny"], train=write_pairs(tmp_path / "a.tsv", 9), out=tmp_path / "run", **SMALL
        )
    assert not (tmp_path / "run").exists()


def test_labels_and_pairs_that_it_does_not_know(bases: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "a dog\tNo\na boat\tYes\n" * 4, encoding="utf-8")
    (tmp_path / "other.tsv").write_text("text\tlabel\na dog\tMaybe\n", encoding="utf-8")
    (tmp_path / "two.tsv").write_text("text\tsecond\tlabel\na dog\ta cat\tNo\n", encoding="utf-8")
    out = tmp_path / "run"
    firth.finetune("write", base=bases["t5-tiny"], train=tmp_path / "train.tsv", out=out, form="classify", **SMALL)
    with pytest.raises(FirthError, match=r"other\.tsv:2: the label 'Maybe' is unknown"):
        firth.evaluate(out, data=tmp_path / "other.tsv")
    with pytest.raises(FirthError, match=r"two\.tsv:2: two texts where this model reads one"):
        firth.evaluate(out, data=tmp_path / "two.tsv")
    with pytest.raises(FirthError, match=r"two\.tsv:2: two texts where this model reads one"):
        list(firth.predict(out, file=str(tmp_path / "two.tsv")))


def test_what_is_read_of_a_source(bases: dict[str, Path], tmp_path: Path) -> None:
    """Not more than was said, by both kinds."""
    train = write_pairs(tmp_path / "train.tsv", 20)
    for name, base in bases.items():
        model = firth.finetune(
            "write",
            base=base,
            train=train,
            out=tmp_path / name,
            epochs=1,
            max_source_len=4,
            max_target_len=12,
            beams=1,
        )
        assert isinstance(model, WritingModel)
        assert model.write("dog dog dog dog dog dog house river bird") == model.write("dog dog dog dog dog dog tree")


def test_writing_is_not_for_ctranslate2(bases: dict[str, Path], tmp_path: Path) -> None:
    train = write_pairs(tmp_path / "train.tsv", 9)
    firth.finetune("write", base=bases["t5-tiny"], train=train, out=tmp_path / "run", prefix="turn:", **SMALL)
    with pytest.raises(FirthError, match="a run of firth finetune write"):
        firth.export(tmp_path / "run", tmp_path / "out", to="ctranslate2")
