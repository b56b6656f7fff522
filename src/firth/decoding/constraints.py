"""Rules for the next token: what is ruled out gets log p = -inf; nothing is renormalised here.

N rows, T tokens so far, V vocabulary.
"""

import functools

import torch

from firth.decoding.settings import Rules

_NEVER = float("-inf")


def constrain(
    rules: Rules, log_probs_NV: torch.Tensor, tokens_NT: torch.Tensor, generated_N: torch.Tensor, eos_id: int | None
) -> torch.Tensor:
    """The log-probabilities under the rules. ``tokens`` are prompt and continuation, ``generated``
    counts the tokens of the continuation. The end of a text is no repetition."""
    if rules == Rules():
        return log_probs_NV
    found = log_probs_NV.clone()
    constrain_(rules, found, tokens_NT, generated_N, eos_id)
    return found


def constrain_(
    rules: Rules, log_probs_NV: torch.Tensor, tokens_NT: torch.Tensor, generated_N: torch.Tensor, eos_id: int | None
) -> None:
    """The same in place."""
    if rules.repetition_penalty != 1.0 or rules.no_repeat_ngram:
        ends = None if eos_id is None else log_probs_NV[:, eos_id].clone()
        if rules.repetition_penalty != 1.0:
            log_probs_NV.scatter_(1, tokens_NT, log_probs_NV.gather(1, tokens_NT) * rules.repetition_penalty)
        if rules.no_repeat_ngram:
            rows, ids = repeating(tokens_NT, rules.no_repeat_ngram)
            log_probs_NV[rows, ids] = _NEVER
        if ends is not None:
            log_probs_NV[:, eos_id] = ends
    if rules.banned:
        log_probs_NV.index_fill_(1, _ids(rules.banned, log_probs_NV.device), _NEVER)
    if rules.min_tokens and eos_id is not None:
        log_probs_NV[:, eos_id].masked_fill_(generated_N < rules.min_tokens, _NEVER)


@functools.lru_cache(maxsize=8)
def _ids(banned: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(banned, device=device)


def repeating(tokens_NT: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, ids) of the tokens that would make an n-gram of that size occur a second time."""
    length = tokens_NT.shape[1]
    if length < size:
        nothing = torch.zeros(0, dtype=torch.long, device=tokens_NT.device)
        return nothing, nothing
    windows = tokens_NT.unfold(1, size, 1)
    last = tokens_NT[:, None, length - size + 1 :]
    rows, places = (windows[..., :-1] == last).all(-1).nonzero(as_tuple=True)
    return rows, windows[rows, places, -1]
