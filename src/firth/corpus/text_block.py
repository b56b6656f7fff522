"""Documents of one block as one UTF-8 text, with the sentences and the Chinese words in it."""

import numpy as np
from numpy.typing import NDArray

from firth.corpus.document_scripts import DocumentScripts, document_scripts
from firth.corpus.encoded import sentences_of
from firth.data.readers import Document
from firth.tokenizers.segmentation import Segmentation
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.words import has_han

BETWEEN = "\n\n"
_GROUP_CHARS = 200_000


def in_groups(documents: list[Document]) -> list[list[Document]]:
    """Small groups, whose arrays stay in the processor's cache."""
    groups: list[list[Document]] = [[]]
    size = 0
    for document in documents:
        groups[-1].append(document)
        size += len(document.text)
        if size > _GROUP_CHARS:
            groups.append([])
            size = 0
    return groups


class TextBlock:
    """Documents as one UTF-8 text, with what is known of sentences and words in it.

    Between documents stands an empty line, which ends a sentence and a word, so both can be
    sought in the whole.
    """

    def __init__(
        self,
        documents: list[Document],
        how: Segmentation,
        text: str | None = None,
        data: bytes | None = None,
        scripts: DocumentScripts | None = None,
    ) -> None:
        """``text``, ``data``, ``scripts``: of the documents joined, where they are known already."""
        self.documents = documents
        text = BETWEEN.join(document.text for document in documents) if text is None else text
        self.sizes = np.asarray([len(document.text) + len(BETWEEN) for document in documents], np.int64)
        self.bases = np.cumsum(self.sizes) - self.sizes
        self.data = text.encode() if data is None else data
        self.bytes = np.frombuffer(self.data, np.uint8)
        self.is_ascii = text.isascii()
        self.sentence_starts = self._sentence_starts(text, documents)
        border = np.append(np.searchsorted(self.sentence_starts, self.bases), len(self.sentence_starts))
        self.sentences_a_document = np.diff(border)
        self.word_at: NDArray[np.bool_] | None = None
        self.segmented = np.zeros(0, np.bool_)  # of each byte: whether its document is cut by the Chinese dictionary
        if not self.is_ascii:
            place = np.append(np.flatnonzero((self.bytes & 0xC0) != 0x80), len(self.bytes))  # of every character
            self.sentence_starts = place[self.sentence_starts]
            if not how.kanji and has_han(text):
                scripts = document_scripts(text, self.sizes) if scripts is None else scripts
                self.word_at = self._words(text, scripts.chinese(how), place, how)

    def byte_spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each document begins and ends, in bytes."""
        ends = self.bases + self.sizes - len(BETWEEN)
        if self.is_ascii:
            return self.bases, ends
        place = np.append(np.flatnonzero((self.bytes & 0xC0) != 0x80), len(self.bytes))
        return place[self.bases], place[ends]

    def cuts_runs(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bool]:
        """Which documents have a sentence that begins inside a run, as after a rare mark that no space follows."""
        places = self.sentence_starts
        inside = np.searchsorted(starts, places) != np.searchsorted(ends, places, side="right")
        document = np.repeat(np.arange(len(self.documents)), self.sentences_a_document)
        found = np.zeros(len(self.documents), np.bool_)
        found[document[inside]] = True
        cut: list[bool] = found.tolist()
        return cut

    def _sentence_starts(self, text: str, documents: list[Document]) -> NDArray[np.int64]:
        if all(document.sentences is None for document in documents):
            return np.asarray([start for start, _ in split_sentences(text)], np.int64)
        return np.asarray(
            [
                base + start
                for base, document in zip(self.bases.tolist(), documents, strict=True)
                for start, _ in sentences_of(document)
            ],
            np.int64,
        )

    def _words(
        self, text: str, dictionary: NDArray[np.bool_], place: NDArray[np.int64], how: Segmentation
    ) -> NDArray[np.bool_] | None:
        """At which bytes words begin for the segmenter; everywhere in documents without Chinese."""
        chinese = np.flatnonzero(dictionary)
        if not len(chinese):
            return None
        self.segmented = np.repeat(dictionary, np.diff(np.append(place[self.bases], len(self.bytes))))
        word_at = ~self.segmented
        some = len(chinese) < len(dictionary)
        words = how.cut(BETWEEN.join(self.documents[number].text for number in chinese) if some else text)
        lens = np.fromiter(map(len, words), np.int64, len(words))
        starts = np.cumsum(lens) - lens
        if some:
            bases = np.cumsum(self.sizes[chinese]) - self.sizes[chinese]
            shift = self.bases[chinese] - bases
            starts += shift[np.searchsorted(bases, starts, side="right") - 1]
        word_at[place[starts]] = True
        return word_at
