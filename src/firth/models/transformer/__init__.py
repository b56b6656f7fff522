"""The Transformer (Vaswani et al. 2017) as a translator: the shared encoder-decoder
(``EncoderDecoderConfig``) and the shared objective (``TranslationConfig``) with recipes of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig, RunConfig
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig, translation_training

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining
    from firth.models.shared.translator_format import TranslatorFormat


def transformer_tiny() -> RunConfig:
    """4 + 4 layers of 128 with much dropout: for some ten thousand pairs (Wu et al. 2021). Norms come first:
    with the norm after each sub-layer a short training stays at word frequencies for long. Small batches, since in a
    short training it is steps that count."""
    model = EncoderDecoderConfig(
        hidden_dim=128,
        num_layers=4,
        num_decoder_layers=4,
        num_heads=4,
        ffn_dim=256,
        dropout_prob=0.3,
        norm_first=True,
    )
    return RunConfig(
        recipe="transformer-tiny",
        spec="transformer",
        model=model,
        objective=TranslationConfig(batch_tokens=1024),
        training=translation_training(2e-3, average=3),
    )


def transformer_base() -> RunConfig:
    """6 + 6 layers of 512, the published base size: for millions of pairs."""
    return RunConfig(
        recipe="transformer-base",
        spec="transformer",
        model=EncoderDecoderConfig(activation_dropout_prob=0.1),
        objective=TranslationConfig(batch_tokens=8192),
        training=translation_training(7e-4, "inverse_sqrt", average=5),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "transformer-tiny": transformer_tiny,
    "transformer-base": transformer_base,
}


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.shared.translation import TranslationPretraining

    return TranslationPretraining


def _load(folder: Path) -> "Model":
    from firth.models.shared.translation_model import TranslationModel

    return TranslationModel.load(folder)


def _format() -> "TranslatorFormat":
    from firth.models.transformer.format import MARIAN

    return MARIAN


SPEC = ModelSpec(
    name="transformer",
    recipes=RECIPES,
    in_transformers=True,
    suggested={"pairs": "transformer-tiny"},
    pretraining=_pretraining,
    load=_load,
    translator_format=_format,
    network=EncoderDecoderConfig,
    objectives=(TranslationConfig,),
    tokens=("pairs",),
    model_types=("marian", "firth-encoder-decoder"),
    abilities=("translate", "attention", "alignment"),
)
