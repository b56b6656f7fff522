"""The relative attention of XLNet where half precision would overflow (its numbers are checked by parity)."""

import torch

from firth.models.xlnet.network import Distances, RelativeAttention, distance_table


def test_what_may_not_be_seen_in_half_precision() -> None:
    """Masked scores stay finite numbers of their own precision, and what nobody may see weighs nothing."""
    torch.manual_seed(0)
    attention = RelativeAttention(8, 2, 0.0).half()
    content = torch.randn(1, 3, 8).half()
    distances = Distances(distance_table(3, 3, 8)[None].half(), None)
    seen = torch.tensor([[[True, False, False], [True, True, False], [False, False, False]]])
    weights = attention.weights(content, attention.answers(content, distances), distances, seen)
    assert weights.isfinite().all()
    assert (weights[:, :, ~seen[0]] == 0).all()
    torch.testing.assert_close(weights[0, :, :2].sum(-1), torch.ones(2, 2).half(), atol=1e-2, rtol=0)
