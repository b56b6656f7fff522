"""Keys and values shared by the rows of a sentence, against plain copies of every row's own.

S sentences, W rows a sentence, H heads, T tokens, K head size.
"""

import pytest
import torch

from firth.nn.attention import SelfAttention
from firth.nn.cache import KeyValues, take_sentences

DIM, HEADS = 12, 3


class Both:
    """The cache under test, and beside it every row's whole text, read anew each time."""

    def __init__(self, num_rows: int, seed: int = 0, drops: bool = True) -> None:
        torch.manual_seed(seed)
        self.attention = SelfAttention(DIM, HEADS, 0.0).eval()
        self.cache = KeyValues.empty(1, num_rows, HEADS, DIM // HEADS, torch.zeros(1), drops)
        self.texts = torch.zeros(num_rows, 0, DIM)

    def read(self, count: int) -> None:
        new = torch.randn(len(self.texts), count, DIM)
        self.texts = torch.cat((self.texts, new), 1)
        mask = self.cache.open(count)
        found = self.attention.cached(new, self.cache, 0, mask)
        wanted = self.attention(self.texts, None, None, causal=True)[:, -count:]
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        assert self.cache.at == self.texts.shape[1]

    def move(self, index: list[int]) -> None:
        rows = torch.tensor(index)
        self.cache, self.texts = self.cache.reorder(rows), self.texts[rows]


@pytest.fixture(autouse=True)
def _no_gradients() -> object:
    with torch.inference_mode():
        yield


def test_a_beam_with_sentences_that_leave() -> None:
    both = Both(3)
    both.read(4)
    both.move([0, 0, 0, 1, 1, 1, 2, 2, 2])
    room = both.cache.store
    for index in ([0, 0, 1, 5, 3, 3, 6, 7, 8], [2, 1, 0, 4, 4, 4, 8, 7, 7]):
        both.read(1)
        both.move(index)
    assert both.cache.store.data_ptr() == room.data_ptr()  # nothing is copied while rows stay with their sentence
    assert both.cache.filled == 4 + 2 * 9 // 3
    both.read(1)
    both.move([8, 6, 7, 4, 3, 5])  # the first sentence leaves, the last one takes its place
    assert (both.cache.num_sentences, both.cache.width) == (2, 3)
    both.read(3)  # several tokens of several rows
    both.move([5, 5, 3])
    both.read(1)


def test_one_row_a_sentence() -> None:
    both = Both(4)
    both.read(1)
    both.read(5)
    both.read(1)
    both.move([0, 2, 3])
    both.read(2)
    both.move([2, 0, 0, 1])  # not equally many: each row goes on alone
    both.read(1)
    assert both.cache.width == 1


def test_rows_of_a_beam_that_go_on_alone() -> None:
    both = Both(2)
    both.read(2)
    both.move([0, 0, 1, 1])
    both.read(2)
    both.move([1, 3, 3])
    both.read(1)
    both.move([0, 0, 1, 1, 2, 2])
    both.read(1)


@pytest.mark.parametrize("drops", [True, False])
def test_across_the_borders_at_which_room_is_made(drops: bool) -> None:
    """What nobody sees is dropped, in sentences of different fates, while others leave."""
    both = Both(3, drops=drops)
    both.read(3)
    both.move([place for place in range(3) for _ in range(4)])
    for number in range(70):
        both.read(2 if number == 40 else 1)
        num_sentences = both.cache.num_sentences
        within = torch.randint(4, (num_sentences, 4)) if number % 3 else torch.arange(4).repeat(num_sentences, 1)
        index = within + 4 * torch.arange(num_sentences)[:, None]
        if number == 50:
            index = index[[2, 1]]
        both.move(index.flatten().tolist())
    assert both.cache.at == 3 + 71
    assert both.cache.filled < 200 if drops else both.cache.filled == 3 + 4 * 71


def test_where_entries_stand() -> None:
    both = Both(1, drops=False)
    both.read(2)
    both.move([0, 0])
    both.read(1)
    both.read(1)
    assert both.cache.places().tolist() == [0, 1, 2, 2, 3, 3]
    assert both.cache.places(2).tolist() == [2, 2, 3, 3]


def test_only_what_moves_is_copied() -> None:
    store = torch.arange(24.0).view(1, 4, 3, 2)
    kept = store.clone()
    found = take_sentences(store, 1, torch.tensor([0, 3, 2]), 2)
    assert found.data_ptr() == store.data_ptr()
    assert torch.equal(found[:, 1, :2], kept[:, 3, :2])  # what is not filled does not matter
    assert torch.equal(found[:, [0, 2]], kept[:, [0, 2]])
    more = take_sentences(kept, 1, torch.tensor([1, 1, 0, 2, 3]), 3)
    assert torch.equal(more, kept[:, [1, 1, 0, 2, 3]])
