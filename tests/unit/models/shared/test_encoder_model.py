"""Texts to vectors: pooling, batching and windows against the plain way."""

from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.core.types import Inputs
from firth.models.shared.encoder_model import EncoderModel

SHORT = ["The old doctor found a clock.", "老师看见了一本书。", "", "An apple! " * 3]
LONG = "The old doctor found a broken clock near the river. " * 20


@pytest.fixture(scope="module")
def model(run_folder: Path) -> EncoderModel:
    return firth.load(run_folder)


def plain(model: EncoderModel, ids: np.ndarray, layer: int) -> np.ndarray:
    with torch.inference_mode():
        return model.encoder(Inputs(torch.from_numpy(ids)[None])).hidden[layer, 0].numpy()


POOLS = {"mean": lambda hidden: hidden.mean(0), "cls": lambda hidden: hidden[0], "max": lambda hidden: hidden.max(0)}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("layer", [-1, 0, 1, 2, -3])
def test_short_texts(model: EncoderModel, pool: str, layer: int) -> None:
    found = model.encode(SHORT, layer, pool)
    assert found.dtype == np.float32
    for text, vector in zip(SHORT, found, strict=True):
        wanted = POOLS[pool](plain(model, model.pieces.encode(text).ids, layer))
        np.testing.assert_allclose(vector, wanted, atol=1e-5)


@pytest.mark.parametrize("pool", POOLS)
def test_long_texts_go_through_in_windows(model: EncoderModel, pool: str) -> None:
    ids = model.pieces.encode(LONG).ids
    room = model.config.max_positions - 2
    assert len(ids) > 3 * room
    inner = ids[1:-1]
    windows = [np.concatenate((ids[:1], inner[start : start + room], ids[-1:])) for start in range(0, len(inner), room)]
    hidden = [plain(model, window, -1) for window in windows]
    wanted = {
        "mean": np.concatenate(hidden).mean(0),
        "cls": hidden[0][0],
        "max": np.concatenate(hidden).max(0),
    }[pool]
    alone = model.encode(LONG, pool=pool)[0]
    among = model.encode([SHORT[0], LONG, SHORT[1]], pool=pool)
    np.testing.assert_allclose(alone, wanted, atol=1e-5)
    np.testing.assert_allclose(among[1], wanted, atol=1e-5)
    np.testing.assert_allclose(among[[0, 2]], model.encode(SHORT[:2], pool=pool), atol=1e-5)


def test_layers_of_a_long_text(model: EncoderModel) -> None:
    found = model.layers(LONG)
    assert found.hidden.shape[1] == len(found.tokens) == len(found.offsets) == len(found.words)
    room = model.config.max_positions - 2
    ids = model.pieces.encode(LONG).ids
    second = plain(model, np.concatenate((ids[:1], ids[1 + room : 1 + 2 * room], ids[-1:])), -1)
    np.testing.assert_allclose(found.hidden[-1, 1 + room : 1 + 2 * room], second[1:-1], atol=1e-5)


def test_layers_of_words(model: EncoderModel) -> None:
    found = model.layers(["doctor", "unbelievable", "clock"])
    assert sorted(set(found.words.tolist())) == [-1, 0, 1, 2]


def test_no_text(model: EncoderModel) -> None:
    assert model.encode([]).shape == (0, 32)


def test_fill(model: EncoderModel) -> None:
    text = "The old [MASK] found [MASK]."
    guesses = model.fill(text, top=4)
    ids = model.pieces.encode(text).ids
    with torch.inference_mode():
        hidden = model.encoder.last(Inputs(torch.from_numpy(ids)[None]))[0]
        assert model.token_head is not None
        scores = model.token_head(hidden, model.encoder.embeddings.tokens.weight)
        scores[:, model.pieces.special_ids] = float("-inf")
        chances = scores.softmax(-1)
    for place, of_mask in zip(np.flatnonzero(ids == model.pieces.mask_id).tolist(), guesses, strict=True):
        best = chances[place].topk(4)
        assert [model.pieces.id(guess.token) for guess in of_mask] == best.indices.tolist()
        assert [guess.probability for guess in of_mask] == pytest.approx(best.values.tolist(), abs=1e-6)
    first = guesses[0][0]
    assert first.text == f"The old {first.token.removeprefix('##')} found [MASK]."


def test_fill_never_names_special_tokens(model: EncoderModel) -> None:
    everything = model.fill("a [MASK]", top=10_000)[0]
    assert len(everything) == model.config.vocab_size - len(model.pieces.special_ids)
    assert sum(guess.probability for guess in everything) == pytest.approx(1, abs=1e-4)
    assert not {"[MASK]", "[PAD]", "[CLS]"} & {guess.token for guess in everything}


def test_many_texts_are_filled_as_each_by_itself(model: EncoderModel) -> None:
    texts = ["The old [MASK] found [MASK].", "[MASK]", "A broken [MASK] near the river, in the market."]
    for text, found in zip(texts, model.fill_many(texts, 3), strict=True):
        for guesses, wanted in zip(found, model.fill(text, 3), strict=True):
            assert [guess.token for guess in guesses] == [guess.token for guess in wanted]
            assert [guess.text for guess in guesses] == [guess.text for guess in wanted]
            assert [guess.probability for guess in guesses] == pytest.approx(
                [guess.probability for guess in wanted], abs=1e-6
            )
