"""The kernels of fastText's classifier (Joulin et al. 2016): the mean of a text's rows predicts its label.

One text after another: ``hidden`` is the mean of its rows, the loss gives what ``hidden`` should change by, and every
row gets that divided by the number of rows, as the original has it. Losses: softmax, a Huffman tree, negative
sampling (unigram^0.5, never the label itself) and one against all. Rows are padded to eight floats, labels to six
rows. The plain twins are in ``tests/unit/vectors/classifier_twins.py``.

**Threads.** A block is a stretch of texts, a part for each thread. Rows that only one thread touches in a block are changed in place;
of the others each thread has a copy (behind the table), and after the block their changes are put together in a fixed order. So the
same seed and number of threads give the same bytes. Which rows those are is known beforehand (``plan_block``).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.vectors.kernels import GOLDEN, draw_noise
from firth.vectors.lanes import (
    SIX,
    add,
    compiled,
    fetch,
    load,
    mixed,
    mul,
    muladd,
    splat,
    store,
    sub,
    surprise,
    total,
    totals,
    update_hidden,
)
from firth.vectors.line_kernels import Bytes, Hashes, Numbers, Places

Floats = NDArray[np.float32]
SOFTMAX, HIERARCHICAL, NEGATIVE, ONE_VS_ALL = 0, 1, 2, 3
WATCHED = 8  # one text in so many: its loss is looked at
MOST = 2.0  # see ``merge_row``


class Texts(NamedTuple):
    """What is learned from: the rows and labels of every text one after another, and where each text's end."""

    rows: Numbers
    row_ends: Places  # [N+1], from 0
    labels: Places
    label_ends: Places  # [N+1], from 0


class Output(NamedTuple):
    """The loss and what it draws from."""

    kind: int
    num_labels: int
    noise: Hashes  # [K, 2], an alias table
    negatives: int
    path_ends: Places  # [K+1], from 0: the inner nodes from each label to the root
    path_nodes: Numbers
    path_goals: Floats
    room: int  # output rows that one text may predict, padding included


@compiled
def mean_rows(inputs: Floats, places: Places, first: int, num: int, hidden: Floats, error: Floats, dim: int) -> None:
    """``hidden`` becomes the mean of the rows that begin at ``places``, ``error`` nothing."""
    share, zero = splat(np.float32(1.0) / np.float32(num)), splat(0.0)
    for t in range(0, dim, 8):
        store(hidden, t, load(inputs, places[first] + t))
        store(error, t, zero)
    for one in range(first + 1, first + num):
        for t in range(0, dim, 8):
            store(hidden, t, add(load(hidden, t), load(inputs, places[one] + t)))
    for t in range(0, dim, 8):
        store(hidden, t, mul(load(hidden, t), share))


@compiled
def add_to_rows(inputs: Floats, places: Places, first: int, num: int, error: Floats, dim: int) -> None:
    """Adds ``error`` divided by the number of rows to each of them."""
    share = splat(np.float32(1.0) / np.float32(num))
    for t in range(0, dim, 8):
        store(error, t, mul(load(error, t), share))
    for one in range(first, first + num):
        for t in range(0, dim, 8):
            store(inputs, places[one] + t, add(load(inputs, places[one] + t), load(error, t)))


@compiled
def softmax_scores(hidden: Floats, outputs: Floats, num_labels: int, scores: Floats, dim: int) -> None:
    """``scores`` become the probabilities of the labels; it has eight entries more than there are labels."""
    for label in range(0, num_labels, SIX):
        a0 = a1 = a2 = a3 = a4 = a5 = splat(0.0)
        row = label * dim
        for t in range(row, row + dim, 8):
            x = load(hidden, t - row)
            a0, a1 = muladd(x, load(outputs, t), a0), muladd(x, load(outputs, t + dim), a1)
            a2, a3 = muladd(x, load(outputs, t + 2 * dim), a2), muladd(x, load(outputs, t + 3 * dim), a3)
            a4, a5 = muladd(x, load(outputs, t + 4 * dim), a4), muladd(x, load(outputs, t + 5 * dim), a5)
        store(scores, label, totals(a0, a1, a2, a3, a4, a5))
    highest, summed = scores[0], np.float32(0.0)
    for label in range(num_labels):
        highest = max(highest, scores[label])
    for label in range(num_labels):
        scores[label] = np.exp(scores[label] - highest)
        summed += scores[label]
    for label in range(num_labels):
        scores[label] /= summed


