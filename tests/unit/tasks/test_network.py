"""The network of a task: pooling, windows put together, pairs, parts, layers."""

import numpy as np
import pytest
import torch

from firth.core.types import Inputs, TextReader
from firth.models.shared.static import ScratchModel
from firth.tasks.config import TaskConfig
from firth.tasks.network import TaskNetwork

DIM = 6


@pytest.fixture
def reader() -> TextReader:
    return ScratchModel(["a", "b", "c"], DIM, seed=1).reader()


def tensors(ids: list[list[int]], owner: list[int], part: list[int] | None = None) -> dict[str, torch.Tensor]:
    longest = max(1, *(len(row) for row in ids))
    blocks = [[1] * len(row) + [0] * (longest - len(row)) for row in ids]
    padded = [row + [0] * (longest - len(row)) for row in ids]
    return {
        "ids": torch.tensor(padded),
        "doc_ids": torch.tensor(blocks),
        "segments": torch.zeros(len(ids), longest, dtype=torch.long),
        "owner": torch.tensor(owner),
        "part": torch.tensor(part or [0] * len(ids)),
    }


def table(network: TaskNetwork) -> np.ndarray:
    return network.reader_module.table.weight.detach().numpy()  # type: ignore[union-attr,operator,no-any-return]


@pytest.mark.parametrize("pool", ["cls", "last", "mean", "max"])
def test_pools(pool: str, reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(pool=pool, labels=("x", "y")), reader, 2).eval()  # type: ignore[arg-type]
    network.pooler = None
    rows = table(network)[[2, 4, 3]]
    wanted = {"cls": rows[0], "last": rows[2], "mean": rows.mean(0), "max": rows.max(0)}[pool]
    found = network.texts(tensors([[2, 4, 3], [2]], [0, 1]), 2, "mean").detach().numpy()
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)
    np.testing.assert_allclose(found[1], table(network)[2], atol=1e-6)


@pytest.mark.parametrize("pool", ["cls", "last", "mean", "max"])
@pytest.mark.parametrize("body", ["none", "bilstm"])
def test_an_empty_text_has_finite_scores(pool: str, body: str, reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(pool=pool, body=body, body_dim=4), reader, 3)  # type: ignore[arg-type]
    assert torch.isfinite(network.text_scores(tensors([[]], [0]), 1)).all()
    assert torch.isfinite(network.text_scores(tensors([[], [2, 3]], [0, 1]), 2)).all()


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_windows_put_together(pool: str, reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(pool="mean"), reader, 2).eval()
    rows = table(network)
    found = network.texts(tensors([[2], [3], [4]], [0, 1, 1]), 2, pool).detach().numpy()
    np.testing.assert_allclose(found[0], rows[2], atol=1e-6)
    np.testing.assert_allclose(found[1], rows[[3, 4]].mean(0) if pool == "mean" else rows[[3, 4]].max(0), atol=1e-6)


def test_pairs_that_are_read_apart(reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(pool="mean"), reader, 2).eval()
    network.join_pairs_apart(2)
    u, v = table(network)[2], table(network)[3]
    found = network.texts(tensors([[2], [3]], [0, 0], [0, 1]), 1, "mean").detach().numpy()
    np.testing.assert_allclose(found[0], np.concatenate((u, v, abs(u - v), u * v)), atol=1e-6)


def test_padding_changes_nothing(reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(body="bilstm", body_dim=4), reader, 2).eval()
    alone = network.text_scores(tensors([[2, 3]], [0]), 1)
    among = network.text_scores(tensors([[2, 3], [4, 4, 3, 2, 2]], [0, 1]), 2)
    torch.testing.assert_close(alone[0], among[0])


def test_many_rows_are_read_in_parts(reader: TextReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long document has many windows: what is in memory at once is bounded, result and gradient are the same."""
    network = TaskNetwork(TaskConfig(body="bilstm", body_dim=4, layers="mix"), reader, 2).eval()
    small = network.config.replace(max_batch_tokens=6)
    batch = tensors([[2, 3, 4], [3], [4, 2], [2, 2, 2], [3, 4]], [0, 0, 1, 1, 2])
    seen: list[int] = []
    read = network.tokens
    monkeypatch.setattr(network, "tokens", lambda part: (seen.append(len(part["ids"])), read(part))[1])
    with torch.inference_mode():
        whole = network.text_scores(batch, 3), network.token_scores(batch)
        network.config, large = small, network.config
        parts = network.text_scores(batch, 3), network.token_scores(batch)
    assert seen == [5, 5, 2, 2, 1, 2, 2, 1]
    torch.testing.assert_close(parts, whole)
    seen.clear()
    learned = []
    for config in (large, small):
        network.config = config
        network.zero_grad()
        network.text_scores(batch, 3).square().sum().backward()
        learned.append({name: parameter.grad for name, parameter in network.named_parameters()})
    assert seen == [5, 2, 2, 1, *seen[4:]]
    assert sorted(seen[4:]) == [1, 2, 2]  # read once more on the way back
    torch.testing.assert_close(learned[0], learned[1])


def test_a_frozen_model_gets_no_gradient(bert_reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(tune=False, layers="mix"), bert_reader, 2).train()
    assert not network.reader_module.training
    network.zero_grad()  # other tests share the base
    network.text_scores(tensors([[5, 6], [7]], [0, 1]), 2).sum().backward()
    assert all(parameter.grad is None for parameter in network.reader_module.parameters())
    assert network.mixes["input"].scalars.grad is not None


def test_first_token_computed_alone(bert_reader: TextReader) -> None:
    """The last block is computed at the first token only; that changes no number."""
    network = TaskNetwork(TaskConfig(), bert_reader, 2).eval()
    assert network.pool == "cls"
    batch = tensors([[5, 6, 9], [7]], [0, 1])
    whole = network.pooler(network.reader_module.last(Inputs.of(batch))[:, 0])  # type: ignore[misc]
    torch.testing.assert_close(network.texts(batch, 2, "mean"), whole)


def test_all_layers_side_by_side(bert_reader: TextReader) -> None:
    network = TaskNetwork(TaskConfig(layers="all", pool="mean", labels=("x", "y")), bert_reader, 2).eval()
    given = tensors([[2, 5, 3], [2, 6, 7]], [0, 1])
    layers = bert_reader.module(Inputs.of(given)).hidden
    wanted = torch.cat([layer.mean(1) for layer in layers], 1)
    torch.testing.assert_close(network.texts(given, 2, "mean"), wanted)
    assert network.out.in_features == bert_reader.num_layers * bert_reader.dim
