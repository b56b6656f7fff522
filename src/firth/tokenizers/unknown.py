"""Tokens that a tokenizer does not know, counted wherever a text is read, so that every command and route can say so."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

UNKNOWN_PIECES = 0.1  # of the tokens; more: another language or script than the model's
UNKNOWN_WORDS = 0.5  # of a vocabulary of words, which lacks some of every text
_SAMPLE_TEXTS, _SAMPLE_CHARS = 64, 2000


class Tally:
    """What the tokenizers of this process have read; ``limit`` belongs to the last one that did not know something."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.tokens = self.unknown = 0
        self.limit = UNKNOWN_PIECES

    def add(self, ids: NDArray[np.int64] | list[int], unk_id: int | None, limit: float = UNKNOWN_PIECES) -> None:
        self.tokens += len(ids)
        if unk_id is not None and (found := int(np.count_nonzero(np.asarray(ids) == unk_id))):
            self.unknown += found
            self.limit = limit

    @property
    def warning(self) -> str | None:
        return unknown_warning(self.unknown / max(self.tokens, 1), self.limit)


READ = Tally()


def unknown_warning(share: float, limit: float = UNKNOWN_PIECES) -> str | None:
    """A sentence where more than the limit is unknown."""
    if share <= limit:
        return None
    return (
        f"{share:.0%} of the tokens are unknown to the model, more than {limit:.0%}: it has learned another language or "
        "script, and its answers mean little; firth tokens MODEL TEXT shows which"
    )


def word_share(words: Iterable[str], known: Callable[[str], bool]) -> float:
    """The share of words that are not known."""
    found = [known(word) for word in words]
    return 1 - sum(found) / len(found) if found else 0.0


def sample_texts(texts: Iterable[str]) -> list[str]:
    """Enough of them to know the share of what is unknown."""
    found: list[str] = []
    for text in texts:
        if len(found) == _SAMPLE_TEXTS:
            break
        found.append(text[:_SAMPLE_CHARS])
    return found
