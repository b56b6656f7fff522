"""Full and sampled softmax; a sampled one has the right mean, the CNN-softmax its formula."""

import numpy as np
import pytest
import torch

from firth.nn.character_cnn import CharacterCNN, CharacterSoftmax, TableSoftmax, sampled_loss
from firth.nn.softmax import cross_entropy_sum, draw_log_uniform, log_expected_counts, log_uniform_shares

N, P, V = 6, 4, 40


def test_log_uniform_by_hand() -> None:
    shares = log_uniform_shares(np.arange(V), V)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == pytest.approx(np.log(2) / np.log(V + 1))
    draws = np.concatenate([draw_log_uniform(1, V, 7, number)[0] for number in range(4000)])
    np.testing.assert_allclose(np.bincount(draws, minlength=V) / 4000, shares, atol=0.03)


def test_a_sample_holds_each_word_once_and_its_expected_count() -> None:
    counts = np.zeros(V)
    expected = []
    for number in range(1500):
        words, num_draws = draw_log_uniform(10, V, 3, number)
        assert len(set(words.tolist())) == 10
        assert num_draws >= 10
        counts[words] += 1
        expected.append(np.exp(log_expected_counts(np.arange(V), V, num_draws)))
    np.testing.assert_allclose(counts / 1500, np.mean(expected, axis=0), atol=0.05)
    again, _ = draw_log_uniform(10, V, 3, 1499)
    np.testing.assert_array_equal(words, again)
    everything, _ = draw_log_uniform(V, V, 3, 1)
    assert sorted(everything.tolist()) == list(range(V))


def test_full_loss_is_cross_entropy() -> None:
    torch.manual_seed(0)
    hidden, head, targets = torch.randn(N, P), TableSoftmax(V, P), torch.randint(0, V, (N,))
    scores = (hidden @ head.rows.weight.T + head.bias).log_softmax(-1)
    wanted = -scores[torch.arange(N), targets]
    torch.testing.assert_close(cross_entropy_sum(hidden, head.rows.weight, head.bias, targets), wanted.sum())
    with torch.inference_mode():
        torch.testing.assert_close(cross_entropy_sum(hidden, head.rows.weight, head.bias, targets), wanted.sum())


def test_sampled_loss_by_hand() -> None:
    """Scores less the log of the expected count; the target is not its own noise."""
    torch.manual_seed(0)
    hidden, rows, bias = torch.randn(2, P), torch.randn(5, P), torch.randn(5)
    log_expected = torch.tensor([-0.5, -1.0, -1.5, -2.0, -2.5])
    targets, samples = torch.tensor([0, 3]), torch.tensor([1, 3, 4])
    scores = hidden @ rows.T + bias - log_expected
    first = torch.stack([scores[0, place] for place in (0, 1, 3, 4)])
    second = torch.stack([scores[1, place] for place in (3, 1, 4)])
    wanted = torch.stack([-first.log_softmax(0)[0], -second.log_softmax(0)[0]])
    torch.testing.assert_close(sampled_loss(hidden, rows, bias, log_expected, targets, samples), wanted)


def test_all_words_as_noise_give_the_cross_entropy_sum() -> None:
    torch.manual_seed(1)
    hidden, head, targets = torch.randn(N, P), TableSoftmax(V, P), torch.randint(0, V, (N,))
    everything = torch.arange(V)
    found = sampled_loss(hidden, head.rows.weight, head.bias, torch.zeros(V), targets, everything)
    torch.testing.assert_close(found.sum(), cross_entropy_sum(hidden, head.rows.weight, head.bias, targets))


@pytest.mark.parametrize("own", [False, True])
def test_character_softmax_is_its_formula(own: bool) -> None:
    torch.manual_seed(2)
    network = CharacterCNN(262, 3, [(2, 5)], 1, P)
    head = CharacterSoftmax(network if own else None, V, P, 3)
    assert (head.network is not None) == own
    words, ids = torch.tensor([4, 9]), torch.randint(1, 262, (2, 12))
    rows = head.rows(words, network(ids))
    hidden = torch.randn(P)
    for place, word in enumerate(words.tolist()):
        spelt = network(ids)[place]
        wanted = hidden @ spelt + hidden @ (head.widen.weight @ head.correction.weight[word])
        torch.testing.assert_close(hidden @ rows[place], wanted)
