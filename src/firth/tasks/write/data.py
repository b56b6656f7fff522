"""Tasks as text to text (T5, UniLM): reading the files, examples as source and target texts and back, and the scores of
written texts (ROUGE, labels, entities)."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import Entity, Prediction
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.data.parallel import PairsReadingConfig, find_pair_sources, read_pairs
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources
from firth.tasks.checking import all_of
from firth.tasks.config import WritingConfig
from firth.tasks.data import Reading, read_task
from firth.tasks.scores import Interval, classify_scores, harmonic, interval, mean_interval, ratio
from firth.tasks.tag_schemes import parted, spans_of
from firth.tokenizers.words import HAN_CLASS, spaced

WritingExample: TypeAlias = TextExample | TagExample
_WORD = re.compile(rf"[{HAN_CLASS}]|[^\W_{HAN_CLASS}]+")


class Rouge(NamedTuple):
    precision: float
    recall: float
    f1: float


def rouge_words(text: str) -> list[str]:
    """What is compared."""
    return _WORD.findall(text.lower())


def _scored(shared: int, written: int, wanted: int) -> Rouge:
    precision, recall = shared / max(written, 1), shared / max(wanted, 1)
    return Rouge(precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0)


def rouge_n(written: Sequence[str], reference: Sequence[str], size: int) -> Rouge:
    """N-grams that both have, each as often as in the one that has it less often."""
    counts = [
        Counter(tuple(words[place : place + size]) for place in range(len(words) - size + 1))
        for words in (written, reference)
    ]
    shared = sum((counts[0] & counts[1]).values())
    return _scored(shared, sum(counts[0].values()), sum(counts[1].values()))


def common_len(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, a column of the table at a time in the bits of one number
    (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    full = (1 << len(first)) - 1
    bits = full
    for word in second:
        found = bits & places.get(word, 0)
        bits = ((bits + found) | (bits - found)) & full
    return len(first) - bits.bit_count()


def rouge_l(written: Sequence[str], reference: Sequence[str]) -> Rouge:
    """By words that come in the same order in both, whatever stands between them."""
    return _scored(common_len(written, reference), len(written), len(reference))


def rouge_f1(written: str, reference: str) -> dict[str, float]:
    """``rouge_1``, ``rouge_2`` and ``rouge_l`` of one text, in percent."""
    ours, theirs = rouge_words(written), rouge_words(reference)
    found = {"rouge_1": rouge_n(ours, theirs, 1), "rouge_2": rouge_n(ours, theirs, 2), "rouge_l": rouge_l(ours, theirs)}
    return {name: 100 * score.f1 for name, score in found.items()}


_NONE = "-"
_BETWEEN = ";"


def squeezed(text: str) -> str:
    """Without case and white space."""
    return "".join(text.split()).casefold()


def prefixed(config: WritingConfig, text: str) -> str:
    """A source with the words that say what is to be done."""
    return f"{config.prefix.strip()} {text}" if config.prefix.strip() else text


def source_text(config: WritingConfig, example: WritingExample) -> str:
    """What is read."""
    if isinstance(example, TagExample):
        return prefixed(config, spaced(example.words))
    if example.second is None:
        return prefixed(config, example.text)
    return prefixed(config, f"first: {example.text} second: {example.second}")


def target_text(config: WritingConfig, example: WritingExample) -> str:
    """What is to be written."""
    if isinstance(example, TextExample):
        return str(example.label)
    assert example.tags is not None
    if config.scheme is None:
        return f"{_BETWEEN} ".join(example.tags)
    spans = spans_of(example.tags)
    said = [f"{span.type}: {spaced(example.words[span.first : span.last + 1])}" for span in spans]
    return f"{_BETWEEN} ".join(said) or _NONE


def labels_of(config: WritingConfig, examples: Sequence[WritingExample]) -> tuple[str, ...]:
    """The labels, types or tags that occur; two that are written alike are refused."""
    if config.form == "text":
        return ()
    if config.form == "classify":
        found = {str(example.label) for example in all_of(TextExample, examples)}
    else:
        tags = {tag for example in all_of(TagExample, examples) for tag in example.tags or ()}
        found = tags if config.scheme is None else {parted(tag)[1] for tag in tags if tag != "O"}
    by_look: dict[str, str] = {}
    for label in sorted(found):
        other = by_look.setdefault(squeezed(label), label)
        if other != label:
            raise FirthError(f"the labels '{other}' and '{label}' would be written alike: rename one")
    return tuple(sorted(found))


def read_back(config: WritingConfig, written: str) -> Prediction:
    """What was meant by what was written; a label that does not exist is None."""
    known = {squeezed(label): label for label in config.labels}
    if config.form == "text":
        return {"written": written}
    if config.form == "classify":
        return {"label": known.get(squeezed(written)), "written": written}
    parts = [part.strip() for part in written.split(_BETWEEN)]
    if config.scheme is None:
        return {"tags": [known.get(squeezed(part)) for part in parts], "written": written}
    entities: list[Entity] = []
    for part in parts:
        name, colon, words = part.partition(":")
        kind = known.get(squeezed(name))
        if colon and kind is not None and words.strip():
            entities.append({"type": kind, "text": words.strip()})
    return {"entities": entities, "written": written}


def score_written(
    config: WritingConfig, written: Sequence[str], references: Sequence[str]
) -> tuple[dict[str, float], str, Interval]:
    """All scores, the name of the main one, and where it could lie by chance."""
    same = [squeezed(ours) == squeezed(theirs) for ours, theirs in zip(written, references, strict=True)]
    scores = {"exact_match": float(np.mean(same))}
    if config.form == "text":
        rouge = [rouge_f1(ours, theirs) for ours, theirs in zip(written, references, strict=True)]
        scores |= {name: float(np.mean([one[name] for one in rouge])) for name in rouge[0]}
        return scores, "rouge_l", mean_interval([one["rouge_l"] for one in rouge])
    found = [[read_back(config, text) for text in texts] for texts in (written, references)]
    if config.form == "classify":
        place = {label: number for number, label in enumerate(config.labels)}
        # what was written and is no label is a class of its own; labels to compare with are always known
        ours, theirs = ([place.get(one["label"] or "", len(place)) for one in some] for some in found)
        return classify_scores(theirs, ours, len(place) + 1), "accuracy", mean_interval(same)
    counts_N3 = np.asarray([_shared(config, *pair) for pair in zip(*found, strict=True)])

    def f1(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return harmonic(ratio(sums[:, 0], sums[:, 1]), ratio(sums[:, 0], sums[:, 2]))

    shared, said, wanted = counts_N3.sum(0).tolist()
    if config.scheme is None:
        right = interval(counts_N3, lambda sums: sums[:, 0] / np.maximum(sums[:, 2], 1))
        return scores | {"accuracy": shared / max(wanted, 1)}, "accuracy", right
    scores |= {"precision": float(ratio(shared, said)), "recall": float(ratio(shared, wanted))}
    return scores | {"f1": float(f1(counts_N3.sum(0)[None])[0])}, "f1", interval(counts_N3, f1)


def _shared(config: WritingConfig, ours: Prediction, theirs: Prediction) -> tuple[int, int, int]:
    """(right, written, wanted) of one example: entities by type and words, other tags place by place."""
    if config.scheme is None:
        both = zip(ours["tags"], theirs["tags"], strict=False)
        right = sum(tag == wanted and tag is not None for tag, wanted in both)
        return right, len(ours["tags"]), len(theirs["tags"])
    bags = [Counter((one["type"], squeezed(one["text"])) for one in some["entities"]) for some in (ours, theirs)]
    return sum((bags[0] & bags[1]).values()), sum(bags[0].values()), sum(bags[1].values())


# a Latin sign ends a clause before white space or a Chinese character, not inside 3.14 or 10:30
_SIGNS = re.compile(r"[。；，：？！…\n]|[.;,:?!](?=\s|$|[\u3400-\u9fff])")
_SIZES = {1: 4, 2: 2, 4: 1, 8: 1}  # clauses of a source: how often
_CHARS = range(4, 121)  # of a clause that is a target
_ENOUGH = 50_000  # pairs; few texts are read again, and cut elsewhere, until there are so many
_PASSES = 8  # at the most

Span = tuple[int, int]


def split_clauses(text: str) -> list[Span]:
    """Where clauses begin and end, without the signs after them and the white space around them."""
    found = []
    begin = 0
    for sign in (*_SIGNS.finditer(text), None):
        part = text[begin : sign.start() if sign else len(text)]
        stripped = part.strip()
        if stripped:
            start = begin + part.index(stripped)
            found.append((start, start + len(stripped)))
        begin = sign.end() if sign else len(text)
    return found


def _stretches(text: str, spans: Sequence[Span], draw: random.Random) -> Iterator[tuple[str, str]]:
    """The whole text in stretches of random size, each with one of its clauses."""
    at = 0
    while at < len(spans):
        size = draw.choices(list(_SIZES), list(_SIZES.values()))[0]
        inside = spans[at : at + size]
        at += size
        end = spans[at][0] if at < len(spans) else len(text)
        able = [text[start:stop] for start, stop in inside if stop - start in _CHARS]
        if able:
            yield text[inside[0][0] : end].strip(), draw.choice(able)


def copies(texts: Iterable[str], seed: int = 0) -> list[tuple[str, str]]:
    """(source, target) pairs in the order of the texts; the same for the same texts and seed."""
    parted = [(text, split_clauses(text)) for text in texts]
    draw = random.Random(seed)
    pairs: list[tuple[str, str]] = []
    for _ in range(_PASSES):
        for text, spans in parted:
            pairs += _stretches(text, spans, draw)
        if len(pairs) >= _ENOUGH:
            break
    return pairs


@dataclass(frozen=True)
class WritingData:
    """Examples to learn and to test, and the settings that were found in them."""

    config: WritingConfig
    train: Sequence[WritingExample]
    dev: Sequence[WritingExample]


def read_writing(
    config: WritingConfig, train: Path, dev: Path | None, reading: Reading, learning: bool = True
) -> WritingData:
    """Reads the files of any form; data that cannot be trained on is an error. Without ``learning`` the settings stay."""
    if config.form == "copy":
        first, second = _copies(train, reading), _copies(dev, reading) if dev is not None else []
        return WritingData(config.replace(form="text"), first, second)
    if config.form == "text":
        first, second = _pairs(train, reading), _pairs(dev, reading) if dev is not None else []
        for path, found in ((train, first), (dev, second)):
            if path is not None and not found:
                raise FirthError(f"{path}: no pairs of texts in it; check the file")
        return WritingData(config, first, second)
    data = read_task(config.form, train, dev, reading)
    data.refuse_several("a task as text")
    data.check.refuse(learning=learning)
    learned, tested = (
        [example for example in some if not isinstance(example, AnswerExample)] for some in (data.train, data.dev)
    )
    if not learning:
        return WritingData(config, learned, tested)
    seen: dict[str, object] = {"pairs": data.pairs, "scheme": data.check.scheme}
    if config.form == "tag":
        seen |= {"pairs": False, "characters": data.characters()}
    config = config.replace(**seen)
    return WritingData(config.replace(labels=labels_of(config, learned)), learned, tested)


def _pairs(path: Path, reading: Reading) -> list[TextExample]:
    """Sources and targets of a TSV, jsonl or TMX file, none of them empty."""
    chosen = PairsReadingConfig(source=reading.text, target=reading.label, encoding=reading.encoding or "utf-8")
    return [
        TextExample(pair.source, None, pair.target, str(path))
        for pair in read_pairs(find_pair_sources([str(path)]), chosen)
        if pair.source.strip() and pair.target.strip()
    ]


def _copies(path: Path, reading: Reading) -> list[TextExample]:
    """Parts of the texts of a file, which is read as ``prepare`` reads it, to be repeated."""
    if reading.second is not None or reading.label is not None:
        raise FirthError("form=copy learns from plain text: leave out the columns of labels and second texts")
    documents = read_documents(
        find_sources([str(path)]),
        ReadingConfig(column=reading.text or "text", encoding=reading.encoding or "utf-8"),
        "name it with --text",
    )
    found = copies(document.text for document in documents)
    if not found:
        raise FirthError(f"{path}: no clauses to copy in it; give a file of plain text")
    return [TextExample(source, None, target, str(path)) for source, target in found]


def describe_writing(config: WritingConfig, train: Path, dev: Path | None, reading: Reading) -> list[str]:
    """What is in the files, as lines for a terminal: how many examples, and the first as it will be read and written."""
    data = read_writing(config, train, dev, reading)
    first = data.train[0]
    return [
        f"examples   train {len(data.train):,}" + (f"   dev {len(data.dev):,}" if data.dev else ""),
        f"reads      {_short(source_text(data.config, first))}",
        f"writes     {_short(target_text(data.config, first))}",
    ]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 100 else f"{flat[:97]}..."
