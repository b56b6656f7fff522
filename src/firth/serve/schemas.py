"""The schemas of requests, one class per route; those of answers are in ``answers.py``.

Bounds that hold for every server are part of the schema; those that can be configured are in ``ServeSettings``.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AliasChoices, Base64Bytes, BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(max_length=1 << 20)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
Top = Annotated[int, Field(ge=1, le=100)]
Layer = Annotated[int, Field(ge=-1000, le=1000, description="0 is the token layer, -1 the last.")]
Images = Annotated[
    list[Base64Bytes],
    Field(min_length=1, max_length=64, description="png, jpeg or webp files in base64, for models of images."),
]
IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")
"""What may be sent as the body itself, with ``?model=NAME``."""
Example: TypeAlias = str | tuple[str, str]
"""What a task reads: a text, or a pair of texts (question and passage)."""


class Part(BaseModel):
    """Strict validation: unknown keys are errors and no value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Body(Part):
    """The body of a request."""

    model: Annotated[
        str | None, Field(max_length=300, description="Which model; by default the first that can do this.")
    ] = None

    def texts_read(self) -> list[str]:
        """All texts that a model will read; the limits apply to them."""
        return [value for name, value in self if name != "model" and isinstance(value, str)]

    def images_read(self) -> list[bytes]:
        """All images that a model will read; none: the request is about texts."""
        return []


class Pictured(Body):
    """A body that may hold images, or be one."""

    images: Images | None = None

    @classmethod
    def of_upload(cls, data: bytes, asked: Mapping[str, str]) -> Self:
        """The body of a request that is nothing but an image; what is ``asked`` stands in the address."""
        return cls.model_construct(model=asked.get("model"), images=[data])

    def images_read(self) -> list[bytes]:
        return self.images or []


class Texts(Body):
    """``texts``, or ``text`` for a single one."""

    text: Text | None = None
    texts: list[Text] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if not self.images_read() and (self.text is None) == (self.texts is None):
            raise ValueError("give either texts (a list) or text")
        if self.images_read() and (self.text is not None or self.texts is not None):
            raise ValueError("give texts or images, not both")
        return self

    def texts_read(self) -> list[str]:
        if self.images_read():
            return []
        return self.texts if self.texts is not None else [self.text or ""]


class Encode(Texts, Pictured):
    layer: Layer = -1
    pool: Annotated[
        str | None,
        Field(max_length=20, description="mean, max, cls or last, as the model can; by default what its modules say."),
    ] = None
    prompt: Annotated[
        str | None, Field(max_length=2000, description="A prompt of the model by its name, or any words.")
    ] = None


class Nearest(Body):
    word: Word
    top: Top = 10


class Analogy(Body):
    """first : second = third : ?"""

    first: Word
    second: Word
    third: Word
    top: Top = 10
    method: Literal["add", "mul"] = "add"


class Pair(Body):
    first: Text
    second: Text


class Map(Body):
    words: Annotated[list[Word], Field(min_length=2, max_length=200)]

    def texts_read(self) -> list[str]:
        return self.words


class Fill(Body):
    text: Text
    top: Top = 5


class Streamed(Body):
    """A body whose answer may come while the model writes."""

    stream: Annotated[
        bool, Field(description="Lines of JSON: what is written so far (partial), at last the answer with done: true.")
    ] = False


class Generate(Streamed):
    """The settings of ``Model.generate``."""

    text: Text
    max_tokens: Annotated[int, Field(ge=1, le=256)] = 50
    number: Annotated[int, Field(ge=1, le=16, validation_alias=AliasChoices("number", "num"))] = 1
    beams: Annotated[int, Field(ge=0, le=16)] = 0
    length_penalty: Annotated[float, Field(ge=0, le=10)] = 0.6
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    min_tokens: Annotated[int, Field(ge=0, le=256)] = 0
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] = 0
    repetition_penalty: Annotated[float, Field(ge=1, le=100)] = 1.0
    trace: Annotated[bool, Field(description="Also the tree of the beam search.")] = False

    def settings(self) -> dict[str, object]:
        """The keyword arguments of ``Model.generate``."""
        found = self.model_dump(exclude={"model", "text", "number", "trace", "stream"})
        return {**found, "num": self.number}

    @model_validator(mode="after")
    def _trace_of_beams(self) -> "Generate":
        if self.trace and not self.beams:
            raise ValueError("a trace shows a beam search: give beams, for example 4")
        return self


class Translate(Texts, Streamed):
    beams: Annotated[int, Field(ge=1, le=16)] = 5
    nbest: Annotated[int, Field(ge=1, le=16)] = 1

    @model_validator(mode="after")
    def _best_fit(self) -> "Translate":
        if self.nbest > self.beams:
            raise ValueError(f"{self.nbest} translations need as many beams, not {self.beams}")
        return self


