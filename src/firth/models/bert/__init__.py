"""BERT (Devlin et al. 2018): an encoder that predicts masked tokens."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.bert.config import RECIPES, MaskedTokensConfig
from firth.models.shared.configs import EncoderConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.bert.objective import BertPretraining

    return BertPretraining


def _format() -> "EncoderFormat":
    """Directories as Hugging Face writes them; the names are the usual ones."""
    from firth.models.shared.published import BERT_CLASSES, BERT_OUTPUT, EncoderFormat, bert_heads, held_by_bert

    return EncoderFormat(
        classes={"bert": "Bert"},
        title="BERT",
        heads=bert_heads("bert"),
        architectures=BERT_CLASSES,
        output=BERT_OUTPUT,
        held=held_by_bert,
    )


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


SPEC = ModelSpec(
    name="bert",
    recipes=RECIPES,
    in_transformers=True,
    suggested={"wordpiece": "modernbert-10m", "unigram": "modernbert-10m"},
    pretraining=_pretraining,
    load=_load,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(MaskedTokensConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("bert", "firth-encoder"),
    continues="bert-mini",
    tuned_whole=True,
    has_task_heads=True,
    abilities=("fill", "follows", "attention"),
)
