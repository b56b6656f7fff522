"""Intrinsic evaluation of word vectors (similarity, analogies), and BLEU and chrF of translations.

A similarity file has two words and a human score per line, separated by tabs, commas or spaces; an analogy file has
sections (``: name``) of lines with four words. ``#`` starts a comment. Coverage is the share of a file whose words are in
the vocabulary; only that share is scored.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from firth.core.errors import FirthError, nearest, with_article
from firth.core.types import Floats, Ints, unit_rows
from firth.data.labelled import Columns, read_texts
from firth.data.parallel import PairsReadingConfig, find_pair_sources, read_pairs
from firth.data.sentences import SentenceData, read_sentence_data
from firth.data.sources import find_sources
from firth.data.tables import open_table
from firth.models.shared.model import Model
from firth.models.shared.sentences import similarities
from firth.models.shared.static import StaticModel
from firth.models.shared.translation_model import Translator, score_translations
from firth.retrieval.build import full_name
from firth.retrieval.exact import best_places, best_rows, blocks_of
from firth.retrieval.search import SearchIndex
from firth.tasks.data import Reading
from firth.tasks.embed.scoring import score_pairs
from firth.tasks.scores import spearman
from firth.vectors.word_vectors import WordVectors


@dataclass(frozen=True)
class Similarity:
    """Spearman's rank correlation with people's scores."""

    file: str
    spearman: float
    pairs: int
    known: int

    @property
    def coverage(self) -> float:
        return self.known / self.pairs if self.pairs else 0.0


@dataclass(frozen=True)
class Section:
    """The result of one section of an analogy file."""

    name: str
    questions: int
    known: int
    right: int

    @property
    def accuracy(self) -> float:
        """Of the questions whose words are all known."""
        return self.right / self.known if self.known else 0.0

    @property
    def coverage(self) -> float:
        return self.known / self.questions if self.questions else 0.0


@dataclass(frozen=True)
class Analogies:
    """The results of an analogy file."""

    file: str
    sections: list[Section]

    @property
    def total(self) -> Section:
        parts = self.sections
        return Section(
            "total", sum(s.questions for s in parts), sum(s.known for s in parts), sum(s.right for s in parts)
        )


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FirthError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise FirthError(f"{path}: not UTF-8 text (byte {error.start}); convert it first") from None
    return [(n, line.strip()) for n, line in enumerate(text.split("\n"), 1) if line.strip() and line.strip()[0] != "#"]


def _fitted(word: str, vectors: WordVectors, fold: bool) -> str | None:
    """The word as the vocabulary has it, or None."""
    if word in vectors:
        return word
    return word.lower() if fold and word.lower() in vectors else None


def score_similarity(vectors: WordVectors, path: str | Path, fold: bool = True) -> Similarity:
    """``fold`` looks for the lower-cased word where the word itself is unknown. A pair with an
    unknown word is skipped and counted in the coverage (n-gram vectors are not used)."""
    from scipy.stats import spearmanr

    path = Path(path)
    pairs: list[tuple[str, str, float]] = []
    for number, line in _lines(path):
        parts = line.split("\t") if "\t" in line else line.replace(",", " ").split()
        try:
            pairs.append((parts[0].strip(), parts[1].strip(), float(parts[2])))
        except (IndexError, ValueError):
            if number == 1:  # a line of column names
                continue
            raise FirthError(f"{path}, line {number}: not two words and a score; fix or remove the line") from None
    if not pairs:
        raise FirthError(f"{path}: no pair of words in it; it should have two words and a score per line")
    known = [
        (one, other, score)
        for first, second, score in pairs
        if (one := _fitted(first, vectors, fold)) and (other := _fitted(second, vectors, fold))
    ]
    if len(known) < 2:
        return Similarity(path.name, float("nan"), len(pairs), len(known))
    ours = vectors.similarity([one for one, _, _ in known], [other for _, other, _ in known])
    result = spearmanr(ours, [score for _, _, score in known])
    return Similarity(path.name, float(result.statistic), len(pairs), len(known))


def score_analogies(
    vectors: WordVectors,
    path: str | Path,
    limit: int | None = None,
    method: Literal["add", "mul"] = "add",
    fold: bool = True,
) -> Analogies:
    """Accuracy by section. Questions and answers use the first ``limit`` words only (usually 30,000)."""
    path = Path(path)
    size = len(vectors) if limit is None else limit
    sections: list[tuple[str, list[tuple[str, ...]], int]] = []
    for number, line in _lines(path):
        if line.startswith(":"):
            sections.append((line[1:].strip(), [], 0))
            continue
        words = tuple(line.split())
        if len(words) != 4:
            raise FirthError(
                f"{path}, line {number}: {len(words)} words; a question has four, as in: a is to b as c to d"
            )
        if not sections:
            sections.append(("", [], 0))
        name, questions, asked = sections[-1]
        fitted = [_fitted(word, vectors, fold) for word in words]
        if all(word is not None and vectors.index[word] < size for word in fitted):
            questions.append(tuple(str(word) for word in fitted))
        sections[-1] = (name, questions, asked + 1)
    if not sections:
        raise FirthError(f"{path}: no question in it; it should have four words per line")
    found = []
    for name, questions, asked in sections:
        answers = vectors.analogies([(a, b, c) for a, b, c, _ in questions], 1, method, limit) if questions else []
        right = sum(bool(best) and best[0][0] == goal[3] for best, goal in zip(answers, questions, strict=True))
        found.append(Section(name, asked, len(questions), right))
    return Analogies(path.name, found)


def evaluate_words(
    model: Model, similarity: Sequence[str], analogies: Sequence[str], limit: int | None, where: str
) -> dict[str, object]:
    """Similarity files (Spearman) and analogy files (accuracy by section) as plain data."""
    if not isinstance(model, StaticModel):
        raise FirthError(
            f"{where}: similarity and analogy files are for static vectors; this is {with_article(model.kind)}"
        )
    pairs = [score_similarity(model.vectors, path) for path in similarity]
    questions = [score_analogies(model.vectors, path, limit=limit) for path in analogies]
    return {
        "similarity": [{**asdict(found), "coverage": found.coverage} for found in pairs],
        "analogies": [
            {
                "file": found.file,
                "sections": [
                    {**asdict(section), "accuracy": section.accuracy, "coverage": section.coverage}
                    for section in (*found.sections, found.total)
                ],
            }
            for found in questions
        ],
    }


def evaluate_translations(
    model: Model, source: Path, reference: Path, beams: int, tokenize: str | None, where: str
) -> dict[str, object]:
    """BLEU and chrF (sacrebleu, with their signatures) on two line-aligned files."""
    if not isinstance(model, Translator):
        raise FirthError(f"{where}: source and reference files are for translators; this is {with_article(model.kind)}")
    pairs = list(read_pairs(find_pair_sources([str(source), str(reference)]), PairsReadingConfig()))
    found = model.translate([pair.source for pair in pairs], beams)
    scores = score_translations(found, [pair.target for pair in pairs], model.languages[1], tokenize)
    return {"sentences": len(pairs), **scores.together()}


RECALLS = (1, 10, 100)
_ASKED = 256  # questions that are compared at a time


def average_precision(scores: Floats, right: Sequence[bool]) -> float:
    """The mean precision at the places of the right ones, best score first."""
    order = np.argsort(-np.asarray(scores), kind="stable")
    hits = np.asarray(right, bool)[order]
    return float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()) if hits.any() else 0.0


def retrieval_scores(found: Sequence[Sequence[int]], right: Sequence[Set[int]]) -> dict[str, float]:
    """nDCG@10, MRR@10 and recall of rankings [Q, 100], where some texts are right for each question."""
    gains = 1 / np.log2(np.arange(2, 12))
    scores: dict[str, list[float]] = {"ndcg_at_10": [], "mrr_at_10": [], **{f"recall_at_{k}": [] for k in RECALLS}}
    for ranking, wanted in zip(found, right, strict=True):
        hits = np.asarray([number in wanted for number in ranking[:10]])
        best = gains[: min(10, len(wanted))].sum()
        scores["ndcg_at_10"].append(float((gains[: len(hits)] * hits).sum() / best))
        scores["mrr_at_10"].append(1 / (1 + int(hits.argmax())) if hits.any() else 0.0)
        for k in RECALLS:
            scores[f"recall_at_{k}"].append(len(wanted & set(ranking[:k])) / len(wanted))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def v_measure(labels: Sequence[str], clusters: Sequence[int]) -> float:
    """The harmonic mean of homogeneity and completeness (Rosenberg & Hirschberg 2007)."""
    from sklearn.metrics import v_measure_score

    return float(v_measure_score(labels, clusters))


def evaluate_sentences(model: Model, path: Path, reading: Reading) -> dict[str, float]:
    """All scores of a file, the main one first, with the number of its examples."""
    columns = Columns(reading.text, reading.second, reading.label)
    encoding = reading.encoding or "utf-8"
    data = read_sentence_data(path, columns, None, encoding)
    if data.form == "text":
        return _clustered(model, path, columns, encoding)
    if data.form == "nli":
        raise FirthError(
            f"{path}: classes of pairs are no scores; give scored pairs, pairs that belong together, or texts with a class"
        )
    if data.form == "scores":
        first, second = [one.text for one in data.examples], [one.second or "" for one in data.examples]
        found = score_pairs(first, second, model.encode, _similarity(model))
        wanted = [float(str(one.label)) for one in data.examples]
        scores = {"spearman": float(spearman(found, wanted))}
        if set(wanted) == {0.0, 1.0}:
            scores = {"average_precision": average_precision(found, [one == 1 for one in wanted]), **scores}
        return {**scores, "examples": len(wanted)}
    return _retrieved(model, data)


def _similarity(model: Model) -> str:
    return "cosine" if model.sentence is None else model.sentence.config.similarity


def _prompts(model: Model) -> tuple[str | None, str | None]:
    config = None if model.sentence is None else model.sentence.config
    return (None, None) if config is None else (config.question_prompt, config.passage_prompt)


def _retrieved(model: Model, data: SentenceData) -> dict[str, float]:
    """Each distinct first text is a question to all distinct second texts (and negatives)."""
    texts = dict.fromkeys(text for one in data.examples for text in (one.second or "", *one.negatives))
    place: Mapping[str, int] = {text: number for number, text in enumerate(texts)}
    right: dict[str, set[int]] = {}
    for one in data.examples:
        right.setdefault(one.text, set()).add(place[one.second or ""])
    asked, read = _prompts(model)
    rows, questions = model.encode(list(place), prompt=read), model.encode(list(right), prompt=asked)
    numbers = _nearest(questions, rows, _similarity(model))
    scores = retrieval_scores(numbers.tolist(), list(right.values()))
    return {**scores, "questions": len(right), "passages": len(place)}


def _nearest(questions_QD: Floats, rows_PD: Floats, similarity: str) -> Ints:
    """The best rows of each question."""
    if similarity in ("cosine", "dot"):
        asked, rows = (some if similarity == "dot" else unit_rows(some) for some in (questions_QD, rows_PD))
        return best_rows(asked, blocks_of(rows), max(RECALLS))[0]
    blocks = np.array_split(questions_QD, -(-len(questions_QD) // _ASKED))
    return np.concatenate([best_places(similarities(some, rows_PD, similarity), max(RECALLS)) for some in blocks])


def _clustered(model: Model, path: Path, columns: Columns, encoding: str) -> dict[str, float]:
    """k-means with as many clusters as there are classes."""
    from sklearn.cluster import KMeans

    examples = read_texts(str(path), columns, scores=False, encoding=encoding)
    labels = [str(one.label) for one in examples]
    if len(set(labels)) < 2:
        raise FirthError(f"{path}: only one class, so there is nothing to tell apart; check the column (--label)")
    rows = unit_rows(model.encode([one.text for one in examples]))
    clusters = KMeans(len(set(labels)), n_init=10, random_state=0).fit_predict(rows)
    return {"v_measure": v_measure(labels, clusters.tolist()), "examples": len(labels), "classes": len(set(labels))}


# -- a search index

_QUESTIONS, _IDS = ("question", "query", "text"), ("id", "document", "doc_id", "document_id", "source")


def evaluate_index(index: SearchIndex, path: Path, reading: Reading) -> dict[str, float]:
    """Scores of the documents that an index finds by words, by vectors and by both, for questions of a file with the ids of
    the right documents: a row for each, so several rows of a question are several right documents."""
    right: dict[str, set[str]] = {}
    known: dict[str, bool] = {}
    for where, question, given in _judged(path, reading):
        id = next((one for one in (given, full_name(given)) if one in known or index.state.holds(one)), given)
        if id not in known:
            known[id] = index.state.holds(id)
        if not known[id]:
            raise FirthError(
                f"{where}: no document with the id '{id}' in {index.folder}; see the ids with firth search"
            )
        right.setdefault(question, set()).add(id)
    if not right:
        raise FirthError(f"{path}: no questions in it; check the file")
    ids = {id: number for number, id in enumerate(known)}
    wanted = [{ids[id] for id in some} for some in right.values()]
    modes = ("both", "words", "vectors") if index.record.model is not None else ("words",)
    found: dict[str, float] = {}
    for mode in modes:  # both as the index weighs them: one half alone where its weight says so
        asked = "auto" if mode == "both" else mode
        rankings = [[ids.get(id, -1) for id in some] for some in index.rank(list(right), max(RECALLS), asked)]
        found |= {f"{mode}_{name}": value for name, value in retrieval_scores(rankings, wanted).items()}
    weight = {"weight": index.record.weight} if len(modes) > 1 else {}
    return {**found, **weight, "questions": len(right), "documents": index.record.num_documents}


def _judged(path: Path, reading: Reading) -> Iterator[tuple[str, str, str]]:
    """(where, question, id of a right document) of each row."""
    for source in find_sources([str(path)]):
        table = open_table(source, reading.encoding or "utf-8")
        names = [str(field).strip() for field in (table.names or (table.head[0][1] if table.head else []))]
        places = [_place(names, reading.text, _QUESTIONS, source.name), _place(names, reading.label, _IDS, source.name)]
        headed = any(place is not None for place in places)
        if headed and None in places and len(names) != 2:
            raise FirthError(f"{source.name}: which columns are the question and the id? Name them: --text, --label")
        free = [number for number in (0, 1) if number not in places]
        first, second = (place if place is not None else free.pop(0) for place in places)
        for number, (line, fields) in enumerate(table.rows):
            if number == 0 and headed and table.names is None:
                continue
            texts = [str(fields[place] or "").strip() if place < len(fields) else "" for place in (first, second)]
            if not all(texts):
                raise FirthError(f"{table.where(line)}: a question and the id of a document are needed; fix this line")
            yield table.where(line), texts[0], texts[1]


def _place(names: Sequence[str], wanted: str | None, usual: Sequence[str], file: str) -> int | None:
    """The column that was asked for, or one with a usual name; none where no name fits."""
    if wanted is not None:
        if wanted not in names:
            raise FirthError(f"{file}: no column '{wanted}': {nearest(wanted, names)}")
        return names.index(wanted)
    lower = [name.lower() for name in names]
    return next((lower.index(name) for name in usual if name in lower), None)
