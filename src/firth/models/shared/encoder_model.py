"""A trained BERT-shaped encoder with its heads.

T tokens, N tokens end to end, P places, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.types import Inputs, Objective, TextReader
from firth.corpus.format import Corpus, require_same_tokens
from firth.models.bert.format import BERT, Format, has_plain_blocks, load_bert, save_bert
from firth.models.electra.format import ELECTRA, fits_electra
from firth.models.ernie.format import ERNIE
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder, PairHead, Pooler, ReplacedHead, TokenHead
from firth.models.shared.masked_model import MaskedModel, packed_batches
from firth.models.shared.model import Guess, loading, require_room
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.published import Weights, join_parts, split_parts
from firth.models.shared.rows import Specials
from firth.tokenizers.pieces import Pieces

_OWN = "firth-encoder"
_PUBLISHED = {kind.model_type: kind for kind in (BERT, ELECTRA, ERNIE)}
_HEADS = "heads.safetensors"


def _format(config: EncoderConfig, heads: set[str]) -> Format | None:
    """The published format that holds this model, if one does."""
    if not has_plain_blocks(config):
        return None
    if fits_electra(config, heads):
        return ELECTRA
    if config.embedding_dim is not None:
        return None
    return ERNIE if config.num_tasks else BERT


def save_encoder(folder: Path, config: EncoderConfig, encoder: Weights, heads: dict[str, Weights], pad_id: int) -> None:
    """Variants that no published class can hold (rotary positions, pre-norm ...) keep Firth's names."""
    kind = _format(config, set(heads))
    if kind is not None:
        if kind is ELECTRA:
            config = config.replace(embedding_dim=config.token_dim)
        placed = {part: weights for part, weights in heads.items() if part in kind.heads}
        others = {part: weights for part, weights in heads.items() if part not in kind.heads}
        if others:
            save_tensors(folder / _HEADS, join_parts(others))
        save_bert(folder, config, encoder, placed, pad_id, kind)
        return
    save_tensors(folder / "model.safetensors", join_parts({"encoder": encoder, **heads}))
    write_json(folder / "config.json", {"model_type": _OWN, "pad_token_id": pad_id, "encoder": config.model_dump()})


def load_encoder(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights and those of the heads that are there."""
    data = read_json(folder / "config.json")
    if not isinstance(data, dict):
        raise FirthError(f"{folder / 'config.json'}: not the description of a model; copy it again")
    if data.get("model_type") != _OWN:
        config, encoder, heads = load_bert(folder, _PUBLISHED.get(str(data.get("model_type")), BERT))
        others = split_parts(load_tensors(folder / _HEADS)) if (folder / _HEADS).is_file() else {}
        return config, encoder, {**heads, **others}
    config = EncoderConfig.build(data.get("encoder"), folder / "config.json")
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    if "encoder" not in parts:
        raise FirthError(f"{folder / 'model.safetensors'}: no encoder in it; copy it again")
    return config, parts.pop("encoder"), parts


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
        weights: dict[str, torch.Tensor],
        heads: dict[str, dict[str, torch.Tensor]],
        pieces: Pieces,
        where: Path,
    ) -> "EncoderModel":
        model = cls(config, pieces)
        if "token_head" in heads:
            model.token_head = TokenHead(config)
        if "pooler" in heads:
            model.pooler = Pooler(config.hidden_dim)
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
        return replace(super().reader(), pooler=self.pooler)

    @property
    def can_guess(self) -> bool:
        return self.token_head is not None

    def _looks(self, ids_BT: torch.Tensor, segments_T: NDArray[np.int64]) -> torch.Tensor:
        """Models that know one segment only are given none."""
        known = int(segments_T.max()) < self.config.num_segments
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


def load_encoder_model(folder: Path, spec: str) -> EncoderModel:
    """The encoder of a run or of a published directory, with the heads of its pre-training."""
    model = EncoderModel.from_weights(*load_encoder(folder), Pieces.load(folder), folder)
    model.spec_name = spec
    return model


def specials_of(pieces: Pieces, where: Path) -> Specials:
    """The special ids that masking needs, or a word about what is missing."""
    wanted = {"cls_id": pieces.cls_id, "sep_id": pieces.sep_id, "mask_id": pieces.mask_id, "pad_id": pieces.pad_id}
    missing = [name.removesuffix("_id") for name, number in wanted.items() if number is None]
    if missing:
        raise FirthError(
            f"{where}: its tokenizer has no token for {', '.join(missing)}, which this recipe needs; prepare the corpus with --tokens wordpiece"
        )
    ordinary = np.setdiff1d(np.arange(pieces.vocab_size), np.asarray(pieces.special_ids, np.int64))
    return Specials(ordinary=ordinary, **{name: int(number) for name, number in wanted.items() if number is not None})


class EncoderObjective(Objective, Protocol):
    """What writing an encoder asks of its objective."""

    @property
    def specials(self) -> Specials: ...

    def heads(self) -> Mapping[str, nn.Module]:
        """The parts above the encoder by the names under which they are kept."""
        ...


class EncoderPretraining(Pretraining):
    """An encoder with heads. A model says how its objective is built (``build``)."""

    published = (*Pretraining.published, "heads.safetensors")
    model: Encoder
    objective: EncoderObjective

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> EncoderConfig:
        config, _, _ = load_encoder(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def start_from(self, base: Path) -> None:
        _, encoder, heads = load_encoder(base)
        self.model.load_state_dict(encoder)
        for name, head in self.objective.heads().items():
            if name in heads:
                head.load_state_dict(heads[name])

    def export(self, folder: Path) -> None:
        """A directory that transformers reads where it knows such a model."""
        heads = {name: dict(head.state_dict()) for name, head in self.objective.heads().items()}
        save_encoder(folder, self.model.config, dict(self.model.state_dict()), heads, self.objective.specials.pad_id)
        self.corpus.pieces.save(folder)

    def extra_scores(self, folder: Path, num_texts: int) -> dict[str, float]:
        """Pseudo-perplexity over the first sentences of held-out documents, each token hidden in turn."""
        model = EncoderModel.from_weights(*load_encoder(folder), Pieces.load(folder), folder)
        split, pieces = self.corpus.heldout, model.pieces
        assert pieces.cls_id is not None
        assert pieces.sep_id is not None
        scores = []
        for document in range(min(num_texts, split.num_documents)):
            first = int(split.documents[document])
            start, end = int(split.sentences[first]), int(split.sentences[first + 1])
            inner = np.asarray(split.tokens[start:end], np.int64)[: model.config.max_positions - 2]
            ids = np.pad(inner, 1)
            ids[0], ids[-1] = pieces.cls_id, pieces.sep_id
            scores.append(model.score_ids(ids, np.arange(1, len(ids) - 1)))
        return {"pseudo_perplexity": float(np.exp(-np.concatenate(scores).mean()))}
