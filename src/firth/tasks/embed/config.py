"""The settings of ``firth finetune embed``."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Layers, Positive, Probability
from firth.data.sentences import Form
from firth.nn.sentences import POOLINGS

LossName = Literal["auto", "ranking", "cosine", "cosent", "softmax", "simcse", "tsdae", "sif"]
FORMS: dict[str, tuple[str, ...]] = {
    "ranking": ("pairs", "triplets", "nli", "scores"),
    "cosine": ("scores",),
    "cosent": ("scores",),
    "softmax": ("nli",),
    "simcse": ("text",),
    "tsdae": ("text",),
    "sif": ("text",),
}
"""What each loss can learn from."""


class EmbedConfig(Config):
    """How sentence vectors are learned; stored whole in the run."""

    form: Form | None = None  # text, pairs, triplets, scores or nli; none: found in the training file
    loss: LossName = (
        "auto"  # by the form: ranking; cosent for scores; simcse for raw text; sif for word vectors and raw text
    )
    negative: str | None = None  # the column of texts that do not belong to the first; none: negative, negative_1, ...
    scale: Annotated[float, Field(gt=0)] = 20.0  # of cosines: 1 / temperature
    widths: tuple[
        Positive, ...
    ] = ()  # Matryoshka: the first so many dimensions are good vectors, too, such as [256,128,64]
    negatives: Literal["none", "model", "bm25"] = "none"  # hard negatives: found by the base, or by words
    num_negatives: Positive = 1  # for each pair
    margin: Annotated[float, Field(ge=0, le=1)] = (
        0.95  # a text as near as this share of the right one's similarity is no negative
    )

    # how a text is read
    pooling: str = "auto"  # those of sentence-transformers; auto: as the base's modules say, or mean
    normalize: bool = True  # vectors of length 1
    max_len: Annotated[int, Field(ge=4)] = 128  # tokens
    prompts: dict[str, str] = Field(default_factory=dict)  # written before texts, such as {"query": "query: "}

    # raw text
    dropout_prob: Probability | None = None  # of the base while it learns; none: its own, for simcse at least 0.1
    delete_prob: Probability = 0.6  # of a word (tsdae)
    decoder_layers: Layers = 1  # (tsdae)
    sif_a: Annotated[float, Field(gt=0)] = 1e-3  # a word that makes up p of the text weighs a / (a + p)
    sif_components: Annotated[int, Field(ge=0, le=20)] = 1  # common directions that are taken out

    # training
    batch_size: Positive = 64
    max_batch_tokens: Positive = (
        8192  # read at a time; larger batches are read twice (cached gradients), the result is the same
    )
    learning_rate: Annotated[float, Field(gt=0)] | None = None  # none: by the base
    epochs: Annotated[int, Field(gt=0, le=1000)] | None = None  # none: 1 to 5, fewer for more examples
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    metric: str | None = None  # the dev score that decides; none: spearman of scores, accuracy of pairs
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    device: str = "cpu"

    @model_validator(mode="after")
    def _fits_together(self) -> "EmbedConfig":
        if self.pooling != "auto" and self.pooling not in POOLINGS:
            raise ValueError(f"pooling: choose auto, {', '.join(POOLINGS)}")
        if len(set(self.widths)) != len(self.widths):
            raise ValueError("widths: one of them stands there twice")
        if self.form is not None and self.loss != "auto" and self.form not in FORMS[self.loss]:
            raise ValueError(f"loss={self.loss} learns from {' or '.join(FORMS[self.loss])}, not from {self.form}")
        if self.negatives != "none" and self.loss not in ("auto", "ranking"):
            raise ValueError(f"negatives are for loss=ranking, not for {self.loss}")
        return self
