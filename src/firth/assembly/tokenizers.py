"""Whether a model and a corpus speak of the same tokens."""

from pathlib import Path

from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.text.pieces import Pieces


def same_tokens(first: Pieces, second: Pieces) -> bool:
    """Whether two tokenizers number the same tokens alike."""
    return first.backend.get_vocab(with_added_tokens=True) == second.backend.get_vocab(with_added_tokens=True)


def require_same_tokens(pieces: Pieces, corpus: Corpus, model: Path) -> None:
    if not same_tokens(pieces, corpus.pieces):
        raise FirthError(
            f"{corpus.folder}: made with another tokenizer than {model}; prepare it again with --tokenizer {model}"
        )
