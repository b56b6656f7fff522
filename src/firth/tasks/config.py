"""The settings of a task on top of a representation."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from firth.core.config import Config, Positive, Probability, parse_duration
from firth.core.errors import FirthError, nearest
from firth.core.registry import Precision
from firth.core.types import Array, Floats, TextReader
from firth.nn.arrays import ArrayCRF

CandidateName = Literal["counts", "linear", "contrastive", "tuned"]
TaskKind = Literal["classify", "score", "tag", "answer"]


class TaskConfig(Config):
    """Everything a fine-tuning run is made of; stored whole in the run and obeyed again when it predicts."""

    task: TaskKind = "classify"  # kind of task
    labels: tuple[str, ...] = ()  # in the order of the head's rows; found in the training data
    several: bool = False  # a text may have several labels, or none; found in the training data
    thresholds: tuple[
        Annotated[float, Field(gt=0, lt=1)], ...
    ] = ()  # of several labels; none: found on dev or in folds

    # what is tried; the best is kept
    candidates: tuple[CandidateName, ...] = ()  # none: by the base, and "tuned" alone if a setting of training is given
    folds: Annotated[int, Field(ge=0, le=100)] = 0  # of cross-validation; 0: 5, fewer for what takes long
    budget: str = "10m"  # for all candidates of a training, for example "90s"

    # how the representation is used
    tune: bool = True  # false: its weights stay as they are
    layers: Literal["last", "mix", "all"] = "last"  # mix: a learned sum of all layers; all: side by side
    place: Literal["input", "output", "both"] = "input"  # of the body: where the representation enters
    mix_l2: Annotated[float, Field(ge=0)] = 0.0  # λ: 1 keeps the layers' shares near equal, 0.001 sets them free
    mix_norm: bool = False  # layer norm of each layer before the mix
    body: Literal["none", "bilstm"] = "none"  # a layer between the representation and the head
    body_dim: Positive = 128  # units of the BiLSTM in each direction
    pool: Literal["auto", "cls", "last", "mean", "max"] = "auto"  # how the vectors of tokens become one of the text
    dropout_prob: Probability = 0.1  # before the head
    crf: bool = False  # a CRF scores sequences of tags
    scheme: str | None = None  # of tags: bio, bioes, bmes; none for parts of speech
    pair_reading: Literal["together", "apart"] = "together"  # of two texts by a base that can read them in one row
    pair_cosines: bool = False  # of two texts read apart: the cosine of each layer is another feature
    characters: bool = False  # tags of Chinese are for single characters; found in the training data
    letters: bool = False  # and so are those of digits and letters in Chinese text; found in the training data
    default_label: str = ""  # the tag of what cannot be read: O, or the most frequent; found in the training data

    adapt_epochs: Annotated[float, Field(ge=0)] = 0.0  # passes over the task's text with the base's own objective
    adapt_learning_rate: Annotated[float, Field(gt=0)] | None = (
        None  # none: a tenth of the rate the base was trained with
    )

    # texts longer than the model reads
    max_len: Annotated[int, Field(ge=8)] = 512  # tokens; what is longer is read as long_text says
    long_text: Literal["head", "tail", "head_tail", "windows"] = "head"  # what is read of it
    stride: Positive | None = None  # tokens from one window to the next; none: by the task
    window_pool: Literal["mean", "max"] = "mean"  # how the answers of windows become one

    # answers
    max_answer_len: Positive = 30  # tokens
    max_question_len: Positive = 64  # tokens; a longer question loses its end
    answer_metric: Literal["squad1", "squad2", "cmrc"] | None = (
        None  # none: by the answers; cmrc counts Chinese characters
    )
    null_threshold: float | None = None  # found on the dev set; none: there is always an answer

    # distillation
    teacher_weight: Probability = 0.9  # of what it says, against 1 minus that of the labels
    temperature: Annotated[float, Field(gt=0)] = 2.0  # of the teacher's probabilities
    hidden_weight: Annotated[float, Field(ge=0)] = 0.0  # of the difference to its layers

    # training
    batch_size: Positive = 32  # examples of a step
    max_batch_tokens: Positive = 16384  # padding counted; longer texts make smaller batches
    learning_rate: Annotated[float, Field(gt=0)] | None = None  # none: by the base, 5e-5 to 1e-3 for tuned Transformers
    epochs: Annotated[int, Field(gt=0, le=1000)] = 3  # passes over the examples
    warmup_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1  # share of the steps in which the rate rises
    weight_decay: Annotated[float, Field(ge=0)] = 0.01  # of the weights, at each step
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # each layer below learns that much slower
    class_weights: bool | None = None  # none: if the most frequent class is 3 times as frequent as the rarest
    patience: Positive | None = None  # epochs without a better dev score before it stops
    metric: str | None = None  # the dev score that decides; none: the task's usual one
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # same seed, same result
    device: str = "cpu"  # cpu, cuda, cuda:1
    precision: Precision = "auto"  # of a tuned Transformer's matrix products while it learns; auto: bfloat16 where the machine has units for it

    @model_validator(mode="after")
    def _fits_together(self) -> "TaskConfig":
        if self.crf and self.task != "tag":
            raise ValueError("crf is for tagging: leave it out")
        if len(set(self.candidates)) != len(self.candidates):
            raise ValueError("candidates: one of them is given twice")
        if self.folds == 1:
            raise ValueError("folds: at least 2 are needed, one to judge by and one to learn from")
        try:
            parse_duration(self.budget)
        except FirthError as error:
            raise ValueError(f"budget: {error}") from None
        if len(set(self.labels)) != len(self.labels):
            raise ValueError("labels: one of them is given twice")
        if "contrastive" in self.candidates and "linear" not in self.candidates:
            raise ValueError("candidates: contrastive goes on from linear; name both")
        return self


class WritingConfig(Config):
    """A task as text to text (T5, Raffel et al. 2020): what the examples are and how they are put into words. It is stored in the
    run and obeyed again when it writes."""

    # source and target; text and label; words and tags; plain text, clauses of which are repeated (then stored as text)
    form: Literal["text", "classify", "tag", "copy"] = "text"  # of the examples: plain text, or labels put into words
    prefix: str = ""  # said before every source, for example "title:"
    labels: tuple[str, ...] = ()  # of classes, types of entities or tags; found in the training data
    scheme: str | None = None  # of tags: bio, bioes, bmes; none for parts of speech
    pairs: bool = False  # two texts are compared; found in the training data
    characters: bool = False  # tags of Chinese are for single characters; found in the training data
    max_source_len: Positive = 256  # tokens; a longer source loses its end
    max_target_len: Positive = 64  # tokens; a longer target loses its end
    beams: Positive | None = None  # none: 4 for texts, 1 for classes and tags

    @property
    def num_beams(self) -> int:
        return self.beams or (4 if self.form == "text" else 1)


def task_config(task: str) -> TaskConfig:
    """The usual settings of a kind of task."""
    kinds = get_args(TaskKind)
    if task not in kinds:
        raise FirthError(f"unknown task '{task}': {nearest(task, [*kinds, 'embed', 'write'])}")
    return TaskConfig.build({"task": task}, "task")


def writing_config(settings: Mapping[str, object]) -> tuple[WritingConfig, dict[str, object]]:
    """The settings of a task as text, and those that are left: settings of its training."""
    mine = {name: value for name, value in settings.items() if name in WritingConfig.model_fields}
    return WritingConfig().update(mine), {name: value for name, value in settings.items() if name not in mine}


class ArrayNetwork:
    """The network of a task that computes arrays, without torch: an exported graph."""

    config: TaskConfig
    reader: TextReader
    crf: ArrayCRF | None = None

    def eval(self) -> object:
        """It always answers as in use."""
        return self

    def text_arrays(self, arrays: Mapping[str, Array], num_texts: int) -> Floats:
        """[N, K]."""
        raise NotImplementedError

    def token_arrays(self, arrays: Mapping[str, Array]) -> Floats:
        """[B, T, K]."""
        raise NotImplementedError
