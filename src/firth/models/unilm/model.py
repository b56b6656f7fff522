"""A trained UniLM: an encoder that writes, too; the next token is what fills a [MASK] at the end (Dong et al. 2019).

The text so far is read left to right (a source before it in both directions), never the [MASK], so its keys and
values are kept. A step reads two tokens: the one that was chosen and a new [MASK].

N rows, S source tokens, T tokens so far, V vocabulary, D hidden size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.core.types import Inputs, batches_by_length, pad
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam, Rules, Trace
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.generation import Continuation, Generation, generate
from firth.models.shared.model import Translated
from firth.models.shared.scoring import LEFT_TO_RIGHT, MASKED, MASKED_WORD, ScoredText, label_log_probs, scored
from firth.models.unilm.config import MaskedTargetsConfig
from firth.nn.blocks import Block
from firth.nn.cache import Past
from firth.tokenizers.pieces import Pieces

_BATCH_TOKENS = 4096
_NUM_SPECIAL = 3  # in a row of source and target


@dataclass
class ClozeState:
    """What is known of the rows' tokens so far."""

    pasts: list[Past] | None  # keys and values [N, H, T, K] of every block
    seen_NT: torch.Tensor  # false for the padding of short sources
    next_N: torch.Tensor  # the position of the next token
    at: int  # tokens read, the source apart


class ClozeStepper:
    """A ``Stepper`` over given sources, or without.

    With sources the first token of a prompt stands for the [SEP] that ends them, which is read already.
    Without, it is taken for the [CLS] that begins a text.
    """

    def __init__(
        self,
        encoder: Encoder,
        scores: Callable[[torch.Tensor], torch.Tensor],
        mask_id: int,
        segment: int,
        *,
        first_id: int | None = None,
        source: tuple[torch.Tensor, torch.Tensor, int] | None = None,
    ) -> None:
        """``scores`` from hidden vectors to the vocabulary; ``source`` is (ids, tokens or padding, segment)."""
        assert encoder.config.positions != "relative"
        assert (first_id is None) != (source is None)
        self.encoder, self.scores, self.mask_id, self.segment = encoder, scores, mask_id, segment
        self.first_id, self.source = first_id, source
        self.vocab_size = encoder.config.vocab_size

    def start(self, num_rows: int) -> ClozeState:
        device = self.encoder.embeddings.tokens.weight.device
        if self.source is None:
            none = torch.zeros(num_rows, 0, dtype=torch.bool, device=device)
            return ClozeState(None, none, torch.zeros(num_rows, dtype=torch.long, device=device), 0)
        ids_NS, tokens_NS, segment = self.source
        assert num_rows == len(ids_NS), "a row a source"
        positions = torch.arange(ids_NS.shape[1], device=device).expand_as(ids_NS)
        _, pasts = self._run(ids_NS, positions, segment, None, tokens_NS[:, None, None, :])
        return ClozeState(pasts, tokens_NS, tokens_NS.sum(1), 0)

    def _run(
        self,
        ids_NT: torch.Tensor,
        positions_NT: torch.Tensor,
        segment: int,
        pasts: list[Past] | None,
        mask: torch.Tensor,
    ) -> tuple[torch.Tensor, list[Past]]:
        """The last layer of tokens that follow others, and all keys and values."""
        hidden = self.encoder.embed(ids_NT, positions_NT, torch.full_like(ids_NT, segment))
        angles = self.encoder.angles(positions_NT)
        found = []
        for layer, block in enumerate(self.encoder.blocks):
            assert isinstance(block, Block)
            hidden, past = block.step(hidden, None if pasts is None else pasts[layer], mask, angles)
            found.append(past)
        final = self.encoder.final_norm
        return hidden if final is None else final(hidden), found

    def step(self, ids_N: torch.Tensor, state: ClozeState) -> tuple[torch.Tensor, ClozeState]:
        masks = torch.full_like(ids_N, self.mask_id)
        if state.at == 0 and self.source is not None:
            ids_NQ = masks[:, None]
        else:
            read = torch.full_like(ids_N, self.first_id) if state.at == 0 and self.first_id is not None else ids_N
            ids_NQ = torch.stack((read, masks), dim=1)
        num_read = ids_NQ.shape[1] - 1
        positions_NQ = state.next_N[:, None] + torch.arange(num_read + 1, device=ids_N.device)
        own = torch.ones(num_read + 1, num_read + 1, dtype=torch.bool, device=ids_N.device).tril()
        before = state.seen_NT[:, None, :].expand(-1, num_read + 1, -1)
        mask = torch.cat((before, own.expand(len(ids_N), -1, -1)), dim=2)[:, None]
        hidden, pasts = self._run(ids_NQ, positions_NQ, self.segment, state.pasts, mask)
        kept = [(key[:, :, :-1], value[:, :, :-1]) for key, value in pasts]
        seen = functional.pad(state.seen_NT, (0, num_read), value=True)
        state = ClozeState(kept, seen, state.next_N + num_read, state.at + 1)
        return self.scores(hidden[:, -1]).log_softmax(-1), state

    def reorder(self, state: ClozeState, index_N: torch.Tensor) -> ClozeState:
        pasts = None
        if state.pasts is not None:
            pasts = [(key.index_select(0, index_N), value.index_select(0, index_N)) for key, value in state.pasts]
        return ClozeState(pasts, state.seen_NT[index_N], state.next_N[index_N], state.at)


