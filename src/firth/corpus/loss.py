"""What of a text cannot be got back from its tokens: a sample is encoded, decoded and compared.

Case (where it is folded), white space, invisible characters and the choice between equivalent spellings (NFC) do not
count. The sample is drawn by hashes of the documents, so it does not depend on workers.
"""

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from firth.core.config import Config
from firth.core.registry import TokensConfig
from firth.corpus.encoded import WordEncoder, WordRules
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.words import INVISIBLE, split_words

LOSS_WARNING = 0.001
UNKNOWN_WARNING = 0.01
_EXCERPT_BYTES = 3000
_EXCERPTS = 200
_SPREAD, _ALL = 0x9E3779B97F4A7C15, (1 << 64) - 1
_UNSEEN = re.compile(f"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b{INVISIBLE}]")  # other controls are white space
_FORMS = ("<wide>", "<narrow>", "<font>", "<noBreak>", "<vertical>", "<initial>", "<medial>", "<final>", "<isolated>")
_TURKISH = str.maketrans("Iİ", "ıi")
_TRIED_WORDS, _AT_ONCE = 2000, 100
_SHOWN = 3

RoundTrip = Callable[[list[str]], list[str]]


class LossExample(Config):
    text: str
    back: str


class LossInfo(Config):
    """Characters that were compared, how many of them were lost, and words that come back as others."""

    characters: int
    lost: int
    form_only: int  # of the lost ones: another form of the same character came back (！ as !, ﬁ as fi)
    examples: list[LossExample]

    @property
    def share(self) -> float:
        return self.lost / max(self.characters, 1)

    def shown(self) -> str:
        """The examples in a line."""
        return ", ".join(f"{one.text} → {one.back or '(nothing)'}" for one in self.examples)


class Sample:
    """Excerpts of the documents with the smallest hashes; what is repeated is in it once."""

    def __init__(self) -> None:
        self.kept: dict[int, bytes] = {}
        self.limit = _ALL

    def add(self, hashes: NDArray[np.uint64], texts: list[bytes]) -> None:
        for number, data in zip(hashes.tolist(), texts, strict=True):
            for place in range(0, len(data), _EXCERPT_BYTES):
                key = (number + place) * _SPREAD & _ALL
                if key <= self.limit and key not in self.kept:
                    self.kept[key] = data[place : place + _EXCERPT_BYTES]
        if len(self.kept) > 2 * _EXCERPTS:
            self._shrink()

    def _shrink(self) -> None:
        self.kept = {key: self.kept[key] for key in nsmallest(_EXCERPTS, self.kept)}
        if len(self.kept) == _EXCERPTS:
            self.limit = max(self.kept)

    def texts(self) -> list[str]:
        """The excerpts; a character that was cut through is left out."""
        self._shrink()
        return [data.decode("utf-8", "ignore") for data in self.kept.values()]


def pieces_round_trip(pieces: Pieces) -> RoundTrip:
    """Texts to ids and back; what is written in a text is never special."""

    def back(texts: list[str]) -> list[str]:
        if pieces.byte_ids is not None:
            found = (pieces.encode(text, add_special=False, read_special=False) for text in texts)
            return [pieces.decode(one.ids.tolist()) for one in found]
        with pieces.reading(special=False) as backend:
            ids = [one.ids for one in backend.encode_batch_fast(texts, add_special_tokens=False)]
        return pieces.decode_batch(ids)

    return back


def words_round_trip(rules: WordRules) -> RoundTrip:
    """Texts to words and back, where every word is in the vocabulary."""
    encoder = WordEncoder(rules)
    return lambda texts: [" ".join(encoder.words(text, rules.segmentation.is_chinese(text))) for text in texts]


def measure_loss(texts: Iterable[str], round_trip: RoundTrip, lowercase: bool) -> LossInfo:
    """What does not come back, with the words that show it most often."""
    characters = lost = form_only = 0
    damaged: list[str] = []
    texts = list(texts)
    for text, back in zip(texts, round_trip(texts), strict=True):
        wanted, found = _compared(text, back, lowercase, _is_turkish(text))
        characters += len(wanted)
        if wanted != found:
            missing = _missing(wanted, found)
            lost += missing
            form_only += max(missing - _missing(*("".join(map(_plain_form, one)) for one in (wanted, found))), 0)
            damaged.append(text)
    examples = _examples(damaged, round_trip, lowercase)
    return LossInfo(characters=characters, lost=lost, form_only=form_only, examples=examples)


