"""Learning from a teacher: the formulas against NumPy, what the teacher says in its places, and that it helps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError, Interrupted
from firth.core.files import checksum
from firth.core.types import Inputs
from firth.data.labelled import TextExample
from firth.tasks.config import TaskConfig
from firth.tasks.data import build_data
from firth.tasks.distillation import Distillation, build_teacher, layer_map, soft_loss
from firth.tasks.finetune import load_base, train_model
from firth.tasks.model import TaskModel, build_model
from task_text import MAKERS, PEOPLE, THINGS, files, tagged, texts, write

KINDS = {"classify": "classify", "score": "score", "tag": "tag", "answer": "answer"}


@pytest.fixture(scope="module")
def teachers(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small BERT of every task; tests must not change it."""
    folder = tmp_path_factory.mktemp("teachers")
    for kind in KINDS:
        (folder / kind).mkdir()
        given = files(folder / kind, kind, 24, 6)
        out = folder / f"{kind}-run"
        firth.finetune(kind, base=run_folder, **given, out=out, epochs=3, learning_rate=3e-3)  # type: ignore[arg-type]
    return {kind: folder / f"{kind}-run" for kind in KINDS}


def distillation(kind: str, run_folder: Path, teacher: Path, **settings: Any) -> Distillation:
    data = build_data(kind, MAKERS[kind](10), MAKERS[kind](4, seed=1))
    given = {"task": kind, "batch_size": 4, "dropout_prob": 0.0, "learning_rate": 1e-3, **settings}
    config = data.configured(TaskConfig.build(given, "test"))
    base = load_base(str(run_folder), data, config)
    model = build_model(config, base, data.pairs)
    found = build_teacher(firth.load(teacher), teacher, config, base, data.pairs)
    return Distillation(config, model.task, model.network, data.train, data.dev, found)


