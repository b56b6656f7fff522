"""Minimal pairs that cannot be scored, on the command line."""

from pathlib import Path

import pytest
from refusals import refused

import firth

Capture = pytest.CaptureFixture[str]

FILES: dict[str, tuple[str, str, list[str]]] = {
    "missing key": (
        "p.jsonl",
        '{"good": "A", "bad": "B"}\n{"good": "C"}\n',
        ["p.jsonl:2", "no bad sentence", "has two sentences"],
    ),
    "no such key": ("p.jsonl", '{"right": "A", "bad": "B"}\n', ["p.jsonl:1", "no 'good' among right, bad", "call the"]),
    "empty file": ("p.tsv", "", ["p.tsv: the file is empty"]),
    "blank lines": ("p.tsv", "\n\n", ["p.tsv: no pairs in it"]),
    "no partner": ("p.tsv", "A\tB\nC\n", ["p.tsv:2", "no bad sentence"]),
    "not text": ("p.tsv", "A\tB\0\n", ["p.tsv:1", "NUL bytes"]),
}


@pytest.mark.parametrize(("name", "content", "said"), FILES.values(), ids=FILES)
def test_bad_pairs(name: str, content: str, said: list[str], run_folder: Path, work: Path, capsys: Capture) -> None:
    (work / name).write_text(content, encoding="utf-8")
    refused(["evaluate", run_folder, "--minimal-pairs", name], capsys, *said)


def test_models_that_cannot(run_folder: Path, words_folder: Path, work: Path, capsys: Capture) -> None:
    (work / "p.tsv").write_text("A\tB\n", encoding="utf-8")
    firth.pretrain("word2vec", corpus=words_folder, out="vectors")
    refused(["evaluate", "vectors", "--minimal-pairs", "p.tsv"], capsys, "cannot score texts", "use a language model")
    refused(["evaluate", run_folder, "--minimal-pairs", "none.tsv"], capsys, "none.tsv: no such file")
    words = ["evaluate", run_folder, "--minimal-pairs", "p.tsv", "--scoring", "both"]
    refused(words, capsys, "does not score texts by 'both'", "choose masked or masked-word")
    refused(["evaluate", run_folder, "--num", "3"], capsys, "for minimal pairs", "--minimal-pairs FILE")
