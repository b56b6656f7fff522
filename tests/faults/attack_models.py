"""Hostile model directories and files of vectors: an honest one, damaged in one place by a small grammar of damages.

A case is (kind, seed): the same seed gives the same bytes. ``NAMED`` are the cases that were found by hand or by an
earlier attack.
"""

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from attack_runner import Case
from attack_seeds import ASK, ONLY_RUNS, header_of, numbers, with_header

DEEP = 200_000
HOSTILE: list[object] = [
    *(0, -1, 1, 10**5, 10**7, 10**9, 10**12, 2**31 - 1, 2**63, 10**30, 0.5, -0.0, 1e308),
    *(None, True, False, "", "x", "../../etc/passwd", "\0", "\ud800", "<b>", [], {}, [[]], [1, 2], {"a": 1}),
    *("x" * 100_000, ["x"] * 10_000),
]
RAW = [b"NaN", b"Infinity", b"1e999", b"-" + b"9" * 5000, b"9" * 5000, b"[" * DEEP, b'{"a":' * DEEP, b"\xff\xfe", b""]
RAW += [b"[" * 900 + b"]" * 900, b'{"a":' * 300 + b"1" + b"}" * 300]
_MARK = "@@hostile@@"


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Every place in a JSON value; of a long list or mapping, some."""
    found = [path]
    items: list[tuple[object, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for name, one in items[:40]:
        found += places(one, (*path, name))
    return found


def replaced(value: object, path: tuple[object, ...], new: object) -> object:
    """A copy with another value at a place; ``...`` removes it. What has no such place is replaced itself."""
    if not path or not isinstance(value, dict | list):
        return new
    name, *rest = path
    if isinstance(value, dict):
        if not rest and new is ...:
            return {key: one for key, one in value.items() if key != name}
        return {key: replaced(one, tuple(rest), new) if key == name else one for key, one in value.items()}
    if not rest and new is ...:
        return [one for place, one in enumerate(value) if place != name]
    return [replaced(one, tuple(rest), new) if place == name else one for place, one in enumerate(value)]


def hostile_json(value: object, pick: random.Random) -> bytes:
    """The value with one place changed, as bytes."""
    place = pick.choice(places(value))
    way = pick.random()
    if way < 0.1:
        return json.dumps(replaced(value, place, ...) if place else {}).encode()
    if way < 0.25:
        return json.dumps(replaced(value, place, _MARK)).encode().replace(f'"{_MARK}"'.encode(), pick.choice(RAW))
    new = pick.choice(HOSTILE)
    if way > 0.9 and isinstance(value, dict):  # something more
        return json.dumps({**value, pick.choice(["x", "auto_map", "quantization_config", "__class__"]): new}).encode()
    return json.dumps(replaced(value, place, new)).encode()


def hostile_bytes(raw: bytes, pick: random.Random) -> bytes:
    """Cut, noise, flipped bits, a stretch twice, numbers in the head replaced."""
    way = pick.randrange(7)
    if way == 0:
        return raw[: pick.randrange(len(raw))]
    if way == 1:
        return numbers(pick.randrange(1 << 30), pick.choice([1, 7, 100, 5000]))
    if way in (2, 3):
        changed = bytearray(raw)
        reach = len(raw) if way == 2 else min(len(raw), 400)
        for _ in range(pick.choice([1, 3, 30])):
            changed[pick.randrange(reach)] ^= 1 << pick.randrange(8)
        return bytes(changed)
    if way == 4:
        start = pick.randrange(len(raw))
        return raw[:start] + raw[start : start + 500] * 2 + raw[start + 500 :]
    if way == 5:
        start = pick.randrange(min(len(raw), 300))
        kind = pick.choice(["<i", "<q"])
        value = pick.choice([-1, 0, 2**31 - 1, -(2**31), 10**6, 10**8])
        return raw[:start] + struct.pack(kind, value) + raw[start + struct.calcsize(kind) :]
    return raw + numbers(3, 100)


def hostile_safetensors(raw_path: Path, pick: random.Random) -> bytes:
    if pick.random() < 0.35:
        return hostile_bytes(raw_path.read_bytes(), pick)
    header, data = header_of(raw_path)
    return with_header(hostile_json(header, pick), data)


# -- tokenizers


def _growing() -> dict[str, object]:
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaa"}
    return {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "a"}] + [step] * 12}


BOMB = r"(x+x+)+y|(a|a)*b|(?=(a+)+$)"
TOKENIZERS: list[tuple[str, tuple[object, ...], object]] = [
    ("growing normalizer", ("normalizer",), _growing()),
    ("long prepend", ("normalizer",), {"type": "Prepend", "prepend": "a" * 5_000_000}),
    (
        "regex bomb",
        ("pre_tokenizer",),
        {
            "type": "Split",
            "pattern": {"Regex": "(?:" * 3000 + "a" + ")*" * 3000},
            "behavior": "Isolated",
            "invert": False,
        },
    ),
    (
        "regex backtracking",
        ("pre_tokenizer",),
        {"type": "Split", "pattern": {"Regex": r"(.*.*.*.*.*.*.*.*)*\d{7}$"}, "behavior": "Isolated", "invert": False},
    ),
    (
        "regex in normalizer",
        ("normalizer",),
        {"type": "Replace", "pattern": {"Regex": r"(\w+\s?)+(\w+\s?)+(\w+\s?)+(\w+\s?)+!"}, "content": "a"},
    ),
    (
        "regex repeats",
        ("normalizer",),
        {"type": "Replace", "pattern": {"Regex": "((((a{1,999}){1,999}){1,999}){1,999})"}, "content": "a"},
    ),
    ("no vocabulary", ("model", "vocab"), {}),
    ("vocabulary as list", ("model", "vocab"), []),
    ("id of 10^9", ("model", "vocab", "the"), 10**9),
    ("id of 2^32 - 1", ("model", "vocab", "the"), 2**32 - 1),
    ("no added tokens", ("added_tokens",), []),
    ("decoder", ("decoder",), {"type": "Replace", "pattern": {"Regex": BOMB}, "content": "x" * 1000}),
    (
        "padding",
        ("padding",),
        {
            "strategy": {"Fixed": 10**9},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
    ),
    (
        "template without tokens",
        ("post_processor",),
        {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "none", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        },
    ),
    (
        "template of ids",
        ("post_processor",),
        {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}] * 5000,
            "pair": [],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [10**9] * 1000, "tokens": ["x"] * 1000}},
        },
    ),
    ("template with a token that it does not describe", ("post_processor", "special_tokens", "[SEP]"), ...),
    ("template with another id", ("post_processor", "special_tokens", "[SEP]", "ids"), [10**6]),
    ("word model", ("model",), {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "none"}),
    (
        "unigram without unknown",
        ("model",),
        {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]], "byte_fallback": False},
    ),
    (
        "unigram unknown outside",
        ("model",),
        {"type": "Unigram", "unk_id": 99, "vocab": [["a", -1.0]], "byte_fallback": False},
    ),
    ("unigram nan", ("model",), {"type": "Unigram", "unk_id": 0, "vocab": [["a", None]], "byte_fallback": False}),
    ("merges of nothing", ("model",), {"type": "BPE", "vocab": {"a": 0}, "merges": ["b c"], "unk_token": None}),
    ("precompiled", ("normalizer",), {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    ("precompiled long", ("normalizer",), {"type": "Precompiled", "precompiled_charsmap": "/////w" * 500}),
    ("replace empty", ("normalizer",), {"type": "Replace", "pattern": {"String": ""}, "content": "ab"}),
    ("fixed length", ("pre_tokenizer",), {"type": "FixedLength", "length": 0}),
    ("max letters", ("model", "max_input_chars_per_word"), 10**12),
    ("prefix", ("model", "continuing_subword_prefix"), "x" * 10**6),
]


def hostile_tokenizer(value: object, pick: random.Random) -> bytes:
    if pick.random() < 0.5:
        return hostile_json(value, pick)
    _, place, new = pick.choice(TOKENIZERS)
    return json.dumps(replaced(value, place, new)).encode()


# -- cases


def copy_model(seeds: Path, name: str, place: Path, only: Callable[[str], bool] = lambda name: True) -> Path:
    place.mkdir(parents=True)
    shutil.copy(seeds / "texts.txt", place / "texts.txt")
    source, goal = seeds / "runs" / name, place / "model"
    shutil.copytree(source, goal, ignore=lambda folder, names: [one for one in names if not only(one)])
    return goal


HONEST = {  # files that stand beside a tokenizer, where something asked for them
    "segmentation.json": {
        "dictionary": ["飞桨", "云计算大会"],
        "kanji": False,
        "segmenters": {"Thai": "icu 78.3", "Japanese": "sudachi 20261015"},
        "traditional": "臺台灣湾",
    },
    "added_tokens.json": {"hypertension": 255, "[NEW]": 256},
}


def add_beside(folder: Path, pick: random.Random) -> Path:
    """One of these files, damaged; tokens are only added to a tokenizer that has the older files."""
    name = pick.choice(list(HONEST))
    if name == "added_tokens.json" and (folder / "vocab.txt").is_file():
        (folder / "tokenizer.json").unlink(missing_ok=True)
    (folder / name).write_bytes(hostile_json(HONEST[name], pick))
    return folder / name


def damage_file(folder: Path, pick: random.Random) -> Path:
    """Damages one file of a model; returns which."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".html", ".jsonl"))
    path = pick.choice(files)
    raw = path.read_bytes()
    if path.name == "tokenizer.json":
        changed = hostile_tokenizer(json.loads(raw), pick)
    elif path.suffix == ".safetensors":
        changed = hostile_safetensors(path, pick)
    elif path.suffix == ".json" and pick.random() < 0.85:
        changed = hostile_json(json.loads(raw), pick)
    else:
        changed = hostile_bytes(raw, pick) if raw else b"\0"
    path.write_bytes(changed)
    return path


