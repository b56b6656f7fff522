"""The settings of objectives: what is predicted from what; ``kind`` says which."""

from typing import Annotated, Literal

from pydantic import Field

from firth.models.shared.configs import MaskingConfig


class MaskedTokensConfig(MaskingConfig):
    """Masked-token prediction (Devlin et al. 2019), and the pairs that go with it."""

    kind: Literal["masked_tokens"] = "masked_tokens"
    pairs: Literal["none", "next_sentence", "sentence_order"] = "none"
    short_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    mask_weight: Annotated[float, Field(ge=0)] = 1.0
    pair_weight: Annotated[float, Field(ge=0)] = 1.0
