"""Static vectors on the same road as every model: prepare, pretrain, load, ask, evaluate, convert, resume."""

import json
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.cli.main import main
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.registry import recipes
from firth.models.shared.static import StaticModel
from model_abilities import check_abilities

SMALL = ["dim=16", "min_count=2", "epochs=2", "threads=1"]


@pytest.fixture(scope="module")
def words(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words") / "corpus"
    firth.prepare(text_file, folder, tokens="words", layout="line", heldout=0.05, workers=1)
    return folder


def settings(recipe: str) -> list[str]:
    return [*SMALL, *(["bucket=500"] if recipe == "fasttext" else [])]


@pytest.mark.parametrize("recipe", sorted(name for name, spec in recipes().items() if spec.vectors))
def test_train_load_same_output(recipe: str, words: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    model = firth.pretrain(recipe, corpus=words, out=out, settings=parse_settings(settings(recipe)))
    assert isinstance(model, StaticModel)
    again = firth.load(out)
    np.testing.assert_array_equal(
        model.encode("The old doctor found a map."), again.encode("The old doctor found a map.")
    )
    layers = again.layers("The doctor, 老师。")
    assert layers.hidden.shape == (1, len(layers.tokens), 16)
    assert [("The doctor, 老师。")[start:end] for start, end in layers.offsets] == layers.tokens
    as_words = again.layers(["the", "doctor"])
    np.testing.assert_array_equal(as_words.hidden[0, 1], model.vectors["doctor"])
    assert as_words.offsets.tolist() == [[0, 3], [4, 10]]
    np.testing.assert_allclose(again.encode(["the doctor"])[0], as_words.hidden[0].mean(0), rtol=1e-6)
    assert len(again.nearest("doctor", 3)) == 3
    check_abilities(again)
    assert "<svg" in (out / "report.html").read_text(encoding="utf-8")
    assert firth.pretrain(resume=out).num_parameters == model.num_parameters


def test_a_table_serves_upper_case_and_leaves_unknown_words_out(words: Path, tmp_path: Path) -> None:
    model = firth.pretrain("word2vec", corpus=words, out=tmp_path / "run", settings=parse_settings(SMALL))
    np.testing.assert_array_equal(model.encode("DOCTOR"), model.encode("doctor"))
    np.testing.assert_array_equal(model.encode("doctor zzzz"), model.encode("doctor"))
    assert not model.encode("zzzz").any()
    assert not model.layers("zzzz").hidden.any()
    for call in (lambda: model.fill("a [MASK]"), lambda: model.follows("a", "b"), lambda: model.score("a")):
        with pytest.raises(FirthError, match="cannot"):
            call()
    with pytest.raises(FirthError, match="unknown pool 'cls' for this model: choose mean or max"):
        model.encode("a", pool="cls")
    with pytest.raises(FirthError, match="static vectors"):
        model.encode("a", layer=1)


def test_commands(words: Path, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pretrain", "fasttext", "--corpus", str(words), "--out", "run", *settings("fasttext"), "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["status"] == "finished"
    assert facts["recipe"] == "fasttext"
    main(["nearest", "run", "doctor", "doctr", "--top", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [len(rows) for rows in found.values()] == [2, 2]  # n-grams give an unknown word a vector
    main(["analogy", "run", "old", "doctor", "young", "--method", "mul"])
    assert capsys.readouterr().out.startswith("old : doctor = young : ?\n  ")
    main(["similarity", "run", "doctor", "doctor"])
    assert capsys.readouterr().out == "1.0000\n"
    Path("pairs.tsv").write_text("doctor\tteacher\t8\nboat\tmap\t3\nboat\tdoctor\t1\n", encoding="utf-8")
    Path("four.txt").write_text(": people\nold doctor young teacher\n", encoding="utf-8")
    main(["evaluate", "run", "--similarity", "pairs.tsv", "--analogies", "four.txt", "--json"])
    scores = json.loads(capsys.readouterr().out)
    assert scores["similarity"][0]["known"] == 3
    assert scores["analogies"][0]["sections"][-1]["known"] == 1
    main(["evaluate", "run", "--similarity", "pairs.tsv", "--analogies", "four.txt"])
    assert "Spearman" in capsys.readouterr().out
    main(["export", "run", "vectors.txt"])
    main(["info", "run"])
    assert "of 16 dimensions" in capsys.readouterr().out
    np.testing.assert_allclose(
        firth.load("vectors.txt").encode("doctor"), firth.load("run/vectors.bin").encode("doctor"), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("arguments", "words_of_message"),
    [
        (
            ["pretrain", "word2vec", "--corpus", "{words}", "--out", "run", "--budget", "soon"],
            ["'soon' is not a duration"],
        ),
        (["pretrain", "word2vec", "--corpus", "{words}", "--out", "run", "windw=3"], ["did you mean 'window'"]),
        (["pretrain", "wordvec", "--corpus", "{words}", "--out", "run"], ["did you mean 'word2vec'"]),
        (["pretrain", "word2vec", "--corpus", "{words}", "--out", "run", "min_count=100000"], ["min_count"]),
        (["nearest", "{run}", "word"], ["cannot look up single words"]),
        (["evaluate", "{run}", "--similarity", "x"], ["static vectors"]),
        (["export", "{run}", "out.txt"], ["not static vectors", "--to onnx"]),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    arguments: list[str],
    words_of_message: list[str],
    words: Path,
    corpus_folder: Path,
    run_folder: Path,
    work: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"corpus": corpus_folder, "words": words, "run": run_folder}
    with pytest.raises(SystemExit) as stopped:
        main([word.format(**places) for word in arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("firth: ")
    assert len(error.splitlines()) == 1
    assert all(part in error for part in words_of_message)
    assert not list(work.iterdir())


def test_words_are_parted_as_they_were_learned(tmp_path: Path) -> None:
    """Also where white space alone parts them, as in text that was segmented before."""
    (tmp_path / "text.txt").write_text("an e-mail came .\n我们 爱北京 天安门 。\n" * 20, encoding="utf-8")
    firth.prepare(
        tmp_path / "text.txt", tmp_path / "corpus", tokens="words", word_split="whitespace", layout="line", heldout=0.0
    )
    model = firth.pretrain("word2vec", corpus=tmp_path / "corpus", out=tmp_path / "run", settings=parse_settings(SMALL))
    assert isinstance(model, StaticModel)
    for text, word in (("e-mail", "e-mail"), (" 爱北京 ", "爱北京")):
        assert model.layers(text).tokens == [word]
        np.testing.assert_allclose(model.encode(text)[0], model.vectors[word])
        assert model.reader().tokenize(text).tokens == [word]


def test_stopped_before_the_report(words: Path, tmp_path: Path) -> None:
    """The vectors are there; going on writes what is missing."""
    out = tmp_path / "run"
    firth.pretrain("word2vec", corpus=words, out=out, settings=parse_settings(SMALL))
    facts = json.loads((out / "firth.json").read_text())
    sums = facts["checksums"]
    (out / "firth.json").write_text(json.dumps(facts | {"checksums": {}}))
    (out / "report.html").unlink()
    firth.pretrain(resume=out)
    assert (out / "report.html").is_file()
    assert json.loads((out / "firth.json").read_text())["checksums"] == sums
