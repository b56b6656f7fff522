"""The encoder: its short cuts give the same numbers, and packing changes nothing."""

import itertools
from pathlib import Path

import pytest
import torch

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, look_around
from firth.models.shared.pretraining import find_pretraining
from firth.nn.blocks import initialize

OPTIONS = [
    {"positions": positions, "norm_first": norm_first, "norm": norm, "gated": gated, "bias": bias}
    for positions, norm_first, (norm, gated, bias) in itertools.product(
        ("learned", "rotary", "relative", "none"),
        (False, True),
        (
            ("layer", False, True),
            ("rms", False, True),
            ("layer", True, True),
            ("layer", False, False),
            ("rms", True, False),
        ),
    )
]
OPTIONS.append({"positions": "rotary", "norm_first": True, "first_norm": False, "gated": True, "num_segments": 0})
LENS = (5, 9, 3)  # of the sequences that are packed into one row of 20


def build(options: dict[str, object]) -> Encoder:
    config = EncoderConfig.build(
        {
            "vocab_size": 50,
            "hidden_dim": 16,
            "num_layers": 3,
            "num_heads": 2,
            "ffn_dim": 24,
            "max_positions": 20,
            **options,
        },
        "test",
    )
    torch.manual_seed(0)
    encoder = Encoder(config)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return encoder.eval()


def packed() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[slice]]:
    """(ids, blocks, positions) [2, 20] of packed rows with padding at the end, and where the sequences lie."""
    ids, blocks, positions = (
        torch.randint(0, 50, (2, 20)),
        torch.zeros(2, 20, dtype=torch.long),
        torch.zeros(2, 20, dtype=torch.long),
    )
    places, at = [], 0
    for number, length in enumerate(LENS, 1):
        places.append(slice(at, at + length))
        blocks[:, places[-1]] = number
        positions[:, places[-1]] = torch.arange(length)
        at += length
    return ids, blocks, positions, places


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(str(value) for value in options.values()))
@torch.inference_mode()
def test_short_cuts_and_packing(options: dict[str, object]) -> None:
    encoder = build(options)
    ids, blocks, positions, places = packed()
    segments = (torch.arange(20) % 2).expand(2, 20)
    last = encoder.last(Inputs(ids, blocks, positions, segments))
    layers = encoder(Inputs(ids, blocks, positions, segments))
    assert layers.hidden.shape == (4, 2, 20, 16)
    assert torch.equal(layers.mask, blocks > 0)
    torch.testing.assert_close(layers.last, last, atol=1e-6, rtol=0)

    picks = torch.tensor([[0, 3, 16, 16], [8, 1, 0, 13]])
    picked = encoder.picked(Inputs(ids, blocks, positions, segments), picks)
    torch.testing.assert_close(picked, last.gather(1, picks[:, :, None].expand(-1, -1, 16)), atol=1e-5, rtol=0)

    for place in places:  # each sequence alone, without neighbours or padding
        alone = encoder.last(Inputs(ids[:, place], segments=segments[:, place]))
        torch.testing.assert_close(last[:, place], alone, atol=1e-5, rtol=0)

    changed = ids.clone()
    changed[:, places[0]] = 7
    changed[:, 17:] = 9
    again = encoder.last(Inputs(changed, blocks, positions, segments))
    torch.testing.assert_close(again[:, 5:17], last[:, 5:17], atol=1e-6, rtol=0)
    assert bool(last.isfinite().all())


