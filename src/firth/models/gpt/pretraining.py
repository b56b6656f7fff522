"""GPT-shaped decoders under next-token prediction: the family of GPT."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.types import Objective
from firth.corpus.format import Corpus, require_same_tokens
from firth.models.gpt.config import DecoderConfig, NextTokenConfig
from firth.models.gpt.format import load_gpt2, save_gpt2
from firth.models.gpt.model import DecoderModel, name_perplexities
from firth.models.gpt.network import Decoder
from firth.models.gpt.objective import NextToken
from firth.models.shared.pretraining import Pretraining
from firth.tokenizers.pieces import Pieces


class GptPretraining(Pretraining):
    """A decoder that predicts each next token."""

    uses = ('generate {name} "How a text begins"', "encode {name} texts.txt --out vectors.npy")
    model: Decoder
    objective: NextToken

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, DecoderConfig)
        assert isinstance(config.objective, NextTokenConfig)
        eos_id = corpus.pieces.eos_id
        if eos_id is None:
            raise FirthError(
                f"{corpus.folder}: its tokenizer has no token that ends a text, which this recipe needs; prepare the corpus with --tokens bpe"
            )
        return Decoder(config.model), NextToken(config.objective, eos_id)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        self.model.shrink_residuals()

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> DecoderConfig:
        config, _ = load_gpt2(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def start_from(self, base: Path) -> None:
        _, weights = load_gpt2(base)
        self.model.load_state_dict(weights)

    def export(self, folder: Path) -> None:
        """A GPT-2 directory."""
        save_gpt2(folder, self.model.config, dict(self.model.state_dict()), self.objective.eos_id)
        self.corpus.pieces.save(folder)

    def extra_scores(self, folder: Path, num_texts: int) -> dict[str, float]:
        """Perplexities over whole held-out documents, their ends included."""
        model = DecoderModel.from_weights(*load_gpt2(folder), Pieces.load(folder), folder)
        split, starts = self.corpus.heldout, self.corpus.heldout.document_starts
        loss, counts = 0.0, np.zeros(3)
        for document in range(min(num_texts, split.num_documents)):
            start, end = int(starts[document]), int(starts[document + 1])
            ids = np.asarray(split.tokens[start:end], np.int64)
            loss -= float(model.score_ids(np.append(ids, model.eos_id)).sum())
            num_words = int(split.word_starts(start, end).sum())
            counts += len(ids) + 1, num_words + 1, len(model.pieces.decode(ids.tolist())) + 1
        return name_perplexities(loss, *counts.tolist())
