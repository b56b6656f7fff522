"""The word2vec and fastText kernels: they train two matrices in place on a part of the text.

Skip-gram and CBOW (Mikolov et al. 2013a), negative sampling and hierarchical softmax (2013b), bags of character
n-grams (Bojanowski et al. 2017). One deviation, for speed: in skip-gram all neighbours of a centre word share its
noise words (Ji et al. 2016), so that a centre word is a small matrix product; in fastText's skip-gram the bag of a
centre word is summed once for all its neighbours.

Random numbers are SplitMix64 counted from ``key``: in each unit of text one for each token (subsampling), then for
each centre word one (its window) and one for each noise word. A kernel returns the sum of the losses of one centre
word in 64, and how many those were. The tests have plain versions with the same signatures.

The innermost updates stay inside the two kernels, which makes these longer than a screen: with that block as a
function of its own CBOW took 20 % and skip-gram 14 % longer, and with the arrays in named tuples much longer still
(Numba counts references to every array at every call).

Shapes: V words, R input rows (words and n-grams), D dimensions padded to a multiple of eight. ``tokens`` [T] word
ids, ``starts`` [units+1], ``keep`` [V+1] and ``noise`` [V, 2] (see ``vocabulary.py``), ``path_starts`` [V+1] into
``path_nodes`` and ``path_goals``, ``gram_starts`` [V+1] into ``gram_rows``, ``input_matrix`` [R, D],
``output_matrix`` [V, D], ``touched_inputs`` [R] and ``touched_outputs`` [V] (or both empty: nothing is marked).
Offsets are row * D.
"""

import numpy as np
from numpy.typing import NDArray

from firth.vectors.lanes import (
    SIX,
    Floats,
    Offsets,
    compiled,
    fetch,
    gather,
    mixed,
    spread,
    surprise,
    update_hidden,
    update_pairs,
)

GOLDEN = 0x9E3779B97F4A7C15
WATCHED = 64  # the loss of one centre word in so many is added up

Ids = NDArray[np.int32]
Marks = NDArray[np.uint8]


@compiled
def longest_part(starts: Offsets) -> int:
    """The length of the longest part, at least 1."""
    longest = 1
    for part in range(len(starts) - 1):
        longest = max(longest, starts[part + 1] - starts[part])
    return longest


@compiled
def subsample(tokens: Ids, begin: int, end: int, keep: NDArray[np.uint64], state: np.uint64, kept: Offsets) -> int:
    """The words of a unit that are kept (``keep`` in 2^-32; its last entry, 0, is for unknown words)."""
    count = np.int64(0)
    last = len(keep) - 1
    for place in range(begin, end):
        word = min(tokens[place], last)
        state += np.uint64(GOLDEN)
        kept[count] = word
        count += np.int64((mixed(state) >> np.uint64(32)) < keep[word])
    return int(count)


@compiled
def draw_span(state: np.uint64, window: int) -> int:
    """How far the window of a centre word reaches: uniform in 1 .. ``window``."""
    return 1 + int(((mixed(state) >> np.uint64(32)) * np.uint64(window)) >> np.uint64(32))


@compiled
def draw_noise(noise: NDArray[np.uint32], bits: np.uint64) -> int:
    """A noise word by Walker's alias method: a column, and whether its own word or its alias."""
    column = np.int64(((bits >> np.uint64(32)) * np.uint64(len(noise))) >> np.uint64(32))
    own = np.int64((bits & np.uint64(0xFFFFFFFF)) < noise[column, 0])
    other = np.int64(noise[column, 1])
    return int(other + (column - other) * own)  # no branch: it would be mispredicted half the time


@compiled
def choose_targets(
    word: int,
    rate: np.float32,
    noise: NDArray[np.uint32],
    negatives: int,
    path_starts: Offsets,
    path_nodes: Ids,
    path_goals: Floats,
    state: np.uint64,
    targets: Offsets,
    goals: Floats,
    rates: Floats,
    at: int,
) -> int:
    """Writes the output rows that a word predicts from ``at`` on, padded to a multiple of six, and returns their end:
    the word and noise words, or its path in the tree. A noise word equal to the word gets rate 0 (word2vec.c skips
    it)."""
    num = at
    if negatives:
        targets[num], goals[num], rates[num] = word, 1.0, rate
        num += 1
        for _ in range(negatives):
            state += np.uint64(GOLDEN)
            other = draw_noise(noise, mixed(state))
            targets[num], goals[num] = other, 0.0
            rates[num] = np.float32(0.0) if other == word else rate
            num += 1
    else:
        for place in range(path_starts[word], path_starts[word + 1]):
            targets[num], goals[num], rates[num] = path_nodes[place], path_goals[place], rate
            num += 1
    while (num - at) % SIX:
        targets[num], goals[num], rates[num] = targets[at], 0.0, 0.0
        num += 1
    return num