def log_softmax(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    moved = scores - scores.max(-1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(-1, keepdims=True))


def test_soft_loss_against_numpy() -> None:
    pick = np.random.default_rng(0)
    student, teacher, temperature = pick.normal(size=(5, 4)), 3 * pick.normal(size=(5, 4)), 2.5
    wanted, found = log_softmax(teacher / temperature), log_softmax(student / temperature)
    hand = temperature**2 * (np.exp(wanted) * (wanted - found)).sum()
    ours = soft_loss(torch.from_numpy(student), torch.from_numpy(teacher), temperature)
    assert float(ours) == pytest.approx(hand)
    assert float(soft_loss(torch.from_numpy(teacher), torch.from_numpy(teacher) + 1, temperature)) == pytest.approx(0)


def test_at_a_high_temperature_it_is_half_the_squared_distance_of_centred_scores() -> None:
    """Hinton et al. 2015, eq. 4: τ² KL → |s - t|² / 2K for scores of mean 0."""
    pick = np.random.default_rng(1)
    student, teacher = (scores - scores.mean(-1, keepdims=True) for scores in pick.normal(size=(2, 6, 4)))
    ours = float(soft_loss(torch.from_numpy(student), torch.from_numpy(teacher), 1e4))
    assert ours == pytest.approx(((student - teacher) ** 2).sum() / 8, rel=1e-3)


@pytest.mark.parametrize(
    ("student", "teacher", "wanted"),
    [(4, 12, [0, 3, 6, 9, 12]), (2, 2, [0, 1, 2]), (4, 6, [0, 2, 3, 5, 6]), (3, 1, [0, 0, 1, 1])],
)
def test_layer_map(student: int, teacher: int, wanted: list[int]) -> None:
    assert layer_map(student, teacher) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_against_numpy(kind: str, run_folder: Path, teachers: dict[str, Path]) -> None:
    found = distillation(kind, run_folder, teachers[kind], hidden_weight=0.5, temperature=3.0)
    assert found.weights == {"task": pytest.approx(0.1), "soft": 0.9, "hidden": 0.5}
    found.module.eval()
    for number in range(found.steps):
        batch = found.batch(number)
        with torch.no_grad():
            sums = found.loss(batch.to("cpu")).sums
            tensors = batch.to("cpu").tensors
            tokens = found.network.reader_module(Inputs.of(tensors)).hidden
            own = found.task.loss(found.network, batch.to("cpu")).sums["task"]
            text = kind in ("classify", "score")
            scores = (
                found.network.text_scores(tensors, batch.counts["task"])
                if text
                else found.network.token_scores(tensors)
            ).numpy()
            project = found.module.project.weight.numpy()  # type: ignore[union-attr]
        assert float(sums["task"]) == pytest.approx(float(own), rel=1e-4)
        seen = batch.arrays["doc_ids"] > 0
        difference = tokens.numpy() @ project.T - batch.arrays["taught_layers"]
        assert float(sums["hidden"]) == pytest.approx((difference**2).mean(-1)[:, seen].sum(), rel=1e-3)
        assert batch.counts["hidden"] == seen.sum()
        taught = batch.arrays["taught"]
        if kind == "score":
            hand = ((scores - taught) ** 2).sum()
        elif kind == "answer":
            hand = 0.0
            for row, mask in enumerate(seen):
                wanted, guess = (log_softmax(side[row][mask].T / 3.0) for side in (taught, scores))
                hand += 9 * (np.exp(wanted) * (wanted - guess)).sum() / 2
        else:
            judged = batch.arrays["words"] >= 0 if kind == "tag" else np.ones(len(scores), bool)
            wanted, guess = log_softmax(taught[judged] / 3.0), log_softmax(scores[judged] / 3.0)
            hand = 9 * (np.exp(wanted) * (wanted - guess)).sum()
        assert float(sums["soft"]) == pytest.approx(hand, rel=1e-3, abs=1e-4)


def test_the_teacher_says_what_it_predicts(run_folder: Path, teachers: dict[str, Path]) -> None:
    found = distillation("classify", run_folder, teachers["classify"])
    model = firth.load(teachers["classify"])
    for example in found.train:
        shares = np.exp(log_softmax(found.teacher.scores(example)))
        wanted = model.predict([example.text])[0]["probabilities"]
        assert [wanted[label] for label in found.config.labels] == pytest.approx(shares.tolist(), abs=1e-5)
    tags = distillation("tag", run_folder, teachers["tag"])
    judge = firth.load(teachers["tag"])
    for example in tags.train:
        best = tags.teacher.scores(example).argmax(1)
        assert [tags.config.labels[number] for number in best] == judge.predict([example.words])[0]["tags"]


def test_its_own_layers_are_no_distance(run_folder: Path, teachers: dict[str, Path]) -> None:
    """A student that is the teacher, with the identity between them."""
    found = distillation("tag", run_folder, teachers["tag"], hidden_weight=1.0)
    found.network.load_state_dict(found.teacher.network.state_dict())
    with torch.no_grad():
        found.module.project.weight.copy_(torch.eye(32))  # type: ignore[union-attr]
        found.module.eval()
        sums = found.loss(found.batch(0).to("cpu")).sums
    assert float(sums["hidden"]) < 1e-6
    assert float(sums["soft"]) < 1e-6


def people(count: int, wrong: bool) -> list[TextExample]:
    """Who it is decides; where labels are wrong, every third is."""
    found = []
    for number in range(count):
        person = PEOPLE[number % 4]
        right = number % 4 < 2
        label = right != (wrong and number % 3 == 0)
        text = f"The {person} found a {THINGS[number % 5]} and a {THINGS[number // 5 % 5]}."
        found.append(TextExample(text, None, "heals" if label else "leads"))
    return found


@pytest.mark.slow
def test_a_teacher_helps_where_labels_are_few_and_poor(run_folder: Path, tmp_path: Path) -> None:
    good, few = write(tmp_path / "good", people(48, False)), write(tmp_path / "few", people(18, True))
    dev = write(tmp_path / "dev", people(40, False)[::-1])
    usual: dict[str, Any] = {"epochs": 30, "learning_rate": 3e-3, "batch_size": 6, "dropout_prob": 0.0}
    teacher = firth.finetune("classify", base=run_folder, train=good, out=tmp_path / "teacher", **usual)
    alone = firth.finetune("classify", base=run_folder, train=few, out=tmp_path / "alone", **usual)
    taught = firth.finetune(
        "classify", base=run_folder, train=few, teacher=tmp_path / "teacher", out=tmp_path / "taught", **usual
    )
    inputs = [line.split("\t")[0] for line in dev.read_text(encoding="utf-8").splitlines()[1:]]

    def agreement(student: Any) -> float:
        both = zip(student.predict(inputs), teacher.predict(inputs), strict=True)
        return float(np.mean([one["label"] == other["label"] for one, other in both]))

    assert agreement(taught) > 0.9 > agreement(alone) + 0.1


def test_the_same_teacher_gives_the_same_student_also_after_a_stop(
    run_folder: Path, teachers: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(out: str) -> Path:
        firth.finetune(
            "tag",
            base=run_folder,
            **files(tmp_path, "tag", 12, 6),  # type: ignore[arg-type]
            teacher=teachers["tag"],
            out=tmp_path / out,
            seeds=2,
            epochs=2,
            hidden_weight=1.0,
        )
        return tmp_path / out

    whole = run("whole")
    trained = train_model
    calls: list[int] = []

    def stopped(*given: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise Interrupted("stopped")
        return trained(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr("firth.tasks.candidates.train_model", stopped)
        with pytest.raises(Interrupted):
            run("parts")
    again = run("parts")
    weights = [path for path in whole.iterdir() if path.suffix == ".safetensors"]
    assert weights
    for path in weights:
        assert checksum(path) == checksum(again / path.name)
    assert not any("project" in name for name in firth.load(whole).network.state_dict())  # type: ignore[attr-defined]


def test_a_teacher_with_other_tokens_or_exported(run_folder: Path, teachers: dict[str, Path], tmp_path: Path) -> None:
    given = files(tmp_path, "classify", 12, 6)
    other = tmp_path / "scratch"
    firth.finetune("classify", base="scratch", **given, out=other, epochs=1)  # type: ignore[arg-type]
    firth.export(teachers["classify"], tmp_path / "exported", to="onnx", int8=True)
    for name, teacher in (("a", other), ("b", tmp_path / "exported")):
        student = firth.finetune(
            "classify",
            base=run_folder,
            **given,
            teacher=teacher,
            out=tmp_path / name,
            epochs=1,  # type: ignore[arg-type]
        )
        assert isinstance(student, TaskModel)
        with pytest.raises(FirthError, match="leave out hidden_weight"):
            firth.finetune(
                "classify",
                base=run_folder,
                **given,  # type: ignore[arg-type]
                teacher=teacher,
                out=tmp_path / "none",
                hidden_weight=1.0,
            )
    assert not (tmp_path / "none").exists()
    words = files(tmp_path, "tag", 12, 6)
    firth.finetune("tag", base="scratch", **words, teacher=teachers["tag"], out=tmp_path / "words", epochs=1)  # type: ignore[arg-type]


def test_no_such_teacher(run_folder: Path, teachers: dict[str, Path], tmp_path: Path) -> None:
    given = files(tmp_path, "classify", 12, 6)
    strange = write(tmp_path / "strange", [TextExample(one.text, None, f"{one.label}!") for one in texts(8)])
    tags = write(tmp_path / "tags", tagged(8))

    def refused(task: str, match: str, **settings: Any) -> None:
        with pytest.raises(FirthError, match=match):
            firth.finetune(task, base=run_folder, out=tmp_path / "none", **settings)

    refused("classify", "which is no teacher of classify of texts", train=given["train"], teacher=teachers["tag"])
    refused("classify", "does not know the label 'en!'", train=strange, teacher=teachers["classify"])
    refused("classify", "no task was learned here", train=given["train"], teacher=run_folder)
    refused("tag", "leave out crf", train=tags, teacher=teachers["tag"], crf=True)
    refused(
        "classify",
        "leave out tune=false",
        train=given["train"],
        teacher=teachers["classify"],
        hidden_weight=1.0,
        tune=False,
    )
    assert not (tmp_path / "none").exists()
