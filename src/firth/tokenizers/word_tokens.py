"""Words as tokens: a closed list of words, everything else unknown; text to ids and back.

``words.txt`` holds one token per line in the order of the ids, ``tokenizer_config.json`` how text is split.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import read_json, write_json, write_text
from firth.core.types import Encoding
from firth.tokenizers.pieces import READ, UNKNOWN_WORDS, Pieces, sample_texts
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.words import has_han, has_unspaced, without_invisible

MARKS = ["<unk>", "<eos>"]
_NAME = "firth-words"


class _Rules(Config):
    tokenizer_class: str = _NAME
    lowercase: bool
    word_split: str


class WordTokens:
    """A list of words with two marks before them: ``<unk>`` and ``<eos>`` (which ends a text)."""

    kind = "words"
    unk_id, eos_id = 0, 1

    def __init__(
        self, words: list[str], lowercase: bool, whitespace_only: bool, segmentation: Segmentation = PLAIN
    ) -> None:
        """A word that is written like a mark (as in text where rare words were replaced) is that mark."""
        self.tokens = MARKS + [word for word in words if word not in MARKS]
        self.ids = {word: number for number, word in enumerate(self.tokens)}
        self.lowercase = lowercase
        self.whitespace_only = whitespace_only
        self.segmentation = segmentation

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @property
    def fingerprint(self) -> str:
        """Equal for lists with the same words, split alike."""
        content = "\n".join([*self.tokens, str(self.lowercase), str(self.whitespace_only)])
        content += "" if self.segmentation.plain else self.segmentation.model_dump_json()
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def token(self, number: int) -> str:
        return self.tokens[number]

    def numbers(self, words: list[str]) -> NDArray[np.int64]:
        """The id of each word."""
        return np.fromiter((self.ids.get(word, self.unk_id) for word in words), np.int64, len(words))

    def encode(self, text: str | list[str], add_special: bool = False) -> Encoding:
        """Words with their places; a list is taken as words. There are no special tokens to add."""
        if isinstance(text, list):
            ends = np.cumsum([len(word) + 1 for word in text], dtype=np.int64)
            spans = [(int(end) - 1 - len(word), int(end) - 1) for word, end in zip(text, ends, strict=True)]
            found = text
        else:
            spans = white_spans(text) if self.whitespace_only else self.segmentation.split(text)
            found = [
                text[start:end] if self.whitespace_only else without_invisible(text[start:end]) for start, end in spans
            ]
        words = [word.lower() for word in found] if self.lowercase else list(found)
        ids = self.numbers(words)
        READ.add(ids, self.unk_id, UNKNOWN_WORDS)
        offsets = np.asarray(spans, np.int64).reshape(-1, 2)
        tokens = [self.tokens[number] for number in ids.tolist()]
        return Encoding(ids, offsets, np.arange(len(ids)), tokens, np.zeros(len(ids), np.int64))

    def unknown_share(self, texts: Iterable[str]) -> float:
        """Of the words of a sample of the texts."""
        found = [number for text in sample_texts(texts) for number in self.encode(text).ids.tolist()]
        return found.count(self.unk_id) / max(len(found), 1)

    def decode(self, ids: list[int]) -> str:
        """The words with spaces between them, but not in scripts that have none; ``<eos>`` is left out."""
        return join_words([self.tokens[number] for number in ids if number != self.eos_id])

    def save(self, folder: Path) -> None:
        write_text(folder / "words.txt", "".join(f"{token}\n" for token in self.tokens))
        split = "whitespace" if self.whitespace_only else "words"
        write_json(folder / "tokenizer_config.json", _Rules(lowercase=self.lowercase, word_split=split).model_dump())
        self.segmentation.save(folder)

    @classmethod
    def load(cls, folder: Path) -> "WordTokens":
        rules = _Rules.build(read_json(folder / "tokenizer_config.json"), folder / "tokenizer_config.json")
        tokens = (folder / "words.txt").read_bytes().decode().split("\n")[:-1]
        if tokens[: len(MARKS)] != MARKS:
            raise FirthError(f"{folder / 'words.txt'}: does not begin with {' and '.join(MARKS)}; copy it again")
        return cls(tokens[len(MARKS) :], rules.lowercase, rules.word_split == "whitespace", Segmentation.load(folder))


AnyTokens = Pieces | WordTokens


def load_tokens(folder: Path) -> AnyTokens:
    """Words where there is a ``words.txt``, else pieces."""
    return WordTokens.load(folder) if (folder / "words.txt").is_file() else Pieces.load(folder)


def join_words(words: list[str]) -> str:
    parts: list[str] = []
    before = False
    for word in words:
        wide = has_han(word) or has_unspaced(word) or (not word.isascii() and not any(map(str.isalnum, word)))
        if parts and not (before and wide):
            parts.append(" ")
        parts.append(word)
        before = wide
    return "".join(parts)


def white_spans(text: str) -> list[tuple[int, int]]:
    """The spans of words that are separated by white space alone."""
    spans, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        spans.append((start, start + len(word)))
        start += len(word)
    return spans
