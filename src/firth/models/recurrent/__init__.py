"""Recurrent language models (Mikolov et al. 2010): RNN, LSTM, GRU and their variants."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.recurrent.config import RECIPES, NextTokenStreamsConfig, RecurrentConfig

if TYPE_CHECKING:
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.recurrent.objective import RecurrentPretraining

    return RecurrentPretraining


def _load(folder: Path) -> "Model":
    from firth.models.recurrent.model import RecurrentModel
    from firth.models.recurrent.network import load_recurrent
    from firth.tokenizers.word_tokens import load_tokens

    config, weights, head = load_recurrent(folder)
    return RecurrentModel.from_weights(config.model, config.output, weights, head, load_tokens(folder), folder)


SPEC = ModelSpec(
    name="recurrent",
    recipes=RECIPES,
    pretraining=_pretraining,
    load=_load,
    network=RecurrentConfig,
    objectives=(NextTokenStreamsConfig,),
    tokens=("wordpiece", "bpe", "unigram", "words"),
    model_types=("firth-recurrent",),
    abilities=("generate",),
)
