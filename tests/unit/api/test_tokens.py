"""How a corpus or a model reads a text."""

import json
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.cli.main import main
from piece_samples import build_pieces

TEXT = "The café dogs barked मैं."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tokens")
    (root / "text.txt").write_text("The café dogs barked.\nA dog ran.\n" * 20, encoding="utf-8")
    for kind in ("wordpiece", "bpe", "words"):
        firth.prepare(root / "text.txt", root / kind, tokens=kind, vocab_size=400, heldout=0, layout="line")
    return root


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "words"])
def test_ids_are_those_of_the_corpus(folder: Path, kind: str) -> None:
    found = firth.tokens(folder / kind, "The café dogs barked.")
    stored = np.fromfile(folder / kind / "train/tokens.bin", np.uint16)[: len(found["tokens"])]
    assert [token["id"] for token in found["tokens"]] == stored.tolist()
    assert (found["unknown"], found["lost"], found["examples"], found["kind"]) == (0, 0, [], kind)
    assert found["words"] == ["The", "café", "dogs", "barked", "."]
    assert all(token["text"] == found["text"][token["start"] : token["end"]] for token in found["tokens"])


def test_the_unknown_and_the_lost(folder: Path) -> None:
    for kind in ("wordpiece", "words"):
        found = firth.tokens(folder / kind, TEXT)
        unknown = [token["text"] for token in found["tokens"] if token["unknown"]]
        assert unknown == ["मैं"]
        assert found["lost"] == 3
        assert found["examples"] == [{"text": "मैं", "back": ""}]
    assert [token["id"] for token in found["tokens"] if token["unknown"]] == [None]
    assert firth.tokens(folder / "bpe", TEXT)["lost"] == 0


def test_a_tokenizer_that_strips(tmp_path: Path) -> None:
    build_pieces(byte_fallback=True).save(tmp_path)
    found = firth.tokens(tmp_path, "Café")
    assert [token["token"] for token in found["tokens"]] == ["caf", "##e"]
    assert (found["back"], found["lost"], found["examples"]) == ("cafe", 1, [{"text": "Café", "back": "cafe"}])


def test_vectors(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("2 2\ndog 1 0\ncat 0 1\n")
    found = firth.tokens(tmp_path / "v.txt", "dog bird")
    assert [(token["id"], token["unknown"]) for token in found["tokens"]] == [(0, False), (None, True)]
    assert found["lost"] == 4


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokens", str(folder / "wordpiece"), TEXT, "--json"]) in (None, 0)
    assert json.loads(capsys.readouterr().out) == firth.tokens(folder / "wordpiece", TEXT)
    assert main(["tokens", str(folder / "wordpiece"), TEXT]) in (None, 0)
    said = capsys.readouterr().out
    assert "unknown: मैं" in said
    assert "3 characters: मैं → (nothing)" in said


def test_one_sentence_errors(tmp_path: Path) -> None:
    with pytest.raises(firth.FirthError, match="no such corpus, run or model"):
        firth.tokens(tmp_path / "none", "x")
    with pytest.raises(firth.FirthError, match="the text is empty"):
        firth.tokens(tmp_path, " ")
    with pytest.raises(firth.FirthError):
        firth.tokens(tmp_path, "x")
