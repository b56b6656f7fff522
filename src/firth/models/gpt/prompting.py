"""Classifying by prompt: examples with their labels, then a text, and which label the model would write next.

The examples are read once; each text with each label after it is scored against their keys and values.
Nothing is trained (Brown et al. 2020).

N rows, T tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from firth.core.errors import FirthError
from firth.models.gpt.model import DecoderModel

TEMPLATE = "{text}\nLabel: {label}\n\n"
_BATCH_TOKENS = 4096


@dataclass(frozen=True)
class PromptedLabel:
    """The likeliest label, and the probability of each among those that the examples have."""

    label: str
    probabilities: dict[str, float]


def classify_by_prompt(
    model: DecoderModel,
    examples: Sequence[tuple[str, str]],
    texts: Sequence[str],
    template: str = TEMPLATE,
) -> list[PromptedLabel]:
    """``examples`` are (text, label); the labels of all texts are sought among theirs."""
    opening, middle, closing = _parts(template)
    labels = list(dict.fromkeys(label for _, label in examples))
    if len(labels) < 2:
        raise FirthError(f"the examples have {len(labels)} label(s): at least two different ones are needed")
    shown = "".join(f"{opening}{text}{middle}{label}{closing}" for text, label in examples)
    # The space before a label belongs to it, as in all text that the model has read.
    question, space = middle.rstrip(" "), middle[len(middle.rstrip(" ")) :]
    asked = [[model.eos_id, *model.ids(f"{shown}{opening}{text}{question}").tolist()] for text in texts]
    answers = [model.ids(space + label).tolist() for label in labels]
    most = model.config.max_positions
    needed = max(map(len, asked), default=0) + max(map(len, answers))
    if needed > most:
        raise FirthError(
            f"examples and text come to {needed} tokens, more than the model's {most}: give fewer or shorter examples"
        )
    if not texts:
        return []
    head = _shared(asked)
    rows = [(text[len(head) :], answer) for text in asked for answer in answers]
    scores = np.asarray(_scores(model, head, rows)).reshape(len(texts), len(labels))
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return [PromptedLabel(labels[int(row.argmax())], dict(zip(labels, row.tolist(), strict=True))) for row in shares]


def _parts(template: str) -> tuple[str, str, str]:
    """What stands before the text, between text and label, and after the label."""
    before, has_text, rest = template.partition("{text}")
    middle, has_label, after = rest.partition("{label}")
    if not has_text or not has_label:
        raise FirthError(f"template '{template}' must have {{text}} and, after it, {{label}}")
    return before, middle, after


def _shared(rows: list[list[int]]) -> list[int]:
    """The tokens with which all rows begin: where the examples end is the tokenizer's affair."""
    first, last = min(rows), max(rows)
    same = next((place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:same]


def _scores(model: DecoderModel, head: list[int], rows: list[tuple[list[int], list[int]]]) -> list[float]:
    """log p of each answer after the head and its text."""
    decoder, found = model.decoder, []
    size = max(1, _BATCH_TOKENS // max((len(text) + len(answer) for text, answer in rows), default=1))
    with torch.inference_mode():
        cache = decoder.begin(1)
        before = decoder.advance(torch.tensor([head]), cache)[:, -1:]
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            longest = max(len(text) + len(answer) for text, answer in some)
            ids = torch.tensor([[*text, *answer, *[0] * (longest - len(text) - len(answer))] for text, answer in some])
            copies = torch.zeros(len(some), dtype=torch.long)
            hidden = decoder.advance(ids, cache.reorder(copies))
            # Place t of ``hidden`` predicts token t once the last place of the head stands before it.
            hidden = torch.cat((before[copies], hidden[:, :-1]), 1)
            for row, (text, answer) in enumerate(some):
                scores = decoder.scores(hidden[row, len(text) : len(text) + len(answer)])
                log_probs = scores[:, : model.pieces.vocab_size].float().log_softmax(-1)
                found.append(float(log_probs.gather(1, torch.tensor(answer)[:, None]).sum()))
    return found
