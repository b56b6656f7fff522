"""A subword tokenizer with offsets, over the Rust ``tokenizers``: ``Pieces``, and variants of it.

It is read from and saved as standard files: ``tokenizer.json``, ``vocab.txt``. ``with_class_last`` is XLNet's order
of special tokens. Sentinels are the tokens that replace what was removed from a text (Raffel et al. 2020, 3.1.4):
``<extra_id_0>`` is the last id of the vocabulary, ``<extra_id_1>`` the one before, as published. They are added
after an existing vocabulary, so that a corpus need not be prepared again.
"""

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from firth.core.errors import FirthError
from firth.core.files import foreign_errors, read_json, write_json, write_text
from firth.core.types import Encoding, Frame
from firth.tokenizers.foreign import Turn, read_tokenizer
from firth.tokenizers.published import add_listed, byte_level_of, enclose_words, sentencepiece_of
from firth.tokenizers.segmentation import PLAIN, Segmentation
from firth.tokenizers.sentencepiece import load_sentencepiece
from firth.tokenizers.words import UNSEEN, close_gaps

UNKNOWN_PIECES = 0.1  # of the tokens; more: another language or script than the model's
UNKNOWN_WORDS = 0.5  # of a vocabulary of words, which lacks some of every text
_SAMPLE_TEXTS, _SAMPLE_CHARS = 64, 2000


