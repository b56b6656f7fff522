"""Hostile text: files in every format that ``prepare`` reads, damaged; encodings; settings that nobody can mean."""

import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
from attack_models import DEEP, hostile_bytes, hostile_json
from attack_runner import Case
from attack_seeds import numbers

Fill = Callable[[Path], list[str]]
OUT = ["--out", "corpus", "--vocab-size", "300", "--workers", "1"]
ODD = [
    "\ufeff",
    "\u200d",
    "\u0301",
    "\U0001f469\u200d\U0001f467",
    "\u202e",
    "\ufffd",
    "\x85",
    "\u2028",
    "\x0b",
    "a" * 3000,
    "\U0001f1e9\U0001f1ea" * 400,
]

HALVES = {"unicode_escape": rb"\ud83d alone", "raw_unicode_escape": rb"\udc00", "utf-7": b"+2D0- alone"}
CODECS = "gb18030 latin-1 rot13 base64 hex utf-7 idna big5 unicode_escape raw_unicode_escape utf-16 cp932".split()


def sentences(pick: random.Random, count: int = 40) -> str:
    words = 'the old doctor found a broken clock near river 老师 看见了 一本书 <b>&amp; "quoted" , . 3.5'.split()
    return "\n".join(" ".join(pick.choices([*words, pick.choice(ODD)], k=8)) for _ in range(count)) + "\n"


def packed(name: str, raw: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(name, raw)
    return out.getvalue()


def text_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"text {seed}")
    place.mkdir(parents=True)
    text = sentences(pick)
    kind = pick.choice(["txt", "jsonl", "csv", "tsv", "parquet", "zip", "gz", "tmx"])
    if kind == "jsonl":
        rows = [{"text": line, "more": {"a": [1, 2]}} for line in text.splitlines()]
        raw = b"\n".join(hostile_json(row, pick) if pick.random() < 0.1 else json.dumps(row).encode() for row in rows)
    elif kind in ("csv", "tsv"):
        mark = "," if kind == "csv" else "\t"
        raw = "\n".join([f"text{mark}n", *(f"{line}{mark}1" for line in text.splitlines())]).encode()
    elif kind == "parquet":
        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"text": text.splitlines()}), out)
        raw = out.getvalue()
    elif kind == "zip":
        raw = packed("a.txt", text.encode(), pick.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]))
    elif kind == "gz":
        import gzip

        raw = gzip.compress(text.encode())
    elif kind == "tmx":
        raw = tmx(text.splitlines(), "utf-8")
    else:
        raw = text.encode(pick.choice(["utf-8", "utf-16", "gb18030", "unicode_escape", "utf-7"]), "replace")
        raw += pick.choice([b"", b"", *HALVES.values()])
    if pick.random() < 0.8:
        raw = hostile_bytes(raw, pick)
    name = {"gz": "a.txt.gz"}.get(kind, f"a.{kind}")
    (place / name).write_bytes(raw)
    words = ["prepare-pairs" if kind == "tmx" else "prepare", name, "--out", "corpus", "--vocab-size", "300"]
    if kind != "tmx":
        words += ["--workers", "1"]
    if pick.random() < 0.3:
        words += ["--encoding", pick.choice(CODECS)]
    return Case(f"text:{seed} ({kind})", words, place)


def tmx(lines: list[str], encoding: str, depth: int = 0) -> bytes:
    from xml.sax.saxutils import escape

    inner = "<hi>" * depth, "</hi>" * depth
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{inner[0]}{escape(clean(line))}{inner[1]}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escape(clean(line))[::1]}</seg></tuv></tu>'
        for line in lines
    )
    body = f'<?xml version="1.0" encoding="{encoding}"?><tmx version="1.4"><body>{units}</body></tmx>'
    return body.encode(encoding, "xmlcharrefreplace")


def clean(line: str) -> str:
    return "".join(char for char in line if char >= " " and char not in "\ufffe\uffff")


# -- by name


def write(name: str, raw: bytes, *more: str, command: str = "prepare") -> Fill:
    def fill(place: Path) -> list[str]:
        (place / name).write_bytes(raw)
        return [command, name, "--out", "corpus", "--vocab-size", "300", *more]

    return fill


def damaged_zip(method: int) -> bytes:
    raw = bytearray(packed("a.txt", numbers(1, 5000).hex().encode(), method))
    for place in range(60, 400):
        raw[place] ^= 0xFF
    return bytes(raw)


