"""No representation at all: random vectors for the words of the task's own texts, learned with the task."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.seeds import generator
from firth.core.text_reader import TextReader
from firth.core.types import Encoding
from firth.models.lookup import Lookup
from firth.representations.base import Representation
from firth.representations.static import words_of

_FILE = "words.json"
_SPREAD = 0.1


class ScratchRepresentation(Representation):
    """What every other one has to beat."""

    kind = "scratch"

    def __init__(self, words: list[str], dim: int, seed: int = 0) -> None:
        self.words, self.dim, self.seed = words, dim, seed

    @classmethod
    def of_texts(
        cls, texts: Iterable[str | list[str]], dim: int = 100, seed: int = 0, max_words: int = 50_000
    ) -> "ScratchRepresentation":
        """Words that occur at least twice, the most frequent first."""
        counts = Counter(word.lower() for text in texts for word in words_of(text)[0])
        often = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
        return cls(often[:max_words], dim, seed)

    @property
    def num_parameters(self) -> int:
        return (len(self.words) + 2) * self.dim

    def reader(self) -> TextReader:
        random = generator(self.seed, 0x5C7A)
        table = (_SPREAD * random.standard_normal((len(self.words) + 2, self.dim))).astype(np.float32)
        table[0] = 0
        numbers = {word: place + 2 for place, word in enumerate(self.words)}

        def tokenize(text: str | list[str]) -> Encoding:
            words, offsets = words_of(text)
            ids = np.asarray([numbers.get(word.lower(), 1) for word in words], np.int64)
            return Encoding(ids, offsets, np.arange(len(words)), words, np.zeros(len(words), np.int64))

        return TextReader(self.kind, Lookup(table), tokenize, self.dim, num_layers=1, max_len=None)

    def save(self, folder: Path) -> None:
        write_json(folder / _FILE, {"dim": self.dim, "seed": self.seed, "words": self.words})

    @classmethod
    def load(cls, folder: Path) -> "ScratchRepresentation":
        data = read_json(folder / _FILE)
        if not isinstance(data, dict) or not isinstance(data.get("words"), list):
            raise FirthError(f"{folder / _FILE}: not a list of words; train the task again")
        return cls([str(word) for word in data["words"]], int(data["dim"]), int(data["seed"]))
