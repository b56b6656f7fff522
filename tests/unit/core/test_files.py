"""Files that are whole or absent, and disks that refuse."""

import errno
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

from firth.core import files
from firth.core.errors import FirthError, Interrupted
from firth.core.files import (
    atomic_file,
    atomic_folder,
    check_files,
    checksum,
    disk_errors,
    fingerprint,
    foreign_errors,
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


def test_json_is_not_waited_for(tmp_path: Path) -> None:
    """As from a pipe in a directory that somebody else made."""
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(FirthError, match=r"config.json: not a plain file"):
        read_json(tmp_path / "config.json")


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


def leave_behind(path: Path, folder: bool) -> None:
    """A process that writes and is killed."""
    child = os.fork()
    if child == 0:
        if folder:
            with atomic_folder(path) as made:
                (made / "old").write_text("old")
                os._exit(0)
        with atomic_file(path) as handle:
            handle.write(b"a long beginning")
            handle.flush()
            os._exit(0)
    os.waitpid(child, 0)


def test_what_a_killed_process_left_is_taken_over(tmp_path: Path) -> None:
    leave_behind(tmp_path / "file", False)
    leave_behind(tmp_path / "folder", True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".file.tmp", ".folder.tmp"]
    with atomic_file(tmp_path / "file") as handle:
        handle.write(b"new")
    with atomic_folder(tmp_path / "folder") as made:
        (made / "new").write_text("new")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["file", "folder", "folder/new"]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_second_writer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE_S", 0.0)
    with atomic_file(tmp_path / "file") as handle, atomic_folder(tmp_path / "folder") as made:
        handle.write(b"first")
        (made / "name").write_text("first")
        with pytest.raises(FirthError, match="file: another process is writing it now"), atomic_file(tmp_path / "file"):
            pass
        with (
            pytest.raises(FirthError, match="folder: another process is writing it now"),
            atomic_folder(tmp_path / "folder"),
        ):
            pass
    assert (tmp_path / "file").read_bytes() == b"first"
    assert (tmp_path / "folder" / "name").read_text() == "first"


def test_a_folder_is_replaced_only_when_that_was_asked(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("old")
    with pytest.raises(FirthError, match="exists already"), atomic_folder(tmp_path / "folder"):
        pass
    with pytest.raises(Interrupted), atomic_folder(tmp_path / "folder", overwrite=True):
        raise Interrupted("stopped")  # stays what it is, for its exit code
    assert (tmp_path / "folder" / "old").is_file()
    with atomic_folder(tmp_path / "folder", overwrite=True) as made:
        (made / "new").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["new"]


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    with atomic_file(tmp_path / "file") as handle:
        handle.write(b"text")
    with atomic_folder(tmp_path / "folder") as made:
        (made / "name").write_text("text")
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder"))
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["file", "folder"]


def test_a_short_write_of_numpy_is_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="disk is full"), disk_errors("out"):
        raise OSError("1000 requested and 12 written")


def test_a_signal_is_no_damaged_file() -> None:
    class Ended(BaseException):
        pass

    class PanicException(BaseException):
        """As the bindings of Rust call it."""

    with pytest.raises(Ended), foreign_errors("file", "a model"):
        raise Ended
    with pytest.raises(FirthError, match="file: not a model"), foreign_errors("file", "a model"):
        raise PanicException("index out of bounds")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_no_device_or_pipe_is_replaced(tmp_path: Path) -> None:
    """--out /dev/null --overwrite once left a folder in the place of the device."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    writers = [files.move_aside, lambda path: save_tensors(path, {}), _lock, _fill]
    for path in (pipe, link):
        for write in writers:
            with pytest.raises(FirthError, match="a device or a pipe, which is not replaced"):
                write(path)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        with atomic_file(path) as handle:  # what is written as a file goes through
            handle.write(b"through")
        assert os.read(reader, 100) == b"through"
        os.close(reader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]
    assert pipe.is_fifo()


def _lock(path: Path) -> None:
    with files.lock_folder(path, "busy"):
        pass


def _fill(path: Path) -> None:
    with atomic_folder(path, overwrite=True):
        pass


def test_files_are_synced_as_windows_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open for writing; what is read-only is left to POSIX systems."""
    fcntl = pytest.importorskip("fcntl")
    synced: list[bool] = []

    def note(descriptor: int) -> None:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR)

    monkeypatch.setattr(os, "fsync", note)
    with atomic_folder(tmp_path / "made") as folder:
        (folder / "a.txt").write_text("a")
    save_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(2)})
    assert synced == [True, True]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    files.sync_file(tmp_path / "made/a.txt")
    monkeypatch.setattr(os, "name", "nt")
    files.sync_file(tmp_path / "made/a.txt")
    assert synced == [True, True, False]
