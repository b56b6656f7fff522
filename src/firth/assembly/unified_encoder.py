"""Encoders under four kinds of mask: the family of UniLM. A run is a BERT directory."""

from torch import nn

from firth.assembly.masked_encoder import MaskedEncoder, specials_of
from firth.core.configs import RunConfig
from firth.core.model_configs import EncoderConfig
from firth.core.objective_configs import UnifiedMasksConfig
from firth.corpus.format import Corpus
from firth.models.encoder import Encoder
from firth.objectives.unified_masks import UnifiedMasks


class UnifiedEncoder(MaskedEncoder):
    """Written, read and scored as BERT is; only what is learned differs."""

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, nn.Module]:
        assert isinstance(config.model, EncoderConfig)
        assert isinstance(config.objective, UnifiedMasksConfig)
        specials = specials_of(corpus.pieces, corpus.folder)
        return Encoder(config.model), UnifiedMasks(config.objective, config.model, specials)
