"""The settings of ``firth finetune embed``."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Config, Layers, Positive, Probability
from firth.core.registry import Precision
from firth.data.sentences import Form
from firth.nn.arrays import POOLS

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
    pool: str = "auto"  # how the vectors of tokens become one of the text; auto: as the base's modules say, or mean
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
    batch_size: Positive = 64  # examples of a step
    max_batch_tokens: Positive = (
        8192  # read at a time; larger batches are read twice (cached gradients), the result is the same
    )
    learning_rate: Annotated[float, Field(gt=0)] | None = None  # none: by the base
    epochs: Annotated[int, Field(gt=0, le=1000)] | None = None  # none: 1 to 5, fewer for more examples
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1  # share of the steps in which the rate rises
    weight_decay: Annotated[float, Field(ge=0)] = 0.01  # of the weights, at each step
    metric: str | None = None  # the dev score that decides; none: spearman of scores, accuracy of pairs
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # same seed, same result
    device: str = "cpu"  # cpu, cuda, cuda:1
    precision: Precision = (
        "auto"  # of the base's matrix products while it learns; auto: bfloat16 where the machine has units for it
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "EmbedConfig":
        if self.precision == "float16":  # its small gradients would need factors that only the loop of pre-training has
            raise ValueError("precision: float16 is for pre-training and images, use bfloat16 or float32")
        if self.pool != "auto" and self.pool not in POOLS:
            raise ValueError(f"pool: choose auto, {', '.join(POOLS)}")
        if len(set(self.widths)) != len(self.widths):
            raise ValueError("widths: one of them is given twice")
        if self.form is not None and self.loss != "auto" and self.form not in FORMS[self.loss]:
            raise ValueError(f"loss={self.loss} learns from {' or '.join(FORMS[self.loss])}, not from {self.form}")
        if self.negatives != "none" and self.loss not in ("auto", "ranking"):
            raise ValueError(f"negatives are for loss=ranking, not for {self.loss}")
        return self
