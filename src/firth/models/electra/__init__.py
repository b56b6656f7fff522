"""ELECTRA (Clark et al. 2020): an encoder that tells replaced tokens from original ones."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.electra.config import RECIPES, ReplacedTokensConfig
from firth.models.shared.configs import EncoderConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.published import EncoderFormat


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.electra.objective import ElectraPretraining

    return ElectraPretraining


_TOKEN_HEADS = {
    "token_head": {
        "dense.weight": "generator_predictions.dense.weight",
        "dense.bias": "generator_predictions.dense.bias",
        "norm.weight": "generator_predictions.LayerNorm.weight",
        "norm.bias": "generator_predictions.LayerNorm.bias",
        "bias": "generator_lm_head.bias",
    },
    "replaced_head": {
        "dense.weight": "discriminator_predictions.dense.weight",
        "dense.bias": "discriminator_predictions.dense.bias",
        "out.weight": "discriminator_predictions.dense_prediction.weight",
        "out.bias": "discriminator_predictions.dense_prediction.bias",
    },
}


def _held(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """A plain model that needs ELECTRA's classes if they can hold it (their generator and their classifier know one
    activation); they always say how wide the embeddings are."""
    from firth.models.shared.published import TASK_HEADS, has_plain_blocks

    needs = config.embedding_dim is not None or "replaced_head" in heads
    known = heads <= {*_TOKEN_HEADS, *TASK_HEADS, "pooler"} and (
        "token_head" not in heads or config.activation == "gelu"
    )
    known = known and ("pooler" not in heads or (config.pooler_activation == "gelu" and "classifier" in heads))
    fits = needs and known and has_plain_blocks(config) and not config.num_tasks and not config.published_as
    return config.replace(embedding_dim=config.token_dim) if fits else None


def _format() -> "EncoderFormat":
    """ELECTRA directories as Hugging Face writes them: a BERT with its own names, and embeddings that may be narrower.

    A run holds the discriminator; its generator is a directory of the same format in ``generator/``.
    """
    from firth.models.shared.published import (
        BERT_OUTSIDE,
        BERT_SETTINGS,
        DENSE_CLASSIFIER,
        TASK_CLASSES,
        TASK_HEADS,
        EncoderFormat,
    )

    return EncoderFormat(
        classes={"electra": "Electra"},
        title="ELECTRA",
        heads=_TOKEN_HEADS | TASK_HEADS,
        text_heads=DENSE_CLASSIFIER,
        text_shape={"pooler_activation": "gelu"},
        architectures=(
            *TASK_CLASSES,
            ("replaced_head", "ForPreTraining"),
            ("token_head", "ForMaskedLM"),
            ("", "Model"),
        ),
        head_activation="gelu",
        output="generator_lm_head.weight",
        held=_held,
        outside=BERT_OUTSIDE | {"project": "embeddings_project"},
        settings=BERT_SETTINGS | {"embedding_dim": "embedding_size"},
        defaults={
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
        },
    )


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


SPEC = ModelSpec(
    name="electra",
    recipes=RECIPES,
    in_transformers=True,
    pretraining=_pretraining,
    load=_load,
    encoder_format=_format,
    network=EncoderConfig,
    objectives=(ReplacedTokensConfig,),
    tokens=("wordpiece", "unigram"),
    model_types=("electra",),
    tuned_whole=True,
    has_task_heads=True,
    abilities=("attention",),
)
