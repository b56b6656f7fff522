"""The labelled files of a task: reading and checking them, labels and tag schemes, stratified shares."""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import Ints, hashed, uniform
from firth.data.answers import read_answers
from firth.data.labelled import AnswerExample, Columns, TagExample, TextExample, read_texts
from firth.data.tagged import TagColumns, read_tagged
from firth.tasks.checking import UNBALANCED, AnyExample, Check, Problem, all_of, check_examples
from firth.tasks.config import TaskConfig
from firth.tasks.tag_schemes import convert, repair
from firth.tokenizers.word_tokens import join_words
from firth.tokenizers.words import has_han

OneExample = TypeVar("OneExample", bound=AnyExample)
OneRow = TypeVar("OneRow")


@dataclass(frozen=True)
class Reading:
    """How labelled files are read; what is not said is found."""

    text: str | None = None
    second: str | None = None
    label: str | None = None
    skip_bad: bool = False  # leave out answers that are not where they should be, and texts without a label
    repair_tags: bool = False
    encoding: str | None = None  # None: UTF-8, or what a byte order mark says
    separator: str | None = None  # between several labels of one text; None: they are JSON lists


def read_examples(task: str, path: Path, reading: Reading, for_scoring: bool = False) -> list[AnyExample]:
    """Examples of a file for a kind of task; to score answers their texts are enough."""
    name = str(path)
    if task in ("classify", "score"):
        columns = Columns(reading.text, reading.second, reading.label)
        return list(
            read_texts(name, columns, task == "score", reading.encoding or "utf-8", separator=reading.separator)
        )
    if task == "tag":
        return list(read_tagged(name, tag_columns(reading.text, reading.label), encoding=reading.encoding or "utf-8"))
    found = read_answers(
        name, skip_bad=reading.skip_bad, encoding=reading.encoding or "utf-8", only_references=for_scoring
    )
    return list(found.examples)


def tag_columns(word: str | None, tag: str | None) -> TagColumns:
    """What the user calls the columns, as numbers where they are."""
    given = {"word": word, "tag": tag}
    return TagColumns(
        **{name: int(value) if value.lstrip("-").isdecimal() else value for name, value in given.items() if value}
    )


@dataclass(frozen=True)
class TaskData:
    """Training and dev examples, and what was seen in them."""

    train: list[AnyExample]
    dev: list[AnyExample]
    check: Check

    @property
    def pairs(self) -> bool:
        return any(example.second is not None for example in all_of(TextExample, self.train))

    @property
    def several(self) -> bool:
        """Whether a text may have several labels."""
        return any(example.labels is not None for example in all_of(TextExample, self.train))

    def refuse_several(self, who: str) -> None:
        """An error where texts have several labels and ``who`` gives one."""
        if self.several:
            raise FirthError(
                f"several labels per text, and {who} gives one: use firth finetune classify on another base"
            )

    def characters(self) -> bool:
        """Whether Chinese words of the examples are single characters."""
        sizes = [len(word) for example in all_of(TagExample, self.train) for word in example.words if has_han(word)]
        return bool(sizes) and sum(size == 1 for size in sizes) > 0.98 * len(sizes)

    def letters(self) -> bool:
        """Whether digits and letters in examples of single Chinese characters stand singly as well, also side by side."""
        singly, side_by_side = [], False
        for example in all_of(TagExample, self.train):
            plain = [word.isalnum() and not has_han(word) for word in example.words]
            singly += [len(word) == 1 for word, one in zip(example.words, plain, strict=True) if one]
            side_by_side = side_by_side or any(one and other for one, other in pairwise(plain))
        return side_by_side and self.characters() and sum(singly) > 0.98 * len(singly)

    def configured(self, config: TaskConfig) -> TaskConfig:
        """The settings with the labels and the scheme of these examples."""
        if config.task == "tag":
            counts = Counter(tag for example in all_of(TagExample, self.train) for tag in example.tags or ())
            usual = "O" if "O" in counts else max(counts, key=counts.__getitem__, default="")
            found = {"labels": _labels(config, counts), "scheme": self.check.scheme, "default_label": usual}
            return config.replace(**found, characters=self.characters(), letters=self.letters())
        if config.task == "classify" and self.several:
            names = {label for example in all_of(TextExample, self.train) for label in example.labels or ()}
            if not names:
                raise FirthError("the training examples have lists of labels, and all of them are empty: label some")
            labels = _labels(config, names)
            if config.thresholds and len(config.thresholds) != len(labels):
                raise FirthError(
                    f"thresholds: {len(config.thresholds)} for {len(labels)} labels; give one for each, or leave them out"
                )
            return config.replace(labels=labels, several=True, class_weights=False)
        if config.task == "classify":
            counts = Counter(str(example.label) for example in all_of(TextExample, self.train))
            weighted = config.class_weights
            if weighted is None:
                weighted = max(counts.values()) >= UNBALANCED * min(counts.values())
            metric = config.metric or ("macro_f1" if weighted else None)
            return config.replace(labels=_labels(config, counts), class_weights=weighted, metric=metric)
        if config.task == "answer" and config.answer_metric is None:
            texts = [answer.text for example in all_of(AnswerExample, self.train) for answer in example.answers]
            return config.replace(answer_metric="cmrc" if 2 * sum(map(has_han, texts)) > len(texts) else "squad2")
        return config


