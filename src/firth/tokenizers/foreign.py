"""Tokenizer files from others: what they contain decides whether they are read, tried first, or refused.

The library behind them is written in Rust: a file may bring it to a panic, to an abort of the whole process, or to work
without end (a regular expression that backtracks, a normalizer that makes text grow). Files made of well-known parts
are read at once. Any other part is tried first, on short texts, in a process of its own with limits of time and memory.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from functools import lru_cache
from pathlib import Path
from typing import cast

from pydantic import JsonValue
from tokenizers import Tokenizer

from firth.core.errors import FirthError
from firth.core.files import parse_json, shorten
from firth.tokenizers.words import UNSEEN

_TRIAL_CPU_S = 5
_TRIAL_S = 30.0  # by the clock, on a busy machine
_TRIAL_BYTES = 4 << 30
_TOO_LONG = f"short texts took it more than {_TRIAL_CPU_S} s"
_MAX_GROWTH = 64  # times that all steps together may lengthen a text
_MAX_ADDED = 100  # special tokens around a text
_MAX_CONTENT = 1000  # characters that a step may put in
_MAX_TOKEN = 100_000  # characters of a token
_NORMALIZERS = {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Nmt"}
_NORMALIZERS |= {"Replace", "Prepend", "Sequence"}
_PRE_TOKENIZERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "ByteLevel", "Metaspace", "Punctuation"}
_PRE_TOKENIZERS |= {"Digits", "UnicodeScripts", "CharDelimiterSplit", "Split", "Sequence"}
_PROCESSORS = {"BertProcessing", "RobertaProcessing", "TemplateProcessing", "ByteLevel", "Sequence"}
_DECODERS = {
    "WordPiece",
    "ByteLevel",
    "Metaspace",
    "BPEDecoder",
    "ByteFallback",
    "Fuse",
    "Strip",
    "Replace",
    "Sequence",
}
_PATTERNS = {" {2,}", r"\s+", r"\s", r"\d", r"\n", UNSEEN}
_MODELS = {"WordPiece", "BPE", "Unigram", "WordLevel"}
PROBES = (
    "",
    "a",
    "The old doctor found 2 broken clocks, near the river!",
    "老师看见了一本书。",
    "a" * 2000,
    " " * 2000,
    "ab" * 1000 + "!",
    "1234567890 " * 150,
    "é\u0301\u200d👩‍👩‍👧‍👦\ufffd\u0000\t\r\n" * 20,
    "[MASK] [CLS] <mask> </s> <unk> <0x00>",
    "x y\n" * 400 + "$",
)


def read_tokenizer(path: Path) -> Tokenizer:
    """A ``tokenizer.json``, tried first where it has parts that are not well-known."""
    raw = path.read_bytes()
    if not check_tokenizer(raw, path):
        try_tokenizer(raw.decode(), path)
    return Tokenizer.from_str(raw.decode())


def check_tokenizer(raw: bytes, path: Path) -> bool:
    """Refuses a ``tokenizer.json`` that cannot be meant; returns whether all its parts are well-known ones."""
    try:
        found = parse_json(raw, "it")
    except FirthError as error:
        raise _refusal(path, str(error).partition("; ")[0].removeprefix("it: ")) from None
    model = found.get("model") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(model, dict):
        raise _refusal(path, "there is no model in it")
    known = _check_vocabulary(model, path)
    parts: list[tuple[str, set[str]]] = [
        ("normalizer", _NORMALIZERS),
        ("pre_tokenizer", _PRE_TOKENIZERS),
        ("post_processor", _PROCESSORS),
        ("decoder", _DECODERS),
    ]
    for name, kinds in parts:
        steps = _steps(found.get(name))
        known = known and all(_is_known(step, kinds) for step in steps)
        _check_growth(steps, name, path)
    _check_added(_steps(found.get("post_processor")), _ids(model, found.get("added_tokens")), path)
    return known


def _refusal(path: Path, reason: str) -> FirthError:
    return FirthError(f"{path}: not a tokenizer that can be read ({reason}); check the file")


def _check_vocabulary(model: dict[str, JsonValue], path: Path) -> bool:
    vocab = model.get("vocab")
    if not isinstance(vocab, dict | list) or not vocab:
        raise _refusal(path, "its vocabulary is empty or no vocabulary")
    tokens = list(vocab) if isinstance(vocab, dict) else [row[0] for row in vocab if isinstance(row, list) and row]
    if any(isinstance(token, str) and len(token) > _MAX_TOKEN for token in tokens):
        raise _refusal(path, f"a token of more than {_MAX_TOKEN:,} characters")
    if isinstance(vocab, dict):
        most = 4 * len(vocab) + 1_000_000  # some leave gaps
        if not all(type(number) is int and 0 <= number < most for number in vocab.values()):
            raise _refusal(path, "an id in its vocabulary is no number, or far outside")
        unknown = model.get("unk_token")
        if unknown is not None and unknown not in vocab:
            raise _refusal(path, f"its unknown token {str(unknown)[:40]!r} is not in its vocabulary")
    elif model.get("type") == "Unigram":
        _check_unigram(model, vocab, path)
    prefix = model.get("continuing_subword_prefix")
    if isinstance(prefix, str) and len(prefix) > _MAX_CONTENT:
        raise _refusal(path, f"a prefix of {len(prefix):,} characters")
    return model.get("type") in _MODELS


def _ids(model: dict[str, JsonValue], added: JsonValue) -> set[object]:
    """Every id that a text may get."""
    vocab = model["vocab"]
    found: set[object] = set(vocab.values()) if isinstance(vocab, dict) else set(range(len(cast(list[object], vocab))))
    rows = [one.get("id") for one in (added if isinstance(added, list) else []) if isinstance(one, dict)]
    return found | {number for number in rows if isinstance(number, int)}


def _check_added(steps: list[dict[str, JsonValue]], known: set[object], path: Path) -> None:
    """The special tokens that a post-processor puts around each text: in the vocabulary, and not many."""
    for step in steps:
        tokens = step.get("special_tokens")
        rows = [one.get("ids") for one in tokens.values() if isinstance(one, dict)] if isinstance(tokens, dict) else []
        rows += [pair[1:] for pair in (step.get("sep"), step.get("cls")) if isinstance(pair, list)]
        longest = max((len(row) for row in rows if isinstance(row, list)), default=0)
        parts = max((len(part) for part in (step.get("single"), step.get("pair")) if isinstance(part, list)), default=0)
        if longest * parts > _MAX_ADDED:
            raise _refusal(path, f"its post_processor adds up to {longest * parts:,} tokens to each text")
        if any(
            type(number) is not int or number not in known for row in rows if isinstance(row, list) for number in row
        ):
            raise _refusal(path, "its post_processor adds a token that is not in its vocabulary")


def _check_unigram(model: dict[str, JsonValue], vocab: list[JsonValue], path: Path) -> None:
    for row in vocab:
        if not isinstance(row, list) or len(row) != 2 or not isinstance(row[0], str) or not _is_finite(row[1]):
            raise _refusal(path, "a row of its vocabulary is not a piece and its score")
    unknown = model.get("unk_id")
    if type(unknown) is not int or not 0 <= unknown < len(vocab):
        raise _refusal(path, "its unknown piece is not in its vocabulary")


def _is_finite(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _steps(part: JsonValue) -> list[dict[str, JsonValue]]:
    """Every step of a part, those of a sequence one by one."""
    if not isinstance(part, dict):
        return []
    inner = next(
        (part[name] for name in ("normalizers", "pretokenizers", "processors", "decoders") if name in part), []
    )
    found = [part]
    if isinstance(inner, list):
        for one in inner:
            found += _steps(one)
    return found


def _is_known(step: dict[str, JsonValue], kinds: set[str]) -> bool:
    pattern = step.get("pattern")
    plain = not isinstance(pattern, dict) or "Regex" not in pattern or pattern["Regex"] in _PATTERNS
    empty = isinstance(pattern, dict) and pattern.get("String") == ""
    fits = step.get("type") != "TemplateProcessing" or _template_fits(step)
    return step.get("type") in kinds and plain and not empty and fits


def _template_fits(step: dict[str, JsonValue]) -> bool:
    """Whether a template names only tokens that it describes: the library panics at any other."""
    known = step.get("special_tokens")
    described = {name for name, one in known.items() if _describes_tokens(one)} if isinstance(known, dict) else set()
    for name in ("single", "pair"):
        parts = step.get(name)
        if not isinstance(parts, list):
            return False
        for part in parts:
            token = part.get("SpecialToken") if isinstance(part, dict) else None
            if token is not None and not (isinstance(token, dict) and token.get("id") in described):
                return False
    return True


def _describes_tokens(value: JsonValue) -> bool:
    ids, tokens = (value.get(name) for name in ("ids", "tokens")) if isinstance(value, dict) else (None, None)
    return isinstance(ids, list) and isinstance(tokens, list) and len(ids) == len(tokens) > 0


def _check_growth(steps: list[dict[str, JsonValue]], name: str, path: Path) -> None:
    """How long a letter may become by all steps together."""
    growth = 1
    for step in steps:
        for key in ("content", "prepend", "prefix", "suffix", "replacement"):
            content = step.get(key)
            if not isinstance(content, str):
                continue
            if len(content) > _MAX_CONTENT:
                raise _refusal(path, f"its {name} puts in {len(content):,} characters at once")
            growth *= max(1, len(content)) if key == "content" else 1
    if growth > _MAX_GROWTH:
        raise _refusal(path, f"its {name} makes a text up to {growth:,} times as long")


# -- one thread at a time

_turns: "weakref.WeakSet[Turn]" = weakref.WeakSet()


class Turn:
    """A lock that a forked process finds open: the thread that held it is not there any more."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _turns.add(self)


