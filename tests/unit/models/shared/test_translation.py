"""Batches of sentence pairs by hand, the smoothed loss by its formula, sums that do not depend on how pairs are cut."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.core.types import Batch
from firth.corpus.pairs import PairsCorpus
from firth.corpus.prepare_pairs import prepare_pairs
from firth.models.shared.configs import TranslationConfig
from firth.models.shared.translation import PairSpecials, Translation
from pair_text import sentence_pairs, write_sides

SPECIALS = PairSpecials(source_pad_id=90, source_eos_id=91, start_id=92, eos_id=93)


class Rows:
    """Given pairs as rows."""

    def __init__(self, *rows: list[int]) -> None:
        self.rows = rows

    def pairs(self, number: int) -> np.ndarray[Any, Any]:
        return np.asarray(self.rows[number])


class Pairs:
    sides = {"source": [[5, 6, 7], [8]], "target": [[15], [16, 17]]}  # noqa: RUF012

    def sentence(self, side: str, number: int) -> np.ndarray[Any, Any]:
        return np.asarray(self.sides[side][number])


class Fixed(torch.nn.Module):
    """Scores that depend on the place only."""

    def hidden(self, source: torch.Tensor, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        table = torch.randn(100, 4, generator=generator)
        return table[target]

    def output_weights(self) -> tuple[torch.Tensor, None]:
        return torch.randn(100, 4, generator=torch.Generator().manual_seed(1)), None

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ self.output_weights()[0].T


def make(rows: Any, first: int = 0, count: int = 1, smoothing: float = 0.1) -> tuple[Translation, Batch]:
    objective = Translation(TranslationConfig(label_smoothing=smoothing), SPECIALS)
    split: Any = Pairs()
    return objective, objective.batch(split, rows, 0, first, count).to("cpu")


def test_long_texts_lose_their_ends() -> None:
    objective = Translation(TranslationConfig(max_source_len=2, max_target_len=1), SPECIALS)
    split: Any = Pairs()
    batch = objective.batch(split, Rows([0, 1]), 0, 0, 1)  # type: ignore[arg-type]
    assert batch.arrays["source"].tolist() == [[5, 6, 91], [8, 91, 90]]
    assert batch.arrays["labels"].tolist() == [15, 93, 16, 93]


def test_a_batch_by_hand() -> None:
    _, batch = make(Rows([0, 1]))
    found = {name: array.tolist() for name, array in batch.arrays.items()}
    assert found["source"] == [[5, 6, 7, 91], [8, 91, 90, 90]]
    assert found["source_tokens"] == [[True] * 4, [True, True, False, False]]
    assert found["target"] == [[92, 15, 92], [92, 16, 17]]
    assert found["labels"] == [15, 93, 16, 17, 93]
    assert found["places"] == [0, 1, 3, 4, 5]
    assert batch.counts == {"target": 5}
    assert batch.num_tokens == 11


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_by_its_formula(smoothing: float) -> None:
    objective, batch = make(Rows([0, 1]), smoothing=smoothing)
    model = Fixed()
    logs = model.scores(model.hidden(*(batch.tensors[name] for name in ("source", "source_tokens", "target"))))
    logs = logs.log_softmax(-1).flatten(0, 1)[batch.tensors["places"]]
    true = -logs[torch.arange(5), batch.tensors["labels"]]
    wanted = ((1 - smoothing) * true + smoothing * -logs.mean(-1)).sum()
    torch.testing.assert_close(objective.train().loss(model, batch).sums["target"], wanted)
    plain = objective.eval().loss(model, batch)
    torch.testing.assert_close(plain.sums["target"], true.sum())
    assert plain.metrics["accuracy"] == (float((logs.argmax(-1) == batch.tensors["labels"]).sum()), 5.0)


def test_two_rows_are_their_sum() -> None:
    rows = Rows([0], [1])
    objective, both = make(rows, 0, 2)
    parts = [make(rows, place)[1] for place in (0, 1)]
    sums = [objective.train().loss(Fixed(), part).sums["target"] for part in (both, *parts)]
    torch.testing.assert_close(sums[0], sums[1] + sums[2])
    assert both.counts["target"] == sum(part.counts["target"] for part in parts)


def test_batches_are_functions_of_their_number(tmp_path: Path) -> None:
    tokens = TokensConfig(kind="bpe", vocab_size=300, lowercase=False)
    prepare_pairs([*write_sides(tmp_path, sentence_pairs(80))], tmp_path / "c", tokens, heldout=0.0)
    corpus = PairsCorpus.open(tmp_path / "c")
    objective = Translation(TranslationConfig(batch_tokens=64), SPECIALS)
    one, two = (objective.rows(corpus.train, 3) for _ in range(2))
    for number in (5, 0, len(one) + 1):
        for name, array in objective.batch(corpus.train, one, 3, number, 1).arrays.items():
            np.testing.assert_array_equal(array, objective.batch(corpus.train, two, 3, number, 1).arrays[name])
            if array.ndim == 2:
                assert array.size <= 64
    with pytest.raises(FirthError, match="no pairs to train on"):
        objective.rows(corpus.heldout, 3)
