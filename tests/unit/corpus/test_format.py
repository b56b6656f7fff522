"""What lies on disk, read again; damage is named by file."""

import json
from pathlib import Path

import pytest
from corpus_text import build_documents, content, write_documents

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus import prepare as module
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare
from firth.tokenizers.words import is_chinese, split_words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    source = write_documents(folder / "text.jsonl", build_documents(100))
    prepare([str(source)], folder / "c", TokensConfig(vocab_size=400), heldout=0.1)
    return folder / "c"


@pytest.mark.slow
def test_word_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 300)
    texts = build_documents(60, seed=3)
    prepare(
        [str(write_documents(tmp_path / "a.jsonl", texts))], tmp_path / "c", TokensConfig(vocab_size=400), heldout=0.0
    )
    corpus = Corpus.open(tmp_path / "c")
    starts = corpus.train.document_starts
    for number, text in enumerate(texts):
        encoding = corpus.pieces.encode(text, add_special=False)
        if is_chinese(text):
            words = [start for start, _ in split_words(text)]
            wanted = [bool(start in words) for start, _ in encoding.offsets.tolist()]
        else:
            wanted = [not token.startswith("##") for token in encoding.tokens]
        assert corpus.train.word_starts(int(starts[number]), int(starts[number + 1])).tolist() == wanted


@pytest.mark.parametrize(
    "name",
    [
        *(
            f"{split}/{part}.bin"
            for split in ("train", "heldout")
            for part in ("tokens", "sentences", "documents", "words")
        ),
        *(f"tokenizer/{part}" for part in ("tokenizer.json", "vocab.txt", "tokenizer_config.json")),
    ],
)
def test_a_flipped_byte_is_noticed_by_name(folder: Path, name: str) -> None:
    path = folder / name
    data = path.read_bytes()
    try:
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(FirthError, match=rf"{name}: damaged"):
            Corpus.open(folder)
        path.unlink()
        with pytest.raises(FirthError, match=rf"{name}: missing"):
            Corpus.open(folder)
    finally:
        path.write_bytes(data)
    Corpus.open(folder)


def test_every_file_has_a_checksum(folder: Path) -> None:
    assert set(Corpus.open(folder).info.checksums) == set(content(folder)) - {"corpus.json"}


def test_what_is_no_corpus_is_said_so(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FirthError, match="no such corpus"):
        Corpus.open(tmp_path / "nothing")
    with pytest.raises(FirthError, match="not a corpus"):
        Corpus.open(tmp_path)
    info = json.loads((folder / "corpus.json").read_text())
    for change, message in (({"format": 99}, "another version"), ({"colour": 1}, "unknown setting 'colour'")):
        (tmp_path / "corpus.json").write_text(json.dumps(info | change))
        with pytest.raises(FirthError, match=message):
            Corpus.open(tmp_path)
    (tmp_path / "corpus.json").write_text("{half")
    with pytest.raises(FirthError, match="not valid JSON"):
        Corpus.open(tmp_path)
