"""The settings of static vectors, with the defaults of the published programs."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config

Positive = Annotated[int, Field(gt=0)]
MAX_EPOCHS = 100_000
Epochs = Annotated[int, Field(gt=0, le=MAX_EPOCHS)]
Rate = Annotated[float, Field(gt=0)]


class VectorsConfig(Config):
    """What all three have in common. The result depends on ``threads`` (none: all
    cores); ``unit`` is what a window does not reach beyond."""

    dim: Annotated[int, Field(gt=0, le=10_000)] = 100
    window: Annotated[int, Field(gt=0, le=100)] = 5
    min_count: Positive = 5
    max_vocab: Annotated[int, Field(gt=1)] | None = None
    epochs: Epochs = 5
    unit: Literal["document", "sentence"] = "document"
    seed: Annotated[int, Field(ge=0)] = 0
    threads: Annotated[int, Field(gt=0, le=1024)] | None = None
    checkpoint_s: Annotated[float, Field(ge=0)] = 300.0


class Word2VecConfig(VectorsConfig):
    """word2vec.c (Mikolov et al. 2013): CBOW or skip-gram, negative sampling or a Huffman tree.

    ``learning_rate`` is by default 0.05 for CBOW and 0.025 for skip-gram. ``reproducible`` decides
    how many threads work together; see ``trainer.py``.
    """

    kind: Literal["word2vec"] = "word2vec"
    architecture: Literal["cbow", "skipgram"] = "cbow"
    loss: Literal["negative", "hierarchical"] = "negative"
    negatives: Annotated[int, Field(gt=0, le=200)] = 5
    noise_power: Annotated[float, Field(ge=0, le=1)] = 0.75
    sample: Annotated[float, Field(ge=0)] = 1e-3
    learning_rate: Rate | None = None
    result: Literal["input", "output", "mean"] = "input"
    reproducible: bool = True

    @property
    def rate(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return 0.05 if self.architecture == "cbow" else 0.025

    @model_validator(mode="after")
    def _tree_has_no_words(self) -> "Word2VecConfig":
        if self.loss == "hierarchical" and self.result != "input":
            raise ValueError(
                f"result={self.result} needs loss=negative: the output rows of a tree are its inner nodes, not words"
            )
        return self


class FastTextConfig(VectorsConfig):
    """fastText 0.9 (Bojanowski et al. 2017): word2vec over bags of character n-grams. Its noise is
    unigram^0.5, unlike word2vec's; ``bucket`` 0 or ``max_n`` 0 is a model without n-grams."""

    kind: Literal["fasttext"] = "fasttext"
    architecture: Literal["cbow", "skipgram"] = "skipgram"
    loss: Literal["negative", "hierarchical"] = "negative"
    negatives: Annotated[int, Field(gt=0, le=200)] = 5
    noise_power: Annotated[float, Field(ge=0, le=1)] = 0.5
    sample: Annotated[float, Field(ge=0)] = 1e-4
    learning_rate: Rate = 0.05
    min_n: Annotated[int, Field(ge=0)] = 3
    max_n: Annotated[int, Field(ge=0)] = 6
    bucket: Annotated[int, Field(ge=0, lt=2**31)] = 2_000_000
    reproducible: bool = True

    @property
    def rate(self) -> float:
        return self.learning_rate

    @model_validator(mode="after")
    def _lengths_in_order(self) -> "FastTextConfig":
        if self.max_n and not 0 < self.min_n <= self.max_n:
            raise ValueError(f"min_n ({self.min_n}) must be at least 1 and at most max_n ({self.max_n})")
        return self


class GloveConfig(VectorsConfig):
    """GloVe 1.2 (Pennington et al. 2014). ``memory_mb`` bounds the counts held before they go to disk."""

    kind: Literal["glove"] = "glove"
    dim: Annotated[int, Field(gt=0, le=10_000)] = 50
    window: Annotated[int, Field(gt=0, le=100)] = 15
    epochs: Epochs = 25
    symmetric: bool = True
    x_max: Annotated[float, Field(gt=0)] = 100.0
    alpha: Annotated[float, Field(gt=0)] = 0.75
    learning_rate: Rate = 0.05
    memory_mb: Annotated[int, Field(ge=1, le=1 << 24)] = 1024
    result: Literal["input", "output", "sum"] = "sum"


AnyVectorsConfig = Word2VecConfig | FastTextConfig | GloveConfig
