"""Each kernel against its plain twin: same random numbers, same updates, step by step."""

from typing import Any

import numpy as np
import pytest
import vector_twins as reference

from firth.vectors import glove_kernels, kernels, merging
from firth.vectors.glove import cell_weights, glove_matrix
from firth.vectors.learners import padded
from firth.vectors.vocabulary import Bags, huffman_paths, keep_table, no_paths, noise_table

SIZE = 200


@pytest.fixture(scope="module")
def text() -> dict[str, Any]:
    """An epoch of random words, some unknown, in units of all lengths."""
    random = np.random.default_rng(1)
    counts = np.sort(random.integers(5, 500, SIZE))[::-1].copy()
    return {
        "tokens": random.choice(SIZE + 10, 3000).astype(np.int32),
        "starts": np.asarray([0, 1, 2, 400, 401, 900, 1500, 3000]),
        "keep": keep_table(counts, 1e-2),
        "noise": noise_table(counts, 0.75),
        "counts": counts,
        "bags": Bags(["".join(random.choice(list("abcdefghij"), 6)) for _ in range(SIZE)], 3, 6, 500),
    }


@pytest.mark.parametrize("negatives", [5, 2, 12, 0])
@pytest.mark.parametrize("cbow", [False, True])
@pytest.mark.parametrize("subwords", [False, True])
def test_an_epoch_of_kernel_and_twin_agree(text: dict[str, Any], negatives: int, cbow: bool, subwords: bool) -> None:
    paths = no_paths() if negatives else huffman_paths(text["counts"])
    bags = text["bags"]
    random = np.random.default_rng(2)
    results = []
    for module in (kernels, reference):
        random = np.random.default_rng(2)
        inputs, outputs = padded(bags.num_rows if subwords else SIZE, 20), padded(SIZE, 20)
        inputs[:, :20] = (random.random((len(inputs), 20)) - 0.5) / 5
        outputs[:, :20] = (random.random((SIZE, 20)) - 0.5) / 5
        touched = np.zeros(len(inputs), np.uint8), np.zeros(SIZE, np.uint8)
        tables = (text["tokens"], text["starts"], text["keep"], text["noise"], paths.starts, paths.nodes, paths.goals)
        extra = (bags.starts, bags.rows) if subwords else ()
        settings = (5, negatives, cbow, 0.025, 1e-6, 0.001, np.uint64(77))
        train = module.train_subwords if subwords else module.train_words
        loss = train(*tables, *extra, inputs, outputs, *touched, *settings)
        assert not inputs[:, 20:].any()
        results.append((inputs, outputs, *touched, loss))
    (inputs, outputs, in_marks, out_marks, loss), twin = results
    np.testing.assert_allclose(inputs, twin[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs, twin[1], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(in_marks, twin[2])
    assert (out_marks >= twin[3]).all()  # a target of a word without neighbours is marked in vain
    assert loss[1] == twin[4][1]
    assert loss[0] == pytest.approx(twin[4][0], rel=1e-5)


def test_sigmoid_is_exact_to_float32() -> None:
    from firth.vectors.lanes import compiled, load, sigmoid, store

    @compiled
    def run(scores: Any, found: Any) -> None:
        for place in range(0, len(scores), 8):
            store(found, place, sigmoid(load(scores, place)))

    scores = np.linspace(-20, 20, 8000).astype(np.float32)
    found = np.empty_like(scores)
    run(scores, found)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-scores.astype(np.float64))), rtol=0, atol=5e-7)


@pytest.mark.parametrize("copies", [2, 3, 8])
def test_merging_kernel_and_twin_agree(copies: int) -> None:
    random = np.random.default_rng(0)
    base = random.random((30, 16)).astype(np.float32)
    touched = (random.random((copies, 30)) < 0.5).astype(np.uint8)
    stack = np.stack([base] * copies)
    stack += random.random(stack.shape).astype(np.float32) * touched[..., None]
    results = []
    for module in (merging, reference):
        arrays = base.copy(), stack.copy(), touched.copy()
        module.merge_rows(*arrays, 0, 30)
        assert not arrays[2].any()
        assert (arrays[1] == arrays[0]).all()
        results.append(arrays[0])
    np.testing.assert_allclose(*results, rtol=1e-5)


@pytest.mark.parametrize("copies", [2, 8])
def test_different_changes_add_up_and_agreeing_ones_come_to_two_at_most(copies: int) -> None:
    base = np.zeros((2, 8), np.float32)
    stack = np.zeros((copies, 2, 8), np.float32)
    stack[:, 0, 0] = 1.0
    stack[:, 1] = np.eye(copies, 8)
    merging.merge_rows(base, stack, np.ones((copies, 2), np.uint8), 0, 2)
    np.testing.assert_allclose(base[0], [2, 0, 0, 0, 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(base[1], np.eye(copies, 8).sum(0), rtol=1e-6)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("limit", [40, 10_000])
def test_counting_kernel_and_twin_agree(text: dict[str, Any], symmetric: bool, limit: int) -> None:
    weights = np.asarray([0, 60, 30, 20, 15, 12])
    found = []
    for module in (glove_kernels, reference):
        total: dict[int, int] = {}
        token, stops = 0, []
        while token < 1500:
            table = np.full((1 << 15, 2), -1, np.int64)
            starts = text["starts"][:7]
            token, used = module.count_pairs(text["tokens"], starts, token, SIZE, weights, symmetric, table, 0, limit)
            assert used == (table[:, 0] >= 0).sum()
            stops.append(token)
            for key, value in table[table[:, 0] >= 0].tolist():
                total[key] = total.get(key, 0) + value
        found.append((total, stops))
    assert found[0] == found[1]


def test_cell_kernel_and_twin_agree() -> None:
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, 20, 400).astype(np.int32), random.integers(0, 20, 400).astype(np.int32)
    counts = random.random(400).astype(np.float32) * 200
    cells = rows, columns, np.log(counts), cell_weights(counts, 100, 0.75)
    results = []
    for module in (glove_kernels, reference):
        inputs, outputs = glove_matrix(20, 10, 11, 0, 0), glove_matrix(20, 10, 10, 0, 1)
        loss = module.train_cells(*cells, inputs, outputs, 10, 0.05)
        results.append((inputs, outputs, loss))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
