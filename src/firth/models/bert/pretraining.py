"""BERT under masked tokens, and pairs of segments if asked (Devlin et al. 2018)."""

from torch import nn

from firth.core.configs import RunConfig
from firth.core.types import Objective
from firth.corpus.format import Corpus
from firth.models.bert.config import MaskedTokensConfig
from firth.models.bert.objective import MaskedTokens
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_pretraining import EncoderPretraining, specials_of


class BertPretraining(EncoderPretraining):
    """An encoder that predicts hidden tokens."""

    objective: MaskedTokens

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderConfig)
        assert isinstance(config.objective, MaskedTokensConfig)
        specials = specials_of(corpus.pieces, corpus.folder)
        return Encoder(config.model), MaskedTokens(config.objective, config.model, specials)

    @classmethod
    def fewest_documents(cls, config: RunConfig) -> int:
        assert isinstance(config.objective, MaskedTokensConfig)
        return 1 if config.objective.pairs == "none" else 2
