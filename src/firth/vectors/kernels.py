"""The word2vec and fastText kernels: a stretch of text, two matrices changed in place.

Skip-gram and CBOW (Mikolov et al. 2013a), negative sampling and hierarchical softmax (2013b),
subword bags (Bojanowski et al. 2017). One departure, for speed: in skip-gram all neighbours of a
centre share its noise words (Ji et al. 2016), so that a centre is a small matrix product; in
fastText's skip-gram the bag of a centre is summed once for all its neighbours.

Randomness is SplitMix64 counted from ``key``: per unit of text one number a token (subsampling),
then for each centre one number (its window) and one a noise word. Matrices have rows padded to
eight floats. Each kernel returns the sum of the losses it looked at (one centre in 64) and their
number. The twins in ``reference.py`` have the same signatures.
"""

from typing import Any

import numpy as np

from firth.vectors.lanes import SIX, compiled, fetch, gather, mixed, spread, surprise, update_hidden, update_pairs

GOLDEN = 0x9E3779B97F4A7C15
WATCHED = 64


@compiled
def subsample(tokens: Any, begin: int, end: int, keep: Any, state: Any, kept: Any) -> Any:
    """The words of a unit that survive (``keep`` in 2^-32; its last entry, 0, is for unknown words)."""
    count: Any = 0
    last = len(keep) - 1
    for place in range(begin, end):
        word = min(tokens[place], last)
        state += np.uint64(GOLDEN)
        kept[count] = word
        count += np.int64((mixed(state) >> np.uint64(32)) < keep[word])
    return count


@compiled
def draw_noise(noise: Any, bits: Any) -> Any:
    """A noise word by Walker's alias method: a column, and whether its own word or its alias."""
    column = np.int64(((bits >> np.uint64(32)) * np.uint64(len(noise))) >> np.uint64(32))
    own = np.int64((bits & np.uint64(0xFFFFFFFF)) < noise[column, 0])
    other = np.int64(noise[column, 1])
    return other + (column - other) * own  # no branch: it would be mispredicted half the time


@compiled
def choose_targets(
    word: int,
    rate: Any,
    noise: Any,
    negatives: int,
    path_starts: Any,
    path_nodes: Any,
    path_goals: Any,
    state: Any,
    outputs: Any,
    touched: Any,
    dim: int,
    targets: Any,
    goals: Any,
    rates: Any,
    at: int,
) -> int:
    """Fills in the targets of a word from ``at`` on: itself and noise, or its path in the tree.
    A noise word that is the word itself is passed over (rate 0), as in word2vec.c."""
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
    for place in range(at, num):
        row = targets[place]
        if len(touched):
            touched[row] = 1
        targets[place] = row * dim
        fetch(outputs, row * dim, dim)
    return num


@compiled
def most_targets(negatives: int, path_starts: Any) -> int:
    """Room for the targets of one word, padding included."""
    most = negatives + 1
    if not negatives:
        for word in range(len(path_starts) - 1):
            most = max(most, path_starts[word + 1] - path_starts[word])
    return (most + SIX - 1) // SIX * SIX


@compiled
def train_words(
    tokens: Any,
    starts: Any,
    keep: Any,
    noise: Any,
    path_starts: Any,
    path_nodes: Any,
    path_goals: Any,
    input_matrix: Any,
    output_matrix: Any,
    touched_inputs: Any,
    touched_outputs: Any,
    window: int,
    negatives: int,
    cbow: bool,
    rate: float,
    rate_slope: float,
    rate_floor: float,
    key: Any,
) -> tuple[float, int]:
    """word2vec over the units that begin at ``starts`` (the last entry is the end)."""
    dim = input_matrix.shape[1]
    inputs, outputs = input_matrix.reshape(-1), output_matrix.reshape(-1)
    longest = 1
    for unit in range(len(starts) - 1):
        longest = max(longest, starts[unit + 1] - starts[unit])
    kept = np.empty(longest + 1, np.int64)
    rows = np.empty(2 * window + 2, np.int64)
    slopes = np.zeros((2 * window + 2) * 8, np.float32)
    hidden, error = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    # Two sets of targets: one in use, one drawn ahead so that its rows are on their way.
    room = most_targets(negatives, path_starts)
    targets = np.zeros(2 * room + 8, np.int64)
    goals, rates = np.zeros(2 * room + 8, np.float32), np.zeros(2 * room + 8, np.float32)
    ends, spans = np.zeros(2, np.int64), np.zeros(2, np.int64)
    state = np.uint64(key)
    loss, watched, centres = 0.0, 0, 0
    for unit in range(len(starts) - 1):
        begin, end = starts[unit], starts[unit + 1]
        num = subsample(tokens, begin, end, keep, state, kept)
        state += np.uint64(GOLDEN) * np.uint64(end - begin)
        if len(touched_inputs) and num > 1:  # each word is then a neighbour of another
            for place in range(num):
                touched_inputs[kept[place]] = 1
        now = np.float32(max(rate - rate_slope * (begin - starts[0]), rate_floor))
        for ahead in range(num + 1):
            side = ahead & 1
            if ahead < num:
                if ahead + window < num:
                    fetch(inputs, kept[ahead + window] * dim, dim)
                state += np.uint64(GOLDEN)
                spans[side] = 1 + np.int64(((mixed(state) >> np.uint64(32)) * np.uint64(window)) >> np.uint64(32))
                ends[side] = choose_targets(
                    kept[ahead],
                    now,
                    noise,
                    negatives,
                    path_starts,
                    path_nodes,
                    path_goals,
                    state,
                    outputs,
                    touched_outputs,
                    dim,
                    targets,
                    goals,
                    rates,
                    side * room,
                )
                state += np.uint64(GOLDEN) * np.uint64(negatives)
            centre, side = ahead - 1, 1 - side
            if centre < 0:
                continue
            span, num_rows = spans[side], 0
            for place in range(max(0, centre - span), centre):
                rows[num_rows] = kept[place] * dim
                num_rows += 1
            for place in range(centre + 1, min(num, centre + span + 1)):
                rows[num_rows] = kept[place] * dim
                num_rows += 1
            if not num_rows:
                continue
            rows[num_rows] = rows[num_rows - 1]
            centres += 1
            watch = centres % WATCHED == 0
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
            watched += watch
    return loss, watched


