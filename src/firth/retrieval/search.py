"""Search in an index: by words (BM25), by vectors, or by both; with filters, marked words and the most similar sentence.

Vectors are compared exactly, block by block, or by graphs (HNSW of usearch) where the index has them; what a graph finds is
scored again exactly.

P passages of a part, D dimensions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import AnswerCandidate, Floats, Ints
from firth.models.shared.model import Model
from firth.retrieval.exact import BLOCK, Encode, best_places, best_rows, fuse
from firth.retrieval.parts import Part, read_conditions
from firth.retrieval.passages import Span
from firth.retrieval.store import INDEX, IndexRecord, State, open_state
from firth.retrieval.words import inverse_frequencies, marked_words, term_weights, terms
from firth.tokenizers.words import split_sentences

if TYPE_CHECKING:
    from firth.models.shared.model import Model


Mode = str  # auto, words, vectors, both
Where = Sequence[str] | Mapping[str, object]
_DEPTH = 200  # passages of each half that are fused
_COMMON = float(np.log1p(3))  # the idf of a word that stands in a quarter of all passages
_MORE = 2  # of a graph, candidates for each that is wanted


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
    cosine: float | None  # where it was found by vectors
    answer: AnswerCandidate | None = None


@dataclass
class _Ranking:
    """Passages, best first, as (part, number) with their scores."""

    places: list[tuple[int, int]] = field(default_factory=list)
    scores: dict[tuple[int, int], float] = field(default_factory=dict)


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
            self.state, self._stamp = open_state(self.folder, self._verify, self.state), stamp
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

    def use_model(self, model: Model) -> None:
        """A loaded model in place of the one at the recorded path; it has to be the same."""
        self._model = model

    def encode(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of questions."""
        from firth.retrieval.build import question_encoder

        if self._encode is None:
            self._encode = question_encoder(self.model())
        return self._encode(texts)

    # -- asking

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
        share = {"words": 0.0, "vectors": 1.0}.get(mode, share if has_vectors else 0.0)
        allowed = _allowed(state, where)
        depth = max(_DEPTH, 10 * top)
        by_words = [_by_words(state, one, allowed, depth) if share < 1 else _Ranking() for one in questions]
        by_vectors = (
            _by_vectors(state, self.encode(questions), allowed, depth) if share > 0 else [_Ranking() for _ in questions]
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
        listed = _postings(state, set(terms(question)))
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
        """Of each text the sentence most similar to the question: by the model where it was loaded, else by rare words."""
        if self._encode is not None:
            from firth.retrieval.build import passage_encoder

            every = [text[start:end] for text, some in zip(texts, spans, strict=True) for start, end in some]
            scores = (passage_encoder(self.model())(every) @ self.encode([question])[0]).tolist() if every else []
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


# -- by words


def _postings(state: State, words: Iterable[str]) -> dict[str, tuple[float, list[tuple[Ints, Ints]]]]:
    """Of each word its idf and its (passages, counts) in each part; deleted documents do not count."""
    total = sum(part.num_live for part in state.parts)
    found = {}
    for word in words:
        listed = [part.postings(word) for part in state.parts]
        found_in = sum(
            len(places) if part.live_P is None else int(part.live_P[places].sum())
            for part, (places, _) in zip(state.parts, listed, strict=True)
        )
        found[word] = float(inverse_frequencies(total, np.asarray([found_in]))[0]), listed
    return found


def _by_words(state: State, question: str, allowed: Sequence[NDArray[np.bool_] | None], depth: int) -> _Ranking:
    """BM25 over all passages; the statistics are those of the whole index, whatever the filter."""
    asked = Counter(terms(question))
    total = sum(part.num_live for part in state.parts)
    mean_len = sum(part.num_words for part in state.parts) / max(1, total)
    postings = _postings(state, asked)
    candidates: list[tuple[float, tuple[int, int]]] = []
    for place, part in enumerate(state.parts):
        scores_P = np.zeros(part.num_passages, np.float32)
        lens: Ints = part.arrays["lens"]
        for word, (rarity, listed) in postings.items():
            places, counts = listed[place]
            scores_P[places] += asked[word] * rarity * term_weights(counts, lens[places], mean_len)
        mask = allowed[place]
        if mask is not None:
            scores_P *= mask
        some = np.flatnonzero(scores_P)
        some = some[best_places(scores_P[some][None], depth)[0]]
        candidates += [(float(scores_P[number]), (place, number)) for number in some.tolist()]
    candidates.sort(key=lambda pair: (-pair[0], pair[1]))
    return _Ranking([where for _, where in candidates[:depth]], {where: score for score, where in candidates[:depth]})


# -- by vectors


def _by_vectors(
    state: State, questions_QD: Floats, allowed: Sequence[NDArray[np.bool_] | None], depth: int
) -> list[_Ranking]:
    """The passages whose vectors have the largest cosines."""
    numbers: list[Ints] = [np.zeros((len(questions_QD), 0), np.int64)]
    owners: list[Ints] = [np.zeros((len(questions_QD), 0), np.int64)]
    scores: list[Floats] = [np.zeros((len(questions_QD), 0), np.float32)]
    for place, part in enumerate(state.parts):
        found, here = _nearest(part, questions_QD, allowed[place], depth)
        numbers.append(found)
        owners.append(np.full(found.shape, place, np.int64))
        scores.append(here)
    number_QN, owner_QN = (np.concatenate(some, 1) for some in (numbers, owners))
    score_QN = np.concatenate(scores, 1)
    rankings = []
    for row, best in enumerate(best_places(score_QN, depth)):
        best = best[np.isfinite(score_QN[row, best])]
        places = list(zip(owner_QN[row, best].tolist(), number_QN[row, best].tolist(), strict=True))
        rankings.append(_Ranking(places, dict(zip(places, score_QN[row, best].tolist(), strict=True))))
    return rankings


def _nearest(part: Part, questions_QD: Floats, allowed: NDArray[np.bool_] | None, depth: int) -> tuple[Ints, Floats]:
    """(numbers, cosines) [Q, depth] in one part; what is not there has -inf."""
    assert part.vectors_PD is not None
    if part.graph is None or (allowed is not None and 2 * int(allowed.sum()) < part.num_passages):
        return best_rows(questions_QD, _blocks(part.vectors_PD, allowed), min(depth, part.num_passages))
    wanted = min(_MORE * depth, part.num_passages)
    keys = np.stack([part.graph.search(one, wanted).keys for one in questions_QD]).astype(np.int64)
    scores = np.einsum("qd,qnd->qn", questions_QD, part.vectors_PD[keys])
    if allowed is not None:
        scores = np.where(allowed[keys], scores, -np.inf)
    return keys, scores.astype(np.float32)


def _blocks(rows_PD: Floats, allowed: NDArray[np.bool_] | None) -> Iterable[tuple[Ints, Floats]]:
    if allowed is None:
        for start in range(0, len(rows_PD), BLOCK):
            block = rows_PD[start : start + BLOCK]
            yield np.arange(start, start + len(block)), block
        return
    kept = np.flatnonzero(allowed)
    for start in range(0, len(kept), BLOCK):
        yield kept[start : start + BLOCK], rows_PD[kept[start : start + BLOCK]]


# -- both


def _fused(
    state: State, words: _Ranking, vectors: _Ranking, share: float, top: int, passages: bool
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
        best.append((place, score, words.scores.get(place), vectors.scores.get(place)))
    return best


class IndexModel(Model):
    """What ``firth.load`` gives for a folder that ``firth index`` made."""

    kind = "search index"

    def __init__(self, folder: Path, load: Callable[[Path], Model]) -> None:
        self.index = SearchIndex(folder, load)
        self.dim = 0 if self.index.record.model is None else self.index.record.model.dim

    def _abilities(self) -> set[str]:
        return {"search"}

    def describe(self) -> dict[str, Any]:
        record = self.index.refresh().record
        counts = {"documents": record.num_documents, "passages": record.num_passages}
        return {**super().describe(), **counts, "vectors": record.model is not None}

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
        if self.index.record.model is not None and self.index.record.model.images:
            raise FirthError("an index of images is asked with the path of an image: use firth search, not a server")
        return self.index.search(question, top, mode, where, weight, passages)

    def __repr__(self) -> str:
        record = self.index.record
        return f"<search index, {record.num_documents:,} documents, {record.num_passages:,} passages, from {self.path}>"
