"""A base that first reads the task's own text, by its own objective: every kind of base, and what it must give."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

import firth
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import find_run_recipe
from firth.core.run import Run, RunRecord, TunedBase
from firth.tasks import adaptation as tune_file
from firth.training.loop import Loop
from task_text import PEOPLE, THINGS, files

SHAPE = ["num_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=64", "seq_len=32", "batch_size=4"]
SMALL = ["steps=2", "evaluations=1"]


@pytest.fixture(scope="module")
def elmo(words_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "elmo"
    settings = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=6", "batch_size=3"]
    config = find_run_recipe("elmo-tiny").override([*settings, "max_vocab=60", "num_samples=0", "steps=20"])
    firth.pretrain(config, corpus=words_folder, out=folder)
    return folder


def finetune(base: Any, folder: Path, kind: str = "classify", **more: Any) -> RunRecord:
    task = {"pair": "classify"}.get(kind, kind)
    firth.finetune(
        task,
        base=base,
        **files(folder, kind, 40, 6),  # type: ignore[arg-type]
        out=folder / "run",
        epochs=1,
        **more,
    )
    return Run.open(folder / "run").record


def tuned(record: RunRecord) -> TunedBase:
    assert record.task is not None
    assert record.task.tuned_base is not None
    return record.task.tuned_base


def test_elmo_knows_the_text_better_after(elmo: Path, tmp_path: Path) -> None:
    pick = random.Random(0)
    lines = [
        f"The {pick.choice(PEOPLE)} sold a {pick.choice(THINGS)} and the {pick.choice(PEOPLE)} {word} a map.\t{word}\n"
        for _ in range(60)
        for word in ("found", "lost")
    ]
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    out = tmp_path / "run"
    more = {"adapt_epochs": 3, "adapt_learning_rate": 0.01, "epochs": 1}
    firth.finetune("classify", base=elmo, train=path, dev=path, out=out, **more)  # type: ignore[arg-type]
    found = tuned(Run.open(out).record)
    assert found.after["perplexity"] < 0.7 * found.before["perplexity"]
    assert found.epochs == 3
    assert not (tmp_path / "run" / "tuned_base").exists()
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Base on the task&#x27;s text" in report or "Base on the task's text" in report
    after, before = firth.load(tmp_path / "run" / "base"), firth.load(elmo)
    name = "readers.layers.0.projection"
    assert not torch.equal(after.model.state_dict()[name], before.model.state_dict()[name])  # type: ignore[attr-defined]
    assert firth.load(tmp_path / "run").predict(["The map."])


@pytest.mark.parametrize("kind", ["pair", "tag", "answer"])
def test_bert_on_every_kind_of_example(kind: str, run_folder: Path, tmp_path: Path) -> None:
    record = finetune(run_folder, tmp_path, kind, adapt_epochs=1)
    assert tuned(record).epochs == 1
    assert record.config["adapt_epochs"] == 1


@pytest.mark.parametrize(
    ("recipe", "corpus", "settings"),
    [
        ("electra-tiny", "corpus_folder", SHAPE),
        ("unilm-tiny", "corpus_folder", SHAPE),
        ("ernie-tiny", "corpus_folder", SHAPE),
        ("xlnet-tiny", "corpus_folder", [*SHAPE, "memory_len=8"]),
        ("t5-tiny", "corpus_folder", [*SHAPE, "num_decoder_layers=1"]),
        ("lstm-lm", "corpus_folder", ["hidden_dim=16", "embedding_dim=16", "seq_len=8", "batch_size=4"]),
        (
            "lstm-lm-nce",
            "words_folder",
            ["hidden_dim=16", "embedding_dim=16", "seq_len=8", "batch_size=4", "num_noise=8"],
        ),
    ],
)
def test_every_objective(
    recipe: str, corpus: str, settings: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    config = find_run_recipe(recipe).override([*settings, *SMALL])
    firth.pretrain(config, corpus=request.getfixturevalue(corpus), out=tmp_path / "base")
    found = tuned(finetune(tmp_path / "base", tmp_path, adapt_epochs=1))
    assert found.after.keys() >= found.before.keys()
    assert firth.load(tmp_path / "run").predict(["The map."])


def test_an_interrupted_one_goes_on(elmo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Loop.run

    def stopped(self: Loop, *words: Any) -> Any:
        run(self, *words)
        raise Interrupted("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "run", stopped)
        with pytest.raises(Interrupted):
            finetune(elmo, tmp_path, adapt_epochs=2)
    monkeypatch.setattr(tune_file, "start_run", None)  # it is not begun anew
    record = finetune(elmo, tmp_path, adapt_epochs=2)
    assert record.finished
    assert tuned(record).before["perplexity"] > 0


@pytest.mark.parametrize("base", ["scratch", "vectors"])
def test_what_has_no_objective(base: str, tmp_path: Path) -> None:
    from task_text import write_vectors

    name = "scratch" if base == "scratch" else str(write_vectors(tmp_path / "words.vec"))
    with pytest.raises(FirthError, match="no pre-training is known that it could go on with"):
        finetune(name, tmp_path, adapt_epochs=1)
    assert not (tmp_path / "run").exists()


def test_the_rate_is_lower_than_the_base_had(elmo: Path) -> None:
    from firth.tasks.config import TaskConfig

    config = TaskConfig(adapt_epochs=2.0, seed=7)
    plan = tune_file.plan_adaptation(str(elmo), config)
    had = find_run_recipe("elmo-tiny").training.learning_rate
    assert plan.training.learning_rate == pytest.approx(0.1 * had)
    assert (plan.training.epochs, plan.training.steps, plan.training.seed) == (2.0, None, 7)
    assert tune_file.plan_adaptation(str(elmo), config.replace(adapt_learning_rate=0.5)).training.learning_rate == 0.5


def test_a_mistake_later_does_not_cost_the_tuned_base(
    elmo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*words: Any, **more: Any) -> Any:
        raise FirthError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("firth.tasks.candidates.train_model", broken)
        with pytest.raises(FirthError, match="no space left"):
            finetune(elmo, tmp_path, adapt_epochs=1)
    monkeypatch.setattr(tune_file, "start_run", None)  # it is not begun anew
    assert finetune(elmo, tmp_path, adapt_epochs=1).finished


def write_lines(path: Path, count: int = 60) -> Path:
    pick = random.Random(1)
    lines = [f"The {pick.choice(PEOPLE)} sold a {pick.choice(THINGS)} to {number} people." for number in range(count)]
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_unlabelled_text_is_read_first(kind: str, run_folder: Path, tmp_path: Path) -> None:
    """In a part of the budget; the candidates then stand on the adapted base."""
    pool = write_lines(tmp_path / "pool.txt")
    paths = files(tmp_path, kind, 24, 6)
    out = tmp_path / "run"
    firth.finetune(kind, base=run_folder, **paths, out=out, unlabelled=pool, budget="12s")  # type: ignore[arg-type]
    record = Run.open(out).record
    found = tuned(record)
    assert found.epochs > 0
    assert 0 < found.seconds < 12
    assert record.task is not None
    assert record.task.unlabelled == str(pool)
    assert record.task.chosen is not None
    assert [one.name for one in record.task.chosen.candidates][:2] == ["counts", "linear"]
    assert record.config["budget"] == "12s"
    assert not (out / "tuned_base").exists()
    assert firth.load(out).predict(["The map."])


def test_what_is_read(tmp_path: Path) -> None:
    """The training texts and the unlabelled ones, each once; a column of a table by the name of the labelled one's."""
    from firth.tasks.data import build_data
    from task_text import texts

    pool = tmp_path / "pool.csv"
    pool.write_text("id;review\n1;new text\n2;new text\n3; \n", encoding="utf-8")
    found = tune_file.Unlabelled.of(pool, "review", None)
    assert found is not None
    data = build_data("classify", texts(4), [])
    own = list(dict.fromkeys(example.text for example in texts(4)))
    assert list(tune_file._distinct_texts(data, found)) == [*own, "new text"]
    other = tune_file.Unlabelled.of(pool, "2", None)  # a number is of the labelled table; this one has a usual name
    assert other is not None
    assert list(tune_file._distinct_texts(data, other)) == [*own, "new text"]
    pool.write_text("id;notes\n1;new text\n", encoding="utf-8")
    with pytest.raises(FirthError, match="no column 'text'"):
        other.check()
    (tmp_path / "empty.txt").write_text("\n \n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"empty\.txt: no text in it"):
        tune_file.Unlabelled(tmp_path / "empty.txt").check()


def test_an_encoder_without_a_head_says_so(run_folder: Path, tmp_path: Path) -> None:
    from firth.models.shared.published import load_encoder, save_encoder
    from firth.tokenizers.pieces import Pieces

    config, weights, _ = load_encoder(run_folder)
    plain = tmp_path / "plain"
    plain.mkdir()
    save_encoder(plain, config, weights, {}, 0)
    Pieces.load(run_folder).save(plain)
    pool = write_lines(tmp_path / "pool.txt")
    with pytest.raises(FirthError, match="no head that guesses masked tokens"):
        finetune(plain, tmp_path, unlabelled=pool)
    for base in ("counts", "scratch"):
        with pytest.raises(FirthError, match="leave out adapt_epochs and --unlabelled"):
            finetune(base, tmp_path, unlabelled=pool)
    with pytest.raises(FirthError, match="--unlabelled is for classify"):
        firth.finetune("embed", base=run_folder, train=pool, out=tmp_path / "run", unlabelled=pool)
    assert not (tmp_path / "run").exists()
