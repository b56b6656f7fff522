"""Checkpoints and the history beside them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from firth.core.errors import FirthError
from firth.core.registry import TrainingConfig
from firth.training.checkpoints import History, list_checkpoints, prune, read_history, read_state, write_checkpoint
from firth.training.optimizer import build_optimizer, load_model, load_optimizer, save_checkpoint


def build(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5))
    return module, build_optimizer(module, TrainingConfig())


def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    module(torch.ones(2, 4)).pow(2).mul(torch.arange(5.0)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_round_trip_goes_on_exactly(tmp_path: Path) -> None:
    module, optimizer = build(0)
    step(module, optimizer)
    path = save_checkpoint(tmp_path, 7, module, optimizer, {"seconds": 1.5})
    other, other_optimizer = build(1)
    assert read_state(path)["seconds"] == 1.5
    assert read_state(path)["step"] == 7
    load_model(path, other)
    load_optimizer(path, other, other_optimizer)
    for _ in range(2):
        step(module, optimizer)
        step(other, other_optimizer)
    assert all(torch.equal(one, two) for one, two in zip(module.parameters(), other.parameters(), strict=True))
    assert not list(tmp_path.glob(".*"))


def test_list_and_prune(tmp_path: Path) -> None:
    module, optimizer = build(0)
    assert list_checkpoints(tmp_path / "none") == []
    for number in (2, 10, 9, 100):
        save_checkpoint(tmp_path, number, module, optimizer, {})
    (tmp_path / ".step-200.tmp").mkdir()
    (tmp_path / "step-x").mkdir()
    assert [number for number, _ in list_checkpoints(tmp_path)] == [2, 9, 10, 100]
    prune(tmp_path, 2, best_step=2)
    assert [number for number, _ in list_checkpoints(tmp_path)] == [2, 10, 100]
    prune(tmp_path, 1, best_step=None)
    assert [number for number, _ in list_checkpoints(tmp_path)] == [100]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_a_flipped_byte_is_named(tmp_path: Path, name: str) -> None:
    path = save_checkpoint(tmp_path, 3, *build(0), {})
    data = bytearray((path / name).read_bytes())
    data[-5] ^= 1
    (path / name).write_bytes(data)
    with pytest.raises(FirthError, match=rf"step-3/{name}: damaged .* remove this checkpoint to go on"):
        read_state(path)
    (path / name).unlink()
    with pytest.raises(FirthError, match=rf"step-3/{name}: missing"):
        read_state(path)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"step": 3, "checksums": 5}', "flip"])
def test_a_broken_state_is_named(tmp_path: Path, content: str) -> None:
    path = save_checkpoint(tmp_path, 3, *build(0), {"seconds": 1.5})
    flipped = (path / "state.json").read_text().replace("1.5", "1.4")
    (path / "state.json").write_text(flipped if content == "flip" else content)
    with pytest.raises(FirthError, match=r"step-3/state\.json: "):
        read_state(path)


def test_another_model_does_not_fit(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 3, *build(0), {})
    with pytest.raises(FirthError, match=r"step-3/model\.safetensors: does not fit this model"):
        load_model(path, nn.Linear(4, 5))


def test_a_crash_while_saving_keeps_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, optimizer = build(0)
    save_checkpoint(tmp_path, 3, module, optimizer, {})

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("firth.training.checkpoints.write_json", full)
    with pytest.raises(FirthError, match="step-4: the disk is full"):
        save_checkpoint(tmp_path, 4, module, optimizer, {})
    assert [number for number, _ in list_checkpoints(tmp_path)] == [3]
    assert [path.name for path in tmp_path.iterdir()] == ["step-3"]
    read_state(tmp_path / "step-3")


def test_history_is_cut_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    history = History(path, 0)
    for number in (1, 2, 3):
        history.add({"event": "train", "step": number})
    with open(path, "a") as handle:
        handle.write('{"event": "tra')
    assert [line["step"] for line in read_history(path)] == [1, 2, 3]
    path.write_text('{"step": 1}\n[7]\n{"step": 2}\n' + '{"a":' * 50_000 + "\n", encoding="utf-8")  # by somebody else
    assert [line["step"] for line in read_history(path)] == [1, 2]
    path.write_text('{"step": 1, "text": "a\u2028b\x85c"}\n{"step": 2}\n', encoding="utf-8")  # no ends of lines
    assert [line["step"] for line in read_history(path)] == [1, 2]
    History(path, 2).add({"event": "evaluate", "step": 5})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 5]


def test_files_of_any_training_are_sealed(tmp_path: Path) -> None:
    """Those of a training without torch, too: whatever ``write`` puts there has a checksum."""

    def write(folder: Path) -> None:
        (folder / "counts.bin").write_bytes(b"123")

    path = write_checkpoint(tmp_path / "new", 5, {"seconds": 2.0}, write)
    assert read_state(path)["checksums"].keys() == {"counts.bin"}
    (path / "counts.bin").write_bytes(b"124")
    with pytest.raises(FirthError, match=r"step-5/counts\.bin: damaged .* remove this checkpoint to go on"):
        read_state(path)


def test_checkpoints_need_no_torch() -> None:
    program = "import sys, firth.training.checkpoints; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