def _labels(config: TaskConfig, found: Collection[str]) -> list[str]:
    """Those that were asked for, in their order, else those of the examples."""
    unknown = sorted(set(found) - set(config.labels))
    if config.labels and unknown:
        raise FirthError(
            f"the training examples have the label '{unknown[0]}', which labels does not name: add it there"
        )
    return list(config.labels) or sorted(found)


def read_task(task: str, train: Path, dev: Path | None, reading: Reading) -> TaskData:
    """Reads and checks both files; data that cannot be trained on is an error."""
    first, skipped = _with_labels(read_examples(task, train, reading), reading)
    second = read_examples(task, dev, reading, for_scoring=True) if dev is not None else []
    second, of_dev = _with_labels(second, reading)
    if not first:
        raise FirthError(f"{train}: no examples in it; check the file")
    if dev is not None and not second:
        raise FirthError(f"{dev}: no examples in it; check the file")
    kinds = [any(one.labels is not None for one in all_of(TextExample, some)) for some in (first, second)]
    if dev is not None and kinds[0] != kinds[1]:
        lists, single = (train, dev) if kinds[0] else (dev, train)
        raise FirthError(f"{lists}: several labels per text, where {single} has one; write both files alike")
    found = build_data(task, first, second, reading.repair_tags)
    if not skipped and not of_dev:
        return found
    left_out = Problem("texts without a label, left out", len(skipped + of_dev), (skipped + of_dev)[0])
    return replace(found, check=replace(found.check, problems=[left_out, *found.check.problems]))


def _with_labels(examples: list[AnyExample], reading: Reading) -> tuple[list[AnyExample], list[str]]:
    """Those that are labelled, and where the others stand if these are to be left out."""
    missing = [
        isinstance(one, TextExample) and one.label is None and one.labels is None and reading.skip_bad
        for one in examples
    ]
    kept = [one for one, lacks in zip(examples, missing, strict=True) if not lacks]
    return kept, [one.where or "train" for one, lacks in zip(examples, missing, strict=True) if lacks]


def build_data(
    task: str, train: Sequence[AnyExample], dev: Sequence[AnyExample], repair_tags: bool = False
) -> TaskData:
    check = check_examples(train, dev or None, task)
    if check.scheme == "iob1":  # a label then says by itself where a span begins
        train, dev = ([_converted(example, "bio") for example in all_of(TagExample, some)] for some in (train, dev))
        check = check_examples(train, dev or None, task)
    if repair_tags and check.scheme is not None:
        train, dev = (
            [_repaired(example, check.scheme) for example in all_of(TagExample, some)] for some in (train, dev)
        )
        check = check_examples(train, dev or None, task)
    return TaskData(list(train), list(dev), check)


