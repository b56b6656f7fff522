"""The settings of models, one config a shape; ``kind`` says which."""

from typing import Annotated

from pydantic import Field

from firth.models.bert.config import MaskedTokensConfig
from firth.models.electra.config import ReplacedTokensConfig
from firth.models.elmo.config import BothDirectionsConfig, ElmoConfig
from firth.models.ernie.config import KnowledgeMaskingConfig
from firth.models.gpt.config import DecoderConfig, NextTokenConfig
from firth.models.recurrent.config import NextTokenStreamsConfig, RecurrentConfig
from firth.models.seq2seq.config import Seq2SeqConfig
from firth.models.shared.configs import EncoderConfig, EncoderDecoderConfig, TranslationConfig
from firth.models.t5.config import CorruptedSpansConfig
from firth.models.unilm.config import MaskedTargetsConfig, UnifiedMasksConfig
from firth.models.xlnet.config import PermutedOrderConfig, TwoStreamConfig

AnyModelConfig = Annotated[
    EncoderConfig
    | DecoderConfig
    | TwoStreamConfig
    | EncoderDecoderConfig
    | Seq2SeqConfig
    | ElmoConfig
    | RecurrentConfig,
    Field(discriminator="kind"),
]
"""Told apart by ``kind``."""

AnyObjectiveConfig = Annotated[
    MaskedTokensConfig
    | NextTokenConfig
    | ReplacedTokensConfig
    | UnifiedMasksConfig
    | MaskedTargetsConfig
    | KnowledgeMaskingConfig
    | PermutedOrderConfig
    | TranslationConfig
    | CorruptedSpansConfig
    | BothDirectionsConfig
    | NextTokenStreamsConfig,
    Field(discriminator="kind"),
]
"""Told apart by ``kind``."""
