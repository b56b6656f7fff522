"""What a comparison was asked for, checked, and its labelled examples."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.seeds import generator
from firth.data.readers import ReadingConfig
from firth.evaluation.compare.tasks import Labels
from firth.tasks.config import TaskConfig
from firth.tasks.data import Reading, TaskData, build_data, check_shares, nested_order, read_examples, read_task, strata

Note = Callable[[str], None]


@dataclass(frozen=True)
class CompareConfig:
    """What the user asked for."""

    config: TaskConfig
    corpus: tuple[str, ...]
    train: Path
    dev: Path
    test: Path | None
    budget: str
    recipes: tuple[str, ...] | None = None  # none: some of each kind
    seeds: int = 3
    shares: tuple[float, ...] = ()
    given: frozenset[str] = frozenset()
    reading: Reading = field(default_factory=Reading)
    raw: ReadingConfig = field(default_factory=ReadingConfig)
    vocab_size: int = 8000
    cased: bool = False
    max_dev: int = 1000
    max_test: int = 3000

    @property
    def task(self) -> str:
        return self.config.task

    @property
    def small_shares(self) -> list[float]:
        return sorted(share for share in self.shares if share < 1)

    def check(self) -> None:
        """Refuses what cannot be, before anything is made."""
        if self.seeds < 1:
            raise FirthError(f"seeds is {self.seeds}: at least 1 is needed")
        check_shares(self.shares)
        if min(self.max_dev, self.max_test) < 1:
            raise FirthError("max_dev and max_test are numbers of examples: at least 1 is needed")
        if not self.corpus:
            raise FirthError("compare needs text to learn from: name it with --corpus")


def read_labels(options: CompareConfig, note: Note) -> Labels:
    """The examples in an order that is the same every time and of which every beginning has its part of each label; many
    dev or test examples are cut to a sample."""
    data = read_task(options.task, options.train, options.dev, options.reading)
    data.check.refuse()
    _say_problems(data, note)
    scored = data.dev
    if options.test is not None:
        more = read_examples(options.task, options.test, options.reading, for_scoring=True)
        if not more:
            raise FirthError(f"{options.test}: no examples in it; check the file")
        tested = build_data(options.task, data.train, more, options.reading.repair_tags)
        tested.check.refuse()
        _say_problems(tested, note, "test")
        scored = tested.dev
    test = _sample(scored, options.max_test, 0x7E57)
    if len(test) < len(scored):
        note(f"scores are those of {len(test):,} of the {len(scored):,} examples (--max-test)")
    config = data.configured(options.config)
    train = [data.train[number] for number in nested_order(strata(data.train), 0).tolist()]
    ordered = replace(data, train=train, dev=_sample(data.dev, options.max_dev, 0xDE))
    return Labels(ordered, test, config, options.given)


def _say_problems(data: TaskData, note: Note, part: str = "dev") -> None:
    for problem in data.check.problems:
        if "also in train" in problem.what:
            note(f"{problem.count:,} × {problem.what.replace('dev example', f'{part} example')}, first {problem.first}")


def _sample(examples: list[Any], most: int, key: int) -> list[Any]:
    order = generator(0, key).permutation(len(examples))[:most]
    return [examples[number] for number in order.tolist()]
