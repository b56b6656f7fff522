"""Words from characters against a plain twin, word by word and window by window."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from firth.nn.character_cnn import CharacterCNN, _ConvolveMax
from firth.tokenizers.words import character_ids, trimmed

WORDS = ["a", "cat", "extraordinarily", "狗", "x" * 60]
FILTERS = [(1, 3), (2, 4), (5, 6)]


def network(num_highway: int = 2, project: bool = True, activation: str = "relu") -> CharacterCNN:
    torch.manual_seed(5)
    found = CharacterCNN(262, 4, FILTERS, num_highway, 7 if project else 13, activation, project).double()
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if "embedding" not in name:
                parameter.normal_(std=0.4)
    return found


def twin(model: CharacterCNN, ids: NDArray[np.int64], tanh: bool = False) -> NDArray[np.float64]:
    part = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    rows = []
    for word in ids:
        chars = part["embedding.weight"][word]
        found = []
        for number, (width, _) in enumerate(FILTERS):
            weight, bias = part[f"convolutions.{number}.weight"], part[f"convolutions.{number}.bias"]
            windows = [chars[start : start + width].reshape(-1) for start in range(len(chars) - width + 1)]
            found.append(np.max([weight @ window + bias for window in windows], axis=0))
        hidden = np.concatenate(found)
        hidden = np.tanh(hidden) if tanh else np.maximum(hidden, 0)
        for number in range(len(model.highways)):
            both = part[f"highways.{number}.both.weight"] @ hidden + part[f"highways.{number}.both.bias"]
            gate, new = np.split(both, 2)
            carry = 1 / (1 + np.exp(-gate))
            hidden = carry * np.maximum(new, 0) + (1 - carry) * hidden
        if model.projection is not None:
            hidden = part["projection.weight"] @ hidden + part["projection.bias"]
        rows.append(hidden)
    return np.stack(rows)


def test_equals_the_twin() -> None:
    ids = character_ids(WORDS)
    for model, tanh in ((network(), False), (network(1, project=False), False), (network(0, activation="tanh"), True)):
        found = model(torch.from_numpy(ids)).detach().numpy()
        np.testing.assert_allclose(found, twin(model, ids, tanh), atol=1e-12)


def test_less_padding_changes_no_number() -> None:
    """And no gradient: all windows of padding are alike."""
    model, ids = network(), character_ids(WORDS[:4])
    short = trimmed(ids, 5)
    assert short.shape[1] == 17 + 5 < ids.shape[1]
    gradients = []
    for some in (ids, short):
        model.zero_grad()
        out = model(torch.from_numpy(some))
        out.square().sum().backward()
        gradients.append([out.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    for whole, cut in zip(*gradients, strict=True):
        torch.testing.assert_close(whole, cut)
    cats = trimmed(character_ids(["cat", "dog"]), 5)
    torch.testing.assert_close(model(torch.from_numpy(cats))[0], model(torch.from_numpy(ids))[1])


def test_gradients_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.nn.character_cnn._CHUNK", 100)  # two words at a time
    chars = torch.randn(5, 9, 2, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 3 * 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda one, two: _ConvolveMax.apply(one, two, 3), (chars, weight))


def test_begins_by_carrying() -> None:
    model = CharacterCNN(262, 4, FILTERS, 1, 7)
    gate = model.highways[0].both.bias[:13]
    assert torch.equal(gate, torch.full((13,), -2.0))
    assert not model.embedding.weight[0].any()


def test_half_precision() -> None:
    model, ids = network().float(), torch.from_numpy(character_ids(WORDS))
    plain = model(ids)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(ids)
    torch.testing.assert_close(found.float(), plain, atol=0.2, rtol=0.1)
    found.float().sum().backward()
    assert model.highways[0].both.weight.grad.isfinite().all()
