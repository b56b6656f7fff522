"""A corpus of words keeps every type with its count."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from corpus_text import build_documents, write_documents

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.corpus import prepare as module
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare
from firth.tokenizers.words import split_words


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 3000)
    source = write_documents(tmp_path / "text.jsonl", build_documents(300))
    prepare([str(source)], tmp_path / "c", TokensConfig(kind="words"), heldout=0.1)
    return Corpus.open(tmp_path / "c")


def spelled(text: str) -> list[str]:
    return [text[start:end].lower() for start, end in split_words(text)]


def types_of(corpus: Corpus) -> list[str]:
    return (corpus.folder / "tokenizer" / "words.txt").read_text().split("\n")[:-1]


def test_ids_spell_the_text(corpus: Corpus) -> None:
    types = types_of(corpus)
    found = Counter()
    for split in (corpus.train, corpus.heldout):
        starts = split.document_starts
        for number in range(split.num_documents):
            found[tuple(types[token] for token in split.tokens[starts[number] : starts[number + 1]])] += 1
    assert found == Counter(tuple(spelled(text)) for text in build_documents(300))


def test_counts_are_those_of_the_training_split_and_fall(corpus: Corpus) -> None:
    types = types_of(corpus)
    counts = np.fromfile(corpus.folder / "tokenizer" / "counts.bin", np.int64)
    assert len(types) == len(counts) == corpus.info.vocab_size == len(set(types))
    assert counts.tolist() == np.bincount(corpus.train.tokens, minlength=len(types)).tolist()
    assert (np.diff(counts) <= 0).all()
    assert set(types) == {word for text in build_documents(300) for word in spelled(text)}


def test_every_token_starts_a_word_and_there_are_no_pieces(corpus: Corpus) -> None:
    assert corpus.train.word_starts(3, 100).all()
    with pytest.raises(FirthError, match="has no pieces"):
        _ = corpus.pieces


def test_words_at_white_space_only(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Don't stop, e-mail me.\nDon't!\n")
    tokens = TokensConfig(kind="words", word_split="whitespace", lowercase=False)
    prepare([str(tmp_path / "a.txt")], tmp_path / "c", tokens, heldout=0.0)
    assert set(types_of(Corpus.open(tmp_path / "c"))) == {"Don't", "stop,", "e-mail", "me.", "Don't!"}
