"""What a corpus of either kind is."""

from pathlib import Path

from firth.corpus.format import Corpus, CorpusInfo
from firth.corpus.pairs import PairsCorpus, PairsInfo, is_pairs


def corpus_info(path: Path, verify: bool = True) -> CorpusInfo | PairsInfo:
    """The content of ``corpus.json``; ``verify`` compares every file with its checksum."""
    if is_pairs(path):
        return PairsCorpus.open(path, verify).info
    return Corpus.open(path, verify).info
