"""The continuous cache: against a plain loop in NumPy, window by window, and from the command's function."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import firth
from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe
from firth.models.recurrent.cache import FLATNESS, SHARES, Cache, CachedScore, mixed


def by_hand(hidden: NDArray[np.float64], labels: NDArray[np.int64], size: int, flatness: float) -> NDArray[np.float64]:
    """p_cache of each token, one after another (Grave et al. 2017, eq. 3)."""
    found = np.zeros(len(labels))
    for now in range(len(labels)):
        past = range(max(0, now - size), now)
        weights = {i: math.exp(flatness * float(hidden[now] @ hidden[i])) for i in past}
        if weights:
            found[now] = sum(weight for i, weight in weights.items() if labels[i] == labels[now]) / sum(
                weights.values()
            )
    return found


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_cache_is_the_plain_loop(size: int) -> None:
    random = np.random.default_rng(0)
    hidden, labels = random.standard_normal((20, 4)), random.integers(0, 4, 20)
    cache, windows = Cache(size), []
    for first in range(0, 20, 6):  # the same whatever the windows
        part = torch.from_numpy(hidden[first : first + 6]), torch.from_numpy(labels[first : first + 6])
        windows.append(cache.log_probs(*part, [0.3, 2.0]).exp().numpy())
        cache.add(*part)
    found = np.concatenate(windows, axis=1)
    for row, flatness in zip(found, (0.3, 2.0), strict=True):
        np.testing.assert_allclose(row, by_hand(hidden, labels, size, flatness), rtol=1e-9, atol=1e-12)


def test_mixture_adds_up() -> None:
    """Over all words the mixture is 1, as both of its parts are; a cache that says nothing takes its share away."""
    random = np.random.default_rng(1)
    hidden, labels = torch.from_numpy(random.standard_normal((9, 3))), torch.from_numpy(random.integers(0, 5, 9))
    cache = Cache(6)
    cache.add(hidden[:8], labels[:8])
    model = torch.log_softmax(torch.from_numpy(random.standard_normal(5)), 0)
    total = sum(
        float(mixed(model[word : word + 1], cache.log_probs(hidden[8:], torch.tensor([word]), [0.5])[0], 0.3).exp())
        for word in range(5)
    )
    assert total == pytest.approx(1.0)
    nothing = torch.tensor([-math.inf])
    assert float(mixed(torch.zeros(1), nothing, 0.25).exp()) == pytest.approx(0.75)


def test_nothing_is_chosen_on_the_text_it_is_scored_on() -> None:
    """Each window costs what the best pair of all windows before it makes of it; the first begins with the most careful one."""
    random = np.random.default_rng(2)
    score, cost, sums = CachedScore(Cache(50)), 0.0, np.zeros((len(FLATNESS), len(SHARES)))
    hidden, labels = random.standard_normal((40, 4)), random.integers(0, 6, 40)
    model = np.log(np.full(40, 1 / 6))
    cached = np.stack([by_hand(hidden, labels, 50, one) for one in FLATNESS])
    for first in range(0, 40, 8):
        span = slice(first, first + 8)
        chosen = np.unravel_index(int(sums.argmin()), sums.shape) if first else (0, 0)
        each = np.stack(
            [-np.log((1 - share) * np.exp(model[span]) + share * cached[:, span]).sum(1) for share in SHARES], axis=1
        )
        cost += each[chosen]
        sums += each
        score.read(*(torch.from_numpy(part[span]) for part in (hidden, labels, model)))
    assert score.total == pytest.approx(cost, rel=1e-6)
    assert score.plain == pytest.approx(-model.sum())
    assert score.scores()["perplexity_token_cached"] == pytest.approx(math.exp(cost / 40), rel=1e-6)


def test_text_that_repeats_itself_gains(tmp_path: Path) -> None:
    """Documents that say one rare word again and again: the model has forgotten it, the cache has not."""
    names = [f"name{number}" for number in range(60)]
    random = np.random.default_rng(0)
    text = tmp_path / "text.txt"
    lines = [
        " ".join(f"then {name} said that {name} saw" for _ in range(12)) for name in random.choice(names, 300).tolist()
    ]
    text.write_text("\n".join(lines), encoding="utf-8")
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    firth.prepare(text, corpus, tokens="words", layout="line", heldout=0.2, workers=1)
    tiny = [
        "num_layers=1",
        "hidden_dim=16",
        "embedding_dim=16",
        "seq_len=8",
        "batch_size=4",
        "evaluations=1",
        "steps=40",
    ]
    firth.pretrain(find_run_recipe("lstm-lm").override(tiny), corpus=corpus, out=run)
    found = firth.evaluate(run, cache=40)
    assert found["perplexity_token_uncached"] == pytest.approx(found["perplexity_token"], rel=0.05)
    assert found["perplexity_token_cached"] < 0.8 * found["perplexity_token_uncached"]
    with pytest.raises(FirthError, match="above 0"):
        firth.evaluate(run, cache=0)
    with pytest.raises(FirthError, match="leave it out"):
        firth.evaluate(run, cache=10, minimal_pairs="pairs.tsv")
