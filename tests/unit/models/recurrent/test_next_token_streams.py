"""Next tokens in streams: carried state, what is predicted, penalties."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from firth.core.errors import FirthError
from firth.corpus.format import Corpus, Split
from firth.corpus.streams import view_tokens
from firth.models.recurrent.config import NextTokenStreamsConfig, RecurrentConfig
from firth.models.recurrent.network import Recurrent
from firth.models.recurrent.objective import LOSS, NextTokenStreams, build_output
from firth.nn.softmax import TokenOutput


def build(corpus: Corpus, num_streams: int = 3, **options: Any) -> tuple[NextTokenStreams, Recurrent]:
    config = NextTokenStreamsConfig.build({"seq_len": 6, **options}, "test")
    view = view_tokens(corpus, 1, None)
    tied = config.output != "adaptive"
    model = Recurrent(
        RecurrentConfig(vocab_size=view.tokens.vocab_size, embedding_dim=8, hidden_dim=8, tied_output=tied)
    )
    model.start(torch.Generator().manual_seed(1))
    head = build_output(config, 8, tied, view.tokens.vocab_size, view)
    objective = NextTokenStreams(config, head, view, model.zero_state(num_streams))
    objective.start(0.1, torch.Generator().manual_seed(2))
    return objective, model


def run(objective: NextTokenStreams, model: Recurrent, split: Split, numbers: list[int]) -> list[float]:
    rows = objective.rows(split, 0)
    size = objective.num_streams
    batches = [objective.batch(split, rows, 0, number * size, size).to("cpu") for number in numbers]
    return [float(objective.loss(model, batch).sums[LOSS].detach()) for batch in batches]


def test_windows_with_carried_state_equal_one_long_pass(corpus: Corpus) -> None:
    objective, model = build(corpus)
    rows = objective.rows(corpus.train, 0)
    with torch.no_grad():
        found = run(objective, model, corpus.train, [0, 1, 2, 3])
        positions = np.concatenate([rows.window(number).positions for number in range(4)], 1)
        ids, labels = (torch.from_numpy(rows.text.read(places)) for places in (positions - 1, positions))
        scores = objective.head.scores(model.read(ids).hidden_TBD.flatten(0, 1), model.tokens.weight)
    whole = functional.cross_entropy(scores, labels.t().flatten(), reduction="none").view(4, -1).sum(1)
    np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_the_end_of_an_epoch(corpus: Corpus) -> None:
    """The last window is as long as the rest of the first stream; where a stream is shorter labels are -1."""
    objective, _ = build(corpus, num_streams=7)
    rows = objective.rows(corpus.heldout, 0)
    batches = [objective.batch(corpus.heldout, rows, 0, 7 * number, 7).arrays for number in range(rows.num_windows)]
    labels = np.concatenate([batch["labels"] for batch in batches], 1)
    assert labels.shape == (7, rows.longest)
    np.testing.assert_array_equal(labels[labels >= 0], rows.text.read(np.arange(len(rows.text))))
    assert (labels[:-1] >= 0).all()
    assert [bool(batch["opens"][0]) for batch in batches] == [True] + [False] * (len(batches) - 1)


def test_state_is_a_buffer_and_begins_anew(corpus: Corpus) -> None:
    objective, model = build(corpus)
    first, second = run(objective, model, corpus.train, [0, 1])
    assert {"state_0", "state_1"} <= set(objective.state_dict())
    kept = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    third = run(objective, model, corpus.train, [2])
    objective.load_state_dict(kept)
    assert run(objective, model, corpus.train, [2]) == third  # as after a restart
    epoch = objective.rows(corpus.train, 0).num_windows
    assert run(objective, model, corpus.train, [epoch, epoch + 1]) == [first, second]


def test_without_carrying_every_window_is_alone(corpus: Corpus) -> None:
    objective, model = build(corpus, carry_state=False)
    assert run(objective, model, corpus.train, [1]) == run(objective, model, corpus.train, [0, 1])[1:]


def test_held_out_text_does_not_touch_the_state(corpus: Corpus) -> None:
    objective, model = build(corpus)
    run(objective, model, corpus.train, [0])
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    objective.eval()
    with torch.inference_mode():
        once = run(objective, model, corpus.heldout, [0, 1])
        assert run(objective, model, corpus.heldout, [0, 1]) == once
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_batches_are_pure(corpus: Corpus) -> None:
    objective, _ = build(corpus)
    rows = objective.rows(corpus.train, 0)
    one, two = (objective.batch(corpus.train, rows, 0, 9, 3) for _ in range(2))
    for name in one.arrays:
        np.testing.assert_array_equal(one.arrays[name], two.arrays[name])
    assert one.counts == {LOSS: 18}


@pytest.mark.parametrize("output", ["full", "adaptive", "sampled", "nce"])
def test_every_output_layer_learns(output: str, corpus: Corpus) -> None:
    """Some steps on three windows make their fully normalised loss smaller."""
    torch.manual_seed(0)  # of the noise
    objective, model = build(corpus, output=output, num_noise=64)
    parameters = [*model.parameters(), *objective.parameters()]
    optimizer = torch.optim.Adam(parameters, 0.02)
    rows = objective.rows(corpus.train, 0)

    def normalised() -> float:
        objective.eval()
        with torch.inference_mode():
            return sum(run(objective, model, corpus.train, [0, 1, 2]))

    before = normalised()
    objective.train()
    for number in range(60):
        batch = objective.batch(corpus.train, rows, 0, number % 3 * 3, 3).to("cpu")
        optimizer.zero_grad()
        (objective.loss(model, batch).sums[LOSS] / batch.counts[LOSS]).backward()
        optimizer.step()
    assert normalised() < 0.8 * before


def test_log_z_is_measured_for_nce(corpus: Corpus) -> None:
    objective, model = build(corpus, output="nce")
    objective.eval()
    rows = objective.rows(corpus.heldout, 0)
    with torch.inference_mode():
        losses = objective.loss(model, objective.batch(corpus.heldout, rows, 0, 0, 3).to("cpu"))
    mean = losses.metrics["log_z"][0] / losses.metrics["log_z"][1]
    assert abs(mean) < 0.5  # it begins normalised
    assert losses.metrics["log_z_square"][0] >= 0


def test_penalties_by_hand(corpus: Corpus) -> None:
    objective, _ = build(corpus, activation_penalty=2.0, temporal_activation_penalty=1.0)
    hidden, raw = torch.full((3, 2, 4), 2.0), torch.arange(3.0)[:, None, None].expand(3, 2, 4)
    assert float(objective._penalties(hidden, raw)) == 6 * (2 * 4 + 1 * 1)


def test_no_text(corpus: Corpus, tmp_path: Path) -> None:
    for name in ("tokens.bin", "sentences.bin", "documents.bin"):
        (np.zeros(0, np.uint16) if name == "tokens.bin" else np.zeros(1, np.int64)).tofile(tmp_path / name)
    objective, _ = build(corpus)
    with pytest.raises(FirthError, match="no text to train on"):
        objective.rows(Split(tmp_path, "uint16"), 0)


def test_spare_rows_of_a_vocabulary(corpus: Corpus) -> None:
    view = view_tokens(corpus, 1, None)
    head = build_output(NextTokenStreamsConfig(output="nce"), 4, False, view.tokens.vocab_size + 3, view)
    assert isinstance(head, TokenOutput)
    assert head.bias.shape == (view.tokens.vocab_size + 3,)


def test_a_short_window_learns_slower(corpus: Corpus) -> None:
    """The rate of a step goes with the length of its window, so that every token weighs the same."""
    objective, _ = build(corpus, seq_len=12, random_windows=True)
    rows = objective.rows(corpus.train, 5)
    batches = [objective.batch(corpus.train, rows, 5, 3 * number, 3) for number in range(8)]
    assert len({batch.arrays["ids"].shape for batch in batches}) > 1
    for batch in batches:
        assert batch.rate == batch.to("cpu").rate == batch.arrays["ids"].shape[1] / 12
    fixed, _ = build(corpus)
    assert fixed.batch(corpus.train, fixed.rows(corpus.train, 5), 5, 0, 3).rate == 1
