"""Vectors of an index: exact search is a matrix product, usearch finds nearly the same; readers while documents are added;
damaged files are named."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.core.types import unit_rows
from firth.retrieval import store
from firth.retrieval.search import SearchIndex
from sample_text import english

QUESTIONS = ["The old doctor found a broken clock.", "bread after the storm", "a red boat near the river"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors of all words of the sample texts."""
    path = tmp_path_factory.mktemp("vectors") / "words.txt"
    words = sorted({word.strip(".,!?").lower() for n in range(300) for word in english(n).split()} - {""})
    random = np.random.default_rng(3)
    rows = (f"{word} {' '.join(f'{x:.3f}' for x in random.standard_normal(16))}" for word in words)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("".join(f"{english(n)} {english(n + 1000)}\n" for n in range(400)), encoding="utf-8")
    return path


@pytest.mark.slow
def test_exact_search_is_a_matrix_product(vectors: Path, texts: Path, tmp_path: Path) -> None:
    firth.index(texts, tmp_path / "index", model=vectors, layout="line")
    lines, model = texts.read_text(encoding="utf-8").splitlines(), firth.load(vectors)
    rows = unit_rows(model.encode(lines))
    index = firth.load(tmp_path / "index")
    for question in QUESTIONS:
        cosines = rows @ unit_rows(model.encode([question]))[0]
        order = np.argsort(-cosines, kind="stable")[:20]
        hits = firth.search(index, question, top=20, mode="vectors")
        np.testing.assert_allclose([hit.cosine for hit in hits], cosines[order], atol=1e-6)
        assert {hit.id for hit in hits[:5]} <= {f"{texts}:{n + 1}" for n in order}
        both = firth.search(index, question, top=400, mode="both", weight=0.5)
        words = {hit.id: hit.score for hit in firth.search(index, question, top=400, mode="words")}
        near = {hit.id: hit.score for hit in firth.search(index, question, top=400, mode="vectors")}
        assert max(words.values()) == max(near.values()) == 1
        for hit in both[:30]:
            assert hit.score == pytest.approx(0.5 * (words.get(hit.id, 0) + near.get(hit.id, 0)))


