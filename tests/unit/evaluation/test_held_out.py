"""The examples that ``compare`` holds out where no dev file is named."""

from dataclasses import replace

from firth.evaluation.compare.tasks import _apart
from firth.tasks.data import copies_of
from task_text import texts


def test_copies_of_a_text_are_on_one_side() -> None:
    some = [replace(one, text=f"{number}: {one.text}") for number, one in enumerate(texts(40))]
    assert _apart(some, 8) == (some[:-8], some[-8:])
    double = [*some[:20], some[38], *some[20:]]
    kept, held = _apart(double, 8)
    assert len(held) in (8, 9)
    assert held.count(some[38]) == 2
    assert {one.text for one in kept}.isdisjoint(one.text for one in held)
    assert len(kept) + len(held) == len(double)
    crowd = [*some[:10], *[some[39]] * 30]
    kept, held = _apart(crowd, 8)
    assert some[39] not in held
    assert len(set(copies_of(kept))) + len(set(copies_of(held))) == 11
    assert len(_apart([some[0]] * 10, 2)[1]) == 2
