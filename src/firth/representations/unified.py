"""An encoder that also writes: from a source to a target, or on from a text, with the same weights (UniLM)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.decoding.beam import beam_search
from firth.decoding.settings import Beam, Rules
from firth.decoding.trace import Trace
from firth.models.encoder_steps import ClozeStepper
from firth.representations.base import Translated
from firth.representations.encoder import EncoderRepresentation
from firth.representations.generation import Continuation, Generation, generate
from firth.text.pieces import Pieces

NUM_SEGMENTS = 6  # by which such a model is known
_LEFTWARD, _SOURCE, _TARGET = 2, 4, 5  # segments, as in pre-training
_TOGETHER = 16


class UnifiedRepresentation(EncoderRepresentation):
    """What ``firth.load`` gives for encoders with UniLM's six segments."""

    kind = "unified encoder"
    source_len: int | None = None  # tokens of a source that are read, where it was taught so
    row_len: int | None = None  # tokens of source and target together in rows of pairs, where it learned from such

    def _scores(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        assert self.token_head is not None
        return self.token_head(hidden_ND, self.encoder.embeddings.tokens.weight)

    def _check_writes(self) -> tuple[int, int, int]:
        """The ids of [CLS], [SEP] and [MASK]."""
        ids = (self.pieces.cls_id, self.pieces.sep_id, self.pieces.mask_id)
        if not self.can_guess or self.encoder.config.positions == "relative" or None in ids:
            raise FirthError(
                "this model cannot write: it needs a masked-token head, learned or rotary positions and [MASK]"
            )
        return ids[0] or 0, ids[1] or 0, ids[2] or 0

    def translate(self, texts: str | Sequence[str], beams: int = 5, **settings: Any) -> list[str]:
        """The best target for each text."""
        return [found[0].text for found in self.translations(texts, beams, 1, **settings)]

    def translations(
        self,
        texts: str | Sequence[str],
        beams: int = 5,
        nbest: int = 1,
        *,
        length_penalty: float = 0.6,
        max_tokens: int | None = None,
        no_repeat_ngram: int = 0,
        **settings: Any,
    ) -> list[list[Translated]]:
        """The ``nbest`` best targets of each text, best first; sources that are too long lose their end."""
        cls_id, sep_id, mask_id = self._check_writes()
        for name, value in settings.items():
            if value:
                raise FirthError(f"this model ({self.kind}) writes without the setting '{name}': leave it out")
        texts = [texts] if isinstance(texts, str) else list(texts)
        most = self.config.max_positions
        room = max_tokens or most // 2
        if room + 3 > most:
            raise FirthError(f"max_tokens={room} leaves no room for the text: the model has {most} positions")
        longest = min(most - room - 2, self.source_len or most)
        if self.row_len is not None:  # as in training, where the source gives way, down to half the room
            longest = min(longest, max(self.row_len - 3 - room, (self.row_len - 3) // 2))
        beam = Beam.build({"width": beams, "num_best": nbest, "alpha": length_penalty}, "beam search")
        silent = {*self.pieces.special_ids, *range(self.pieces.vocab_size, self.config.vocab_size)} - {sep_id}
        rules = Rules(banned=tuple(sorted(silent)), no_repeat_ngram=no_repeat_ngram)
        sources = [
            np.concatenate(([cls_id], self._plain_ids(text)[:longest], [sep_id])).astype(np.int64) for text in texts
        ]
        found: list[list[Translated]] = [[] for _ in texts]
        order = sorted(range(len(texts)), key=lambda number: len(sources[number]))
        with torch.inference_mode():
            for start in range(0, len(order), _TOGETHER):
                numbers = order[start : start + _TOGETHER]
                ids = np.full((len(numbers), len(sources[numbers[-1]])), self.pieces.pad_id or 0)
                for row, number in enumerate(numbers):
                    ids[row, : len(sources[number])] = sources[number]
                lens = np.asarray([len(sources[number]) for number in numbers])
                tokens = np.arange(ids.shape[1]) < lens[:, None]
                source = (torch.from_numpy(ids), torch.from_numpy(tokens), _SOURCE)
                stepper = ClozeStepper(self.encoder, self._scores, mask_id, _TARGET, source=source)
                searched = beam_search(stepper, [[sep_id]] * len(numbers), room, sep_id, beam, rules)
                for number, best in zip(numbers, searched, strict=True):
                    found[number] = [Translated(self.pieces.decode(one.ids), one.score, one.normalised) for one in best]
        return found

    def _plain_ids(self, text: str) -> NDArray[np.int64]:
        return self.pieces.encode(text, add_special=False, read_special=False).ids

    @property
    def tokens(self) -> Pieces:
        """What a trace is spelt by, under the name that all models that write have for it."""
        return self.pieces

    def generate_many(
        self, texts: Sequence[str], trace: Trace | None = None, **settings: Any
    ) -> list[list[Continuation]]:
        """Each text continued, leftward, in one batch; see ``Generation`` for the settings."""
        cls_id, _, mask_id = self._check_writes()
        chosen = Generation.build(settings, "generate")
        room = self.config.max_positions - max((len(self._plain_ids(text)) for text in texts), default=0) - 2
        if chosen.max_tokens > room:
            raise FirthError(
                f"the text and max_tokens={chosen.max_tokens} need more than the model's {self.config.max_positions} positions: shorten one"
            )
        stepper = ClozeStepper(self.encoder, self._scores, mask_id, _LEFTWARD, first_id=cls_id)
        with torch.inference_mode():
            return generate(stepper, self.pieces, texts, chosen, trace)
