"""Training a tokenizer (WordPiece, BPE, Unigram, characters) from a stream of texts; the same text gives the same
vocabulary.

Unigram (Kudo 2018) is trained here with the kernels of ``unigram_kernels``, since the trainer of the Rust
``tokenizers`` iterates over hash tables in an order that changes from run to run. Seeds are the frequent substrings
of the words; then expectation maximisation and pruning by loss of likelihood alternate until the vocabulary has the
given size.
"""

import itertools
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import regex
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.tokenizers.pieces import BYTE_TOKENS, SPECIALS, Pieces, bert_tokenizer
from firth.tokenizers.words import has_unspaced, joins

SPACE = "\u2581"
TRAINER_THREAD = "firth-vocabulary"
_MAX_WORDS = 300_000
_MAX_CHARS = 3_500_000
_SEEDS_A_PIECE = 15
_MIN_SEEDS = 100_000
_SHRINK = 0.75
_SLACK = 1.1
_LONG = 24
_STOPS = "，。！？；：、…,.!?;:"
# Long texts without spaces (Chinese) are split at punctuation.
_STRETCH = re.compile(f"[^{_STOPS}]{{1,29}}[{_STOPS}]?|[{_STOPS}]")
# The trie of pieces as the kernels build it (``unigram_kernels``, imported late: Numba takes a second to load).
_Trie = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
_ALPHABET_SHARE = 0.9
_LONG_WORD = 100  # letters; BERT's
_LONG_STRETCH = 400  # letters; what BERT takes for a word is half a sentence where no spaces are written
_LONGEST = 400  # characters of a word that a vocabulary is learned from: the trainers' time grows with its square
_CLASSES = {  # characters that stand in one word, as the pre-tokenizer of each kind sees it
    "wordpiece": (r"[^\s\p{P}\p{Han}]",),
    "bpe": (r"\p{L}", r"\p{N}", r"[^\s\p{L}\p{N}]", r"\s"),
}
Texts = Callable[[], Iterable[str]]


