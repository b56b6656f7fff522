"""Which files are meant, and how they are opened."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from firth.core.errors import FirthError
from firth.data import sources
from firth.data.parallel import PairsReadingConfig, find_pair_sources, read_pairs
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import PassedOver, find_sources, open_source


def touch(path: Path, data: bytes = b"text\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "format", "packing"),
    [
        ("a.txt", "txt", ""),
        ("a.TXT", "txt", ""),
        ("a.jsonl.gz", "jsonl", ".gz"),
        ("a.ndjson", "jsonl", ""),
        ("a.csv.zst", "csv", ".zst"),
        ("a.v2.tsv", "tsv", ""),
        ("a.parquet", "parquet", ""),
        ("corpus", "txt", ""),
        ("a.json", "json", ""),
        ("a.csv.bz2", "csv", ".bz2"),
        ("a.xz", "txt", ".xz"),
        ("corpus.gz", "txt", ".gz"),
        ("corpus.raw.zst", "txt", ".zst"),
    ],
)
def test_the_name_tells_format_and_packing(tmp_path: Path, name: str, format: str, packing: str) -> None:
    (source,) = find_sources([str(touch(tmp_path / name))])
    assert (source.format, source.packing) == (format, packing)


def test_a_named_format_wins(tmp_path: Path) -> None:
    (source,) = find_sources([str(touch(tmp_path / "dump.txt.gz"))], "jsonl")
    assert (source.format, source.packing) == ("jsonl", ".gz")


def test_folders_are_searched_whole_and_in_order(tmp_path: Path) -> None:
    for name in ("b/2.txt", "a.txt", "b/1.jsonl", "b/c/3.csv.gz", "b/image.png", ".hidden.txt", ".git/x.txt", "a.json"):
        touch(tmp_path / name)
    with pytest.warns(PassedOver, match=r"passed over 2 files \(\.json 1, \.png 1\)"):
        found = [str(source.path.relative_to(tmp_path)) for source in find_sources([str(tmp_path)])]
    assert found == ["a.txt", "b/1.jsonl", "b/2.txt", "b/c/3.csv.gz"]


def test_globs_are_sorted_and_may_be_recursive(tmp_path: Path) -> None:
    for name in ("2.txt", "1.txt", "deep/3.txt"):
        touch(tmp_path / name)
    assert [source.path.name for source in find_sources([f"{tmp_path}/*.txt"])] == ["1.txt", "2.txt"]
    assert len(find_sources([f"{tmp_path}/**/*.txt"])) == 3


def test_a_glob_says_what_it_passed_over(tmp_path: Path) -> None:
    for name in ("1.txt", "2.json", "3.png"):
        touch(tmp_path / name)
    with pytest.warns(PassedOver, match=r"\*: passed over 1 file \(\.png 1\)"):
        assert [source.path.name for source in find_sources([f"{tmp_path}/*"])] == ["1.txt", "2.json"]


def test_a_glob_takes_files_without_a_known_ending(tmp_path: Path) -> None:
    touch(tmp_path / "wiki_00")
    assert [source.format for source in find_sources([f"{tmp_path}/wiki_*"])] == ["txt"]


def test_a_file_whose_name_looks_like_a_glob(tmp_path: Path) -> None:
    path = touch(tmp_path / "a[1].txt")
    assert find_sources([str(path)])[0].path == path


@pytest.mark.parametrize("word", ["missing.txt", "*.nothing"])
def test_what_is_not_there_is_named(tmp_path: Path, word: str) -> None:
    with pytest.raises(FirthError, match="no such file"):
        find_sources([str(tmp_path / word)])


def test_a_spreadsheet_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "table.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(FirthError, match=r"table.xlsx: a spreadsheet, .* save it as .csv"):
        find_sources([str(path)])
    (tmp_path / "text.txt").write_text("some text")
    assert [source.path.name for source in find_sources([str(tmp_path)])] == ["text.txt"]


@pytest.mark.parametrize("name", ["a.7z", "a.txt.rar", "a.txt.lz4"])
def test_other_archives_are_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(FirthError, match=rf"{name}: packed in a way that is not read; unpack it"):
        find_sources([str(touch(tmp_path / name, b"\0\1"))])


def test_an_empty_list_folder_or_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no input"):
        find_sources([])
    with pytest.raises(FirthError, match="no text in this folder"):
        find_sources([str(tmp_path)])
    with pytest.raises(FirthError, match=r"a\.txt: the file is empty"):
        find_sources([str(touch(tmp_path / "a.txt", b""))])
    with pytest.raises(FirthError, match="unknown format 'xml'"):
        find_sources([str(tmp_path)], "xml")


def test_empty_files_of_a_folder_of_documents(tmp_path: Path) -> None:
    """Refused where a corpus is made of them, left out where they are searched."""
    touch(tmp_path / "a.txt", b"some text")
    touch(tmp_path / "b.txt", b"")
    with pytest.raises(FirthError, match=r"b\.txt: the file is empty"):
        find_sources([str(tmp_path)])
    assert [source.path.name for source in find_sources([str(tmp_path)], skip_empty=True)] == ["a.txt"]
    with pytest.raises(FirthError, match=r"b\.txt: the file is empty"):
        find_sources([str(tmp_path / "b.txt")], skip_empty=True)


def test_packed_files_open_as_their_content(tmp_path: Path) -> None:
    data = "naïve 文本\n".encode() * 50_000
    touch(tmp_path / "a.txt.gz", gzip.compress(data))
    two_frames = zstandard.compress(data[:1000]) + zstandard.compress(data[1000:])
    touch(tmp_path / "b.txt.zst", two_frames)
    touch(tmp_path / "c.txt.bz2", bz2.compress(data[:1000]) + bz2.compress(data[1000:]))
    touch(tmp_path / "d.txt.xz", lzma.compress(data[:1000]) + bytes(8) + lzma.compress(data[1000:]) + bytes(4))
    found = find_sources([str(tmp_path)])
    assert len(found) == 4
    for source in found:
        with open_source(source) as handle:
            assert handle.read() == data


def test_an_xz_that_asks_for_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_XZ_BYTES", 1 << 20)
    (source,) = find_sources([str(touch(tmp_path / "a.txt.xz", lzma.compress(b"text", preset=9)))])
    with (
        pytest.raises(FirthError, match=r"a\.txt\.xz: the \.xz archive is damaged.*emory"),
        open_source(source) as handle,
    ):
        handle.read()


def zipped(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        for name, data in files.items():
            archive.writestr(f"folder/{name.replace('_', '.')}", data)
    return path


def test_a_zip_of_one_file_is_that_file(tmp_path: Path) -> None:
    data = "naïve 文本\n".encode() * 50_000
    (source,) = find_sources([str(zipped(tmp_path / "a.zip", words_csv=data))])
    assert (source.format, source.packing) == ("csv", ".zip")
    with open_source(source) as handle:
        assert handle.read() == data
    (source,) = find_sources([str(zipped(tmp_path / "b.zip", words=data))])
    assert source.format == "txt"


def test_a_zip_of_many_files(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", a_txt=b"x", b_txt=b"y")
    with pytest.raises(FirthError, match=r"a\.zip: contains 2 files, not one; unpack it"):
        find_sources([str(path)])
    touch(tmp_path / "c.txt")
    assert [source.path.name for source in find_sources([str(tmp_path)])] == ["c.txt"]
    with pytest.raises(FirthError, match=r"b\.zip: the \.zip archive is damaged"):
        find_sources([str(touch(tmp_path / "b.zip", b"no archive"))])
    whole = bytearray(zipped(tmp_path / "d.zip", a_txt=bytes(range(256)) * 900).read_bytes())
    whole[200] ^= 255
    (source,) = find_sources([str(touch(tmp_path / "d.zip", bytes(whole)))])
    with pytest.raises(FirthError, match=r"d\.zip: the \.zip archive is damaged"), open_source(source) as handle:
        handle.read()


@pytest.mark.parametrize("ending", ["gz", "zst", "bz2", "xz"])
@pytest.mark.parametrize("harm", ["cut", "garbage"])
def test_a_broken_archive_is_named(tmp_path: Path, ending: str, harm: str) -> None:
    data = bytes(range(256)) * 9000
    packed = {"gz": gzip, "zst": zstandard, "bz2": bz2, "xz": lzma}[ending].compress(data)  # type: ignore[attr-defined]
    path = touch(tmp_path / f"a.txt.{ending}", packed[: len(packed) // 2] if harm == "cut" else b"no archive at all")
    (source,) = find_sources([str(path)])
    with pytest.raises(FirthError, match=rf"a\.txt\.{ending}.*damaged or truncated"), open_source(source) as handle:
        handle.read()


HALVES = [("unicode_escape", b"whole\n\\ud83d alone\n"), ("utf-7", b"whole\n+2D0- alone\n")]


@pytest.mark.parametrize(("encoding", "data"), HALVES)
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.tar"])
def test_halves_of_characters(tmp_path: Path, name: str, encoding: str, data: bytes) -> None:
    """Some encodings write them; they are refused with their line, by every reader."""
    if name == "a.tar":
        with tarfile.open(tmp_path / name, "w") as archive:
            member = tarfile.TarInfo("b.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    else:
        touch(tmp_path / name, b"text\n" * (name != "a.txt") + data)
    line = 3 if name in ("a.csv", "a.tsv") else 2
    with pytest.raises(FirthError, match=rf"{name}.*:{line}: half a character \(U\+D83D\)"):
        list(read_documents(find_sources([str(tmp_path / name)]), ReadingConfig(encoding=encoding)))


@pytest.mark.parametrize(("encoding", "data"), HALVES)
def test_halves_of_characters_in_pairs(tmp_path: Path, encoding: str, data: bytes) -> None:
    path = touch(tmp_path / "a.tsv", data.replace(b"\n", b"\tx\n"))
    with pytest.raises(FirthError, match=r"a\.tsv:2: half a character"):
        list(read_pairs(find_pair_sources([str(path)]), PairsReadingConfig(encoding=encoding)))


@pytest.mark.parametrize("word", ["", "   "])
def test_an_empty_name_is_not_the_folder_one_is_in(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "a.txt")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FirthError, match="an empty text or name: write some words, or name a file"):
        find_sources([word])
