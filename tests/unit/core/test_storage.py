"""Corpora, inputs and models by address, on fsspec's store in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.core.config import address_of, local_path
from firth.core.errors import FirthError
from firth.core.storage import expand, send
from firth.corpus.format import Corpus

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    found = fsspec.filesystem("memory")
    yield found
    found.rm("/", recursive=True)


def test_addresses(tmp_path: Path) -> None:
    assert address_of("s3://bucket/news/") == "s3://bucket/news"
    assert address_of(Path("s3://bucket/news")) == "s3://bucket/news"  # Path drops a slash
    assert address_of("C:/text") is None
    assert address_of("news/a.txt") is None
    assert address_of(tmp_path) is None


def test_what_changed_is_fetched_again(store: Any) -> None:
    store.pipe_file("/b/a.txt", b"one")
    first = local_path("memory://b/a.txt")
    assert first.read_text() == "one"
    assert local_path("memory://b/a.txt") == first
    store.pipe_file("/b/a.txt", b"other")
    assert local_path("memory://b/a.txt").read_text() == "other"
    assert first.read_text() == "one"


def test_a_corpus_by_address(store: Any, text_file: Path, tmp_path: Path) -> None:
    """From files in a store to a corpus in a store to a model, and the same bytes as on disk."""
    store.put_file(str(text_file), "/in/news.txt")
    settings: dict[str, Any] = {"vocab_size": 400, "layout": "line", "heldout": 0.1, "workers": 1}
    firth.prepare("memory://in", Path("memory://out/news"), **settings)
    firth.prepare(text_file, tmp_path / "news", **settings)
    remote, plain = Corpus.open("memory://out/news"), Corpus.open(tmp_path / "news")
    assert remote.fingerprint == plain.fingerprint
    for name in ("train/tokens.bin", "heldout/tokens.bin", "tokenizer/tokenizer.json"):
        assert store.cat_file(f"/out/news/{name}") == (tmp_path / "news" / name).read_bytes()
    assert remote.info.sources[0].name == "memory://in/news.txt"
    with pytest.raises(FirthError, match="exists already"):
        firth.prepare("memory://in", "memory://out/news", **settings)
    firth.prepare("memory://in/*.txt", "memory://out/news", overwrite=True, **settings)


def test_half_a_corpus_is_none(store: Any, corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store has no rename: the description goes first when a corpus is replaced, and comes last."""
    send(corpus_folder, store, "/c/news")
    put, left = store.put_file, iter(range(3))

    def failing(*arguments: object, **named: object) -> None:
        if next(left, None) is None:
            raise OSError("the line is cut")
        put(*arguments, **named)

    monkeypatch.setattr(type(store), "put_file", lambda self, *some, **more: failing(*some, **more))
    with pytest.raises(OSError, match="cut"):
        send(corpus_folder, store, "/c/news")
    with pytest.raises(FirthError, match=r"no corpus\.json in it"):
        Corpus.open("memory://c/news")
    monkeypatch.undo()


def test_models_and_mistakes(store: Any, run_folder: Path, tmp_path: Path) -> None:
    send(run_folder, store, "/runs/bert")
    found = firth.load("memory://runs/bert")
    assert found.encode(["The map."]).shape == firth.load(run_folder).encode(["The map."]).shape
    assert found.path is not None
    assert not (found.path / "checkpoints").exists()
    with pytest.raises(FirthError, match="no such file or folder in the store"):
        expand("memory://nothing")
    with pytest.raises(FirthError, match="no kind of store that fsspec knows"):
        local_path("nonsense://bucket/a")
    with pytest.raises(FirthError, match="a run is trained in a folder"):
        firth.pretrain("bert-tiny", corpus="memory://out/news", out="memory://runs/new")
