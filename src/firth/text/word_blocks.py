"""Encoding a block of documents as words: every type is kept, numbered within the block."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.text.document import Document
from firth.text.encoded import EncodedBlock, keep_full, sentences_of
from firth.text.words import WORD, cut, has_han


class Table(dict[str, int]):
    """Numbers its keys as they come."""

    def __missing__(self, key: str) -> int:
        number = self[key] = len(self)
        return number


@dataclass(frozen=True)
class WordRules:
    """What a word is: folded or not, split by the segmenter and letters or at white space only."""

    lowercase: bool
    whitespace_only: bool


@dataclass(frozen=True)
class WordBlock:
    """A block whose ids count through ``types``, which are sorted."""

    block: EncodedBlock
    types: list[str]


class WordEncoder:
    """Splits text into words, where a token is a word; Chinese is segmented first."""

    def __init__(self, rules: WordRules) -> None:
        self.rules = rules

    def words(self, sentence: str, chinese: bool) -> list[str]:
        if chinese and not self.rules.whitespace_only:
            # cut as it is written, as texts are when a model reads them: the dictionary knows some words by capitals
            found = [word for word in cut(sentence) if not word.isspace()]
            return [word.lower() for word in found] if self.rules.lowercase else found
        if self.rules.lowercase:
            sentence = sentence.lower()
        return sentence.split() if self.rules.whitespace_only else WORD.findall(sentence)

    def encode(self, documents: list[Document]) -> WordBlock:
        table = Table()
        ids: list[NDArray[np.int64]] = []
        lens: list[int] = []
        per_document: list[int] = []
        for document in documents:
            chinese = has_han(document.text)
            sentences = sentences_of(document)
            words: list[str] = []
            for start, end in sentences:
                found = self.words(document.text[start:end], chinese)
                words += found
                lens.append(len(found))
            ids.append(np.fromiter(map(table.__getitem__, words), np.int64, len(words)))
            per_document.append(len(sentences))
        types = sorted(table)
        rank = np.empty(len(types), np.uint32)
        rank[[table[word] for word in types]] = np.arange(len(types), dtype=np.uint32)
        flat = rank[np.concatenate(ids)] if ids else np.zeros(0, np.uint32)
        block = keep_full(flat, np.ones(len(flat), np.bool_), np.asarray(lens, np.int64), per_document)
        return WordBlock(block, types)
