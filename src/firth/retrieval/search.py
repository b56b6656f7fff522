"""Search in an index: by words (BM25), by vectors, or by both; with filters, marked words and the most similar sentence.
The two halves are in ``rankings``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import AnswerCandidate, Floats, unit_rows
from firth.models.shared.model import Model, ModelFacts
from firth.retrieval.exact import LEAST_WEIGHT, Encode, fuse
from firth.retrieval.parts import read_conditions
from firth.retrieval.passages import Span
from firth.retrieval.rankings import Ranking, Wanted, find_postings, rank_by_vectors, rank_by_words
from firth.retrieval.store import INDEX, IndexRecord, State, open_state
from firth.retrieval.words import marked_words, terms
from firth.tokenizers.sentences import split_sentences

Mode = str  # auto, words, vectors, both
Where = Sequence[str] | Mapping[str, object]
_COMMON = float(np.log1p(3))  # the idf of a word that stands in a quarter of all passages


@dataclass(frozen=True)
class Hit:
    """A passage that was found. Places are characters: ``start`` and ``end`` of the document, the others of ``text``."""

    id: str
    source: str
    score: float
    text: str
    start: int
    end: int
    fields: Mapping[str, object]
    marks: Sequence[Span]  # words of the question
    best: Span  # the most similar sentence
    words: float | None  # BM25, where the passage was found by words
    cosine: float | None  # where it was found by vectors; the dot product where the model asks for that
    answer: AnswerCandidate | None = None


class SearchIndex:
    """An index that is open for questions. Documents may be added meanwhile: each question sees the newest state."""

    def __init__(self, folder: Path, load: Callable[[Path], Model], verify: bool = True) -> None:
        """``load`` opens the model that the index names, when it is first needed."""
        self.folder, self._load, self._verify = folder, load, verify
        self._model: Model | None = None
        self._encode: Encode | None = None
        self._stamp = self._seen()
        self.state = open_state(folder, verify)

    @property
    def record(self) -> IndexRecord:
        return self.state.record

    def _seen(self) -> tuple[int, int]:
        try:
            found = (self.folder / INDEX).stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_mtime_ns, found.st_ino

    def refresh(self) -> State:
        """The newest state."""
        stamp = self._seen()
        if stamp != self._stamp:
            before = self.record.model
            self.state, self._stamp = open_state(self.folder, self._verify, self.state), stamp
            if self.record.model != before:
                self._model = self._encode = None
        return self.state

    def model(self) -> Model:
        """The model that made the vectors, checked by its fingerprint."""
        from firth.core.files import fingerprint

        record = self.record.model
        if record is None:
            raise FirthError(f"{self.folder}: an index without vectors; search it by words")
        if self._model is None:
            path = Path(record.path)
            if not path.exists():
                raise FirthError(f"{path}: the model of {self.folder} is not there; put it back or search by words")
            if fingerprint(path) != record.fingerprint:
                raise FirthError(
                    f"{path}: not the model any more that {self.folder} was made with; make the index again"
                )
            self._model = self._load(path)
        return self._model

    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors of questions, as the index compares them."""
        from firth.retrieval.build import question_encoder

        if self._encode is None:
            model = self.model()
            assert self.record.model is not None
            self._encode = question_encoder(model, self.record.model.similarity)
        return self._encode(texts)

    # -- asking

    def fits_none(self, where: Where) -> bool:
        """Whether no document satisfies the conditions."""
        return all(some is not None and not some.any() for some in _allowed(self.refresh(), where))

    def search(
        self,
        question: str,
        top: int = 10,
        mode: Mode = "auto",
        where: Where = (),
        weight: float | None = None,
        passages: bool = False,
    ) -> list[Hit]:
        """The best passages for a question, one of each document unless all ``passages`` are wanted."""
        state = self.refresh()
        (found,) = self._ranked(state, [question], top, mode, where, weight, passages)
        sentences = [state.parts[place].passage(number)[2] for (place, number), *_ in found]
        return self._hits(state, question, found, sentences)

    def search_vectors(self, questions_QD: Floats, top: int = 10, where: Where = ()) -> list[list[Hit]]:
        """The documents whose vectors are nearest to those of questions that are no texts, such as images."""
        state = self.refresh()
        if state.record.model is None:
            raise FirthError(f"{self.folder}: an index without vectors; search it by words, or make one with --model")
        rankings = rank_by_vectors(state, questions_QD, Wanted(_allowed(state, where), top, False))
        found = [_fused(state, Ranking(), one, 1.0, top, False) for one in rankings]
        return [
            self._hits(state, "", some, [state.parts[place].passage(number)[2] for (place, number), *_ in some])
            for some in found
        ]

    def rank(
        self,
        questions: Sequence[str],
        top: int = 10,
        mode: Mode = "auto",
        where: Where = (),
        weight: float | None = None,
    ) -> list[list[str]]:
        """The ids of the best documents for each question."""
        state = self.refresh()
        found = self._ranked(state, questions, top, mode, where, weight, False)
        return [[str(_row(state, place)["id"]) for place, *_ in some] for some in found]

    def _ranked(
        self,
        state: State,
        questions: Sequence[str],
        top: int,
        mode: Mode,
        where: Where,
        weight: float | None,
        passages: bool,
    ) -> list[list[tuple[tuple[int, int], float, float | None, float | None]]]:
        """(place, score, score by words, cosine) of each question's results."""
        if mode not in ("auto", "words", "vectors", "both"):
            raise FirthError(f"mode '{mode}': choose auto, words, vectors or both")
        if any(not question.strip() for question in questions):
            raise FirthError("the question is empty: write some words")
        has_vectors = state.record.model is not None
        if mode in ("vectors", "both") and not has_vectors:
            raise FirthError(f"{self.folder}: an index without vectors; search it by words, or make one with --model")
        if weight is not None and not 0 <= weight <= 1:
            raise FirthError(f"weight {weight}: choose one between 0 (words only) and 1 (vectors only)")
        if mode == "auto" and state.record.model is not None and state.record.model.images:
            mode = "vectors"  # the words of a path say nothing of the image
        share = state.record.weight if weight is None else weight
        if mode == "both" and weight is None:  # each counts, also where the index would leave one out
            share = min(max(share, LEAST_WEIGHT), 1 - LEAST_WEIGHT)
        share = {"words": 0.0, "vectors": 1.0}.get(mode, share if has_vectors else 0.0)
        wanted = Wanted(_allowed(state, where), top, passages)
        by_words = [rank_by_words(state, one, wanted) if share < 1 else Ranking() for one in questions]
        by_vectors = (
            rank_by_vectors(state, self.encode(questions), wanted) if share > 0 else [Ranking() for _ in questions]
        )
        return [
            _fused(state, words, vectors, share, top, passages)
            for words, vectors in zip(by_words, by_vectors, strict=True)
        ]

    def _hits(
        self,
        state: State,
        question: str,
        found: Sequence[tuple[tuple[int, int], float, float | None, float | None]],
        texts: Sequence[str],
    ) -> list[Hit]:
        listed = find_postings(state, set(terms(question)))
        asked = {word: rarity for word, (rarity, _) in listed.items()}
        known = [rarity for rarity, places in listed.values() if any(len(some) for some, _ in places)]
        common = min(_COMMON, max(known, default=0.0))  # words that stand nearly everywhere are not marked
        shown = {word for word, rarity in asked.items() if rarity >= common}
        spans = [_bare_sentences(text) for text in texts]
        best = self._best_sentences(question, asked, texts, spans)
        hits = []
        for (place, score, words, cosine), text, span in zip(found, texts, best, strict=True):
            part = state.parts[place[0]]
            document, start, _ = part.passage(place[1])
            row = part.row(document)
            fields = cast(Mapping[str, object], row["fields"])
            marks = marked_words(text, shown)
            id, source = str(row["id"]), str(row["source"])
            hits.append(Hit(id, source, score, text, start, start + len(text), fields, marks, span, words, cosine))
        return hits

    def _best_sentences(
        self, question: str, asked: Mapping[str, float], texts: Sequence[str], spans: Sequence[Sequence[Span]]
    ) -> list[Span]:
        """Of each text the sentence most similar to the question: by the model where it was loaded, else by rare words. The path
        of an image is no sentence."""
        if self.record.model is not None and self.record.model.images:
            return [(0, len(text)) for text in texts]
        if self._encode is not None:
            from firth.retrieval.build import passage_encoder

            every = [text[start:end] for text, some in zip(texts, spans, strict=True) for start, end in some]
            model = self.model()
            assert self.record.model is not None
            encode = passage_encoder(model, self.record.model.similarity)
            scores = (encode(every) @ self.encode([question])[0]).tolist() if every else []
        else:
            scores = [
                sum(asked.get(word, 0.0) for word in set(terms(text[start:end])))
                for text, some in zip(texts, spans, strict=True)
                for start, end in some
            ]
        found, place = [], 0
        for some in spans:
            here = scores[place : place + len(some)]
            found.append(some[int(np.argmax(here))] if here else (0, 0))
            place += len(some)
        return found


