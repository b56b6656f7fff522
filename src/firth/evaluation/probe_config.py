"""What ``firth probe`` is told."""

from typing import Literal

from pydantic import Field

from firth.core.config import Config


class ProbeConfig(Config):
    """Files of data, all optional; without a test file every fifth sentence is held out."""

    pos: str | None = None  # words with parts of speech
    pos_test: str | None = None
    tag: Literal["upos", "xpos"] = "upos"  # of CoNLL-U
    senses: tuple[str, ...] = ()  # words with senses
    senses_test: tuple[str, ...] = ()
    first_senses: str | None = None
    texts: str | None = None
    similarity: tuple[str, ...] = ()
    analogies: tuple[str, ...] = ()
    language: Literal["en", "zh"] = "en"  # of the sample that is used where files are missing
    most: int = Field(20_000, gt=0)  # training words that a probe reads; test words are as many at the most
    num_texts: int = Field(100, gt=0)  # sentences for perplexity and attention
    seed: int = 0
