"""The settings of objectives: what is predicted from what; ``kind`` says which."""

from typing import Annotated, Literal

from pydantic import Field

from firth.core.config import Positive
from firth.core.configs import ObjectiveConfig


class CorruptedSpansConfig(ObjectiveConfig):
    """Spans of text taken out and written by the decoder (T5, Raffel et al. 2020)."""

    kind: Literal["corrupted_spans"] = "corrupted_spans"
    seq_len: Annotated[int, Field(ge=8)] = 128  # of the encoder's input
    noise_density: Annotated[float, Field(gt=0, lt=1)] = 0.15  # of the tokens is taken out
    mean_span_len: Annotated[float, Field(ge=1)] = 3.0
    num_sentinels: Positive = 100
