"""Files that are whole or absent, and disks that refuse."""

import errno
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from firth.core.errors import FirthError
from firth.core.files import (
    atomic_file,
    atomic_folder,
    check_files,
    checksum,
    disk_errors,
    fingerprint,
    load_tensors,
    read_json,
    save_tensors,
    write_json,
)


class Crash(Exception):
    pass


def test_a_crash_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    def crash() -> None:
        with atomic_file(path) as handle:
            handle.write(b"half")
            raise Crash

    with pytest.raises(Crash):
        crash()
    assert json.loads(path.read_text()) == {"old": 1}
    assert [name.name for name in tmp_path.iterdir()] == ["a.json"]


def test_a_crash_leaves_no_new_folder(tmp_path: Path) -> None:
    def crash() -> None:
        with atomic_folder(tmp_path / "goal") as folder:
            (folder / "inside").write_text("half")
            raise Crash

    with pytest.raises(Crash):
        crash()
    assert not list(tmp_path.iterdir())
    with atomic_folder(tmp_path / "goal") as folder:
        (folder / "inside").write_text("whole")
    assert (tmp_path / "goal" / "inside").read_text() == "whole"
    assert [name.name for name in tmp_path.iterdir()] == ["goal"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "the disk is full or a size limit was reached; free some space"),
        (errno.EFBIG, "the disk is full or a size limit was reached"),
        (errno.EDQUOT, "the disk is full or a size limit was reached"),
        (errno.EROFS, "no permission to write there; choose another path"),
        (errno.EACCES, "no permission to write there"),
        (errno.ENOTDIR, "cannot be created (Not a directory); choose another path"),
        (errno.ENAMETOOLONG, "cannot be created (File name too long); choose another path"),
    ],
)
def test_disk_errors_are_told(code: int, said: str, tmp_path: Path) -> None:
    with pytest.raises(FirthError) as error, disk_errors(tmp_path / "x"):
        raise OSError(code, "something")
    assert str(error.value).startswith(f"{tmp_path / 'x'}: ")
    assert said in str(error.value)
    with pytest.raises(FirthError) as error, disk_errors(tmp_path / "x"):
        raise Exception(f"IO error: something (os error {code})")  # as Rust writers say it
    assert said in str(error.value)


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), disk_errors("x"):
        raise ZeroDivisionError
    with pytest.raises(FirthError, match="mine"), disk_errors("x"):
        raise FirthError("mine")


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FirthError, match="cannot be created"):
        write_json(tmp_path / "file" / "a.json", 1)


def test_read_json_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match=r"a\.json: no such file"):
        read_json(tmp_path / "a.json")
    for content in (b"{", b"\xff\xfe", b""):
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(FirthError, match=r"a\.json: not valid JSON"):
            read_json(tmp_path / "a.json")


def test_check_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"abd")
    sums = {name: checksum(tmp_path / name) for name in "ab"}
    check_files(tmp_path, sums, "remedy")
    (tmp_path / "b").write_bytes(b"abc")
    with pytest.raises(FirthError, match=r"b: damaged .*; remedy"):
        check_files(tmp_path, sums, "remedy")
    (tmp_path / "a").unlink()
    with pytest.raises(FirthError, match="a: missing; remedy"):
        check_files(tmp_path, sums, "remedy")


def test_tensors_round_trip_to_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(6.0).view(2, 3).t(), "a": torch.tensor([1, 2])}
    save_tensors(tmp_path / "one.safetensors", tensors)
    save_tensors(tmp_path / "two.safetensors", dict(reversed(tensors.items())))
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    found = load_tensors(tmp_path / "one.safetensors")
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_tensors_that_cannot_be_read(tmp_path: Path) -> None:
    save_tensors(tmp_path / "w.safetensors", {"a": torch.arange(100.0)})
    whole = (tmp_path / "w.safetensors").read_bytes()
    for content in (whole[:-8], whole[:5], b"", b"\xff" * 64):
        (tmp_path / "w.safetensors").write_bytes(content)
        with pytest.raises(FirthError, match=r"w\.safetensors: not a complete weights file"):
            load_tensors(tmp_path / "w.safetensors")
    with pytest.raises(FirthError, match=r"x\.safetensors: no such file"):
        load_tensors(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "content", [[torch.zeros(2)], {"a": 5}, {"a": {"b": torch.zeros(2)}}], ids=["list", "number", "nested"]
)
def test_a_bin_file_must_be_a_table_of_tensors(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.bin")
    with pytest.raises(FirthError, match=r"w\.bin: not a plain dict of named tensors"):
        load_tensors(tmp_path / "w.bin")


def test_a_bin_file_cut_off(tmp_path: Path) -> None:
    torch.save({"a": torch.arange(1000.0)}, tmp_path / "w.bin")
    whole = (tmp_path / "w.bin").read_bytes()
    for length in (0, 3, len(whole) // 2, len(whole) - 10):
        (tmp_path / "w.bin").write_bytes(whole[:length])
        with pytest.raises(FirthError, match=r"w\.bin: "):
            load_tensors(tmp_path / "w.bin")
    np.save(tmp_path / "w.npy", np.zeros(3))
    (tmp_path / "w.npy").rename(tmp_path / "w.bin")
    with pytest.raises(FirthError, match=r"w\.bin: "):
        load_tensors(tmp_path / "w.bin")


def test_what_is_written_about_a_model_does_not_change_it(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_text("x")
    before = fingerprint(tmp_path)
    for name in ("report.html", "metrics.jsonl", ".lock", "probe/probe.json", "checkpoints/step-1/state.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("y")
    assert fingerprint(tmp_path) == before
    (tmp_path / "model.bin").write_text("z")
    assert fingerprint(tmp_path) != before