@pytest.mark.parametrize("positions", ["learned", "rotary", "relative", "none"])
@pytest.mark.parametrize("norm_first", [False, True])
@torch.inference_mode()
def test_attention_weights(positions: str, norm_first: bool) -> None:
    encoder = build({"positions": positions, "norm_first": norm_first})
    ids = torch.randint(0, 50, (2, 8))
    blocks = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    looks = encoder.attention(Inputs(ids, blocks))
    assert looks.shape == (3, 2, 2, 8, 8)
    torch.testing.assert_close(looks.sum(-1), torch.ones(3, 2, 2, 8))
    assert bool((looks[:, 1, :, :5, 5:] == 0).all())
    hidden = encoder(Inputs(ids, blocks)).hidden
    for number, block in enumerate(encoder.blocks):  # values mixed by these weights are what the block adds
        normed = block.attention_norm(hidden[number]) if norm_first else hidden[number]
        value = block.attention.qkv(normed).chunk(3, -1)[2].unflatten(-1, (2, -1)).transpose(1, 2)
        mixed = block.attention.out((looks[number] @ value).transpose(1, 2).flatten(2))
        summed = hidden[number] + mixed
        out = block._feed(summed if norm_first else block.attention_norm(summed))
        if norm_first and number == 2:
            out = encoder.final_norm(out)
        torch.testing.assert_close(out[blocks > 0], hidden[number + 1][blocks > 0], atol=1e-5, rtol=0)


@torch.inference_mode()
def test_order_matters_only_with_positions() -> None:
    ids = torch.randint(0, 50, (1, 6))
    turned = ids.flip(1)
    for positions, same in (("none", True), ("learned", False), ("rotary", False)):
        encoder = build({"positions": positions})
        assert torch.allclose(encoder.last(Inputs(ids)), encoder.last(Inputs(turned)).flip(1), atol=1e-5) == same


@torch.inference_mode()
def test_segments() -> None:
    encoder = build({})
    ids = torch.randint(0, 50, (1, 6))
    assert torch.equal(encoder.last(Inputs(ids)), encoder.last(Inputs(ids, segments=torch.zeros_like(ids))))
    assert not torch.allclose(encoder.last(Inputs(ids)), encoder.last(Inputs(ids, segments=torch.ones_like(ids))))


@pytest.mark.parametrize("settings", [{}, {"first_norm": False, "gated": True, "bias": False, "num_segments": 0}])
def test_heads_begin_by_looking_at_neighbours(settings: dict[str, object]) -> None:
    """Before any training each head of the first block looks at its own neighbour most, wherever that stands."""
    usual = {"vocab_size": 200, "hidden_dim": 128, "num_layers": 2, "num_heads": 4, "ffn_dim": 64, "local_start": True}
    config = EncoderConfig.build({**usual, "positions": "rotary", "norm_first": True, **settings}, "test")
    encoder, generator = Encoder(config).eval(), torch.Generator().manual_seed(0)
    initialize(encoder, 0.02, generator)
    look_around(encoder, generator)
    ids = torch.randint(200, (3, 20), generator=generator)
    with torch.no_grad():
        weights_LBHTT = encoder.attention(Inputs(ids))
    for head, offset in enumerate((-1, 1, -2, 2)):
        places = torch.arange(3, 17)
        looked = weights_LBHTT[0, :, head, places].argmax(-1)
        assert float((looked == places + offset).float().mean()) > 0.9, (head, offset)
        assert float(weights_LBHTT[0, :, head, places, places + offset].mean()) > 0.3


def test_a_table_of_its_own_scale(tiny_config: RunConfig, corpus_folder: Path) -> None:
    """The same draws, larger; nothing else changes."""
    corpus = Corpus.open(corpus_folder)
    plain, large = (
        find_pretraining(config)(configure(config, corpus), corpus).module.state_dict()
        for config in (tiny_config, tiny_config.override(["table_std=0.08"]))
    )
    for name, weight in plain.items():
        factor = 4.0 if name == "model.embeddings.tokens.weight" else 1.0
        torch.testing.assert_close(large[name], factor * weight)


def test_a_local_start_needs_rotary_positions() -> None:
    with pytest.raises(FirthError, match="local_start needs positions=rotary"):
        EncoderConfig.build({"local_start": True}, "test")
    with pytest.raises(FirthError, match="first_norm=false is for norms that come first"):
        EncoderConfig.build({"first_norm": False}, "test")
