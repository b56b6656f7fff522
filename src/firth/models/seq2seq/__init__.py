"""Recurrent translators (Sutskever et al. 2014), with attention (Luong et al. 2015)."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.config import Config
from firth.core.registry import ModelSpec, ObjectiveConfig
from firth.models.seq2seq.config import RECIPES, Seq2SeqConfig
from firth.models.shared.configs import TranslationConfig

if TYPE_CHECKING:
    from firth.models.shared.encoder_decoder import TranslationNetwork
    from firth.models.shared.model import Model
    from firth.models.shared.pretraining import Pretraining


def _pretraining(objective: ObjectiveConfig) -> "type[Pretraining]":
    from firth.models.shared.translation import TranslationPretraining

    return TranslationPretraining


def _load(folder: Path) -> "Model":
    from firth.models.shared.translation_model import TranslationModel

    return TranslationModel.load(folder)


def _network(config: Config) -> "TranslationNetwork":
    from firth.models.seq2seq.network import Seq2Seq

    assert isinstance(config, Seq2SeqConfig)
    return Seq2Seq(config)


SPEC = ModelSpec(
    name="seq2seq",
    recipes=RECIPES,
    pretraining=_pretraining,
    load=_load,
    translator=_network,
    network=Seq2SeqConfig,
    objectives=(TranslationConfig,),
    tokens=("pairs",),
    model_types=("firth-seq2seq",),
    abilities=("translate", "alignment"),
)
