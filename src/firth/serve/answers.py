"""The schemas of answers, one class per route: they describe the routes in the OpenAPI schema; answers are written from plain
data."""

from pydantic import BaseModel


class Answer(BaseModel):
    """An answer of a model, with the model's name; ``warning`` where most of the texts are unknown to it."""

    model: str
    warning: str | None = None


class Failure(BaseModel):
    error: str


class Health(BaseModel):
    status: str
    version: str
    queue: int


class Encoded(Answer):
    vectors: list[list[float]]


class FoundWord(BaseModel):
    word: str
    score: float


class FoundWords(Answer):
    found: list[FoundWord]


class Similarity(Answer):
    similarity: float


class Follows(Answer):
    probability: float


class Point(BaseModel):
    word: str
    x: float
    y: float


class WordPoints(Answer):
    points: list[Point]
    missing: list[str]


class GuessedToken(BaseModel):
    token: str
    probability: float
    text: str


class Filled(Answer):
    masks: list[list[GuessedToken]]


class Written(BaseModel):
    text: str
    score: float


class Generated(Answer):
    continuations: list[Written]
    trace: dict[str, object] | None


class Translations(Answer):
    translations: list[list[Written]]


class Aligned(Answer):
    source: list[str]
    target: list[str]
    weights: list[list[float]]


class Attended(Answer):
    tokens: list[str]
    offsets: list[tuple[int, int]]
    weights: list[list[list[list[float]]]]


class ShownToken(BaseModel):
    token: str
    id: int | None
    text: str
    start: int
    end: int
    word: int
    unknown: bool


class ShownTokens(Answer):
    kind: str
    tokens: list[ShownToken]
    words: list[str]
    unknown: int
    lost: int
    back: str


class Looked(Answer):
    weights: list[list[list[list[float]]]]  # by layer, head, row and column of patches
    rollout: list[list[float]]


class TokenLayers(Answer):
    tokens: list[str]
    offsets: list[tuple[int, int]]
    hidden: list[list[list[float]]]


class Predicted(Answer):
    predictions: list[dict[str, object]]


class ContextPoint(Point):
    text: str
    start: int
    end: int


class ContextPoints(Answer):
    points: list[ContextPoint]
    similarity: list[list[float]]


class FoundOccurrence(FoundWord):
    sentence: str
    start: int
    end: int


class FoundOccurrences(Answer):
    found: list[FoundOccurrence]


class FoundPassage(BaseModel):
    """Places are characters: ``start`` and ``end`` of the document, the others of ``text``."""

    id: str
    source: str
    score: float
    text: str
    start: int
    end: int
    fields: dict[str, object]
    marks: list[tuple[int, int]]
    best: tuple[int, int]
    words: float | None
    cosine: float | None


class FoundPassages(Answer):
    found: list[FoundPassage]


class WordImportance(BaseModel):
    text: str
    start: int
    end: int
    second: bool
    occlusion: float | None
    gradient: float | None


class Explained(Answer):
    label: str | None
    value: float
    words: list[WordImportance]
    agreement: float | None
    note: str


class LayerNeighbours(Answer):
    layers: list[list[FoundOccurrence]]


class SuggestedText(BaseModel):
    text: str
    second: str | None
    predicted: str | list[str]
    probability: float
    uncertainty: float


class Suggested(Answer):
    found: list[SuggestedText]


class LayerWeights(BaseModel):
    place: str
    weights: list[float]
    scale: float


class ModelFacts(BaseModel):
    name: str
    kind: str
    abilities: list[str]
    dim: int
    parameters: int
    task: str | None
    pair: bool
    labels: list[str]
    layer_weights: LayerWeights | None
    mixes: list[LayerWeights]
    mask: str | None
    languages: list[str]
    images: bool
    reads: str | None = None  # en or zh, where it is one of them
    recipe: str | None = None
    examples: dict[str, str] = {}  # for the page's forms, from what the model was trained on
    layers: int = 0
    dev: int = 0  # dev examples with predictions
    score: float | None = None  # of a task on its dev examples
    documents: int | None = None  # of a search index
    passages: int | None = None
    vectors: bool | None = None


class Models(BaseModel):
    models: list[ModelFacts]


class RunFacts(BaseModel):
    name: str
    served: bool
    status: str
    recipe: str | None
    model: str | None
    kind: str | None
    base: str | None
    corpus: str | None
    step: int | None
    steps: int | None
    seconds: float | None
    tokens: int | None
    parameters: int | None
    bytes: int
    metric: str | None
    interval: list[float] | None
    scores: dict[str, float]
    curve: list[dict[str, float]]
    samples: list[str]
    settings: dict[str, object]
    report: bool


class Runs(BaseModel):
    runs: list[RunFacts]


class DevExamples(BaseModel):
    name: str
    examples: list[dict[str, object]]


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int


class EmbeddingRow(BaseModel):
    object: str
    index: int
    embedding: list[float] | str


class EmbeddingsAnswer(BaseModel):
    object: str
    data: list[EmbeddingRow]
    model: str
    usage: Usage
    warning: str | None = None


class ModelRow(BaseModel):
    id: str
    object: str
    created: int
    owned_by: str


class ModelRows(BaseModel):
    object: str
    data: list[ModelRow]