_LEFT_TO_RIGHT, _SOURCE, _TARGET = 2, 4, 5  # segments, as in pre-training
_TOGETHER = 16
_SCORED_TOKENS = 1024  # of texts that are scored together; as many masks are read


class UnilmModel(EncoderModel):
    """What ``firth.load`` gives for encoders with UniLM's six segments."""

    kind = "unified encoder"
    spec_name = "unilm"
    score_methods = (MASKED, MASKED_WORD, LEFT_TO_RIGHT)
    seq_len: int | None = None  # tokens of source and target together in rows of pairs, where it learned from such

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The encoder of a run; one that learned from pairs reads rows as long as those of its training."""
        model = super().load(folder)
        run = Run.open(folder)
        if run.record.kind == "embed":  # sentence vectors learned on it
            return model
        config = RunConfig.build(run.record.config, run.path)
        if isinstance(config.objective, MaskedTargetsConfig):
            model.seq_len = config.objective.seq_len
        return model

    def writing_recipe(self, max_source_len: int, max_target_len: int) -> RunConfig:
        seq_len = min(self.config.max_positions, max_source_len + max_target_len + _NUM_SPECIAL)
        found = find_run_recipe("unilm-seq2seq")
        return found.replace(
            model=self.config.model_dump(),
            objective=found.objective.replace(seq_len=seq_len).model_dump(),
            training=found.training.replace(batch_size=max(1, _BATCH_TOKENS // seq_len)).model_dump(),
        )

    def _scores(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        assert self.token_head is not None
        return self.token_head(hidden_ND, self.encoder.embeddings.tokens.weight)

    def _abilities(self) -> set[str]:
        return super()._abilities() | (set() if self._writing_ids() is None else {"generate", "translate"})

    def _writing_ids(self) -> tuple[int, int, int] | None:
        """The ids of [CLS], [SEP] and [MASK], where it can write."""
        cls_id, sep_id, mask_id = self.pieces.cls_id, self.pieces.sep_id, self.pieces.mask_id
        if not self.can_guess or self.config.positions == "relative":
            return None
        return None if cls_id is None or sep_id is None or mask_id is None else (cls_id, sep_id, mask_id)

    def _check_writes(self) -> tuple[int, int, int]:
        """The ids of [CLS], [SEP] and [MASK]."""
        ids = self._writing_ids()
        if ids is None:
            raise FirthError(
                "this model cannot write: it needs a masked-token head, learned or rotary positions and [MASK]"
            )
        return ids

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
        if self.seq_len is not None:  # as in training, where the source gives way, down to half the room
            longest = min(longest, max(self.seq_len - 3 - room, (self.seq_len - 3) // 2))
        beam = Beam.build({"width": beams, "num_best": nbest, "alpha": length_penalty}, "beam search")
        silent = {*self.pieces.special_ids, *range(self.pieces.vocab_size, self.config.vocab_size)} - {sep_id}
        rules = Rules(banned=tuple(sorted(silent)), no_repeat_ngram=no_repeat_ngram)
        sources = [
            np.concatenate(([cls_id], self._plain_ids(text)[:longest], [sep_id])).astype(np.int64) for text in texts
        ]
        found: list[list[Translated]] = [[] for _ in texts]
        with torch.inference_mode():
            for numbers in batches_by_length([len(ids) for ids in sources], max_rows=_TOGETHER):
                ids, tokens = pad([sources[number] for number in numbers], self.pieces.pad_id or 0)
                source = (torch.from_numpy(ids), torch.from_numpy(tokens > 0), _SOURCE)
                stepper = ClozeStepper(self.encoder, self._scores, mask_id, _TARGET, source=source)
                searched = beam_search(stepper, [[sep_id]] * len(numbers), room, sep_id, beam, rules)
                for number, best in zip(numbers.tolist(), searched, strict=True):
                    found[number] = [Translated(self.pieces.decode(one.ids), one.score, one.normalised) for one in best]
        return found

    def _plain_ids(self, text: str) -> NDArray[np.int64]:
        return self.pieces.encode(text, add_special=False, read_special=False).ids

    @property
    def tokens(self) -> Pieces:
        """What a trace is spelt by, under the name that all models that write have for it."""
        return self.pieces

    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        """As other masked models, or ``left-to-right``: each token by a [MASK] in its place that sees those before it."""
        if method != LEFT_TO_RIGHT:
            return super().score_texts(texts, method)
        cls_id, _, mask_id = self._check_writes()
        encodings = [self.pieces.encode(text, add_special=False, read_special=False) for text in texts]
        for text, encoding in zip(texts, encodings, strict=True):
            self._check_fits(encoding, text)
        found = [np.zeros(0)] * len(texts)
        sizes = [len(encoding.ids) for encoding in encodings]
        with torch.inference_mode():
            for numbers in batches_by_length(sizes, _SCORED_TOKENS, equal=True):
                if sizes[numbers[0]]:
                    ids_BT = torch.from_numpy(np.stack([encodings[number].ids for number in numbers]))
                    for number, mine_T in zip(numbers, self._score_rows(ids_BT, cls_id, mask_id).double(), strict=True):
                        found[number] = mine_T.numpy()
        return [scored(one, mine, self.pieces.unk_id) for one, mine in zip(encodings, found, strict=True)]

    def _score_rows(self, ids_BT: torch.Tensor, cls_id: int, mask_id: int) -> torch.Tensor:
        """log p of every token in one pass, [B, T]: after the text stands a [MASK] for each of its tokens, with that
        token's position, which no other token sees."""
        num_rows, size = ids_BT.shape
        first_B1, masks_BT = ids_BT.new_full((num_rows, 1), cls_id), torch.full_like(ids_BT, mask_id)
        at_T, text_S = torch.arange(1, size + 1), torch.arange(size + 1)
        inputs = Inputs(
            torch.cat((first_B1, ids_BT, masks_BT), 1),
            positions=torch.cat((text_S, at_T)).expand(num_rows, -1),
            segments=torch.full((num_rows, 2 * size + 1), _LEFT_TO_RIGHT),
            order=torch.cat((2 * text_S, 2 * at_T - 1)).expand(num_rows, -1),  # a mask comes just before its token
            alone=torch.cat((text_S < 0, at_T > 0)).expand(num_rows, -1),
        )
        picks_BT = (size + at_T).expand(num_rows, -1)
        scores_NV = self._scores(self.encoder.picked(inputs, picks_BT).flatten(0, 1))
        return label_log_probs(scores_NV, ids_BT.flatten()).view(num_rows, size)

    def generate_many(
        self, texts: Sequence[str], trace: Trace | None = None, **settings: object
    ) -> list[list[Continuation]]:
        """Each text continued left to right in one batch; see ``Generation`` for the settings."""
        cls_id, _, mask_id = self._check_writes()
        chosen = Generation.build(settings, "generate")
        room = self.config.max_positions - max((len(self._plain_ids(text)) for text in texts), default=0) - 2
        if chosen.max_tokens > room:
            raise FirthError(
                f"the text and max_tokens={chosen.max_tokens} need more than the model's {self.config.max_positions} positions: shorten one"
            )
        stepper = ClozeStepper(self.encoder, self._scores, mask_id, _LEFT_TO_RIGHT, first_id=cls_id)
        with torch.inference_mode():
            return generate(stepper, self.pieces, texts, chosen, trace)
