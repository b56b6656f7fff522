"""Files that cannot be read, and settings of prepare that cannot be."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from refusals import refused, sentence, snapshot

from sample_text import english

TEXT = "".join(f"{english(number)}\n" for number in range(60))
JSONL = [json.dumps({"text": english(number), "titel": "x"}) for number in range(30)]
TABLE = "id,text,body\n" + "".join(f'{number},"{english(number)}",b\n' for number in range(20))


def jsonl(line: int, content: str) -> str:
    """Thirty lines, one of them replaced (counted from 1)."""
    return "".join(f"{content if number == line else whole}\n" for number, whole in enumerate(JSONL, 1))


def parquet(**columns: list[object]) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


NOISE = bytes(range(1, 256)) * 400
FILES: dict[str, tuple[str, str | bytes, list[str], list[str]]] = {
    # what is wrong: (file, content, further options, what must be said)
    "empty file": ("a.txt", "", [], ["a.txt: the file is empty", "remove it from the list"]),
    "white space only": ("a.txt", " \n\t\n \n", [], ["a.txt", "only white space", "check the file"]),
    "invalid utf-8": (
        "a.txt",
        TEXT.encode()[:500] + b"\xff\xfe\xfa\n",
        [],
        ["a.txt:", "not utf-8 (byte 0xff)", "--encoding"],
    ),
    "invalid utf-8 on line 3": (
        "a.txt",
        b"one.\ntwo.\nthr\xe9e.\nfour.\n",
        [],
        ["a.txt:3: not utf-8 (byte 0xe9)", "gb18030 or latin-1"],
    ),
    "cut inside a character": ("a.txt", "一本书。".encode()[:-1], [], ["a.txt:1: not utf-8", "--encoding"]),
    "nul bytes": ("a.txt", "one.\ntwo \0 three.\n", [], ["a.txt:2: contains NUL bytes", "convert it to UTF-8"]),
    "utf-16 cut": ("a.txt", TEXT.encode("utf-16")[:-1], [], ["not utf-16", "--encoding"]),
    "utf-16 without mark": ("a.txt", TEXT.encode("utf-16-le"), [], ["a.txt:1: contains NUL bytes", "--encoding"]),
    "wrong named encoding": (
        "a.txt",
        "café é".encode("latin-1"),
        ["--encoding", "gb18030"],
        ["a.txt:1: not gb18030", "--encoding"],
    ),
    "unknown encoding": ("a.txt", TEXT, ["--encoding", "utf-99"], ["unknown encoding 'utf-99'", "such as utf-8"]),
    "unknown format": (
        "a.txt",
        TEXT,
        ["--format", "odt"],
        ["unknown format 'odt'", "choose one of txt, jsonl, csv, tsv, json, parquet, arrow, docx, pdf, tar"],
    ),
    "unknown layout": ("a.txt", TEXT, ["--layout", "lines"], ["unknown layout 'lines'", "choose file, blank or line"]),
    "noise": ("a.txt", NOISE, [], ["a.txt:", "not utf-8", "convert it"]),
    "cut-off gz": (
        "a.txt.gz",
        gzip.compress(TEXT.encode() * 50)[:-40],
        [],
        ["a.txt.gz: the .gz archive is damaged or truncated", "copy it again"],
    ),
    "gz that is none": ("a.txt.gz", TEXT, [], ["a.txt.gz: the .gz archive is damaged", "copy it again"]),
    "cut-off zst": (
        "a.txt.zst",
        zstandard.compress(TEXT.encode() * 50)[:-40],
        [],
        ["a.txt.zst: the .zst archive is damaged or truncated", "copy it again"],
    ),
    "zst that is none": ("a.txt.zst", TEXT, [], ["a.txt.zst: the .zst archive is damaged", "copy it again"]),
    "gz with damage inside": (
        "a.txt.gz",
        gzip.compress(TEXT.encode())[:200] + b"damage" + gzip.compress(TEXT.encode())[206:],
        [],
        ["a.txt.gz: the .gz archive is damaged", "copy it again"],
    ),
    "jsonl with a broken line 17": (
        "a.jsonl",
        jsonl(17, '{"text": "half'),
        [],
        ["a.jsonl:17: not valid JSON", "fix or remove this line"],
    ),
    "jsonl without the key": (
        "a.jsonl",
        jsonl(5, '{"txt": "x"}'),
        [],
        ["a.jsonl:5: no column 'text': did you mean 'txt'?", "--column"],
    ),
    "jsonl value that is no text": (
        "a.jsonl",
        jsonl(9, '{"text": 5}'),
        [],
        ["a.jsonl:9: 'text' is not a string but int", "choose another --column"],
    ),
    "jsonl line that is a list": (
        "a.jsonl",
        jsonl(2, "[1, 2]"),
        [],
        ["a.jsonl:2: 'text' is not a string but list", "fix this line"],
    ),
    "jsonl with a wrong column named": (
        "a.jsonl",
        jsonl(0, ""),
        ["--column", "title"],
        ["a.jsonl:1: no column 'title': did you mean 'titel'?"],
    ),
    "csv without the column": (
        "a.csv",
        TABLE.replace("text", "txet", 1),
        [],
        ["a.csv:1: no column 'text': did you mean 'txet'?", "--column"],
    ),
    "csv with a field too few": (
        "a.csv",
        TABLE + "21,alone\n",
        [],
        ["a.csv:22: 2 fields where the header has 3", "fix this line"],
    ),
    "csv with broken quotes": (
        "a.csv",
        TABLE + '21,"open" and on,b\n',
        [],
        ["a.csv:22: not valid csv", "fix this line"],
    ),
    "csv with an open quote": (
        "a.csv",
        TABLE + '21,"never closed,b\n',
        [],
        ["a.csv:", "not valid csv", "fix this line"],
    ),
    "tsv without the column": (
        "a.tsv",
        "id\twords\n1\tx\n",
        [],
        ["a.tsv:1: no column 'text': known: id, words", "--column"],
    ),
    "csv of a header only": ("a.csv", "id,text\n", [], ["a.csv", "no document in it", "--column"]),
    "parquet that is none": ("a.parquet", TEXT, [], ["a.parquet: not a complete parquet file", "copy it again"]),
    "cut-off parquet": (
        "a.parquet",
        parquet(text=["x y z"] * 99)[:-50],
        [],
        ["a.parquet: not a complete parquet file", "copy it again"],
    ),
    "parquet without the column": (
        "a.parquet",
        parquet(texts=["x"]),
        [],
        ["a.parquet: no column 'text': did you mean 'texts'?", "--column"],
    ),
    "parquet column that is no text": (
        "a.parquet",
        parquet(text=[1, 2]),
        [],
        ["a.parquet: column 'text' is not a string but int", "another --column"],
    ),
    "heldout of 1": ("a.txt", TEXT, ["--heldout", "1"], ["heldout is 1.0", "at least 0 and below 1"]),
    "negative heldout": ("a.txt", TEXT, ["--heldout", "-0.1"], ["heldout is -0.1", "at least 0 and below 1"]),
    "heldout that is no number": ("a.txt", TEXT, ["--heldout", "half"], ["--heldout", "valid number", "--help"]),
    "no workers": ("a.txt", TEXT, ["--workers", "0"], ["workers is 0", "at least 1 is needed"]),
    "vocabulary too small": (
        "a.txt",
        TEXT,
        ["--vocab-size", "10"],
        ["'vocab_size' cannot be 10", "greater than or equal to 300"],
    ),
    "unknown kind of token": (
        "a.txt",
        TEXT,
        ["--tokens", "bytes"],
        ["'kind' cannot be 'bytes'", "'wordpiece', 'bpe', 'unigram', 'words' or 'characters'"],
    ),
    "unknown word split": (
        "a.txt",
        TEXT,
        ["--word-split", "spaces"],
        ["'word_split' cannot be 'spaces'", "'whitespace'"],
    ),
    "no such tokenizer": (
        "a.txt",
        TEXT,
        ["--tokenizer", "none.json"],
        ["none.json: no tokenizer here", "copy the tokenizer's files"],
    ),
    "tokenizer that is none": (
        "a.txt",
        TEXT,
        ["--tokenizer", "a.txt"],
        ["a.txt: no [UNK] in this vocabulary", "one token a line"],
    ),
    "all text held out": (
        "a.txt",
        "One text.\n",
        ["--heldout", "0.999999"],
        ["a.txt: no token of text was found for training", "smaller --heldout"],
    ),
    "out below a file": (
        "a.txt",
        TEXT,
        ["--out", "a.txt/corpus"],
        ["a.txt/corpus: cannot be created", "choose another path"],
    ),
    "out with an endless name": (
        "a.txt",
        TEXT,
        ["--out", "x" * 300],
        ["File name too long", "check the path"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_prepare(name: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, content, options, said = FILES[name]
    (work / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["prepare", file, "--out", "corpus", *options], capsys, *said)


@pytest.mark.parametrize("name", ["invalid utf-8 on line 3", "jsonl with a broken line 17", "cut-off gz"])
def test_from_outside(name: str, work: Path) -> None:
    """The same through a process of its own, several workers and all."""
    file, content, options, said = FILES[name]
    (work / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = snapshot(work)
    done = subprocess.run(
        [sys.executable, "-m", "firth", "prepare", file, "--out", "corpus", "--workers", "2", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 2
    told = sentence(done.stderr)
    assert all(part in told for part in said)
    assert not done.stdout
    assert snapshot(work) == before
