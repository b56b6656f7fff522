"""Counted at once, documents are of the same scripts as each for itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firth.corpus.document_scripts import document_scripts
from firth.tokenizers.segmentation import Segmentation
from language_text import TEXTS, natural
from piece_samples import hard_text

HOWS = [Segmentation(), Segmentation(kanji=True)]
texts = st.one_of(
    hard_text,
    st.text(st.sampled_from("中国人说aéñя한の𠀀𛀀ภ豈\U0002f800㐀\U0002ceb0 。"), max_size=25),
    st.sampled_from([natural(language) for language in TEXTS]),
)


def check(documents: list[str]) -> None:
    found = document_scripts("\n\n".join(documents), [len(one) + 2 for one in documents])
    for how in HOWS:
        assert found.chinese(how).tolist() == list(map(how.is_chinese, documents))
        assert found.lack_spaces(how).tolist() == list(map(how.lacks_spaces, documents))


@settings(max_examples=300, deadline=None)
@given(st.lists(texts, min_size=1, max_size=5))
def test_as_one_by_one(documents: list[str]) -> None:
    check([text.encode("utf-8", "replace").decode() for text in documents])


@pytest.mark.parametrize("many", [1, 9])
def test_every_character(many: int) -> None:
    """Alone, and among nine ideographs, where the share of other letters is at its limit."""
    codes = np.arange(0x20, 0x32000)
    codes = codes[(codes < 0xD800) | (codes > 0xDFFF)].tolist()
    check([chr(code) + "中" * (many - 1) for code in codes])
