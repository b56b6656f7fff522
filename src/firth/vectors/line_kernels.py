"""From the bytes of many texts to the rows of a fastText classifier: words, their hashes, hashed n-grams of words.

Text is UTF-8, a line a text. Words end where the original's ``readWord`` ends them: at a space, tab, vertical tab, form
feed, carriage return, line feed or zero byte. The plain twins are in ``tests/unit/vectors/classifier_twins.py``.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firth.vectors.lanes import compiled

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int32]
Places = NDArray[np.int64]
Hashes = NDArray[np.uint32]
Scan = tuple[Numbers, Places, Places, Numbers, Hashes]
Kind = TypeVar("Kind", bound=np.generic)

MULTIPLIER = 116049371  # of hashed word n-grams (Dictionary::addWordNgrams)
DROPPED = -2  # in a list of rows by bucket: the n-gram was pruned; it does not count
EMPTY = -1  # the n-gram was not met in training: a row of zeros, which counts


@compiled
def is_space(byte: int) -> bool:
    return byte <= 32 and (byte == 32 or 9 <= byte <= 13 or byte == 0)


@compiled
def grown(array: NDArray[Kind], size: int) -> NDArray[Kind]:
    """A copy with room for ``size`` entries."""
    more = np.empty(size, array.dtype)
    more[: len(array)] = array
    return more


@compiled
def same_bytes(data: Bytes, one: int, other: int, size: int) -> bool:
    place = 0
    while place < size and data[one + place] == data[other + place]:
        place += 1
    return place == size


@compiled
def rehashed(hashes: Hashes, num: int, size: int) -> Numbers:
    """A table of ``size`` (a power of two) slots that holds the first ``num`` types."""
    slots = np.full(size, -1, np.int32)
    for one in range(num):
        slot = np.int64(hashes[one]) & (size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = one
    return slots


@compiled
def scan_lines(data: Bytes, room: int) -> Scan:
    """The tokens of all lines as numbers of types, by first occurrence.

    The first line must be ``</s>`` alone and is no text: so type 0 is the end of a line, which every line gets, and
    what follows ``</s>`` in a line is passed over, as the original does. Returns the tokens, where each line ends among
    them, and of each type its first byte, its size and its hash (32-bit FNV-1a over signed bytes).
    """
    tokens, num_tokens = np.empty(room, np.int32), 0
    ends, num_lines = np.empty(1024, np.int64), 0
    begins, sizes = np.empty(1024, np.int64), np.empty(1024, np.int32)
    hashes, num_types = np.empty(1024, np.uint32), 0
    slots = np.full(4096, -1, np.int32)
    place, ended = 0, False
    while place < len(data):
        byte = data[place]
        if is_space(byte):
            place += 1
            if byte != 10:
                continue
            if num_lines + 1 >= len(ends):
                ends = grown(ends, 2 * len(ends))
            if num_tokens + 1 >= len(tokens):
                tokens = grown(tokens, 2 * len(tokens))
            if not ended:
                tokens[num_tokens] = 0
                num_tokens += 1
            ends[num_lines] = num_tokens
            num_lines += 1
            ended = False
            continue
        begin, value = place, np.uint32(2166136261)
        while place < len(data) and not is_space(data[place]):
            signed = np.uint32(data[place])
            if signed >= 0x80:
                signed |= np.uint32(0xFFFFFF00)
            value = np.uint32((value ^ signed) * np.uint32(16777619))
            place += 1
        if ended:
            continue
        size = place - begin
        slot = np.int64(value) & (len(slots) - 1)
        found = slots[slot]
        while found >= 0:
            if hashes[found] == value and sizes[found] == size and same_bytes(data, begins[found], begin, size):
                break
            slot = (slot + 1) & (len(slots) - 1)
            found = slots[slot]
        if found < 0:
            if num_types == len(begins):
                begins, sizes = grown(begins, 2 * num_types), grown(sizes, 2 * num_types)
                hashes = grown(hashes, 2 * num_types)
            found = num_types
            begins[found], sizes[found], hashes[found] = begin, size, value
            slots[slot] = found
            num_types += 1
            if 2 * num_types > len(slots):
                slots = rehashed(hashes, num_types, 4 * len(slots))
        if num_tokens + 1 >= len(tokens):
            tokens = grown(tokens, 2 * len(tokens))
        tokens[num_tokens] = found
        num_tokens += 1
        ended = found == 0
    # the first line, which only names the end of a line, is no text
    skip = ends[0]
    return (
        tokens[skip:num_tokens].copy(),
        ends[:num_lines] - skip,
        begins[:num_types].copy(),
        sizes[:num_types].copy(),
        hashes[:num_types].copy(),
    )


@compiled
def count_ngrams(line_ends: Places, tokens: Numbers, is_word: Flags, longest: int) -> int:
    """How many n-grams of 2 to ``longest`` words there are in all lines."""
    total, words = 0, 0
    for line in range(1, len(line_ends)):
        words = 0
        for place in range(line_ends[line - 1], line_ends[line]):
            words += is_word[tokens[place]]
        for size in range(2, longest + 1):
            total += max(0, words - size + 1)
    return total


@compiled
def mark_ngrams(
    line_ends: Places, tokens: Numbers, is_word: Flags, hashes: Hashes, longest: int, bucket: int, marks: Numbers
) -> None:
    """Sets ``marks`` [bucket] to 1 where an n-gram of 2 to ``longest`` words falls."""
    most = 1
    for line in range(1, len(line_ends)):
        most = max(most, line_ends[line] - line_ends[line - 1])
    kept = np.empty(most, np.uint64)
    for line in range(1, len(line_ends)):
        words = _keep_hashes(line_ends[line - 1], line_ends[line], tokens, is_word, hashes, kept)
        for first in range(words):
            value = kept[first]
            for place in range(first + 1, min(words, first + longest)):
                value = value * np.uint64(MULTIPLIER) + kept[place]
                marks[np.int64(value % np.uint64(bucket))] = 1


@compiled
def _keep_hashes(
    begin: int, end: int, tokens: Numbers, is_word: Flags, hashes: Hashes, kept: NDArray[np.uint64]
) -> int:
    """The hashes of the words of a line, as the original adds them: 32 bits with their sign."""
    words = 0
    for place in range(begin, end):
        if is_word[tokens[place]]:
            kept[words] = np.uint64(np.int64(np.int32(hashes[tokens[place]])))
            words += 1
    return words


@compiled
def find_place(keys: Places, key: int) -> int:
    """Where ``key`` stands among rising ``keys``; -1 if it does not."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@compiled
