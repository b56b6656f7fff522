"""What a T5 is given at its start: heads that look near, and tokens that find themselves in the source."""

import torch

from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.t5.config import t5_tiny
from firth.nn.attention import RelativeBias
from firth.nn.blocks import prefer_near


def begun() -> EncoderDecoder:
    config = t5_tiny().model.replace(vocab_size=200)
    assert isinstance(config, EncoderDecoderConfig)
    model = EncoderDecoder(config)
    model.initialize(torch.Generator().manual_seed(0))
    return model


def test_nearer_tokens_are_preferred_by_each_head_in_its_own_measure() -> None:
    places = torch.arange(6)[None]
    for bidirectional in (True, False):
        bias = RelativeBias(4, bidirectional=bidirectional)
        prefer_near(bias)
        found_HQK = bias(places, places)[0]
        for head, slope in enumerate((1.0, 0.5, 0.25, 0.125)):
            back = torch.tensor([-3.0, -2.0, -1.0, 0.0]) * slope
            torch.testing.assert_close(found_HQK[head, 3, :4], back)
            ahead = torch.tensor([-1.0, -2.0]) * slope if bidirectional else torch.zeros(2)  # which a mask hides
            torch.testing.assert_close(found_HQK[head, 3, 4:], ahead)


def test_a_t5_begins_so() -> None:
    """With some noise, both in its encoder and in its decoder."""
    model = begun()
    for begun_bias, bidirectional in ((model.encoder_relative, True), (model.decoder_relative, False)):
        assert begun_bias is not None
        plain = RelativeBias(4, bidirectional=bidirectional)
        prefer_near(plain)
        noise = begun_bias.weight - plain.weight
        assert 0.07 < noise.std() < 0.11  # one over the root of the width, .088


def test_a_token_of_the_target_finds_itself_in_the_source() -> None:
    model = begun()
    source = torch.randperm(200, generator=torch.Generator().manual_seed(1))[:60][None]
    with torch.no_grad():
        between_BHTS = model.attention(source, None, source)[2][0]
    itself = between_BHTS[0].diagonal(dim1=1, dim2=2)
    assert itself.mean() > 0.2  # one of 60 by chance is .017
    others = (between_BHTS[0].sum(dim=-1) - itself) / 59
    assert (itself.mean(dim=1) > 20 * others.mean(dim=1)).all()
