"""Documents in lanes: every token once an epoch, in order, forward or backward."""

import numpy as np

from firth.corpus.document_lanes import DocumentLanes, Place
from firth.corpus.format import Corpus

SEP, CLS = 3, 2


def build(corpus: Corpus, num_lanes: int = 4, seq_len: int = 16) -> DocumentLanes:
    return DocumentLanes(corpus.train, seq_len, num_lanes, (SEP, CLS), seed=0)


def whole(corpus: Corpus, lanes: DocumentLanes, epoch: int) -> list[int]:
    """The stream as a plain loop makes it."""
    starts, found = corpus.train.document_starts, []
    order, _ = lanes._layout(epoch)
    for document in order.tolist():
        found += [*corpus.train.tokens[starts[document] : starts[document + 1]].tolist(), SEP, CLS]
    return found


def test_lanes_hold_every_token_once(corpus: Corpus) -> None:
    lanes = build(corpus)
    stream = whole(corpus, lanes, 0)
    assert lanes.num_tokens == len(stream)
    assert len(lanes) == 4 * lanes.pieces_per_lane
    for backward in (False, True):
        read: list[int] = []
        for lane in range(4):
            pieces = [lanes.read(Place(lane, piece, 0), backward).ids for piece in range(lanes.pieces_per_lane)]
            mine = np.concatenate(pieces)
            read += (mine[::-1] if backward else mine).tolist()
            assert all(len(piece) == 16 for piece in pieces) or lane == 3
        assert read == stream


def test_places_go_through_lanes_then_pieces_then_epochs(corpus: Corpus) -> None:
    lanes = build(corpus)
    places = lanes.places(0, 2 * len(lanes))
    assert places[0] == (0, 0, 0)
    assert places[3] == (3, 0, 0)
    assert places[4] == (0, 1, 0)
    assert places[len(lanes)] == (0, 0, 1)
    assert lanes.places(7, 3) == places[7:10]
    assert whole(corpus, lanes, 0) != whole(corpus, lanes, 1)


def test_what_a_piece_says_of_its_tokens(corpus: Corpus) -> None:
    """Special tokens are those that were added, and documents change behind [CLS]; from any place."""
    lanes = build(corpus)
    stream = np.asarray(whole(corpus, lanes, 0))
    for begin in range(0, 200, 7):
        piece = lanes.stretch(0, begin, begin + 50)
        assert np.array_equal(piece.ids, stream[begin : begin + 50])
        assert np.array_equal(piece.added, np.isin(piece.ids, (SEP, CLS)))
        ends = np.cumsum(np.concatenate(([0], piece.ids[:-1] == CLS)))
        assert np.array_equal(piece.documents, ends)


def test_more_lanes_than_text(corpus: Corpus) -> None:
    lanes = build(corpus, num_lanes=1000, seq_len=64)
    assert lanes.pieces_per_lane == 1
    for backward in (False, True):
        sizes = [len(lanes.read(place, backward).ids) for place in lanes.places(0, 1000)]
        assert sum(sizes) == lanes.num_tokens
        assert sizes[-1] == 0
