"""Equal runs have equal numbers, in whichever table they are."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.corpus.run_numbers import RunNumbers

runs = st.one_of(
    st.sampled_from(
        [b"\xffIt", b"\xffIf", b"a", b"it", "中".encode(), "é".encode(), "😀".encode(), b"\xffab", b"fifteen letters"]
    ),
    st.text(min_size=1, max_size=18).map(lambda text: text.encode("utf-8", "replace")),
    st.text("中国aé", min_size=1, max_size=3).map(str.encode),
    st.text("ab", min_size=1, max_size=17).map(lambda text: b"\xff" + text.encode()),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(runs, max_size=40), max_size=4))
def test_as_a_dictionary(blocks: list[list[bytes]]) -> None:
    numbers, known, spelled = RunNumbers(), {}, []
    numbers._allocate(16)  # so small that it grows
    for block in blocks:
        ends = np.cumsum([len(run) for run in block], dtype=np.int64)
        starts = np.append(0, ends)[:-1]
        found = numbers.numbers(b"".join(block), starts, ends).tolist()
        spelled += numbers.take_new()
        assert len(numbers) == len(spelled)
        assert [spelled[number] for number in found] == block
        for run, number in zip(block, found, strict=True):
            known.setdefault(run, set()).add(number)
    assert all(len(found) == 1 or (len(found) == 2 and len(run) in (1, 3)) for run, found in known.items())
