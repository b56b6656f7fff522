"""The schemas of answers, one class per route: they describe the routes in the OpenAPI schema; answers are written from plain
data."""

from pydantic import BaseModel, Field

from firth.models.shared.model import ModelFacts


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
    image: str | None = None  # a small PNG in base64, where the document is an image that is still there


class FoundPassages(Answer):
    found: list[FoundPassage]


class TopicRow(BaseModel):
    number: int  # -1: documents that belong to none
    words: list[str]
    documents: int


class DocumentPoint(BaseModel):
    id: str
    text: str
    topic: int
    x: float
    y: float


class FoundTopics(Answer):
    topics: list[TopicRow]
    points: list[DocumentPoint]


class DuplicatePair(BaseModel):
    first: str
    second: str
    cosine: float


class FoundDuplicates(Answer):
    pairs: list[DuplicatePair]
    count: int
    documents: int


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


class Appended(BaseModel):
    file: str
    rows: int


class ServedFacts(ModelFacts):
    """A model that is served: what it says of itself, and what the server knows of it."""

    name: str
    reads: str | None = None  # en or zh, where it is one of them
    recipe: str | None = None
    examples: dict[str, str] = Field(default_factory=dict)  # for the page's forms, from what the model was trained on
    layers: int = 0
    engine: str | None = None  # what computes the answers, where that is an exported model: onnxruntime, ctranslate2
    engine_note: str | None = None  # why no exported graph does
    dev: int = 0  # dev examples with predictions
    score: float | None = None  # of a task on its dev examples
    labels_file: str | None = None  # to which labels are appended


class Models(BaseModel):
    models: list[ServedFacts]


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


class TypeScore(BaseModel):
    type: str
    precision: float
    recall: float
    f1: float
    true: int
    guessed: int


class KindOfError(BaseModel):
    kind: str  # missed, invented, type or border
    count: int
    examples: list[str]


class Entities(BaseModel):
    name: str
    sentences: int
    types: list[TypeScore]
    errors: list[KindOfError]


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
