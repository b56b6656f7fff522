"""What an index answers after files were emptied, deleted, renamed or named in another way, and after it was made again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.evaluation.words import evaluate_index
from firth.retrieval import store
from firth.retrieval.search import SearchIndex
from firth.tasks.data import Reading

TEXTS = ["The zebra ran over the hill.", "The lion slept under a tree.", "The owl flew through the night."]


def write_vectors(path: Path, seed: int) -> Path:
    words = sorted({word.strip(".").lower() for text in TEXTS for word in text.split()})
    rows = np.random.default_rng(seed).standard_normal((len(words), 8))
    lines = (f"{word} {' '.join(f'{x:.3f}' for x in row)}" for word, row in zip(words, rows, strict=True))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    for name, text in zip("abc", TEXTS, strict=True):
        (made / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    return made


def ids(out: Path, question: str) -> list[str]:
    return [Path(hit.source).name for hit in firth.search(out, question, mode="words")]


# -- an index that was made again


@pytest.mark.parametrize("graphs", [False, True])
def test_an_open_index_sees_that_it_was_made_again(
    tmp_path: Path, graphs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new files have the names of the old ones."""
    settings: dict[str, object] = {}
    if graphs:
        pytest.importorskip("usearch")
        monkeypatch.setattr(store, "_SMALL", 2)
        settings = {"exact_up_to": 0}
    path, out = tmp_path / "texts.txt", tmp_path / "index"
    path.write_text("\n".join(TEXTS[:2]) + "\n", encoding="utf-8")
    firth.index(path, out, model=write_vectors(tmp_path / "one.txt", 1), layout="line", **settings)  # type: ignore[arg-type]
    opened = firth.load(out)
    first = SearchIndex(out, firth.load)
    assert [hit.text for hit in first.search("lion", top=1)] == [TEXTS[1]]
    before, graph = first.state.record.names, [one.graph for one in first.state.graphs]
    shutil.rmtree(out)
    path.write_text("\n".join(TEXTS[1:]) + "\n", encoding="utf-8")
    model = firth.load(write_vectors(tmp_path / "other.txt", 2))
    firth.index(path, out, model=tmp_path / "other.txt", layout="line", **settings)  # type: ignore[arg-type]
    assert store.read_record(out).names == before
    assert len(graph) == int(graphs)
    for mode in ("words", "vectors"):
        assert [hit.text for hit in first.search("owl flew", top=1, mode=mode)] == [TEXTS[2]]
    assert [hit.text for hit in firth.search(opened, "owl", top=1)] == [TEXTS[2]]
    assert not any(one.graph in graph for one in first.state.graphs)
    row = model.encode(["owl flew"])[0]
    np.testing.assert_allclose(first.encode(["owl flew"])[0], row / np.linalg.norm(row), atol=1e-6)


# -- files


def test_an_emptied_or_deleted_file_goes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "index"
    firth.index(folder, out)
    (folder / "a.txt").write_text("", encoding="utf-8")
    (folder / "b.txt").unlink()
    done = firth.index(folder, out)
    assert (done.deleted, done.unchanged, done.documents) == (2, 1, 1)
    assert ids(out, "zebra") == ids(out, "lion") == []
    assert ids(out, "owl") == ["c.txt"]
    (folder / "c.txt").write_text("", encoding="utf-8")
    assert firth.index(folder / "c.txt", out).documents == 0  # a file that is named itself
    with pytest.raises(FirthError, match="the file is empty"):  # nothing of it is in the index
        firth.index(folder / "c.txt", out)


