"""Hard negatives: for each pair the texts that look most like its second text's anchor but belong to other pairs.

Of the candidates those count that are less similar to the anchor than ``margin`` times its own text: what is nearer is probably
right as well (positive-aware mining, Moreira et al. 2024).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from firth.core.batching import Floats
from firth.data.sentences import SentenceExample
from firth.retrieval.exact import best_places, unit_rows
from firth.retrieval.words import Bm25
from firth.tasks.embed.scoring import Encode

_LOOKED_AT = 50  # candidates of each pair
_BLOCK = 256


def mine_negatives(
    examples: Sequence[SentenceExample], kind: str, num: int, margin: float, encode: Encode
) -> list[SentenceExample]:
    """The examples with so many negatives more, found among the second texts by the ``model`` or by ``bm25``."""
    pool = list(dict.fromkeys(one.second or "" for one in examples))
    place = {text: number for number, text in enumerate(pool)}
    right: dict[str, set[int]] = {}
    for one in examples:
        right.setdefault(one.text, set()).add(place[one.second or ""])
    anchors = list(right)
    found: dict[str, tuple[str, ...]] = {}
    words = Bm25(pool) if kind == "bm25" else None
    rows = None if words is not None else unit_rows(encode(pool))
    for start in range(0, len(anchors), _BLOCK):
        some = anchors[start : start + _BLOCK]
        if words is not None:
            scores = np.stack([words.scores(text) for text in some])
        else:
            assert rows is not None
            scores = np.asarray(unit_rows(encode(some)) @ rows.T, np.float32)
        for text, scores_N in zip(some, scores, strict=True):
            found[text] = tuple(pool[number] for number in _choose(scores_N, right[text], place.get(text), num, margin))
    return [replace(one, negatives=(*one.negatives, *found[one.text])) for one in examples]


def _choose(scores_N: Floats, right: set[int], itself: int | None, num: int, margin: float) -> list[int]:
    """The nearest that are not right, nor so near that they may be."""
    limit = margin * max(float(scores_N[number]) for number in right)
    best = best_places(scores_N[None], _LOOKED_AT + len(right) + 1)[0].tolist()
    return [number for number in best if number not in right and number != itself and scores_N[number] < limit][:num]
