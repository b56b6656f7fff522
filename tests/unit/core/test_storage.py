"""Corpora, inputs and models by address: on fsspec's store in memory, and by s3fs on a real S3 server of this machine."""

import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.core.config import address_of, local_path
from firth.core.errors import FirthError
from firth.core.storage import expand, send
from firth.corpus.format import Corpus

pytestmark = pytest.mark.slow

fsspec = pytest.importorskip("fsspec")
SETTINGS: dict[str, Any] = {"vocab_size": 400, "layout": "line", "heldout": 0.1, "workers": 1}


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    pytest.importorskip("s3fs")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


class Place:
    """A bucket, and what another program sees and does there."""

    def __init__(self, address: str, **options: object) -> None:
        self.address = address
        self.store: Any = fsspec.filesystem(address.partition("://")[0], **options)

    def at(self, name: str) -> str:
        return f"{self.address.partition('://')[2]}/{name}"

    def write(self, name: str, content: bytes) -> None:
        self.store.pipe_file(self.at(name), content)

    def read(self, name: str) -> bytes:
        return self.store.cat_file(self.at(name))  # type: ignore[no-any-return]

    def names(self, folder: str) -> set[str]:
        self.store.invalidate_cache()
        return {name.rpartition(f"{self.at(folder)}/")[2] for name in self.store.find(self.at(folder))}