@dataclass
class LongWords:
    """Shortens words of more than ``_LONGEST`` characters for the trainers. Where words are separated by spaces, the rest of
    such a word teaches nothing and is left out; a stretch of a script without spaces is split into several."""

    kind: str
    num_cut: int = 0
    longest: int = 0
    _half: "regex.Pattern[str]" = field(init=False)
    _whole: "regex.Pattern[str]" = field(init=False)

    def __post_init__(self) -> None:
        half, whole = (
            "|".join(f"{one}{{{count}}}" for one in _CLASSES[self.kind])
            for count in (f"{_LONGEST // 2}", f"{_LONGEST + 1},")
        )
        self._half, self._whole = regex.compile(half), regex.compile(whole)

    def shorten(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            # a word that is too long covers a whole half between two multiples of it: most texts are passed over quickly
            steps = range(0, len(text) - _LONGEST // 2 + 1, _LONGEST // 2)
            if len(text) > _LONGEST and any(self._half.match(text, place) for place in steps):
                yield from self._parts(text)
            else:
                yield text

    def _parts(self, text: str) -> Iterator[str]:
        """A text in several, so that each long word ends with its part."""
        end = 0
        for found in self._whole.finditer(text):
            self.num_cut, self.longest = self.num_cut + 1, max(self.longest, found.end() - found.start())
            yield text[end : found.start() + _LONGEST]
            if has_unspaced(found[0]) or regex.search(r"\p{Han}", found[0]):
                starts = range(found.start() + _LONGEST, found.end(), _LONGEST)
                yield from (text[start : min(start + _LONGEST, found.end())] for start in starts)
            end = found.end()
        yield text[end:]

    def note(self) -> str | None:
        """What was cut, for the user."""
        if not self.num_cut:
            return None
        return (
            f"words of more than {_LONGEST} characters were cut to learn the vocabulary ({self.num_cut:,} of them, the longest "
            f"with {self.longest:,}); if they are no words, remove them from the text"
        )


def count_words(texts: Iterable[str]) -> dict[str, int]:
    """Counts of the words of normalised texts, spelled with the mark of the space before them.

    Memory is bounded: when there are too many, half of those seen once are forgotten.
    """
    counts: Counter[str] = Counter()
    rounds = 0
    for text in texts:
        for word in text.split():
            marked = SPACE + word
            if len(marked) <= _LONG:
                counts[marked] += 1
            else:
                counts.update(_STRETCH.findall(marked))
        while len(counts) > _MAX_WORDS:
            counts = _thinned(counts, rounds)
            rounds += 1
    while sum(map(len, counts)) > _MAX_CHARS:
        counts = _thinned(counts, rounds)
        rounds += 1
    return dict(sorted(counts.items()))


def _thinned(counts: Counter[str], rounds: int) -> Counter[str]:
    """Without half of the rarest words, chosen by their spelling."""
    bit, rare = 1 << rounds % 24, 1 + rounds // 24
    return Counter({word: times for word, times in counts.items() if times > rare or zlib.crc32(word.encode()) & bit})


@dataclass
class _Strings:
    """Strings of small numbers, one after another."""

    chars: NDArray[np.int32]
    ends: NDArray[np.int64]

    def chosen(self, which: NDArray[np.int64]) -> "_Strings":
        starts = np.append(0, self.ends[:-1])[which]
        lens = self.ends[which] - starts
        ends = np.cumsum(lens)
        index = np.repeat(starts - (ends - lens), lens) + np.arange(lens.sum())
        return _Strings(self.chars[index], ends)


def train_unigram(counts: dict[str, int], num_pieces: int, max_chars: int) -> list[tuple[str, float]]:
    """(piece, log probability), the likeliest first; every character (up to ``max_chars``) is one."""
    words = list(counts)
    times = np.fromiter(counts.values(), np.float64, len(counts))
    codes = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    word_of = np.repeat(np.arange(len(words)), [len(word) for word in words])
    alphabet, chars = np.unique(codes, return_inverse=True)
    char_counts = np.bincount(chars, times[word_of], len(alphabet))
    kept = np.sort(np.lexsort((alphabet, -char_counts))[:max_chars])
    text = _Strings(chars.astype(np.int32), np.cumsum([len(word) for word in words]))
    seeds, weights = _seeds(text, times, max(_SEEDS_A_PIECE * num_pieces, _MIN_SEEDS), len(alphabet), kept)
    pieces, logs = _Trainer(text, times, len(alphabet)).train(seeds, weights, num_pieces)
    spelled = "".join(map(chr, alphabet[pieces.chars]))
    starts = np.append(0, pieces.ends[:-1])
    found = [
        (spelled[start:end], round(float(log), 6)) for start, end, log in zip(starts, pieces.ends, logs, strict=True)
    ]
    return sorted(found, key=lambda entry: (-entry[1], entry[0]))


def _seeds(
    text: _Strings, times: NDArray[np.float64], wanted: int, num_chars: int, kept: NDArray[np.int64]
) -> tuple[_Strings, NDArray[np.float64]]:
    """The kept characters, and the substrings seen at least twice that are worth most (count x length).

    Substrings grow by a character a round; one that is always followed by the same character is left out.
    """
    from firth.tokenizers.unigram_kernels import MAX_PIECE

    word_of = np.repeat(np.arange(len(text.ends), dtype=np.int32), np.diff(text.ends, prepend=0))
    room = (text.ends[word_of] - np.arange(len(text.chars))).astype(np.int32)  # characters to the word's end
    places = np.flatnonzero(np.isin(text.chars, kept))
    numbers = text.chars[places].astype(np.int64)
    total = np.bincount(numbers, times[word_of[places]], num_chars)
    first_place = np.zeros(num_chars, np.int64)
    first_place[numbers[::-1]] = places[::-1]
    found_places, found_lens, found_counts = [first_place[kept]], [np.ones(len(kept), np.int64)], [total[kept]]
    where = first_place
    is_kept = np.isin(np.arange(num_chars), kept)
    for length in range(2, MAX_PIECE + 1):
        go_on = room[places] >= length
        go_on[go_on] = is_kept[text.chars[places[go_on] + length - 1]]
        places, numbers = places[go_on], numbers[go_on]
        keys = numbers * num_chars + text.chars[places + length - 1]
        unique, first, longer = np.unique(keys, return_index=True, return_inverse=True)
        longer_total = np.bincount(longer, times[word_of[places]], len(unique))
        always = np.zeros(len(total))
        np.maximum.at(always, unique // num_chars, longer_total)
        if length > 2:
            worth = (total >= 2) & (always < total)
            found_places.append(where[worth])
            found_lens.append(np.full(int(worth.sum()), length - 1))
            found_counts.append(total[worth])
        often = longer_total >= 2
        kept_places = often[longer]
        where, total = places[first[often]], longer_total[often]
        numbers = (np.cumsum(often) - 1)[longer[kept_places]]
        places = places[kept_places]
    lens, counts = np.concatenate(found_lens), np.concatenate(found_counts)
    starts = np.concatenate(found_places)
    value = np.asarray(counts * lens, np.float64)
    order = np.argsort(-value[len(kept) :], kind="stable")[: max(0, wanted - len(kept))] + len(kept)
    chosen = np.concatenate((np.arange(len(kept)), order))
    ends = np.cumsum(lens[chosen])
    index = np.repeat(starts[chosen] - (ends - lens[chosen]), lens[chosen]) + np.arange(ends[-1])
    return _Strings(text.chars[index], ends), value[chosen]


class _Trainer:
    """Expectation maximisation over the lattices of all words, and pruning."""

    def __init__(self, text: _Strings, times: NDArray[np.float64], num_chars: int) -> None:
        self.text = text
        self.times = times
        self.num_chars = num_chars

    def train(
        self, pieces: _Strings, weights: NDArray[np.float64], wanted: int
    ) -> tuple[_Strings, NDArray[np.float64]]:
        logs = np.log(weights / weights.sum())
        while True:
            for _ in range(2):
                pieces, logs = self._maximise(pieces, logs)
            if len(logs) <= wanted * _SLACK:
                break
            pieces, logs = self._prune(pieces, logs, max(int(wanted * _SLACK), int(len(logs) * _SHRINK)))
        return self._first(pieces, logs, logs, wanted)

    def _trie(self, pieces: _Strings) -> _Trie:
        from firth.tokenizers.unigram_kernels import build_trie

        return build_trie(pieces.chars, pieces.ends, self.num_chars, 1 << (2 * len(pieces.chars)).bit_length())

    def _maximise(self, pieces: _Strings, logs: NDArray[np.float64]) -> tuple[_Strings, NDArray[np.float64]]:
        """One step; the digamma makes rare pieces rarer (Bayesian EM, as SentencePiece does it)."""
        from scipy.special import digamma

        from firth.tokenizers.unigram_kernels import expected_counts

        used = expected_counts(
            self.text.chars, self.text.ends, self.times, *self._trie(pieces), np.exp(logs), self.num_chars
        )
        single = np.diff(pieces.ends, prepend=0) == 1
        kept = np.flatnonzero(single | (used >= 0.5))
        used = np.maximum(used[kept], 0.5)
        return pieces.chosen(kept), digamma(used) - digamma(used.sum())

    def _prune(self, pieces: _Strings, logs: NDArray[np.float64], size: int) -> tuple[_Strings, NDArray[np.float64]]:
        from firth.tokenizers.unigram_kernels import best_counts, losses

        trie = self._trie(pieces)
        used = best_counts(self.text.chars, self.text.ends, self.times, *trie, logs, self.num_chars)
        lost = losses(pieces.chars, pieces.ends, used, *trie, logs, self.num_chars)
        return self._first(pieces, logs, lost, size)

    def _first(
        self, pieces: _Strings, logs: NDArray[np.float64], worth: NDArray[np.float64], size: int
    ) -> tuple[_Strings, NDArray[np.float64]]:
        """The pieces of most worth, all characters among them, in the order they had."""
        single = np.diff(pieces.ends, prepend=0) == 1
        order = np.lexsort((np.arange(len(logs)), -worth, ~single))
        kept = np.sort(order[:size])
        return pieces.chosen(kept), logs[kept]


def train_pieces(texts: Texts, config: TokensConfig, notes: list[str] | None = None) -> Pieces:
    """A tokenizer of the given kind; each call of ``texts()`` yields the sample again. ``notes`` gets what the user should
    know of it."""
    if not any(text.strip() for text in texts()):
        raise FirthError("no text to learn a vocabulary from: every document is empty")
    if config.kind in ("unigram", "characters"):
        return Pieces((_unigram if config.kind == "unigram" else _characters)(texts, config))
    words = LongWords(config.kind)
    pieces = Pieces((_wordpiece if config.kind == "wordpiece" else _bpe)(texts, config, words))
    note = words.note()
    if notes is not None and note is not None:
        notes.append(note)
    return pieces


def _train(tokenizer: Tokenizer, trainer: trainers.Trainer, texts: Iterable[str]) -> None:
    """In a thread of its own: the library does not look for signals, and the main thread must not wait for minutes to be
    stopped by one. A thread that was left so reads no more text, and its process has to end by ``os._exit``."""
    failed: list[BaseException] = []
    left = threading.Event()

    def work() -> None:
        try:
            tokenizer.train_from_iterator(itertools.takewhile(lambda text: not left.is_set(), texts), trainer)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True, name=TRAINER_THREAD)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)  # without a limit signals would wait, too
    finally:
        left.set()
    if failed:
        raise failed[0]


def count_characters(texts: Iterable[str], normalizer: normalizers.Normalizer) -> dict[str, int]:
    """How often each character occurs after normalisation (which treats each on its own)."""
    raw = np.zeros(0x110000, np.int64)
    for text in texts:
        codes = np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)
        found, times = np.unique(codes, return_counts=True)
        raw[found] += times
    counts: dict[str, int] = {}
    for code in np.flatnonzero(raw):
        for char in normalizer.normalize_str(chr(code)):
            if not char.isspace():
                counts[char] = counts.get(char, 0) + int(raw[code])
    return counts


