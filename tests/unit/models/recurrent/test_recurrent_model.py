"""The recurrent network over tokens: layers, padding, state, dropouts."""

import pytest
import torch

from firth.core.types import Inputs
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.network import Recurrent


def build(**settings: object) -> Recurrent:
    config = RecurrentConfig.build({"vocab_size": 20, "embedding_dim": 6, "hidden_dim": 8, **settings}, "test")
    model = Recurrent(config)
    model.start(torch.Generator().manual_seed(0))
    return model


def test_layers_of_unequal_width_are_filled_up() -> None:
    model = build(num_layers=3).eval()
    ids = torch.randint(20, (2, 5))
    found = model(Inputs(ids))
    assert found.hidden.shape == (4, 2, 5, 8)
    assert found.mask.all()
    torch.testing.assert_close(found.hidden[0, :, :, :6], model.tokens(ids))
    assert not found.hidden[[0, 3], :, :, 6:].any()  # tied: the last layer has the width of the table
    assert found.hidden[1, :, :, 6:].any()
    torch.testing.assert_close(found.last[..., :6].transpose(0, 1), model.read(ids).hidden_TBD)
    torch.testing.assert_close(model.last(Inputs(ids)), found.last)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_changes_nothing(bidirectional: bool) -> None:
    model = build(bidirectional=bidirectional).eval()
    ids = torch.randint(20, (3, 7))
    lens = torch.tensor([7, 3, 5])
    found = model(Inputs(ids, torch.arange(7) < lens[:, None]))
    for row, size in enumerate(lens.tolist()):
        torch.testing.assert_close(found.hidden[:, row, :size], model(Inputs(ids[row : row + 1, :size])).hidden[:, 0])
    assert found.hidden.shape[-1] == (16 if bidirectional else 8)


def test_state_goes_on() -> None:
    model = build().eval()
    ids = torch.randint(20, (2, 9))
    whole = model.read(ids)
    first = model.read(ids[:, :4])
    second = model.read(ids[:, 4:], first.state)
    torch.testing.assert_close(torch.cat((first.hidden_TBD, second.hidden_TBD)), whole.hidden_TBD)


def test_whole_words_are_dropped() -> None:
    model = build(embedding_dropout_prob=0.5)
    ids = torch.arange(20).repeat(2, 2)  # every word twice in each row
    kept = (model.embed(ids) != 0).any(-1)  # [T, B]
    assert 0 < int(kept[:20, 0].sum()) < 20
    for other in (kept[20:, 0], kept[:20, 1], kept[20:, 1]):
        assert torch.equal(kept[:20, 0], other)
    assert (model.eval().embed(ids) != 0).any(-1).all()


def test_dropout_of_outputs_leaves_the_raw_ones() -> None:
    reading = build(output_dropout_prob=0.5, variational=True).read(torch.randint(20, (2, 5)))
    zero = reading.hidden_TBD == 0
    assert (zero == zero[:1]).all()  # the same units at every step
    torch.testing.assert_close(reading.hidden_TBD[~zero], 2 * reading.raw_TBD[~zero])
