"""Reading a SentencePiece ``.model`` (Unigram and BPE) without its library.

The file is a protocol buffer (``sentencepiece_model.proto``), of which a few fields matter; they
are read straight from the wire format: a tag (field number and type), then a number, eight
bytes, a length with bytes, or four bytes.
"""

import base64
import hashlib
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers

from firth.core.errors import FirthError
from firth.tokenizers.foreign import try_tokenizer

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
_UNIGRAM, _BPE = 1, 2
_SPACE = "\u2581"
_MAX_PIECE = 1000  # characters
_CHARSMAPS = {  # the maps of characters that SentencePiece comes with, by SHA-256: nmt_nfkc, nfkc, and both with case folded
    "5febaab28312e9dbddb42be695c9e4380367f7ebe65121cdf894fb5d59d37eed",
    "7e46d9e08af4b6a37991b04fb8388644c1595a0abcd0f26d6a5d575e2a3663ea",
    "2df05162904a1bca9784913964d2a863d656676479f7c8bb11be49c980ea5f77",
    "d8dfef3d6db0eef0742f8b55a73aee7fce6c1e21d26a09b8d3d4b52c42a791cb",
}
_Value = int | float | bytes
_Message = dict[int, _Value]


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A varint: seven bits a byte, the lowest first."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        shift += 7
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number that does not end")


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    """(field number, value) of one message."""
    place = 0
    while place < len(data):
        tag, place = _number(data, place)
        kind = tag & 7
        value: _Value
        if kind == 0:
            value, place = _number(data, place)
        elif kind == 2:
            size, place = _number(data, place)
            value, place = data[place : place + size], place + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            (value,) = struct.unpack_from("<d" if kind == 1 else "<f", data, place)
            place += size
        else:
            raise ValueError(f"wire type {kind}")
        if place > len(data):
            raise ValueError("cut off")
        yield tag >> 3, value


def _bytes(value: _Value) -> bytes:
    """A text or a message; a number is a damaged file."""
    if not isinstance(value, bytes):
        raise ValueError("a number in the place of a message")
    return value


class SentencePiece:
    """What of the file decides the tokens; the defaults are those of the proto."""

    def __init__(self, data: bytes) -> None:
        self.pieces: list[tuple[str, float, int]] = []
        trainer: _Message = {}
        normalizer: _Message = {}
        for field, value in _fields(data):
            if field == 1:
                piece = dict(_fields(_bytes(value)))
                self.pieces.append((_bytes(piece[1]).decode(), float(piece.get(2, 0.0)), int(piece.get(3, 1))))
            elif field == 2:
                trainer = dict(_fields(_bytes(value)))
            elif field == 3:
                normalizer = dict(_fields(_bytes(value)))
        self.kind = int(trainer.get(3, _UNIGRAM))
        self.byte_fallback = bool(trainer.get(35, 0))
        self.charsmap = _bytes(normalizer.get(2, b""))
        self.add_space = bool(normalizer.get(3, 1))
        self.one_space = bool(normalizer.get(4, 1))
        self.escape_spaces = bool(normalizer.get(5, 1))

    @classmethod
    def open(cls, path: Path) -> "SentencePiece":
        try:
            found = cls(path.read_bytes())
        except (ValueError, IndexError, KeyError, struct.error) as error:
            raise FirthError(f"{path}: not a SentencePiece model ({error}); check the file") from None
        _check_pieces(found, path)
        return found


def load_sentencepiece(path: Path) -> Tokenizer:
    """The same tokens as SentencePiece gives, with places in the original text.

    One difference: "<unk>" spelled in a text is read as that piece where "<" is no piece itself.
    """
    model = SentencePiece.open(path)
    unknown = [number for number, (_, _, kind) in enumerate(model.pieces) if kind == _UNKNOWN]
    if model.kind not in (_UNIGRAM, _BPE) or not unknown or not model.escape_spaces:
        raise FirthError(
            f"{path}: a SentencePiece model of a kind that cannot be read (only Unigram and BPE can); convert it to tokenizer.json"
        )
    tokenizer = Tokenizer(_unigram(model, unknown[0]) if model.kind == _UNIGRAM else _bpe(model, unknown[0]))
    tokenizer.normalizer = _normalizer(model)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        + ([decoders.Strip(" ", 1, 0)] if model.add_space else [])
    )
    special = [token for token, _, kind in model.pieces if kind in (_UNKNOWN, _CONTROL)]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    chosen = [token for token, _, kind in model.pieces if kind == _USER_DEFINED]
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in chosen])
    return tokenizer


def _check_pieces(model: SentencePiece, path: Path) -> None:
    """Every piece is a text of its own with a score that can be compared."""
    seen: set[str] = set()
    for number, (token, score, _) in enumerate(model.pieces, 1):
        if not token or len(token) > _MAX_PIECE or token in seen or not math.isfinite(score):
            raise FirthError(
                f"{path}: piece {number} is empty, too long, there twice or without a score; check the file"
            )
        seen.add(token)
    if model.charsmap and hashlib.sha256(model.charsmap).hexdigest() not in _CHARSMAPS:
        try_tokenizer(_with_charsmap(model.charsmap), path)


def _normalizer(model: SentencePiece) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.one_space:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    if model.add_space:
        steps.append(normalizers.Prepend(_SPACE))
    steps.append(normalizers.Replace(" ", _SPACE))
    return normalizers.Sequence(steps)


def _with_charsmap(charsmap: bytes) -> str:
    """A small tokenizer with this map of characters, to try it."""
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [],
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()},
            "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]], "byte_fallback": False},
        }
    )


def _unigram(model: SentencePiece, unknown: int) -> models.Unigram:
    lowest = min((score for _, score, _ in model.pieces), default=0.0)
    # Control pieces stand for no text: too unlikely to be read in it by their spelling.
    vocab = [
        (token, lowest - 100.0 if kind in (_UNKNOWN, _CONTROL, _BYTE) else score) for token, score, kind in model.pieces
    ]
    return models.Unigram(vocab, unknown, byte_fallback=model.byte_fallback)


def _bpe(model: SentencePiece, unknown: int) -> models.BPE:
    """Merges are not in the file: two pieces that spell a third merge, the better scores first."""
    vocab = {token: number for number, (token, _, _) in enumerate(model.pieces)}
    score = {token: score for token, score, kind in model.pieces if kind not in (_UNKNOWN, _CONTROL, _BYTE)}
    merges = []
    for token in score:
        found = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        merges += [(left, right) for left, right in found if left in score and right in score]
    merges.sort(key=lambda pair: (-score[pair[0] + pair[1]], vocab[pair[0]], vocab[pair[1]]))
    return models.BPE(
        vocab, merges, unk_token=model.pieces[unknown][0], fuse_unk=True, byte_fallback=model.byte_fallback
    )
