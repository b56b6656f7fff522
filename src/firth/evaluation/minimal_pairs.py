"""Minimal pairs: does a model find the right sentence likelier than the wrong one (Marvin and Linzen 2018; Warstadt et al. 2020)?

A pair is right if its good sentence has the higher (pseudo-)log-likelihood; a tie counts one half. Next to the model
stand floors that know no grammar: how frequent the tokens are, and which sentence is the shorter one.

N pairs, K columns: the model and the floors.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, counted
from firth.core.run import Run
from firth.core.types import Progress
from firth.corpus.format import Corpus
from firth.corpus.streams import read_types, view_as
from firth.data.sources import PACKINGS, Source, find_sources
from firth.data.tables import Table, open_table
from firth.models.shared.model import Model
from firth.models.shared.scoring import ScoredText
from firth.tokenizers.word_tokens import WordTokens
from firth.tokenizers.words import whole_characters

_TOGETHER = 1000  # pairs that are scored in one go: texts of like length are found among them
Floats = NDArray[np.float64]


# -- Files are jsonl, json, csv, tsv or parquet with named columns, as published (BLiMP: ``sentence_good``, ``sentence_bad``, ``UID``,
# ``linguistics_term``, ``field``; ZhoBLiMP: ``uid``, ``phenomenon``) or called ``good``, ``bad``, ``set``, ``phenomenon``, ``field``;
# or lines of good<TAB>bad without names. Where no column names the set, it is the name of the file.


_NAMES = {
    "good": ("good", "sentence_good", "good_sentence"),
    "bad": ("bad", "sentence_bad", "bad_sentence"),
    "set": ("set", "uid", "paradigm"),
    "phenomenon": ("phenomenon", "linguistics_term"),
    "field": ("field",),
}
_SENTENCES = ("good", "bad")
_REMEDY = "a line has two sentences, the right one first with a tab between them, or the columns good and bad"


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences, and what they belong to; an empty name where the file has none."""

    good: str
    bad: str
    set: str
    phenomenon: str = ""
    field: str = ""


def read_minimal_pairs(path: str | Path, num: int | None = None, encoding: str = "utf-8") -> list[MinimalPair]:
    """The pairs of a file, or of every table in a folder, in order; of each set the first ``num``."""
    pairs: list[MinimalPair] = []
    counts: Counter[str] = Counter()
    for source in _find_tables(Path(path)):
        before = counts.total()
        for pair in _read(open_table(source, encoding)):
            counts[pair.set] += 1
            if num is None or counts[pair.set] <= num:
                pairs.append(pair)
        if counts.total() == before:
            raise FirthError(f"{source.name}: no pairs in it; {_REMEDY}")
    return pairs


def _find_tables(path: Path) -> list[Source]:
    """A file as it is; of a folder the tables, since plain text next to them is a licence or a description."""
    found = find_sources([str(path)])
    if not path.is_dir():
        return found
    tables = [source for source in found if source.format != "txt"]
    if not tables:
        raise FirthError(f"{path}: no jsonl, csv, tsv or parquet file in this folder; name the file of the pairs")
    return tables


def _read(table: Table) -> Iterator[MinimalPair]:
    rows = table.rows
    names = table.names
    if names is None and table.head:
        first = [str(field).strip() for field in table.head[0][1]]
        if any(name.lower() in _NAMES[part] for name in first for part in _SENTENCES):
            names = first
            next(rows)
    if names is None:
        names = list(_SENTENCES)
    columns = _columns(table, names)
    default = _stem(table.source)
    for line, fields in rows:
        if len(fields) > len(names):
            raise FirthError(
                f"{table.where(line)}: {counted(len(fields), 'field')} where there are {len(names)}; {_REMEDY}"
            )
        values = {part: fields[place] if place < len(fields) else None for part, place in columns.items()}
        good, bad = (_sentence(values[part], part, table.where(line)) for part in _SENTENCES)
        rest = {part: "" if values.get(part) is None else str(values[part]).strip() for part in list(_NAMES)[2:]}
        yield MinimalPair(good, bad, rest["set"] or default, rest["phenomenon"], rest["field"])


def _columns(table: Table, names: list[str]) -> dict[str, int]:
    """Where each part of a pair stands."""
    lower = [name.strip().lower() for name in names]
    places = {part: [lower.index(name) for name in known if name in lower] for part, known in _NAMES.items()}
    found = {part: some[0] for part, some in places.items() if some}
    missing = [part for part in _SENTENCES if part not in found]
    if missing and table.head:
        raise FirthError(
            f"{table.where(table.head[0][0])}: no '{missing[0]}' among {', '.join(names)}; call the sentences good and bad"
        )
    return found


