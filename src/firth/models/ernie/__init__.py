"""ERNIE (Sun et al. 2019, 2020): BERT with phrases and entities masked as wholes, and several tasks at once."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.ernie.config import RECIPES, KnowledgeMaskingConfig
from firth.models.shared.configs import EncoderConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.ernie.objective import ErniePretraining

    return ErniePretraining


def _held(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """An encoder without tasks is a BERT."""
    from firth.models.shared.published import has_plain_blocks

    return config if has_plain_blocks(config) and config.embedding_dim is None and config.num_tasks else None


def _format() -> "EncoderFormat":
    """ERNIE directories as Hugging Face writes them: BERT with a prefix of its own and a table of tasks."""
    from firth.models.shared.published import (
        BERT_CLASSES,
        BERT_OUTPUT,
        BERT_OUTSIDE,
        BERT_SETTINGS,
        EncoderFormat,
        bert_heads,
    )

    return EncoderFormat(
        classes={"ernie": "Ernie"},
        title="ERNIE",
        heads=bert_heads("ernie"),
        architectures=BERT_CLASSES,
        output=BERT_OUTPUT,
        held=_held,
        outside=BERT_OUTSIDE | {"embeddings.tasks": "embeddings.task_type_embeddings"},
        settings=BERT_SETTINGS | {"num_tasks": "task_type_vocab_size"},
        defaults={"task_type_vocab_size": 3},
        switch="use_task_id",
    )


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


SPEC = ModelSpec(
    name="ernie",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(KnowledgeMaskingConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("ernie",),
    tuned_whole=True,
    has_task_heads=True,
    abilities=("fill", "follows", "attention"),
)
