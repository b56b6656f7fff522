"""One small corpus of words for all tests of the room."""

import sys
from pathlib import Path

import pytest

from firth.corpus.format import Corpus

sys.path.insert(0, str(Path(__file__).parent))

from vector_text import lines, word_corpus


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return word_corpus(tmp_path_factory.mktemp("words"), lines(400))