def _wordpiece(texts: Texts, config: TokensConfig, words: LongWords) -> Tokenizer:
    """The trainer numbers inner pieces (##a) in the order of a hash table, which changes from
    run to run and decides ties. Naming all of them beforehand fixes the order. Text is cleaned as by BERT, unless that would
    delete characters that are seen or shape others."""
    cleans = {
        keep: bert_tokenizer({"[UNK]": 0}, config.lowercase, config.strip_accents, keep_joiners=keep)
        for keep in (False, True)
    }
    counts = count_characters(texts(), cleans[True].normalizer)
    keep_joiners = not all(cleans[False].normalizer.normalize_str(char) for char in counts)
    normalizer = cleans[keep_joiners].normalizer
    specials = SPECIALS["wordpiece"] + (BYTE_TOKENS if config.byte_fallback else [])
    alphabet, inner = _alphabet(counts, int((config.vocab_size - len(specials)) * _ALPHABET_SHARE))
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=2,
        special_tokens=specials + alphabet + inner,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    _train(tokenizer, trainer, words.shorten(texts()))
    vocab: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    ordered = sorted(vocab, key=vocab.__getitem__)[: config.vocab_size]
    numbered = {token: number for number, token in enumerate(ordered)}
    longest = _LONG_STRETCH if has_unspaced("".join(alphabet)) else _LONG_WORD
    return bert_tokenizer(numbered, config.lowercase, config.strip_accents, max_word=longest, keep_joiners=keep_joiners)


