"""Mistakes around prepare: what is named, what is already there, what comes through a pipe."""

import io
import json
import sys
from pathlib import Path

import pytest
from refusals import refused
from test_bad_files import TEXT, jsonl


def test_the_bad_file_of_many(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(4):
        (work / f"{number}.txt").write_text(TEXT)
    (work / "2.txt").write_bytes(b"good.\nb\xffd\n")
    refused(["prepare", "0.txt", "1.txt", "2.txt", "3.txt", "--out", "corpus"], capsys, "2.txt:2: not utf-8")


def test_a_mistake_beyond_the_sample_for_the_vocabulary(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a tokenizer given nothing is read twice: the workers' pass finds the broken line."""
    (work / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    (work / "a.jsonl").write_text(jsonl(29, "{"))
    refused(["prepare", "a.jsonl", "--tokenizer", "vocab.txt", "--out", "corpus"], capsys, "a.jsonl:29: not valid JSON")


def test_no_such_file(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["prepare", "none.txt", "--out", "corpus"], capsys, "none.txt: no such file or folder", "check the path")
    refused(["prepare", "*.txt", "--out", "corpus"], capsys, "*.txt: no such file or folder", "check the path")


def test_folder_without_text(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "photos").mkdir()
    (work / "photos" / "cat.jpg").write_bytes(b"\xff\xd8")
    refused(
        ["prepare", "photos", "--out", "corpus"],
        capsys,
        "photos: no text in this folder",
        "name the files or their --format",
    )


def test_a_broken_tokenizer_json(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "a.txt").write_text(TEXT)
    for content in ("{", "{}", '{"model": 5}', ""):
        (work / "tokenizer.json").write_text(content)
        refused(
            ["prepare", "a.txt", "--tokenizer", "tokenizer.json", "--out", "corpus"],
            capsys,
            "tokenizer.json: not a tokenizer that can be read",
            "check the file",
        )


def test_corpus_that_exists(work: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "a.txt").write_text(TEXT)
    (work / "corpus").mkdir()
    (work / "corpus" / "mine").write_text("precious")
    refused(["prepare", "a.txt", "--out", "corpus"], capsys, "corpus: exists already", "--overwrite")


def test_overwrite_with_a_mistake_keeps_the_old(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "a.jsonl").write_text(jsonl(17, "{"))
    (work / "corpus").mkdir()
    (work / "corpus" / "corpus.json").write_text("{}")
    refused(["prepare", "a.jsonl", "--out", "corpus", "--overwrite"], capsys, "a.jsonl:17")


def test_a_line_of_50_megabytes(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(work / "a.txt", "w") as handle:
        handle.write("A short line.\nAnother.\n")
        for _ in range(50):
            handle.write("word " * 200_000)
    refused(
        ["prepare", "a.txt", "--layout", "line", "--out", "corpus"],
        capsys,
        "a.txt:3: a line of more than",
        "split it into lines",
    )


def test_a_long_line_in_a_table(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firth.data.sources.MAX_LINE_CHARS", 1_000_000)
    (work / "a.jsonl").write_text(jsonl(4, json.dumps({"text": "word " * 500_000})))
    refused(
        ["prepare", "a.jsonl", "--out", "corpus"], capsys, "a.jsonl:4: a line of more than 1 MB", "split it into lines"
    )


def test_empty_standard_input(work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    refused(["prepare", "-", "--out", "corpus"], capsys, "standard input is empty", "name a file")


def test_bad_standard_input(work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"good.\nb\xffd\n")))
    refused(["prepare", "-", "--out", "corpus"], capsys, "-:2: not utf-8")


@pytest.mark.parametrize("words", [["corpus"], ["a/b/corpus"]])
def test_nothing_is_left_of_folders_above(words: list[str], work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "a.jsonl").write_text(jsonl(17, "{"))
    refused(["prepare", "a.jsonl", "--out", *words], capsys, "a.jsonl:17")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ["Missing argument", "firth --help"]),
        (["a.txt"], ["Missing option '--out'", "firth --help"]),
        (["a.txt", "--out", "corpus", "--vocab-siz", "500"], ["No such option", "--vocab-siz", "firth --help"]),
        (["a.txt", "--out", "corpus", "--vocab-size", "many"], ["--vocab-size", "valid integer", "firth --help"]),
    ],
    ids=["nothing", "no out", "unknown option", "no number"],
)
def test_usage(words: list[str], said: list[str], work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "a.txt").write_text(TEXT)
    refused(["prepare", *words], capsys, *said)


def test_unknown_command(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["prepair"], capsys, "No such command 'prepair'", "firth --help")
