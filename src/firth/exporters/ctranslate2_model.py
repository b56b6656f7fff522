"""A translator that CTranslate2 computes: the same texts in and out, decoded in C++."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.decoding.steps import Beam, Hypothesis, Rules
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.translator import Translator
from firth.tokenizers.pieces import Pieces


class CTranslate2Model(Translator):
    """What ``firth.load`` gives for a folder of ``firth export --to ctranslate2``.

    Its search keeps as many finished hypotheses as the beam is wide; they are ranked by Firth's own formula. Its
    scores are among what may be said: the probability of special tokens is shared among the others.
    """

    kind = "exported translator"
    spec_name = "transformer"

    def __init__(
        self,
        engine: Any,
        config: EncoderDecoderConfig,
        ids: dict[str, int],
        pieces: Pieces,
        target_pieces: Pieces,
        languages: list[str],
        names: tuple[list[str], list[str]],
        room: int | None,
        num_parameters: int,
    ) -> None:
        """``names`` are those of the source's and the target's tokens by which the engine knows them."""
        super().__init__(ids, pieces, target_pieces, languages)
        self.config, self.dim, self.num_layers = config, config.hidden_dim, config.num_layers
        self.target_vocab_size = config.target_vocab_size or config.vocab_size
        self.engine, self.room, self._num_parameters = engine, room, num_parameters
        self.names, self.target_names = names
        self.numbers = {name: number for number, name in enumerate(self.target_names)}

    @property
    def num_parameters(self) -> int:
        return self._num_parameters

    def _abilities(self) -> set[str]:
        return {"translate"}

    def search(
        self, rows: list[NDArray[np.int64]], forced: list[list[int]], beam: Beam, max_tokens: int, rules: Rules
    ) -> list[list[Hypothesis]]:
        prefixes = [[self.target_names[number] for number in begun] for begun in forced]
        found = self.engine.translate_batch(
            [[self.names[number] for number in row] for row in rows],
            target_prefix=prefixes if any(forced) else None,
            beam_size=beam.width,
            num_hypotheses=beam.width,
            length_penalty=0,
            max_decoding_length=max_tokens,
            min_decoding_length=rules.min_tokens,
            no_repeat_ngram_size=rules.no_repeat_ngram,
            repetition_penalty=rules.repetition_penalty,
            suppress_sequences=[[self.target_names[number]] for number in rules.banned] or None,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )
        return [self._ranked(one, len(begun), beam) for one, begun in zip(found, forced, strict=True)]

    def _ranked(self, found: Any, num_forced: int, beam: Beam) -> list[Hypothesis]:
        pairs = zip(found.hypotheses, found.scores, strict=True)
        some = [self._hypothesis(tokens, score, num_forced, beam) for tokens, score in pairs]
        return sorted(some, key=lambda one: -one.normalised)[: beam.num_best]

    def _hypothesis(self, tokens: list[str], score: float, num_forced: int, beam: Beam) -> Hypothesis:
        ids = [self.numbers[token] for token in tokens][num_forced:]
        normalised = score / beam.penalty(max(len(ids), 1))
        ended = bool(ids) and ids[-1] == self.eos_id
        return Hypothesis(ids[:-1] if ended else ids, score, normalised, ended)
