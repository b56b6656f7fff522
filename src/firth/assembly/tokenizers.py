"""Whether a model and a corpus speak of the same tokens."""

from pathlib import Path

from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.text.pieces import Pieces
from firth.text.sentinels import PATTERN, sentinel_ids


def same_tokens(first: Pieces, second: Pieces) -> bool:
    """Whether two tokenizers number the same tokens alike. Sentinels may stand behind those of one alone."""
    vocabs = [pieces.backend.get_vocab(with_added_tokens=True) for pieces in (first, second)]
    if [bool(sentinel_ids(pieces)) for pieces in (first, second)] in ([True, False], [False, True]):
        vocabs = [{token: number for token, number in one.items() if not PATTERN.fullmatch(token)} for one in vocabs]
    return vocabs[0] == vocabs[1]


def require_same_tokens(pieces: Pieces, corpus: Corpus, model: Path) -> None:
    if not same_tokens(pieces, corpus.pieces):
        raise FirthError(
            f"{corpus.folder}: made with another tokenizer than {model}; prepare it again with --tokenizer {model}"
        )