def _renew() -> None:
    for turn in list(_turns):
        turn.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


# -- trying one in a process of its own

_PROGRAM = """
import json, sys
try:
    import resource
except ImportError:  # Windows: the clock alone ends it
    resource = None
def limit(name, soft, hard):
    try:
        resource.setrlimit(getattr(resource, name), (soft, hard))
    except (AttributeError, ValueError, OSError):
        pass  # a limit that this system does not know (macOS has none of address space)
limit("RLIMIT_AS", int(sys.argv[1]), -1 if resource is None else resource.RLIM_INFINITY)
limit("RLIMIT_CORE", 0, 0)
limit("RLIMIT_CPU", int(sys.argv[3]), int(sys.argv[3]) + 1)
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_str(sys.stdin.buffer.read().decode())
tokenizer.no_truncation(); tokenizer.no_padding()
tokenizer.to_str()
most = 0
for text in json.loads(sys.argv[2]):
    for special in (False, True):
        tokenizer.encode_special_tokens = special
        found = tokenizer.encode(text, None, add_special_tokens=special)
        most = max(most, len(found.ids) / (len(text.encode()) + 64))
        tokenizer.encode(text[:200], text[:200])
        tokenizer.decode(found.ids, skip_special_tokens=False)
        if tokenizer.normalizer is not None:
            most = max(most, len(tokenizer.normalizer.normalize_str(text)) / (len(text) + 64))
print(json.dumps(most))
"""


