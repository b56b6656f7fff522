"""How a model or a corpus reads a text: ``tokens``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from firth.api.using import AnyPath, load
from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.corpus.loss import RoundTrip
    from firth.tokenizers.word_tokens import AnyTokens


class Token(TypedDict):
    """A token; ``start`` and ``end`` are its characters in the text. Unknown words of a corpus of words have no id."""

    token: str
    id: int | None
    text: str
    start: int
    end: int
    word: int
    unknown: bool


class TextTokens(TypedDict):
    """A text as a model reads it; ``back`` is what the tokens spell, ``lost`` counts characters that are not in it."""

    text: str
    kind: str
    vocab_size: int
    tokens: list[Token]
    words: list[str]
    unknown: int
    back: str
    lost: int
    examples: list[dict[str, str]]


def tokens(model: AnyPath, text: str) -> TextTokens:
    """Shows the tokens of a text: their ids, places and words, what is unknown and what is lost.

    Args:
        model: A corpus, a run, a model directory, a tokenizer or a file of word vectors.
        text: The text.

    Example::

        firth.tokens("corpora/news", "The café was full.")["tokens"][0]["id"]
    """
    if not text.strip():
        raise FirthError("the text is empty: write some words")
    found, marks = _tokenizer(Path(model))
    return _described(found, text, marks)


def _tokenizer(path: Path) -> tuple[AnyTokens, int]:
    """The tokenizer, and how many marks stand before the words that its owner numbers from 0."""
    from firth.tokenizers.pieces import Pieces
    from firth.tokenizers.segmentation import Segmentation
    from firth.tokenizers.word_tokens import MARKS, WordTokens, load_tokens

    if not path.exists():
        raise FirthError(f"{path}: no such corpus, run or model; check the path")
    if (path / "corpus.json").is_file():
        from firth.corpus.pairs import corpus_info

        rules = corpus_info(path, verify=False).tokens
        if rules.kind != "words":
            return Pieces.load(path / "tokenizer"), 0
        words = (path / "tokenizer" / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
        how = Segmentation.load(path / "tokenizer")
        return WordTokens(words, rules.lowercase, rules.word_split == "whitespace", how), len(MARKS)
    for folder in (path, path / "base"):
        names = ("words.txt", "tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
        has_vocabulary = (folder / "vocab.txt").is_file() and not (
            folder / "options.json"
        ).is_file()  # ELMo's is of words
        if has_vocabulary or any((folder / name).is_file() for name in names):
            return load_tokens(folder), 0
    if path.name in ("tokenizer.json", "vocab.txt"):
        return Pieces.load(path), 0
    from firth.models.shared.static import StaticModel

    loaded = load(path)
    if not isinstance(loaded, StaticModel):
        raise FirthError(
            f"{path}: it reads words letter by letter and has no tokens ({loaded.kind}); name another model"
        )
    words = list(loaded.vectors.words)
    return WordTokens(words, False, loaded.whitespace_only, loaded.segmentation), len(MARKS)


def _described(found: AnyTokens, text: str, marks: int) -> TextTokens:
    from firth.corpus.loss import measure_loss, pieces_round_trip
    from firth.tokenizers.pieces import Pieces
    from firth.tokenizers.word_tokens import white_spans

    round_trip: RoundTrip
    if isinstance(found, Pieces):
        encoding, round_trip = found.encode(text, add_special=False, read_special=False), pieces_round_trip(found)
        spans, folded = found.segmentation.split(text), found.lowercase
    else:
        known = found

        def back(part: str) -> str:
            ids = known.encode(part).ids.tolist()
            return known.decode([number for number in ids if number != known.unk_id])

        encoding, round_trip = found.encode(text), back
        spans, folded = white_spans(text) if found.whitespace_only else found.segmentation.split(text), found.lowercase
    rows = [
        Token(
            token=token,
            id=None if marks and number == found.unk_id else number - marks,
            text=text[start:end],
            start=start,
            end=end,
            word=word,
            unknown=number == found.unk_id,
        )
        for token, number, (start, end), word in zip(
            encoding.tokens, encoding.ids.tolist(), encoding.offsets.tolist(), encoding.words.tolist(), strict=True
        )
    ]
    loss = measure_loss([text], round_trip, folded)
    return TextTokens(
        text=text,
        kind=found.kind,
        vocab_size=found.vocab_size - marks,
        tokens=rows,
        words=[text[start:end] for start, end in spans],
        unknown=sum(row["unknown"] for row in rows),
        back=round_trip(text),
        lost=loss.lost,
        examples=[example.model_dump() for example in loss.examples],
    )
