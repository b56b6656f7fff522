"""Tag schemes for spans of words (BIO, IOB1, BIOES, BMES): spans, validation, repair, conversion, and the scores of entities
and tags.

Spans are (type, first word, last word). Read leniently they are those of conlleval and of
seqeval's default mode; read strictly, those of seqeval's ``mode="strict"``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, nearest
from firth.core.run import LabelScore
from firth.tasks.scores import harmonic, ratio

# Prefixes of each scheme as (begin, inside, end, single). IOB1 writes B only between neighbours of one type.
PREFIXES = {
    "bio": ("B", "I", "I", "B"),
    "iob1": ("I", "I", "I", "I"),
    "bioes": ("B", "I", "E", "S"),
    "bmes": ("B", "M", "E", "S"),
}
ALLOWED = {"bio": "OBI", "iob1": "OBI", "bioes": "OBIES", "bmes": "OBMES"}


class Span(NamedTuple):
    type: str
    first: int
    last: int


class BadTag(NamedTuple):
    """A tag that may not stand where it stands (``place`` = number of tags: the sequence may not end so)."""

    place: int
    tag: str
    before: str


def parted(tag: str) -> tuple[str, str]:
    """Prefix and type; a tag without a type has the type ``_``."""
    return tag[:1], tag[1:].split("-", maxsplit=1)[-1] or "_"


def spans_of(tags: Sequence[str]) -> list[Span]:
    """Spans read leniently, for tags of any of the schemes: a type that begins without B is taken all the same."""
    spans, first, before, before_type = [], 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, type_ = parted(tag)
        changed = before_type != type_
        ends = before in ("E", "S") or (before in ("B", "I") and prefix in ("B", "S", "O"))
        if ends or (changed and before not in ("O", ".")):
            spans.append(Span(before_type, first, place - 1))
        starts = prefix in ("B", "S") or (before in ("E", "S", "O") and prefix in ("E", "I"))
        if starts or (changed and prefix not in ("O", ".")):
            first = place
        before, before_type = prefix, type_
    return spans


def strict_spans_of(tags: Sequence[str], scheme: str) -> list[Span]:
    """Only spans that are whole by the scheme (bio, bioes or bmes): begun by B (or S), and ended by E where it has E."""
    begin, inside, end, single = _prefixes(scheme)
    whole = scheme != "bio"
    spans, place = [], 0
    while place < len(tags):
        prefix, type_ = parted(tags[place])
        first = place
        place += 1
        if whole and prefix == single:
            spans.append(Span(type_, first, first))
        elif prefix == begin:
            last = prefix
            while last in (begin, inside) and place < len(tags) and parted(tags[place])[1] == type_:
                following = parted(tags[place])[0]
                if following not in (inside, end):
                    break
                last = following
                place += 1
            if not whole or last == end:
                spans.append(Span(type_, first, place - 1))
    return spans


def tags_of(spans: Iterable[Span], num_words: int, scheme: str) -> list[str]:
    """Tags of a scheme for spans that do not overlap."""
    begin, inside, end, single = _prefixes(scheme)
    tags = ["O"] * num_words
    for span in spans:
        ending = "" if span.type == "_" else f"-{span.type}"
        touching = span.first > 0 and parted(tags[span.first - 1])[1] == span.type and tags[span.first - 1] != "O"
        start = "B" if scheme == "iob1" and touching else begin
        for place in range(span.first, span.last + 1):
            tags[place] = f"{inside}{ending}"
        tags[span.last] = f"{end}{ending}"
        tags[span.first] = f"{start if scheme == 'iob1' or span.first < span.last else single}{ending}"
    return tags


def convert(tags: Sequence[str], scheme: str) -> list[str]:
    """The same spans, read leniently, in another scheme; this also repairs what a scheme forbids."""
    return tags_of(spans_of(as_bioes(tags)), len(tags), scheme)


def repair(tags: Sequence[str], scheme: str) -> list[str]:
    """Tags that the scheme allows, with the spans of a lenient reading; right tags stay as they are."""
    return list(tags) if not bad_tags(tags, scheme) else convert(tags, scheme)


def as_bioes(tags: Sequence[str]) -> list[str]:
    """BMES in the letters of BIOES (M is I), other tags as they are."""
    return [f"I{tag[1:]}" if tag == "M" or tag.startswith("M-") else tag for tag in tags]


def bad_tags(tags: Sequence[str], scheme: str) -> list[BadTag]:
    """Every tag that the scheme forbids after the one before it, the end of the sequence included."""
    _prefixes(scheme)
    found, before = [], "O"
    for place, tag in enumerate(tags):
        if not allowed(before, tag, scheme):
            found.append(BadTag(place, tag, before))
        before = tag
    if not allowed(before, "O", scheme):
        found.append(BadTag(len(tags), "O", before))
    return found


def allowed(before: str, tag: str, scheme: str) -> bool:
    """Whether a scheme lets one tag follow another; a sequence begins after, and ends before, an O."""
    (old, old_type), (new, new_type) = parted(before), parted(tag)
    if new not in ALLOWED[scheme] or not _formed(tag):
        return False
    if scheme == "iob1":
        return new != "B" or (old in ("B", "I") and old_type == new_type)
    inside = "M" if scheme == "bmes" else "I"
    if scheme == "bio":
        return new != "I" or (old in ("B", "I") and old_type == new_type)
    open_before, goes_on = old in ("B", inside), new in (inside, "E")
    return goes_on == open_before and (not goes_on or old_type == new_type)


def transitions(labels: Sequence[str], scheme: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Which labels may begin [K], follow one another [K, K] (row before column) and end [K]: for a CRF."""
    begin = np.asarray([allowed("O", label, scheme) for label in labels], np.bool_)
    follow = np.asarray([[allowed(before, label, scheme) for label in labels] for before in labels], np.bool_)
    end = np.asarray([allowed(label, "O", scheme) for label in labels], np.bool_)
    return begin, follow.reshape(len(labels), len(labels)), end


