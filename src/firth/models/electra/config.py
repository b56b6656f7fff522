"""The settings of objectives: what is predicted from what; ``kind`` says which."""

from typing import Annotated, Literal

from pydantic import Field

from firth.models.shared.configs import MaskingConfig


class ReplacedTokensConfig(MaskingConfig):
    """Replaced-token detection with a small masked generator (ELECTRA, Clark et al. 2020)."""

    kind: Literal["replaced_tokens"] = "replaced_tokens"
    mask_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.85
    random_token_prob: Annotated[float, Field(ge=0, le=1)] = 0.0
    generator_ratio: Annotated[float, Field(gt=0, le=1)] = 0.25  # the generator's width
    replaced_weight: Annotated[float, Field(ge=0)] = 50.0
