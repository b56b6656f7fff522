"""Training a tokenizer from a stream of texts, the same vocabulary from the same text every time."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from firth.core.configs import TokensConfig
from firth.core.errors import FirthError
from firth.tokenizers.characters import joins
from firth.tokenizers.pieces import BYTE_TOKENS, SPECIALS, Pieces, bert_tokenizer
from firth.tokenizers.unigram import count_words, train_unigram

_ALPHABET_SHARE = 0.9
Texts = Callable[[], Iterable[str]]


def train_pieces(texts: Texts, config: TokensConfig) -> Pieces:
    """A tokenizer of the wanted kind; ``texts()`` gives the sample afresh each time."""
    if not any(text.strip() for text in texts()):
        raise FirthError("no text to learn a vocabulary from: every document is empty")
    trained = {"wordpiece": _wordpiece, "bpe": _bpe, "unigram": _unigram, "characters": _characters}[config.kind](
        texts, config
    )
    return Pieces(trained)


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


def _wordpiece(texts: Texts, config: TokensConfig) -> Tokenizer:
    """The trainer numbers inner pieces (##a) in the order of a hash table, which changes from
    run to run and decides ties. Naming all of them beforehand fixes the order."""
    normalizer = bert_tokenizer({"[UNK]": 0}, config.lowercase).normalizer
    counts = count_characters(texts(), normalizer)
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
    tokenizer.train_from_iterator(texts(), trainer)
    vocab: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    ordered = sorted(vocab, key=vocab.__getitem__)[: config.vocab_size]
    return bert_tokenizer({token: number for number, token in enumerate(ordered)}, config.lowercase)


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


def _bpe(texts: Texts, config: TokensConfig) -> Tokenizer:
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
    tokenizer.train_from_iterator(texts(), trainer)
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
    """Unigram over words marked by the space before them, as in SentencePiece."""
    steps = [normalizers.NFKC(), *([normalizers.Lowercase()] if config.lowercase else [])]
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