def parquet_of(values: list[bytes]) -> bytes:
    out = io.BytesIO()
    array = pyarrow.array(values, pyarrow.binary())
    text = pyarrow.StringArray.from_buffers(len(array), array.buffers()[1], array.buffers()[2])
    pyarrow.parquet.write_table(pyarrow.table({"text": text}), out)
    return out.getvalue()


def odd_name(place: Path) -> list[str]:
    name = os.fsdecode(b"caf\xe9.txt")
    (place / name).write_text("The old doctor found a clock.\n" * 40)
    return ["prepare", name, "--out", "corpus", "--vocab-size", "300", "--workers", "1"]


def settings(recipe: str, *given: str) -> Fill:
    def fill(place: Path) -> list[str]:
        return [
            "pretrain",
            recipe,
            "--corpus",
            str(place.parent / "seeds" / "corpora" / "pieces"),
            "--out",
            "run",
            *given,
        ]

    return fill


LINES = [f"the old doctor found clock number {number}" for number in range(40)]
HAN = [f"老师看见了第{number}本书" for number in range(40)]
NAMED: dict[str, Fill] = {
    "nested jsonl": write("a.jsonl", b"[" * DEEP + b"]" * DEEP + b"\n"),
    "nested jsonl in a field": write("a.jsonl", b'{"text": "a", "b": ' + b"[" * DEEP + b"]" * DEEP + b"}\n"),
    "nested jsonl of pairs": write("a.jsonl", b'{"a":' * DEEP + b"\n", command="prepare-pairs"),
    "damaged zip, lzma": write("a.zip", damaged_zip(zipfile.ZIP_LZMA)),
    "damaged zip, bz2": write("a.zip", damaged_zip(zipfile.ZIP_BZIP2)),
    "damaged zip, deflate": write("a.zip", damaged_zip(zipfile.ZIP_DEFLATED)),
    "zip of another version": write(
        "a.zip", packed("a.txt", b"text\n" * 99).replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xff")
    ),
    "zip of an unknown method": write(
        "a.zip", packed("a.txt", b"text\n" * 99, 0).replace(b"\0\0\0\0\0\0", b"\0\0\x63\0\0\0")
    ),
    "parquet that is not UTF-8": write("a.parquet", parquet_of([b"good text here", b"\xff\xfe bad"] * 30)),
    **{
        f"encoding {name}": write("a.txt", b"the old doctor\n" * 50, "--encoding", name)
        for name in (
            "rot13",
            "base64",
            "hex",
            "zip",
            "uu",
            "bz2",
            "undefined",
            "idna",
            "punycode",
            "unicode_escape",
            "mbcs",
            "\0",
        )
    },
    **{
        f"encoding {name} of pairs": write("a.tsv", b"one\ttwo\n" * 50, "--encoding", name, command="prepare-pairs")
        for name in ("rot13", "base64")
    },
    **{
        f"half a character in {name} ({command})": write(
            "a.tsv", b"one\ttwo\n" * 50 + half + b"\ttwo\n", "--encoding", name, command=command
        )
        for name, half in HALVES.items()
        for command in ("prepare", "prepare-pairs")
    },
    "flags without end": write("a.txt", "\U0001f1e9".encode() * 100_000 + b"\n", "--workers", "1"),
    "a name that is not UTF-8": odd_name,
    "tmx in gb18030": write("a.tmx", tmx(HAN, "gb18030"), command="prepare-pairs"),
    "tmx in big5": write("a.tmx", tmx(HAN, "big5"), command="prepare-pairs"),
    "tmx in an unknown encoding": write(
        "a.tmx", tmx(LINES, "utf-8").replace(b"utf-8", b"x-none"), command="prepare-pairs"
    ),
    "tmx with deep mark-up": write("a.tmx", tmx(LINES[:2], "utf-8", 20_000), command="prepare-pairs"),
    "batch of 10^8": settings("bert-tiny", "batch_size=100000000"),
    "10^5 layers": settings("bert-tiny", "num_layers=100000"),
    "10^6 wide": settings("bert-tiny", "hidden_dim=1000000"),
    "10^5 wide": settings("bert-tiny", "hidden_dim=100000", "num_heads=1000"),
    "accumulation of 10^6": settings("bert-tiny", "gradient_accumulation=1000000"),
    "10^9 epochs": settings("bert-tiny", "epochs=1000000000"),
    "10^12 steps": settings("bert-tiny", "steps=1000000000000"),
    "10^9 positions": settings("bert-tiny", "max_positions=1000000000", "seq_len=100000000"),
}


def named_case(seeds: Path, number: int, place: Path) -> Case:
    title = list(NAMED)[number]
    place.mkdir(parents=True)
    return Case(f"named-text:{number} ({title})", NAMED[title](place), place)