def try_tokenizer(text: str, path: Path) -> None:
    """Refuses a tokenizer that fails on short texts, or takes too long or too much memory for them."""
    reason = _trial(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), text)
    if reason:
        raise FirthError(f"{path}: not a tokenizer that can be used ({reason}); check the file")


@lru_cache(64)
def _trial(digest: str, text: str) -> str:
    """What went wrong; empty if nothing did. The process is gone before this returns."""
    command = [sys.executable, "-P", "-c", _PROGRAM, str(_TRIAL_BYTES), json.dumps(PROBES), str(_TRIAL_CPU_S)]
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RUST_BACKTRACE": "0"}
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_TRIAL_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return f"short texts took it more than {_TRIAL_S:.0f} s"
    except UnicodeEncodeError:
        return "it has half a character in it"
    return _why(done.returncode, done.stdout, done.stderr)


_STOPPED = {  # by which signal; Windows has neither
    "SIGXCPU": _TOO_LONG,
    "SIGKILL": "the system ended it on short texts, which took too much time or memory",
}
_NO_LIBRARY = ("ModuleNotFoundError", "ImportError")


def _why(code: int, out: bytes, told: bytes) -> str:
    """What the end of the trial says; Windows has no signals, its codes for a broken process are large numbers."""
    for name, reason in _STOPPED.items():
        if code < 0 and -code == getattr(signal, name, None):
            return reason
    if code < 0 or code > 255:
        return "its library broke down on short texts"
    if code:
        lines = told.decode("utf-8", "replace").strip().splitlines()
        last = lines[-1] if lines else "it failed on short texts"
        if last.startswith(_NO_LIBRARY):  # says nothing about the file
            raise FirthError(f"a tokenizer cannot be tried in a process of its own ({shorten(last, 120)})")
        return shorten(last, 120)
    growth = float(out)
    return "" if growth <= _MAX_GROWTH else f"it makes texts {growth:.0f} times as long"