@compiled
def update_softmax(
    hidden: Floats, error: Floats, outputs: Floats, num_labels: int, target: int, rate: float, scores: Floats, dim: int
) -> float:
    """One step of softmax: the rows of all labels change, ``error`` gets what ``hidden`` should change by."""
    softmax_scores(hidden, outputs, num_labels, scores, dim)
    right = scores[target]
    for label in range(num_labels):
        scores[label] = np.float32(rate) * (np.float32(label == target) - scores[label])
    for label in range(num_labels, num_labels + 8):
        scores[label] = 0.0
    for label in range(0, num_labels, SIX):
        g0, g1, g2 = splat(scores[label]), splat(scores[label + 1]), splat(scores[label + 2])
        g3, g4, g5 = splat(scores[label + 3]), splat(scores[label + 4]), splat(scores[label + 5])
        row = label * dim
        for t in range(row, row + dim, 8):
            x, e = load(hidden, t - row), load(error, t - row)
            c = load(outputs, t)
            e = muladd(g0, c, e)
            store(outputs, t, muladd(g0, x, c))
            c = load(outputs, t + dim)
            e = muladd(g1, c, e)
            store(outputs, t + dim, muladd(g1, x, c))
            c = load(outputs, t + 2 * dim)
            e = muladd(g2, c, e)
            store(outputs, t + 2 * dim, muladd(g2, x, c))
            c = load(outputs, t + 3 * dim)
            e = muladd(g3, c, e)
            store(outputs, t + 3 * dim, muladd(g3, x, c))
            c = load(outputs, t + 4 * dim)
            e = muladd(g4, c, e)
            store(outputs, t + 4 * dim, muladd(g4, x, c))
            c = load(outputs, t + 5 * dim)
            e = muladd(g5, c, e)
            store(outputs, t + 5 * dim, muladd(g5, x, c))
            store(error, t - row, e)
    return -np.log(max(float(right), 1e-7))


@compiled
def choose_outputs(
    output: Output,
    texts: Texts,
    text: int,
    chosen: int,
    rate: float,
    state: np.uint64,
    dim: int,
    targets: Places,
    goals: Floats,
    rates: Floats,
) -> int:
    """The output rows that a text predicts, each with its goal and rate, in sixes; returns how many."""
    num = 0
    if output.kind == HIERARCHICAL:
        for place in range(output.path_ends[chosen], output.path_ends[chosen + 1]):
            targets[num], goals[num] = output.path_nodes[place], output.path_goals[place]
            num += 1
    elif output.kind == NEGATIVE:
        targets[0], goals[0] = chosen, 1.0
        num = 1
        while num <= output.negatives:
            state += np.uint64(GOLDEN)
            other = draw_noise(output.noise, mixed(state))
            if other != chosen:
                targets[num], goals[num] = other, 0.0
                num += 1
    else:
        num = output.num_labels
        for label in range(num):
            targets[label], goals[label] = label, 0.0
        for place in range(texts.label_ends[text], texts.label_ends[text + 1]):
            goals[texts.labels[place]] = 1.0
    for place in range(num):
        targets[place] *= dim
        rates[place] = rate
    while num % SIX:
        targets[num], goals[num], rates[num] = targets[0], 0.0, 0.0
        num += 1
    return num


@compiled
def place_rows(
    texts: Texts, text: int, slots: Numbers, own: int, inputs: Floats, dim: int, places: Places, first: int
) -> None:
    """Where the rows of a text begin in the table, from ``first`` on; they are asked for ahead of their use. A row with a
    slot is read in the copies of this thread, which begin at row ``own``."""
    begin = texts.row_ends[text]
    for place in range(begin, texts.row_ends[text + 1]):
        row = int(texts.rows[place])
        if len(slots) and slots[row] >= 0:
            row = own + slots[row]
        places[first + place - begin] = row * dim
        fetch(inputs, row * dim, dim)


