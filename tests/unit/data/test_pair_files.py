"""Minimal pairs in the formats in which people have them, and what is wrong with a file."""

import gzip
import json
from pathlib import Path

import pytest

from firth.core.errors import FirthError
from firth.evaluation.minimal_pairs import MinimalPair, read_minimal_pairs

PUBLISHED = {
    "sentence_good": "Cats sleep.",
    "sentence_bad": "Cats sleeps.",
    "field": "morphology",
    "linguistics_term": "subject_verb_agreement",
    "UID": "regular_plural",
    "simple_LM_method": True,
    "pairID": "0",
}


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_as_published(tmp_path: Path) -> None:
    """BLiMP: a file a set, with its own names; ZhoBLiMP: another spelling of them."""
    written(tmp_path / "regular_plural.jsonl", PUBLISHED)
    zho = {"sentence_good": "他把门关了。", "sentence_bad": "他门把关了。", "uid": "BA", "phenomenon": "ba 字句"}
    written(tmp_path / "zho.jsonl", zho)
    (tmp_path / "LICENSE.txt").write_text("Free for all.\nReally.\n")
    assert read_minimal_pairs(tmp_path) == [
        MinimalPair("Cats sleep.", "Cats sleeps.", "regular_plural", "subject_verb_agreement", "morphology"),
        MinimalPair("他把门关了。", "他门把关了。", "BA", "ba 字句"),
    ]


def test_one_file_of_many_sets(tmp_path: Path) -> None:
    """``num`` counts in each set by itself, wherever its pairs stand."""
    rows = [{"good": f"g{place}", "bad": f"b{place}", "set": "xy"[place % 2]} for place in range(7)]
    path = tmp_path / "pairs.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert [pair.good for pair in read_minimal_pairs(path)] == [f"g{place}" for place in range(7)]
    assert [(pair.set, pair.good) for pair in read_minimal_pairs(path, num=2)] == [
        ("x", "g0"),
        ("y", "g1"),
        ("x", "g2"),
        ("y", "g3"),
    ]


def test_tables(tmp_path: Path) -> None:
    """Without names two columns, of which the file names the set; with names any columns, in any order."""
    (tmp_path / "agreement.tsv").write_text('The "cat" sleeps.\tThe "cat" sleep.\n\nA\tB\n', encoding="utf-8")
    assert read_minimal_pairs(tmp_path / "agreement.tsv") == [
        MinimalPair('The "cat" sleeps.', 'The "cat" sleep.', "agreement"),
        MinimalPair("A", "B", "agreement"),
    ]
    (tmp_path / "named.csv").write_text('number,bad,good,set\n1,"Well, no.","Well, yes.",s\n', encoding="utf-8")
    assert read_minimal_pairs(tmp_path / "named.csv") == [MinimalPair("Well, yes.", "Well, no.", "s")]
    (tmp_path / "gb.tsv").write_bytes("他来。\t来他。\n".encode("gb18030"))
    assert read_minimal_pairs(tmp_path / "gb.tsv", encoding="gb18030") == [MinimalPair("他来。", "来他。", "gb")]
    (tmp_path / "list.json").write_text(json.dumps([{"good": "A", "bad": "B"}]), encoding="utf-8")
    assert read_minimal_pairs(tmp_path / "list.json") == [MinimalPair("A", "B", "list")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.jsonl", '{"good": "A", "bad": "B"}\n{"good": "C"}\n', "p.jsonl:2: no bad sentence"),
        ("p.jsonl", '{"good": "A", "bad": "B"}\n{"good": " ", "bad": "D"}\n', "p.jsonl:2: no good sentence"),
        ("p.jsonl", '{"good": "A", "bad": 3}\n', "p.jsonl:1: no bad sentence"),
        ("p.jsonl", '{"good": "A", "wrong": "B"}\n', "p.jsonl:1: no 'bad' among good, wrong; call the sentences"),
        ("p.jsonl", '{"good": "A", "bad": "B"}\n{"good"\n', "p.jsonl:2: not valid JSON"),
        ("p.tsv", "A\tB\nC\n", "p.tsv:2: no bad sentence; a line has two sentences"),
        ("p.tsv", "A\tB\nC\tD\tE\n", "p.tsv:2: 3 fields where there are 2"),
        ("p.txt", "\n \n", "p.txt: no pairs in it"),
        ("p.tsv", "good\tbad\n", "p.tsv: no pairs in it"),
        ("p.tsv", "", "p.tsv: the file is empty"),
    ],
)
def test_refused(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(FirthError) as error:
        read_minimal_pairs(tmp_path / name)
    assert said in str(error.value)


def test_refused_folders(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no such file"):
        read_minimal_pairs(tmp_path / "missing")
    (tmp_path / "readme.txt").write_text("Nothing here.\n")
    with pytest.raises(FirthError, match=r"no jsonl, csv, tsv or parquet file in this folder"):
        read_minimal_pairs(tmp_path)
