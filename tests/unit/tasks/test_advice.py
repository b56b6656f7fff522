"""What is advised is something that the command has."""

from pathlib import Path

import pytest

import firth
from firth.core.errors import FirthError, counted, with_article
from firth.corpus.format import Corpus
from firth.data.labelled import Columns
from firth.data.sentences import read_sentence_data
from firth.models.pretrain import next_commands
from task_text import files


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    firth.finetune("classify", base="counts", **files(folder, "classify"), out=folder / "run")  # type: ignore[arg-type]
    return folder / "run"


def test_of_evaluate(run: Path, tmp_path: Path) -> None:
    lines = (run.parent / "train.tsv").read_text(encoding="utf-8").splitlines()
    cells = [line.split("\t") for line in lines]
    place = [len(set(column)) for column in zip(*cells, strict=True)].index(
        min(len(set(c)) for c in zip(*cells, strict=True))
    )
    cells[-1][place] = ""
    (tmp_path / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in cells), encoding="utf-8")
    with pytest.raises(FirthError, match="no label") as refused:
        firth.evaluate(run, data=tmp_path / "a.tsv")
    assert "--" not in str(refused.value)


def test_of_export(run: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="a task, not static vectors; its word counts need no export"):
        firth.export(run, tmp_path / "x.txt")


def test_of_a_missing_column(run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("words,other\na,b\n", encoding="utf-8")
    with pytest.raises(
        FirthError, match=r"no column 'comment': .*; name the right one with --text, or its number from 1$"
    ):
        list(firth.predict(run, file=tmp_path / "a.csv", text="comment"))
    (tmp_path / "b.csv").write_text("text,label\na,b\n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"no column 'comment': .*; name the right one with --text$"):
        list(firth.predict(run, file=tmp_path / "b.csv", text="comment"))
    with pytest.raises(FirthError, match=r"no column 'text': .*; name it with --text, for pairs also with --second$"):
        read_sentence_data(tmp_path / "a.csv", Columns())


@pytest.mark.parametrize("names", ["title,abstract", "标题,正文"])
def test_usual_pairs_of_sentence_vectors(names: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{names}\nOne.,The first of all.\n", encoding="utf-8")
    found = read_sentence_data(tmp_path / "a.csv", Columns())
    assert (found.form, found.examples[0].second) == ("pairs", "The first of all.")
    alone = read_sentence_data(tmp_path / "a.csv", Columns(text=names.split(",")[1]))
    assert (alone.form, alone.examples[0].text) == ("text", "The first of all.")


@pytest.mark.parametrize(
    ("text", "word"), [("一个句子。", "句子里有一个[MASK]。"), ("A sentence.", "A sentence with a [MASK]")]
)
def test_of_the_next_command(text: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = object.__new__(Corpus)
    monkeypatch.setattr(Corpus, "texts", lambda self: iter([text] * 3))
    (found,) = next_commands(['fill {name} "A sentence with a [MASK] in it."'], corpus)
    assert word in found


def test_numbers_and_articles() -> None:
    assert (counted(1, "field"), counted(0, "field"), counted(1234, "field")) == ("1 field", "0 fields", "1,234 fields")
    kinds = ["task", "encoder", "unified encoder", "exported task"]
    assert [with_article(kind) for kind in kinds] == ["a task", "an encoder", "a unified encoder", "an exported task"]