@pytest.mark.slow
def test_graphs_find_nearly_the_same(
    vectors: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("usearch")
    for name, value in (("_SMALL", 64), ("_TOGETHER", 2), ("_GRAPHED", 200)):
        monkeypatch.setattr(store, name, value)
    monkeypatch.setattr("firth.retrieval.build._COMMITTED", 44)
    firth.index(texts, tmp_path / "exact", model=vectors, layout="line")
    firth.index(texts, tmp_path / "graph", model=vectors, layout="line", exact_up_to=100)
    exact, graph = (SearchIndex(tmp_path / name, firth.load) for name in ("exact", "graph"))
    assert not exact.state.graphs
    covered = [name for one in graph.record.graphs for name in one.parts]
    assert len(graph.state.graphs) >= 2
    assert any(len(one.parts) > 1 for one in graph.record.graphs)
    assert sorted(covered) == sorted(part.file.name for part in graph.record.parts if part.passages >= 64)
    assert len(covered) < len(graph.record.parts)
    asked = [english(5000 + n) for n in range(30)]
    pairs = list(zip(exact.rank(asked, mode="vectors"), graph.rank(asked, mode="vectors"), strict=True))
    assert np.mean([len(set(one) & set(other)) / 10 for one, other in pairs]) > 0.95
    firth.index([], tmp_path / "graph", delete=[pairs[0][0][0]])
    assert pairs[0][0][0] not in graph.rank(asked[:1], mode="vectors")[0]
    many = [f"{texts}:{number}" for number in range(95, 160) if f"{texts}:{number}" != pairs[0][0][0]]
    for name in ("exact", "graph"):  # a part is written again, and so is the graph that has it
        firth.index([], tmp_path / name, delete=many)
    lists = [index.rank(asked[1:], mode="vectors") for index in (exact, graph)]
    assert np.mean([len(set(one) & set(other)) / 10 for one, other in zip(*lists, strict=True)]) > 0.95
    assert {name for one in graph.record.graphs for name in one.parts} <= {
        part.file.name for part in graph.record.parts
    }
    monkeypatch.setitem(sys.modules, "usearch.index", None)  # not installed: the same index, exactly
    plain = SearchIndex(tmp_path / "graph", firth.load)
    assert not plain.state.graphs
    assert plain.rank(asked[1:], mode="vectors")[0] == exact.rank(asked[1:], mode="vectors")[0]


@pytest.mark.slow
def test_readers_while_documents_are_added(
    vectors: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_TOGETHER", 3)
    out = tmp_path / "index"
    (tmp_path / "first.txt").write_text("A purple zeppelin landed.\n", encoding="utf-8")
    firth.index(tmp_path / "first.txt", out, model=vectors, layout="line")
    program = (
        "import sys, firth\nfrom pathlib import Path\nfrom firth.retrieval.search import SearchIndex\nseen = set()\n"
        "index = SearchIndex(Path(sys.argv[1]), firth.load)\nprint('ready', flush=True)\n"
        "while index.record.num_documents < 241:\n"
        "    fresh = SearchIndex(Path(sys.argv[1]), firth.load)\n"
        "    for one in (index, fresh):\n"
        "        assert [hit.id for hit in one.search('purple zeppelin', mode='words')] == [sys.argv[2]]\n"
        "        assert one.record.num_documents == sum(len(part.gone_K) - part.gone_K.sum() for part in one.state.parts)\n"
        "        seen.add(one.record.num_documents)\nprint(len(seen))\n"
    )
    command = [sys.executable, "-c", program, str(out), f"{tmp_path / 'first.txt'}:1"]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    lines = texts.read_text(encoding="utf-8").splitlines()
    for number in range(12):
        (tmp_path / "more.txt").write_text("\n".join(lines[: 20 * (number + 1)]) + "\n", encoding="utf-8")
        firth.index(tmp_path / "more.txt", out, model=vectors, layout="line")
    for reader in readers:
        said, _ = reader.communicate(timeout=60)
        assert reader.returncode == 0
        assert int(said) >= 1


def test_one_writer_at_a_time(vectors: Path, texts: Path, tmp_path: Path) -> None:
    firth.index(texts, tmp_path / "index", layout="line")
    refused: list[str] = []

    def second() -> None:
        try:
            firth.index(texts, tmp_path / "index", layout="line")
        except FirthError as error:
            refused.append(str(error))

    with store.writing(tmp_path / "index", None):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "another process is changing this index" in refused[0]


@pytest.mark.parametrize("kind", ["part-*.safetensors", "gone-*.safetensors", "graph-*.usearch"])
def test_a_damaged_file_is_named(
    vectors: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pytest.importorskip("usearch")
    monkeypatch.setattr(store, "_SMALL", 100)
    out = tmp_path / "index"
    firth.index(texts, out, model=vectors, layout="line", exact_up_to=100)
    firth.index([], out, delete=f"{texts}:5")
    named = {one.name for one in store.read_record(out).files}
    path = next(path for path in out.glob(kind) if path.name in named)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(FirthError, match=f"{path.name}: damaged"):
        firth.search(out, "doctor")
    path.write_bytes(data[:100])
    with pytest.raises(FirthError, match=f"{path.name}: damaged"):
        firth.search(out, "doctor")
    path.unlink()
    with pytest.raises(FirthError, match=f"{path.name}: missing"):
        firth.search(out, "doctor")
    (out / "index.json").write_text("{", encoding="utf-8")
    with pytest.raises(FirthError, match=r"index\.json: not valid JSON"):
        firth.search(out, "doctor")


def test_another_model_is_refused(vectors: Path, texts: Path, tmp_path: Path) -> None:
    copy = tmp_path / "words.txt"
    copy.write_bytes(vectors.read_bytes())
    firth.index(texts, tmp_path / "index", model=copy, layout="line")
    copy.write_text(copy.read_text(encoding="utf-8").replace("0.1", "0.2"), encoding="utf-8")
    with pytest.raises(FirthError, match="not the model any more"):
        firth.search(tmp_path / "index", "doctor")
    with pytest.raises(FirthError, match="its vectors were made by"):
        firth.index(texts, tmp_path / "index", model=copy, layout="line")
    assert firth.search(tmp_path / "index", "doctor", mode="words")


def test_progress_is_told_while_vectors_are_made(vectors: Path, texts: Path, tmp_path: Path) -> None:
    events: list[dict[str, object]] = []
    firth.index(
        texts, tmp_path / "index", model=vectors, layout="line", progress=lambda event: events.append({**event})
    )
    encoded = [one["passages"] for one in events if one["event"] == "encoded"]
    assert encoded == [128, 256, 384, 400]
    assert events[-1]["event"] == "indexed"
