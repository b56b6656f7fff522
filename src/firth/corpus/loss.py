"""What of a text cannot be got back from its tokens: a sample is encoded, decoded and compared.

Case (where it is folded), white space, invisible characters and the choice between equivalent spellings (NFC) do not
count. The sample is drawn by hashes of the documents, so it does not depend on workers.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from firth.core.config import Config
from firth.corpus.encoded import WordEncoder, WordRules
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.words import split_words

LOSS_WARNING = 0.001
UNKNOWN_WARNING = 0.01
_EXCERPT_BYTES = 3000
_EXCERPTS = 200
_SPREAD, _ALL = 0x9E3779B97F4A7C15, (1 << 64) - 1
_INVISIBLE = dict.fromkeys(
    [code for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"] + [0xAD, 0x200B, 0x2060, 0xFEFF]
)
_TRIED_WORDS = 2000
_SHOWN = 3

RoundTrip = Callable[[str], str]


class LossExample(Config):
    text: str
    back: str


class LossInfo(Config):
    """Characters that were compared, how many of them were lost, and words that come back as others."""

    characters: int
    lost: int
    form_only: int  # of the lost ones: another form of the same character came back (NFKC: ！ as !, ﬁ as fi)
    examples: list[LossExample]

    @property
    def share(self) -> float:
        return self.lost / max(self.characters, 1)

    def shown(self) -> str:
        """The examples in a line."""
        return ", ".join(f"{one.text} → {one.back or '(nothing)'}" for one in self.examples)


class Sample:
    """Excerpts of the documents with the smallest hashes."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, bytes]] = []
        self.limit = _ALL

    def add(self, hashes: NDArray[np.uint64], texts: list[bytes]) -> None:
        for number, data in zip(hashes.tolist(), texts, strict=True):
            for place in range(0, len(data), _EXCERPT_BYTES):
                key = (number + place) * _SPREAD & _ALL
                if key <= self.limit:
                    self.kept.append((key, data[place : place + _EXCERPT_BYTES]))
        if len(self.kept) > 2 * _EXCERPTS:
            self._shrink()

    def _shrink(self) -> None:
        self.kept = nsmallest(_EXCERPTS, self.kept)
        if len(self.kept) == _EXCERPTS:
            self.limit = self.kept[-1][0]

    def texts(self) -> list[str]:
        """The excerpts; a character that was cut through is left out."""
        self._shrink()
        return [data.decode("utf-8", "ignore") for _, data in self.kept]


def pieces_round_trip(pieces: Pieces) -> RoundTrip:
    """Text to ids and back; what is written in a text is never special."""

    def back(text: str) -> str:
        if pieces.byte_ids is not None:
            return pieces.decode(pieces.encode(text, add_special=False, read_special=False).ids.tolist())
        with pieces.reading(special=False) as backend:
            ids = backend.encode(text, add_special_tokens=False).ids
        return pieces.decode(ids)

    return back


def words_round_trip(rules: WordRules) -> RoundTrip:
    """Text to words and back, where every word is in the vocabulary."""
    encoder = WordEncoder(rules)
    return lambda text: " ".join(encoder.words(text, rules.segmentation.is_chinese(text)))


def measure_loss(texts: Iterable[str], round_trip: RoundTrip, lowercase: bool) -> LossInfo:
    """What does not come back, with the words that show it most often."""
    characters = lost = form_only = 0
    damaged: list[str] = []
    for text in texts:
        wanted, found = _comparable(text, lowercase), _comparable(round_trip(text), lowercase)
        characters += len(wanted)
        if wanted != found:
            missing = _missing(wanted, found)
            lost += missing
            form_only += max(missing - _missing(*(unicodedata.normalize("NFKC", one) for one in (wanted, found))), 0)
            damaged.append(text)
    examples = _examples(damaged, round_trip, lowercase)
    return LossInfo(characters=characters, lost=lost, form_only=form_only, examples=examples)


def _missing(wanted: str, found: str) -> int:
    return (Counter(wanted) - Counter(found)).total()


def _comparable(text: str, lowercase: bool) -> str:
    text = "".join(text.translate(_INVISIBLE).split())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold() if lowercase else text)


def _examples(texts: list[str], round_trip: RoundTrip, lowercase: bool) -> list[LossExample]:
    """Damaged words, the most frequent first; the beginning of a text where each word alone is whole."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text[start:end] for start, end in split_words(text))
        if len(counts) > _TRIED_WORDS:
            break
    found: list[LossExample] = []
    for word, _ in counts.most_common(_TRIED_WORDS):
        back = round_trip(word)
        if _comparable(word, lowercase) != _comparable(back, lowercase):
            found.append(LossExample(text=word[:40], back=back[:40]))
            if len(found) == _SHOWN:
                break
    if texts and not found:
        found.append(LossExample(text=f"{texts[0][:40]}…", back=f"{round_trip(texts[0])[:40]}…"))
    return found


def loss_warnings(loss: LossInfo, unknown_share: float, stripped: bool, kind: str) -> list[str]:
    """What the user should know, a sentence each with what to do."""
    found = []
    if stripped and loss.lost:
        found.append(
            f"marks are stripped from letters, as in uncased BERT, and {loss.share:.2%} of the characters are lost ({loss.shown()}); "
            "train a vocabulary of your own without --strip-accents, or use a tokenizer that keeps them"
        )
    elif (severe := (loss.lost - loss.form_only) / max(loss.characters, 1)) > LOSS_WARNING:
        found.append(
            f"{severe:.2%} of the characters cannot be got back from the {kind} ({loss.shown()}); "
            "--tokens bpe keeps everything, a larger --vocab-size or --byte-fallback keeps what is rare"
        )
    if unknown_share > UNKNOWN_WARNING:
        found.append(
            f"{unknown_share:.1%} of the tokens are unknown, more than {UNKNOWN_WARNING:.0%}; choose a larger --vocab-size, "
            "--byte-fallback, --tokens bpe, or a tokenizer made for this language"
        )
    return found


def unsegmented(texts: Iterable[str], segmentation: Segmentation = PLAIN) -> dict[str, str]:
    """Scripts without spaces in texts that are not Chinese, and by what their words are found."""
    ways: dict[str, str] = {}
    for text in texts:
        ways |= segmentation.ways(text)
    return dict(sorted(ways.items()))
