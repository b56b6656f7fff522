"""UniLM's settings: the shares of the four attention masks, how it learns to write from pairs, and its recipes.

The network is the shared encoder (``EncoderConfig``) with segment numbers for each kind of mask.
"""

from collections.abc import Callable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.configs import MaskingConfig, sized_encoder


class UnifiedMasksConfig(MaskingConfig):
    """Hidden tokens under four kinds of attention mask, each with its share of the rows (UniLM, Dong et al. 2019)."""

    kind: Literal["unified_masks"] = "unified_masks"  # what is learned
    bidirectional_weight: Annotated[float, Field(ge=0)] = 2.0  # share of rows that are read from both sides
    left_to_right_weight: Annotated[float, Field(ge=0)] = 1.0  # share of rows that are read from the left
    right_to_left_weight: Annotated[float, Field(ge=0)] = 1.0  # share of rows that are read from the right
    seq2seq_weight: Annotated[float, Field(ge=0)] = 2.0  # share of rows with a source and a target

    @model_validator(mode="after")
    def _something_is_trained(self) -> "UnifiedMasksConfig":
        if self.bidirectional_weight + self.left_to_right_weight + self.right_to_left_weight + self.seq2seq_weight == 0:
            raise ValueError("all four weights of masks are 0: raise one of them")
        return self


class MaskedTargetsConfig(MaskingConfig):
    """A target written after its source: each of its tokens is predicted by a [MASK] of its own that sees all before it,
    as when the model writes (Bao et al. 2021), or a share of them is hidden in their places (Dong et al. 2019)."""

    kind: Literal["masked_targets"] = "masked_targets"  # what is learned
    targets: Literal["pseudo_masked", "masked"] = (
        "pseudo_masked"  # each token of the target has a [MASK] of its own after it; or a share is hidden in place
    )
    mask_prob: Annotated[float, Field(gt=0, lt=1)] = 0.7  # with targets=masked: share of the target that is hidden

    @model_validator(mode="after")
    def _settings_do_something(self) -> Self:
        chances = ("mask_prob", "mask_token_prob", "random_token_prob", "dupe_factor")
        idle = [name for name in chances if getattr(self, name) != type(self).model_fields[name].default]
        if self.targets == "pseudo_masked" and idle:
            raise ValueError(
                f"{idle[0]} is for targets=masked: with targets=pseudo_masked every token has a mask of its own"
            )
        return self

    @model_validator(mode="after")
    def _tokens_are_hidden_singly(self) -> Self:
        if self.whole_word_mask or self.max_ngram > 1:
            raise ValueError("tokens of a target are hidden one by one: leave out whole_word_mask and max_ngram")
        return self


def _unilm(name: str, num_layers: int, hidden_dim: int, learning_rate: float) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="unilm",
        model=sized_encoder(num_layers, hidden_dim).replace(num_segments=6),
        objective=UnifiedMasksConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def unilm_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _unilm("unilm-tiny", 2, 128, 2e-3)


def unilm_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _unilm("unilm-mini", 4, 256, 1e-3)


def unilm_seq2seq() -> RunConfig:
    """Targets written after their sources, on a corpus of pairs; best with the weights of a UniLM run (--base)."""
    mini = unilm_mini()
    return mini.replace(
        recipe="unilm-seq2seq",
        objective=MaskedTargetsConfig(),
        training=mini.training.replace(learning_rate=5e-4),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "unilm-tiny": unilm_tiny,
    "unilm-mini": unilm_mini,
    "unilm-seq2seq": unilm_seq2seq,
}
