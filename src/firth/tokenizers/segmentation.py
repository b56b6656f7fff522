"""By what the words of a corpus are found where no spaces part them; a corpus and its models keep it.

``segmentation.json`` beside a tokenizer names the segmenters of scripts without spaces (ICU's dictionaries for Thai, Lao,
Khmer, Myanmar and Japanese; Sudachi for Japanese where it is installed), whether ideographs are Japanese, the user's words
for the Chinese segmenter, and simplified forms of traditional characters, by which that segmenter, whose dictionary is
of simplified words, looks them up. Without the file there are none of these. Words are a function of the run of letters
that they stand in, so a sentence and the text around it give the same ones.
"""

import functools
import itertools
import threading
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import regex
from pydantic import Field

from firth.core.config import Config
from firth.core.errors import FirthError, import_extra
from firth.core.files import read_json, write_json
from firth.tokenizers.words import (
    CLUSTERED,
    KANA,
    VOICED,
    WORD,
    Spans,
    cut,
    find_word_spans,
    has_han,
    has_unspaced,
    is_chinese,
    keep_foreign,
    lacks_spaces,
    parts_through_invisible,
    spans_of_parts,
    spans_through_invisible,
    ways_without_spaces,
    without_invisible,
)

FILE = "segmentation.json"
SEGMENTERS = ("auto", "icu", "none")
_BY_ICU = ("Thai", "Lao", "Khmer", "Myanmar", "Japanese")
_LEAST_SHARE = 0.001  # of the letters of a sample: a script of fewer is cited, not written
_CHINESE_SHARE = 0.25  # of the ideographs in texts without kana: from here on those texts are Chinese, not Japanese
_TRADITIONAL_SHARE = 0.05  # of ideographs that only traditional script has
_MAX_SUDACHI_CHARS = 10_000
_HAN = regex.compile(r"\p{Han}+")
_JAPANESE = regex.compile(f"[{KANA}]+")
_LETTERS = regex.compile(r"[\p{L}\p{M}]+")
_WAY = regex.compile(r"(icu|sudachi)(?: [0-9][0-9.]{0,30})?")
_HALF = regex.compile(r"[\x00\ud800-\udfff]")
_NO_CHINESE = (
    "--dictionary is for words of Chinese text, of which a sample of this text has none: it changes nothing here"
)
MAX_WORDS, MAX_WORD_CHARS = 1_000_000, 100  # of the user's dictionary


