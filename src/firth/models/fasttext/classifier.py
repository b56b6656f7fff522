"""fastText's classifier as a model: texts in, vectors and probabilities out; a run of Firth or a file of the original."""

import functools
import os
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.models.shared.model import Model, TextLayers
from firth.models.shared.static import words_of
from firth.tokenizers.pieces import UNKNOWN_WORDS, sample_texts, word_share
from firth.tokenizers.words import has_han
from firth.vectors.binary_formats import map_arrays, save_arrays
from firth.vectors.classifier import (
    ADDED,
    EMPTY,
    Classifier,
    ClassifierConfig,
    DenseTable,
    Features,
    Scan,
    scan_texts,
)
from firth.vectors.fasttext_format import is_classifier_file, read_classifier, write_classifier

__all__ = ["FastTextClassifier", "FastTextClassifierConfig", "is_classifier_file"]

SETTINGS = "fasttext.json"
_ARRAYS = "fasttext.safetensors"
_SHAPES = {"input": 2, "output": 2, "buckets": 1, "counts": 1, "label_counts": 1, "words": 1}
Floats = NDArray[np.float32]
_READ = 50_000  # texts that a training reads, all epochs together, within these limits:
_LEAST_EPOCHS, _MOST_EPOCHS = 5, 500
_LENGTHS = {"whitespace": (3, 6), "words": (1, 3)}  # of character n-grams
_LONGEST, _LONGEST_CHINESE = 10.0, 3.0  # characters, the mean of words; what is longer between white space is no word
_SOME = 10  # one text in so many


class FastTextClassifierConfig(ClassifierConfig):
    """Settings of ``firth finetune classify --base fasttext``. The original's defaults (5 epochs at 0.1, no character
    n-grams) are for millions of texts; these are for hundreds and thousands. ``epochs``, ``min_n`` and ``max_n`` go by the texts
    where they are not given. Found by trying on film reviews, news and Chinese titles, 200 to 7,000 texts."""

    learning_rate: Annotated[float, Field(gt=0)] = 0.5  # at first
    word_split: Literal["auto", "words", "whitespace"] = (
        "auto"  # whitespace: as the original cuts texts; words: as firth prepare does; auto: whitespace where that gives words
    )
    metric: Literal["accuracy", "macro_f1", "weighted_f1", "matthews"] = "accuracy"  # the dev score that decides
    budget: str | None = None  # how long other settings are tried, for example 5m; what is given stays as it is

    def fitted(self, texts: Sequence[str], given: Set[str]) -> "FastTextClassifierConfig":
        """With what depends on the machine and the texts: threads, how often texts are read, how they are cut, and which
        n-grams words have (Chinese words are short)."""
        split = find_split(texts)
        changes: dict[str, object] = {"threads": self.threads or os.cpu_count() or 1}
        if self.word_split == "auto":
            changes["word_split"] = split
        if "epochs" not in given:
            changes["epochs"] = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, round(_READ / max(len(texts), 1))))
        if not given & {"min_n", "max_n", "bucket"}:
            changes |= dict(zip(("min_n", "max_n"), _LENGTHS[split], strict=True))
        return self.replace(**changes)


