"""Trained encoders that guess masked tokens, with their tokenizers: text in, vectors and guesses out.

``MaskedModel`` is what BERT-shaped models and XLNet answer alike, ``EncoderModel`` the BERT-shaped one with its heads.

B batch, T tokens, N tokens end to end, S sequences, P places, D hidden size, L layers, H heads, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.types import Encoding, Floats, Inputs, Ints, TextReader
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, PairHead, Pooler, ReplacedHead, TokenHead
from firth.models.shared.model import Attention, Guess, Model, TextLayers, loading, require_room
from firth.models.shared.published import Weights, load_encoder, save_encoder
from firth.models.shared.scoring import (
    MASKED,
    MASKED_WORD,
    ScoredText,
    choose_method,
    label_log_probs,
    score_masked,
    scored,
)
from firth.models.shared.sentences import SentenceModules
from firth.nn.arrays import encode_windows, packed_batches, padded_batches, window_places
from firth.nn.layers import TokenNetwork, pool_tokens
from firth.nn.sentences import pool_sequences
from firth.tokenizers.pieces import Pieces, special_frame


class MaskedModel(Model):
    """What BERT-shaped models and XLNet answer alike."""

    encoder: TokenNetwork
    pools = ("mean", "cls", "max")
    score_methods: tuple[str, ...] = (MASKED, MASKED_WORD)

    def __init__(self, pieces: Pieces, dim: int, num_layers: int, max_positions: int) -> None:
        self.pieces = pieces
        self.dim, self.num_layers, self.max_positions = dim, num_layers, max_positions

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    @property
    def mask_token(self) -> str:
        return super().mask_token if self.pieces.mask_id is None else self.pieces.token(self.pieces.mask_id)

    def _abilities(self) -> set[str]:
        return super()._abilities() | {"attention"} | ({"fill"} if self.can_guess else set())

    # -- how the network is asked

    @property
    def can_guess(self) -> bool:
        """Whether masked tokens can be guessed."""
        raise NotImplementedError

    def _inputs(self, ids_BT: torch.Tensor, doc_ids_BT: torch.Tensor | None = None) -> Inputs:
        return Inputs(ids_BT, doc_ids_BT)

    def _looks(self, ids_BT: torch.Tensor, segments_T: NDArray[np.int64]) -> torch.Tensor:
        """What each token looks at, [L, B, H, T, T]."""
        raise NotImplementedError

    def _guess(self, picks_BP: torch.Tensor, ids_BT: torch.Tensor) -> torch.Tensor:
        """Scores [B, P, V] of the tokens at the picked places, which are masked."""
        raise NotImplementedError

    def _pool(self, hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
        return pool_tokens(hidden_BTD, mask_BT, pool)

    def reader(self) -> TextReader:
        """The encoder for a task: [CLS] speaks for a text, two texts are read together."""
        pieces, frame = self.pieces, special_frame(self.pieces)
        return TextReader(
            kind=self.kind,
            module=self.encoder,
            tokenize=lambda text: pieces.encode(text, add_special=False, read_special=False),
            dim=self.dim,
            num_layers=self.num_layers + 1,
            max_len=self.max_positions,
            frame=frame,
            pad_id=pieces.pad_id or 0,
            summary="cls" if frame.before else "mean",
            joins_pairs=bool(frame.between),
            tokenize_all=pieces.batch_ids,
            unk_id=pieces.unk_id,
        )

    # -- vectors

    def _windows(self, encoding: Encoding) -> list[NDArray[np.int64]]:
        return window_places(len(encoding.ids), self.max_positions)

    def _batches(self, windows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[NDArray[np.int64], Inputs]]:
        """(numbers, inputs) of windows of like length."""
        for numbers, ids_BT, mask_BT in padded_batches(windows, self.pieces.pad_id or 0):
            yield numbers, self._inputs(torch.from_numpy(ids_BT), torch.from_numpy(mask_BT))

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """One vector per text, float32 [N, D]; texts longer than the model go through in windows."""
        self._check_choice(layer, pool)
        read = [self.pieces.encode(text) for text in texts]
        windows = [[encoding.ids[places] for places in self._windows(encoding)] for encoding in read]
        with torch.inference_mode():
            return encode_windows(
                windows, self.dim, pool, lambda some: self._pooled(some, layer % (self.num_layers + 1), pool)
            )

    def _pooled(self, windows: Sequence[Ints], layer: int, pool: str) -> Iterator[tuple[Ints, Floats]]:
        """(numbers, a vector each) of some windows at a time: end to end where the model can, else padded a little."""
        if self.encoder.can_pack:
            for numbers, ids_N, lens in packed_batches(windows):
                hidden_ND = next(islice(self.encoder.packed(Inputs(torch.from_numpy(ids_N)), lens), layer, None))
                yield numbers, pool_sequences(hidden_ND, lens, [pool]).numpy()
            return
        for numbers, inputs in self._batches(windows):
            hidden_BTD = self.encoder.last(inputs) if layer == self.num_layers else self.encoder(inputs).hidden[layer]
            yield numbers, self._pool(hidden_BTD, inputs.mask, pool).numpy()

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every token; a list is taken as words."""
        return self.layers_of([text])[0]

    def layers_of(self, texts: Sequence[str | list[str]]) -> list[TextLayers]:
        """The same of many texts, read together."""
        encodings = [self.pieces.encode(text) for text in texts]
        places = [(number, some) for number, one in enumerate(encodings) for some in self._windows(one)]
        size = (self.num_layers + 1, self.dim)
        hidden = [np.zeros((size[0], len(one.ids), size[1]), np.float32) for one in encodings]
        with torch.inference_mode():
            for window, found_LTD in self._read([encodings[number].ids[some] for number, some in places]):
                number, some = places[window]
                hidden[number][:, some] = found_LTD.numpy()
        return [
            TextLayers(one.tokens, one.offsets, one.words, mine) for one, mine in zip(encodings, hidden, strict=True)
        ]

    def _read(self, windows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[int, torch.Tensor]]:
        """(number, [L+1, T, D]) of every window."""
        if not self.encoder.can_pack:
            for numbers, inputs in self._batches(windows):
                hidden_LBTD = self.encoder(inputs).hidden
                for row, number in enumerate(numbers.tolist()):
                    yield number, hidden_LBTD[:, row, : len(windows[number])]
            return
        for numbers, ids_N, lens in packed_batches(windows):
            hidden_LND = torch.stack(list(self.encoder.packed(Inputs(torch.from_numpy(ids_N)), lens)))
            yield from zip(numbers.tolist(), hidden_LND.split(lens, dim=1), strict=True)

    # -- guesses and what they look at

    def attention(self, text: str, second: str | None = None) -> Attention:
        """What each token looks at, in every layer and head; two texts are read as one row."""
        encoding = self.pieces.encode(text, second)
        if not len(encoding.ids):
            raise FirthError("there is nothing to look at in an empty text: give some words")
        self._check_fits(encoding)
        with torch.inference_mode():
            weights_LHTT = self._looks(torch.from_numpy(encoding.ids)[None], encoding.segments)[:, 0]
        return Attention(encoding.tokens, encoding.offsets, weights_LHTT.float().numpy())

    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """The likeliest tokens for each mask in the text, best first."""
        encoding, places = self._masked(text)
        with torch.inference_mode():
            scores_PV = self._guess(torch.from_numpy(places)[None], torch.from_numpy(encoding.ids)[None])[0]
            return self._guesses(text, encoding, places, scores_PV, top)

    def _masked(self, text: str) -> tuple[Encoding, NDArray[np.int64]]:
        """The tokens of a text, and the places of its masks."""
        if not self.can_guess:
            raise FirthError(
                "this model has no masked-token head: fill needs one that was pre-trained with masked tokens"
            )
        encoding = self.pieces.encode(text)
        places = np.flatnonzero(encoding.ids == self.pieces.mask_id)
        if not len(places):
            mask = self.mask_token
            raise FirthError(f"there is no {mask} in '{text[:60]}': put {mask} where a word is to be guessed")
        self._check_fits(encoding)
        return encoding, places

    def _guesses(
        self, text: str, encoding: Encoding, places: NDArray[np.int64], scores_PV: torch.Tensor, top: int
    ) -> list[list[Guess]]:
        """The best tokens for each masked place."""
        scores_PV = scores_PV[:, : self.pieces.vocab_size]
        scores_PV[:, self.pieces.special_ids] = float("-inf")
        found = scores_PV.softmax(-1).topk(min(top, scores_PV.shape[-1] - len(self.pieces.special_ids)))
        guesses = []
        for row, place in enumerate(places.tolist()):
            start, end = encoding.offsets[place].tolist()
            guesses.append(
                [
                    Guess(token, float(probability), text[:start] + token.removeprefix("##") + text[end:])
                    for probability, number in zip(found.values[row], found.indices[row].tolist(), strict=True)
                    for token in [self.pieces.token(number)]
                ]
            )
        return guesses

    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        """log p of every token, hidden in turn and all others seen (Salazar et al. 2020); by ``masked-word`` the later
        tokens of its word are hidden, too (Kauf and Ivanova 2023)."""
        method = choose_method(method, self.score_methods, self.kind)
        encodings = [self.pieces.encode(text, read_special=False) for text in texts]
        for text, encoding in zip(texts, encodings, strict=True):
            self._check_fits(encoding, text)
        found = self._score_masked([one.ids for one in encodings], [one.words for one in encodings], method)
        return [scored(one, mine, self.pieces.unk_id) for one, mine in zip(encodings, found, strict=True)]

    def _score_masked(
        self, ids: Sequence[NDArray[np.int64]], words: Sequence[NDArray[np.int64]], method: str = MASKED
    ) -> list[NDArray[np.float64]]:
        """log p of each token of each row that belongs to a word."""
        if not self.can_guess or self.pieces.mask_id is None:
            raise FirthError(
                "this model has no masked-token head, which scores need: use one pre-trained with masked tokens, of an ELECTRA run RUN/generator"
            )
        with torch.inference_mode():
            return score_masked(ids, words, self.pieces.mask_id, self._judge, method == MASKED_WORD)

    def _judge(self, ids_BT: torch.Tensor, places_B: torch.Tensor, labels_B: torch.Tensor) -> torch.Tensor:
        """log p of one token per row, [B]."""
        return label_log_probs(self._guess(places_B[:, None], ids_BT)[:, 0], labels_B)

    def score_ids(self, ids: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.float64]:
        """log p of the token at each place when it is hidden and all others are seen."""
        words = np.full(len(ids), -1, np.int64)
        words[places] = places
        return self._score_masked([ids], [words])[0]

    def pseudo_perplexity(self, texts: Sequence[str]) -> float:
        """exp of the mean negative pseudo-log-likelihood a token."""
        scores = np.concatenate([one.log_probs for one in self.score_texts(texts)])
        return float(np.exp(-scores.mean()))

    def _check_fits(self, encoding: Encoding, text: str | None = None) -> None:
        size, most = len(encoding.ids), self.max_positions
        if size > most:
            which = "the text" if text is None else f"the text '{text[:60]}'"
            raise FirthError(f"{which} has {size} tokens, more than the model's {most}: shorten it")