class Segmentation(Config):
    """What is recorded; the default is what every model without a record does."""

    segmenters: dict[str, str] = Field(default_factory=dict)  # of each script: "icu 78.3", "sudachi 20261015"
    kanji: bool = False  # ideographs are Japanese, also in a text without kana
    traditional: str = ""  # a traditional character, its simplified one, the next traditional one, ...
    dictionary: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        return self == Segmentation()

    def is_chinese(self, text: str) -> bool:
        """Whether the Chinese dictionary finds the words of a text."""
        return not self.kanji and is_chinese(text)

    def lacks_spaces(self, text: str) -> bool:
        """Whether a text that is not Chinese has words that no space parts."""
        return (self.kanji and has_han(text)) or lacks_spaces(text)

    def cut(self, text: str) -> list[str]:
        """Chinese words in order; joined they are the text again."""
        if not self.dictionary and not self.traditional:
            return cut(text)
        return parts_through_invisible(text, self._cut)

    def _cut(self, text: str) -> list[str]:
        found = _jieba(self.dictionary if not self.traditional else self._simplified).cut(self._looked_up(text))
        ends = list(itertools.accumulate(map(len, found), initial=0))
        return keep_foreign(text, [text[start:end] for start, end in itertools.pairwise(ends)])

    @functools.cached_property
    def _table(self) -> dict[int, str]:
        return {
            ord(self.traditional[place]): self.traditional[place + 1] for place in range(0, len(self.traditional), 2)
        }

    @functools.cached_property
    def _simplified(self) -> tuple[str, ...]:
        """The user's words as the segmenter meets them."""
        return tuple(map(self._looked_up, self.dictionary))

    def _looked_up(self, text: str) -> str:
        return text.translate(self._table) if self.traditional else text

    def split(self, text: str, chinese: bool | None = None) -> Spans:
        """(start, end) of each word; white space belongs to none. ``chinese`` says so of a part of a longer text."""
        if self.is_chinese(text) if chinese is None else chinese:
            return spans_of_parts(self.cut(text))
        if not self.segmenters or not (has_unspaced(text) or has_han(text)):
            return find_word_spans(text)
        return spans_through_invisible(text, self._split)

    def _split(self, text: str) -> Spans:
        spans: Spans = []
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if match.lastgroup is None:
                spans.append((start, end))
                continue
            for border in self._borders(match.lastgroup, match.group()):
                spans.append((start, match.start() + border))
                start = match.start() + border
        return spans

    def find_words(self, text: str, chinese: bool) -> list[str]:
        return [without_invisible(text[start:end]) for start, end in self.split(text, chinese)]

    @functools.cached_property
    def _pattern(self) -> Any:
        """Runs of the scripts that have a segmenter, other words as everywhere."""
        runs = [rf"(?P<{name}>[\p{{{name}}}&&{CLUSTERED}]+)" for name in self.segmenters if name != "Japanese"]
        if "Japanese" in self.segmenters:
            runs.append(rf"(?P<Japanese>[\p{{Han}}{KANA}][\p{{Han}}{KANA}{VOICED}]*)")
        return regex.compile("|".join([*runs, WORD.pattern]), regex.V1)

    def _borders(self, script: str, run: str) -> list[int]:
        """Where the words of a run end."""
        return _sudachi_borders(run) if self.segmenters[script].startswith("sudachi") else _icu_borders(run)

    def ways(self, text: str) -> dict[str, str]:
        """Scripts without spaces in a text, and by what their words are found."""
        if self.is_chinese(text):
            return {}
        found = ways_without_spaces(text)
        if self.kanji and has_han(text):
            found.setdefault("Japanese", "runs of one script")
        return {script: self.segmenters.get(script, way) for script, way in found.items()}

    def save(self, folder: Path) -> None:
        if not self.plain:
            write_json(folder / FILE, self.model_dump())

    @classmethod
    def load(cls, folder: Path) -> "Segmentation":
        """What is recorded beside a tokenizer, or nothing."""
        path = folder / FILE
        if not path.is_file():
            return PLAIN
        found = cls.build(read_json(path), path)
        wrong = found._wrong()
        if wrong:
            raise FirthError(f"{path}: damaged ({wrong} not as Firth writes them); copy it again")
        return found

    def _wrong(self) -> str:
        """What no file of Firth's has; a word or a segmenter that is changed would change the words of a text in silence."""
        if not all(script in _BY_ICU and _is_segmenter(script, way) for script, way in self.segmenters.items()):
            return "its scripts or segmenters are"
        if len(self.traditional) % 2 or (self.traditional and not _HAN.fullmatch(self.traditional)):
            return "its characters are"
        if len(self.dictionary) > MAX_WORDS or not all(map(_is_word, self.dictionary)):
            return "the words of its dictionary are"
        return ""


def _is_segmenter(script: str, way: str) -> bool:
    found = _WAY.fullmatch(way)
    return found is not None and (found.group(1) == "icu" or script == "Japanese")


def _is_word(word: str) -> bool:
    """Whole characters without white space, not many."""
    return 0 < len(word) <= MAX_WORD_CHARS and word.split() == [word] and not _HALF.search(word)


PLAIN = Segmentation()


@functools.lru_cache(maxsize=4)
def _jieba(dictionary: tuple[str, ...]) -> Any:
    import rjieba

    found = rjieba.Jieba()
    for word in dictionary:
        found.add_word(word, None, None)  # as frequent as it must be to stay whole
    return found


def _icu_borders(run: str) -> list[int]:
    breakers = import_extra("icu4py.breakers", "segmenters", "finding words as the corpus of this model did")
    ends = [end for _, end in breakers.WordBreaker(run, "en").segments()]
    if max(run) < "\U00010000":
        return ends
    # ICU counts the two halves of rare ideographs apart
    place = np.cumsum([0, *(1 + (char > "\uffff") for char in run)])
    return [int(found) for found in np.searchsorted(place, ends)]


_SUDACHI_TURN = threading.Lock()


def _sudachi_borders(run: str) -> list[int]:
    ends: list[int] = []
    with _SUDACHI_TURN:
        for first in range(0, len(run), _MAX_SUDACHI_CHARS):  # it reads 49,149 bytes at a time
            ends += [first + word.end() for word in _sudachi().tokenize(run[first : first + _MAX_SUDACHI_CHARS])]
    return ends


