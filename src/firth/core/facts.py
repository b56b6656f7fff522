"""What a loaded model says of itself: ``Model.describe()``, and with what a server adds its list of models."""

from pydantic import ConfigDict

from firth.core.config import Config


class Facts(Config):
    """A weight or score may be no number, where a training failed."""

    model_config = ConfigDict(allow_inf_nan=True)


class LayerWeights(Facts):
    """A learned mix of layers: where it enters, the weight of each layer, and their scale."""

    place: str
    weights: tuple[float, ...]
    scale: float


class ModelFacts(Facts):
    """Kind, sizes and abilities; of a task its labels and mixes of layers, of a masked model its mask."""

    kind: str
    abilities: tuple[str, ...]
    dim: int
    parameters: int
    task: str | None = None
    pair: bool = False  # the task reads two texts
    labels: tuple[str, ...] = ()
    several: bool = False  # a text may have several labels
    layer_weights: LayerWeights | None = None  # the first of ``mixes``
    mixes: tuple[LayerWeights, ...] = ()
    mask: str | None = None
    languages: tuple[str, ...] = ()
    images: bool = False  # what it reads, instead of text
    documents: int | None = None  # of a search index
    passages: int | None = None
    vectors: bool | None = None  # whether it has these besides the words
