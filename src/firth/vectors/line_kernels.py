"""From the bytes of many texts to the rows of a fastText classifier: words, their hashes, hashed n-grams of words.

Text is UTF-8, one text per line. Words end where the original's ``readWord`` ends them: at a space, tab, vertical tab, form
feed, carriage return, line feed or zero byte. The plain twins are in ``tests/unit/vectors/classifier_twins.py``.
"""

import numpy as np
from numpy.typing import NDArray

from firth.vectors.lanes import compiled

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int32]
Places = NDArray[np.int64]
Hashes = NDArray[np.uint32]
Scan = tuple[Numbers, Places, Places, Numbers, Hashes]

MULTIPLIER = 116049371  # of hashed word n-grams (Dictionary::addWordNgrams)
DROPPED = -2  # in a list of rows by bucket: the n-gram was pruned; it does not count
EMPTY = -1  # the n-gram was not met in training: a row of zeros, which counts


@compiled
def is_space(byte: int) -> bool:
    return byte <= 32 and (byte == 32 or 9 <= byte <= 13 or byte == 0)


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
def scan_on(
    data: Bytes,
    state: Places,
    tokens: Numbers,
    ends: Places,
    begins: Places,
    sizes: Numbers,
    hashes: Hashes,
    slots: Numbers,
) -> None:
    """Goes on with a scan until the text ends or the table ``slots`` is half full. ``state``: the next byte, tokens, lines
    and types so far, and whether ``</s>`` was met in this line."""
    place, num_tokens, num_lines, num_types, ended = state[0], state[1], state[2], state[3], state[4]
    mask = len(slots) - 1
    while place < len(data) and 2 * num_types < mask:
        byte = data[place]
        if is_space(byte):
            place += 1
            if byte == 10:
                if not ended:
                    tokens[num_tokens] = 0
                    num_tokens += 1
                ends[num_lines] = num_tokens
                num_lines += 1
                ended = 0
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
        slot = np.int64(value) & mask
        while slots[slot] >= 0:
            found = slots[slot]
            if hashes[found] == value and sizes[found] == size:
                first, same = begins[found], 0
                while same < size and data[first + same] == data[begin + same]:
                    same += 1
                if same == size:
                    break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = num_types
            begins[num_types], sizes[num_types], hashes[num_types] = begin, size, value
            num_types += 1
        tokens[num_tokens] = slots[slot]
        ended = np.int64(slots[slot] == 0)
        num_tokens += 1
    state[0], state[1], state[2], state[3], state[4] = place, num_tokens, num_lines, num_types, ended


def scan_lines(data: Bytes) -> Scan:
    """The tokens of all lines as numbers of types, by first occurrence.

    The first line must be ``</s>`` alone and is no text: so type 0 is the end of a line, which every line gets, and
    what follows ``</s>`` in a line is passed over, as the original does. Returns the tokens, where each line ends among
    them, and of each type its first byte, its size and its hash (32-bit FNV-1a over signed bytes).
    """
    num_lines = int((data == 10).sum())
    room = len(data) // 2 + num_lines + 2  # never more; what is not used is never touched
    tokens, ends = np.empty(room, np.int32), np.empty(num_lines + 1, np.int64)
    begins, sizes, hashes = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.uint32)
    state, slots = np.zeros(5, np.int64), np.full(4096, -1, np.int32)
    while state[0] < len(data):
        scan_on(data, state, tokens, ends, begins, sizes, hashes, slots)
        if state[0] < len(data):
            slots = rehashed(hashes, int(state[3]), 4 * len(slots))
    num_types, skip = int(state[3]), int(ends[0])
    types = (begins[:num_types].copy(), sizes[:num_types].copy(), hashes[:num_types].copy())
    return tokens[skip : state[1]].copy(), ends[: state[2]] - skip, *types


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
