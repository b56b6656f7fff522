"""Extractive question answering: reads SQuAD 1.1 and 2.0, CMRC 2018 (both layouts), flat jsonl, and SubjQA's csv.

An answer must occur in the passage at the offset that the file gives. Misplaced answers are counted and
reported; they are skipped only on request.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from firth.core.errors import FirthError, counted
from firth.data.labelled import Answer, AnswerExample
from firth.data.sources import Source, find_sources
from firth.data.tables import first_line, json_lines, load_json, open_table
from firth.tokenizers.words import whole_characters

_NO_ANSWER = "ANSWERNOTFOUND"  # SubjQA's marker for unanswerable questions, also appended to each review
_RANGE = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)")


@dataclass
class AnswerFile:
    """The examples of a file, the number of its answers, and a message for each misplaced answer."""

    examples: list[AnswerExample] = field(default_factory=list)
    num_answers: int = 0
    bad: list[str] = field(default_factory=list)


def read_answers(
    path: str, skip_bad: bool = False, encoding: str = "utf-8", only_references: bool = False
) -> AnswerFile:
    """All questions of a file, folder or glob.

    ``skip_bad`` drops misplaced answers, and questions that have no other answer. ``only_references`` keeps every
    question and only counts misplaced answers: scoring needs the answer texts, not their offsets.
    """
    found = AnswerFile()
    for source in find_sources([path]):
        for item in _raw(source, encoding):
            _add(found, item, keep=only_references)
    if found.bad and not skip_bad and not only_references:
        raise FirthError(
            f"{path}: {len(found.bad)} of {found.num_answers} answers are not in their passage at the given offset, first {found.bad[0]}; fix them or skip them with --skip-bad"
        )
    return found


@dataclass(frozen=True)
class _Raw:
    """A question as the file has it; an answer without an offset is searched in the passage."""

    id: str
    question: str
    passage: str
    answers: list[tuple[str, int | None]]
    impossible: bool
    where: str


def _add(found: AnswerFile, raw: _Raw, keep: bool) -> None:
    good = []
    for text, start in raw.answers:
        found.num_answers += 1
        place = raw.passage.find(text) if start is None else start
        there = raw.passage[place : place + len(text)] if place >= 0 else ""
        if text and there == text:
            good.append(Answer(text, place))
        elif text not in raw.passage:
            found.bad.append(f"{raw.where}: '{_short(text)}' is not in the passage")
        else:
            found.bad.append(f"{raw.where}: '{_short(text)}' at {start}, where the passage has '{_short(there)}'")
    if good or not raw.answers or keep:
        texts = [text for text, _ in raw.answers]
        found.examples.append(AnswerExample(raw.id, raw.question, raw.passage, good, raw.impossible, raw.where, texts))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _raw(source: Source, encoding: str) -> Iterator[_Raw]:
    if source.format in ("csv", "tsv"):
        yield from _subjqa(source, encoding)
    elif source.format == "jsonl" or _is_flat(first_line(source, encoding)):
        for number, item in json_lines(source, encoding):
            yield _flat(item, f"{source.name}:{number}")
    else:
        value = load_json(source, encoding)
        data = value.get("data") if isinstance(value, dict) else value
        if not isinstance(data, list):
            raise FirthError(f"{source.name}: no list 'data' of articles; use the layout of SQuAD or CMRC")
        for article in data:
            yield from _article(article, source.name)


def _is_flat(line: str) -> bool:
    """Whether the first line is a complete question."""
    import json

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "question" in value and "context" in value


def _article(value: object, name: str) -> Iterator[_Raw]:
    """SQuAD's article of paragraphs; CMRC's flat article, which is one paragraph; a flat question."""
    article = _object(value, "paragraphs", name)
    if "question" in article and "context" in article:
        yield _flat(article, name)
        return
    for part in _list(article, "paragraphs", name) if "paragraphs" in article else [article]:
        paragraph = _object(part, "context", name)
        passage = _field(paragraph, ("context", "context_text"), name)
        for entry in _list(paragraph, "qas", name):
            qa = _object(entry, "question", name)
            question = _field(qa, ("question", "query_text"), name)
            number = str(qa.get("id", qa.get("query_id", "")))
            answers = [_answer(answer, name) for answer in _list(qa, "answers", name)]
            impossible = bool(qa.get("is_impossible", qa.get("answers") is not None and not answers))
            yield _Raw(number, question, passage, [] if impossible else answers, impossible, f"{name} {number}".strip())


def _flat(item: dict[str, object], where: str) -> _Raw:
    """One object per question, ``answers`` as {text: [...], answer_start: [...]} or a list."""
    passage, question = _field(item, ("context", "passage"), where), _field(item, ("question",), where)
    given = item.get("answers")
    if isinstance(given, dict):
        texts = _list(given, "text", where)
        starts = _list(given, "answer_start", where) or [None] * len(texts)
        if len(starts) != len(texts):
            raise FirthError(f"{where}: {len(texts)} answers but {len(starts)} starts; fix this line")
        both = zip(texts, starts, strict=True)
        answers = [_answer({"text": text, "answer_start": start}, where) for text, start in both]
    else:
        answers = [_answer(answer, where) for answer in _list(item, "answers", where)]
    impossible = bool(item.get("is_impossible", given is not None and not answers))
    number = str(item.get("id", ""))
    return _Raw(number, question, passage, [] if impossible else answers, impossible, f"{where} {number}".strip())


def _answer(answer: object, where: str) -> tuple[str, int | None]:
    if isinstance(answer, str):
        return whole_characters(answer), None
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise FirthError(f"{where}: an answer is neither text nor an object with 'text'; fix the file")
    start = answer.get("answer_start")
    if not (start is None or isinstance(start, int) or (isinstance(start, float) and start.is_integer())):
        raise FirthError(f"{where}: 'answer_start' is not an integer but {start!r}; fix the file")
    return whole_characters(answer["text"]), None if start is None else int(start)


def _object(value: object, field: str, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FirthError(
            f"{where}: not an object with '{field}' but {type(value).__name__}; use the layout of SQuAD or CMRC"
        )
    return value


def _list(item: dict[str, object], name: str, where: str) -> list[object]:
    """A list that may be missing."""
    found = item.get(name)
    if found is not None and not isinstance(found, list):
        raise FirthError(f"{where}: '{name}' is not a list but {type(found).__name__}; fix the file")
    return found or []


def _field(item: dict[str, object], names: tuple[str, ...], where: str) -> str:
    for name in names:
        if isinstance(value := item.get(name), str):
            return whole_characters(value)
    raise FirthError(f"{where}: no '{names[0]}' (text) in {', '.join(item)[:80]}; use the layout of SQuAD or CMRC")


def _subjqa(source: Source, encoding: str) -> Iterator[_Raw]:
    """SubjQA's csv: spans are character ranges; the span text is tokenized, so whitespace is not compared."""
    table = open_table(source, encoding)
    names = [str(name).strip() for name in table.head[0][1]] if table.head else []
    wanted = ("question", "review", "human_ans_spans", "human_ans_indices")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise FirthError(
            f"{table.where(1)}: no column '{missing[0]}' for questions and answers; use SubjQA's csv or SQuAD's json"
        )
    places = [names.index(name) for name in wanted]
    id_place = names.index("q_review_id") if "q_review_id" in names else None
    for number, (line, fields) in enumerate(table.rows):
        if number == 0:
            continue
        if len(fields) != len(names):
            raise FirthError(
                f"{table.where(line)}: {counted(len(fields), 'field')} where the header has {len(names)}; fix this line"
            )
        question, passage, text, range_ = (str(fields[place]) for place in places)
        passage = passage.removesuffix(_NO_ANSWER).rstrip() if passage.endswith(_NO_ANSWER) else passage
        match = _RANGE.fullmatch(range_.strip())
        impossible = text.strip() == _NO_ANSWER
        answers: list[tuple[str, int | None]] = []
        if not impossible:
            start, end = (int(match[1]), int(match[2])) if match else (0, 0)
            there = passage[start:end]
            answers = [(there if _bare(there) == _bare(text) else text, start)]
        yield _Raw(
            str(fields[id_place]) if id_place is not None else "",
            question,
            passage,
            answers,
            impossible,
            table.where(line),
        )


def _bare(text: str) -> str:
    return "".join(text.split())