class Tally:
    """What the tokenizers of this process have read; ``limit`` belongs to the last one that did not know something."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.tokens = self.unknown = 0
        self.limit = UNKNOWN_PIECES

    def add(self, ids: NDArray[np.int64] | list[int], unk_id: int | None, limit: float = UNKNOWN_PIECES) -> None:
        self.tokens += len(ids)
        if unk_id is not None and (found := int(np.count_nonzero(np.asarray(ids) == unk_id))):
            self.unknown += found
            self.limit = limit

    @property
    def warning(self) -> str | None:
        return unknown_warning(self.unknown / max(self.tokens, 1), self.limit)


READ = Tally()


def unknown_warning(share: float, limit: float = UNKNOWN_PIECES) -> str | None:
    """A sentence where more than the limit is unknown."""
    if share <= limit:
        return None
    return (
        f"{share:.0%} of the tokens are unknown to the model, more than {limit:.0%}: its answers mean little; is this the "
        "language that it was trained on? firth tokens MODEL TEXT shows which"
    )


def word_share(words: Iterable[str], known: Callable[[str], bool]) -> float:
    """The share of words that are not known."""
    found = [known(word) for word in words]
    return 1 - sum(found) / len(found) if found else 0.0


def sample_texts(texts: Iterable[str]) -> list[str]:
    """Enough of them to know the share of what is unknown."""
    found: list[str] = []
    for text in texts:
        if len(found) == _SAMPLE_TEXTS:
            break
        found.append(text[:_SAMPLE_CHARS])
    return found


SPECIALS = {
    "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "bpe": ["<|endoftext|>", "<pad>", "<mask>"],
    "characters": ["<|endoftext|>", "<pad>", "<mask>", "<unk>"],
    "unigram": ["<pad>", "</s>", "<unk>", "<cls>", "<sep>", "<mask>"],
}
_ROLES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>"),
    "sep": ("[SEP]", "<sep>", "</s>"),
    "mask": ("[MASK]", "<mask>"),
    "eos": ("</s>", "<|endoftext|>", "[SEP]"),
}
_MODELS = ("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")
_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", *_MODELS)
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
PATTERN = re.compile(r"<extra_id_(\d+)>")


def bert_tokenizer(
    vocab: dict[str, int],
    lowercase: bool,
    strip_accents: bool | None = None,
    split_han: bool = True,
    max_word: int = 100,
    keep_joiners: bool = False,
) -> Tokenizer:
    """BERT's own pipeline: clean, split Chinese characters, fold case, strip accents (``None``: where case is folded),
    longest match in words of up to ``max_word`` letters. ``keep_joiners``: cleaning deletes only what nobody sees, not the
    joiners of Persian, Hindi and emoji, nor signs of Arabic numbers, nor characters of private use."""
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=max_word))
    cleans = [normalizers.Replace(Regex(UNSEEN), "")] if keep_joiners else []
    bert = normalizers.BertNormalizer(
        clean_text=not cleans, handle_chinese_chars=split_han, strip_accents=strip_accents, lowercase=lowercase
    )
    tokenizer.normalizer = normalizers.Sequence([*cleans, bert]) if cleans else bert
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS["wordpiece"] if token in vocab])
    if "[CLS]" in vocab and "[SEP]" in vocab:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
        )
    return tokenizer


class Pieces:
    """A trained tokenizer of any kind, with the roles of its special tokens. Threads may share it."""

    def __init__(self, tokenizer: Tokenizer, segmentation: Segmentation = PLAIN) -> None:
        """``segmentation``: how ``encode`` finds the words that the pieces belong to."""
        self.backend = tokenizer
        self.segmentation = segmentation
        self._known_chars: dict[str, bool] = {}
        self._turn = Turn()
        self.backend.no_truncation()
        self.backend.no_padding()
        self.description: dict[str, Any] = json.loads(tokenizer.to_str())
        self.kind = {"WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram"}.get(
            self.description["model"]["type"], "other"
        )
        if self.kind == "bpe" and not self.description["model"]["merges"] and tokenizer.pre_tokenizer is None:
            self.kind = "characters"
        self.vocab_size: int = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        self.special_ids = sorted(token["id"] for token in self.description["added_tokens"] if token["special"])
        self.byte_ids = self._find_byte_ids()
        for role, names in _ROLES.items():
            found = [number for name in names if (number := tokenizer.token_to_id(name)) is not None]
            setattr(self, f"{role}_id", found[0] if found else None)

    pad_id: int | None
    unk_id: int | None
    cls_id: int | None
    sep_id: int | None
    mask_id: int | None
    eos_id: int | None

    @contextlib.contextmanager
    def reading(self, special: bool) -> Iterator[Tokenizer]:
        """The backend for one thread at a time, set to read special tokens written in a text, or to see their letters.
        What the library cannot do with a text becomes one sentence, its panics included."""
        with self._turn.lock, foreign_errors("the tokenizer", "able to read this text"):
            self.backend.encode_special_tokens = not special
            yield self.backend

    def _find_byte_ids(self) -> list[int] | None:
        """The ids of the 256 byte tokens of a WordPiece vocabulary that has them."""
        if self.kind != "wordpiece" or self.backend.token_to_id(BYTE_TOKENS[0]) is None:
            return None
        found = [self.backend.token_to_id(token) for token in BYTE_TOKENS]
        return cast(list[int], found) if all(number is not None for number in found) else None

    @property
    def fingerprint(self) -> str:
        """Equal for tokenizers that give equal ids."""
        canonical = json.dumps(self.description, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def lowercase(self) -> bool:
        """Whether capitals are folded, by BERT's normaliser or by a step of a sequence."""
        normalizer = self.description.get("normalizer") or {}
        steps = normalizer.get("normalizers", [normalizer])
        return any(step.get("lowercase", False) or step.get("type") == "Lowercase" for step in steps)

    @property
    def strip_accents(self) -> bool:
        """Whether marks are taken off letters; BERT's normaliser does so wherever it folds case, unless it is said."""
        normalizer = self.description.get("normalizer") or {}
        for step in normalizer.get("normalizers", [normalizer]):
            asked = step.get("strip_accents")
            if step.get("type") == "StripAccents" or (bool(step.get("lowercase")) if asked is None else asked):
                return True
        return False

    @cached_property
    def bert_normalizer(self) -> dict[str, Any]:
        """The settings of BERT's normaliser, where text is cleaned by it or as ``keep_joiners`` says; else nothing."""
        normalizer = self.description.get("normalizer") or {}
        *cleans, last = normalizer.get("normalizers") or [normalizer]
        cleaned = [one.get("pattern") for one in cleans] == [{"Regex": UNSEEN}] or (
            not cleans and last.get("clean_text")
        )
        return dict(last) if cleaned and last.get("type") == "BertNormalizer" else {}

    @property
    def _class_first(self) -> bool:
        """Whether nothing but the special tokens of BERT's class is added to a text."""
        template = (self.description.get("post_processor") or {}).get("single") or [{"SpecialToken": {}}]
        return "SpecialToken" in template[0]

    @property
    def byte_fallback(self) -> bool:
        """Whether the unknown is spelled by byte tokens."""
        return self.byte_ids is not None or bool(self.description["model"].get("byte_fallback"))

    @cached_property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The special tokens before, between and behind the two texts of a pair, as the tokenizer adds them."""
        with self.reading(special=True) as backend:
            raw = backend.encode("a", "a", add_special_tokens=True)
        texts = [place for place, text in enumerate(raw.sequence_ids) if text is not None]
        first = [place for place in texts if raw.sequence_ids[place] == 0]
        second = [place for place in texts if raw.sequence_ids[place] == 1]
        if not first or not second:
            return (), (), ()
        ids = tuple(raw.ids)
        return ids[: first[0]], ids[first[-1] + 1 : second[0]], ids[second[-1] + 1 :]

    def token(self, number: int) -> str:
        return self.backend.id_to_token(number) or ""

    def id(self, token: str) -> int | None:
        number: int | None = self.backend.token_to_id(token)
        return number

    def outer_pieces(self, encoding: Encoding) -> NDArray[np.bool_]:
        """Which pieces of a WordPiece encoding start a word: not ##inner ones, nor bytes after the first."""
        outer = np.asarray([not token.startswith("##") for token in encoding.tokens], np.bool_)
        if self.byte_ids is not None:
            same_place = (encoding.offsets[1:] == encoding.offsets[:-1]).all(1)
            outer[1:] &= ~(same_place & np.isin(encoding.ids[1:], self.byte_ids))
        return outer

    def decode(self, ids: list[int]) -> str:
        """The text again; byte tokens side by side are read as one UTF-8 string, and WordPiece's spaces between Chinese
        characters, which nobody wrote, are left out."""
        if self.byte_ids is not None:
            text = self._decode_bytes([int(number) for number in ids])
        else:
            with self.reading(True) as backend:
                text = str(backend.decode(list(ids), skip_special_tokens=True))
        return close_gaps(text) if self.kind == "wordpiece" else text

    def decode_batch(self, ids: list[list[int]]) -> list[str]:
        """The same of several texts."""
        if self.byte_ids is not None:
            return [self.decode(one) for one in ids]
        with self.reading(True) as backend:
            texts: list[str] = backend.decode_batch(ids, skip_special_tokens=True)
        return list(map(close_gaps, texts)) if self.kind == "wordpiece" else texts

    def _decode_bytes(self, ids: list[int]) -> str:
        assert self.byte_ids is not None
        byte_of = {number: byte for byte, number in enumerate(self.byte_ids)}
        tokens = []
        for is_byte, run in itertools.groupby(ids, byte_of.__contains__):
            if is_byte:
                tokens.append(bytes(byte_of[number] for number in run).decode("utf-8", "replace"))
            else:
                tokens += [self.token(number) for number in run if number not in self.special_ids]
        text: str = self.backend.decoder.decode(tokens)
        return text

    def encode(
        self, text: str | list[str], pair: str | None = None, add_special: bool = True, read_special: bool = True
    ) -> Encoding:
        """Pieces of a text, a pair of texts, or a list of words (then ``words`` counts those).

        ``read_special``: whether "[MASK]" written in the text is the mask or seven letters.
        """
        if isinstance(text, list):
            spans, start = [], 0
            for word in text:
                spans.append((start, start + len(word)))
                start += len(word) + 1
            text = " ".join(text)
        else:
            spans = self.segmentation.split(text)
        with self.reading(read_special) as backend:
            raw = backend.encode(text, pair, add_special_tokens=add_special)
        ids, tokens, offsets = list(raw.ids), list(raw.tokens), list(raw.offsets)
        segments, special = list(raw.type_ids), list(raw.special_tokens_mask)
        if self.byte_ids is not None and self.unk_id in ids:
            ids, tokens, offsets, segments, special = self._bytes_for_unknown(
                text, pair, ids, tokens, offsets, segments, special
            )
        READ.add(ids, self.unk_id)
        offset_array = np.asarray(offsets, np.int64).reshape(-1, 2)
        words = np.full(len(ids), -1, np.int64)
        for segment, (part, found) in enumerate(((text, spans), (pair, None))):
            if part is None:
                continue
            starts = np.asarray(
                [start for start, _ in (self.segmentation.split(part) if found is None else found)], np.int64
            )
            chosen = (np.asarray(segments) == segment) & (np.asarray(special) == 0)
            # By where a piece ends: some begin with the space before their word.
            words[chosen] = np.maximum(np.searchsorted(starts, offset_array[chosen, 1], side="left") - 1, 0)
        return Encoding(np.asarray(ids, np.int64), offset_array, words, tokens, np.asarray(segments, np.int64))

    def batch_ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The ids of many texts, without special tokens; all at once where no byte of a text needs a second look."""
        if self.byte_ids is not None:
            return [self.encode(text, add_special=False, read_special=False).ids for text in texts]
        with self.reading(special=False) as backend:
            found = backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [np.asarray(one.ids, np.int64) for one in found]
        for one in ids:
            READ.add(one, self.unk_id)
        return ids

    def unknown_share(self, texts: Iterable[str]) -> float:
        """Of the tokens of a sample of the texts. Texts whose characters are all known are not cut into tokens."""
        if self.unk_id is None or self.byte_ids is not None:
            return 0.0
        unknown = total = 0
        for text in sample_texts(texts):
            if all(map(self._knows, set(text))):
                total += len(text)  # more than it has tokens; a text beside it that is unknown counts less
                continue
            with self.reading(special=False) as backend:
                ids = backend.encode(text, add_special_tokens=False).ids
            unknown, total = unknown + ids.count(self.unk_id), total + len(ids)
        return unknown / max(total, 1)

    def _knows(self, char: str) -> bool:
        """Whether no word has an unknown token because of this character: it is known at a word's beginning and inside."""
        if char not in self._known_chars:
            with self.reading(special=False) as backend:
                ids = backend.encode(f"{char} e{char}", add_special_tokens=False).ids
            self._known_chars[char] = self.unk_id not in ids
        return self._known_chars[char]

    def _bytes_for_unknown(self, text: str, pair: str | None, *columns: list[Any]) -> tuple[list[Any], ...]:
        """Replaces [UNK] by the bytes of the unknown text, so that nothing is lost."""
        assert self.byte_ids is not None
        out: tuple[list[Any], ...] = ([], [], [], [], [])
        for number, token, (start, end), segment, special in zip(*columns, strict=True):
            if number != self.unk_id or special:
                rows = [(number, token, (start, end), segment, special)]
            else:
                part = (text if segment == 0 else pair or "")[start:end]
                rows = [
                    (self.byte_ids[byte], BYTE_TOKENS[byte], (start, end), segment, 0)
                    for byte in self.normal(part).encode()
                ]
            for row in rows:
                for column, value in zip(out, row, strict=True):
                    column.append(value)
        return out

    def normal(self, text: str) -> str:
        """The text as the tokenizer sees it (case, accents), without added white space."""
        normalizer = self.backend.normalizer
        return text if normalizer is None else cast(str, normalizer.normalize_str(text)).strip()

    def save(self, folder: Path, segments: bool = True, max_len: int = 512) -> None:
        """``tokenizer.json`` and the other files that transformers needs; ``segments=False`` for a model that knows none."""
        write_text(folder / "tokenizer.json", self.backend.to_str(pretty=False))
        named = {
            f"{role}_token": self.token(number)
            for role in _ROLES
            if (number := getattr(self, f"{role}_id")) is not None
        }
        config: dict[str, object] = {**named, "model_max_length": max_len}
        if self.kind == "wordpiece":
            vocab = self.backend.get_vocab(with_added_tokens=True)
            write_text(folder / "vocab.txt", "".join(f"{token}\n" for token in sorted(vocab, key=vocab.__getitem__)))
            normalizer = self.bert_normalizer or self.description.get("normalizer") or {}
            as_bert = self._class_first and normalizer.get("clean_text", True)
            config.pop("eos_token", None)
            config |= {
                "tokenizer_class": "BertTokenizer" if as_bert else "PreTrainedTokenizerFast",
                "do_lower_case": self.lowercase,
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
            }
        else:
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
        if self.id("<extra_id_0>") is not None:  # T5's: texts end with a token of their own, no segment ids
            config |= {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": named["eos_token"]}
            config["model_input_names"] = ["input_ids", "attention_mask"]
        elif not segments:
            config["model_input_names"] = ["input_ids", "attention_mask"]
        elif not self._class_first:
            config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        write_json(folder / "tokenizer_config.json", config)
        self.segmentation.save(folder)

    @classmethod
    def load(cls, folder: Path) -> "Pieces":
        """From ``tokenizer.json``, a BERT ``vocab.txt``, ``vocab.json`` with ``merges.txt`` or a SentencePiece ``.model``;
        ``folder`` may be the file itself."""
        path = (
            folder if folder.is_file() else next((folder / name for name in _FILES if (folder / name).is_file()), None)
        )
        if path is None:
            raise FirthError(
                f"{folder}: no tokenizer here (none of {', '.join(_FILES)}); copy the tokenizer's files into the folder"
            )
        config_path = path.parent / "tokenizer_config.json"
        data = read_json(config_path) if config_path.is_file() else {}
        config = data if isinstance(data, dict) else {}
        found = cls._from_file(path, config)
        found._name_roles(config)
        found.segmentation = Segmentation.load(path.parent)
        return found

    def _name_roles(self, config: Mapping[str, object]) -> None:
        """Roles that no token of a usual name has, by what ``tokenizer_config.json`` says."""
        for role in ("pad", "cls", "sep", "mask", "eos"):
            named = config.get(f"{role}_token")
            token = named.get("content") if isinstance(named, dict) else named
            if getattr(self, f"{role}_id") is None and isinstance(token, str):
                setattr(self, f"{role}_id", self.id(token))

    @classmethod
    def _from_file(cls, path: Path, config: Mapping[str, Any]) -> "Pieces":
        """With the tokens that are listed beside a vocabulary; ``tokenizer.json`` holds them itself."""
        if path.suffix == ".json" and path.name != "vocab.json":
            with foreign_errors(path, "a tokenizer that can be read"):
                return cls(read_tokenizer(path))
        found = _of_vocabulary(path, config)
        add_listed(found, path.parent, config)
        return cls(found)


def _of_vocabulary(path: Path, config: Mapping[str, Any]) -> Tokenizer:
    """From one of the older files, by the settings of ``tokenizer_config.json``."""
    with foreign_errors(path, "a tokenizer that can be read"):
        if path.suffix == ".model":
            return sentencepiece_of(path, config) or load_sentencepiece(path)
        if path.name == "vocab.json":
            return byte_level_of(path.parent, config)
        lines = path.read_text(encoding="utf-8").split("\n")
    vocab = {line.rstrip("\r"): number for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines)}
    if "[UNK]" not in vocab:
        raise FirthError(
            f"{path}: no [UNK] in this vocabulary; a BERT vocab.txt has one token a line with [UNK] among them"
        )
    split_han = config.get("tokenize_chinese_chars", True)
    with foreign_errors(path, "a tokenizer with settings that can be read"):
        found = bert_tokenizer(vocab, config.get("do_lower_case", True), config.get("strip_accents"), split_han)
    if "[CLS]" not in vocab and {"<s>", "</s>"} <= vocab.keys():
        enclose_words(found)
    return found


def sentinel(number: int) -> str:
    """How sentinel ``number`` is written."""
    return f"<extra_id_{number}>"


def sentinel_ids(pieces: Pieces) -> list[int]:
    """The ids of sentinels 0, 1, 2, ...; empty where the vocabulary has none."""
    found: list[int] = []
    while (number := pieces.id(sentinel(len(found)))) is not None:
        found.append(number)
    return found


def special_frame(pieces: Pieces) -> Frame:
    """What the tokenizer puts before, between and behind texts; by the roles of tokens where it adds none itself."""
    before, between, after = pieces.around
    if before or after:
        return Frame(before, between, after)
    ends = tuple(number for number in (pieces.sep_id,) if number is not None)
    return Frame(tuple(number for number in (pieces.cls_id,) if number is not None), ends, ends)
