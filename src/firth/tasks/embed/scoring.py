"""Dev scores of sentence vectors: Spearman of scored pairs, accuracy and MRR of pairs."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from firth.core.types import Floats
from firth.data.sentences import ENTAILMENT, SentenceData
from firth.models.shared.sentences import SentenceConfig, pair_similarities, similarities
from firth.tasks.scores import spearman

_MOST = 2000  # pairs whose texts are ranked among one another
_PLAIN = SentenceConfig()


class Encode(Protocol):
    def __call__(self, texts: Sequence[str], /, *, prompt: str | None = None) -> Floats: ...


def encode_with(encode: Encode, texts: Sequence[str], prompt: str | None) -> Floats:
    """Without a prompt any function of texts will do."""
    return encode(texts) if prompt is None else encode(texts, prompt=prompt)


def prompt_names(form: str, config: SentenceConfig) -> tuple[str | None, str | None]:
    """The prompts of first and of other texts: those of questions and passages where texts belong together, else the usual."""
    return (config.question_prompt, config.passage_prompt) if form in ("pairs", "triplets") else (None, None)


def prompts_of(form: str, config: SentenceConfig) -> tuple[str, str]:
    """What is written before first and before other texts."""
    first, other = prompt_names(form, config)
    return config.prompt(first), config.prompt(other)


def score_pairs(first: Sequence[str], second: Sequence[str], encode: Encode, kind: str = "cosine") -> Floats:
    """The similarity of each pair; a text that occurs twice is encoded once."""
    places = {text: number for number, text in enumerate(dict.fromkeys((*first, *second)))}
    rows = encode(list(places))
    one, other = (rows[[places[text] for text in texts]] for texts in (first, second))
    return pair_similarities(one, other, kind)


def score_examples(data: SentenceData, encode: Encode, config: SentenceConfig = _PLAIN) -> dict[str, float]:
    """The main score first. ``config`` of the model has its prompts and its similarity function."""
    if data.form == "text":
        return {}
    if data.form == "scores":
        examples = data.examples
        first, second = [one.text for one in examples], [one.second or "" for one in examples]
        found = score_pairs(first, second, encode, config.similarity)
        return {"spearman": float(spearman(found, [float(str(one.label)) for one in examples]))}
    kept = [one for one in data.examples if data.form != "nli" or one.label == ENTAILMENT][:_MOST]
    asked, read = prompt_names(data.form, config)
    anchors, texts = (np.asarray(some) for some in zip(*((one.text, one.second or "") for one in kept), strict=True))
    rows = encode_with(encode, anchors.tolist(), asked), encode_with(encode, texts.tolist(), read)
    scores_BB = similarities(*rows, config.similarity)
    right_B = scores_BB[np.arange(len(kept)), np.arange(len(kept))]
    other_BB = texts[None, :] != texts[:, None]  # the same text in another pair is right as well, ...
    other_BB &= anchors[None, :] != anchors[:, None]  # ... and so is another text of the same anchor
    ranks_B = 1 + ((scores_BB > right_B[:, None]) & other_BB).sum(1)
    return {"accuracy": float((ranks_B == 1).mean()), "mrr": float((1 / ranks_B).mean())}
