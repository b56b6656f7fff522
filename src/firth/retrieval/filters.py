"""Conditions on the columns of documents: ``year>=1998``, ``language=en``, ``status!=draft``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, nearest
from firth.retrieval.parts import Part, key_of, plain_value

_CONDITION = re.compile(r"\s*(.+?)\s*(>=|<=|!=|=|>|<)\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    column: str
    sign: str  # = != < <= > >=
    value: str

    def holds(self, part: Part) -> NDArray[np.bool_]:
        """For each document of a part; a document without the column fulfils only ``!=``."""
        if self.column not in part.columns:
            return np.full(part.num_documents, self.sign == "!=")
        place = part.columns.index(self.column)
        if self.sign in ("=", "!="):
            same = part.arrays["values"][:, place] == np.uint64(key_of(self.value))
            return np.asarray(same if self.sign == "=" else ~same, np.bool_)
        numbers, wanted = part.arrays["numbers"][:, place], float(self.value)
        with np.errstate(invalid="ignore"):
            found = {"<": numbers < wanted, "<=": numbers <= wanted, ">": numbers > wanted, ">=": numbers >= wanted}
        return np.asarray(found[self.sign], np.bool_)


def read_conditions(where: Sequence[str] | Mapping[str, object], parts: Sequence[Part]) -> list[Condition]:
    """Conditions as they are written, or values by column; columns that no document has are an error."""
    if isinstance(where, Mapping):
        found = [Condition(name, "=", plain_value(value)) for name, value in where.items()]
    else:
        found = [_read(one) for one in where]
    known = {name for part in parts for name in part.columns}
    for one in found:
        if one.column not in known:
            reason = nearest(one.column, sorted(known)) if known else "the documents have no columns"
            raise FirthError(f"--where: no column '{one.column}': {reason}")
    return found


def _read(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise FirthError(f"--where '{text}': write a column and a value, such as year>=1998 or language=en")
    column, sign, value = match.groups()
    if sign not in ("=", "!="):
        try:
            float(value)
        except ValueError:
            raise FirthError(f"--where '{text}': {sign} compares numbers, and '{value}' is none") from None
    return Condition(column, sign, value)
