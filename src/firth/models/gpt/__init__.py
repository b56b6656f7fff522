"""GPT (Radford et al. 2018, 2019): a decoder that predicts the next token; in Llama's and Qwen's shape, too."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.gpt.config import RECIPES, DecoderConfig, NextTokenConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.gpt.objective import GptPretraining

    return GptPretraining


def _load(folder: Path) -> "Model":
    from firth.models.gpt.format import load_decoder
    from firth.models.gpt.model import DecoderModel
    from firth.tokenizers.pieces import Pieces

    return DecoderModel.from_weights(*load_decoder(folder), Pieces.load(folder), folder)


SPEC = ModelSpec(
    name="gpt",
    recipes=RECIPES,
    in_transformers=True,
    suggested={"bpe": "gpt-tiny", "characters": "gpt-char"},
    pretraining=_pretraining,
    load=_load,
    network=DecoderConfig,
    objectives=(NextTokenConfig,),
    tokens=("wordpiece", "bpe", "unigram", "characters"),
    model_types=("gpt2", "llama", "mistral", "qwen2", "qwen3"),
    continues="gpt-mini",
    tuned_whole=True,
    abilities=("generate", "attention"),
)
