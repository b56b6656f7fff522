"""From text to a corpus: the same bytes however it was made, and nothing left behind."""

import ctypes
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from corpus_text import build_documents, content, write_documents

from firth.cli.describe import corpus_rows
from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus import prepare as module
from firth.corpus.format import Corpus
from firth.corpus.parts import hash_bytes
from firth.corpus.prepare import prepare
from firth.data.readers import ReadingConfig
from firth.models.unilm.config import MaskedTargetsConfig

TOKENS = TokensConfig(vocab_size=400)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 3000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "text.jsonl", build_documents(300))


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "words"])
def test_the_number_of_workers_changes_no_byte(tmp_path: Path, source: Path, kind: Any) -> None:
    for workers in (1, 2):
        prepare([str(source)], tmp_path / str(workers), TOKENS.replace(kind=kind), workers=workers, deduplicate=True)
    assert content(tmp_path / "1") == content(tmp_path / "2")
    assert hidden(tmp_path) == []


@pytest.mark.slow
def test_the_corpus_holds_the_text(tmp_path: Path, source: Path) -> None:
    info = prepare([str(source)], tmp_path / "c", TOKENS, heldout=0.2)
    corpus = Corpus.open(tmp_path / "c")
    documents = build_documents(300)
    assert info.train.documents + info.heldout.documents == 300
    assert info.train.bytes + info.heldout.bytes == sum(len(text.encode()) for text in documents)
    wanted = {tuple(corpus.pieces.encode(text, add_special=False).ids.tolist()) for text in documents}
    found = set()
    for split in (corpus.train, corpus.heldout):
        starts = split.document_starts
        assert starts[-1] == len(split.tokens)
        assert split.sentences[-1] == len(split.tokens)
        assert (np.diff(split.sentences) > 0).all()
        found |= {tuple(split.tokens[starts[n] : starts[n + 1]].tolist()) for n in range(split.num_documents)}
    assert found == wanted


@pytest.mark.slow
def test_held_out_documents_go_by_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 100_000)
    documents = build_documents(2000)
    first = prepare([str(write_documents(tmp_path / "a.jsonl", documents))], tmp_path / "a", TOKENS, heldout=0.1)
    again = prepare(
        [str(write_documents(tmp_path / "b.jsonl", documents[::-1]))],
        tmp_path / "b",
        TOKENS,
        heldout=0.1,
        tokenizer=tmp_path / "a" / "tokenizer",
    )
    assert 0.07 < first.heldout.documents / 2000 < 0.13
    assert first.heldout == again.heldout
    none = prepare([str(tmp_path / "a.jsonl")], tmp_path / "c", TOKENS, heldout=0.0)
    assert none.heldout.documents == 0


@pytest.mark.slow
def test_exact_duplicates_go_even_across_blocks_and_files(tmp_path: Path) -> None:
    documents = build_documents(120)
    write_documents(tmp_path / "a.jsonl", documents + documents[:50])
    write_documents(tmp_path / "b.jsonl", documents[20:])
    info = prepare([str(tmp_path / "*.jsonl")], tmp_path / "c", TOKENS, deduplicate=True)
    assert info.train.documents + info.heldout.documents == len(set(documents))
    assert info.duplicates_removed == 270 - len(set(documents))
    kept = prepare([str(tmp_path / "*.jsonl")], tmp_path / "d", TOKENS)
    assert kept.train.documents + kept.heldout.documents == 270
    assert kept.duplicates_removed is None


@pytest.mark.slow
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join(build_documents(50)).encode()
    (tmp_path / "a.txt").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    prepare(["-"], tmp_path / "a", TOKENS)
    prepare([str(tmp_path / "a.txt")], tmp_path / "b", TOKENS)
    ours, theirs = content(tmp_path / "a"), content(tmp_path / "b")
    assert {name for name in ours if ours[name] != theirs[name]} == {"corpus.json"}
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(FirthError, match="standard input is empty"):
        prepare(["-"], tmp_path / "c", TOKENS)


