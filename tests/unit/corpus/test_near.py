"""Near duplicates: signatures estimate the overlap of sets, what nearly repeats is dropped, the rest is kept."""

from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.corpus import near
from firth.corpus import prepare as preparing
from firth.corpus.format import Corpus
from firth.corpus.near import NUM_HASHES, NearDuplicates, shingles, signatures
from sample_text import write_documents


def plain_shingles(text: str) -> set[str]:
    folded = " ".join(text.lower().split())
    return {folded[start : start + 9] for start in range(max(1, len(folded) - 8))}


def texts_of(path: Path) -> list[str]:
    return write_documents(path / "news.txt").read_text().splitlines()


def test_sets_of_sequences() -> None:
    assert len(shingles("The  Map of\nthe sea, the map of the sea")) == len(
        plain_shingles("the map of the sea, the map of the sea")
    )
    assert np.array_equal(shingles("A\tMap of  the sea"), shingles("a map of the sea"))
    assert len(shingles("短")) == 1
    assert not np.array_equal(shingles("短"), shingles("长"))


def test_the_share_of_equal_numbers_is_the_overlap() -> None:
    """For pairs of every similarity, within four deviations; together within a hundredth."""
    random = np.random.default_rng(5)
    letters = np.asarray(list("abcdefghijklmnopqrstuvwxyz 短文本章"))
    errors = []
    for _ in range(60):
        base = "".join(random.choice(letters, 600))
        cut = int(random.integers(0, 600))
        other = base[:cut] + "".join(random.choice(letters, 600 - cut))
        one, two = plain_shingles(base), plain_shingles(other)
        exact = len(one & two) / len(one | two)
        first, second = signatures([base.encode(), other.encode()])
        errors.append(float((first == second).mean()) - exact)
        assert abs(errors[-1]) <= 4 * (exact * (1 - exact) / NUM_HASHES) ** 0.5 + 1e-9
    assert abs(np.mean(errors)) < 0.02


@pytest.mark.parametrize("buffer", [1 << 16, 60])
def test_the_first_is_kept(buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where keys have become sorted runs."""
    monkeypatch.setattr(near, "_BUFFER", buffer)
    random = np.random.default_rng(6)
    letters = np.asarray(list("abcdefghijklmnop "))
    originals = ["".join(random.choice(letters, 400)) for _ in range(30)]
    repeats = [text[:395] + "other" for text in originals]
    halves = [text[:200] + "".join(random.choice(letters, 200)) for text in originals]
    seen = NearDuplicates(0.8)
    found = seen.add(signatures([text.encode() for text in (*originals, *repeats, *halves, *originals)]))
    assert found.tolist() == [False] * 30 + [True] * 30 + [False] * 30 + [True] * 30
    assert len(seen.kept) == 60


@pytest.mark.slow
def test_prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "_BLOCK_BYTES", 4000)
    documents = [f"{text} {text[::-1]}" for text in texts_of(tmp_path)[:60]]
    distinct = len({tuple(sorted(plain_shingles(text))) for text in documents})
    (tmp_path / "twice.txt").write_text(
        "".join(f"{text}\n" for text in [*documents, *(f"{one} x" for one in documents)])
    )
    settings = {"vocab_size": 400, "layout": "line", "heldout": 0.0}
    info = firth.prepare(tmp_path / "twice.txt", tmp_path / "near", near_duplicates=0.8, workers=1, **settings)  # type: ignore[arg-type]
    assert 1 < info.train.documents <= distinct
    assert info.duplicates_removed == 120 - info.train.documents
    two = firth.prepare(tmp_path / "twice.txt", tmp_path / "two", near_duplicates=0.8, workers=2, **settings)  # type: ignore[arg-type]
    assert two == info
    assert Corpus.open(tmp_path / "two").fingerprint == Corpus.open(tmp_path / "near").fingerprint
    with pytest.raises(FirthError, match=r"a similarity from 0\.22 .* to 1"):
        firth.prepare(tmp_path / "twice.txt", tmp_path / "bad", near_duplicates=1.5)
    with pytest.raises(FirthError, match="below it pairs are missed"):
        firth.prepare(tmp_path / "twice.txt", tmp_path / "bad", near_duplicates=0.2)


@pytest.mark.parametrize("threshold", [0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95, 1.0])
def test_pairs_at_the_threshold_are_found(threshold: float) -> None:
    """Of signatures that are just so much alike, at random places, at least 95 % (two deviations allowed)."""
    random, size = np.random.default_rng(8), 400
    first = random.integers(0, 2**32, (size, NUM_HASHES), np.uint32)
    equal = int(np.ceil(threshold * NUM_HASHES))
    second = random.integers(0, 2**32, (size, NUM_HASHES), np.uint32)
    for row in range(size):
        places = random.permutation(NUM_HASHES)[:equal]
        second[row, places] = first[row, places]
    seen = NearDuplicates(threshold)
    assert not seen.add(first).any()
    assert seen.add(second).mean() >= 0.95 - 2 * (0.95 * 0.05 / size) ** 0.5
    assert near.rows_of_bands(0.8) == 5
    assert near.rows_of_bands(0.2) is None
    assert next(n / 100 for n in range(1, 100) if near.rows_of_bands(n / 100) is not None) == near.LEAST_SIMILARITY
