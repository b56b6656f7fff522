"""A task on counts: fitted, saved, loaded, served and compared like any other."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, diags, hstack, identity
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.models.counts.model import (
    CHINESE_WORDS_WEIGHT,
    WORDS_WEIGHT,
    CountsModel,
    chunk_ngrams,
    cut_text,
    word_ngrams,
)
from firth.tasks.config import TaskConfig
from firth.tasks.counts import CountsTask
from firth.tasks.predict import load_task
from firth.tokenizers.words import has_han
from task_text import files, texts

ASKED = ["The doctor found a map.", "老师看见了书。", "", "🙂", "an unknown farmer"]


def character_ngrams(text: str) -> list[str]:
    """Those of all chunks of a text."""
    return [ngram for chunk in cut_text(text)[1] for ngram in chunk_ngrams(chunk)]


def test_probabilities_are_scikit_learns(tmp_path: Path) -> None:
    examples = texts(60)
    read, labels = [example.text for example in examples], [str(example.label) for example in examples]
    base = CountsModel.of_texts(read)

    def matrix(some: list[str]) -> csr_matrix:
        analysers = (lambda text: word_ngrams(cut_text(text)[0]), character_ngrams)
        words = diags([CHINESE_WORDS_WEIGHT if has_han(text) else WORDS_WEIGHT for text in some])
        blocks = [
            weight @ TfidfVectorizer(analyzer=one, sublinear_tf=True, vocabulary=block.ngrams).fit(read).transform(some)
            for one, block, weight in zip(
                analysers, (base.words, base.characters), (words, identity(len(some))), strict=True
            )
        ]
        return hstack(blocks).tocsr()

    peer = LogisticRegression(C=10).fit(matrix(read), labels)
    weights = np.concatenate((-peer.coef_ / 2, peer.coef_ / 2))
    bias = np.concatenate((-peer.intercept_ / 2, peer.intercept_ / 2))
    CountsTask(TaskConfig(labels=("en", "zh")), base, weights, bias, False).save(tmp_path, None)
    found = load_task(tmp_path).predict(ASKED)
    rows = [[one["probabilities"][label] for label in ("en", "zh")] for one in found]
    np.testing.assert_allclose(rows, peer.predict_proba(matrix(ASKED)), atol=1e-6)


@pytest.mark.parametrize("kind", ["classify", "pair", "score"])
def test_a_run_on_counts(kind: str, tmp_path: Path) -> None:
    task = "classify" if kind == "pair" else kind
    paths = files(tmp_path, kind, 60, 20)
    trained = firth.finetune(task, base="counts", **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    loaded = firth.load(tmp_path / "run")
    asked = [("The doctor slept.", "A doctor found a map."), ("", "")] if kind == "pair" else ASKED
    assert loaded.predict(asked) == trained.predict(asked)
    record = Run.open(tmp_path / "run").record
    assert record.model == record.base == "counts"
    assert record.task is not None
    assert record.task.chosen is not None
    assert [one.name for one in record.task.chosen.candidates] == ["counts"]
    if kind != "pair":
        assert record.metrics["spearman" if kind == "score" else "accuracy"] > 0.9
    assert record.parameters == loaded.num_parameters > 0
    assert "counts" in repr(loaded)
    found = firth.evaluate(tmp_path / "run", data=paths["dev"])
    assert found[record.task.metric] == pytest.approx(record.metrics[record.task.metric])
    streamed = list(firth.predict(tmp_path / "run", file=paths["dev"]))
    assert len(streamed) == 20
    with pytest.raises(FirthError, match="'counts', which is not exported"):
        firth.export(tmp_path / "run", tmp_path / "onnx", to="onnx")


def test_counts_are_described_and_no_base(tmp_path: Path) -> None:
    paths = files(tmp_path, "classify", 20, 6)
    trained = firth.finetune("classify", base="counts", **paths, out=tmp_path / "run")  # type: ignore[arg-type]
    assert trained.describe().abilities == ("predict",)
    assert trained.describe().labels == ("en", "zh")
    assert firth.explain(tmp_path / "run", "The map.") is not None  # by occlusion: there is no network
    with pytest.raises(FirthError, match="made of the texts of one task"):
        firth.finetune("classify", base=tmp_path / "run", **paths, out=tmp_path / "more")  # type: ignore[arg-type]


def test_counts_are_compared(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("nothing is learned from it\n")
    paths = files(tmp_path, "classify", 40, 10)
    found = firth.compare(
        "classify",
        corpus=corpus,
        **paths,
        recipes=["counts"],
        budget="20s",
        seeds=1,
        out=tmp_path / "out",  # type: ignore[arg-type]
    )
    assert [row["name"] for row in found["rows"] if row["kind"] == "scratch"] == ["counts"]


def test_counts_find_no_answers(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="counts says something of texts and words"):
        firth.finetune("answer", base="counts", **files(tmp_path, "answer", 12, 6), out=tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    firth.finetune("classify", base="counts", **files(tmp_path, "classify", 20, 6), out=run)  # type: ignore[arg-type]
    CountsModel.of_texts(["other words"]).save(run)
    with pytest.raises(FirthError, match="does not fit its settings"):
        firth.load(run)


@pytest.mark.parametrize("num_outputs", [1, 3, 20])
def test_scores_without_scipy(num_outputs: int) -> None:
    """Of texts and of pairs, with few and with many outputs, what the product of scipy's matrix gives."""
    read = [example.text for example in texts(30)]
    base, random = CountsModel.of_texts(read), np.random.default_rng(0)
    asked, others = [*ASKED, *read[:5]], [*reversed(ASKED), *read[1:6]]
    bias = random.standard_normal(num_outputs)
    for counted, matrix in (
        (base.count(asked), base.matrix(asked)),
        (base.count_pairs(asked, others), base.pair_matrix(asked, others)),
    ):
        weights = random.standard_normal((num_outputs, matrix.shape[1]))
        np.testing.assert_allclose(counted.scores(weights, bias), matrix @ weights.T + bias, atol=1e-12)
        assert list(counted.unknown_N) == pytest.approx([base.unknown_share([text]) for text in asked])


def test_chunks_are_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    read = [example.text for example in texts(30)]
    base = CountsModel.of_texts(read)
    expected = base.matrix(read).toarray()
    monkeypatch.setattr("firth.models.counts.model._CACHED", 3)
    for _ in range(3):
        np.testing.assert_array_equal(base.matrix(read).toarray(), expected)
