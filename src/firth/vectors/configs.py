"""The settings of static vectors, with the defaults of the published programs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from firth.core.config import Config

Positive = Annotated[int, Field(gt=0)]
MAX_EPOCHS = 100_000
Epochs = Annotated[int, Field(gt=0, le=MAX_EPOCHS)]
Rate = Annotated[float, Field(gt=0)]


class VectorsConfig(Config):
    """What all static vectors have in common; their ``kind`` is the name of the ``ModelSpec``, which has their learner. The result
    depends on ``threads`` (none: all cores); ``unit`` is what a window does not reach beyond."""

    if TYPE_CHECKING:
        kind: str
    counts_first: ClassVar[bool] = False  # learns from counts of the whole text, which takes a time of its own
    most_epochs: ClassVar[int] = 20  # in a comparison
    dim: Annotated[int, Field(gt=0, le=10_000)] = 100  # dimensions of a vector
    window: Annotated[int, Field(gt=0, le=100)] = 5  # words to either side
    min_count: Positive = 5  # words that occur less often are left out
    max_vocab: Annotated[int, Field(gt=1)] | None = None  # the most frequent words are kept; none: all
    epochs: Epochs = 5  # passes over the text
    unit: Literal["document", "sentence"] = "document"  # what a window does not cross
    seed: Annotated[int, Field(ge=0)] = 0  # same seed, same result
    threads: Annotated[int, Field(gt=0, le=1024)] | None = None  # none: all cores; the result depends on it
    checkpoint_s: Annotated[float, Field(ge=0)] = 300.0  # seconds between checkpoints

    def fitted(self, count_words: Callable[[], int]) -> Self:
        """The same for a vocabulary of so many words."""
        return self


class Word2VecConfig(VectorsConfig):
    """word2vec.c (Mikolov et al. 2013): CBOW or skip-gram, negative sampling or a Huffman tree.

    ``learning_rate`` is by default 0.05 for CBOW and 0.025 for skip-gram. ``reproducible`` decides
    how many threads work together; see ``trainer.py``.
    """

    kind: Literal["word2vec"] = "word2vec"  # which static vectors
    architecture: Literal["cbow", "skipgram"] = "cbow"  # predict a word from its context, or the context from the word
    loss: Literal["negative", "hierarchical"] = "negative"  # negative sampling or hierarchical softmax
    negatives: Annotated[int, Field(gt=0, le=200)] = 5  # noise words for each pair
    noise_power: Annotated[float, Field(ge=0, le=1)] = 0.75  # noise words are drawn by count to this power
    sample: Annotated[float, Field(ge=0)] = 1e-3  # more frequent words are left out at random; 0: none
    learning_rate: Rate | None = None  # at first; none: 0.05 for CBOW, 0.025 for skip-gram
    result: Literal["input", "output", "mean"] = "input"  # which vectors are kept
    reproducible: bool = True  # threads learn on copies; false: faster, not repeatable

    @property
    def rate(self) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        return 0.05 if self.architecture == "cbow" else 0.025

    @property
    def ngrams(self) -> tuple[int, int, int] | None:
        """Of characters: the shortest, the longest, and rows for them; none: a word is one row."""
        return None

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

    kind: Literal["fasttext"] = "fasttext"  # which static vectors
    architecture: Literal["cbow", "skipgram"] = (
        "skipgram"  # predict a word from its context, or the context from the word
    )
    loss: Literal["negative", "hierarchical"] = "negative"  # negative sampling or hierarchical softmax
    negatives: Annotated[int, Field(gt=0, le=200)] = 5  # noise words for each pair
    noise_power: Annotated[float, Field(ge=0, le=1)] = 0.5  # noise words are drawn by count to this power
    sample: Annotated[float, Field(ge=0)] = 1e-4  # more frequent words are left out at random; 0: none
    learning_rate: Rate = 0.05  # at first
    min_n: Annotated[int, Field(ge=0)] = 3  # shortest n-gram, in characters
    max_n: Annotated[int, Field(ge=0)] = 6  # longest n-gram; 0: no n-grams
    bucket: Annotated[int, Field(ge=0, lt=2**31)] = 2_000_000  # rows for n-grams, by hash
    reproducible: bool = True  # threads learn on copies; false: faster, not repeatable

    @property
    def rate(self) -> float:
        return self.learning_rate

    @property
    def ngrams(self) -> tuple[int, int, int] | None:
        return self.min_n, self.max_n, self.bucket

    @property
    def result(self) -> Literal["input"]:
        """A word is the mean of its input rows."""
        return "input"

    def fitted(self, count_words: Callable[[], int]) -> Self:
        """As many buckets as the words need."""
        return self.replace(bucket=min(self.bucket, max(10_000, 8 * count_words())))

    @model_validator(mode="after")
    def _lengths_in_order(self) -> "FastTextConfig":
        if self.max_n and not 0 < self.min_n <= self.max_n:
            raise ValueError(f"min_n ({self.min_n}) must be at least 1 and at most max_n ({self.max_n})")
        return self


class GloveConfig(VectorsConfig):
    """GloVe 1.2 (Pennington et al. 2014). ``memory_mb`` bounds the counts held before they go to disk."""

    counts_first: ClassVar[bool] = True
    most_epochs: ClassVar[int] = 50

    kind: Literal["glove"] = "glove"  # which static vectors
    dim: Annotated[int, Field(gt=0, le=10_000)] = 50  # dimensions of a vector
    window: Annotated[int, Field(gt=0, le=100)] = 15  # words to either side
    epochs: Epochs = 25  # passes over the counts
    symmetric: bool = True  # context on both sides
    x_max: Annotated[float, Field(gt=0)] = 100.0  # pairs that occur this often weigh 1
    alpha: Annotated[float, Field(gt=0)] = 0.75  # rarer pairs weigh (count / x_max)^alpha
    learning_rate: Rate = 0.05  # of AdaGrad
    memory_mb: Annotated[int, Field(ge=1, le=1 << 24)] = 1024  # of counts before they go to disk
    result: Literal["input", "output", "sum"] = "sum"  # which vectors are kept
