"""What fastText's classifier computes without Numba: the functions of ``line_kernels`` and ``classifier_kernels`` that answers
need, by the same names, in Python and NumPy. Slower by far, and enough to serve; see ``docs/install.md``.

N texts, R rows, D dimensions, K labels.
"""

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from firth.vectors.vocabulary import fnv1a, word_buckets

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int32]
Places = NDArray[np.int64]
Hashes = NDArray[np.uint32]
Floats = NDArray[np.float32]

_MULTIPLIER, _MASK = 116049371, 2**64 - 1
_DROPPED = -2
_WORD = re.compile(rb"[^ \t\n\v\f\r\0]+")
_CACHED = 200_000  # words
_hash = lru_cache(_CACHED)(fnv1a)


def scan_lines(data: Bytes) -> tuple[Numbers, Places, Places, Numbers, Hashes]:
    """See ``line_kernels.scan_lines``."""
    types: dict[bytes, int] = {}
    begins, tokens, ends, at = list[int](), list[int](), list[int](), 0
    for line in data.tobytes().split(b"\n")[:-1]:
        ended = False
        for found in _WORD.finditer(line):
            word = found.group()
            number = types.setdefault(word, len(types))
            if number == len(begins):
                begins.append(at + found.start())
            tokens.append(number)
            if ended := number == 0:
                break
        if not ended:
            tokens.append(0)
        ends.append(len(tokens))
        at += len(line) + 1
    skip = ends[0]
    sizes, hashes = [len(word) for word in types], [_hash(word) for word in types]
    found_ends = np.asarray(ends, np.int64) - skip
    starts = np.asarray(begins, np.int64), np.asarray(sizes, np.int32), np.asarray(hashes, np.uint32)
    return np.asarray(tokens[skip:], np.int32), found_ends, *starts


@lru_cache(_CACHED)
def buckets_of(spelling: bytes, shortest: int, longest: int, bucket: int) -> list[int]:
    """The buckets of the character n-grams of a word; not to be changed."""
    return word_buckets(spelling.decode("utf-8", "surrogateescape"), shortest, longest, bucket)


def line_rows(
    line_ends: Places,
    tokens: Numbers,
    is_word: Flags,
    hashes: Hashes,
    type_ends: Places,
    type_rows: Numbers,
    longest: int,
    bucket: int,
    num_words: int,
    by_bucket: Numbers,
    keys: Places,
    rows: Numbers,
    missing: int,
) -> tuple[Numbers, Places]:
    """See ``line_kernels.line_rows``."""
    row_of = dict(zip(keys.tolist(), rows.tolist(), strict=True)) if missing else {}
    signed = hashes.astype(np.int32).tolist()
    own = [type_rows[first:last] for first, last in zip(type_ends[:-1].tolist(), type_ends[1:].tolist(), strict=True)]
    found, ends, num = list[Numbers](), [0], 0
    for begin, end in zip(line_ends[:-1].tolist(), line_ends[1:].tolist(), strict=True):
        words = tokens[begin:end].tolist()
        parts = [own[word] for word in words]
        if bucket and longest > 1:
            numbers = _ngrams([signed[word] for word in words if is_word[word]], longest, bucket)
            if len(by_bucket):
                late = [int(by_bucket[number]) for number in numbers]
            else:
                late = [row_of.get(number, missing) if missing else num_words + number for number in numbers]
            parts.append(np.asarray([row for row in late if row != _DROPPED], np.int32))
        found += parts
        num += sum(map(len, parts))
        ends.append(num)
    return np.concatenate([np.zeros(0, np.int32), *found]), np.asarray(ends, np.int64)


def _ngrams(hashes: list[int], longest: int, bucket: int) -> list[int]:
    """The buckets of n-grams of 2 to ``longest`` words (Dictionary::addWordNgrams)."""
    found = []
    for first, value in enumerate(hashes):
        for other in hashes[first + 1 : first + longest]:
            value = (value * _MULTIPLIER + other) & _MASK
            found.append(value % bucket)
    return found


def hidden_of_texts(rows: Numbers, ends: Places, table: Floats, hidden: Floats) -> None:
    """See ``classifier_kernels.hidden_of_texts``."""
    for text, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        some = rows[first:last]
        if len(some):
            hidden[text] = table[some[some >= 0]].sum(0, dtype=np.float32) / np.float32(len(some))


def hidden_of_codes(
    rows: Numbers, ends: Places, codes: Bytes, centroids: Floats, norms: Floats, sub_dim: int, hidden: Floats
) -> None:
    """See ``classifier_kernels.hidden_of_codes``."""
    dim = hidden.shape[1]
    wanted, place = np.unique(rows[rows >= 0], return_inverse=True)
    table = np.zeros((len(wanted), dim), np.float32)
    for part in range(codes.shape[1]):
        start = part * sub_dim
        size = min(sub_dim, dim - start)
        places = part * 256 * sub_dim + codes[wanted, part].astype(np.int64)[:, None] * size + np.arange(size)
        table[:, start : start + size] = centroids[places]
    if len(norms):
        table *= norms[wanted, None]
    numbers = rows.copy()
    numbers[rows >= 0] = place
    hidden_of_texts(numbers, ends, table, hidden)


def tree_scores(nodes: Floats, left: Places, right: Places, added: float, scores: Floats) -> None:
    """See ``classifier_kernels.tree_scores``."""
    leaves = scores.shape[1]
    sums = np.zeros((len(scores), 2 * leaves), np.float32)
    for node in range(2 * leaves - 2, leaves - 1, -1):
        chance_N = nodes[:, node - leaves]
        for child, share in ((left[node - leaves], 1 - chance_N), (right[node - leaves], chance_N)):
            sums[:, child] = sums[:, node] + np.log(np.maximum(share + np.float32(added), np.float32(1e-30)))
    scores[:] = sums[:, :leaves]
