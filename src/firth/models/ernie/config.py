"""ERNIE's settings: which spans are hidden as wholes and when, which questions are asked of pairs; and its recipes.

The network is the shared encoder (``EncoderConfig``).
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Positive
from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.configs import MaskingConfig, sized_encoder


class KnowledgeMaskingConfig(MaskingConfig):
    """Tokens, phrases and entities hidden as wholes, and several tasks on pairs at once (ERNIE, Sun et al. 2019, 2020)."""

    kind: Literal["knowledge_masking"] = "knowledge_masking"  # what is learned
    schedule: Literal["mixed", "stages"] = "mixed"  # of the kinds of masks: mixed, or one after the other
    basic_weight: Annotated[float, Field(ge=0)] = 1.0  # mixed: shares of the rows
    phrase_weight: Annotated[float, Field(ge=0)] = 1.0  # rows with hidden phrases
    entity_weight: Annotated[float, Field(ge=0)] = 1.0  # counts only with a list of entities
    stage_epochs: Annotated[float, Field(gt=0)] = 1.0  # stages: so long basic, so long phrases, then entities
    entities: str | None = None  # a file with an entity a line
    phrase_score: Annotated[float, Field(gt=-1, lt=1)] = 0.3  # normalised mutual information of two words
    phrase_count: Annotated[int, Field(ge=1)] = 5  # how often they must have met
    max_phrase_len: Annotated[int, Field(ge=2)] = 4  # in words
    sample_tokens: Positive = 4_000_000  # of which phrases are found
    next_sentence: bool = True  # a training task: does the second segment follow
    sentence_order: bool = True  # a training task: are segments in order
    sentence_distance: bool = True  # a training task: how far two segments are apart
    short_prob: Annotated[float, Field(ge=0, le=1)] = 0.1  # share of pairs that are shorter than a row
    pair_weight: Annotated[float, Field(ge=0)] = 1.0  # of the loss of pairs

    @model_validator(mode="after")
    def _something_is_hidden(self) -> "KnowledgeMaskingConfig":
        if self.basic_weight + self.phrase_weight + (self.entity_weight if self.entities else 0) == 0:
            raise ValueError(
                "nothing would be hidden: raise basic_weight or phrase_weight, or give entities and a share"
            )
        return self


def _ernie(name: str, num_layers: int, hidden_dim: int, learning_rate: float) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="ernie",
        model=sized_encoder(num_layers, hidden_dim),
        objective=KnowledgeMaskingConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def ernie_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _ernie("ernie-tiny", 2, 128, 2e-3)


def ernie_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _ernie("ernie-mini", 4, 256, 1e-3)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "ernie-tiny": ernie_tiny,
    "ernie-mini": ernie_mini,
}
