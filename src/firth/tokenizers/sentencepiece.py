"""Reading a SentencePiece ``.model`` (Unigram and BPE) without its library.

The file is a protocol buffer (``sentencepiece_model.proto``), of which a few fields matter; they
are read straight from the wire format: a tag (field number and type), then a number, eight
bytes, a length with bytes, or four bytes.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers

from firth.core.errors import FirthError

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
_UNIGRAM, _BPE = 1, 2
_SPACE = "\u2581"
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


class _Model:
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


def load_sentencepiece(path: Path) -> Tokenizer:
    """The same tokens as SentencePiece gives, with places in the original text.

    One difference: "<unk>" spelled in a text is read as that piece where "<" is no piece itself.
    """
    try:
        model = _Model(path.read_bytes())
    except (ValueError, IndexError, KeyError, struct.error) as error:
        raise FirthError(f"{path}: not a SentencePiece model ({error}); check the file") from None
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


def _normalizer(model: _Model) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = []
    if model.charsmap:
        steps.append(normalizers.Precompiled(model.charsmap))
    if model.one_space:
        steps += [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    if model.add_space:
        steps.append(normalizers.Prepend(_SPACE))
    steps.append(normalizers.Replace(" ", _SPACE))
    return normalizers.Sequence(steps)


def _unigram(model: _Model, unknown: int) -> models.Unigram:
    lowest = min((score for _, score, _ in model.pieces), default=0.0)
    # Control pieces stand for no text: too unlikely to be read in it by their spelling.
    vocab = [
        (token, lowest - 100.0 if kind in (_UNKNOWN, _CONTROL, _BYTE) else score) for token, score, kind in model.pieces
    ]
    return models.Unigram(vocab, unknown, byte_fallback=model.byte_fallback)


def _bpe(model: _Model, unknown: int) -> models.BPE:
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