class EncoderModel(MaskedModel):
    """What ``firth.load`` gives for BERT-shaped models."""

    kind = "encoder"
    spec_name = "bert"
    encoder: Encoder

    def __init__(self, config: EncoderConfig, pieces: Pieces) -> None:
        super().__init__(pieces, config.hidden_dim, config.num_layers, config.max_positions)
        self.config = config
        self.encoder = Encoder(config)
        self.token_head: TokenHead | None = None
        self.pair_head: PairHead | None = None
        self.replaced_head: ReplacedHead | None = None
        self.pooler: Pooler | None = None

    @classmethod
    def from_weights(
        cls,
        config: EncoderConfig,
        weights: Weights,
        heads: dict[str, Weights],
        pieces: Pieces,
        where: Path,
    ) -> Self:
        model = cls(config, pieces)
        if "token_head" in heads:
            model.token_head = TokenHead(config)
        if "pooler" in heads:
            model.pooler = Pooler(config.hidden_dim, config.pooler_activation)
        if "pair_head" in heads and "pooler" in heads:
            model.pair_head = PairHead(config.hidden_dim)
        if "replaced_head" in heads:
            model.replaced_head = ReplacedHead(config)
        with loading(where):
            model.encoder.load_state_dict(weights)
            if model.token_head is not None:
                model.token_head.load_state_dict(heads["token_head"])
            if model.pooler is not None:
                model.pooler.load_state_dict(heads["pooler"])
            if model.pair_head is not None:
                model.pair_head.pooler.load_state_dict(heads["pooler"])
                model.pair_head.out.load_state_dict(heads["pair_head"])
            if model.replaced_head is not None:
                model.replaced_head.load_state_dict(heads["replaced_head"])
        require_room(pieces.vocab_size, config.vocab_size, where)
        for part in model.parts:
            part.eval()
        return model

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The encoder of a run or of a published directory, with the heads of its pre-training."""
        return cls.from_weights(*load_encoder(folder), Pieces.load(folder), folder)

    @property
    def parts(self) -> list[nn.Module]:
        """The encoder and the heads that are there."""
        heads = (self.token_head, self.pair_head, self.replaced_head)
        return [self.encoder, *(head for head in heads if head is not None)]

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for part in self.parts for parameter in part.parameters())

    def _abilities(self) -> set[str]:
        return super()._abilities() | (set() if self.pair_head is None else {"follows"})

    def reader(self) -> TextReader:
        return replace(super().reader(), pooler=self.pooler, pooler_activation=self.config.pooler_activation)

    def sentence_base(self, texts: Callable[[], list[str]], normalize: bool) -> Self:
        return self

    def token_embedding(self) -> nn.Embedding:
        return self.encoder.embeddings.tokens

    def save_sentences(self, folder: Path, modules: SentenceModules) -> None:
        heads = {} if self.pooler is None else {"pooler": dict(self.pooler.state_dict())}
        save_encoder(folder, self.config, dict(self.encoder.state_dict()), heads, self.pieces.pad_id or 0)
        self.pieces.save(folder)
        modules.save(folder, self.dim)

    @property
    def can_guess(self) -> bool:
        return self.token_head is not None

    def _looks(self, ids_BT: torch.Tensor, segments_T: NDArray[np.int64]) -> torch.Tensor:
        """Models that know one segment only are given none."""
        known = int(segments_T.max(initial=0)) < self.config.num_segments
        return self.encoder.attention(Inputs(ids_BT, segments=torch.from_numpy(segments_T)[None] if known else None))

    def _guess(self, picks_BP: torch.Tensor, ids_BT: torch.Tensor) -> torch.Tensor:
        assert self.token_head is not None
        return self.token_head(self.encoder.picked(Inputs(ids_BT), picks_BP), self.encoder.embeddings.tokens.weight)

    def fill_many(self, texts: Sequence[str], top: int = 5) -> list[list[list[Guess]]]:
        """The same of many texts, read together where the model can."""
        if len(texts) == 1 or self.token_head is None or not self.encoder.can_pack:
            return super().fill_many(texts, top)
        found: list[list[list[Guess]]] = [[] for _ in texts]
        masked = [self._masked(text) for text in texts]
        with torch.inference_mode():
            for numbers, ids_N, lens in packed_batches([encoding.ids for encoding, _ in masked]):
                *_, hidden_ND = self.encoder.packed(Inputs(torch.from_numpy(ids_N)), lens)
                for number, hidden_TD in zip(numbers.tolist(), hidden_ND.split(lens), strict=True):
                    encoding, places = masked[number]
                    scores_PV = self.token_head(hidden_TD[places], self.encoder.embeddings.tokens.weight)
                    found[number] = self._guesses(texts[number], encoding, places, scores_PV, top)
        return found

    def follows(self, first: str, second: str) -> float:
        """The probability that the second text follows the first (next-sentence head)."""
        if self.pair_head is None:
            raise FirthError("this model has no next-sentence head: pre-train one with pairs=next_sentence")
        encoding = self.pieces.encode(first, second)
        self._check_fits(encoding)
        with torch.inference_mode():
            ids, segments = torch.from_numpy(encoding.ids)[None], torch.from_numpy(encoding.segments)[None]
            scores = self.pair_head(self.encoder.last(Inputs(ids, segments=segments))[:, 0])
        return float(scores.softmax(-1)[0, 0])
