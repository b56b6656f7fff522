"""The documents of an index as a whole, with a vector each: what topics and near duplicates are found among.

N documents, P passages, D dimensions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from firth.core.errors import FirthError
from firth.core.types import Floats, unit_rows
from firth.retrieval.store import State


@dataclass(frozen=True)
class Collection:
    """Documents that count, in the order of the index; a vector is the mean of those of the passages."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors_ND: Floats


def live_texts(state: State) -> Iterator[tuple[str, str]]:
    """(id, text) of every document that was not deleted."""
    for part in state.parts:
        for number in np.flatnonzero(~part.gone_K).tolist():
            yield str(part.row(number)["id"]), part.text(number)


def read_collection(state: State, most: int) -> Collection:
    """All documents with their vectors; more than ``most`` are refused."""
    count = state.record.num_documents
    if state.record.model is None:
        raise FirthError("an index without vectors: make one with --model to group its documents")
    if count > most:
        raise FirthError(
            f"{count:,} documents: at most {most:,} are grouped at once; take a part of them with firth topics"
        )
    rows = [np.zeros((0, state.record.model.dim), np.float32)]
    for part in state.parts:
        assert part.vectors_PD is not None
        sums_KD = np.zeros((part.num_documents, part.vectors_PD.shape[1]), np.float32)
        np.add.at(sums_KD, part.passages[:, 0], part.vectors_PD)
        rows.append(sums_KD[~part.gone_K])
    found = list(live_texts(state))
    return Collection([id for id, _ in found], [text for _, text in found], unit_rows(np.concatenate(rows)))