def detect_scheme(sequences: Iterable[Sequence[str]]) -> str | None:
    """The scheme that tags look like; none for tags without prefixes (parts of speech).

    B and I alone are whichever of BIO and IOB1 fewer of them break.
    """
    sequences = [tuple(tags) for tags in sequences]
    seen = {tag for tags in sequences for tag in tags}
    marks = {tag[:1] for tag in seen} - {"O"}
    if not marks or not all(tag == "O" or _formed(tag) for tag in seen):
        return None
    if "M" in marks:
        return "bmes" if marks <= set("BMES") else None
    if marks & {"E", "S"}:
        return "bioes" if marks <= set("BIES") else None
    if not marks <= {"B", "I"}:
        return None
    broken = {scheme: sum(len(bad_tags(tags, scheme)) for tags in sequences) for scheme in ("bio", "iob1")}
    return "iob1" if broken["iob1"] < broken["bio"] else "bio"


def _formed(tag: str) -> bool:
    """``O``, a bare prefix, or a prefix with a type."""
    return len(tag) == 1 or (tag[1:2] == "-" and len(tag) > 2 and tag[0] != "O")


def _prefixes(scheme: str) -> tuple[str, str, str, str]:
    if scheme not in PREFIXES:
        raise FirthError(f"unknown scheme of tags '{scheme}': {nearest(scheme, list(PREFIXES))}")
    return PREFIXES[scheme]


@dataclass(frozen=True)
class EntityCounts:
    """For each sentence and type: spans right, guessed and true [N, Y, 3]. Sums of rows give every score."""

    types: list[str]
    counts: NDArray[np.int64]

    def by_type(self) -> dict[str, LabelScore]:
        totals_Y3 = self.counts.sum(0)
        precision, recall, f1 = prf(totals_Y3)
        return {
            name: LabelScore(
                precision=float(precision[place]),
                recall=float(recall[place]),
                f1=float(f1[place]),
                true=int(totals_Y3[place, 2]),
                guessed=int(totals_Y3[place, 1]),
            )
            for place, name in enumerate(self.types)
        }


def prf(sums: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Precision, recall and F1 of sums [..., 3] of right, guessed and true spans."""
    right, guessed, true = np.moveaxis(np.asarray(sums, np.float64), -1, 0)
    precision, recall = ratio(right, guessed), ratio(right, true)
    return precision, recall, harmonic(precision, recall)


def entity_counts(
    true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]], strict: str | None = None
) -> EntityCounts:
    """Counts by sentence and type; ``strict`` names the scheme by which spans must be whole."""
    assert len(true) == len(guessed)
    rows: list[tuple[set[Span], set[Span]]] = []
    for tags, guesses in zip(true, guessed, strict=True):
        assert len(tags) == len(guesses)
        rows.append((_spans(tags, strict), _spans(guesses, strict)))
    types = sorted({span.type for row in rows for spans in row for span in spans})
    place = {name: number for number, name in enumerate(types)}
    counts = np.zeros((len(rows), len(types), 3), np.int64)
    for number, (true_spans, guessed_spans) in enumerate(rows):
        for column, spans in enumerate((true_spans & guessed_spans, guessed_spans, true_spans)):
            for name, count in Counter(span.type for span in spans).items():
                counts[number, place[name], column] = count
    return EntityCounts(types, counts)


def entity_scores(
    true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]], strict: str | None = None
) -> dict[str, float]:
    """Precision, recall and F1 over all spans, the means over types, and the share of right tags."""
    found = entity_counts(true, guessed, strict)
    totals_Y3 = found.counts.sum(0)
    precision, recall, f1 = (float(value) for value in prf(totals_Y3.sum(0)))
    type_f1 = prf(totals_Y3)[2]
    return {
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "macro_f1": float(type_f1.mean()) if len(type_f1) else 0.0,
        "weighted_f1": float(ratio((type_f1 * totals_Y3[:, 2]).sum(), totals_Y3[:, 2].sum())),
        "accuracy": tag_accuracy(true, guessed),
    }


def tag_accuracy(true: Sequence[Sequence[str]], guessed: Sequence[Sequence[str]]) -> float:
    """The share of words with the right tag."""
    pairs = [
        (tag, guess)
        for tags, guesses in zip(true, guessed, strict=True)
        for tag, guess in zip(tags, guesses, strict=True)
    ]
    return sum(tag == guess for tag, guess in pairs) / len(pairs) if pairs else 0.0


def _spans(tags: Sequence[str], strict: str | None) -> set[Span]:
    if strict is not None:
        return set(strict_spans_of(tags, strict))
    return set(spans_of(as_bioes(tags)))
