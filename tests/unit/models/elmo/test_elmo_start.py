"""ELMo begins with word vectors: what is taken, that the token layer learns to spell them, that it can be had again."""

from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe
from firth.core.run import Run
from firth.corpus.format import Corpus
from firth.models.elmo.model import SOFTMAX
from firth.models.elmo.objective import ElmoPretraining, mimic, standardised
from firth.models.pretrain import start_run
from firth.models.shared.embeddings import check_start
from firth.nn.character_cnn import CharacterCNN, TableSoftmax
from firth.vectors.word_vectors import WordVectors

SMALL = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=6", "batch_size=3", "max_vocab=40"]


def family(folder: Path, *settings: str) -> ElmoPretraining:
    config = find_run_recipe("elmo-tiny").override([*SMALL, "steps=2", *settings])
    return ElmoPretraining(config, Corpus.open(folder))


def test_standardised() -> None:
    found = standardised(np.random.default_rng(0).normal(3.0, 0.1, (50, 4)).astype(np.float32))
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-4)
    assert float(found.std()) == pytest.approx(1.0, abs=1e-4)


def test_rows_of_the_softmax_are_the_vectors(words_folder: Path) -> None:
    trainable = family(words_folder)
    softmax = trainable.objective.softmax
    assert isinstance(softmax, TableSoftmax)
    before = softmax.rows.weight.detach().clone()
    words = trainable.token_names()[5:20]
    matrix = np.random.default_rng(0).normal(1.0, 2.0, (16, 8)).astype(np.float32)
    assert trainable.take_vectors(WordVectors([*words, "nothing"], matrix)) == 15
    rows = matrix[:15] - matrix[:15].mean(0)
    wanted = rows / rows.std(ddof=1) * float(before.std())
    np.testing.assert_allclose(softmax.rows.weight[5:20].detach(), wanted, rtol=1e-3, atol=1e-5)
    assert torch.equal(softmax.rows.weight[:5], before[:5])
    assert torch.equal(softmax.rows.weight[20:], before[20:])


def test_the_token_layer_learns_to_spell_them() -> None:
    """Vectors that depend on characters are found for words that were not shown."""
    draws = np.random.default_rng(0)
    characters = np.full((900, 12), 9)
    lens = draws.integers(2, 6, 900)
    for row, size in enumerate(lens):
        characters[row, :size] = draws.integers(1, 9, size)
    truth = draws.normal(size=(10, 6))
    vectors = np.stack([truth[row[:size]].sum(0) for row, size in zip(characters, lens, strict=True)])
    goal = standardised(vectors.astype(np.float32))
    network = CharacterCNN(10, 8, [(1, 32), (2, 32)], 1, 6)
    network.initialize(torch.Generator().manual_seed(0))
    errors = [mimic(network, characters[:800], goal[:800], np.ones(800, np.int64), seed) for seed in range(12)]
    assert errors[-1][-1] < 0.5 * errors[0][0]
    with torch.no_grad():
        left = (network(torch.from_numpy(characters[800:])) - goal[800:]).square().mean()
    assert float(left) < 0.6


def test_the_same_again(words_folder: Path, tmp_path: Path) -> None:
    """A run that is begun again ends with the same bytes, and the record says what the vectors took."""
    config = find_run_recipe("elmo-tiny").override([*SMALL, "steps=2"])
    for name in ("one", "two"):
        start_run(config, words_folder, tmp_path / name)
    found = [(tmp_path / name / SOFTMAX).read_bytes() for name in ("one", "two")]
    assert found[0] == found[1]
    record = Run.open(tmp_path / "one").record.embeddings
    assert record is not None
    assert record.rows > 10
    assert record.seconds > 0


def test_vectors_that_do_not_fit_are_refused(words_folder: Path, tmp_path: Path) -> None:
    firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "words", dim=4, epochs=1, threads=1)
    with pytest.raises(FirthError, match="the vectors have 4 dimensions, the token table 8"):
        check_start(family(words_folder, f"embeddings={tmp_path / 'words'}"))
    check_start(family(words_folder, "embeddings=auto"))
