"""What fastText's classifier computes without Numba is what the kernels compute."""

import numpy as np
import pytest

from firth.vectors import classifier_kernels, line_kernels, plain
from firth.vectors.classifier import BEHIND_WORDS, EMPTY, type_buckets

TEXT = "</s>\nA dog saw  the dog\t.\n\n老师 看见 了 书 __label__x\nends </s> here, not there\n".encode()


def test_scan() -> None:
    data = np.frombuffer(TEXT, np.uint8)
    for ours, theirs in zip(plain.scan_lines(data), line_kernels.scan_lines(data), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_buckets() -> None:
    spellings = [b"</s>", b"dog", "老师".encode(), b"a"]
    found, ends = type_buckets(spellings, 2, 4, 1000)
    each = [[] if one == b"</s>" else plain.buckets_of(one, 2, 4, 1000) for one in spellings]
    assert found.tolist() == [number for some in each for number in some]
    assert ends.tolist() == np.cumsum([0, *map(len, each)]).tolist()


@pytest.mark.parametrize("missing", [BEHIND_WORDS, EMPTY, line_kernels.DROPPED])
@pytest.mark.parametrize("whole_table", [False, True])
def test_rows_and_means(missing: int, whole_table: bool) -> None:
    tokens, ends, begins, _, hashes = line_kernels.scan_lines(np.frombuffer(TEXT, np.uint8))
    is_word = np.ones(len(begins), np.bool_)
    is_word[-1] = False
    type_ends = np.arange(len(begins) + 1)
    type_rows = np.arange(len(begins), dtype=np.int32)
    keys = np.arange(0, 50, 3)
    rows = (len(begins) + np.arange(len(keys))).astype(np.int32)
    table = np.full(50, missing, np.int32)
    table[keys] = rows
    given = (ends, tokens, is_word, hashes, type_ends, type_rows, 3, 50, len(begins))
    more = (table if whole_table and missing else np.zeros(0, np.int32), keys, rows, missing)
    ours, theirs = plain.line_rows(*given, *more), line_kernels.line_rows(*given, *more)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    matrix = np.random.default_rng(0).standard_normal((len(begins) + 50, 8)).astype(np.float32)
    found = [np.zeros((len(ends) - 1, 8), np.float32) for _ in range(2)]
    plain.hidden_of_texts(*ours, matrix, found[0])
    classifier_kernels.hidden_of_texts(*theirs, matrix, found[1])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


@pytest.mark.parametrize("with_norms", [False, True])
def test_quantised(with_norms: bool) -> None:
    """Seven dimensions in pieces of two: the last is shorter."""
    random = np.random.default_rng(1)
    codes = random.integers(0, 256, (9, 4)).astype(np.uint8)
    centroids = random.standard_normal(256 * 7).astype(np.float32)
    norms = random.random(9).astype(np.float32) if with_norms else np.zeros(0, np.float32)
    rows, ends = np.asarray([0, 3, -1, 8, 3], np.int32), np.asarray([0, 3, 3, 5])
    found = [np.zeros((3, 7), np.float32) for _ in range(2)]
    for place, module in enumerate((plain, classifier_kernels)):
        module.hidden_of_codes(rows, ends, codes, centroids, norms, 2, found[place])  # type: ignore[attr-defined]
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_tree() -> None:
    left, right = np.asarray([1, 3]), np.asarray([2, 0])
    chances = np.random.default_rng(2).random((4, 2)).astype(np.float32)
    found = [np.zeros((4, 3), np.float32) for _ in range(2)]
    for place, module in enumerate((plain, classifier_kernels)):
        module.tree_scores(chances, left, right, 1e-5, found[place])  # type: ignore[attr-defined]
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(np.exp(found[0]).sum(1), 1, atol=1e-3)
