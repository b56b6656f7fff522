"""Dev scores of sentence vectors: Spearman of scored pairs, accuracy and MRR of pairs."""

from collections.abc import Callable, Sequence

import numpy as np

from firth.core.types import Floats
from firth.data.sentences import ENTAILMENT, SentenceData
from firth.retrieval.exact import unit_rows

_MOST = 2000  # pairs whose texts are ranked among one another
Encode = Callable[[Sequence[str]], Floats]


def spearman(found: Sequence[float] | Floats, wanted: Sequence[float] | Floats) -> float:
    """The correlation of ranks; 0 where one side is constant."""
    from scipy.stats import rankdata

    first, second = (rankdata(np.asarray(side, np.float64)) for side in (found, wanted))
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def pair_cosines(first: Sequence[str], second: Sequence[str], encode: Encode) -> Floats:
    """The cosine of each pair; a text that occurs twice is encoded once."""
    places = {text: number for number, text in enumerate(dict.fromkeys((*first, *second)))}
    rows = unit_rows(encode(list(places)))
    one, other = (rows[[places[text] for text in texts]] for texts in (first, second))
    return np.asarray((one * other).sum(1), np.float32)


def score_examples(data: SentenceData, encode: Encode) -> dict[str, float]:
    """The main score first."""
    if data.form == "text":
        return {}
    if data.form == "scores":
        examples = data.examples
        found = pair_cosines([one.text for one in examples], [one.second or "" for one in examples], encode)
        return {"spearman": spearman(found, [float(str(one.label)) for one in examples])}
    kept = [one for one in data.examples if data.form != "nli" or one.label == ENTAILMENT][:_MOST]
    first, second = unit_rows(encode([one.text for one in kept])), unit_rows(encode([one.second or "" for one in kept]))
    scores_BB = first @ second.T
    right_B = scores_BB[np.arange(len(kept)), np.arange(len(kept))]
    texts = np.asarray([one.second or "" for one in kept])
    other_BB = texts[None, :] != texts[:, None]  # the same text in another pair is right as well
    ranks_B = 1 + ((scores_BB > right_B[:, None]) & other_BB).sum(1)
    return {"accuracy": float((ranks_B == 1).mean()), "mrr": float((1 / ranks_B).mean())}
