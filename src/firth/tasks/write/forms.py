"""Tasks as text to text (Raffel et al. 2020, 2.4): examples as a source and a target to be written, and back.

A class is written as its label, entities as ``TYPE: words; TYPE: words`` (``-`` for none), other tags as ``A; B; C``.
A tokenizer may fold case and set signs apart, so what was written is compared without case and white space.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from firth.core.errors import FirthError
from firth.data.examples import TagExample, TextExample
from firth.tasks.config import WritingConfig
from firth.tasks.scores import Interval, classify_scores, harmonic, interval, mean_interval, ratio
from firth.tasks.tag.schemes import parted, spans_of
from firth.tasks.write.metrics import rouge_f1
from firth.tokenizers.characters import spaced

_NONE = "-"
_BETWEEN = ";"


def squeezed(text: str) -> str:
    """Without case and white space."""
    return "".join(text.split()).casefold()


def prefixed(config: WritingConfig, text: str) -> str:
    """A source with the words that say what is to be done."""
    return f"{config.prefix.strip()} {text}" if config.prefix.strip() else text


def source_text(config: WritingConfig, example: TextExample | TagExample) -> str:
    """What is read."""
    if isinstance(example, TagExample):
        return prefixed(config, spaced(example.words))
    if example.second is None:
        return prefixed(config, example.text)
    return prefixed(config, f"first: {example.text} second: {example.second}")


def target_text(config: WritingConfig, example: TextExample | TagExample) -> str:
    """What is to be written."""
    if isinstance(example, TextExample):
        return str(example.label)
    assert example.tags is not None
    if config.scheme is None:
        return f"{_BETWEEN} ".join(example.tags)
    spans = spans_of(example.tags)
    said = [f"{span.type}: {spaced(example.words[span.first : span.last + 1])}" for span in spans]
    return f"{_BETWEEN} ".join(said) or _NONE


def labels_of(config: WritingConfig, examples: Sequence[Any]) -> tuple[str, ...]:
    """The labels, types or tags that occur; two that are written alike are refused."""
    if config.form == "text":
        return ()
    if config.form == "classify":
        found = {str(example.label) for example in examples}
    else:
        tags = {tag for example in examples for tag in example.tags or ()}
        found = tags if config.scheme is None else {parted(tag)[1] for tag in tags if tag != "O"}
    by_look: dict[str, str] = {}
    for label in sorted(found):
        other = by_look.setdefault(squeezed(label), label)
        if other != label:
            raise FirthError(f"the labels '{other}' and '{label}' would be written alike: rename one")
    return tuple(sorted(found))


def read_back(config: WritingConfig, written: str) -> dict[str, Any]:
    """What was meant by what was written; a label that does not exist is None."""
    known = {squeezed(label): label for label in config.labels}
    if config.form == "text":
        return {"written": written}
    if config.form == "classify":
        return {"label": known.get(squeezed(written)), "written": written}
    parts = [part.strip() for part in written.split(_BETWEEN)]
    if config.scheme is None:
        return {"tags": [known.get(squeezed(part)) for part in parts], "written": written}
    entities = []
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
        ours, theirs = ([place.get(one["label"], len(place)) for one in some] for some in found)
        return classify_scores(theirs, ours, len(place) + 1), "accuracy", mean_interval(same)
    counts_N3 = np.asarray([_shared(config, *pair) for pair in zip(*found, strict=True)])

    def f1(sums: Any) -> Any:
        return harmonic(ratio(sums[:, 0], sums[:, 1]), ratio(sums[:, 0], sums[:, 2]))

    shared, said, wanted = counts_N3.sum(0).tolist()
    if config.scheme is None:
        right = interval(counts_N3, lambda sums: sums[:, 0] / np.maximum(sums[:, 2], 1))
        return scores | {"accuracy": shared / max(wanted, 1)}, "accuracy", right
    scores |= {"precision": float(ratio(shared, said)), "recall": float(ratio(shared, wanted))}
    return scores | {"f1": float(f1(counts_N3.sum(0)[None])[0])}, "f1", interval(counts_N3, f1)


def _shared(config: WritingConfig, ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[int, int, int]:
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
