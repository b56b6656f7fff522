"""The settings of decoding."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config


class Rules(Config):
    """What a continuation may not do."""

    min_tokens: Annotated[int, Field(ge=0)] = 0  # before it may end
    banned: tuple[int, ...] = ()
    no_repeat_ngram: Annotated[int, Field(ge=0)] = 0  # no run of so many tokens twice, the prompt's included; 0: off
    repetition_penalty: Annotated[float, Field(ge=1)] = 1.0  # multiplies log p of tokens that have occurred


class Sampling(Config):
    """How one token is drawn: temperature, then the k likeliest, then the smallest set with probability p."""

    temperature: Annotated[float, Field(ge=0)] = 1.0  # 0: always the likeliest
    top_k: Annotated[int, Field(ge=0)] = 0  # 0: all
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0


GREEDY = Sampling(temperature=0.0)


class Beam(Config):
    """Beam search: how wide, and by what its hypotheses are ranked."""

    width: Annotated[int, Field(gt=0)] = 5
    num_best: Annotated[int, Field(gt=0)] = 1
    normalisation: Literal["none", "mean", "gnmt"] = "gnmt"
    alpha: Annotated[float, Field(ge=0)] = 0.6  # of ((5 + len) / 6) ** alpha (Wu et al. 2016)
    early_stop: bool = True  # never changes what is found

    @model_validator(mode="after")
    def _best_fit(self) -> "Beam":
        if self.num_best > self.width:
            raise ValueError(f"{self.num_best} results need a beam as wide, not {self.width}: widen it or ask for less")
        return self

    def penalty(self, length: int) -> float:
        """What log p of so many tokens (the end counts) is divided by."""
        if self.normalisation == "mean":
            return float(length)
        return ((5 + length) / 6) ** self.alpha if self.normalisation == "gnmt" else 1.0
