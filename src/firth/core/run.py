"""The folder of a run. Its ``firth.json`` is a ``RunRecord``, which is read and written here and nowhere else."""

import contextlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import aside, behind_link, disk_errors, empty_dir, lock_folder, move_aside, write_json
from firth.core.record import RunRecord, read_record

RECORD = "firth.json"
_BUSY = "another process is training this run; wait for it or stop it"


def is_run(folder: Path) -> bool:
    """Whether a run was begun or a model exported here."""
    return (folder / RECORD).is_file()


def _is_unborn(path: Path) -> bool:
    """Whether this is all that a run has that was killed before its record was written."""
    return path.name == f".{RECORD}.tmp" and path.is_file()


class Run:
    """A folder with ``firth.json``, ``metrics.jsonl``, ``checkpoints/`` and, at the end, the model."""

    def __init__(self, folder: Path, record: RunRecord, replaces: bool = False) -> None:
        self.folder, self.record, self.replaces = folder, record, replaces

    @classmethod
    def create(cls, folder: Path, record: RunRecord, overwrite: bool = False, prepared: tuple[str, ...] = ()) -> "Run":
        """``prepared`` are names that stand in the folder already."""
        with lock_folder(folder, _BUSY):  # two may begin at the same moment
            cls._clear(folder, overwrite, prepared, move_aside)
            run = cls(folder, record, overwrite)
            try:
                with disk_errors(folder):
                    behind_link(folder).mkdir(parents=True, exist_ok=True)
                run.save()
            except FirthError:
                cls.discard(folder, prepared)
                raise
        return run

    @classmethod
    def discard(cls, folder: Path, prepared: tuple[str, ...] = ()) -> None:
        """Removes a run that learned nothing; the one that it was to replace is there again."""
        goal = behind_link(folder)
        with contextlib.suppress(OSError):  # not empty: what was prepared stays
            empty_dir(goal, prepared)
            goal.rmdir()
        if is_run(aside(folder)) and not goal.exists():
            aside(folder).rename(goal)

    @classmethod
    def clear(cls, folder: Path, overwrite: bool, remove: Callable[[Path], None] = shutil.rmtree) -> None:
        """Makes sure that a run can be begun here: nothing is in the way, or an old run may go."""
        with lock_folder(folder, _BUSY):
            cls._clear(folder, overwrite, (), remove)

    @classmethod
    def _clear(cls, folder: Path, overwrite: bool, prepared: tuple[str, ...], remove: Callable[[Path], None]) -> None:
        if not folder.exists():
            return
        found = list(folder.iterdir()) if folder.is_dir() else [folder]
        if all(path.name in prepared or _is_unborn(path) for path in found):
            empty_dir(folder, prepared)  # of what a run left that was killed before its first file was whole
            return
        if not overwrite:
            hint = f", go on with --resume {folder}," if is_run(folder) else ""
            raise FirthError(f"{folder}: exists already; choose another --out{hint} or replace it with --overwrite")
        if not is_run(folder):
            raise FirthError(f"{folder}: not a run of Firth, so it is not overwritten; choose another --out")
        remove(behind_link(folder))

    @classmethod
    def keep_apart(cls, folder: Path, sources: Iterable[Path], overwrite: bool) -> None:
        """A run that is replaced must not hold what the new one is made from."""
        for path in sources if overwrite else ():
            if path.absolute().resolve().is_relative_to(folder.absolute().resolve()):
                raise FirthError(f"{path}: lies in the run that is to be replaced ({folder}); choose another --out")

    @classmethod
    def open(cls, folder: Path) -> "Run":
        if not folder.exists():
            raise FirthError(f"{folder}: no such run; check the path")
        if not is_run(folder):
            unborn = folder.is_dir() and all(map(_is_unborn, folder.iterdir()))
            remedy = "begin the run again, without --resume" if unborn else "name a folder that firth pretrain made"
            raise FirthError(f"{folder}: not a run of Firth (no {RECORD} in it); {remedy}")
        return cls(folder, read_record(folder / RECORD))

    @classmethod
    def find(cls, folder: Path) -> "Run | None":
        """The run in a folder that may as well be a published directory."""
        return cls.open(folder) if is_run(folder) else None

    @property
    def path(self) -> Path:
        """Of the record."""
        return self.folder / RECORD

    def change(self, **changes: object) -> None:
        """Fields of the record, checked by its schema; not written yet."""
        self.record = self.record.replace(**changes)

    def save(self, **changes: object) -> None:
        """Changes fields of the record and writes it."""
        self.change(**changes)
        write_json(self.path, self.record.model_dump(mode="json"))

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Only one process trains a run at a time."""
        return lock_folder(self.folder, _BUSY)
