"""Several parts of a search index made one, without the documents that are gone.

K documents, P passages, Q postings.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from firth.core.batching import Ints
from firth.core.types import Array, Arrays
from firth.retrieval.parts import Part, borders_of, cut_bytes, join_bytes, sorted_postings


def merge_arrays(parts: Sequence[Part]) -> Arrays:
    """The arrays of one part with the documents of several, without those that are gone."""
    columns = sorted({name for part in parts for name in part.columns})
    kept = [np.flatnonzero(~part.gone_K) for part in parts]
    found: dict[str, list[Array]] = {}
    for part, keep_K in zip(parts, kept, strict=True):
        for name, array in _kept(part, keep_K, columns).items():
            found.setdefault(name, []).append(array)
    sizes = [int(np.sum(texts, dtype=np.int64)) for texts in found["text_sizes"]]
    document = byte = 0
    for passages, keep_K, size in zip(found["passages"], kept, sizes, strict=True):
        passages += np.asarray([document, byte, byte], np.int64)
        document, byte = document + len(keep_K), byte + size
    joined = {name: np.concatenate(some) for name, some in found.items()}
    names = [name.encode() for name in columns]
    return {
        "text_starts": borders_of(joined.pop("text_sizes").tolist()),
        "row_starts": borders_of(joined.pop("row_sizes").tolist()),
        "columns": join_bytes(names),
        "column_starts": borders_of([len(name) for name in names]),
        **joined,
        **_merged_postings(parts),
    }


def _kept(part: Part, keep_K: Ints, columns: Sequence[str]) -> Arrays:
    """The arrays of the documents that stay; places of passages count from the first of them."""
    arrays = part.arrays
    texts, text_sizes = _picked(arrays["texts"], arrays["text_starts"], keep_K)
    rows, row_sizes = _picked(arrays["rows"], arrays["row_starts"], keep_K)
    new_K = np.zeros(part.num_documents, np.int64)
    new_K[keep_K] = np.arange(len(keep_K))
    moved_K = np.zeros(part.num_documents, np.int64)
    moved_K[keep_K] = borders_of(text_sizes.tolist())[:-1] - arrays["text_starts"][keep_K]
    passages = part.passages if part.live_P is None else part.passages[part.live_P]
    owner = passages[:, 0]
    shifted = np.stack((new_K[owner], passages[:, 1] + moved_K[owner], passages[:, 2] + moved_K[owner]), 1)
    place = {name: number for number, name in enumerate(part.columns)}
    values = np.zeros((len(keep_K), len(columns)), np.uint64)
    numbers = np.full((len(keep_K), len(columns)), np.nan)
    for column, name in enumerate(columns):
        if name in place:
            values[:, column] = arrays["values"][keep_K, place[name]]
            numbers[:, column] = arrays["numbers"][keep_K, place[name]]
    found: Arrays = {"texts": texts, "text_sizes": text_sizes, "rows": rows, "row_sizes": row_sizes}
    found |= {"keys": arrays["keys"][keep_K], "values": values, "numbers": numbers, "passages": shifted}
    if part.vectors_PD is not None:
        found["vectors"] = part.vectors_PD if part.live_P is None else part.vectors_PD[part.live_P]
    return found


def _picked(data: Array, borders: Array, keep: Ints) -> tuple[NDArray[np.uint8], Ints]:
    """Some of the byte strings end to end, and their sizes."""
    sizes: Ints = np.diff(borders)[keep]
    return join_bytes([cut_bytes(data, borders, place) for place in keep.tolist()]), sizes


def _merged_postings(parts: Sequence[Part]) -> Arrays:
    listed = [part.terms() for part in parts]
    words = sorted({word for some in listed for word in some})
    place = {word: number for number, word in enumerate(words)}
    term_Q, passage_Q, count_Q, lens_P = [], [], [], []
    before = 0
    for part, some in zip(parts, listed, strict=True):
        numbers = np.asarray([place[word] for word in some], np.int64)
        terms_here = np.repeat(numbers, np.diff(part.arrays["posting_starts"]))
        passages_here, live = part.arrays["postings"].astype(np.int64), part.live_P
        counts_here, lens = part.arrays["counts"], part.arrays["lens"]
        if live is not None:
            stay = live[passages_here]
            passages_here = (np.cumsum(live) - 1)[passages_here[stay]]
            terms_here, counts_here, lens = terms_here[stay], counts_here[stay], lens[live]
        term_Q.append(terms_here)
        passage_Q.append(passages_here + before)
        count_Q.append(counts_here)
        lens_P.append(lens)
        before += len(lens)
    joined = [np.concatenate(some).astype(np.int64) for some in (term_Q, passage_Q, count_Q, lens_P)]
    used, new = np.unique(joined[0], return_inverse=True)  # terms of documents that are gone go, too
    return sorted_postings([words[number] for number in used.tolist()], new, *joined[1:])