@compiled
def train_texts(
    texts: Texts,
    order: Places,
    rates: Floats,
    slots: Numbers,
    own: int,
    inputs: Floats,
    outputs: Floats,
    output: Output,
    dim: int,
    longest: int,
    key: np.uint64,
) -> tuple[float, int]:
    """One step for each text of ``order``, with a learning rate each; texts without rows or labels are passed over.
    A text with several labels predicts one of them, drawn anew each time (with one against all: all of them)."""
    places = np.empty(2 * longest + 2, np.int64)
    hidden, error = np.zeros(dim, np.float32), np.zeros(dim, np.float32)
    scores = np.zeros(output.num_labels + 8, np.float32)
    targets, slopes = np.zeros(output.room + 8, np.int64), np.zeros(8, np.float32)
    goals, speeds = np.zeros(output.room + 8, np.float32), np.zeros(output.room + 8, np.float32)
    loss, watched = 0.0, 0
    for ahead in range(len(order) + 1):
        side = ahead & 1
        if ahead < len(order):
            place_rows(texts, order[ahead], slots, own, inputs, dim, places, side * longest)
        if ahead == 0:
            continue
        text, side = order[ahead - 1], 1 - side
        num = texts.row_ends[text + 1] - texts.row_ends[text]
        num_labels = texts.label_ends[text + 1] - texts.label_ends[text]
        if num == 0 or num_labels == 0:
            continue
        state = mixed(key + np.uint64(GOLDEN) * np.uint64(text))
        pick = np.int64(((state >> np.uint64(32)) * np.uint64(num_labels)) >> np.uint64(32))
        chosen = texts.labels[texts.label_ends[text] + pick]
        rate = rates[ahead - 1]
        mean_rows(inputs, places, side * longest, num, hidden, error, dim)
        if output.kind == SOFTMAX:
            loss += update_softmax(hidden, error, outputs, output.num_labels, chosen, rate, scores, dim)
            watched += 1
        else:
            size = choose_outputs(output, texts, text, chosen, rate, state, dim, targets, goals, speeds)
            watch = ahead % WATCHED == 0
            for six in range(0, size, SIX):
                update_hidden(hidden, error, outputs, targets, goals, speeds, six, slopes, dim)
                if watch:
                    loss += surprise(slopes, speeds, six)
            watched += watch
        add_to_rows(inputs, places, side * longest, num, error, dim)
    return loss, watched


# -- several threads


@compiled
def plan_block(
    texts: Texts, order: Places, borders: Places, marks: Places, stamp: int, slots: Numbers, shared: Places
) -> int:
    """Finds the rows that more than one thread touches in a block: they get slots, and are listed in ``shared``. Thread t
    reads the texts of ``order`` from ``borders[t]`` to ``borders[t + 1]``; ``stamp`` grows by the number of threads with every block."""
    num = 0
    for part in range(len(borders) - 1):
        for place in range(borders[part], borders[part + 1]):
            text = order[place]
            for one in range(texts.row_ends[text], texts.row_ends[text + 1]):
                row = texts.rows[one]
                if marks[row] < stamp:
                    marks[row] = stamp + part
                elif marks[row] != stamp + part and slots[row] < 0:
                    slots[row] = num
                    shared[num] = row
                    num += 1
    return num


@compiled
def copy_shared(inputs: Floats, shared: Places, num: int, first: int, room: int, copies: int, dim: int) -> None:
    """Every thread's copies of the shared rows become equal to them; they begin at row ``first + t * room``."""
    for one in range(num):
        row = shared[one] * dim
        for copy in range(copies):
            goal = (first + copy * room + one) * dim
            for t in range(0, dim, 8):
                store(inputs, goal + t, load(inputs, row + t))


@compiled
def merge_row(
    table: Floats, row: int, copies: Floats, place: int, step: int, num: int, changes: Floats, dim: int
) -> None:
    """The row takes in the changes of its copies. Changes in different directions add up; where all go the same way,
    each thread has gone the whole way, and they are held to ``MOST`` times what one step of all would be."""
    parts = whole = zero = splat(0.0)
    for t in range(0, dim, 8):
        before, summed = load(table, row + t), zero
        for copy in range(num):
            change = sub(load(copies, place + copy * step + t), before)
            summed, parts = add(summed, change), muladd(change, change, parts)
        store(changes, t, summed)
        whole = muladd(summed, summed, whole)
    size = np.float32(total(whole))
    share = splat(min(np.float32(1.0), np.float32(MOST) * np.float32(total(parts)) / max(size, np.float32(1e-30))))
    for t in range(0, dim, 8):
        store(table, row + t, muladd(share, load(changes, t), load(table, row + t)))


