"""The public names: what there is, what it says about itself, and that values reach the settings as they are."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.evaluation.compare.ranking import ComparisonTable
from firth.vectors.configs import Word2VecConfig
from pair_text import sentence_pairs
from task_text import texts

NAMES = (
    "Classifier FirthError Model Tagger compare duplicates encode evaluate explain export finetune generate index load new_words occurrences plan "
    "predict prepare prepare_images prepare_pairs pretrain probe recipes register search suggest tokens topics"
).split()


def test_the_names() -> None:
    assert firth.__all__ == NAMES
    assert dir(firth) == NAMES
    for name in NAMES:
        assert getattr(firth, name).__name__ == name
        assert (inspect.getdoc(getattr(firth, name)) or "").strip()
    with pytest.raises(AttributeError, match="no attribute 'convert'"):
        firth.convert  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("FirthError", "Model", "register")])
def test_every_function_has_an_example_and_says_its_arguments(name: str) -> None:
    what = getattr(firth, name)
    doc = inspect.getdoc(what) or ""
    assert f"firth.{name}(" in doc
    if inspect.isfunction(what):
        missing = [one for one in inspect.signature(what).parameters if one not in doc]
        assert not missing


@pytest.mark.slow
def test_star_imports_and_light_imports() -> None:
    program = (
        "import sys, firth; dir(firth); assert not {'torch', 'numpy'} & set(sys.modules); from firth import *; load"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    program = "import firth, firth.exporters.onnx; assert callable(firth.export)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_pretrain_takes_values(corpus_folder: Path, words_folder: Path, tmp_path: Path) -> None:
    model = firth.pretrain(
        "bert-tiny",
        corpus=corpus_folder,
        out=tmp_path / "run",
        steps=1,
        num_layers=1,
        learning_rate=1e-3,
        settings={"model.hidden_dim": 16, "model": {"num_heads": 2, "ffn_dim": 16}, "objective.seq_len": 16},
    )
    config = Run.open(tmp_path / "run").record.config
    assert model.dim == 16
    assert (config["model"]["num_layers"], config["training"]["learning_rate"]) == (1, 1e-3)
    assert config["objective"]["seq_len"] == 16
    settings = {"dim": 4, "min_count": 1, "learning_rate": None, "max_vocab": None}
    vectors = firth.pretrain(Word2VecConfig(epochs=1), corpus=words_folder, out=tmp_path / "vectors", **settings)
    assert vectors.dim == 4
    for wrong, said in (({"num_layers": "two"}, "cannot be 'two'"), ({"colour": 1}, "unknown setting 'colour'")):
        with pytest.raises(FirthError, match=said):
            firth.pretrain("bert-tiny", corpus=corpus_folder, out=tmp_path / "no", **wrong)
    with pytest.raises(FirthError, match="give a dictionary"):
        firth.pretrain("bert-tiny", corpus=corpus_folder, out=tmp_path / "no", settings=["num_layers=2"])  # type: ignore[arg-type]
    with pytest.raises(FirthError, match="keeps all its settings"):
        firth.pretrain(resume=tmp_path / "run", num_layers=2)
    assert not (tmp_path / "no").exists()


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    rows = [f"{one.text}\t{one.label}\n" for one in texts(16)]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return tmp_path / "train.tsv"


def test_finetune_takes_values(labelled: Path, tmp_path: Path) -> None:
    given = {"train": labelled, "epochs": 1, "body_dim": 4}
    model = firth.finetune("classify", out=tmp_path / "run", labels=("zh", "en", "fr"), scheme=None, **given)
    assert set(model.predict(["a text"])[0]["probabilities"]) == {"zh", "en", "fr"}
    assert Run.open(tmp_path / "run").record.config["labels"] == ["zh", "en", "fr"]
    with pytest.raises(FirthError, match="the label 'zh', which labels does not name"):
        firth.finetune("classify", out=tmp_path / "no", labels=("en", "fr"), **given)
    with pytest.raises(FirthError, match="did you mean 'body_dim'"):
        firth.finetune("classify", train=labelled, out=tmp_path / "no", body_dimm=3)
    with pytest.raises(FirthError, match="unknown task 'clasify': did you mean 'classify'"):
        firth.finetune("clasify", train=labelled, out=tmp_path / "no")


def test_a_prefix_stays_a_text(corpus_folder: Path, tmp_path: Path) -> None:
    shape = {"num_layers": 1, "num_decoder_layers": 1, "hidden_dim": 16, "num_heads": 2, "ffn_dim": 16, "seq_len": 32}
    firth.pretrain("t5-tiny", corpus=corpus_folder, out=tmp_path / "t5", steps=1, batch_size=2, **shape)
    rows = [json.dumps({"source": source, "target": target}) for source, target in sentence_pairs(6)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    firth.finetune(
        "write", base=tmp_path / "t5", train=tmp_path / "pairs.jsonl", out=tmp_path / "run", prefix="1e3", steps=1
    )
    assert json.loads((tmp_path / "run" / "write.json").read_text())["prefix"] == "1e3"


def test_predict(labelled: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    model = firth.finetune("classify", train=labelled, out=run, epochs=1, body_dim=4)
    some = ["a text", "书"]
    found = firth.predict(run, some)
    assert [one["label"] for one in found] == [one["label"] for one in firth.predict(model, some)]
    (tmp_path / "texts.txt").write_text("a text\n书\n", encoding="utf-8")
    read = list(firth.predict(run, file=tmp_path / "texts.txt"))
    assert [(one["text"], one["label"]) for one in read] == list(
        zip(some, [one["label"] for one in found], strict=True)
    )
    with pytest.raises(FirthError, match="either texts or a file"):
        firth.predict(run)  # type: ignore[call-overload]
    with pytest.raises(FirthError, match="name the run by its path"):
        firth.predict(model, file="texts.txt")
    with pytest.raises(FirthError, match="name these with --examples"):
        firth.predict(run, some, template="{text}")


def test_evaluate_picks_by_what_it_is_given(
    run_folder: Path, labelled: Path, words_folder: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    assert "loss" in firth.evaluate(run_folder, num_texts=2)
    assert firth.evaluate(run_folder, corpus_folder, num_texts=2) == firth.evaluate(run_folder, num_texts=2)
    firth.finetune("classify", train=labelled, out=tmp_path / "run", epochs=1, body_dim=4)
    assert firth.evaluate(tmp_path / "run", data=labelled)["examples"] == 16
    firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "vectors", dim=4, min_count=1, epochs=1)
    (tmp_path / "similar.txt").write_text("the a 3\nthe old 2\na old 1\n")
    found = firth.evaluate(tmp_path / "vectors", similarity=tmp_path / "similar.txt")
    assert found["similarity"][0]["pairs"] == 3
    with pytest.raises(FirthError, match="--data and --similarity or --analogies measure different things"):
        firth.evaluate(tmp_path / "run", data=labelled, similarity="similar.txt")
    with pytest.raises(FirthError, match="name both files"):
        firth.evaluate(tmp_path / "run", source="a.txt")
    with pytest.raises(FirthError, match="are for static vectors"):
        firth.evaluate(run_folder, analogies="a.txt")
    with pytest.raises(FirthError, match="are for translators"):
        firth.evaluate(run_folder, source="a.txt", reference="b.txt")


def test_encode(run_folder: Path, tmp_path: Path) -> None:
    model = firth.load(run_folder)
    some = [one.text for one in texts(5)]
    np.testing.assert_array_equal(firth.encode(run_folder, some, layer=1, pool="max"), model.encode(some, 1, "max"))
    assert firth.encode(model, "one text").shape == (1, model.dim)
    layers = firth.encode(model, some, all_layers=True)
    np.testing.assert_array_equal(layers[:, -1], model.encode(some))
    written = firth.encode(model, some, all_layers=True, out=tmp_path / "v.npy")
    assert isinstance(written, np.memmap)
    np.testing.assert_array_equal(written, np.load(tmp_path / "v.npy"))
    np.testing.assert_array_equal(written, layers)
    with pytest.raises(FirthError, match=r"ends in \.npy"):
        firth.encode(model, some, out=tmp_path / "v.txt")


def test_generate(gpt_folder: Path, tmp_path: Path) -> None:
    model = firth.load(gpt_folder)
    found = firth.generate(gpt_folder, "The old", temperature=0, max_tokens=3)
    assert found == [model.generate("The old", temperature=0, max_tokens=3)]
    firth.generate(model, ["The", "A"], beams=2, max_tokens=3, trace=tmp_path / "trees.json")
    assert [tree["text"] for tree in json.loads((tmp_path / "trees.json").read_text())] == ["The", "A"]
    with pytest.raises(FirthError, match="for example beams=4"):
        firth.generate(model, "The", trace=tmp_path / "tree.json")


def test_recipes() -> None:
    found = firth.recipes()
    assert found["bert-tiny"] == "2 layers of 128: minutes on a laptop."
    assert found["lstm-lm-awd"].startswith("AWD-LSTM as published for WikiText-2 (Merity et al. 2018)")
    assert all(line and "\n" not in line for line in found.values())


def test_reprs(corpus_folder: Path, pairs_folder: Path) -> None:
    from firth.corpus.pairs import corpus_info

    assert repr(corpus_info(corpus_folder)).startswith("<corpus: ")
    assert str(corpus_info(pairs_folder)) == repr(corpus_info(pairs_folder))
    assert "sentence pairs" in repr(corpus_info(pairs_folder))
    row = {
        "name": "bert", "kind": "trained", "scores": [0.5], "low": 0.4, "high": 0.6, "parameters": 0,
        "pretrain_s": 0, "finetune_s": 0, "ms_per_text": 0, "num_bytes": 0, "layer_weights": [], "by_share": {}, "folder": "",
    }  # fmt: skip
    table = ComparisonTable(rows=[row], metric="accuracy")
    assert "bert" in repr(table)
    assert json.loads(json.dumps(table))["metric"] == "accuracy"