class Align(Body):
    text: Text
    target: Text | None = None


class Attend(Body):
    text: Text
    second: Text | None = None


class ShowTokens(Body):
    text: Text


class ReadLayers(Body):
    text: Text


class TextPair(Part):
    text: Text
    second: Text


class Question(Part):
    question: Text
    passage: Text


class Look(Pictured):
    """One image."""

    images: Annotated[list[Base64Bytes], Field(min_length=1, max_length=1, description="One file in base64.")]


class Predict(Pictured):
    """``texts``, or ``pairs`` for tasks on two texts, or ``questions`` with passages, or ``images``."""

    texts: list[Text] | None = None
    pairs: list[TextPair] | None = None
    questions: list[Question] | None = None

    @model_validator(mode="after")
    def _one(self) -> "Predict":
        if sum(part is not None for part in (self.texts, self.pairs, self.questions, self.images)) != 1:
            raise ValueError("give one of texts, pairs, questions and images")
        return self

    def examples(self) -> list[Example]:
        """The texts or pairs, whichever key they were given under."""
        if self.pairs is not None:
            return [(pair.text, pair.second) for pair in self.pairs]
        if self.questions is not None:
            return [(one.question, one.passage) for one in self.questions]
        return list(self.texts or [])

    def texts_read(self) -> list[str]:
        return [part for one in self.examples() for part in ([one] if isinstance(one, str) else one)]


class WordInSentence(Part):
    text: Text
    word: Word


class Context(Body):
    sentences: Annotated[list[WordInSentence], Field(min_length=2, max_length=50)]
    layer: Layer = -1

    def texts_read(self) -> list[str]:
        return [one.text for one in self.sentences]


class Occurrences(Body):
    sentence: Text
    word: Word
    top: Top = 10
    layer: Layer = -1
    same_word: bool = False


class Neighbours(Body):
    sentence: Text
    word: Word
    top: Annotated[int, Field(ge=1, le=20)] = 5


class Explain(Body):
    text: Text
    second: Text | None = None
    label: Annotated[str | None, Field(max_length=300, description="By default the label that is predicted.")] = None


class Suggest(Body):
    texts: Annotated[list[Text], Field(min_length=1, description="Texts without labels.")]
    num: Annotated[int, Field(ge=1, le=200)] = 20

    def texts_read(self) -> list[str]:
        return self.texts


class LabelledText(Part):
    text: Annotated[Text, Field(min_length=1)]
    label: Word


class Labelled(Body):
    rows: Annotated[
        list[LabelledText], Field(min_length=1, max_length=512, description="Texts with the label of each.")
    ]

    def texts_read(self) -> list[str]:
        return [row.text for row in self.rows]


class Search(Pictured):
    """``question``, or ``images`` with one image where the documents are images."""

    question: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    images: Annotated[list[Base64Bytes], Field(min_length=1, max_length=1)] | None = None
    top: Top = 10
    mode: Literal["auto", "words", "vectors", "both"] = "auto"
    where: Annotated[
        list[Word], Field(max_length=20, description="Conditions on columns, such as year>=1998 or language=en.")
    ] = []
    weight: Annotated[
        float | None,
        Field(ge=0, le=1, description="How much vectors count against words; by default as it was chosen."),
    ] = None
    passages: Annotated[bool, Field(description="All passages of a document, not its best one.")] = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.question is None) == (self.images is None):
            raise ValueError("give a question, or one image")
        return self

    @classmethod
    def of_upload(cls, data: bytes, asked: Mapping[str, str]) -> Self:
        """``top`` and ``where`` (with commas between) may stand in the address."""
        top = asked.get("top", "10")
        where = [one.strip() for one in asked.get("where", "").split(",") if one.strip()]
        rest = {"model": asked.get("model"), "top": int(top) if top.isdecimal() else top, "where": where}
        checked = cls.model_validate({"question": "image", **rest})
        return checked.model_copy(update={"question": None, "images": [data]})

    def texts_read(self) -> list[str]:
        return [] if self.question is None else [self.question]


class Topics(Body):
    min_size: Annotated[int | None, Field(ge=2, le=1000, description="The fewest documents of a topic.")] = None
    words: Annotated[int, Field(ge=1, le=20, description="Of a topic.")] = 5


class Duplicates(Body):
    least: Annotated[
        float, Field(gt=0, le=1, description="The cosine from which on two documents say nearly the same.")
    ] = 0.95


class Embeddings(Body):
    """OpenAI's request for embeddings; further keys of OpenAI's are not supported."""

    input: Annotated[Text | list[Text], Field(description="A text or a list of texts.")]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[
        int | None, Field(ge=1, le=100_000, description="Only the first so many, for Matryoshka models.")
    ] = None
    user: Annotated[str | None, Field(max_length=300)] = None

    def texts_read(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input
