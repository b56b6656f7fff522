"""The parts of translators against plain formulas: sinusoids, masks, attention to a source, alignment."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from firth.models.seq2seq.network import Alignment
from firth.nn.attention import SelfAttention, sinusoids, visible, with_bias
from firth.nn.blocks import CrossAttention
from firth.nn.softmax import cross_entropy_sum


class TestSinusoids:
    def test_by_hand(self) -> None:
        table = sinusoids(3, 4)
        assert table[0].tolist() == [0, 0, 1, 1]
        wanted = [math.sin(2), math.sin(2 / 100), math.cos(2), math.cos(2 / 100)]
        assert table[2].tolist() == pytest.approx(wanted, abs=1e-6)

    @pytest.mark.parametrize("shift", [1, 5, 17])
    def test_a_shift_is_one_linear_map_for_all_positions(self, shift: int) -> None:
        dim = 16
        table = sinusoids(60, dim).double()
        frequencies = 10000.0 ** (-torch.arange(0, dim, 2).double() / dim)
        cos, sin = torch.diag((shift * frequencies).cos()), torch.diag((shift * frequencies).sin())
        turn = torch.cat((torch.cat((cos, sin), 1), torch.cat((-sin, cos), 1)), 0)
        torch.testing.assert_close(table[:-shift] @ turn.T, table[shift:], atol=1e-5, rtol=0)


class TestMasks:
    def test_drawn_by_hand(self) -> None:
        assert visible(4) is None
        causal = visible(3, causal=True)
        assert causal is not None
        assert causal[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
        near = visible(4, causal=True, window=1)
        assert near is not None
        assert near[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
        both = visible(3, torch.tensor([[True, True, False]]), window=1)
        assert both is not None
        assert both[0, 0].int().tolist() == [[1, 1, 0], [1, 1, 0], [0, 1, 0]]

    def test_joined_with_numbers(self) -> None:
        mask, bias = visible(2, causal=True), torch.ones(1, 3, 2, 2)
        found = with_bias(bias, mask)
        assert found is not None
        assert found[0, 2].tolist() == [[1.0, -30000.0], [1.0, 1.0]]
        assert with_bias(None, mask) is mask
        assert with_bias(bias, None) is bias


def test_attention_to_a_source_is_that_of_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = CrossAttention(12, 3, 0.0).eval(), nn.MultiheadAttention(12, 3, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat((ours.query.weight, ours.kv.weight)))
        theirs.in_proj_bias.copy_(torch.cat((ours.query.bias, ours.kv.bias)))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
        target, source = torch.randn(2, 4, 12), torch.randn(2, 6, 12)
        tokens = torch.arange(6) < torch.tensor([6, 2])[:, None]
        wanted, weights = theirs(target, source, source, key_padding_mask=~tokens, average_attn_weights=False)
        memory, mask = ours.remember(source), tokens[:, None, None]
        torch.testing.assert_close(ours(target, memory, mask), wanted, atol=1e-6, rtol=0)
        torch.testing.assert_close(ours.weights(target, memory, mask), weights, atol=1e-6, rtol=0)


def test_another_head_size() -> None:
    torch.manual_seed(0)
    part = SelfAttention(8, 2, 0.0, head_dim=3).eval()
    hidden = torch.randn(1, 5, 8)
    query, key, value = (row.unflatten(-1, (2, 3)).transpose(1, 2) for row in part.qkv(hidden).split([6, 6, 6], dim=-1))
    weights = (query @ key.transpose(-1, -2) / 3**0.5).softmax(-1)
    mixed = weights @ value
    torch.testing.assert_close(part(hidden, None, None), part.out(mixed.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(part.weights(hidden, None, None), weights)
    picked = part.picked(hidden, hidden[:, 2:3], None, None, None)
    torch.testing.assert_close(picked, part(hidden, None, None)[:, 2:3])


@pytest.mark.parametrize("kind", ["dot", "general", "additive"])
def test_alignment_by_its_formula(kind: str) -> None:
    torch.manual_seed(1)
    part = Alignment(kind, 5)
    query, memory = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    tokens = torch.arange(4) < torch.tensor([4, 2])[:, None]
    context, weights = part(query, part.keys(memory), memory, tokens)
    arrays = {name: tensor.detach().numpy() for name, tensor in part.state_dict().items()}
    for row in range(2):
        for place in range(3):
            state = query[row, place].numpy()
            scores = []
            for other in memory[row, : int(tokens[row].sum())].numpy():
                if kind == "dot":
                    scores.append(state @ other)
                elif kind == "general":
                    scores.append(state @ (arrays["key.weight"] @ other))
                else:
                    inner = arrays["query.weight"] @ state + arrays["query.bias"] + arrays["key.weight"] @ other
                    scores.append(float((arrays["score.weight"] @ np.tanh(inner))[0]))
            shares = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(weights[row, place, : len(shares)].detach(), shares, atol=1e-5)
            assert not weights[row, place, len(shares) :].any()
            mixed = shares @ memory[row, : len(shares)].numpy()
            np.testing.assert_allclose(context[row, place].detach(), mixed, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_fused_loss_smooths_as_torch_does(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.nn.softmax._ROWS", 4)  # several parts
    monkeypatch.setattr("firth.nn.softmax._SCORES", 1)
    monkeypatch.setattr("firth.nn.softmax._SCANNED", (4, 6))
    torch.manual_seed(2)
    parts = [torch.randn(9, 5), torch.randn(13, 5), torch.randn(13)]
    labels = torch.randint(13, (9,))
    found = []
    for fused in (True, False):
        hidden, table, offset = (part.clone().requires_grad_() for part in parts)
        used = offset if bias else None
        if fused:
            loss = cross_entropy_sum(hidden, table, used, labels, 0.1)
        else:
            scores = nn.functional.linear(hidden, table, used)
            loss = nn.functional.cross_entropy(scores, labels, reduction="sum", label_smoothing=0.1)
        (3 * loss).backward()
        with torch.no_grad():
            torch.testing.assert_close(cross_entropy_sum(hidden, table, used, labels, 0.1), loss)
        found.append([loss.detach(), hidden.grad, table.grad, *([offset.grad] if bias else [])])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)