class FastTextClassifier(Model):
    """The table of words and n-grams with its labels; ``word_split`` says how texts are cut."""

    kind = "fastText classifier"
    spec_name = "fasttext"
    pools = ("mean",)
    unknown_limit = UNKNOWN_WORDS

    def __init__(self, classifier: Classifier, word_split: str, task_labels: Sequence[str] = ()) -> None:
        """``task_labels`` are those of the examples, in their order; some may be too rare to be learned."""
        self.classifier, self.word_split = classifier, word_split
        self.task_labels = tuple(task_labels) or tuple(sorted(classifier.labels))
        self.dim, self.added = classifier.config.dim, 0.0

    @property
    def num_parameters(self) -> int:
        tables = (self.classifier.inputs.shape, self.classifier.outputs.shape)
        return sum(rows * dim for rows, dim in tables)

    @property
    def vocab_size(self) -> int:
        return len(self.classifier.features.words)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classifier.labels

    def _abilities(self) -> set[str]:
        return {"encode", "layers", "map", "context"}

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> Floats:
        """The mean of the rows of each text's words and n-grams, as the original's sentence vectors."""
        self._check_choice(layer, pool)
        return self.classifier.vectors_of(scan(texts, self.word_split))

    def layers(self, text: str | list[str]) -> TextLayers:
        """One layer: every word by itself."""
        words, offsets = words_of(text, self.word_split == "whitespace")
        hidden = self.classifier.word_vectors(words)
        return TextLayers(list(words), offsets, np.arange(len(words)), hidden[None])

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """[N, K], of ``labels``; those of a file are the original's, which are 1e-5 more than they should be."""
        return self.classifier.scores(self.classifier.vectors_of(scan(texts, self.word_split)), self.added)

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Of words, where no n-grams of characters spell them."""
        if self.classifier.features.max_n:
            return 0.0
        words = [word for text in sample_texts(texts) for word in words_of(text, self.word_split == "whitespace")[0]]
        return word_share(words, lambda word: word.encode() in self._known)

    @functools.cached_property
    def _known(self) -> set[bytes]:
        return set(self.classifier.features.words)

    # -- on disk

    def save(self, folder: Path) -> None:
        classifier = self.classifier
        assert isinstance(classifier.inputs, DenseTable)
        assert isinstance(classifier.outputs, DenseTable)
        arrays: dict[str, NDArray[np.generic]] = {
            "input": classifier.inputs.matrix,
            "output": classifier.outputs.matrix,
            "buckets": classifier.features.keys,
            "counts": classifier.counts,
            "label_counts": classifier.label_counts,
            "words": np.frombuffer(b"\n".join(classifier.features.words), np.uint8),
        }
        save_arrays(folder / _ARRAYS, arrays)
        settings = {
            "config": ClassifierConfig.build(_plain(classifier.config), SETTINGS).model_dump(),
            "labels": list(classifier.labels),
            "task_labels": list(self.task_labels),
            "word_split": self.word_split,
            "num_tokens": classifier.num_tokens,
        }
        write_json(folder / SETTINGS, settings)

    @classmethod
    def load(cls, folder: Path) -> "FastTextClassifier":
        """A run of ``firth finetune``."""
        settings = read_json(folder / SETTINGS)
        if not isinstance(settings, dict):
            raise FirthError(f"{folder / SETTINGS}: damaged; fine-tune again")
        config = ClassifierConfig.build(settings.get("config"), folder / SETTINGS)
        labels = tuple(map(str, settings.get("labels") or ()))
        arrays, _ = map_arrays(folder / _ARRAYS)
        if {name: array.ndim for name, array in arrays.items()} != _SHAPES:
            raise FirthError(f"{folder / _ARRAYS}: not the arrays of a fastText classifier; fine-tune again")
        words = arrays["words"].tobytes().split(b"\n")
        keys = np.asarray(arrays["buckets"], np.int64)
        fits = (
            arrays["input"].shape == (len(words) + len(keys), config.dim)
            and arrays["output"].shape == (len(labels), config.dim)
            and len(arrays["counts"]) == len(words)
            and len(arrays["label_counts"]) == len(labels) > 0
        )
        if not fits or settings.get("word_split") not in ("words", "whitespace"):
            raise FirthError(f"{folder / _ARRAYS}: does not fit {SETTINGS}; fine-tune again")
        rows = (len(words) + np.arange(len(keys))).astype(np.int32)
        lengths = (config.word_ngrams, config.min_n, config.max_n, config.bucket if config.hashes else 0)
        features = Features(words, *lengths, EMPTY, keys, rows)
        counts = (np.asarray(arrays["counts"], np.int64), labels, np.asarray(arrays["label_counts"], np.int64))
        tables = (DenseTable(arrays["input"]), DenseTable(arrays["output"]))
        found = Classifier(config, features, *counts, *tables, int(settings.get("num_tokens") or 0))
        return cls(found, str(settings.get("word_split")), tuple(map(str, settings.get("task_labels") or ())))

    @classmethod
    def of_file(cls, path: Path) -> "FastTextClassifier":
        """A ``.bin`` or ``.ftz`` of the original."""
        found = cls(read_classifier(path), "whitespace")
        found.added = ADDED
        return found

    def write(self, path: Path) -> None:
        """A ``.bin`` that the original reads."""
        write_classifier(self.classifier, path)


def find_split(texts: Sequence[str]) -> Literal["words", "whitespace"]:
    """Whether white space stands between the words of these texts; it does not in Chinese that nobody has cut."""
    chinese = [text for text in texts if has_han(text)]
    for some, longest in ((texts, _LONGEST), (chinese if _SOME * len(chinese) > len(texts) else [], _LONGEST_CHINESE)):
        pieces = sum(len(text.split()) for text in some)
        if sum(len(text) for text in some) > (longest + 1) * pieces:
            return "words"
    return "whitespace"


def scan(texts: Sequence[str], word_split: str) -> Scan:
    """The words of texts."""
    if word_split == "whitespace":
        return scan_texts(texts)
    return scan_texts([" ".join(words_of(text)[0]) for text in texts])


def _plain(config: ClassifierConfig) -> dict[str, object]:
    """Without what only a fine-tuning has."""
    return {name: value for name, value in config.model_dump().items() if name in ClassifierConfig.model_fields}
