"""ELMo in use: offsets, unseen words, Chinese, the cache, near words, occurrences in context."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from firth.cli.main import main
from firth.core.registry import find_run_recipe
from firth.models.elmo.model import ElmoModel
from firth.models.shared.model import Model, TextLayers
from firth.tokenizers.words import split_words

SMALL = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=6", "batch_size=3", "max_vocab=60"]


@pytest.fixture(scope="module")
def run(words_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "elmo"
    firth.pretrain(find_run_recipe("elmo-tiny").override([*SMALL, "steps=3"]), corpus=words_folder, out=folder)
    return folder


@pytest.fixture
def model(run: Path) -> ElmoModel:
    found = firth.load(run)
    assert isinstance(found, ElmoModel)
    return found


def test_words_with_their_places(model: ElmoModel) -> None:
    text = "  The old doctor sleeps.   他看见了新的地图。 Bye!"
    found = model.layers(text)
    assert [text[start:end] for start, end in found.offsets] == found.tokens
    assert found.tokens[:5] == ["The", "old", "doctor", "sleeps", "."]
    assert "".join(found.tokens[5:-2]) == "他看见了新的地图。"
    assert found.hidden.shape == (3, len(found.tokens), 16)
    np.testing.assert_array_equal(found.words, np.arange(len(found.tokens)))


def test_sentences_are_read_apart_and_lists_as_one(model: ElmoModel) -> None:
    both = model.layers("The old doctor sleeps. Bye now.").hidden
    np.testing.assert_allclose(both[:, :5], model.layers("The old doctor sleeps.").hidden, atol=1e-6)
    words = ["the", "old", "doctor", "sleeps", "."]
    listed = model.layers(words)
    np.testing.assert_allclose(listed.hidden, both[:, :5], atol=1e-6)
    assert listed.offsets.tolist()[:2] == [[0, 3], [4, 7]]
    assert model.layers([]).hidden.shape == (3, 0, 16)


def test_words_never_seen(model: ElmoModel) -> None:
    found = model.layers("Flibbertigibbets snarfle 饕餮 🐙!")
    assert np.isfinite(found.hidden).all()
    assert len({tuple(row) for row in found.hidden[0].round(6)}) == len(found.tokens)


def test_the_cache_changes_nothing(model: ElmoModel, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["The red boat.", "The old map and a red boat near the river.", "Anna."]
    fresh = [firth.load(run).encode(text)[0] for text in texts]
    np.testing.assert_allclose(model.encode(texts), fresh, atol=1e-6)
    rows = len(model.cache.rows)
    np.testing.assert_allclose(model.encode(texts), fresh, atol=1e-6)
    assert len(model.cache.rows) == rows
    monkeypatch.setattr("firth.models.elmo.model._CACHED_WORDS", 5)
    for text, wanted in zip(texts, fresh, strict=True):
        np.testing.assert_allclose(model.encode(text)[0], wanted, atol=1e-6)
    assert len(model.cache.rows) <= 12


def test_encode(model: ElmoModel) -> None:
    texts = ["The red boat.", "", "An old map! A new map?"]
    for layer in (-1, 0, 1):
        hidden = [model.layers(text).hidden[layer] for text in texts]
        mean, largest = model.encode(texts, layer), model.encode(texts, layer, "max")
        for number in (0, 2):
            np.testing.assert_allclose(mean[number], hidden[number].mean(0), atol=1e-6)
            np.testing.assert_allclose(largest[number], hidden[number].max(0), atol=1e-6)
        assert not mean[1].any()
        assert not largest[1].any()
    with pytest.raises(firth.FirthError, match="layer 3 does not exist: this model has layers 0 to 2"):
        model.encode("A.", 3)
    with pytest.raises(firth.FirthError, match="unknown pool 'cls' for this model: choose mean or max"):
        model.encode("A.", pool="cls")


def test_near_words_by_spelling(model: ElmoModel) -> None:
    found = model.nearest("doctors", 3)
    assert len(found) == 3
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert all(word in model.known for word, _ in found)
    assert "doctor" not in [word for word, _ in model.nearest("doctor", 5)]


class Senses(Model):
    """A representation that knows what 'bank' means by the company it keeps."""

    def layers(self, text: str | list[str]) -> Any:
        joined = text if isinstance(text, str) else " ".join(text)
        spans = split_words(joined)
        words = [joined[start:end].lower() for start, end in spans]
        river = float("river" in words)
        vectors = [[river, 1 - river, 0.0] if word == "bank" else [0.0, 0.1, 1.0] for word in words]
        hidden = np.asarray(vectors, np.float32)[None]
        return TextLayers(words, np.asarray(spans), np.arange(len(words)), hidden)


TEXT = "The bank of the river is green. The bank lent money. A river has one bank more. I paid the bank."


def test_occurrences_come_apart_by_sense(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    firth.prepare(tmp_path / "text.txt", tmp_path / "words", tokens="words", heldout=0.0, workers=1)
    for source in ("text.txt", "words"):
        found: Any = firth.occurrences(Senses(), tmp_path / source, "By the river stood a bank.", "Bank", top=2)
        assert [one.score for one in found] == pytest.approx([1.0, 1.0])
        assert all("river" in one.sentence for one in found)
        assert all(one.sentence[one.start : one.end].lower() == one.word.lower() == "bank" for one in found)
    money: Any = firth.occurrences(Senses(), tmp_path / "words", "My bank is rich.", "bank", top=9, same_word=True)
    assert len(money) == 4
    assert ["river" in one.sentence for one in money] == [False, False, True, True]
    first: Any = firth.occurrences(Senses(), tmp_path / "words", "My bank.", "bank", num_sentences=1, same_word=True)
    assert len(first) == 1
    with pytest.raises(firth.FirthError, match="'shore' is not in the sentence; its words are: My, bank, \\."):
        firth.occurrences(Senses(), tmp_path / "words", "My bank.", "shore")


def test_occurrences_on_the_command_line(
    run: Path, run_folder: Path, words_folder: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For ELMo and for BERT, over corpora of words and of pieces."""
    for model, corpus in ((run, words_folder), (run_folder, corpus_folder), (run_folder, words_folder)):
        words = ["occurrences", str(model), str(corpus), "The old doctor sold a red boat.", "--word", "doctor"]
        main([*words, "--num-sentences", "30", "--top", "4"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 4
        assert all("[" in line for line in lines)
    with pytest.raises(SystemExit):
        main([*words, "--layer", "9"])
    assert "layer 9 does not exist" in capsys.readouterr().err
