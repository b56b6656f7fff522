"""Continuing texts with any model that steps: settings by name, texts in, texts out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, model_validator

from firth.core.config import Config, Positive
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam, Hypothesis, Rules, Sampling, State, Stepper, Trace, continue_prompts
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.word_tokens import AnyTokens


@dataclass(frozen=True)
class Continuation:
    """A text that goes on. ``score`` is log p of what was added."""

    text: str  # whole
    added: str
    score: float
    tokens: list[str]  # of what was added
    finished: bool  # the model ended it; otherwise there was no more room


class Generation(Config):
    """How texts are continued: by beam search with ``beams``, else by drawing (temperature 0: the likeliest)."""

    max_tokens: Positive = 50
    num: Positive = 1  # continuations of each text
    beams: Annotated[int, Field(ge=0, le=1000)] = 0
    length_penalty: Annotated[float, Field(ge=0)] = 0.6  # of beam search, as in GNMT; 0: none
    temperature: Annotated[float, Field(ge=0)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    min_tokens: Annotated[int, Field(ge=0)] = 0
    no_repeat_ngram: Annotated[int, Field(ge=0)] = 0
    repetition_penalty: Annotated[float, Field(ge=1)] = 1.0

    @model_validator(mode="after")
    def _fits(self) -> "Generation":
        if self.beams and self.num > self.beams:
            raise ValueError(f"{self.num} continuations need as many beams, not {self.beams}: raise beams or lower num")
        if not self.beams and self.num > 1 and self.temperature == 0:
            raise ValueError("temperature 0 always gives the same continuation: ask for one, or use beams")
        return self


def generate(
    stepper: Stepper[State],
    tokens: AnyTokens,
    texts: Sequence[str],
    settings: Generation,
    trace: Trace | None = None,
    bos_id: int | None = None,
) -> list[list[Continuation]]:
    """Each text continued ``num`` times, best first where they are ranked. A text is read as the beginning
    of a document, after ``bos_id`` or else the token that ends texts; the unknown and special tokens other than the end are never said."""
    prompts = [_prompt(tokens, text, bos_id) for text in texts]
    silent = set(tokens.special_ids if isinstance(tokens, Pieces) else ()) - {tokens.eos_id}
    if tokens.unk_id is not None:
        silent.add(tokens.unk_id)
    rules = Rules(
        min_tokens=settings.min_tokens,
        banned=tuple(sorted(silent)),
        no_repeat_ngram=settings.no_repeat_ngram,
        repetition_penalty=settings.repetition_penalty,
    )
    room, end = settings.max_tokens, tokens.eos_id
    if settings.beams:
        beam = Beam(width=settings.beams, num_best=settings.num, alpha=settings.length_penalty)
        found = beam_search(stepper, prompts, room, end, beam, rules, trace)
    else:
        sampling = Sampling(temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p)
        # One seed a continuation of a text, so that what else is in the batch makes no difference.
        seeds = [settings.seed + (number << 32) for _ in prompts for number in range(settings.num)]
        repeated = [prompt for prompt in prompts for _ in range(settings.num)]
        flat = continue_prompts(stepper, repeated, room, end, sampling, seeds, rules)
        found = [flat[place : place + settings.num] for place in range(0, len(flat), settings.num)]
    return [
        [_spell(tokens, text, prompt, one) for one in some]
        for text, prompt, some in zip(texts, prompts, found, strict=True)
    ]


def _prompt(tokens: AnyTokens, text: str, bos_id: int | None) -> list[int]:
    assert tokens.eos_id is not None, "such a model is only trained with a token that ends texts"
    if isinstance(tokens, Pieces):
        return [
            tokens.eos_id if bos_id is None else bos_id,
            *tokens.encode(text, add_special=False, read_special=False).ids.tolist(),
        ]
    return [tokens.eos_id, *tokens.encode(text).ids.tolist()]


def _spell(tokens: AnyTokens, text: str, prompt: list[int], found: Hypothesis) -> Continuation:
    """What was added, with the space before it if the tokens are joined by one."""
    before, whole = tokens.decode(prompt), tokens.decode([*prompt, *found.ids])
    added = whole[len(before) :] if whole.startswith(before) else tokens.decode(found.ids)
    said = [tokens.token(number) for number in found.ids]
    return Continuation(text + added, added, found.score, said, found.finished)


def spell_trace(trace: Trace, tokens: AnyTokens, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The trees of a beam search as plain data, with what each token says."""
    return [
        {"text": text, "nodes": [{**node, "says": tokens.decode([node["token"]])} for node in nodes]}
        for text, nodes in zip(texts, trace.plain(), strict=True)
    ]
