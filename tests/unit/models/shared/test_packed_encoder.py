"""Sequences end to end give what each gives by itself, in every layer and for every kind of block."""

import pytest
import torch

from firth.core.types import Inputs
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder

LENS = [1, 3, 3, 3, 7, 8, 8]
SHAPES = {
    "as published": {},
    "norm first, rotary": {"norm_first": True, "positions": "rotary"},
    "gated, no positions": {"gated": True, "positions": "none", "norm": "rms"},
}


def build(**more: object) -> Encoder:
    sizes = {"num_layers": 2, "hidden_dim": 16, "num_heads": 2, "ffn_dim": 24, "vocab_size": 30, "max_positions": 12}
    torch.manual_seed(3)
    return Encoder(EncoderConfig.build({**sizes, **more}, "test")).eval()


@pytest.mark.parametrize("shape", SHAPES)
def test_packed_is_each_by_itself(shape: str) -> None:
    encoder = build(**SHAPES[shape])
    rows = [torch.randint(0, 30, (length,)) for length in LENS]
    with torch.inference_mode():
        found = list(encoder.packed(Inputs(torch.cat(rows)), LENS))
        assert len(found) == 3
        wanted = [encoder(Inputs(row[None])).hidden[:, 0] for row in rows]
    torch.testing.assert_close(torch.stack(found), torch.cat(wanted, 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["last", "forward", "picked"])
def test_padding_is_left_out_and_nothing_else(shape: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and gradients of rows of unlike length, with their padding computed and without."""
    encoder = build(**SHAPES[shape]).double()
    blocks = (torch.arange(8) < torch.tensor(LENS)[:, None]).long()
    ids, segments = torch.randint(0, 30, (7, 8)) * blocks, torch.randint(0, 2, (7, 8))
    picks = torch.stack((torch.zeros(7, dtype=torch.long), torch.tensor(LENS) - 1), 1)
    results = []
    for filled in (0.0, 0.9):
        monkeypatch.setattr("firth.models.shared.encoder._FILLED", filled)
        given = Inputs(ids, blocks, segments=segments)
        seen = blocks.bool()
        if way == "picked":
            found = encoder.picked(given, picks)
        else:
            hidden = encoder.last(given) if way == "last" else encoder(given).hidden.permute(1, 2, 0, 3)
            found = hidden[seen]
            assert bool((hidden[~seen] == 0).all()) == (filled > 0)
        encoder.zero_grad()
        (found * torch.linspace(-1, 1, found.numel(), dtype=torch.double).view_as(found)).sum().backward()
        results.append([found.detach(), *(part.grad for part in encoder.parameters() if part.grad is not None)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_rows_of_several_sequences_are_not_unpadded() -> None:
    encoder, ids = build(), torch.randint(0, 30, (2, 8))
    several = torch.tensor([[1, 1, 2, 2, 0, 0, 0, 0], [1, 1, 1, 2, 2, 2, 0, 0]])
    holes = torch.tensor([[1, 0, 1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]])
    for blocks in (several, holes):
        assert encoder._unpadded(Inputs(ids, blocks)) is None
    assert encoder._unpadded(Inputs(ids, (several > 0).long())) is not None


def test_a_bias_of_distances_is_not_packed() -> None:
    assert build().can_pack
    assert not build(positions="relative").can_pack
