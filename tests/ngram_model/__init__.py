"""A model outside the package, the example of how to add one: the neural n-gram language model (Bengio et al. 2003).

Here is the one ``ModelSpec``: what the package knows of this model.
"""

from pathlib import Path

from firth.core.registry import ModelSpec, ObjectiveConfig, RunConfig, TrainingConfig
from firth.models.shared.model import Model
from firth.models.shared.pretraining import Pretraining
from ngram_model.config import NgramConfig, NgramObjectiveConfig


def ngram_tiny() -> RunConfig:
    """64 dimensions, three tokens of context: seconds."""
    return RunConfig(
        recipe="ngram-tiny",
        spec="ngram",
        model=NgramConfig(),
        objective=NgramObjectiveConfig(),
        training=TrainingConfig(batch_size=8, learning_rate=1e-2),
    )


def _pretraining(objective: ObjectiveConfig) -> type[Pretraining]:
    from ngram_model.pretraining import NgramPretraining

    return NgramPretraining


def _load(folder: Path) -> Model:
    from ngram_model.model import NgramModel

    return NgramModel.load(folder)


SPEC = ModelSpec(
    name="ngram",
    recipes={"ngram-tiny": ngram_tiny},
    network=NgramConfig,
    objectives=(NgramObjectiveConfig,),
    pretraining=_pretraining,
    load=_load,
    tokens=("wordpiece",),
    model_types=("ngram",),
)
