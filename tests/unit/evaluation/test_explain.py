"""Explanations against what they claim: leaving out words, and the derivative of the score."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.cli.main import main
from firth.evaluation import explain as module
from firth.tasks.model import TaskModel
from task_text import files, write_vectors

TEXT = "The old doctor found a map."


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    """A linear classifier on the mean of word vectors that do not learn."""
    folder = tmp_path_factory.mktemp("linear")
    vectors = write_vectors(folder / "words.vec")
    found = firth.finetune(
        "classify", base=vectors, **files(folder, "classify"), out=folder / "run", epochs=5, settings={"tune": False}
    )  # type: ignore[arg-type]
    assert isinstance(found, TaskModel)
    return found


@pytest.fixture(scope="module")
def encoder(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TaskModel:
    folder = tmp_path_factory.mktemp("encoder")
    found = firth.finetune("classify", base=run_folder, **files(folder, "classify"), out=folder / "run", epochs=1)  # type: ignore[arg-type]
    assert isinstance(found, TaskModel)
    return found


def log_odds(probabilities: dict[str, float], label: str) -> float:
    return math.log(probabilities[label] / sum(share for name, share in probabilities.items() if name != label))


def test_occlusion_is_the_difference_without_the_word(encoder: TaskModel) -> None:
    """Of the log-odds of the label."""
    found = firth.explain(encoder, TEXT, method="occlusion")
    whole = encoder.predict([TEXT])[0]
    assert found.label == whole["label"]
    assert [word.text for word in found.words] == ["The", "old", "doctor", "found", "a", "map", "."]
    for word in found.words:
        assert TEXT[word.start : word.end] == word.text
        without = encoder.predict([TEXT[: word.start] + TEXT[word.end :]])[0]["probabilities"]
        label = str(found.label)
        difference = log_odds(whole["probabilities"], label) - log_odds(without, label)
        assert word.occlusion == pytest.approx(difference, abs=1e-5)
        assert word.gradient is None


def test_parts_of_a_linear_model_add_up_to_its_score(linear: TaskModel) -> None:
    """The score of a linear model is its bias and the sum of gradient x input, whatever label is asked for."""
    text = "The doctor found a map"
    batch = linear.task.batch([linear.task.item(linear.example(text), 0)]).to("cpu")  # type: ignore[arg-type]
    with torch.inference_mode():
        scores = linear.network.text_scores(batch.tensors, 1)[0]
    for place, label in enumerate(linear.config.labels):
        found = firth.explain(linear, text, label=label, method="gradient")
        added = sum(word.gradient or 0.0 for word in found.words)
        assert added == pytest.approx(float(scores[place] - linear.network.out.bias[place]), abs=1e-5)


def test_gradients_are_those_of_finite_differences(encoder: TaskModel) -> None:
    """Scaling the vectors of all tokens by 1 + h changes the score by h times the sum over all tokens."""
    found = firth.explain(encoder, TEXT, method="gradient")
    place = encoder.config.labels.index(str(found.label))
    batch = encoder.task.batch([encoder.task.item(encoder.example(TEXT), 0)]).to("cpu")  # type: ignore[arg-type]
    source = encoder.task.item(encoder.example(TEXT), 0).rows[0].source  # type: ignore[arg-type]
    table = next(part for part in encoder.network.reader_module.modules() if isinstance(part, torch.nn.Embedding))
    text_tokens = torch.from_numpy(np.asarray(source) >= 0)[None, :, None]

    def score(step: float) -> float:
        hook = table.register_forward_hook(lambda part, given, out: out * (1 + step * text_tokens))
        try:
            with torch.inference_mode():
                return float(encoder.network.double().eval().text_scores(batch.tensors, 1)[0, place])
        finally:
            hook.remove()
            encoder.network.float()

    slope = (score(1e-4) - score(-1e-4)) / 2e-4
    assert sum(word.gradient or 0.0 for word in found.words) == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_nothing_of_the_model_changes(encoder: TaskModel) -> None:
    before = encoder.predict([TEXT])
    learns = [parameter.requires_grad for parameter in encoder.network.parameters()]
    found = firth.explain(encoder, TEXT)
    assert encoder.predict([TEXT]) == before
    assert [parameter.requires_grad for parameter in encoder.network.parameters()] == learns
    assert all(parameter.grad is None for parameter in encoder.network.parameters())
    assert found.agreement is None or -1 <= found.agreement <= 1
    assert str(found.label) in repr(found)


def test_long_texts_by_groups_of_words(linear: TaskModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_UNITS", 3)
    found = firth.explain(linear, TEXT, method="occlusion")
    assert [word.text for word in found.words] == ["The old doctor", "found a map", "."]


@pytest.mark.parametrize("base", ["scratch", "elmo", "gpt"])
def test_other_bases(base: str, gpt_folder: Path, words_folder: Path, tmp_path: Path) -> None:
    start: str | Path = {"scratch": "scratch", "gpt": gpt_folder}.get(base, tmp_path / "elmo")
    if base == "elmo":
        small = {"filters": [[1, 4], [3, 8]], "projection_dim": 8, "cell_dim": 16, "seq_len": 12, "num_samples": 32}
        firth.pretrain("elmo-tiny", corpus=words_folder, out=tmp_path / "elmo", steps=1, settings=small)
    run = firth.finetune("classify", base=start, **files(tmp_path, "classify"), out=tmp_path / "run", epochs=1)  # type: ignore[arg-type]
    found = firth.explain(run, TEXT)
    assert all(word.occlusion is not None for word in found.words)
    assert all(word.gradient is not None for word in found.words) or "not available" in found.note


@pytest.mark.parametrize("base", ["counts", "fasttext"])
def test_what_has_no_network_is_explained_by_occlusion(base: str, tmp_path: Path) -> None:
    run = firth.finetune("classify", base=base, **files(tmp_path, "classify"), out=tmp_path / "run")  # type: ignore[arg-type]
    found = firth.explain(run, TEXT)
    assert all(word.occlusion is not None and word.gradient is None for word in found.words)
    assert "without a PyTorch network" in found.note


def test_pairs_and_scores(run_folder: Path, tmp_path: Path) -> None:
    pairs = firth.finetune("classify", base=run_folder, **files(tmp_path, "pair"), out=tmp_path / "pair", epochs=1)  # type: ignore[arg-type]
    found = firth.explain(pairs, "The doctor slept.", second="A nurse found a map.")
    assert [word.text for word in found.words if word.second][:2] == ["A", "nurse"]
    assert "not a pair" in found.note
    score = firth.finetune("score", base=run_folder, **files(tmp_path, "score"), out=tmp_path / "score", epochs=1)  # type: ignore[arg-type]
    assert firth.explain(score, "the nurse and map").label is None
    tag = firth.finetune("tag", base=run_folder, **files(tmp_path, "tag"), out=tmp_path / "tag", epochs=1)  # type: ignore[arg-type]
    with pytest.raises(firth.FirthError, match="only classifiers and scorers"):
        firth.explain(tag, TEXT)


def test_mistakes(linear: TaskModel) -> None:
    for text, keywords, said in (
        ("", {}, "no text"),
        (TEXT, {"label": "fr"}, "unknown label 'fr'"),
        (TEXT, {"method": "magic"}, "unknown method 'magic'"),
    ):
        with pytest.raises(firth.FirthError, match=said):
            firth.explain(linear, text, **keywords)  # type: ignore[arg-type]


def test_the_command(encoder: TaskModel, capsys: pytest.CaptureFixture[str]) -> None:
    assert encoder.path is not None
    main(["explain", str(encoder.path), TEXT, "--top", "3"])
    said = capsys.readouterr().out
    assert "occlusion" in said
    assert "gradient" in said
    main(["explain", str(encoder.path), TEXT, "--json"])
    assert len(json.loads(capsys.readouterr().out)["words"]) == 7
