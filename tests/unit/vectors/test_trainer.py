"""Runs of all three kinds: what they learn, that they can be had again, killed, resumed and continued."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_text import TOPICS, lines, word_corpus

from firth.core.errors import FirthError, Interrupted
from firth.corpus.format import Corpus
from firth.training.checkpoints import list_checkpoints, read_state
from firth.vectors.configs import FastTextConfig, GloveConfig, VectorsConfig, Word2VecConfig
from firth.vectors.trainer import epochs_within, load_run, train_vectors

SMALL: dict[str, Any] = {"dim": 16, "min_count": 2, "seed": 3, "threads": 1}
KINDS = {
    "cbow": Word2VecConfig(**SMALL, epochs=20, sample=0.0),
    "skipgram": Word2VecConfig(**SMALL, epochs=10, sample=0.0, architecture="skipgram"),
    "cbow-tree": Word2VecConfig(**SMALL, epochs=20, sample=0.0, loss="hierarchical"),
    "skipgram-tree": Word2VecConfig(**SMALL, epochs=5, sample=0.0, architecture="skipgram", loss="hierarchical"),
    "skipgram-mean": Word2VecConfig(**SMALL, epochs=10, sample=0.0, architecture="skipgram", result="mean"),
    "fasttext": FastTextConfig(**SMALL, epochs=10, sample=0.0, bucket=2000),
    "fasttext-cbow": FastTextConfig(**SMALL, epochs=20, sample=0.0, bucket=2000, architecture="cbow"),
    "glove": GloveConfig(**SMALL, epochs=30, window=5, memory_mb=1),
}


def topic_gap(vectors: Any) -> float:
    """Mean cosine within topics, less that between topics."""
    names = [word for topic in TOPICS.values() for word in topic]
    owner = np.repeat(np.arange(len(TOPICS)), 8)
    rows = vectors.vectors(names)
    rows = rows - rows.mean(0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    same = owner[:, None] == owner
    return float(cosines[same & ~np.eye(len(names), dtype=bool)].mean() - cosines[~same].mean())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_neighbours_in_text_become_neighbours_in_space(kind: str, words: Corpus, tmp_path: Path) -> None:
    events: list[Any] = []
    vectors = train_vectors(words, KINDS[kind], tmp_path / "run", events.append)
    assert topic_gap(vectors) > 0.4
    assert events[-1]["event"] == "train"
    assert events[-1]["step"] == events[-1]["steps"]
    assert events[-1]["tokens"] == words.info.train.tokens * KINDS[kind].epochs
    facts = json.loads((tmp_path / "run" / "firth.json").read_text())
    assert facts["kind"] == "vectors"
    assert facts["status"] == "finished"
    assert facts["corpus"]["fingerprint"] == words.fingerprint
    assert facts["config"]["dim"] == 16
    assert facts["metrics"]["loss"] > 0
    left = {"vectors.bin", "firth.json", "state.safetensors"} | ({"model.bin"} if "fasttext" in kind else set())
    assert {path.name for path in (tmp_path / "run").iterdir()} == left
    again = load_run(tmp_path / "run")
    np.testing.assert_array_equal(again.vectors(["ship"]), vectors.vectors(["ship"]))


def everything(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir() if path.name != "firth.json"}


@pytest.mark.parametrize("kind", ["cbow", "skipgram", "fasttext", "glove"])
def test_two_threads_give_the_same_bytes_every_time(kind: str, words: Corpus, tmp_path: Path) -> None:
    config = KINDS[kind].replace(threads=2, epochs=5)
    found = []
    for name in ("one", "two"):
        train_vectors(words, config, tmp_path / name)
        found.append(everything(tmp_path / name))
    assert found[0] == found[1]
    train_vectors(words, config.replace(seed=4), tmp_path / "other")
    assert everything(tmp_path / "other") != found[0]


def test_threads_without_locks_learn_too(words: Corpus, tmp_path: Path) -> None:
    config = KINDS["cbow"].replace(threads=2, reproducible=False)
    assert topic_gap(train_vectors(words, config, tmp_path / "run")) > 0.4


class Killed(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["skipgram", "fasttext", "glove"])
def test_a_run_that_was_cut_off_ends_as_if_it_had_not_been(
    kind: str, words: Corpus, tmp_path: Path, monkeypatch: Any
) -> None:
    config = KINDS[kind].replace(threads=2, epochs=4, checkpoint_s=0.0)
    train_vectors(words, config, tmp_path / "whole")
    from firth.vectors import trainer

    kept = trainer.write_checkpoint

    def save_and_die(folder: Path, step: int, *rest: Any) -> None:
        kept(folder, step, *rest)
        if step == 17:
            raise Killed

    monkeypatch.setattr(trainer, "write_checkpoint", save_and_die)
    with pytest.raises(Killed):
        train_vectors(words, config, tmp_path / "cut")
    monkeypatch.undo()
    with pytest.raises(FirthError, match="did not finish"):
        load_run(tmp_path / "cut")
    train_vectors(words, config, tmp_path / "cut", resume=True)
    assert everything(tmp_path / "cut") == everything(tmp_path / "whole")


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named(name: str, words: Corpus, tmp_path: Path, monkeypatch: Any) -> None:
    from firth.vectors import trainer

    def die(*rest: Any, **more: Any) -> None:
        raise Killed

    config = KINDS["cbow"].replace(checkpoint_s=0.0)
    monkeypatch.setattr(trainer, "prune", die)  # the first checkpoint is whole then
    with pytest.raises(Killed):
        train_vectors(words, config, tmp_path / "run")
    monkeypatch.undo()
    ((_, newest),) = list_checkpoints(tmp_path / "run" / "checkpoints")
    data = (newest / name).read_bytes()
    (newest / name).write_bytes(data.replace(b"0", b"1", 1) if name == "state.json" else data[:-1] + b"?")
    with pytest.raises(FirthError, match=rf"{name}: damaged .* remove this checkpoint"):
        train_vectors(words, config, tmp_path / "run", resume=True)


_CHILD = """
import sys
from pathlib import Path
from firth.corpus.format import Corpus
from firth.vectors.configs import Word2VecConfig
from firth.vectors.trainer import train_vectors
corpus, out = sys.argv[1:]
config = Word2VecConfig(dim=16, min_count=2, seed=3, threads=2, epochs=3000, checkpoint_s=0.05)
train_vectors(Corpus.open(corpus), config, Path(out))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_a_checkpoint_to_go_on_from(how: signal.Signals, words: Corpus, tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(words.folder), str(tmp_path / "run")], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list((tmp_path / "run" / "checkpoints").glob("step-*")):
        time.sleep(0.05)
    os.kill(child.pid, how)
    error = child.communicate(timeout=60)[1].decode()
    step, newest = list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    assert read_state(newest)["step"] == step > 0
    if how == signal.SIGTERM:
        assert Interrupted.__name__ in error
        assert "resume" in error