@functools.cache
def _sudachi() -> Any:
    """The shortest units: those of the Balanced Corpus of Contemporary Written Japanese."""
    for name in ("sudachidict_small", "sudachipy"):
        found = import_extra(name, "japanese", "finding Japanese words as the corpus of this model did")
    return found.Dictionary(dict="small").tokenizer(mode=found.SplitMode.A)


def installed_segmenters() -> dict[str, str]:
    """The best one of each script that is installed here."""
    from importlib.metadata import version

    found: dict[str, str] = {}
    if find_spec("icu4py") is not None:
        import icu4py

        found = dict.fromkeys(_BY_ICU, f"icu {icu4py.icu_version}")
    if find_spec("sudachipy") is not None and find_spec("sudachidict_small") is not None:
        found["Japanese"] = f"sudachi {version('sudachidict_small')}"
    return found


def choose_segmentation(
    sample: Iterable[str], dictionary: Iterable[str] = (), segmenter: str = "auto"
) -> tuple[Segmentation, list[str]]:
    """What fits a sample of the text and is installed, with a sentence for each package that would find better words."""
    if segmenter not in SEGMENTERS:
        raise FirthError(f"unknown segmenter '{segmenter}': choose {', '.join(SEGMENTERS[:-1])} or {SEGMENTERS[-1]}")
    texts = list(sample)
    text = "\n".join(texts)
    own = tuple(dict.fromkeys(dictionary))
    if text.isascii():
        return Segmentation(dictionary=own), [_NO_CHINESE] * bool(own)
    chinese = "".join(part for one in texts if is_chinese(one) for part in _HAN.findall(one))
    letters, kana, ideographs = (len("".join(part.findall(text))) for part in (_LETTERS, _JAPANESE, _HAN))
    letters = max(letters, 1)
    kanji = kana >= _LEAST_SHARE * letters and len(chinese) <= _CHINESE_SHARE * ideographs
    there_are = ways_without_spaces(text)
    written = {
        script
        for script in _BY_ICU
        if script in there_are
        and (kana if script == "Japanese" else len(regex.findall(rf"\p{{{script}}}", text))) >= _LEAST_SHARE * letters
    }
    advice: list[str] = [_NO_CHINESE] if own and (kanji or not chinese) else []
    there = installed_segmenters() if written and segmenter != "none" else {}
    if segmenter == "icu":
        import_extra("icu4py", "segmenters", "--segmenter icu")
    if there and segmenter == "icu":
        there = dict.fromkeys(_BY_ICU, next(way for way in there.values() if way.startswith("icu")))
    if segmenter == "auto" and (missing := sorted(written - there.keys())):
        advice.append(
            f"words of {' and '.join(missing)} are found without a dictionary; pip install 'firth[segmenters]' finds them with one"
        )
    traditional = ""
    if not kanji and segmenter != "none" and _traditional_share(chinese) >= _TRADITIONAL_SHARE:
        traditional = simplified_forms()
        if not traditional:
            advice.append(
                "the Chinese is in traditional script, which the segmenter knows less well; pip install 'firth[segmenters]' lets it look up simplified forms"
            )
    segmenters = {script: there[script] for script in _BY_ICU if script in written and script in there}
    return Segmentation(segmenters=segmenters, kanji=kanji, traditional=traditional, dictionary=own), advice


@functools.cache
def _only_traditional(char: str) -> bool:
    """Whether a character is in Taiwan's standard set and not in the mainland's."""
    for codec, wanted in (("big5", True), ("gb2312", False)):
        try:
            char.encode(codec)
        except UnicodeEncodeError:
            if wanted:
                return False
        else:
            if not wanted:
                return False
    return True


def _traditional_share(ideographs: str) -> float:
    return sum(map(_only_traditional, ideographs)) / max(len(ideographs), 1)


@functools.cache
def simplified_forms() -> str:
    """Every character that only traditional script has with its simplified form, by OpenCC; nothing where that is not
    installed. Characters of both scripts stay: simplified text is not changed."""
    if find_spec("opencc") is None:
        return ""
    from opencc import OpenCC

    chars = [char for code in range(0x4E00, 0xA000) if _only_traditional(char := chr(code))]
    simple: list[str] = OpenCC("t2s").convert("\n".join(chars)).split("\n")
    return "".join(a + b for a, b in zip(chars, simple, strict=True) if a != b and len(b) == 1)