def _sentence(value: object, part: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FirthError(f"{where}: no {part} sentence; {_REMEDY}")
    return whole_characters(value.strip())


def _stem(source: Source) -> str:
    """The name of a file without its suffixes."""
    path = source.path
    path = path.with_suffix("") if path.suffix.lower() in PACKINGS else path
    return path.stem


class PairRow(TypedDict):
    """The share of right pairs among some, by the model and by each floor."""

    name: str
    pairs: int
    accuracy: float
    unigram: float
    fewer_tokens: float
    fewer_characters: float


class PairScores(TypedDict):
    """Every part of the pairs. ``mean`` gives each set the same weight."""

    method: str
    sets: list[PairRow]
    phenomena: list[PairRow]  # none where the file names none
    fields: list[PairRow]
    mean: PairRow
    ties: int
    tokens: int
    unknown_tokens: int
    unigram_from: str


def evaluate_minimal_pairs(
    model: Model,
    path: str | Path,
    num: int | None = None,
    method: str | None = None,
    progress: Progress | None = None,
    encoding: str | None = None,
) -> PairScores:
    """The share of right pairs by set, phenomenon and field; of each set the first ``num`` pairs."""
    pairs = read_minimal_pairs(path, num, encoding or "utf-8")
    scores = _score(model, pairs, method, progress)
    counts, unigram_from = unigram_counts(model.path, scores)
    good, bad = scores[::2], scores[1::2]
    right_NK = np.stack(
        (
            _judge(good, bad),
            _right(*(unigram_log_likelihoods(side, counts) for side in (good, bad))),
            _right(*(np.asarray([-one.num_tokens for one in side], np.float64) for side in (good, bad))),
            _right(*np.asarray([(-len(pair.good), -len(pair.bad)) for pair in pairs], np.float64).T),
        ),
        axis=1,
    )
    by_set = _means(right_NK, [pair.set for pair in pairs])
    return PairScores(
        method=method or model.score_methods[0],
        sets=_rows(by_set),
        phenomena=_rows(_means(right_NK, [pair.phenomenon for pair in pairs])),
        fields=_rows(_means(right_NK, [pair.field for pair in pairs])),
        mean=_row("mean of the sets", len(pairs), np.mean([means for _, means in by_set.values()], axis=0)),
        ties=int((right_NK[:, 0] == 0.5).sum()),
        tokens=sum(one.num_tokens for one in scores),
        unknown_tokens=sum(one.num_unknown for one in scores),
        unigram_from=unigram_from,
    )


def _score(
    model: Model, pairs: Sequence[MinimalPair], method: str | None, progress: Progress | None
) -> list[ScoredText]:
    """Good and bad by turns."""
    found: list[ScoredText] = []
    for first in range(0, len(pairs), _TOGETHER):
        some = pairs[first : first + _TOGETHER]
        found += model.score_texts(list(chain.from_iterable((pair.good, pair.bad) for pair in some)), method)
        if progress is not None:
            progress({"event": "scored", "pairs": first + len(some), "total": len(pairs)})
    return found


# -- who is right


def _right(good_N: Floats, bad_N: Floats) -> Floats:
    """1 where the good one has more, 0 where it has less, one half where both have the same."""
    found: Floats = (np.sign(good_N - bad_N) + 1) / 2
    return found


def _judge(good: Sequence[ScoredText], bad: Sequence[ScoredText]) -> Floats:
    """By the model. Sentences that it cannot tell apart (the same tokens) are a tie, however sums are rounded."""
    right_N = _right(*(np.asarray([one.log_likelihood for one in side]) for side in (good, bad)))
    same_N = np.asarray([one.tokens == other.tokens for one, other in zip(good, bad, strict=True)])
    return np.where(same_N, 0.5, right_N)


def unigram_log_likelihoods(texts: Sequence[ScoredText], counts: Mapping[str, int]) -> Floats:
    """log p of each text if tokens come independently, by counts to each of which one is added. Sums are exact, so
    that an order of tokens makes no difference."""
    total = math.log(sum(counts.values()) + len(counts) + 1)
    return np.asarray([math.fsum(math.log(counts.get(token, 0) + 1) - total for token in one.tokens) for one in texts])


def unigram_counts(folder: Path | None, texts: Sequence[ScoredText]) -> tuple[Mapping[str, int], str]:
    """How often each token occurs in the corpus of a run, or where there is none, in the texts themselves; and which."""
    run = None if folder is None or not folder.is_dir() else Run.find(folder)
    if run is None or run.record.corpus is None:
        reason = "the model is no run with a corpus"
    else:
        path = Path(run.record.corpus.path)
        try:
            return _corpus_counts(Corpus.open(path, verify=False), run.folder), f"the run's corpus, {path}"
        except FirthError:
            reason = f"the run's corpus is not at {path}"
    own = Counter(chain.from_iterable(one.tokens for one in texts))
    return own, f"the pairs' own tokens ({reason})"


def _corpus_counts(corpus: Corpus, run: Path) -> Mapping[str, int]:
    """By the tokens of the run: where it knows some words of the corpus only, the others are its unknown one."""
    if corpus.info.tokens.kind != "words":
        pieces = corpus.pieces
        number = np.bincount(corpus.train.tokens, minlength=pieces.vocab_size)
        return {pieces.token(place): count for place, count in enumerate(number.tolist())}
    if (run / "words.txt").is_file():
        words = WordTokens.load(run)
        return dict(zip(words.tokens, view_as(corpus, words).counts().tolist(), strict=True))
    counts = np.fromfile(corpus.folder / "tokenizer" / "counts.bin", np.int64)
    return dict(zip(read_types(corpus), counts.tolist(), strict=True))


# -- rows


def _means(right_NK: Floats, names: Sequence[str]) -> dict[str, tuple[int, Floats]]:
    """The number of pairs and the mean of each column by name, in the order in which they come; without a name, nothing."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return {name: (len(mine), right_NK[mine].mean(0)) for name, mine in places.items() if name}


def _rows(means: Mapping[str, tuple[int, Floats]]) -> list[PairRow]:
    return [_row(name, number, means_K) for name, (number, means_K) in means.items()]


def _row(name: str, number: int, means_K: Floats) -> PairRow:
    accuracy, unigram, tokens, characters = means_K.tolist()
    return PairRow(
        name=name,
        pairs=number,
        accuracy=accuracy,
        unigram=unigram,
        fewer_tokens=tokens,
        fewer_characters=characters,
    )