def model_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"model {seed}")
    name = pick.choice(list(ASK))
    as_run = pick.random() < 0.3 or name in ONLY_RUNS
    folder = copy_model(seeds, name, place, lambda file: as_run or file != "firth.json")
    path = damage_file(folder, pick) if pick.random() < 0.85 else add_beside(folder, pick)
    words = pick.choice([ASK[name], ASK[name], ["info", "model"], ["encode", "model", "texts.txt"]])
    return Case(f"model:{seed} ({name}, {path.relative_to(folder)})", words, place)


def vectors_case(seeds: Path, seed: int, place: Path) -> Case:
    pick = random.Random(f"vectors {seed}")
    place.mkdir(parents=True)
    for path in sorted((seeds / "vectors").iterdir()):
        shutil.copy(path, place / path.name)
    path = place / pick.choice(sorted(path.name for path in place.iterdir()))
    if path.suffix == ".safetensors":
        changed = hostile_safetensors(path, pick)
    elif pick.random() < 0.4 and path.suffix != ".tsv":
        _, _, rest = path.read_bytes().partition(b"\n")
        sizes = [b"%d" % number for number in (0, -1, 1, 3, 10**6, 10**9, 10**12, 10**30)]
        sizes += [b"9" * 5000, b"nan", b"1e3", b"", "١٢".encode()]
        changed = b" ".join(pick.choices(sizes, k=2)) + b"\n" + rest
    else:
        changed = hostile_bytes(path.read_bytes(), pick)
    path.write_bytes(changed)
    name = path.name.replace("projector_metadata", "projector")
    words = pick.choice(
        [
            ["nearest", name, "the"],
            ["info", name],
            ["export", name, "out.safetensors"],
            ["encode", name, "projector.tsv"],
        ]
    )
    return Case(f"vectors:{seed} ({path.name})", words, place)
