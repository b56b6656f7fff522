"""Settings of the neural n-gram model."""

from typing import Annotated, Literal

from pydantic import Field

from firth.core.config import Config, Positive
from firth.core.registry import ObjectiveConfig


class NgramConfig(Config):
    """Each token is predicted from the ``context`` tokens before it."""

    vocab_size: Positive = 8000
    hidden_dim: Positive = 64
    context: Annotated[int, Field(ge=1, le=16)] = 3
    init_std: float = 0.1


class NgramObjectiveConfig(ObjectiveConfig):
    """The next token, in rows cut from one stream of all documents."""

    kind: Literal["ngram_next_token"] = "ngram_next_token"
    seq_len: Annotated[int, Field(ge=2)] = 64