def _missing(wanted: str, found: str) -> int:
    return (Counter(wanted) - Counter(found)).total()


@functools.lru_cache(4096)
def _plain_form(char: str) -> str:
    """The character without its width, ligature or place in the word. Exponents, fractions, circled and squared letters mean
    something else than what they are made of; of Thai, Lao and Korean NFKC makes other letters."""
    kind = unicodedata.decomposition(char).partition(" ")[0]
    plain = unicodedata.normalize("NFKC", char)
    letters = kind == "<compat>" and not any("\u0e00" <= one < "\u0f00" or "\u1100" <= one < "\u1200" for one in plain)
    return plain if letters or kind in _FORMS else char


def _is_turkish(text: str) -> bool:
    """Whether I is no capital i in it."""
    return "ı" in text or "İ" in text


def _compared(text: str, back: str, lowercase: bool, turkish: bool) -> tuple[str, str]:
    """Both so that they are equal where nothing is lost."""
    if lowercase and turkish:
        text, back = text.translate(_TURKISH), back.replace("i\u0307", "i")
    return _comparable(text, lowercase), _comparable(back, lowercase)


def _comparable(text: str, lowercase: bool) -> str:
    text = "".join(_UNSEEN.sub("", text).split())
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold() if lowercase else text)


def _examples(texts: list[str], round_trip: RoundTrip, lowercase: bool) -> list[LossExample]:
    """Damaged words, the most frequent first; the beginning of a text where each word alone is whole."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text[start:end] for start, end in split_words(text))
        if len(counts) > _TRIED_WORDS:
            break
    found: list[LossExample] = []
    turkish = any(map(_is_turkish, texts))
    words = [word for word, _ in counts.most_common(_TRIED_WORDS)]
    for start in range(0, len(words), _AT_ONCE):
        some = words[start : start + _AT_ONCE]
        for word, back in zip(some, round_trip(some), strict=True):
            before, after = _compared(word, back, lowercase, turkish)
            if before != after:
                found.append(LossExample(text=word[:40], back=back[:40]))
        if len(found) >= _SHOWN:
            break
    if texts and not found:
        (back,) = round_trip(texts[:1])
        found.append(LossExample(text=f"{texts[0][:40]}…", back=f"{back[:40]}…"))
    return found[:_SHOWN]


def loss_warnings(
    loss: LossInfo, unknown_share: float, tokens: TokensConfig, given: bool, where: str = ""
) -> list[str]:
    """What the user should know, a sentence each with what to do. ``given``: the tokenizer was not learned here;
    ``where``: of which part of the text."""
    found = []
    if tokens.strip_accents and loss.lost and unknown_share <= UNKNOWN_WARNING:
        found.append(
            f"{where}marks are stripped from letters, as in uncased BERT, and {loss.share:.2%} of the characters are lost ({loss.shown()}); "
            "train a vocabulary of your own without --strip-accents, or use a tokenizer that keeps them"
        )
    elif (severe := (loss.lost - loss.form_only) / max(loss.characters, 1)) > LOSS_WARNING:
        found.append(
            f"{where}{severe:.2%} of the characters cannot be got back from the {tokens.kind} ({loss.shown()}); {_remedy(tokens, given)}"
        )
    if unknown_share > UNKNOWN_WARNING:
        found.append(
            f"{where}{unknown_share:.1%} of the tokens are unknown, more than {UNKNOWN_WARNING:.0%}; {_remedy(tokens, given)}"
        )
    return found


def _remedy(tokens: TokensConfig, given: bool) -> str:
    """What keeps more of the text."""
    if given:
        return "leave out --tokenizer to learn a vocabulary of this text, or give one that is made for it"
    if tokens.kind == "characters":
        return "choose a larger --vocab-size, or --tokens bpe, which keeps everything"
    if tokens.byte_fallback or tokens.kind not in ("wordpiece", "unigram"):
        return "--tokens bpe keeps everything"
    return "--tokens bpe keeps everything, a larger --vocab-size or --byte-fallback keeps what is rare"


def unsegmented(texts: Iterable[str], segmentation: Segmentation = PLAIN) -> dict[str, str]:
    """Scripts without spaces in texts that are not Chinese, and by what their words are found."""
    ways: dict[str, str] = {}
    for text in texts:
        ways |= segmentation.ways(text)
    return dict(sorted(ways.items()))
