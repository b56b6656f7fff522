"""Every format there and back, told apart by content; and what is wrong told with file and line."""

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth.core.errors import FirthError
from firth.vectors.binary_formats import write_fasttext
from firth.vectors.formats import load_vectors, save_vectors, sniff_format
from firth.vectors.word_vectors import WordVectors

FORMATS = {
    "word2vec": "v.bin",
    "text": "v.vec",
    "glove": "v.txt",
    "projector": "vectors.tsv",
    "safetensors": "v.safetensors",
}


@pytest.fixture
def vectors() -> WordVectors:
    random = np.random.default_rng(0)
    words = ["the", "naïve", "中文", "don't", "1", "2.5", "a\xa0b", "x" * 80]
    return WordVectors(words, random.normal(size=(8, 5)).astype(np.float32))


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_there_and_back(format: str, vectors: WordVectors, tmp_path: Path) -> None:
    path = tmp_path / "odd.name" / FORMATS[format]
    save_vectors(vectors, path, format)
    assert sniff_format(path) == format
    again = load_vectors(path)
    assert list(again.words) == vectors.words
    np.testing.assert_array_equal(again.matrix, vectors.matrix)


def test_the_ending_names_the_format(vectors: WordVectors, tmp_path: Path) -> None:
    save_vectors(vectors, tmp_path / "v.vec")
    assert (tmp_path / "v.vec").read_text(encoding="utf-8").startswith("8 5\nthe ")
    with pytest.raises(FirthError, match="ending says no format"):
        save_vectors(vectors, tmp_path / "v.xyz")
    with pytest.raises(FirthError, match="did you mean 'glove'"):
        save_vectors(vectors, tmp_path / "v.txt", "glov")


def test_int8_and_ngrams_survive_safetensors(vectors: WordVectors, tmp_path: Path) -> None:
    small = vectors.quantized()
    save_vectors(small, tmp_path / "v.safetensors")
    again = load_vectors(tmp_path / "v.safetensors")
    assert again.matrix.dtype == np.int8
    np.testing.assert_array_equal(again.vectors(["the"]), small.vectors(["the"]))
    from safetensors.numpy import load_file

    assert load_file(tmp_path / "v.safetensors")["vectors"].shape == (8, 5)


