"""Which files are meant, and how they are opened."""

import gzip
import zipfile
from pathlib import Path

import pytest
import zstandard

from firth.core.errors import FirthError
from firth.data.sources import find_sources, open_source


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
    for name in ("b/2.txt", "a.txt", "b/1.jsonl", "b/c/3.csv.gz", "b/image.png", ".hidden.txt", ".git/x.txt"):
        touch(tmp_path / name)
    found = [str(source.path.relative_to(tmp_path)) for source in find_sources([str(tmp_path)])]
    assert found == ["a.txt", "b/1.jsonl", "b/2.txt", "b/c/3.csv.gz"]


def test_globs_are_sorted_and_may_be_recursive(tmp_path: Path) -> None:
    for name in ("2.txt", "1.txt", "deep/3.txt"):
        touch(tmp_path / name)
    assert [source.path.name for source in find_sources([f"{tmp_path}/*.txt"])] == ["1.txt", "2.txt"]
    assert len(find_sources([f"{tmp_path}/**/*.txt"])) == 3


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


def test_an_empty_list_folder_or_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="no input"):
        find_sources([])
    with pytest.raises(FirthError, match="no text in this folder"):
        find_sources([str(tmp_path)])
    with pytest.raises(FirthError, match=r"a\.txt: the file is empty"):
        find_sources([str(touch(tmp_path / "a.txt", b""))])
    with pytest.raises(FirthError, match="unknown format 'xml'"):
        find_sources([str(tmp_path)], "xml")


def test_packed_files_open_as_their_content(tmp_path: Path) -> None:
    data = "naïve 文本\n".encode() * 50_000
    touch(tmp_path / "a.txt.gz", gzip.compress(data))
    two_frames = zstandard.compress(data[:1000]) + zstandard.compress(data[1000:])
    touch(tmp_path / "b.txt.zst", two_frames)
    for source in find_sources([str(tmp_path)]):
        with open_source(source) as handle:
            assert handle.read() == data


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


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("harm", ["cut", "garbage"])
def test_a_broken_archive_is_named(tmp_path: Path, ending: str, harm: str) -> None:
    data = bytes(range(256)) * 9000
    packed = gzip.compress(data) if ending == "gz" else zstandard.compress(data)
    path = touch(tmp_path / f"a.txt.{ending}", packed[: len(packed) // 2] if harm == "cut" else b"no archive at all")
    (source,) = find_sources([str(path)])
    with pytest.raises(FirthError, match=rf"a\.txt\.{ending}.*damaged or truncated"), open_source(source) as handle:
        handle.read()
