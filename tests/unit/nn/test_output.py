"""Heads and the start of weights."""

import numpy as np
import numpy_twin as twin
import torch

from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, Pooler, TokenHead
from firth.nn.blocks import initialize


def test_token_head() -> None:
    head = TokenHead(EncoderConfig(vocab_size=11, hidden_dim=8, num_heads=2, norm_eps=1e-6))
    torch.nn.init.normal_(head.bias)
    hidden, table = torch.randn(5, 8), torch.randn(11, 8)
    weights = {name: value.detach().double().numpy() for name, value in head.state_dict().items()}
    inner = twin.activate(twin.linear(hidden.double().numpy(), weights, "dense"), "gelu")
    wanted = twin.layer_norm(inner, weights, "norm", 1e-6) @ table.double().numpy().T + weights["bias"]
    np.testing.assert_allclose(head(hidden, table).detach().numpy(), wanted, atol=1e-5)


def test_pooler() -> None:
    pooler = Pooler(4)
    first = torch.randn(3, 4)
    torch.testing.assert_close(pooler(first), torch.tanh(first @ pooler.dense.weight.T + pooler.dense.bias))


def test_start() -> None:
    encoder = Encoder(EncoderConfig(vocab_size=500, hidden_dim=64, num_heads=2, num_layers=2, ffn_dim=128))
    initialize(encoder, 0.02, torch.Generator().manual_seed(3))
    first = {name: value.clone() for name, value in encoder.state_dict().items()}
    initialize(encoder, 0.02, torch.Generator().manual_seed(3))
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, first[name])
        if value.ndim == 2:
            assert abs(float(value.std()) / 0.02 - 1) < 0.15, name
        else:
            assert torch.equal(value, torch.full_like(value, float("norm" in name and "weight" in name))), name
