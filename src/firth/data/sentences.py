"""Examples for sentence vectors: pairs, triplets, scored pairs, labels of inference, or raw text cut into sentences.

What a file holds is found by its columns: texts alone, two texts that belong together, a third one that does not, or
two texts with a score or with entailment, neutral and contradiction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from firth.core.errors import FirthError, counted
from firth.data.labelled import SCORES, Columns, choose_columns, is_number
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import Source, find_sources
from firth.data.tables import Table, open_table
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.words import whole_characters

Form = Literal["text", "pairs", "triplets", "scores", "nli"]
ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"
NLI = (ENTAILMENT, NEUTRAL, CONTRADICTION)
_NUMBERED = dict(zip("012", NLI, strict=True))
_PAIRS = (
    ("anchor", "positive"),
    ("query", "positive"),
    ("question", "positive"),
    ("query", "passage"),
    ("query", "document"),
    ("question", "passage"),
    ("question", "answer"),
    ("query", "text"),
    ("source", "target"),
    ("title", "text"),
    ("title", "abstract"),
    ("标题", "正文"),
    ("标题", "内容"),
    ("标题", "摘要"),
    ("问题", "答案"),
    ("问题", "回答"),
)
_SHORTEST = 8  # characters of a sentence of raw text that is learned from


@dataclass(frozen=True)
class SentenceExample:
    """A text alone, or with one that belongs to it and some that do not; a score or a label of the first two."""

    text: str
    second: str | None = None
    negatives: tuple[str, ...] = ()
    label: str | float | None = None
    where: str = ""


@dataclass(frozen=True)
class SentenceData:
    """The examples of a file; scores are between 0 and 1."""

    form: Form
    examples: list[SentenceExample]


def read_sentence_data(
    path: Path, columns: Columns, negative: str | None = None, encoding: str = "utf-8", form: Form | None = None
) -> SentenceData:
    """All examples of a file or folder. Without a ``form`` it is found by what is there."""
    sources = find_sources([str(path)])
    tables = (
        []
        if form == "text"
        else [table for one in sources if (table := _pair_table(one, encoding, columns)) is not None]
    )
    if not tables:
        if form not in (None, "text"):
            raise FirthError(f"{path}: no second text in it, so no {form}; name its column with --second")
        found = list(_raw(sources, columns, encoding))
        chosen: Form = "text"
    else:
        found = [example for table in tables for example in _rows(table, columns, negative)]
        chosen = form or _form(path, found, tables)
    if not found:
        raise FirthError(f"{path}: no texts in it; check the file")
    return SentenceData(chosen, _checked(path, chosen, found))


def _pair_table(source: Source, encoding: str, columns: Columns) -> Table | None:
    """The table, if it has two texts a row."""
    table = open_table(source, encoding)
    if columns.second is not None:
        return table
    first = [str(field).strip().lower() for field in (table.names or (table.head[0][1] if table.head else []))]
    if columns.text is None and any(set(pair) <= set(first) for pair in _PAIRS):
        return table
    if len(first) < 2:
        return None
    return table if choose_columns(table, columns, labelled=False).second is not None else None


def _rows(table: Table, columns: Columns, negative: str | None) -> Iterator[SentenceExample]:
    """The rows of a table with two texts."""
    names = [str(field).strip() for field in (table.names or (table.head[0][1] if table.head else []))]
    lower = [name.lower() for name in names]
    pair = next((pair for pair in _PAIRS if set(pair) <= set(lower)), None)
    if pair is not None and columns.text is None:
        place = [lower.index(name) for name in pair]
        columns = replace(columns, text=names[place[0]], second=columns.second or names[place[1]])
    chosen = choose_columns(table, columns, labelled=False)
    if negative is not None and negative not in names:
        raise FirthError(f"{table.where(1)}: no column '{negative}' among {', '.join(names)}; name the right one")
    others = [
        number
        for number, name in enumerate(names)
        if name == negative or (negative is None and _is_negative(lower[number]))
    ]
    for number, (line, fields) in enumerate(table.rows):
        if number == 0 and chosen.header:
            continue
        where = table.where(line)
        needed = max(chosen.needed(), *(place + 1 for place in others)) if others else chosen.needed()
        if len(fields) < needed:
            raise FirthError(f"{where}: {counted(len(fields), 'field')} where {needed} are expected; fix this line")
        label = None if chosen.label is None or chosen.label in others else str(fields[chosen.label] or "").strip()
        if label == "-":
            continue  # no agreement between annotators
        assert chosen.second is not None
        texts = [_text(fields[place], where) for place in (chosen.text, chosen.second, *others)]
        yield SentenceExample(
            texts[0], texts[1], tuple(text for text in texts[2:] if text.strip()), label or None, where
        )


def _is_negative(name: str) -> bool:
    return name == "negative" or (name.startswith("negative_") and name[9:].isdecimal())


def _text(value: object, where: str) -> str:
    if value is not None and not isinstance(value, str):
        raise FirthError(
            f"{where}: a text is not a string but {type(value).__name__}; fix this line or choose another column"
        )
    return whole_characters(value or "")


def _form(path: Path, found: list[SentenceExample], tables: list[Table]) -> Form:
    if any(example.negatives for example in found):
        return "triplets"
    labels = {str(example.label) for example in found if example.label is not None}
    if not labels:
        return "pairs"
    names = {
        str(name).lower() for table in tables for name in (table.names or (table.head[0][1] if table.head else []))
    }
    if labels <= set(NLI) or (labels == set(_NUMBERED) and not names & set(SCORES)):
        return "nli"
    if all(map(is_number, labels)):
        return "scores"
    shown = ", ".join(sorted(labels)[:4])
    raise FirthError(
        f"{path}: the labels ({shown}) are neither scores nor {', '.join(NLI)}; name another column with --label, or write form=pairs"
    )


def _checked(path: Path, form: Form, found: list[SentenceExample]) -> list[SentenceExample]:
    """Examples with all that the form needs; scores brought to 0 to 1."""
    for example in found:
        if not example.text.strip() or (form != "text" and not (example.second or "").strip()):
            raise FirthError(f"{example.where or path}: an empty text; fix or remove this line")
        if form == "triplets" and not example.negatives:
            raise FirthError(
                f"{example.where}: no text that does not belong to the first; fill the column or write form=pairs"
            )
        if form in ("scores", "nli") and example.label is None:
            raise FirthError(f"{example.where}: no label; fill the column, or write form=pairs")
    if form == "nli":
        return [replace(one, label=_NUMBERED.get(str(one.label), str(one.label))) for one in found]
    if form != "scores":
        return found
    wrong = next((one for one in found if not is_number(str(one.label))), None)
    if wrong is not None:
        raise FirthError(f"{wrong.where}: the score '{wrong.label}' is not a number; fix it")
    scores = [float(str(one.label)) for one in found]
    low, high = min(0.0, *scores), max(scores)
    if high == min(scores):
        raise FirthError(f"{path}: all scores are {high:g}, so there is nothing to learn; check the column (--label)")
    return [replace(one, label=(score - low) / (high - low)) for one, score in zip(found, scores, strict=True)]


def _raw(sources: list[Source], columns: Columns, encoding: str) -> Iterator[SentenceExample]:
    """The distinct sentences of documents, long enough to say something."""
    seen: set[str] = set()
    reading = ReadingConfig(column=columns.text or "text", encoding=encoding)
    for document in read_documents(sources, reading, "name it with --text, for pairs also with --second"):
        for start, end in document.sentences or split_sentences(document.text):
            text = " ".join(document.text[start:end].split())
            if len(text.encode()) >= _SHORTEST and text not in seen:
                seen.add(text)
                yield SentenceExample(text)
