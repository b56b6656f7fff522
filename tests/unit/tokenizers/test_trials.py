"""Tokenizers of strangers are tried in a process of its own, also where a system has no limits or other ones."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.tokenizers import foreign
from firth.tokenizers.foreign import read_tokenizer
from firth.tokenizers.vocabulary import train_pieces

RESOURCES = {
    "none": "raise ImportError('no such module')",
    "without address space": "RLIM_INFINITY = -1\nRLIMIT_CORE, RLIMIT_CPU = 4, 0\ndef setrlimit(*given): pass",
    "refusing": "RLIM_INFINITY = -1\nRLIMIT_AS = RLIMIT_CORE = RLIMIT_CPU = 0\ndef setrlimit(*given): raise ValueError('no')",
}


def write(folder: Path, pattern: str) -> Path:
    """A tokenizer with a pattern that is not well-known."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    path = folder / "tokenizer.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", RESOURCES)
def test_systems_without_these_limits(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/resource.py").write_text(RESOURCES[kind], encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    for name in ("SIGXCPU", "SIGKILL"):
        monkeypatch.delattr(signal, name)
    foreign._trial.cache_clear()
    assert read_tokenizer(write(tmp_path, "[a-c]")).encode("a").ids == [0]


def test_a_module_that_lies_in_the_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizers.py").write_text("raise SystemExit(9)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    foreign._trial.cache_clear()
    assert read_tokenizer(write(tmp_path, "[a-d]")).encode("a").ids == [0]


@pytest.mark.parametrize(
    ("code", "told", "reason"),
    [
        (-24, "", "more than 5 s"),
        (-9, "", "the system ended it"),
        (-6, "", "its library broke down"),
        (0xC0000409, "", "its library broke down"),
        (1, "Traceback\nException: no such token", "Exception: no such token"),
        (1, "", "it failed on short texts"),
        (1, "Traceback\nModuleNotFoundError: No module named 'tokenizers'", "cannot be tried"),
    ],
)
def test_the_reason_is_that_of_the_end(
    code: int, told: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], code, json.dumps(1).encode(), told.encode())
    monkeypatch.setattr(subprocess, "run", lambda *given, **named: done)
    foreign._trial.cache_clear()
    with pytest.raises(FirthError, match=reason):
        foreign.try_tokenizer("x", tmp_path)
    foreign._trial.cache_clear()


def test_own_tokenizers_are_not_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError

    monkeypatch.setattr(foreign, "try_tokenizer", refuse)
    texts = ["می\u200cخواهم dogs\u00ad 12", "Dogs bark."] * 5
    for kind in ("wordpiece", "bpe", "unigram", "characters"):
        (tmp_path / kind).mkdir()
        train_pieces(lambda: texts, TokensConfig(kind=kind, vocab_size=300)).save(tmp_path / kind)
        read_tokenizer(tmp_path / kind / "tokenizer.json")
