"""What cannot be compared is told in a sentence before anything is made."""

import sys
from pathlib import Path

import pytest
from refusals import refused

from firth.evaluation.compare.compare import Comparison
from firth.evaluation.compare.tasks import CompareConfig
from firth.tasks.config import task_config
from sample_text import write_documents
from task_text import files

Told = pytest.CaptureFixture[str]


@pytest.fixture
def given(work: Path) -> list[object]:
    write_documents(work / "news.txt", 20)
    files(work, "classify", 8, 4)
    return ["compare", "classify", "--corpus", "news.txt", "--train", "train.tsv", "--dev", "dev.tsv", "--out", "out"]


def test_what_is_missing(given: list[object], capsys: Told) -> None:
    refused(["compare", "classify"], capsys, "name them with --train")
    refused([*given[:2], *given[4:]], capsys, "name raw text with --corpus, or models that exist with --recipes")
    refused([*given, "--test", "no.tsv"], capsys, "no.tsv")
    refused([*given, "--corpus", "no.txt"], capsys, "no.txt: no such file")
    refused(["compare", "clasify", *given[2:]], capsys, "did you mean 'classify'?")


def test_settings(given: list[object], capsys: Told) -> None:
    refused([*given, "--budget", "soon"], capsys, "'soon' is not a duration")
    refused([*given, "--shares", "0.1,2"], capsys, "2 is not above 0 and at most 1")
    refused([*given, "--shares", "few"], capsys, "--shares 'few': write numbers")
    refused([*given, "max_length=9"], capsys, "did you mean 'max_len'?")


def test_recipes(given: list[object], capsys: Told) -> None:
    refused([*given, "--recipes", "bert-mnii"], capsys, "did you mean 'bert-mini'?")
    refused([*given, "--recipes", "bert-mini num_layer=3"], capsys, "did you mean 'num_layers'?")
    refused([*given, "--recipes", "transformer-tiny"], capsys, "a recipe for pairs of sentences")
    refused([*given, "--recipes", "bert-continue"], capsys, "name that model's folder")
    refused([*given, "--recipes", "runs/none"], capsys, "runs/none: no such model")
    refused([*given, "--recipes", ","], capsys, "nothing to compare")


def test_a_package_that_is_missing_is_asked_for_first(
    given: list[object], work: Path, capsys: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any other model is trained; where the user named no recipes, what needs it is left out."""
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused([*given, "--recipes", "word2vec,elmo-tiny"], capsys, "h5py", "firth[elmo]")
    told: list[str] = []
    wish = CompareConfig(task_config("classify"), ("news.txt",), work / "train.tsv", work / "dev.tsv", None, "1m")
    bases = Comparison(wish, work / "out", note=told.append).bases
    assert "word2vec" in [base.name for base in bases]
    assert "elmo-tiny" not in [base.name for base in bases]
    assert any(line.startswith("left out: elmo-tiny") for line in told)


def test_tokens_that_do_not_fit(given: list[object], corpus_folder: Path, words_folder: Path, capsys: Told) -> None:
    given[3] = corpus_folder
    refused(
        [*given, "--recipes", "word2vec"], capsys, "word2vec learns from words, but", "holds wordpiece", "--corpus too"
    )
    given[3] = words_folder
    refused([*given, "--recipes", "word2vec,bert-tiny"], capsys, "bert-tiny learns from wordpiece", "holds words")


def test_a_folder_that_is_no_comparison(given: list[object], work: Path, capsys: Told) -> None:
    (work / "out").mkdir()
    (work / "out" / "cells.json").write_text("[1]")
    refused([*given, "--recipes", "scratch"], capsys, "cells.json: not a list of cells")