def _row(state: State, place: tuple[int, int]) -> dict[str, object]:
    part = state.parts[place[0]]
    return part.row(int(part.passages[place[1], 0]))


def _bare_sentences(text: str) -> list[Span]:
    found = []
    for start, end in split_sentences(text):
        inner = text[start:end]
        begin = start + len(inner) - len(inner.lstrip())
        if inner.strip():
            found.append((begin, begin + len(inner.strip())))
    return found


def _allowed(state: State, where: Where) -> list[NDArray[np.bool_] | None]:
    """For each part the passages that may be found; none: all."""
    conditions = read_conditions(where, state.parts)
    found: list[NDArray[np.bool_] | None] = []
    for part in state.parts:
        allowed = part.live_P
        if conditions:
            kept_K = np.logical_and.reduce([one.holds(part) for one in conditions])
            inside = kept_K[part.passages[:, 0]]
            allowed = inside if allowed is None else allowed & inside
        found.append(allowed)
    return found


# -- both


def _fused(
    state: State, words: Ranking, vectors: Ranking, share: float, top: int, passages: bool
) -> list[tuple[tuple[int, int], float, float | None, float | None]]:
    """The best by both rankings; unless all passages are wanted, a document is ranked by its best passage."""
    first: dict[tuple[int, int], tuple[int, int]] = {}  # what is ranked -> the passage that stands for it
    numbers: dict[tuple[int, int], int] = {}
    halves = []
    for ranking in (words, vectors):
        half: dict[int, float] = {}
        for place in ranking.places:
            unit = place if passages else (place[0], int(state.parts[place[0]].passages[place[1], 0]))
            first.setdefault(unit, place)
            half.setdefault(numbers.setdefault(unit, len(numbers)), ranking.scores[place])
        halves.append(half)
    names = list(numbers)
    best = []
    for number, score in fuse(halves[0], halves[1], share)[:top]:
        place = first[names[number]]
        cosine = vectors.score(state, place) if number in halves[1] else None
        best.append((place, score, words.scores.get(place), cosine))
    return best