@compiled
def fetch_targets(outputs: Floats, touched: Marks, dim: int, targets: Offsets, begin: int, end: int) -> None:
    """Turns the row numbers in ``targets`` [begin, end) into offsets, marks the rows and prefetches them."""
    for place in range(begin, end):
        row = targets[place]
        if len(touched):
            touched[row] = 1
        targets[place] = row * dim
        fetch(outputs, row * dim, dim)


@compiled
def most_targets(negatives: int, path_starts: Offsets) -> int:
    """The largest number of targets of one word, padding included."""
    most = negatives + 1
    if not negatives:
        most = max(most, longest_part(path_starts))
    return (most + SIX - 1) // SIX * SIX


@compiled
def mark_words(kept: Offsets, num: int, touched: Marks) -> None:
    """Marks the words of a unit as touched: if there are two, each is a neighbour of another."""
    if len(touched) and num > 1:
        for word in kept[:num]:
            touched[word] = 1


@compiled
def choose_neighbours(kept: Offsets, num: int, centre: int, span: int, dim: int, rows: Offsets) -> int:
    """Writes the offsets of the words within ``span`` of a centre word, the last one twice; returns their number."""
    if centre < 0:
        return 0
    num_rows = 0
    for place in range(max(0, centre - span), centre):
        rows[num_rows] = kept[place] * dim
        num_rows += 1
    for place in range(centre + 1, min(num, centre + span + 1)):
        rows[num_rows] = kept[place] * dim
        num_rows += 1
    if num_rows:
        rows[num_rows] = rows[num_rows - 1]
    return num_rows


@compiled
def train_words(
    tokens: Ids,
    starts: Offsets,
    keep: NDArray[np.uint64],
    noise: NDArray[np.uint32],
    path_starts: Offsets,
    path_nodes: Ids,
    path_goals: Floats,
    input_matrix: Floats,
    output_matrix: Floats,
    touched_inputs: Marks,
    touched_outputs: Marks,
    window: int,
    negatives: int,
    cbow: bool,
    rate: float,
    rate_slope: float,
    rate_floor: float,
    key: np.uint64,
) -> tuple[float, int]:
    """word2vec on the units that begin at ``starts`` (the last entry is the end)."""
    dim, room = input_matrix.shape[1], most_targets(negatives, path_starts)
    inputs, outputs = input_matrix.reshape(-1), output_matrix.reshape(-1)
    kept = np.empty(longest_part(starts) + 1, np.int64)
    rows, slopes = np.empty(2 * window + 2, np.int64), np.zeros((2 * window + 2) * 8, np.float32)
    hidden, error = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    # Two sets of targets: one in use, one drawn ahead so that its rows are prefetched.
    targets = np.zeros(2 * room + 8, np.int64)
    goals, rates = np.zeros(2 * room + 8, np.float32), np.zeros(2 * room + 8, np.float32)
    ends, spans = np.zeros(2, np.int64), np.zeros(2, np.int64)
    state, loss, watched, centres = np.uint64(key), 0.0, 0, 0
    for unit in range(len(starts) - 1):
        begin, end = starts[unit], starts[unit + 1]
        num = subsample(tokens, begin, end, keep, state, kept)
        state += np.uint64(GOLDEN) * np.uint64(end - begin)
        mark_words(kept, num, touched_inputs)
        now = np.float32(max(rate - rate_slope * (begin - starts[0]), rate_floor))
        for ahead in range(num + 1):
            side = ahead & 1
            if ahead < num:
                if ahead + window < num:
                    fetch(inputs, kept[ahead + window] * dim, dim)
                state += np.uint64(GOLDEN)
                spans[side], word, at = draw_span(state, window), kept[ahead], side * room
                ends[side] = choose_targets(
                    word, now, noise, negatives, path_starts, path_nodes, path_goals, state, targets, goals, rates, at
                )
                fetch_targets(outputs, touched_outputs, dim, targets, at, ends[side])
                state += np.uint64(GOLDEN) * np.uint64(negatives)
            side = 1 - side
            num_rows = choose_neighbours(kept, num, ahead - 1, spans[side], dim, rows)
            if not num_rows:
                continue
            centres += 1
            watch = centres % WATCHED == 0
            watched += watch
            if cbow:
                gather(inputs, rows, num_rows, hidden, error, dim)
            for first in range(side * room, ends[side], SIX):
                if cbow:
                    update_hidden(hidden, error, outputs, targets, goals, rates, first, slopes, dim)
                else:
                    update_pairs(inputs, rows, num_rows, outputs, targets, goals, rates, first, slopes, dim)
                if watch:
                    loss += surprise(slopes, rates, first)
            if cbow:
                spread(inputs, rows, num_rows, error, dim)
    return loss, watched


@compiled
def add_bag(word: int, gram_starts: Offsets, gram_rows: Ids, dim: int, rows: Offsets, num_rows: int) -> int:
    """Appends the offsets of a word's rows to ``rows``; returns their number."""
    for place in range(gram_starts[word], gram_starts[word + 1]):
        rows[num_rows] = gram_rows[place] * dim
        num_rows += 1
    return num_rows


