"""What a comparison has made so far: folders by what went into them, so that nothing is made twice.

``cells.json`` says of each folder from which inputs it was made and what was chosen for it then (its seconds, its
epochs). The same inputs find the same folder; changed ones get a new folder beside the old one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json

_FILE = "cells.json"


@dataclass
class Cell:
    """A place for something made from ``inputs``; ``changed`` names inputs that differ from those of an older one."""

    name: str  # of the folder, below the comparison's
    folder: Path
    inputs: dict[str, Any]
    chosen: dict[str, Any]
    changed: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A sentence if this is made anew because something changed."""
        return f"{', '.join(self.changed)} changed: made anew in {self.folder}" if self.changed else ""


class Cache:
    """All cells of a comparison."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / _FILE
        found = read_json(self.path) if self.path.is_file() else {}
        if not isinstance(found, dict) or not all(isinstance(cell, dict) for cell in found.values()):
            raise FirthError(f"{self.path}: not a list of cells; choose another --out")
        self.cells: dict[str, dict[str, Any]] = found

    def cell(self, room: str, name: str, inputs: Mapping[str, Any]) -> Cell:
        """The folder made from these inputs, or a new one."""
        stem = f"{room}/{slug(name)}"
        older = [place for place in self.cells if re.fullmatch(rf"{re.escape(stem)}(-v\d+)?", place)]
        for place in older:
            if self.cells[place].get("inputs") == inputs:
                return Cell(place, self.folder / place, dict(inputs), self.cells[place].get("chosen", {}))
        place, number = stem, 1
        while place in self.cells or (self.folder / place).exists():
            number += 1
            place = f"{stem}-v{number}"
        last = self.cells[older[-1]].get("inputs", {}) if older else {}
        changed = tuple(key for key in inputs if older and last.get(key) != inputs[key])
        return Cell(place, self.folder / place, dict(inputs), {}, changed)

    def choose(self, cell: Cell, **chosen: Any) -> None:
        """Writes a cell down with what was chosen for it; from now on it is found."""
        cell.chosen |= chosen
        self.cells[cell.name] = {"inputs": cell.inputs, "chosen": cell.chosen}
        write_json(self.path, self.cells)


def slug(name: str) -> str:
    """A name that a folder can have."""
    return re.sub(r"[^\w.=-]+", "-", name).strip("-.")[:80] or "unnamed"
