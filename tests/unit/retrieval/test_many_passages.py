"""Documents with very many passages: they leave room for the others, by words, by vectors, exactly and by graphs."""

from pathlib import Path

import numpy as np
import pytest

import firth
from firth.retrieval import store
from firth.retrieval.exact import best_of_each, best_rows, blocks_of, one_of_each
from firth.retrieval.search import SearchIndex
from sample_text import english

NOTES = 6


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A book whose every passage has the word, and some notes that have it too."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    book = " ".join(f"The clock struck the clock number {n}." for n in range(400))
    (folder / "book.txt").write_text(book, encoding="utf-8")
    for n in range(NOTES):
        (folder / f"note{n}.txt").write_text(f"{english(n)} A clock. {english(n + 50)}", encoding="utf-8")
    for n in range(10):
        (folder / f"other{n}.txt").write_text("Bread and butter were sold at the market.", encoding="utf-8")
    return folder


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    texts = [english(n) for n in range(60)]
    texts += ["The clock struck number. A clock", "Bread and butter were sold at the market"]
    words = sorted({word.strip(".,!?").lower() for text in texts for word in text.split()} - {""})
    rows = np.random.default_rng(3).standard_normal((len(words), 16))
    rows[[words.index(word) for word in ("clock", "struck", "number")]] *= 4
    lines = (f"{word} {' '.join(f'{x:.3f}' for x in row)}" for word, row in zip(words, rows, strict=True))
    path = tmp_path / "words.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def found_files(index: SearchIndex, mode: str, top: int) -> list[str]:
    hits = index.search("clock", top=top, mode=mode)
    assert index.rank(["clock"], top, mode) == [[hit.id for hit in hits]]
    assert len({hit.id for hit in hits}) == len(hits)
    return [Path(hit.source).stem for hit in hits]


@pytest.mark.parametrize("graphs", [False, True])
def test_a_long_document_hides_no_other(
    shelf: Path, vectors: Path, tmp_path: Path, graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firth.retrieval.rankings._DEPTH", 20)
    monkeypatch.setattr("firth.retrieval.rankings.BLOCK", 64)  # the book goes through several blocks
    settings: dict[str, object] = {}
    if graphs:
        pytest.importorskip("usearch")
        monkeypatch.setattr(store, "_SMALL", 64)
        settings = {"exact_up_to": 100}
    firth.index(shelf, tmp_path / "index", model=vectors, layout="file", passage_size=8, **settings)  # type: ignore[arg-type]
    index = SearchIndex(tmp_path / "index", firth.load)
    assert bool(index.state.graphs) is graphs
    assert index.record.num_passages > 400
    notes = {f"note{n}" for n in range(NOTES)}
    assert set(found_files(index, "words", NOTES + 1)) == notes | {"book"}
    for mode in ("vectors", "both"):
        assert len(found_files(index, mode, NOTES + 1)) == NOTES + 1
        assert set(found_files(index, mode, NOTES + 1)) == notes | {"book"}
    every = index.search("clock", top=50, mode="vectors", passages=True)
    assert [Path(hit.source).stem for hit in every].count("book") > 20


def test_the_score_of_a_document_is_that_of_its_best_passage(shelf: Path, vectors: Path, tmp_path: Path) -> None:
    firth.index(shelf, tmp_path / "index", model=vectors, layout="file", passage_size=8)
    index = SearchIndex(tmp_path / "index", firth.load)
    for mode in ("words", "vectors"):
        best: dict[str, float] = {}
        for hit in index.search("the clock at the market", top=2000, mode=mode, passages=True):
            score = hit.words if mode == "words" else hit.cosine
            assert score is not None
            best[hit.id] = max(best.get(hit.id, -2), score)
        found = {
            hit.id: hit.words if mode == "words" else hit.cosine
            for hit in index.search("the clock at the market", 2000, mode)
        }
        assert found == pytest.approx(best, abs=1e-6)
    question = index.encode(["the clock at the market"])[0]
    for hit in index.search("the clock at the market", 5, "both", weight=0.5):  # both are scores of the same passage
        assert hit.cosine == pytest.approx(float(index.encode([hit.text])[0] @ question), abs=1e-5)


@pytest.mark.parametrize("block", [1, 3, 7, 50])
def test_best_rows_of_owners(block: int) -> None:
    random = np.random.default_rng(1)
    rows, asked = random.standard_normal((40, 4)).astype(np.float32), random.standard_normal((3, 4)).astype(np.float32)
    owners = np.sort(random.integers(0, 9, 40))
    numbers, scores = best_rows(asked, blocks_of(rows, block), 4, owners)
    products = asked @ rows.T
    for row in range(3):
        wanted = sorted(((products[row, owners == one].max(), one) for one in set(owners.tolist())), reverse=True)[:4]
        assert owners[numbers[row]].tolist() == [one for _, one in wanted]
        np.testing.assert_allclose(scores[row], [score for score, _ in wanted], rtol=1e-5)


def test_best_of_each() -> None:
    scores, owners = np.asarray([[1, 3, 3, 0, 5], [2, 1, 0, 7, 6]], np.float32), np.asarray([4, 4, 4, 6, 6])
    best, places = best_of_each(scores, owners)
    assert best.tolist() == [[3, 5], [2, 7]]
    assert places.tolist() == [[1, 4], [0, 3]]
    assert best_of_each(np.zeros((2, 0), np.float32), np.zeros(0, np.int64))[1].shape == (2, 0)
    mixed = one_of_each(scores, np.asarray([[1, 2, 1, 2, 1], [1, 1, 1, 1, 2]]))
    assert np.isfinite(mixed).tolist() == [[False, True, False, False, True], [False, False, False, True, True]]


def test_each_graph_gives_enough_candidates(vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best may all lie in one of many graphs."""
    pytest.importorskip("usearch")
    for name, value in (("_SMALL", 32), ("_TOGETHER", 2), ("_GRAPHED", 40)):
        monkeypatch.setattr(store, name, value)
    monkeypatch.setattr("firth.retrieval.rankings._DEPTH", 20)
    monkeypatch.setattr("firth.retrieval.build._COMMITTED", 48)
    texts = ["Bread and butter were sold at the market."] * 1200
    texts[100:120] = [f"The clock struck number {n}." for n in range(20)]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    firth.index(tmp_path / "texts.txt", tmp_path / "index", model=vectors, layout="line", exact_up_to=100)
    index = SearchIndex(tmp_path / "index", firth.load)
    assert len(index.state.graphs) >= 20
    asked: list[int] = []
    for graph in index.state.graphs:
        plain = graph.graph.search

        def search(one: np.ndarray, count: int, plain: object = plain) -> object:
            asked.append(count)
            return plain(one, count)  # type: ignore[operator]

        monkeypatch.setitem(vars(graph), "graph", type("Counting", (), {"search": staticmethod(search)}))
    assert len({hit.id for hit in index.search("clock struck", top=15, mode="vectors") if "clock" in hit.text}) == 15
    assert min(asked) >= 30
