"""Two-stream models that predict in any order: the family of XLNet."""

from pathlib import Path

import torch
from torch import nn

from firth.core.configs import RunConfig
from firth.core.types import Objective
from firth.corpus.format import Corpus, require_same_tokens
from firth.models.shared.encoder_pretraining import specials_of
from firth.models.shared.pretraining import Pretraining, require_one_process
from firth.models.xlnet.config import PermutedOrderConfig, TwoStreamConfig
from firth.models.xlnet.format import load_xlnet, save_xlnet
from firth.models.xlnet.network import TwoStream
from firth.models.xlnet.objective import PermutedOrder
from firth.tokenizers.pieces import Pieces, with_class_last


class XlnetPretraining(Pretraining):
    """Each row of a step is a lane with a memory of its own."""

    model: TwoStream
    objective: PermutedOrder

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, TwoStreamConfig)
        assert isinstance(config.objective, PermutedOrderConfig)
        if config.objective.memory_len:
            require_one_process("a memory lives in one process: set memory_len=0 to train with several")
        specials = specials_of(corpus.pieces, corpus.folder)
        return TwoStream(config.model), PermutedOrder(config.objective, config.model, specials, self.rows_per_step)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        self.model.start(self.model.config.init_std, generator)

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> TwoStreamConfig:
        config, _, _ = load_xlnet(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def start_from(self, base: Path) -> None:
        _, weights, bias = load_xlnet(base)
        self.model.load_state_dict(weights)
        if bias is not None:
            self.objective.bias.data.copy_(bias)

    def export(self, folder: Path) -> None:
        """A directory that transformers reads; its tokenizer puts [CLS] last, as XLNet does."""
        pieces = with_class_last(self.corpus.pieces)
        save_xlnet(folder, self.model.config, dict(self.model.state_dict()), self.objective.bias.detach(), pieces)
        pieces.save(folder)