@pytest.fixture(params=["memory", "s3"])
def place(
    request: pytest.FixtureRequest, s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    monkeypatch.setenv("FIRTH_CACHE", str(tmp_path / "cache"))
    if request.param == "memory":
        yield Place("memory://texts")
        fsspec.filesystem("memory").rm("/", recursive=True)
        return
    for name, value in (
        ("ENDPOINT_URL", s3_server),
        ("ACCESS_KEY_ID", "anyone"),
        ("SECRET_ACCESS_KEY", "anything"),
        ("DEFAULT_REGION", "us-east-1"),
        ("EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    found = Place("s3://texts", skip_instance_cache=True, use_listings_cache=False)
    found.store.mkdir("texts")
    yield found
    found.store.rm("texts", recursive=True)


def test_addresses(tmp_path: Path) -> None:
    assert address_of("s3://bucket/news/") == "s3://bucket/news"
    assert address_of(Path("s3://bucket/news")) == "s3://bucket/news"  # Path drops a slash
    assert address_of("C:/text") is None
    assert address_of("news/a.txt") is None
    assert address_of(tmp_path) is None


def test_what_changed_is_fetched_again(place: Place) -> None:
    place.write("in/a.txt", b"one")
    first = local_path(f"{place.address}/in/a.txt")
    assert first.read_text() == "one"
    assert expand(f"{place.address}/in") == [f"{place.address}/in/a.txt"]
    assert local_path(f"{place.address}/in/a.txt") == first
    place.write("in/a.txt", b"other")
    place.write("in/b.txt", b"new")
    assert local_path(f"{place.address}/in/a.txt").read_text() == "other"
    assert expand(f"{place.address}/in/*.txt") == [f"{place.address}/in/{name}.txt" for name in "ab"]
    assert first.read_text() == "one"


def test_a_corpus_by_address(place: Place, text_file: Path, tmp_path: Path) -> None:
    """From files in a store to a corpus in a store to a model, and the same bytes as on disk."""
    place.write("in/news.txt", text_file.read_bytes())
    source, goal = f"{place.address}/in", f"{place.address}/out/news"
    firth.prepare(source, Path(goal), **SETTINGS)
    firth.prepare(text_file, tmp_path / "news", **SETTINGS)
    remote, plain = Corpus.open(goal), Corpus.open(tmp_path / "news")
    assert remote.fingerprint == plain.fingerprint
    for name in ("train/tokens.bin", "heldout/tokens.bin", "tokenizer/tokenizer.json"):
        assert place.read(f"out/news/{name}") == (tmp_path / "news" / name).read_bytes()
    files = {
        path.relative_to(tmp_path / "news").as_posix() for path in (tmp_path / "news").rglob("*") if path.is_file()
    }
    assert place.names("out/news") == files
    assert remote.info.sources[0].name == f"{source}/news.txt"
    with pytest.raises(FirthError, match="exists already"):
        firth.prepare(source, goal, **SETTINGS)
    firth.prepare(f"{source}/*.txt", goal, overwrite=True, **SETTINGS)
    assert not [path for path in (tmp_path / "cache" / "sending").iterdir() if path.is_dir()]
    with pytest.raises(FirthError, match="not a corpus, so --overwrite does not touch it"):  # others' files
        firth.prepare(text_file, source, overwrite=True, **SETTINGS)
    assert place.names("in") == {"news.txt"}


def test_a_damaged_copy_is_told(place: Place, corpus_folder: Path) -> None:
    send(corpus_folder, place.store, place.at("news"))
    whole = place.read("news/train/tokens.bin")
    place.write("news/train/tokens.bin", whole[:-1] + b"?")
    with pytest.raises(FirthError, match=r"tokens\.bin"):
        Corpus.open(f"{place.address}/news")


def test_half_a_corpus_is_none(place: Place, corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store has no rename: the description goes first when a corpus is replaced, and comes last."""
    send(corpus_folder, place.store, place.at("news"))
    put, left = place.store.put_file, iter(range(3))

    def failing(*arguments: object, **named: object) -> None:
        if next(left, None) is None:
            raise OSError("the line is cut")
        put(*arguments, **named)

    monkeypatch.setattr(place.store, "put_file", failing)
    with pytest.raises(OSError, match="cut"):
        send(corpus_folder, place.store, place.at("news"))
    with pytest.raises(FirthError, match=r"no corpus\.json in it"):
        Corpus.open(f"{place.address}/news")


KILLED = """
import os, signal, sys, firth
from firth.core import storage
put, names = storage._put, []
def counted(store, goal, path):
    names.append(goal)
    if len(names) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    put(store, goal, path)
storage._put = counted
firth.prepare(sys.argv[1], sys.argv[2], vocab_size=400, layout="line", heldout=0.1, workers=1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_kill_while_it_is_sent(place: Place, text_file: Path, corpus_folder: Path) -> None:
    """What is there is not taken for a corpus; the same command makes it whole and leaves nothing else."""
    goal = f"{place.address}/news"
    done = subprocess.run([sys.executable, "-c", KILLED, str(text_file), goal], env={**os.environ}, check=False)
    assert done.returncode == -signal.SIGKILL
    left = place.names("news")
    assert ".firth-sending" in left
    assert len(left) > 1
    assert "corpus.json" not in left
    with pytest.raises(FirthError, match=r"no corpus\.json in it"):
        Corpus.open(goal)
    firth.prepare(text_file, goal, **SETTINGS)
    assert Corpus.open(goal).fingerprint == Corpus.open(corpus_folder).fingerprint
    assert ".firth-sending" not in place.names("news")


@pytest.mark.parametrize("place", ["memory"], indirect=True)
@pytest.mark.parametrize("failing", range(2, 7))
def test_a_failed_upload_is_sent_again(
    place: Place,
    text_file: Path,
    corpus_folder: Path,
    failing: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A corpus that is finished but could not be sent is not made again; other settings or texts make it anew."""
    import firth.corpus.prepare as preparing
    from firth.core import storage

    put, prepare, calls, made = storage._put, preparing.prepare, iter(range(1, 1000)), []

    def breaking(store: object, goal: str, path: Path | None) -> None:
        if next(calls) == failing:
            raise OSError("the line is cut")
        put(store, goal, path)

    def counted(*arguments: object, **named: object) -> object:
        made.append(arguments)
        return prepare(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(storage, "_put", breaking)
    monkeypatch.setattr(preparing, "prepare", counted)
    goal = f"{place.address}/news"
    with pytest.raises(FirthError, match="the line is cut"):
        firth.prepare(text_file, goal, **SETTINGS)
    with pytest.raises(FirthError, match=r"no corpus\.json in it|no such file"):
        Corpus.open(goal)
    if failing % 2:
        info = firth.prepare(text_file, goal, **SETTINGS)
        assert len(made) == 1
        assert info == Corpus.open(goal).info
        assert Corpus.open(goal).fingerprint == Corpus.open(corpus_folder).fingerprint
    else:
        if failing == 2:
            text_file = Path(shutil.copy(text_file, tmp_path / "other.txt"))
        firth.prepare(text_file, goal, **{**SETTINGS, "vocab_size": 401 if failing > 2 else 400})
        assert len(made) == 2
        assert Corpus.open(goal).info.sources[0].name == str(text_file)
    assert ".firth-sending" not in place.names("news")
    assert not [path for path in (Path(os.environ["FIRTH_CACHE"]) / "sending").iterdir() if path.is_dir()]


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_failed_preparation_leaves_the_place_as_it_was(
    place: Place, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firth.core import storage

    goal, bad = f"{place.address}/news", tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\xff")
    with pytest.raises(FirthError, match="not utf-8"):
        firth.prepare(bad, goal, **SETTINGS)
    assert place.names("news") == set()
    put, calls = storage._put, iter(range(1, 100))

    def breaking(store: object, goal: str, path: Path | None) -> None:
        if next(calls) == 4:
            raise OSError("the line is cut")
        put(store, goal, path)

    monkeypatch.setattr(storage, "_put", breaking)
    with pytest.raises(FirthError, match="the line is cut"):
        firth.prepare(text_file, goal, **SETTINGS)
    with pytest.raises(FirthError, match="not utf-8"):  # what was half sent may still be replaced
        firth.prepare(bad, goal, **SETTINGS)
    firth.prepare(text_file, goal, **SETTINGS)
    assert Corpus.open(goal).info.sources[0].name == str(text_file)


@pytest.mark.parametrize("place", ["memory"], indirect=True)
def test_a_mark_that_was_left_over_lets_nothing_be_replaced(place: Place, text_file: Path) -> None:
    """As after ``--overwrite`` was killed while it prepared: what stands there is whole."""
    from firth.core import storage

    goal = f"{place.address}/news"
    firth.prepare(text_file, goal, **SETTINGS)
    store, root = storage._open(goal)
    storage._put(store, f"{root}/.firth-sending", None)
    before = Corpus.open(goal).fingerprint
    with pytest.raises(FirthError, match="exists already"):
        firth.prepare(text_file, goal, **{**SETTINGS, "vocab_size": 401})
    assert Corpus.open(goal).fingerprint == before
    firth.prepare(text_file, goal, **SETTINGS, overwrite=True)
    assert ".firth-sending" not in place.names("news")


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_mistakes_with_s3(place: Place, text_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong bucket is not made, and errors of the store's packages are sentences."""
    with pytest.raises(FirthError, match="no such file or folder in the store"):
        firth.prepare(text_file, "s3://txets/news", **SETTINGS)
    assert place.store.ls("") == ["texts"]
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{name}")
    type(place.store).clear_instance_cache()
    with pytest.raises(FirthError, match=r"asks for credentials .* set them in the environment"):
        local_path("s3://texts/a.txt")


def test_models_and_mistakes(place: Place, run_folder: Path) -> None:
    send(run_folder, place.store, place.at("runs/bert"))
    found = firth.load(f"{place.address}/runs/bert")
    assert found.encode(["The map."]).shape == firth.load(run_folder).encode(["The map."]).shape
    assert found.path is not None
    assert not (found.path / "checkpoints").exists()
    with pytest.raises(FirthError, match="no such file or folder in the store"):
        expand(f"{place.address}/nothing")
    with pytest.raises(FirthError, match="no kind of store that fsspec knows"):
        local_path("nonsense://bucket/a")
    with pytest.raises(FirthError, match="a run is trained in a folder"):
        firth.pretrain("bert-tiny", corpus=f"{place.address}/out/news", out=f"{place.address}/runs/new")
