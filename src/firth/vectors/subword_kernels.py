"""The fastText kernel (Bojanowski et al. 2017): the input is a bag of rows, the word's own and those
of its character n-grams. The twin in ``reference.py`` has the same signature."""

from typing import Any

import numpy as np

from firth.vectors.kernels import GOLDEN, WATCHED, choose_targets, most_targets, subsample
from firth.vectors.lanes import SIX, compiled, fetch, gather, mixed, spread, surprise, update_hidden


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
