"""Parallel text in every form that people have it in."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from firth.core.errors import FirthError
from firth.data.parallel import Pair, PairsReadingConfig, find_pair_sources, read_pairs

PAIRS = [Pair("A dog.", "Ein Hund."), Pair("Two cats", "Zwei Katzen"), Pair("", "leer"), Pair("一只狗", "Ein Hund")]
TMX = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>A <bpt i="1">&lt;b&gt;</bpt>red<ept i="1"/> <hi>dog</hi> &amp; cat</seg></tuv>
<tuv xml:lang="de"><seg>Ein roter Hund
 und Katze</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>seul</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Haus</seg></tuv><tuv xml:lang="en"><seg>house</seg></tuv></tu>
</body></tmx>"""


def read(*paths: Path, **settings: str) -> list[Pair]:
    return list(read_pairs(find_pair_sources([str(path) for path in paths]), PairsReadingConfig(**settings)))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_two_files_also_packed(tmp_path: Path) -> None:
    first, second = ("".join(f"{pair[side]}\n" for pair in PAIRS).encode() for side in (0, 1))
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(first))
    (tmp_path / "a.de.zst").write_bytes(zstandard.compress(second))
    assert read(tmp_path / "a.en.gz", tmp_path / "a.de.zst") == PAIRS


def test_tsv_with_and_without_header(tmp_path: Path) -> None:
    body = "".join(f"{pair.source}\t{pair.target}\tnote\n" for pair in PAIRS)
    assert read(write(tmp_path / "a.tsv", body)) == PAIRS
    assert read(write(tmp_path / "a.txt", "\ufeff" + body)) == PAIRS  # as Tatoeba's come
    assert read(write(tmp_path / "b.tsv", f"target\tsource\tnote\n{body}")) == [Pair(*pair[::-1]) for pair in PAIRS]
    assert read(write(tmp_path / "c.tsv", f"en\tde\tx\n{body}"), source="en", target="de") == PAIRS


def test_jsonl(tmp_path: Path) -> None:
    plain = "".join(json.dumps({"id": 3, "en": pair.source, "de": pair.target}) + "\n" for pair in PAIRS)
    nested = "".join(json.dumps({"translation": {"en": pair.source, "de": pair.target}}) + "\n" for pair in PAIRS)
    assert read(write(tmp_path / "a.jsonl", plain)) == PAIRS
    assert read(write(tmp_path / "b.jsonl", nested), source="de", target="en") == [Pair(*pair[::-1]) for pair in PAIRS]


def test_tmx(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tmx", TMX)
    assert read(path, source="en", target="de") == [
        Pair("A red dog & cat", "Ein roter Hund und Katze"),
        Pair("house", "Haus"),
    ]
    assert read(path)[0] == Pair("A red dog & cat", "Ein roter Hund und Katze")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.en": "1\n2\n3\n", "a.de": "1\n2\n3\n4\n5\n"}, "has 3 lines but .* has 5"),
        ({"a.en": "1\n2\n3\n4\n", "a.de": "1\n"}, "has 4 lines but .* has 1"),
        ({"a.tsv": "one\ttwo\nonly one\n"}, "a.tsv:2: 1 field, but a pair needs two"),
        ({"a.jsonl": '{"a": "x", "b": "y"}\n{"a": "x"}\n'}, "a.jsonl:2: no key 'b'"),
        ({"a.jsonl": '{"a": "x", "b": "y", "c": "z"}\n'}, "choose with --source and --target"),
        ({"a.jsonl": '["x", "y"]\n'}, "a.jsonl:1: not an object"),
        ({"a.jsonl": '{"a": "x", "b": "y"}\n{"a": "x", "b": 3}\n'}, "a.jsonl:2: 'b' is not a string"),
        ({"a.jsonl": "{\n"}, "a.jsonl:1: not valid JSON"),
        ({"a.tmx": "<tmx><body><tu></body></tmx>"}, "a.tmx:1: not valid TMX"),
        ({"a.en": "1\n"}, "two line-aligned files"),
        ({"a.en": "1\n", "a.de": ""}, "a.de: the file is empty"),
    ],
)
def test_bad_input_is_told_in_a_sentence(files: dict[str, str], said: str, tmp_path: Path) -> None:
    paths = [write(tmp_path / name, text) for name, text in files.items()]
    with pytest.raises(FirthError, match=said):
        read(*paths)


def test_missing_file_and_column(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no such file"):
        read(tmp_path / "none.tsv")
    with pytest.raises(FirthError, match=r"a.tsv:1: no column 'fr': known: de, en; choose with --source and --target"):
        read(write(tmp_path / "a.tsv", "en\tde\nx\ty\n"), source="en", target="fr")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "utf-8-sig"])
def test_two_columns_in_a_txt_of_any_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("一 clock\tuna 书\nzwei\tdos\n".encode(encoding))
    sources = find_pair_sources([str(path)])
    assert [source.format for source in sources] == ["tsv"]
    found = list(read_pairs(sources, PairsReadingConfig(encoding=encoding)))
    assert found == [("一 clock", "una 书"), ("zwei", "dos")]
