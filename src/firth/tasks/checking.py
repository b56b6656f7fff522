"""A look at labelled data before anything is trained: labels, counts, lengths, problems."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from firth.core.errors import FirthError
from firth.data.labelled import AnswerExample, TagExample, TextExample
from firth.tasks.tag_schemes import bad_tags, detect_scheme
from firth.tokenizers.words import HAN_CLASS

AnyExample = TextExample | TagExample | AnswerExample
UNBALANCED = 3  # times as frequent as the rarest is the most frequent class: then classes are weighted
_FEW = 5  # examples of a class
OneKind = TypeVar("OneKind", TextExample, TagExample, AnswerExample)
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
_WORDS = re.compile(rf"[{HAN_CLASS}]|[^\W{HAN_CLASS}]+")


@dataclass(frozen=True)
class Problem:
    """What is wrong, how often, where first; with a grave one nothing should be trained (or, unless it concerns only
    learning, scored)."""

    what: str
    count: int
    first: str
    grave: bool = False
    only_learning: bool = False
    remedy: str = field(default="", compare=False)


@dataclass(frozen=True)
class Check:
    """What was found; ``labels`` by name: how often in each part, ``lengths`` by part: quantiles."""

    kind: str  # classify, score, tag, answer
    num_examples: dict[str, int]
    labels: dict[str, dict[str, int]]
    num_chars: dict[str, list[float]]
    num_words: dict[str, list[float]]  # Chinese characters count singly
    problems: list[Problem]
    scheme: str | None = None  # of tags

    def refuse(self, learning: bool = True) -> None:
        """An error if there is a grave problem; ``learning=False``: the examples are only scored."""
        for problem in self.problems:
            if problem.grave and (learning or not problem.only_learning):
                remedy = f"{problem.remedy or 'fix the data'}; --check shows all"
                if not learning:  # evaluate has no such options
                    remedy = "fix them, or take such rows out of the file"
                raise FirthError(f"{problem.first}: {problem.what} ({problem.count} in all); {remedy}")


def all_of(kind: type[OneKind], examples: Iterable[AnyExample]) -> list[OneKind]:
    """Examples of a task that are all of one kind, for the type checker."""
    return [example for example in examples if isinstance(example, kind)]


def check_examples(
    train: Sequence[AnyExample], dev: Sequence[AnyExample] | None = None, kind: str = "classify"
) -> Check:
    """``kind`` is classify, score, tag or answer."""
    parts: dict[str, Sequence[AnyExample]] = {"train": train} if dev is None else {"train": train, "dev": dev}
    counts = {
        part: Counter(label for example in examples for label in _labels(example)) for part, examples in parts.items()
    }
    names = sorted(set().union(*counts.values()), key=lambda name: (-counts["train"][name], name))
    shown = [] if kind == "score" else names
    scheme = detect_scheme(e.tags for e in train if isinstance(e, TagExample) and e.tags) if kind == "tag" else None
    problems = [*_of_each(parts, scheme), *_of_pairs(parts), *_of_labels(parts, counts, kind), *_shared(train, dev)]
    if kind == "classify" and len(train) >= 2 * _FEW:
        problems = _with_several(problems, _of_counts(train, counts["train"]))
    return Check(
        kind,
        {part: len(examples) for part, examples in parts.items()},
        {name: {part: counts[part][name] for part in parts} for name in shown},
        {part: _quantiles(len(_text(example)) for example in examples) for part, examples in parts.items()},
        {part: _quantiles(_num_words(example) for example in examples) for part, examples in parts.items()},
        problems,
        scheme,
    )


def _labels(example: AnyExample) -> list[str]:
    if isinstance(example, TextExample):
        if example.labels is not None:
            return list(example.labels)
        return [] if example.label is None else [str(example.label)]
    if isinstance(example, TagExample):
        return example.tags or []
    if example.impossible:
        return ["no answer"]
    return ["answer"] if example.answers or example.references else []


def _text(example: AnyExample) -> str:
    if isinstance(example, TextExample):
        return example.text + (example.second or "")
    return example.text if isinstance(example, TagExample) else example.passage


def _num_words(example: AnyExample) -> int:
    return len(example.words) if isinstance(example, TagExample) else sum(1 for _ in _WORDS.finditer(_text(example)))


def _quantiles(lengths: Iterable[int]) -> list[float]:
    found = list(lengths)
    return np.quantile(found, QUANTILES, method="lower").tolist() if found else []


def _counted(what: str, places: list[str], grave: bool = False, remedy: str = "") -> list[Problem]:
    return [Problem(what, len(places), places[0], grave, remedy=remedy)] if places else []


def _of_each(parts: dict[str, Sequence[AnyExample]], scheme: str | None) -> list[Problem]:
    """What can be wrong with an example by itself."""
    tests: list[tuple[str, bool, Callable[[AnyExample], bool]]] = [
        (_UNLABELLED, True, _unlabelled),
        ("words and tags differ in number", True, _unpaired),
        ("empty text", False, _empty),
    ]
    remedies = {_UNLABELLED: "label it, or leave all such texts out with --skip-bad", "empty text": "leave it out"}
    if scheme is not None:
        tests.append((f"tags that {scheme.upper()} forbids", False, lambda example: _bad(example, scheme)))
        remedies[tests[-1][0]] = "fix them, or let --repair-tags do it"
    found = []
    for part, examples in parts.items():
        for what, grave, test in tests:
            places = [
                example.where or f"{part} {number}" for number, example in enumerate(examples, 1) if test(example)
            ]
            said = what if len(parts) == 1 else f"{what} ({part})"
            found += _counted(said, places, grave, remedies.get(what, "fix it"))
    return found


def _empty(example: AnyExample) -> bool:
    if isinstance(example, TextExample):
        return not example.text.strip() or (example.second is not None and not example.second.strip())
    return not (example.words if isinstance(example, TagExample) else example.passage.strip())


def _unlabelled(example: AnyExample) -> bool:
    """A text that may have several labels may have none of them."""
    return not _labels(example) and getattr(example, "labels", None) is None


def _unpaired(example: AnyExample) -> bool:
    return isinstance(example, TagExample) and example.tags is not None and len(example.tags) != len(example.words)


def _bad(example: AnyExample, scheme: str) -> bool:
    return isinstance(example, TagExample) and example.tags is not None and bool(bad_tags(example.tags, scheme))


def _of_pairs(parts: dict[str, Sequence[AnyExample]]) -> list[Problem]:
    """What learns to compare two texts cannot read one, nor the other way round."""
    texts = [(part, one) for part, some in parts.items() for one in some if isinstance(one, TextExample)]
    pairs = any(one.second is not None for part, one in texts if part == "train")
    there = "one text where training has two" if pairs else "two texts where training has one"
    places = [one.where or part for part, one in texts if (one.second is not None) != pairs]
    return _counted(there, places, True, "name the columns with --text and --second")


def _of_labels(parts: dict[str, Sequence[AnyExample]], counts: dict[str, Counter[str]], kind: str) -> list[Problem]:
    found = []
    if kind != "score" and "dev" in parts:
        for name in sorted(set(counts["dev"]) - set(counts["train"])):
            places = [example.where or "dev" for example in parts["dev"] if name in _labels(example)]
            # A tag that is never learned costs a point; a class that is never learned is a mistake in the files.
            remedy = "label some for training, or fix the name"
            found += _counted(f"the label '{name}' is not in the training data", places, kind == "classify", remedy)
    kinds = {example.label for example in parts["train"] if isinstance(example, TextExample)}
    if kind in ("classify", "score") and len(kinds) == 1 and kinds != {None}:
        first = parts["train"][0].where or "train"
        same, remedy = "all examples have the same label: nothing can be learned", "add examples of another"
        found.append(Problem(same, len(parts["train"]), first, True, True, remedy))
    return found


def _with_several(problems: list[Problem], more: list[Problem]) -> list[Problem]:
    """Where a text may have several labels it may have none of them, and is not to be left out for that: first it is said
    how to read the labels."""
    joined = [problem for problem in more if problem.what.startswith(_JOINED)]
    if not joined:
        return problems + more
    remedy = f"none is allowed where a text may have several: {joined[0].remedy.rpartition(': ')[2]}; else label it"
    changed = [
        replace(problem, remedy=remedy) if problem.what.startswith(_UNLABELLED) else problem for problem in problems
    ]
    return [*joined, *changed, *(problem for problem in more if problem not in joined)]


_JOINED, _UNLABELLED = "labels such as", "no label"


def _of_counts(train: Sequence[AnyExample], counts: Counter[str]) -> list[Problem]:
    """Classes with few examples, and such as are far rarer than others."""
    found = []
    if counts and len(counts) == len(train) and max(counts.values()) == 1:
        remedy = "name the column of the labels with --label"
        first = train[0].where or "train"
        return [Problem("every example has a label of its own", len(train), first, True, True, remedy)]
    few = sorted((name for name, count in counts.items() if count < _FEW), key=lambda name: (counts[name], name))
    if few and len(counts) > 1:
        names = ", ".join(f"'{name}' {counts[name]}" for name in few[:_FEW])
        first = next(one.where or "train" for one in train if few[0] in _labels(one))
        remedy = f"label more ({names}), or join it with another"
        found.append(Problem(f"labels with fewer than {_FEW} examples", len(few), first, remedy=remedy))
    several = getattr(train[0], "labels", None) is not None  # each is learned by itself
    if not several and (mark := _joined_by(counts)):
        joined = sorted(name for name in counts if mark in name)
        first = next(one.where or "train" for one in train if joined[0] in _labels(one))
        remedy = f'if a text may have several, name what parts them: --label-separator "{mark}"'
        found.append(Problem(f"{_JOINED} '{joined[0]}', made of others", len(joined), first, remedy=remedy))
    if alike := _alike(counts):
        first = next(one.where or "train" for one in train if alike[0] in _labels(one))
        said = " and ".join(f"'{name}'" for name in alike)
        what = f"labels that differ only in capitals or white space: {said}"
        found.append(Problem(what, len(alike), first, remedy="write them alike if they mean the same"))
    if counts and not several and max(counts.values()) >= UNBALANCED * min(counts.values()):
        rare = min(counts, key=lambda name: (counts[name], name))
        first = next(one.where or "train" for one in train if rare in _labels(one))
        remedy = "classes are weighted and macro F1 decides, unless class_weights=false"
        what = f"'{rare}', the rarest of unbalanced labels"
        found.append(Problem(what, counts[rare], first, remedy=remedy))
    return found


def _alike(counts: Counter[str]) -> list[str]:
    """The first labels that are one but for capitals and white space, the most frequent last."""
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault("".join(name.lower().split()), []).append(name)
    found = min((names for names in groups.values() if len(names) > 1), default=[])
    return sorted(found, key=lambda name: (counts[name], name))


_PLAIN_MARKS = ";；|、"  # hardly stand in a name


def _joined_by(counts: Counter[str]) -> str:
    """The mark between the names of several labels: two labels at least are made of others that are there, or one by a mark
    that hardly stands in a name; else empty."""
    for mark in _PLAIN_MARKS + ",，/+":
        parts = [[part.strip() for part in name.split(mark)] for name in counts if mark in name]
        if len(parts) >= (1 if mark in _PLAIN_MARKS else 2) and all(part in counts for some in parts for part in some):
            return mark
    return ""


def _key(example: AnyExample) -> Hashable:
    if isinstance(example, TextExample):
        return example.text, example.second
    return tuple(example.words) if isinstance(example, TagExample) else (example.question, example.passage)


def _shared(train: Sequence[AnyExample], dev: Sequence[AnyExample] | None) -> list[Problem]:
    """Texts that occur twice: with two labels in train, or in train and dev."""
    known: dict[Hashable, str | float | None] = {}
    torn = [
        example.where or "train"
        for example in train
        if isinstance(example, TextExample) and known.setdefault(_key(example), example.label) != example.label
    ]
    found = _counted("the same text with another label before", torn, remedy="decide for one of the labels")
    found += _counted("texts that stood there before", _again(train), remedy="leave them out: they count twice")
    if not dev:
        return found
    keys = {_key(example) for example in train}
    places = [example.where or "dev" for example in dev if _key(example) in keys]
    if len(places) == len(dev):
        what, remedy = "every dev example is also in train: the score will say nothing", "name another --dev"
        return [*found, Problem(what, len(dev), places[0], remedy=remedy)]
    remedy = "leave them out of one file: the score is too good with them"
    return [*found, *_counted("dev examples that are also in train", places, remedy=remedy)]


def _again(train: Sequence[AnyExample]) -> list[str]:
    """Places of texts that occur a second time with the same label."""
    seen: set[Hashable] = set()
    places = []
    for example in train:
        if isinstance(example, TextExample) and example.text:
            key = (_key(example), example.label)
            if key in seen:
                places.append(example.where or "train")
            seen.add(key)
    return places


WIDTH = 80
_MAX_LABELS = 30


def check_lines(check: Check) -> list[str]:
    """Counts and labels, lengths, problems."""
    parts = list(check.num_examples)
    rows = [["examples", *(f"{check.num_examples[part]:,}" for part in parts)]]
    names = list(check.labels)
    rows += [[f"  {name}", *(f"{check.labels[name][part]:,}" for part in parts)] for name in names[:_MAX_LABELS]]
    if len(names) > _MAX_LABELS:
        rows.append([f"  … {len(names) - _MAX_LABELS} more labels", *("" for _ in parts)])
    lines = [*_table([[check.kind, *parts], *rows]), ""]
    header = ["lengths", *("min" if q == 0 else "max" if q == 1 else f"{q:.0%}" for q in QUANTILES)]
    for unit, found in (("characters", check.num_chars), ("words", check.num_words)):
        lines += _table(
            [header] + [[f"  {part}, {unit}", *(f"{n:,.0f}" for n in found[part])] for part in parts if found[part]]
        )
        header = []
    if check.scheme:
        lines += ["", f"tags are {check.scheme.upper()}"]
    lines += ["", "no problems found" if not check.problems else "problems"]
    for problem in check.problems:
        lines += _wrapped(
            f"{'✗' if problem.grave else '!'} {problem.count:,} × {problem.what}, first at {problem.first}"
            + (f"; {problem.remedy}" if problem.remedy else "")
        )
    return lines


def _table(rows: list[list[str]]) -> list[str]:
    """The first column to the left and cut, the others to the right."""
    rows = [row for row in rows if row]
    if not rows:
        return []
    width = 11 if max(map(len, rows)) <= 6 else 9
    first = max(24, min(40, WIDTH - width * (max(map(len, rows)) - 1)))
    return [(fit_width(row[0], first) + "".join(cell.rjust(width) for cell in row[1:])).rstrip() for row in rows]


def fit_width(text: str, width: int) -> str:
    """Cut or filled to a width on the screen, where Chinese characters are two columns wide."""
    text = " ".join(text.split(" ")).replace("\n", " ").replace("\t", " ")
    text = text[: 8 * width]  # a label may be a book
    if _screen_width(text) <= width:
        return text + " " * (width - _screen_width(text))
    while text and _screen_width(text) >= width:
        text = text[:-1]
    return text + "…" + " " * (width - _screen_width(text) - 1)


def _screen_width(text: str) -> int:
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _wrapped(text: str) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and _screen_width(line) + 1 + _screen_width(word) > WIDTH - 2:
            lines.append(line)
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    return [f"  {part}" for part in [*lines, line]]