def texts_of(example: AnyExample) -> list[str]:
    """Everything that is to be read in an example."""
    if isinstance(example, TagExample):
        return [example.text or join_words(example.words)]
    if isinstance(example, AnswerExample):
        return [example.passage, example.question]
    return [part for part in (example.text, example.second) if part]


def copies_of(examples: Sequence[AnyExample]) -> list[int]:
    """The number of the first example with the same texts, capitals and white space apart; of one that is new its own."""
    first: dict[Hashable, int] = {}
    keys = (tuple(" ".join(text.lower().split()) for text in texts_of(example)) for example in examples)
    return [first.setdefault(key, number) for number, key in enumerate(keys)]


def _repaired(example: TagExample, scheme: str) -> TagExample:
    return example if example.tags is None else replace(example, tags=repair(example.tags, scheme))


def _converted(example: TagExample, scheme: str) -> TagExample:
    return example if example.tags is None else replace(example, tags=convert(example.tags, scheme))


_NUM_BINS = 10  # of scores
_STREAM = 0x5A4E


def check_shares(shares: Sequence[float]) -> list[float]:
    """In rising order, all of the examples among them or not."""
    for share in shares:
        if not 0 < share <= 1:
            raise FirthError(f"shares: {share:g} is not above 0 and at most 1; name shares such as 0.01,0.1,1")
    if len(set(shares)) != len(shares):
        raise FirthError("shares: one of them is given twice")
    return sorted(shares)


def take_share(examples: Sequence[OneExample], share: float, seed: int) -> list[OneExample]:
    """That share of the examples, in their order; at least one of every kind."""
    kinds = strata(examples)
    size = min(len(examples), max(round(share * len(examples)), len(set(kinds))))
    chosen = np.sort(nested_order(kinds, seed)[:size])
    return [examples[number] for number in chosen.tolist()]


def nested_order(kinds: Sequence[Hashable], seed: int) -> NDArray[np.int64]:
    """Numbers of the examples such that every beginning is stratified.

    Within a kind of n examples the order is random and the k-th (from 0) stands at (k + u) / n of the way, u uniform; the
    first of each kind comes before all others.
    """
    numbers: dict[Hashable, int] = {}
    kind_N = np.asarray([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)
    rows_N = np.arange(len(kind_N))
    random_N = hashed(seed, _STREAM, rows_N)
    place_N = np.zeros(len(kind_N))
    for kind in range(len(numbers)):
        members = np.flatnonzero(kind_N == kind)
        members = members[np.argsort(random_N[members], kind="stable")]
        ranks = np.arange(len(members))
        place_N[members] = (ranks + uniform(seed, _STREAM + 1, kind, ranks)) / len(members)
        place_N[members[:1]] -= 1.0
    return np.lexsort((random_N, place_N))


def strata(examples: Sequence[AnyExample]) -> list[Hashable]:
    """The kind of each example: its class, a tenth of the range of scores, its rarest tag, whether it has an answer."""
    if not examples:
        return []
    first = examples[0]
    if isinstance(first, AnswerExample):
        return [example.impossible for example in all_of(AnswerExample, examples)]
    if isinstance(first, TagExample):
        tagged = all_of(TagExample, examples)
        counts = Counter(tag for example in tagged for tag in set(example.tags or ()))
        return [min(example.tags or ("",), key=lambda tag: (counts[tag], tag)) for example in tagged]
    texts = all_of(TextExample, examples)
    if first.labels is not None:
        counts = Counter(label for example in texts for label in example.labels or ())
        return [min(example.labels or ("",), key=lambda label: (counts[label], label)) for example in texts]
    if isinstance(first.label, int | float):
        scores = [float(example.label or 0.0) for example in texts]
        ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
        return list((ranks * _NUM_BINS // len(texts)).tolist())
    return [str(example.label) for example in texts]


def by_owner(rows: Sequence[OneRow], owner: Ints) -> list[list[OneRow]]:
    """Rows sorted into the examples that they belong to."""
    found: list[list[OneRow]] = [[] for _ in range(int(owner[-1]) + 1)]
    for row, number in zip(rows, owner.tolist(), strict=True):
        found[number].append(row)
    return found