def test_a_million_words_of_300_open_within_a_second(tmp_path: Path) -> None:
    """Memory-mapped, so a file with holes is as good as a full one."""
    import json

    words = "\n".join(f"word{number}" for number in range(1_000_000)).encode()
    sizes = 1_000_000 * 300 * 4
    header = {
        "vectors": {"dtype": "F32", "shape": [1_000_000, 300], "data_offsets": [0, sizes]},
        "words": {"dtype": "U8", "shape": [len(words)], "data_offsets": [sizes, sizes + len(words)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(tmp_path / "big.safetensors", "wb") as handle:
        handle.write(len(text).to_bytes(8, "little") + text)
        handle.seek(sizes, 1)
        handle.write(words)
    started = time.process_time()
    vectors = load_vectors(tmp_path / "big.safetensors")
    assert time.process_time() - started < 1
    assert vectors["word999999"].shape == (300,)


def test_a_fasttext_model_there_and_back(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words, counts, used = ["king", "中文"], np.asarray([5, 2]), np.asarray([3, 4, 17])
    inputs = random.random((5, 4)).astype(np.float32)
    settings = {
        "bucket": 20, "window": 5, "epochs": 1, "min_count": 1, "negatives": 5, "loss": "negative",
        "architecture": "skipgram", "min_n": 3, "max_n": 6, "sample": 1e-4,
    }  # fmt: skip
    write_fasttext(tmp_path / "m.bin", words, counts, inputs, used, np.zeros((2, 4), np.float32), settings)
    assert sniff_format(tmp_path / "m.bin") == "fasttext"
    again = load_vectors(tmp_path / "m.bin")
    assert list(again.words) == words
    assert again.counts is not None
    assert again.counts.tolist() == [5, 2]
    assert again.subwords is not None
    full = np.zeros((20, 4), np.float32)
    full[used] = inputs[2:]
    np.testing.assert_array_equal(again.subwords.rows, full)


def test_words_that_are_not_unicode_are_read_but_not_written(tmp_path: Path) -> None:
    settings = {
        "bucket": 20, "window": 5, "epochs": 1, "min_count": 1, "negatives": 5, "loss": "negative",
        "architecture": "skipgram", "min_n": 3, "max_n": 6, "sample": 1e-4,
    }  # fmt: skip
    rows = np.ones((2, 4), np.float32)
    write_fasttext(tmp_path / "m.bin", ["zaz"], np.asarray([5]), rows, np.asarray([3]), rows[:1], settings)
    raw = (tmp_path / "m.bin").read_bytes().replace(b"zaz\0", b"z\xff\xfe\0")
    (tmp_path / "m.bin").write_bytes(raw)
    vectors = load_vectors(tmp_path / "m.bin")
    assert vectors.nearest(vectors.words[0]) == []
    for name in ("v.vec", "v.safetensors", "v.bin", "v.tsv"):
        with pytest.raises(FirthError, match="not Unicode"):
            save_vectors(vectors, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["m.bin"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 2\na 1 2\nb 3 4\n", "line 1: the header says 3 words, but 2 follow"),
        ("2 3\na 1 2\nb 3 4\n", "line 2: the row of 'a' is short: 2 numbers where 3 are expected"),
        ("2 2\na 1 2\nb 3\n", "line 3: the row of 'b' is short: 1 numbers where 2 are expected"),
        ("0 2\n", "line 1: the header says 0 words"),
        ("2 2\na 1 2\nb nan 4\n", "line 3: the vector of 'b' has NaN"),
        ("2 2\na 1 2\na 3 4\n", "line 3: the word 'a' is there twice"),
        ("2 2\na 1 2\nnew york 3 4\n", "line 3: 3 fields after 'new' where 2 are expected: a word with spaces"),
        ("2 2\na 1 2\nb 3 x\n", "line 3: the row of 'b' has something in it that is not a number"),
        ("a 1 2\nb 3\n", "line 2: the row of 'b' is short"),
        ("a 1 2\nb 3 inf\n", "line 2: the vector of 'b' has NaN or infinity"),
        ("hello\n", "line 1: neither a header"),
        ("", "empty"),
    ],
)
def test_bad_text_is_told_by_line(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.vec"
    path.write_text(content)
    with pytest.raises(FirthError) as caught:
        load_vectors(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def binary(words: list[bytes], rows: list[list[float]], head: bytes | None = None) -> bytes:
    body = b"".join(
        word + b" " + struct.pack(f"<{len(row)}f", *row) + b"\n" for word, row in zip(words, rows, strict=True)
    )
    return (head if head is not None else f"{len(words)} {len(rows[0])}\n".encode()) + body


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary([b"a", b"b"], [[1, 2], [3, 4]], b"9 2\n"), "more than the file holds"),
        (binary([b"a", b"b"], [[1, 2], [3, 4]], b"1 2\n"), "line 1: more follows"),
        (binary([b"a", b"b"], [[1, 2], [3, float("nan")]]), "word 2: the vector of 'b' has NaN"),
        (binary([b"a", b"a"], [[1, 2], [3, 4]]), "word 2: the word 'a' is there twice"),
        (binary([b"abcdefghi", b"b"], [[1, 2], [3, 4]])[:-4], "word 2: its row is short or missing"),
        (b"x y\n\x00\x01", "line 1: neither a header"),
    ],
)
def test_bad_bytes_are_told_by_word(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.bin"
    path.write_bytes(content)
    with pytest.raises(FirthError) as caught:
        load_vectors(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_are_cut_off_are_told(vectors: WordVectors, tmp_path: Path) -> None:
    save_vectors(vectors, tmp_path / "v.safetensors")
    whole = (tmp_path / "v.safetensors").read_bytes()
    for size in (9, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.safetensors").write_bytes(whole[:size])
        with pytest.raises(FirthError, match=r"cut\.safetensors"):
            load_vectors(tmp_path / "cut.safetensors")
    with pytest.raises(FirthError, match="no such file"):
        load_vectors(tmp_path / "none.bin")
    with pytest.raises(FirthError, match="a folder"):
        load_vectors(tmp_path)


def test_the_projector_needs_its_words(vectors: WordVectors, tmp_path: Path) -> None:
    save_vectors(vectors, tmp_path / "vectors.tsv")
    (tmp_path / "metadata.tsv").write_text("a\nb\n")
    with pytest.raises(FirthError, match=r"metadata.tsv: 2 words, but vectors.tsv has 8 rows"):
        load_vectors(tmp_path / "vectors.tsv")
    (tmp_path / "metadata.tsv").unlink()
    with pytest.raises(FirthError, match=r"metadata.tsv: missing"):
        load_vectors(tmp_path / "vectors.tsv")


@pytest.mark.parametrize("name", ["v.bin", "v.vec", "vectors.tsv"])
def test_a_word_with_a_space_is_not_written(name: str, tmp_path: Path) -> None:
    vectors = WordVectors(["new york"], np.ones((1, 2), np.float32))
    with pytest.raises(FirthError, match="white space"):
        save_vectors(vectors, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_damaged_fasttext_models_are_told(tmp_path: Path) -> None:
    path: Any = tmp_path / "m.bin"
    path.write_bytes(struct.pack("<2i", 793712314, 12))
    with pytest.raises(FirthError, match="cut off within its header"):
        load_vectors(path)
    path.write_bytes(struct.pack("<2i", 793712314, 99) + b"\0" * 200)
    with pytest.raises(FirthError, match="format 99"):
        load_vectors(path)


def test_words_of_another_projector_stay(vectors: WordVectors, tmp_path: Path) -> None:
    save_vectors(vectors, tmp_path / "vectors.tsv", "projector")
    with pytest.raises(FirthError, match=r"metadata\.tsv: exists already"):
        save_vectors(vectors, tmp_path / "tensors.tsv", "projector")
    assert not (tmp_path / "tensors.tsv").exists()