def _alphabet(counts: dict[str, int], room: int) -> tuple[list[str], list[str]]:
    """The most frequent characters, and ``##c`` for those that can stand inside a word."""
    alphabet: list[str] = []
    inner: list[str] = []
    for char in sorted(counts, key=lambda char: (-counts[char], char)):
        forms = 2 if joins(char) else 1
        if len(alphabet) + len(inner) + forms > room:
            break
        alphabet.append(char)
        if forms == 2:
            inner.append(f"##{char}")
    return sorted(alphabet), sorted(inner)


def _bpe(texts: Texts, config: TokensConfig, words: LongWords) -> Tokenizer:
    """Byte-level BPE as in GPT-2: every byte is in the alphabet, so nothing is unknown."""
    tokenizer = Tokenizer(models.BPE())
    if config.lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=2,
        special_tokens=SPECIALS["bpe"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    _train(tokenizer, trainer, words.shorten(texts()))
    return tokenizer


def _characters(texts: Texts, config: TokensConfig) -> Tokenizer:
    """Every character is a token, white space too: BPE that never merges. The most frequent are kept."""
    normalizer = normalizers.Lowercase() if config.lowercase else None
    counts: Counter[str] = Counter()
    for text in texts():
        counts.update(text if normalizer is None else normalizer.normalize_str(text))
    specials = SPECIALS["characters"]
    most = sorted(counts, key=lambda char: (-counts[char], char))[: config.vocab_size - len(specials)]
    vocab = {token: number for number, token in enumerate(specials + sorted(most))}
    tokenizer = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    return tokenizer


def _unigram(texts: Texts, config: TokensConfig) -> Tokenizer:
    """Unigram over words marked by the space before them, as in SentencePiece; but its NFKC would make 10³ and 103 one, and
    take some letters of Thai and Korean apart."""
    steps = [normalizers.NFC(), *([normalizers.Lowercase()] if config.lowercase else [])]
    steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    normalizer = normalizers.Sequence(steps)
    counts = count_words(normalizer.normalize_str(text) for text in texts())
    specials = SPECIALS["unigram"] + (BYTE_TOKENS if config.byte_fallback else [])
    room = config.vocab_size - len(specials)
    found = train_unigram(counts, room, int(room * _ALPHABET_SHARE))
    # Tokens that stand for no text are too unlikely to be read in it by their spelling.
    vocab = [(token, found[-1][1] - 100.0) for token in specials] + found
    tokenizer = Tokenizer(models.Unigram(vocab, specials.index("<unk>"), byte_fallback=config.byte_fallback))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    spaces = decoders.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), spaces]) if config.byte_fallback else spaces
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS["unigram"]])
    return tokenizer
