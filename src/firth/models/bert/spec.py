"""BERT (Devlin et al. 2018): an encoder that predicts masked tokens."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.bert.config import RECIPES, MaskedTokensConfig
from firth.models.shared.configs import EncoderConfig

if TYPE_CHECKING:
    from firth.models.shared.encoder_format import EncoderFormat
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.bert.objective import BertPretraining

    return BertPretraining


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


def _format() -> "EncoderFormat":
    from firth.models.bert.format import BERT

    return BERT


SPEC = ModelSpec(
    name="bert",
    recipes=RECIPES,
    pretraining=_pretraining,
    load=_load,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(MaskedTokensConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("bert", "firth-encoder"),
    continues="bert-mini",
    is_transformer=True,
    has_task_heads=True,
    can_fill=True,
)