@compiled
def mark_bags(kept: Offsets, num: int, gram_starts: Offsets, gram_rows: Ids, touched: Marks) -> None:
    """Marks the rows of the words of a unit as touched."""
    if len(touched) and num > 1:
        for word in kept[:num]:
            for place in range(gram_starts[word], gram_starts[word + 1]):
                touched[gram_rows[place]] = 1


@compiled
def fetch_bag(word: int, gram_starts: Offsets, gram_rows: Ids, matrix: Floats, dim: int) -> None:
    """Prefetches a word's rows."""
    for place in range(gram_starts[word], gram_starts[word + 1]):
        fetch(matrix, gram_rows[place] * dim, dim)


@compiled
def train_subwords(
    tokens: Ids,
    starts: Offsets,
    keep: NDArray[np.uint64],
    noise: NDArray[np.uint32],
    path_starts: Offsets,
    path_nodes: Ids,
    path_goals: Floats,
    gram_starts: Offsets,
    gram_rows: Ids,
    input_matrix: Floats,
    output_matrix: Floats,
    touched_inputs: Marks,
    touched_outputs: Marks,
    window: int,
    negatives: int,
    cbow: bool,
    rate: float,
    rate_slope: float,
    rate_floor: float,
    key: np.uint64,
) -> tuple[float, int]:
    """fastText on the units that begin at ``starts``. Skip-gram: the bag of the centre word predicts each
    neighbour against noise words of its own; CBOW: the bags of all neighbours predict the centre word."""
    dim, room = input_matrix.shape[1], 2 * window * most_targets(negatives, path_starts) + 8
    inputs, outputs = input_matrix.reshape(-1), output_matrix.reshape(-1)
    kept = np.empty(longest_part(starts) + 1, np.int64)
    rows, slopes = np.empty(2 * window * longest_part(gram_starts), np.int64), np.zeros(8, np.float32)
    hidden, error = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    targets, goals, rates = np.zeros(room, np.int64), np.zeros(room, np.float32), np.zeros(room, np.float32)
    state, loss, watched, centres = np.uint64(key), 0.0, 0, 0
    for unit in range(len(starts) - 1):
        begin, end = starts[unit], starts[unit + 1]
        num = subsample(tokens, begin, end, keep, state, kept)
        state += np.uint64(GOLDEN) * np.uint64(end - begin)
        mark_bags(kept, num, gram_starts, gram_rows, touched_inputs)
        now = np.float32(max(rate - rate_slope * (begin - starts[0]), rate_floor))
        for centre in range(num):
            coming = centre + (window if cbow else 1)
            if coming < num:
                fetch_bag(kept[coming], gram_starts, gram_rows, inputs, dim)
            state += np.uint64(GOLDEN)
            span = draw_span(state, window)
            first, last = max(0, centre - span), min(num, centre + span + 1)
            if last - first < 2:
                continue
            num_rows, at = 0, 0
            for place in range(first, last):
                word = kept[place]
                if cbow == (place != centre):
                    num_rows = add_bag(word, gram_starts, gram_rows, dim, rows, num_rows)
                    continue
                end_at = choose_targets(
                    word, now, noise, negatives, path_starts, path_nodes, path_goals, state, targets, goals, rates, at
                )
                fetch_targets(outputs, touched_outputs, dim, targets, at, end_at)
                at = end_at
                state += np.uint64(GOLDEN) * np.uint64(negatives)
            centres += 1
            watch = centres % WATCHED == 0
            watched += watch
            gather(inputs, rows, num_rows, hidden, error, dim)
            for first in range(0, at, SIX):
                update_hidden(hidden, error, outputs, targets, goals, rates, first, slopes, dim)
                if watch and first == 0:
                    loss += surprise(slopes, rates, first)
            spread(inputs, rows, num_rows, error, dim)
    return loss, watched


@compiled
def hash_words(
    text: Marks, starts: Offsets, shortest: int, longest: int, bucket: int, ends: Offsets, found: Offsets
) -> int:
    """The n-gram buckets of many words: ``text`` holds each word as UTF-8 between ``<`` and ``>``, ``starts`` [V+1]
    where each begins. Writes the end of each word's buckets to ``ends`` [V] and the buckets to ``found`` as far as it
    has room; returns their number. The plain version is ``vocabulary.word_buckets``."""
    num = 0
    for word in range(len(starts) - 1):
        first, last = starts[word], starts[word + 1]
        for begin in range(first, last):
            if text[begin] & 0xC0 == 0x80:  # a continuation byte of UTF-8
                continue
            value = np.uint32(2166136261)
            size, place = 0, begin
            while place < last and size < longest:
                size += 1
                whole = False
                while not whole:
                    byte = np.uint32(text[place])
                    if byte >= 0x80:
                        byte |= np.uint32(0xFFFFFF00)
                    value = np.uint32((value ^ byte) * np.uint32(16777619))
                    place += 1
                    whole = place == last or text[place] & 0xC0 != 0x80
                if size >= shortest and not (size == 1 and (begin == first or place == last)):
                    if num < len(found):
                        found[num] = value % np.uint32(bucket)
                    num += 1
        ends[word] = num
    return num