@compiled
def add_bag(word: int, gram_starts: Any, gram_rows: Any, dim: int, rows: Any, num_rows: int) -> int:
    """Puts the rows of a word behind those that are there; returns how many there are now."""
    for place in range(gram_starts[word], gram_starts[word + 1]):
        rows[num_rows] = gram_rows[place] * dim
        num_rows += 1
    return num_rows


@compiled
def train_subwords(
    tokens: Any,
    starts: Any,
    keep: Any,
    noise: Any,
    path_starts: Any,
    path_nodes: Any,
    path_goals: Any,
    gram_starts: Any,
    gram_rows: Any,
    input_matrix: Any,
    output_matrix: Any,
    touched_inputs: Any,
    touched_outputs: Any,
    window: int,
    negatives: int,
    cbow: bool,
    rate: float,
    rate_slope: float,
    rate_floor: float,
    key: Any,
) -> tuple[float, int]:
    """fastText over the units that begin at ``starts``. Skip-gram: the bag of the centre predicts each
    neighbour against noise of its own; CBOW: the bags of all neighbours predict the centre."""
    dim = input_matrix.shape[1]
    inputs, outputs = input_matrix.reshape(-1), output_matrix.reshape(-1)
    longest, largest = 1, 1
    for unit in range(len(starts) - 1):
        longest = max(longest, starts[unit + 1] - starts[unit])
    for word in range(len(gram_starts) - 1):
        largest = max(largest, gram_starts[word + 1] - gram_starts[word])
    kept = np.empty(longest + 1, np.int64)
    rows = np.empty(2 * window * largest, np.int64)
    room = 2 * window * most_targets(negatives, path_starts) + 8
    targets = np.zeros(room, np.int64)
    goals, rates = np.zeros(room, np.float32), np.zeros(room, np.float32)
    slopes = np.zeros(8, np.float32)
    hidden, error = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    state = np.uint64(key)
    loss, watched, centres = 0.0, 0, 0
    for unit in range(len(starts) - 1):
        begin, end = starts[unit], starts[unit + 1]
        num = subsample(tokens, begin, end, keep, state, kept)
        state += np.uint64(GOLDEN) * np.uint64(end - begin)
        if len(touched_inputs) and num > 1:
            for place in range(num):
                for row in range(gram_starts[kept[place]], gram_starts[kept[place] + 1]):
                    touched_inputs[gram_rows[row]] = 1
        now = np.float32(max(rate - rate_slope * (begin - starts[0]), rate_floor))
        for centre in range(num):
            coming = centre + (window if cbow else 1)
            if coming < num:
                for place in range(gram_starts[kept[coming]], gram_starts[kept[coming] + 1]):
                    fetch(inputs, gram_rows[place] * dim, dim)
            state += np.uint64(GOLDEN)
            span = 1 + np.int64(((mixed(state) >> np.uint64(32)) * np.uint64(window)) >> np.uint64(32))
            first: Any = max(0, centre - span)
            last: Any = min(num, centre + span + 1)
            if last - first < 2:
                continue
            num_rows, num_targets = 0, 0
            for place in range(first, last):
                if cbow and place != centre:
                    num_rows = add_bag(kept[place], gram_starts, gram_rows, dim, rows, num_rows)
                if cbow == (place == centre):
                    num_targets = choose_targets(
                        kept[place],
                        now,
                        noise,
                        negatives,
                        path_starts,
                        path_nodes,
                        path_goals,
                        state,
                        outputs,
                        touched_outputs,
                        dim,
                        targets,
                        goals,
                        rates,
                        num_targets,
                    )
                    state += np.uint64(GOLDEN) * np.uint64(negatives)
            if not cbow:
                num_rows = add_bag(kept[centre], gram_starts, gram_rows, dim, rows, 0)
            centres += 1
            watch = centres % WATCHED == 0
            gather(inputs, rows, num_rows, hidden, error, dim)
            for block in range(0, num_targets, SIX):
                update_hidden(hidden, error, outputs, targets, goals, rates, block, slopes, dim)
                if watch and block == 0:
                    loss += surprise(slopes, rates, block)
            spread(inputs, rows, num_rows, error, dim)
            watched += watch
    return loss, watched


@compiled
def hash_words(text: Any, starts: Any, shortest: int, longest: int, bucket: int, ends: Any, found: Any) -> int:
    """The buckets of many words at once: ``text`` holds each word as UTF-8 between ``<`` and ``>``,
    ``starts`` where each begins. Writes where each word's buckets end into ``ends`` and the buckets
    into ``found`` as far as it has room; returns how many there are. Twin: subwords.word_buckets."""
    num = 0
    for word in range(len(starts) - 1):
        first, last = starts[word], starts[word + 1]
        for begin in range(first, last):
            if text[begin] & 0xC0 == 0x80:  # within a character
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
