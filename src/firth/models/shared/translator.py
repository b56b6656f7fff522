"""What every translator does whatever computes it: texts to pieces, pieces of like length together, hypotheses to texts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firth.core.batching import batches_by_length
from firth.core.errors import FirthError
from firth.core.types import Encoding
from firth.decoding.steps import Beam, Hypothesis, Rules
from firth.models.shared.model import Model, Translated
from firth.tokenizers.pieces import Pieces

_BATCH_TOKENS = 2048
_SAME_LEN = 8  # sources whose lengths agree up to this are searched together


class Translator(Model, ABC):
    """A source is its pieces and the end; what is ``search``ed and how is for those that can."""

    kind = "translator"
    spec_name = "transformer"
    room: int | None = None  # the most tokens that fit; None without a limit
    source_len: int | None = None  # tokens of a source that are read, where it was taught so
    target_vocab_size: int  # rows of the target's table, which may be more than it has tokens

    def __init__(self, ids: dict[str, int], pieces: Pieces, target_pieces: Pieces, languages: list[str]) -> None:
        self.pieces, self.target_pieces, self.languages = pieces, target_pieces, languages
        self.start_id, self.eos_id = ids["start_id"], ids["eos_id"]

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    @abstractmethod
    def search(
        self, rows: list[NDArray[np.int64]], forced: list[list[int]], beam: Beam, max_tokens: int, rules: Rules
    ) -> list[list[Hypothesis]]:
        """The best continuations of what is forced, one list a source."""

    def _encode(self, text: str | list[str]) -> Encoding:
        """The pieces of a source and the end."""
        assert self.pieces.eos_id is not None
        found = self.pieces.encode(text, add_special=False, read_special=False)
        size = len(text) if isinstance(text, str) else len(" ".join(text))
        if self.source_len is not None and len(found.ids) > self.source_len:
            most = self.source_len
            found = Encoding(
                found.ids[:most], found.offsets[:most], found.words[:most], found.tokens[:most], found.segments[:most]
            )
        if self.room is not None and len(found.ids) + 1 > self.room:
            raise FirthError(f"a text has {len(found.ids)} tokens, more than the model's {self.room - 1}: shorten it")
        return Encoding(
            np.append(found.ids, self.pieces.eos_id),
            np.concatenate((found.offsets, [[size, size]])),
            np.append(found.words, -1),
            [*found.tokens, self.pieces.token(self.pieces.eos_id)],
            np.append(found.segments, 0),
        )

    def _batches(self, rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The numbers of sources of like length, the longest first."""
        lens = [_SAME_LEN * -(-len(row) // _SAME_LEN) for row in rows]
        return batches_by_length(lens, _BATCH_TOKENS, longest_first=True, equal=True)

    def translate(self, texts: str | Sequence[str], beams: int = 5, **settings: Any) -> list[str]:
        """The best translation of each text; ``settings`` as of ``translations``."""
        return [found[0].text for found in self.translations(texts, beams, 1, **settings)]

    def translations(
        self,
        texts: str | Sequence[str],
        beams: int = 5,
        nbest: int = 1,
        *,
        length_penalty: float = 0.6,
        max_tokens: int | None = None,
        copy_unknown: bool = False,
        prefixes: Sequence[str] | None = None,
        rules: Rules | None = None,
        **settings: Any,
    ) -> list[list[Translated]]:
        """The ``nbest`` best translations of each text, best first.

        ``prefixes`` are how translations must begin, one a text; ``copy_unknown`` puts the source word
        that was most looked at in the place of an unknown token.
        """
        if settings:
            raise FirthError(f"translating has no setting '{next(iter(settings))}'")
        texts = [texts] if isinstance(texts, str) else list(texts)
        if prefixes is not None and len(prefixes) != len(texts):
            raise FirthError(
                f"{len(prefixes)} prefixes for {len(texts)} texts: give one a text, empty where there is none"
            )
        beam = Beam.build({"width": beams, "num_best": nbest, "alpha": length_penalty}, "beam search")
        found: list[list[Translated]] = [[Translated("", 0.0, 0.0)] * nbest for _ in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        encodings = [self._encode(texts[place]) for place in places]
        rules = rules or Rules(banned=self._never_said())
        for numbers in self._batches([encoding.ids for encoding in encodings]):
            rows = [encodings[number].ids for number in numbers]
            forced = [self._prefix(prefixes[places[number]] if prefixes else "") for number in numbers]
            searched = self.search(rows, forced, beam, self._most(rows, forced, max_tokens), rules)
            for number, begun, hypotheses in zip(numbers.tolist(), forced, searched, strict=True):
                place = places[number]
                found[place] = [
                    self._finished(texts[place], encodings[number], begun, one, copy_unknown) for one in hypotheses
                ]
        return found

    def _prefix(self, text: str) -> list[int]:
        if not text.strip():
            return []
        return self.target_pieces.encode(text, add_special=False, read_special=False).ids.tolist()

    def _never_said(self) -> tuple[int, ...]:
        """Special tokens other than the end and the unknown, and spare rows of the table."""
        special = {*self.target_pieces.special_ids, self.start_id} - {self.eos_id, self.target_pieces.unk_id}
        return tuple(sorted({*special, *range(self.target_pieces.vocab_size, self.target_vocab_size)}))

    def _most(self, rows: list[NDArray[np.int64]], forced: list[list[int]], max_tokens: int | None) -> int:
        """At most twice as many tokens as the source has, and some: what runs on has lost its way."""
        longest = max(map(len, rows))
        found = 2 * _SAME_LEN * -(-longest // _SAME_LEN) + 16 if max_tokens is None else max_tokens
        return found if self.room is None else max(1, min(found, self.room - 1 - max(map(len, forced))))

    def _finished(self, text: str, encoding: Encoding, begun: list[int], one: Hypothesis, copy: bool) -> Translated:
        ids = [*begun, *one.ids]
        if copy and self.target_pieces.unk_id in ids:
            return Translated(self._copied(text, encoding, ids), one.score, one.normalised)
        return Translated(self.target_pieces.decode(ids), one.score, one.normalised)

    def _copied(self, text: str, encoding: Encoding, ids: list[int]) -> str:
        """The translation with source words in the place of unknown tokens."""
        raise FirthError("this model does not show what it looked at, so nothing can be copied: use the original run")
