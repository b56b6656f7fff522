"""Encoders under any objective that hides or replaces tokens: what BERT, ERNIE, UniLM and ELECTRA share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from torch import nn

from firth.core.errors import FirthError
from firth.core.types import Objective
from firth.corpus.format import Corpus, require_same_tokens
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_format import load_encoder, save_encoder
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.rows import Specials
from firth.tokenizers.pieces import Pieces


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