class Clocked:
    """A learner whose steps take a second and read 100 tokens each; the first takes five."""

    num_steps, num_tokens, now = 50, 5000, 0.0

    def tokens_before(self, step: int) -> int:
        return 100 * step

    def learning_rate(self, step: int) -> float:
        return 0.1

    def run_step(self, number: int, pool: object) -> tuple[float, int]:
        self.now += 1.0 if number else 5.0
        return 0.0, 0

    def arrays(self) -> dict[str, Any]:
        return {}

    def restore(self, arrays: object) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "budget", "epochs"),
    [  # 100 tokens/s, 1,000 tokens an epoch; five seconds for the first step, a tenth of the budget to measure
        ("cbow", 100.0, 8),  # (100 - 15) * 100 / 1000
        ("glove", 100.0, 8),  # (100 - 15 - 5) * 100 / 1000: it counts again
        ("cbow", 1000.0, 94),  # all 49 steps that there are: (1000 - 54) * 100 / 1000
        ("cbow", 2.0, 1),  # at least one
    ],
)
def test_epochs_within_a_budget(kind: str, budget: float, epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Clocked()
    monkeypatch.setattr("firth.vectors.trainer.time.perf_counter", lambda: learner.now)
    assert epochs_within(budget, learner, KINDS[kind].replace(epochs=5, threads=1)) == epochs


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cbow", "glove"])
def test_a_budget_is_written_as_epochs(kind: str, words: Corpus, tmp_path: Path) -> None:
    """The run says how many epochs it had, so that it can be repeated; nothing of the measuring stays."""
    train_vectors(words, KINDS[kind], tmp_path / "run", budget_s=0.5)
    record = json.loads((tmp_path / "run" / "firth.json").read_text(encoding="utf-8"))
    assert record["config"]["epochs"] == record["epochs"] >= 1
    assert [path.name for path in tmp_path.iterdir() if "run" in path.name] == ["run"]
    again = KINDS[kind].replace(epochs=record["config"]["epochs"])
    train_vectors(words, again, tmp_path / "again")
    first, second = (load_run(tmp_path / name) for name in ("run", "again"))
    assert np.array_equal(first.vectors(list(first.words)), second.vectors(list(first.words)))


def test_a_run_is_not_resumed_with_other_settings_or_text(words: Corpus, tmp_path: Path) -> None:
    other = word_corpus(tmp_path, lines(50, seed=9), "other")
    config = KINDS["cbow"].replace(epochs=1)
    train_vectors(words, config, tmp_path / "run")
    with pytest.raises(FirthError, match="exists already"):
        train_vectors(words, config, tmp_path / "run")
    with pytest.raises(FirthError, match="finished already"):
        train_vectors(words, config, tmp_path / "run", resume=True)
    facts = json.loads((tmp_path / "run" / "firth.json").read_text())
    (tmp_path / "run" / "firth.json").write_text(json.dumps(facts | {"status": "started"}))
    with pytest.raises(FirthError, match="other settings"):
        train_vectors(words, config.replace(dim=8), tmp_path / "run", resume=True)
    with pytest.raises(FirthError, match="another corpus"):
        train_vectors(other, config, tmp_path / "run", resume=True)


@pytest.mark.parametrize("kind", ["skipgram", "fasttext", "skipgram-tree"])
def test_new_text_adds_words_and_keeps_old_ones(kind: str, words: Corpus, tmp_path: Path) -> None:
    config: VectorsConfig = KINDS[kind].replace(epochs=3)
    old = train_vectors(words, config, tmp_path / "old")
    fresh = word_corpus(tmp_path, [f"{line} lighthouse" for line in lines(60, seed=7)] + ["gull gull"] * 3, "fresh")
    new = train_vectors(fresh, config, tmp_path / "new", start=tmp_path / "old")
    assert set(old.words) < set(new.words)
    assert {"lighthouse", "gull"} <= set(new.words)
    assert "kitchen" in new
    moved = np.abs(new["ship"] - old["ship"]).max()
    assert 0 < moved < np.abs(old["ship"]).max()


def test_what_cannot_be_continued_is_told(words: Corpus, tmp_path: Path) -> None:
    train_vectors(words, KINDS["cbow"].replace(epochs=1), tmp_path / "old")
    with pytest.raises(FirthError, match="16 dimensions, dim says 8"):
        train_vectors(words, KINDS["cbow"].replace(dim=8), tmp_path / "new", start=tmp_path / "old")
    with pytest.raises(FirthError, match="not a finished run of fasttext"):
        train_vectors(words, KINDS["fasttext"], tmp_path / "new", start=tmp_path / "old")
    with pytest.raises(FirthError, match="glove learns from counts of the whole text"):
        train_vectors(words, KINDS["glove"], tmp_path / "new", start=tmp_path / "old")
    assert not (tmp_path / "new").exists()


def test_a_rate_that_is_too_high_is_told(words: Corpus, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="smaller learning_rate"):
        train_vectors(words, KINDS["cbow"].replace(learning_rate=1e30), tmp_path / "run")


def test_the_room_opens_without_compiler_and_torch() -> None:
    code = "import sys, firth.vectors.trainer; sys.exit(bool({'numba', 'torch', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_tree_has_no_output_vectors_of_words() -> None:
    with pytest.raises(ValueError, match="inner nodes"):
        Word2VecConfig(loss="hierarchical", result="output")
