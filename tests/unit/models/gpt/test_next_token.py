"""Next tokens by hand: what is read, what is predicted, each token once; the loss against the plain one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from firth.core.types import Batch, Inputs
from firth.corpus.format import Corpus, Split
from firth.corpus.streams import StreamRows
from firth.models.gpt.config import DecoderConfig, NextTokenConfig
from firth.models.gpt.network import Decoder
from firth.models.gpt.objective import NextToken

END = 99
DOCUMENTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11], [12, 13]]


@pytest.fixture
def split(tmp_path: Path) -> Split:
    lens = [len(document) for document in DOCUMENTS]
    np.concatenate(DOCUMENTS).astype(np.uint16).tofile(tmp_path / "tokens.bin")
    np.cumsum([0, *lens]).astype(np.int64).tofile(tmp_path / "sentences.bin")
    np.arange(len(lens) + 1).astype(np.int64).tofile(tmp_path / "documents.bin")
    return Split(tmp_path, "uint16")


def rows_of(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """(tokens read, tokens predicted) of each block of each row."""
    labels = iter(batch.arrays["labels"].tolist())
    found = []
    for ids, blocks in zip(batch.arrays["ids"], batch.arrays["doc_ids"], strict=True):
        for block in range(1, blocks.max() + 1):
            read = ids[blocks == block].tolist()
            found.append((read, [next(labels) for _ in read]))
    return found


def test_documents_are_cut_and_packed(split: Split) -> None:
    objective = NextToken(NextTokenConfig(seq_len=5), END)
    rows = objective.rows(split, 0)
    batch = objective.batch(split, rows, 0, 0, len(rows))
    wanted = [
        ([END, 1, 2, 3], [1, 2, 3, END]),
        ([END, 4, 5, 6, 7], [4, 5, 6, 7, 8]),
        ([8, 9, 10], [9, 10, END]),
        ([END, 11], [11, END]),
        ([END, 12, 13], [12, 13, END]),
    ]
    assert sorted(rows_of(batch)) == sorted(wanted)
    assert batch.counts == {"next_token": 17}
    assert batch.num_tokens == 17
    for blocks, positions in zip(batch.arrays["doc_ids"], batch.arrays["positions"], strict=True):
        for block in range(1, blocks.max() + 1):
            assert positions[blocks == block].tolist() == list(range((blocks == block).sum()))


def test_every_epoch_has_every_token_once(corpus: Corpus) -> None:
    eos_id = corpus.pieces.sep_id or 0
    objective = NextToken(NextTokenConfig(seq_len=32), eos_id)
    rows = objective.rows(corpus.train, 3)
    labels = [objective.batch(corpus.train, rows, 3, epoch * len(rows), len(rows)).arrays["labels"] for epoch in (0, 1)]
    assert labels[0].tolist() != labels[1].tolist()
    wanted = np.bincount(corpus.train.tokens, minlength=corpus.info.vocab_size)
    wanted[eos_id] += corpus.train.num_documents
    for found in labels:
        assert np.bincount(found, minlength=corpus.info.vocab_size).tolist() == wanted.tolist()


def test_batches_are_pure(corpus: Corpus) -> None:
    for kind in ("documents", "stream"):
        objective = NextToken(NextTokenConfig.build({"seq_len": 32, "rows": kind}, "test"), 3)
        rows = objective.rows(corpus.train, 3)
        last = objective.batch(corpus.train, rows, 3, len(rows) - 2, 5).arrays
        again = objective.batch(corpus.train, objective.rows(corpus.train, 3), 3, len(rows) - 2, 5).arrays
        single = objective.batch(corpus.train, rows, 3, len(rows) + 1, 1).arrays["ids"][0]
        assert all(np.array_equal(last[name], again[name]) for name in last)
        np.testing.assert_array_equal(last["ids"][3, : len(single)], single)


def test_stream_rows(split: Split) -> None:
    """Two of the three rows that fit, cut elsewhere from the second epoch on; the first token from an end."""
    objective = NextToken(NextTokenConfig(seq_len=5, rows="stream"), END)
    rows = objective.rows(split, 0)
    assert isinstance(rows, StreamRows)
    assert len(rows) == 2
    seen = set()
    for epoch in range(1, 40):
        starts = sorted(rows.positions(epoch * 2, 2)[:, 0].tolist())
        assert starts[1] - starts[0] == 5
        assert starts[1] + 5 <= len(rows.text)
        seen.add(starts[0])
    assert seen == set(range(6))
    batch = objective.batch(split, rows, 0, 0, 2)
    order = np.argsort(rows.positions(0, 2)[:, 0])
    assert batch.arrays["ids"][order].tolist() == [[END, 1, 2, 3, END], [4, 5, 6, 7, 8]]
    assert batch.arrays["labels"].reshape(2, 5)[order].tolist() == [[1, 2, 3, END, 4], [5, 6, 7, 8, 9]]
    assert batch.num_tokens == 10


@pytest.mark.parametrize("kind", ["documents", "stream"])
def test_the_loss_is_the_plain_one(corpus: Corpus, kind: str) -> None:
    """And its gradients, against cross-entropy over all scores of the whole rows."""
    config = DecoderConfig(
        vocab_size=corpus.info.vocab_size, hidden_dim=16, num_layers=1, num_heads=2, ffn_dim=16, max_positions=32,
        dropout_prob=0.0, attention_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Decoder(config).double()
    objective = NextToken(NextTokenConfig.build({"seq_len": 32, "rows": kind}, "test"), 3)
    batch = objective.batch(corpus.train, objective.rows(corpus.train, 0), 0, 0, 4).to("cpu")
    objective.loss(model, batch).sums["next_token"].backward()
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    tensors = batch.tensors
    hidden = model.last(Inputs.of(tensors))
    there = tensors["doc_ids"] > 0 if "doc_ids" in tensors else torch.ones_like(tensors["ids"], dtype=torch.bool)
    plain = torch.nn.functional.cross_entropy(model.scores(hidden[there]), tensors["labels"], reduction="sum")
    plain.backward()
    with torch.inference_mode():
        model.eval()
        objective.eval()
        losses = objective.loss(model, batch)
    assert float(losses.sums["next_token"]) == pytest.approx(float(plain.detach()), rel=1e-5)
    assert losses.metrics["accuracy"][1] == batch.counts["next_token"]
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)
