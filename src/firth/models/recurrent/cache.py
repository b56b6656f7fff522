"""A continuous cache of what was read (Grave et al. 2017, "Improving neural language models with a continuous cache"): a finished
language model that remembers its last states and the word that came after each. Nothing is trained.

A word is as likely by the cache as the states that it followed resemble the present one:

    p_cache(w) is proportional to the sum of exp(flatness * h_t h_i) over the remembered i whose next word is w
    p(w) = (1 - share) p_model(w) + share p_cache(w)

The paper chooses flatness and share on a validation text. Here every pair of a small grid is followed, and each stretch of text is
scored with the pair that was best on all the text before it, so nothing is chosen on text that it is scored on.

T tokens of a window, M remembered, D hidden size, G pairs of the grid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

FLATNESS = (0.01, 0.03, 0.1, 0.3, 1.0)
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)


@dataclass
class Cache:
    """The last ``size`` states, and the token after each."""

    size: int
    hidden_MD: torch.Tensor | None = None
    tokens_M: torch.Tensor | None = None

    def log_probs(
        self, hidden_TD: torch.Tensor, labels_T: torch.Tensor, flatness: Sequence[float] = FLATNESS
    ) -> torch.Tensor:
        """log p_cache of each token of a window, [T] for each flatness; minus infinity where the token was not read lately. Tokens
        of the window are remembered as soon as the next one is read."""
        keys_MD, tokens_M = self._with(hidden_TD, labels_T)
        known = len(keys_MD) - len(hidden_TD)
        places_T, places_M = torch.arange(len(hidden_TD))[:, None] + known, torch.arange(len(keys_MD))
        seen_TM = (places_M < places_T) & (places_M >= places_T - self.size)
        products_TM = (hidden_TD @ keys_MD.t()).masked_fill(~seen_TM, -math.inf)
        same_TM = products_TM.masked_fill(tokens_M != labels_T[:, None], -math.inf)
        found = [(one * same_TM).logsumexp(1) - (one * products_TM).logsumexp(1) for one in flatness]
        return torch.stack(found).masked_fill(~seen_TM.any(1), -math.inf)

    def add(self, hidden_TD: torch.Tensor, labels_T: torch.Tensor) -> None:
        keys_MD, tokens_M = self._with(hidden_TD, labels_T)
        self.hidden_MD, self.tokens_M = keys_MD[-self.size :].clone(), tokens_M[-self.size :].clone()

    def _with(self, hidden_TD: torch.Tensor, labels_T: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.hidden_MD is None or self.tokens_M is None:
            return hidden_TD, labels_T
        return torch.cat((self.hidden_MD, hidden_TD)), torch.cat((self.tokens_M, labels_T))


def mixed(model_T: torch.Tensor, cache_T: torch.Tensor, share: float) -> torch.Tensor:
    """log of the mixture of two log-probabilities. A cache that is empty gives nothing to any token, so the first token of a text
    pays the share, too."""
    return torch.logaddexp(model_T + math.log1p(-share), cache_T + math.log(share))


@dataclass
class CachedScore:
    """Adds up what a text costs with the cache, by the pair that was best before each window."""

    cache: Cache
    sums_G: torch.Tensor = field(default_factory=lambda: torch.zeros(len(FLATNESS) * len(SHARES), dtype=torch.float64))
    total: float = 0.0
    plain: float = 0.0
    count: int = 0

    @property
    def best(self) -> tuple[float, float]:
        """(flatness, share) with the least cost so far; in the beginning a careful one."""
        if not self.count:
            return FLATNESS[0], SHARES[0]
        place = int(self.sums_G.argmin())
        return FLATNESS[place // len(SHARES)], SHARES[place % len(SHARES)]

    def read(self, hidden_TD: torch.Tensor, labels_T: torch.Tensor, model_T: torch.Tensor) -> None:
        """A window, with the log-probabilities of its tokens by the model alone."""
        hidden_TD, model_T = hidden_TD.float(), model_T.double()
        found = self.cache.log_probs(hidden_TD, labels_T).double()
        costs = {
            (flatness, share): -float(mixed(model_T, cache_T, share).sum())
            for flatness, cache_T in zip(FLATNESS, found, strict=True)
            for share in SHARES
        }
        self.total += costs[self.best]
        self.plain -= float(model_T.sum())
        self.sums_G += torch.tensor(list(costs.values()), dtype=torch.float64)
        self.count += len(labels_T)
        self.cache.add(hidden_TD, labels_T)

    def scores(self) -> dict[str, float]:
        flatness, share = self.best
        return {
            "perplexity_token_uncached": math.exp(self.plain / self.count),
            "perplexity_token_cached": math.exp(self.total / self.count),
            "cache_size": float(self.cache.size),
            "cache_flatness": flatness,
            "cache_share": share,
        }