def row_of_bucket(number: int, num_words: int, by_bucket: Numbers, keys: Places, rows: Numbers, missing: int) -> int:
    """The row of a bucket: by a whole table, by a sorted list, or right behind the words where there is neither.
    ``missing`` is what a bucket that is not in the list gives; with a list of no keys all are missing."""
    if len(by_bucket):
        return by_bucket[number]
    if missing == 0:
        return num_words + number
    place = find_place(keys, number)
    return rows[place] if place >= 0 else missing


@compiled
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
    """The rows of every line one after another, and where each line's end: those of its words (with their character
    n-grams), then those of its word n-grams (Dictionary::getLine). ``line_ends`` and ``type_ends`` begin with 0."""
    num_lines = len(line_ends) - 1
    ends = np.zeros(num_lines + 1, np.int64)
    total, most = 0, 1
    for line in range(num_lines):
        for place in range(line_ends[line], line_ends[line + 1]):
            total += type_ends[tokens[place] + 1] - type_ends[tokens[place]]
        most = max(most, line_ends[line + 1] - line_ends[line])
    if bucket and longest > 1:
        total += count_ngrams(line_ends, tokens, is_word, longest)
    found, num = np.empty(total, np.int32), 0
    kept = np.empty(most, np.uint64)
    for line in range(num_lines):
        begin, end = line_ends[line], line_ends[line + 1]
        for place in range(begin, end):
            for one in range(type_ends[tokens[place]], type_ends[tokens[place] + 1]):
                found[num] = type_rows[one]
                num += 1
        if bucket and longest > 1:
            words = _keep_hashes(begin, end, tokens, is_word, hashes, kept)
            for first in range(words):
                value = kept[first]
                for place in range(first + 1, min(words, first + longest)):
                    value = value * np.uint64(MULTIPLIER) + kept[place]
                    number = int(value % np.uint64(bucket))
                    row = row_of_bucket(number, num_words, by_bucket, keys, rows, missing)
                    if row != DROPPED:
                        found[num] = row
                        num += 1
        ends[line + 1] = num
    return found[:num], ends
