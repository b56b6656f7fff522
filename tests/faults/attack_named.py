"""Hostile cases by name: those that an attack by hand found, and every finding of the generators since.

Each is a function that damages an honest copy, and the command that meets it.
"""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import attack_models
import h5py
import numpy as np
from attack_runner import Case
from attack_seeds import ASK, ONLY_RUNS, header_of, numbers, with_header

Damage = Callable[[Path], object]
SIZES = (10**9, 10**5, -1)
NESTED = b'{"model_type": "bert", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
SHALLOWER = b'{"model_type": "bert", "a": ' + b"[" * 500 + b"]" * 500 + b"}"
TYPES: list[object] = [7, "x", None, [], {}, [1], {"x": 1}, True, 1e300, -1]


def write(name: str, content: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(content)


def change(name: str, place: tuple[object, ...], new: object) -> Damage:
    def apply(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(attack_models.replaced(json.loads(path.read_bytes()), place, new)))

    return apply


def header(place: tuple[object, ...], new: object, name: str = "model.safetensors") -> Damage:
    def apply(folder: Path) -> None:
        found, data = header_of(folder / name)
        changed = json.dumps(attack_models.replaced(found, place, new)).encode()
        (folder / name).write_bytes(with_header(changed, data))

    return apply


def named_models(seeds: Path) -> Iterator[tuple[str, str, Damage, list[str]]]:
    """(name, honest model, damage, command)."""
    for model in ASK:
        for file in ("config.json", "options.json", "task.json"):
            path = seeds / "runs" / model / file
            if not path.is_file():
                continue
            for place in attack_models.places(json.loads(path.read_bytes())):
                value = json.loads(path.read_bytes())
                for part in place:
                    value = value[part]  # type: ignore[index]
                if isinstance(value, int) and not isinstance(value, bool):
                    for size in SIZES:
                        yield f"{model} {file} {place} = {size}", model, change(file, place, size), ASK[model]
            for title, content in (("deep", NESTED), ("nested", SHALLOWER), ("list", b"[1]"), ("empty", b"")):
                yield f"{model} {file} {title}", model, write(file, content), ASK[model]
    record = json.loads((seeds / "runs" / "bert" / "firth.json").read_bytes())
    for model in ("bert", "task", "vectors"):
        for field in record:
            for number, value in enumerate(TYPES):
                title = f"{model} firth.json {field} of type {number}"
                words = [ASK[model], ["info", "model"], ["evaluate", "model"]][number % 3]
                yield title, model, change("firth.json", (field,), value), words
        yield f"{model} firth.json nested", model, write("firth.json", NESTED), ASK[model]
    for title, place, new in attack_models.TOKENIZERS:
        yield f"tokenizer {title}", "bert", change("tokenizer.json", place, new), ASK["bert"]
    yield from _named_weights()
    yield from _named_hdf5()
    yield from _named_sentencepiece()


def _named_weights() -> Iterator[tuple[str, str, Damage, list[str]]]:
    words = "bert.embeddings.word_embeddings.weight"
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    heads: dict[str, Damage] = {
        "deep header": write("model.safetensors", with_header(deep, b"")),
        "header of 10^15 bytes": write("model.safetensors", (10**15).to_bytes(8, "little") + b"{}"),
        "shape of 10^12": header((words, "shape"), [10**12, 16]),
        "shape below zero": header((words, "shape"), [-255, -16]),
        "offsets outside": header((words, "data_offsets"), [0, 10**12]),
        "offsets turned": header((words, "data_offsets"), [100, 0]),
        "dtype": header((words, "dtype"), "F8_E4M3"),
        "dtype of none": header((words, "dtype"), "X"),
        "metadata of another type": header(("__metadata__",), [1]),
        "noise": write("model.safetensors", numbers(1, 1000)),
    }
    for title, damage in heads.items():
        yield f"weights {title}", "bert", damage, ASK["bert"]


def hdf5(fill: Callable[[h5py.File], object]) -> Damage:
    def apply(folder: Path) -> None:
        with h5py.File(folder / "weights.hdf5", "a") as file:
            fill(file)

    return apply


def _giant(file: h5py.File) -> None:
    del file["char_embed"]
    file.create_dataset("char_embed", (10**6, 10**6), "f4", chunks=(1000, 1000), compression="gzip", fillvalue=0.0)


def _external(file: h5py.File) -> None:
    del file["char_embed"]
    file.create_dataset("char_embed", (261, 16), "f4", external=[("/etc/passwd", 0, 261 * 16 * 4)])


def _link(file: h5py.File) -> None:
    del file["char_embed"]
    file["char_embed"] = h5py.ExternalLink("/tmp/other.hdf5", "/x")


def _named_hdf5() -> Iterator[tuple[str, str, Damage, list[str]]]:
    damages: dict[str, Damage] = {
        "noise": write("weights.hdf5", numbers(5, 4000)),
        "noise behind the signature": write("weights.hdf5", b"\x89HDF\r\n\x1a\n" + numbers(6, 4000)),
        "cut": lambda folder: (folder / "weights.hdf5").write_bytes((folder / "weights.hdf5").read_bytes()[:3000]),
        "giant": hdf5(_giant),
        "giant extra": hdf5(lambda file: file.create_dataset("more", (10**6, 10**6), "f4", chunks=(1000, 1000))),
        "external": hdf5(_external),
        "external link": hdf5(_link),
        "loop": hdf5(lambda file: file.__setitem__("loop", h5py.SoftLink("/loop"))),
        "text": hdf5(lambda file: file.create_dataset("words", data=np.array([b"x"] * 3))),
        "objects": hdf5(lambda file: file.create_dataset("words", (3,), h5py.string_dtype())),
        "compound": hdf5(lambda file: file.create_dataset("words", (3,), np.dtype([("a", "f4"), ("b", "i4")]))),
    }
    for title, damage in damages.items():
        yield f"hdf5 {title}", "elmo", damage, ASK["elmo"]


# -- SentencePiece


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _piece(text: bytes, score: float = -1.0, kind: int = 1) -> bytes:
    return _field(1, _field(1, text) + _varint(2 << 3 | 5) + struct.pack("<f", score) + _varint(3 << 3) + _varint(kind))


_FIRST = _piece(b"<unk>", 0.0, 2) + _piece(b"<s>", 0.0, 3) + _piece(b"</s>", 0.0, 3)
_LETTERS = b"".join(_piece(bytes([code])) for code in range(97, 123))


def sentencepiece(content: bytes) -> Damage:
    def apply(folder: Path) -> None:
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.txt").unlink(missing_ok=True)
        (folder / "spiece.model").write_bytes(content)

    return apply


def _named_sentencepiece() -> Iterator[tuple[str, str, Damage, list[str]]]:
    contents = {
        "nothing": b"",
        "noise": numbers(9, 500),
        "only the unknown": _piece(b"<unk>", 0.0, 2),
        "no unknown": _LETTERS,
        "empty pieces": _FIRST + _piece(b"") + _LETTERS,
        "one piece twice": _FIRST + _piece(b"a") + _piece(b"a") + _LETTERS,
        "not a number": _FIRST + _piece(b"ab", float("nan")) + _LETTERS,
        "infinite": _FIRST + _piece(b"ab", float("inf")) + _piece(b"b", float("-inf")) + _LETTERS,
        "not UTF-8": _FIRST + _piece(b"\xff\xfe") + _LETTERS,
        "kind of 2^60": _FIRST + _piece(b"x", 0.0, 1 << 60) + _LETTERS,
        "charsmap noise": _FIRST + _LETTERS + _field(3, _field(2, numbers(2, 400))),
        "charsmap short": _FIRST + _LETTERS + _field(3, _field(2, b"\xff")),
        "long piece": _FIRST + _piece(b"a" * 200_000) + _LETTERS + _field(2, _varint(3 << 3) + _varint(2)),
        "endless number": b"\x80" * 100_000,
        "user pieces": _FIRST + _piece(b"", 0.0, 4) + _piece(b" ", 0.0, 4) + _LETTERS,
        "bytes": _FIRST + _piece(b"<0x00>", 0.0, 6) + _LETTERS + _field(2, _varint(35 << 3) + _varint(1)),
    }
    for title, content in contents.items():
        yield f"sentencepiece {title}", "bert", sentencepiece(content), ["tokens", "The old doctor", "--model", "model"]


# -- vectors


def named_vectors() -> Iterator[tuple[str, str, Callable[[bytes], bytes]]]:
    """(name, honest file, damage)."""

    def head(first: bytes) -> Callable[[bytes], bytes]:
        return lambda raw: first + b"\n" + raw.partition(b"\n")[2]

    for name in ("word2vec.bin", "text.vec"):
        for first in (
            b"3 1000000000000",
            b"1000000000000 3",
            b"9" * 5000 + b" 3",
            b"3 " + b"9" * 5000,
            b"-3 8",
            b"3 -8",
        ):
            yield f"{name} header {first[:30].decode()}", name, head(first)
    layout = {"dim": 8, "ws": 12, "bucket": 48, "minn": 52, "maxn": 56, "entries": 72, "words": 76, "labels": 80}
    for field, place in layout.items():
        for value in (-1, 0, 10**9, 2**31 - 1, 49, 51):
            yield (
                f"fasttext.bin {field} = {value}",
                "fasttext.bin",
                lambda raw, place=place, value=value: raw[:place] + struct.pack("<i", value) + raw[place + 4 :],
            )
    for title, metadata in (
        ("missing", None),
        ("list", [1]),
        ("text", {"min_n": "x", "max_n": "y"}),
        ("far", {"min_n": "1", "max_n": "1000000000"}),
        ("turned", {"min_n": "-5", "max_n": "-9"}),
    ):
        yield f"plain.safetensors metadata {title}", "plain.safetensors", _metadata(metadata)
    for array in ("vectors", "words", "ngrams", "counts"):
        for key, value in (
            ("shape", [10**12]),
            ("shape", []),
            ("shape", [0, 8]),
            ("shape", "x"),
            ("dtype", "I8"),
            ("dtype", 5),
            ("data_offsets", [0, 0]),
            ("data_offsets", [-8, 0]),
            ("data_offsets", 3),
        ):
            yield f"plain.safetensors {array}.{key} = {value}", "plain.safetensors", _entry(array, key, value)


def _metadata(value: object) -> Callable[[bytes], bytes]:
    def apply(raw: bytes) -> bytes:
        size = int.from_bytes(raw[:8], "little")
        found = json.loads(raw[8 : 8 + size])
        found.pop("__metadata__")
        return with_header(
            json.dumps(found if value is None else {"__metadata__": value, **found}).encode(), raw[8 + size :]
        )

    return apply


def _entry(array: str, key: str, value: object) -> Callable[[bytes], bytes]:
    def apply(raw: bytes) -> bytes:
        size = int.from_bytes(raw[:8], "little")
        found = json.loads(raw[8 : 8 + size])
        found[array][key] = value
        return with_header(json.dumps(found).encode(), raw[8 + size :])

    return apply


# -- cases


def model_cases(seeds: Path) -> list[tuple[str, str, Damage, list[str]]]:
    return list(named_models(seeds))


def model_case(seeds: Path, number: int, place: Path) -> Case:
    title, model, damage, words = model_cases(seeds)[number]
    keep = title.startswith(f"{model} firth.json") or model in ONLY_RUNS
    folder = attack_models.copy_model(seeds, model, place, lambda file: keep or file != "firth.json")
    damage(folder)
    return Case(f"named-model:{number} ({title})", words, place)


def vectors_case(seeds: Path, number: int, place: Path) -> Case:
    title, name, damage = list(named_vectors())[number]
    place.mkdir(parents=True)
    path = place / name
    path.write_bytes(damage((seeds / "vectors" / name).read_bytes()))
    words = [["nearest", name, "the"], ["info", name], ["export", name, "out.vec"]][number % 3]
    return Case(f"named-vectors:{number} ({title})", words, place)