def test_deleted_files_of_a_glob_and_of_other_folders(folder: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "index", tmp_path / "other"
    other.mkdir()
    (other / "d.txt").write_text("A whale sang.\n", encoding="utf-8")
    firth.index([folder, other], out)
    (folder / "a.txt").unlink()
    (other / "d.txt").unlink()
    assert firth.index(str(folder / "*.txt"), out).deleted == 1
    assert ids(out, "zebra") == []
    assert ids(out, "whale") == ["d.txt"]  # its folder was not named
    with pytest.raises(FirthError, match="no such file"):
        firth.index(folder / "a.txt", out)
    assert firth.index(other, out).deleted == 1


def test_documents_with_ids_that_moved_to_another_file_stay(folder: Path, tmp_path: Path) -> None:
    rows = [json.dumps({"text": text, "key": f"k{n}"}) for n, text in enumerate(TEXTS)]
    for path in folder.iterdir():
        path.unlink()
    (folder / "old.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    out = tmp_path / "index"
    firth.index(folder, out, id="key")
    (folder / "old.jsonl").unlink()
    (folder / "new.jsonl").write_text("\n".join(rows[:2]) + "\n", encoding="utf-8")
    done = firth.index(folder, out, id="key")
    assert (done.unchanged, done.deleted, done.documents) == (2, 1, 2)


def test_a_path_may_be_spelled_in_several_ways(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "index"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(folder)
    firth.index("notes/a.txt", out)
    for word in (folder / "a.txt", "./notes/../notes/a.txt", "link/a.txt"):
        done = firth.index(word, out)
        assert (done.added, done.unchanged, done.documents) == (0, 1, 1)
    assert [hit.id for hit in firth.search(out, "zebra")] == [f"{folder.resolve() / 'a.txt'}:1"]
    (tmp_path / "questions.tsv").write_text("question\tid\nzebra\tnotes/a.txt:1\n", encoding="utf-8")
    scores = evaluate_index(SearchIndex(out, firth.load), tmp_path / "questions.tsv", Reading(None, None))
    assert scores["words_recall_at_1"] == 1
    assert firth.index([], out, delete="notes/a.txt:1").deleted == 1
    firth.index(["notes/a.txt", "notes/b.txt"], out)
    assert firth.index([], out, delete="link/b.txt").deleted == 1


# -- weights and similarity


def test_both_means_both(folder: Path, tmp_path: Path) -> None:
    """A stored weight of 0 is for auto; who asks for both gets both."""
    out = tmp_path / "index"
    firth.index(folder, out, model=write_vectors(tmp_path / "words.txt", 1))
    for weight, used in ((0.0, 0.2), (1.0, 0.8), (0.4, 0.4)):
        with store.writing(out, None) as writer:
            writer.commit(weight=weight)
        index = SearchIndex(out, firth.load)

        def scores(index: SearchIndex = index, **settings: object) -> list[tuple[str, float]]:
            return [(hit.id, hit.score) for hit in index.search("the lion slept", **settings)]  # type: ignore[arg-type]

        assert scores(mode="both") == scores(weight=used)
        assert scores() == scores(mode="auto") == scores(weight=weight)
        assert scores(mode="both", weight=weight) == scores(weight=weight)


def test_a_model_that_asks_for_dot_products_gets_them(folder: Path, tmp_path: Path) -> None:
    """And not cosines, which others get."""
    run, out = tmp_path / "run", tmp_path / "index"
    examples = tmp_path / "texts.txt"
    examples.write_text("\n".join(3 * TEXTS) + "\n", encoding="utf-8")
    firth.finetune("embed", train=examples, base=write_vectors(tmp_path / "words.txt", 1), out=run, normalize=False)
    for similarity in ("dot", "cosine"):
        settings = json.loads((run / "config_sentence_transformers.json").read_text(encoding="utf-8"))
        settings["similarity_fn_name"] = similarity
        (run / "config_sentence_transformers.json").write_text(json.dumps(settings), encoding="utf-8")
        model = firth.load(run)
        rows, asked = model.encode(TEXTS), model.encode(["the lion ran"])[0]
        wanted = rows @ asked
        if similarity == "cosine":
            wanted /= np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
        firth.index(folder, out / similarity, model=run)
        hits = firth.search(out / similarity, "the lion ran", mode="vectors")
        order = np.argsort(-wanted)
        assert [hit.text for hit in hits] == [TEXTS[place] for place in order]
        np.testing.assert_allclose([hit.cosine for hit in hits], wanted[order], rtol=1e-3)
    assert abs(hits[0].cosine or 0) > 10 * np.abs(rows @ asked).max()  # the vectors are short