class TestGoingOn:
    @pytest.mark.slow
    def test_after_a_stop_only_the_rest_is_made(
        self, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prepare([str(source)], tmp_path / "whole", TOKENS, workers=1)
        made: list[int] = []
        make = module.PartMaker.make

        def counted(self: Any, number: int, block: Any) -> None:
            if len(made) == 4:
                raise KeyboardInterrupt
            made.append(number)
            make(self, number, block)

        monkeypatch.setattr(module.PartMaker, "make", counted)
        with pytest.raises(KeyboardInterrupt):
            prepare([str(source)], tmp_path / "c", TOKENS, workers=1)
        assert hidden(tmp_path) == [".c.partial"]
        monkeypatch.setattr(
            module.PartMaker, "make", lambda self, number, block: (made.append(number), make(self, number, block))[1]
        )
        prepare([str(source)], tmp_path / "c", TOKENS, workers=1)
        assert sorted(made) == list(range(len(made)))
        assert content(tmp_path / "c") == content(tmp_path / "whole")
        assert hidden(tmp_path) == []

    @pytest.mark.slow
    def test_after_a_kill(self, tmp_path: Path) -> None:
        source = write_documents(tmp_path / "text.jsonl", build_documents(4000))
        script = (
            "import sys; from pathlib import Path; from firth.core.registry import TokensConfig; from firth.corpus import prepare as m\n"
            "m._BLOCK_BYTES = 10000\n"
            "m.prepare([sys.argv[1]], Path(sys.argv[2]), TokensConfig(vocab_size=400), workers=2, deduplicate=True)\n"
        )
        command = [sys.executable, "-c", script, str(source)]
        process = subprocess.Popen([*command, str(tmp_path / "c")])
        parts = tmp_path / ".c.partial" / "parts"
        while process.poll() is None and len(list(parts.glob("*.npz"))) < 3:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert parts.is_dir()
        assert not (tmp_path / "c").exists()
        subprocess.run([*command, str(tmp_path / "c")], check=True)
        subprocess.run([*command, str(tmp_path / "whole")], check=True)
        assert content(tmp_path / "c") == content(tmp_path / "whole")
        assert hidden(tmp_path) == []

    @pytest.mark.slow
    def test_a_part_that_lost_its_end_is_made_again(
        self, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prepare([str(source)], tmp_path / "whole", TOKENS, workers=1)
        finish = module._Job.finish

        def cut_a_part(self: Any, num_parts: int, out: Path) -> None:
            path = self.staging / "parts" / "000001.npz"
            path.write_bytes(path.read_bytes()[:-100])
            raise KeyboardInterrupt

        monkeypatch.setattr(module._Job, "finish", cut_a_part)
        with pytest.raises(KeyboardInterrupt):
            prepare([str(source)], tmp_path / "c", TOKENS, workers=1)
        monkeypatch.setattr(module._Job, "finish", finish)
        prepare([str(source)], tmp_path / "c", TOKENS, workers=1)
        assert content(tmp_path / "c") == content(tmp_path / "whole")

    @pytest.mark.slow
    def test_other_settings_begin_anew(self, tmp_path: Path, source: Path) -> None:
        (tmp_path / ".c.partial" / "parts").mkdir(parents=True)
        (tmp_path / ".c.partial" / "parts" / "000000.npz").write_bytes(b"from another try")
        (tmp_path / ".c.partial" / "settings.json").write_text("{}")
        prepare([str(source)], tmp_path / "c", TOKENS)
        Corpus.open(tmp_path / "c")


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "settings", "message"),
        [
            (None, {}, "no such file"),
            (" \n \n", {}, "no document in it"),
            ("Some text.", {"heldout": 1.0}, "heldout is 1.0"),
            ("Some text.", {"workers": 0}, "workers is 0"),
            ("good\n" + "bad\0\n", {}, r"a\.txt:2: contains NUL"),
            ("Some text.", {"tokenizer": Path("nowhere")}, "no tokenizer here"),
            ("Some text.", {"tokens": TokensConfig(kind="words"), "tokenizer": Path("x")}, "has no tokenizer"),
        ],
    )
    def test_nothing_is_left_behind(
        self, tmp_path: Path, text: str | None, settings: dict[str, Any], message: str
    ) -> None:
        if text is not None:
            (tmp_path / "a.txt").write_text(text)
        before = sorted(tmp_path.iterdir())
        with pytest.raises(FirthError, match=message):
            prepare([str(tmp_path / "a.txt")], tmp_path / "deep" / "er" / "c", **{"tokens": TOKENS, **settings})
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.slow
    def test_a_corpus_is_replaced_only_when_asked(self, tmp_path: Path, source: Path) -> None:
        prepare([str(source)], tmp_path / "c", TOKENS)
        with pytest.raises(FirthError, match="exists already"):
            prepare([str(source)], tmp_path / "c", TOKENS)
        info = prepare([str(source)], tmp_path / "c", TOKENS.replace(vocab_size=500), overwrite=True)
        assert info.tokens.vocab_size == 500
        assert hidden(tmp_path) == []

    def test_a_folder_that_is_no_corpus_is_never_replaced(self, tmp_path: Path, source: Path) -> None:
        (tmp_path / "thesis").mkdir()
        (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
        with pytest.raises(FirthError, match="not a corpus"):
            prepare([str(source)], tmp_path / "thesis", TOKENS, overwrite=True)
        assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"

    def test_two_at_once(self, tmp_path: Path, source: Path) -> None:
        def nested(event: Any) -> None:
            if event["event"] == "vocabulary":
                prepare([str(source)], tmp_path / "c", TOKENS)

        with pytest.raises(FirthError, match="another firth prepare"):
            prepare([str(source)], tmp_path / "c", TOKENS, progress=nested)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("limit", [2_000, 40_000, 150_000])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path, limit: int, workers: int) -> None:
    """A limit on the size of files stands for the disk: in the tokenizer, in a part, in the merge."""
    source = write_documents(tmp_path / "text.jsonl", build_documents(3000))
    script = (
        "import resource, sys; from pathlib import Path; from firth.core.registry import TokensConfig\n"
        "from firth.core.errors import FirthError; from firth.corpus import prepare as m\n"
        "m._BLOCK_BYTES = 50000\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "try:\n"
        f"    m.prepare([sys.argv[1]], Path(sys.argv[2]), TokensConfig(vocab_size=400), workers={workers})\n"
        "except FirthError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(source), str(tmp_path / "deep" / "c")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert "the disk is full or a size limit was reached" in result.stdout
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.jsonl"]


def test_a_few_large_documents_of_which_none_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabulary is learned from one of them then."""
    monkeypatch.setattr("firth.corpus.prepare.hash_bytes", lambda text: 2**64 - 1 if text.startswith(b"sample") else 7)
    (tmp_path / "a.txt").write_text("one two three four five six seven. " * 40, encoding="utf-8")
    tokens = TokensConfig(vocab_size=300, sample_bytes=10)
    prepare(
        [str(tmp_path / "a.txt")], tmp_path / "corpus", tokens, ReadingConfig(layout="file"), heldout=0.0, workers=1
    )
    assert Corpus.open(tmp_path / "corpus").info.train.documents == 1


def test_settings_that_do_nothing() -> None:
    with pytest.raises(ValueError, match="byte_fallback is for pieces"):
        TokensConfig(kind="characters", byte_fallback=True)
    assert TokensConfig(kind="bpe").vocabulary_bytes < TokensConfig().vocabulary_bytes
    with pytest.raises(ValueError, match="hidden one by one"):
        MaskedTargetsConfig(whole_word_mask=True)


@pytest.mark.slow
def test_a_text_that_changes_while_it_is_read(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("the old doctor found a clock\n" * 300)

    def cut(event: dict[str, Any]) -> None:
        if event["event"] == "vocabulary":
            source.write_text("the old doctor found a clock\n" * 100)

    with pytest.raises(FirthError, match=r"a.txt: changed while it was read"):
        prepare([str(source)], tmp_path / "c", TOKENS, progress=cut)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_document_of_white_space_has_no_tokens(tmp_path: Path) -> None:
    """Such as a part of a file that is cut into documents."""
    source = tmp_path / "a.txt"
    source.write_text(" " * 2_500_000 + "a clock\n")
    info = prepare([str(source)], tmp_path / "c", TokensConfig(kind="bpe", vocab_size=300), heldout=0.0, workers=1)
    assert info.train.documents == 1


def test_what_was_cut_for_the_vocabulary_is_said(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("the old doctor found a clock\n" * 50 + "x" * 3000 + "\n")
    info = prepare([str(source)], tmp_path / "c", TOKENS, workers=1)
    assert any("words of more than 400 characters were cut" in warning for warning in info.warnings)


@pytest.mark.slow
def test_a_document_repeated_many_times_and_the_layout_are_said(tmp_path: Path) -> None:
    held = next(f"text {n}." for n in range(999) if hash_bytes(f"text {n}.".encode()) < 0.04 * 2**64)
    others = [f"another one {number}." for number in range(300)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join([*others, *[held] * 1000]), encoding="utf-8")
    info = prepare([str(path)], tmp_path / "c", TokensConfig(vocab_size=300), heldout=0.05, workers=1)
    assert any("of the documents are held out, not 5%" in warning for warning in info.warnings)
    assert dict(corpus_rows(info))["layout"].startswith("a document a line (--layout")
    once = prepare([str(path)], tmp_path / "d", TokensConfig(vocab_size=300), heldout=0.05, workers=1, deduplicate=True)
    assert once.warnings == []


def test_freed_memory_where_there_is_no_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows raises a TypeError at ``CDLL(None)``."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name + "")
    module.release_memory()