@compiled
def merge_shared(
    inputs: Floats, shared: Places, begin: int, end: int, slots: Numbers, first: int, room: int, copies: int, dim: int
) -> None:
    """Shared rows from ``begin`` to ``end`` take in what all threads learned; they have no slots any more."""
    changes = np.empty(dim, np.float32)
    for one in range(begin, end):
        merge_row(inputs, shared[one] * dim, inputs, (first + one) * dim, room * dim, copies, changes, dim)
        slots[shared[one]] = -1


@compiled
def merge_outputs(outputs: Floats, copies: Floats, num: int, dim: int) -> None:
    """The rows of labels take in what all threads learned; the copies then equal them."""
    changes = np.empty(dim, np.float32)
    for row in range(0, len(outputs), dim):
        merge_row(outputs, row, copies, row, len(outputs), num, changes, dim)
        for copy in range(num):
            for t in range(0, dim, 8):
                store(copies, copy * len(outputs) + row + t, load(outputs, row + t))


_AHEAD = 12  # rows that are asked for before they are needed


@compiled
def hidden_of_texts(rows: Numbers, ends: Places, table: Floats, hidden: Floats) -> None:
    """``hidden`` [N, D] becomes the mean of each text's rows of ``table`` [R, D]; a row below 0 is one of zeros."""
    dim = table.shape[1]
    flat = table.reshape(-1)
    for text in range(len(ends) - 1):
        first, last = ends[text], ends[text + 1]
        for one in range(first, last):
            ahead = min(one + _AHEAD, len(rows) - 1)
            fetch(flat, max(int(rows[ahead]), 0) * dim, dim)
            if rows[one] >= 0:
                for t in range(dim):
                    hidden[text, t] += table[rows[one], t]
        if last > first:
            share = np.float32(1.0) / np.float32(last - first)
            for t in range(dim):
                hidden[text, t] *= share


@compiled
def hidden_of_codes(
    rows: Numbers, ends: Places, codes: Bytes, centroids: Floats, norms: Floats, sub_dim: int, hidden: Floats
) -> None:
    """The same from a product quantiser: byte m of a row names one of 256 pieces of ``sub_dim`` (the last one may be
    shorter); ``norms`` has a factor for each row, or is empty."""
    dim, num_subs = hidden.shape[1], codes.shape[1]
    for text in range(len(ends) - 1):
        first, last = ends[text], ends[text + 1]
        for one in range(first, last):
            row = rows[one]
            if row < 0:
                continue
            norm = norms[row] if len(norms) else np.float32(1.0)
            for part in range(num_subs):
                size = min(sub_dim, dim - part * sub_dim)
                place = part * 256 * sub_dim + np.int64(codes[row, part]) * size
                for t in range(size):
                    hidden[text, part * sub_dim + t] += norm * centroids[place + t]
        if last > first:
            share = np.float32(1.0) / np.float32(last - first)
            for t in range(dim):
                hidden[text, t] *= share


@compiled
def tree_scores(nodes: Floats, left: Places, right: Places, added: float, scores: Floats) -> None:
    """``scores`` [N, K] become the log-probabilities of the leaves from the probabilities of going right at each inner
    node [N, K-1]; ``added`` is added to each of these before its logarithm."""
    texts, leaves = scores.shape
    sums = np.zeros(2 * leaves, np.float32)
    for text in range(texts):
        sums[2 * leaves - 2] = 0.0
        for node in range(2 * leaves - 2, leaves - 1, -1):
            chance = nodes[text, node - leaves]
            sums[left[node - leaves]] = sums[node] + np.float32(np.log(max(1.0 - chance + added, 1e-30)))
            sums[right[node - leaves]] = sums[node] + np.float32(np.log(max(chance + added, 1e-30)))
        for leaf in range(leaves):
            scores[text, leaf] = sums[leaf]
