"""A trained T5: it fills in what was taken out of a text, and writes what it was taught to (Raffel et al. 2020).

Spans are written for given sentinels: each sentinel once, in order, with at least one token after it.

N rows, V vocabulary.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from firth.core.errors import FirthError
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.types import Frame, TextReader
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam, Rules
from firth.models.shared.encoder_decoder import DecoderState, EncoderDecoder, EncoderDecoderStepper
from firth.models.shared.model import Guess
from firth.models.shared.translation_model import TranslationModel
from firth.tokenizers.pieces import PATTERN, sentinel, sentinel_ids


@dataclass
class SpanState:
    """What the model keeps, which sentinel each row is at (-1: before the first), and the tokens since."""

    inner: DecoderState
    at_N: torch.Tensor
    written_N: torch.Tensor


class SpanStepper:
    """A ``Stepper`` that rules out what is no filling; the log-probabilities of the rest stay as they are."""

    def __init__(self, inner: EncoderDecoderStepper, sentinels: list[int], eos_id: int, max_span: int) -> None:
        """``sentinels`` are the ids that the text has, in its order."""
        self.inner, self.max_span = inner, max_span
        self.vocab_size = inner.vocab_size
        self.ends = torch.tensor([*sentinels, eos_id])  # what ends the span before the first, after it, and so on

    def start(self, num_rows: int) -> SpanState:
        nothing = torch.zeros(num_rows, dtype=torch.long)
        return SpanState(self.inner.start(num_rows), nothing - 1, nothing)

    def step(self, ids_N: torch.Tensor, state: SpanState) -> tuple[torch.Tensor, SpanState]:
        log_probs_NV, inner = self.inner.step(ids_N, state.inner)
        ended_N = ids_N == self.ends[(state.at_N + 1).clamp(max=len(self.ends) - 1)]
        at_N = state.at_N + ended_N
        written_N = torch.where(ended_N, 0, state.written_N + 1)
        next_N = self.ends[(at_N + 1).clamp(max=len(self.ends) - 1)]
        gain_N = log_probs_NV.gather(1, next_N[:, None])[:, 0]
        found = log_probs_NV.clone()
        found[:, self.ends] = float("-inf")
        found[(written_N >= self.max_span) | (at_N < 0)] = float("-inf")
        may_N = (written_N > 0) | (at_N < 0)
        found[may_N, next_N[may_N]] = gain_N[may_N]
        return found, SpanState(inner, at_N, written_N)

    def reorder(self, state: SpanState, index_N: torch.Tensor) -> SpanState:
        return SpanState(self.inner.reorder(state.inner, index_N), state.at_N[index_N], state.written_N[index_N])


_BEAMS = 4
_MASK = re.compile(r"\[MASK\]|<mask>")


@dataclass(frozen=True)
class Filled:
    """A text with its spans written in. ``score`` is log p of all of them together."""

    spans: list[str]  # for each sentinel, in the order of the text
    text: str
    score: float


class T5Model(TranslationModel):
    """What ``firth.load`` gives for T5 directories."""

    kind = "text-to-text"
    spec_name = "t5"

    def writing_recipe(self, max_source_len: int, max_target_len: int) -> RunConfig:
        found = find_run_recipe("t5-write")
        limits = {"max_source_len": max_source_len, "max_target_len": max_target_len}
        return found.replace(objective=found.objective.replace(**limits).model_dump())

    def _abilities(self) -> set[str]:
        """With sentinels it was trained to fill them in."""
        return super()._abilities() | ({"fill"} if sentinel_ids(self.pieces) else set())

    def reader(self) -> TextReader:
        """The encoder for a task: a text ends with the token that ends texts, two are read as one row."""
        ends = (self.eos_id,)
        return replace(super().reader(), frame=Frame((), ends, ends), summary="mean", joins_pairs=True)

    # -- what was taken out

    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """For each sentinel (or mask) of the text its span in the ``top`` likeliest fillings, best first; the
        probability is that of all spans of a filling together."""
        found = self.filled(text, top)
        return [
            [Guess(one.spans[place], float(torch.tensor(one.score).exp()), one.text) for one in found]
            for place in range(len(found[0].spans))
        ]

    def filled(self, text: str, top: int = 5, beams: int | None = None, max_span: int = 10) -> list[Filled]:
        """The likeliest fillings of a text with ``<extra_id_0>``, ``<extra_id_1>``, ... where something is missing,
        each of at most ``max_span`` tokens a place."""
        known = sentinel_ids(self.pieces)
        if not known:
            raise FirthError("this model has no sentinels: fill needs one that was pre-trained with spans taken out")
        text = self._numbered(text)
        numbers = [int(number) for number in PATTERN.findall(text)]
        if not numbers:
            raise FirthError(
                f"there is no {sentinel(0)} in '{text[:60]}': put {sentinel(0)}, {sentinel(1)} and so on where something is missing"
            )
        if len(set(numbers)) != len(numbers) or max(numbers) >= len(known):
            raise FirthError(f"each of {sentinel(0)} to {sentinel(len(known) - 1)} can stand in a text once")
        ids = [*self.pieces.encode(text, add_special=False).ids.tolist(), self.eos_id]
        silent = {*self.pieces.special_ids, *range(self.pieces.vocab_size, self.model.target_vocab_size)}
        asked = [known[number] for number in numbers]
        rules = Rules(banned=tuple(sorted(silent - {self.eos_id, *asked})))
        beam = Beam.build({"width": beams or max(top, _BEAMS), "num_best": top, "normalisation": "none"}, "beam search")
        source = torch.tensor([ids])
        assert isinstance(self.model, EncoderDecoder)
        with torch.inference_mode():
            inner = EncoderDecoderStepper(self.model, source, torch.ones_like(source, dtype=torch.bool))
            stepper = SpanStepper(inner, asked, self.eos_id, max_span)
            room = (max_span + 1) * len(asked) + 1
            searched = beam_search(stepper, [[self.start_id]], room, self.eos_id, beam, rules)[0]
        return [self._written(text, numbers, one.ids, known, one.score) for one in searched]

    def _numbered(self, text: str) -> str:
        """Masks, as other models are asked, are sentinels in their order."""
        if PATTERN.search(text):
            return text
        parts = _MASK.split(text)
        return "".join(part + sentinel(number) for number, part in enumerate(parts[:-1])) + parts[-1]

    def _written(self, text: str, numbers: list[int], ids: list[int], known: list[int], score: float) -> Filled:
        """The spans in the places of their sentinels; the rest of the text stays as it was written."""
        found = spans_of(ids, known)
        spans = {number: self.pieces.decode(found.get(number, [])).strip() for number in numbers}
        whole = PATTERN.sub(lambda match: spans[int(match.group(1))], text)
        return Filled([spans[number] for number in numbers], whole, score)


def spans_of(ids: Sequence[int], sentinels: Sequence[int]) -> dict[int, list[int]]:
    """What follows each sentinel (by its number) up to the next; of one that comes twice, the first."""
    number_of = {token: number for number, token in enumerate(sentinels)}
    found: dict[int, list[int]] = {}
    into: list[int] = []
    for token in ids:
        if token in number_of:
            into = []
            found.setdefault(number_of[token], into)
        else:
            into.append(token)
    return found
