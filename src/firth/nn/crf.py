"""A linear-chain conditional random field over tags (Lafferty et al. 2001; Lample et al. 2016).

B batch, T places, K tags. The score of a path is its start, the scores of its tags, its steps from
tag to tag and its end. A mask may leave out any places (inner pieces of words, padding): the
chain runs over the others.
"""

import torch
from torch import nn

# As good as minus infinity for scores, and sums of it stay finite, so that no gradient is ever NaN.
FORBIDDEN = -1e4


class CRF(nn.Module):
    """Steps between tags, learned; those that a tag scheme forbids stay forbidden."""

    allowed_start: torch.Tensor
    allowed_step: torch.Tensor
    allowed_end: torch.Tensor

    def __init__(
        self,
        num_tags: int,
        allowed_start: torch.Tensor | None = None,
        allowed_step: torch.Tensor | None = None,
        allowed_end: torch.Tensor | None = None,
    ) -> None:
        """``allowed_step`` [K, K] is true where the column may follow the row; nothing given, all is allowed."""
        super().__init__()
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.step = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))
        for name, given, shape in (
            ("allowed_start", allowed_start, (num_tags,)),
            ("allowed_step", allowed_step, (num_tags, num_tags)),
            ("allowed_end", allowed_end, (num_tags,)),
        ):
            allowed = torch.ones(shape, dtype=torch.bool) if given is None else given.to(torch.bool)
            assert allowed.shape == shape
            self.register_buffer(name, allowed, persistent=False)

    def log_likelihood(self, scores_BTK: torch.Tensor, tags_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """log p(tags | scores) of each row [B]; 0 for a row without places."""
        scores_BTK, lens_B, order_BT = _packed(scores_BTK, mask_BT)
        tags_BT = tags_BT.gather(1, order_BT)
        return self._path_score(scores_BTK, tags_BT, lens_B) - self._log_sum(scores_BTK, lens_B)

    @torch.no_grad()
    def decode(self, scores_BTK: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """The best path (Viterbi) [B, T], -1 at places that the mask leaves out."""
        packed_BTK, lens_B, order_BT = _packed(scores_BTK, mask_BT)
        start_K, step_KK, end_K = self._weights()
        num_places = packed_BTK.shape[1]
        best_BK = start_K + packed_BTK[:, 0]
        from_BTK = torch.arange(packed_BTK.shape[2], device=packed_BTK.device).expand(packed_BTK.shape).clone()
        for place in range(1, num_places):
            value_BK, origin_BK = (best_BK[:, :, None] + step_KK).max(1)
            alive_B1 = (lens_B > place)[:, None]
            best_BK = torch.where(alive_B1, value_BK + packed_BTK[:, place], best_BK)
            # Beyond the end each tag comes from itself, so that all rows can be walked back from T.
            from_BTK[:, place] = torch.where(alive_B1, origin_BK, from_BTK[:, place])
        tag_B = (best_BK + end_K).argmax(1)
        path = [tag_B]
        for place in range(num_places - 1, 0, -1):
            tag_B = from_BTK[:, place].gather(1, tag_B[:, None])[:, 0]
            path.append(tag_B)
        path_BT = torch.stack(path[::-1], 1)
        return torch.full_like(path_BT, -1).scatter(1, order_BT, path_BT).masked_fill(~mask_BT.bool(), -1)

    @torch.no_grad()
    def marginals(self, scores_BTK: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """p(tag at place | scores) [B, T, K], 0 at places that the mask leaves out (forward-backward)."""
        packed_BTK, lens_B, order_BT = _packed(scores_BTK, mask_BT)
        _, step_KK, end_K = self._weights()
        forward = list(self._forward(packed_BTK, lens_B))
        backward_BK = end_K.expand(forward[0].shape)
        probs = []
        for place in range(packed_BTK.shape[1] - 1, -1, -1):
            if place + 1 < packed_BTK.shape[1]:
                following_BK = (step_KK + (packed_BTK[:, place + 1] + backward_BK)[:, None, :]).logsumexp(2)
                backward_BK = torch.where((lens_B > place + 1)[:, None], following_BK, backward_BK)
            probs.append((forward[place] + backward_BK).softmax(1))
        probs_BTK = torch.stack(probs[::-1], 1)
        index_BTK = order_BT[:, :, None].expand_as(probs_BTK)
        return torch.zeros_like(probs_BTK).scatter(1, index_BTK, probs_BTK) * mask_BT[:, :, None].to(probs_BTK.dtype)

    def _weights(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return (
            self.start.masked_fill(~self.allowed_start, FORBIDDEN),
            self.step.masked_fill(~self.allowed_step, FORBIDDEN),
            self.end.masked_fill(~self.allowed_end, FORBIDDEN),
        )

    def _forward(self, scores_BTK: torch.Tensor, lens_B: torch.Tensor) -> list[torch.Tensor]:
        """At each place the log of the summed paths that end in each tag [B, K]; constant beyond a row's end."""
        start_K, step_KK, _ = self._weights()
        sums = [start_K + scores_BTK[:, 0]]
        for place in range(1, scores_BTK.shape[1]):
            next_BK = (sums[-1][:, :, None] + step_KK).logsumexp(1) + scores_BTK[:, place]
            sums.append(torch.where((lens_B > place)[:, None], next_BK, sums[-1]))
        return sums

    def _log_sum(self, scores_BTK: torch.Tensor, lens_B: torch.Tensor) -> torch.Tensor:
        last_BK = self._forward(scores_BTK, lens_B)[-1]
        return torch.where(lens_B > 0, (last_BK + self._weights()[2]).logsumexp(1), 0.0)

    def _path_score(self, scores_BTK: torch.Tensor, tags_BT: torch.Tensor, lens_B: torch.Tensor) -> torch.Tensor:
        start_K, step_KK, end_K = self._weights()
        present_BT = torch.arange(tags_BT.shape[1], device=tags_BT.device) < lens_B[:, None]
        tags_BT = tags_BT.masked_fill(~present_BT, 0)  # labels of padding are often -100
        own_BT = scores_BTK.gather(2, tags_BT[:, :, None])[:, :, 0].masked_fill(~present_BT, 0.0)
        steps_BT = step_KK[tags_BT[:, :-1], tags_BT[:, 1:]].masked_fill(~present_BT[:, 1:], 0.0)
        last_B = tags_BT.gather(1, (lens_B - 1).clamp(min=0)[:, None])[:, 0]
        total_B = start_K[tags_BT[:, 0]] + own_BT.sum(1) + steps_BT.sum(1) + end_K[last_B]
        return torch.where(lens_B > 0, total_B, 0.0)


def _packed(scores_BTK: torch.Tensor, mask_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The places that count moved to the front of each row, how many they are, and where each came from [B, T]."""
    mask_BT = mask_BT.bool()
    order_BT = (~mask_BT).to(torch.int8).argsort(dim=1, stable=True)
    return scores_BTK.gather(1, order_BT[:, :, None].expand_as(scores_BTK)), mask_BT.sum(1), order_BT
