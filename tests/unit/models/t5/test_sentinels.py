"""Sentinels behind any vocabulary, and what they stand for."""

import pytest

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.models.t5.model import spans_of
from firth.models.t5.objective import with_sentinels
from firth.tokenizers.pieces import Pieces, sentinel_ids
from firth.tokenizers.vocabulary import train_pieces

TEXT = ["The old doctor found a clock near the river.", "老师看见了一本书。"] * 20


@pytest.fixture(scope="module", params=["wordpiece", "bpe", "unigram", "characters"])
def pieces(request: pytest.FixtureRequest) -> Pieces:
    return train_pieces(lambda: TEXT, TokensConfig(kind=request.param, vocab_size=400))


def test_they_are_the_last_ids(pieces: Pieces) -> None:
    assert sentinel_ids(pieces) == []
    found = with_sentinels(pieces, 100)
    size = pieces.vocab_size
    assert found.vocab_size == size + 100
    assert sentinel_ids(found) == list(range(size + 99, size - 1, -1))
    assert with_sentinels(found, 100) is found
    assert found.kind == pieces.kind
    assert [found.pad_id, found.eos_id, found.unk_id] == [pieces.pad_id, pieces.eos_id, pieces.unk_id]
    with pytest.raises(FirthError, match="has 100 sentinels, not 120: set num_sentinels=100"):
        with_sentinels(found, 120)


def test_they_are_read_and_the_rest_is_as_before(pieces: Pieces) -> None:
    found = with_sentinels(pieces, 10)
    before = pieces.encode("the old doctor", add_special=False).ids.tolist()
    assert found.encode("the old doctor").ids.tolist() == [*before, pieces.eos_id]
    ids = found.encode("the <extra_id_0> clock<extra_id_1>", add_special=False).ids.tolist()
    head = pieces.encode("the", add_special=False).ids.tolist()
    tail = pieces.encode(" clock", add_special=False).ids.tolist()
    known = sentinel_ids(found)
    assert ids == [*head, known[0], *tail, known[1]]
    assert known[0] not in found.encode("the <extra_id_0>", add_special=False, read_special=False).ids


def test_they_are_saved_and_read_again(pieces: Pieces, tmp_path: object) -> None:
    from pathlib import Path

    found = with_sentinels(pieces, 10)
    folder = Path(str(tmp_path))
    found.save(folder)
    again = Pieces.load(folder)
    assert again.fingerprint == found.fingerprint
    assert sentinel_ids(again) == sentinel_ids(found)


def test_spans() -> None:
    known = [99, 98, 97]
    assert spans_of([99, 5, 6, 98, 97, 7], known) == {0: [5, 6], 1: [], 2: [7]}
    assert spans_of([3, 98, 4, 98, 5], known) == {1: [4]}  # what is before the first, or comes again, is lost