class IndexModel(Model):
    """What ``firth.load`` gives for a folder that ``firth index`` made."""

    kind = "search index"

    def __init__(self, folder: Path, load: Callable[[Path], Model]) -> None:
        self.index = SearchIndex(folder, load)
        self.dim = 0 if self.index.record.model is None else self.index.record.model.dim

    @property
    def reads_images(self) -> bool:
        """Whether documents and questions are images."""
        model = self.index.record.model
        return model is not None and model.images

    def _abilities(self) -> set[str]:
        return {"search"} | ({"group"} if self.index.record.model is not None else set())

    def describe(self) -> ModelFacts:
        record = self.index.refresh().record
        counts = {"documents": record.num_documents, "passages": record.num_passages}
        return super().describe().replace(**counts, vectors=record.model is not None, images=self.reads_images)

    def search(
        self,
        question: str,
        top: int = 10,
        mode: Mode = "auto",
        where: Where = (),
        weight: float | None = None,
        passages: bool = False,
    ) -> list[Hit]:
        """The best passages for a question, see ``firth.search``. Questions to a server are never taken for paths."""
        if self.reads_images:
            raise FirthError(
                "an index of images is asked with an image: use search_image, or firth search with its path"
            )
        return self.index.search(question, top, mode, where, weight, passages)

    def search_image(self, data: bytes, top: int = 10, where: Where = (), max_pixels: int | None = None) -> list[Hit]:
        """The images nearest to one that is given as the content of a file."""
        from firth.data.images import MAX_PIXELS
        from firth.models.shared.image_model import ImageAnswers

        model = self.index.model()
        if not isinstance(model, ImageAnswers):
            raise FirthError("an index of texts is asked with a question: write some words")
        pixels = model.decode([data], max_pixels or MAX_PIXELS)
        return self.index.search_vectors(unit_rows(model.encode_pixels([pixels])), top, where)[0]

    def __repr__(self) -> str:
        record = self.index.record
        return f"<search index, {record.num_documents:,} documents, {record.num_passages:,} passages, from {self.path}>"
