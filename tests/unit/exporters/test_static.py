"""An encoder distilled into a table: the formulas, and that Firth, model2vec and sentence-transformers read the same."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import firth
from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.exporters import static
from firth.exporters.static import SIF, principal_components, zipf_weights
from sample_text import english

TEXTS = [english(number) for number in range(30)] + ["Zebra-striped kangaroos!"]


@pytest.fixture(scope="module")
def table(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    (folder / "texts.txt").write_text(
        "\n".join([*TEXTS, *(f"{n} kangaroos watched" for n in range(6))]) + "\n", encoding="utf-8"
    )
    firth.export(run_folder, folder / "table", to="static", data=folder / "texts.txt", dim=12)
    return folder / "table"


def test_principal_components() -> None:
    random = np.random.default_rng(0)
    rows = (random.standard_normal((200, 6)) * [5, 4, 3, 0.2, 0.1, 0.1] + 7).astype(np.float32)
    found, share = principal_components(rows, 3)
    centred = rows - rows.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(found), np.abs(left[:, :3] * sizes[:3]), atol=1e-3)
    assert share == pytest.approx((sizes[:3] ** 2).sum() / (sizes**2).sum(), rel=1e-5)


def test_zipf_weights() -> None:
    """Shares 1/2, 1/3, 1/4 of their sum 13/12, by hand."""
    np.testing.assert_allclose(zipf_weights(3), [SIF / (SIF + share) for share in (6 / 13, 4 / 13, 3 / 13)], rtol=1e-5)


def test_rows_are_the_model_on_single_tokens(run_folder: Path, tmp_path: Path) -> None:
    """All directions kept: inner products of centred rows are those of the model's vectors, but for the weights."""
    facts = firth.export(run_folder, tmp_path / "table", to="static", dim=1000)
    model, found = firth.load(run_folder), firth.load(tmp_path / "table")
    assert facts["frequencies"] == "zipf"
    words = ["doctor", "river", "the", "clock"]
    numbers = [model.pieces.id(word) for word in words]
    assert None not in numbers
    wanted = model.encode(words, pool="mean")
    rows = found.network.tokens.weight.detach().numpy()[numbers]
    kept = [n for n in range(model.pieces.vocab_size) if n not in model.pieces.special_ids]
    weights = zipf_weights(len(kept))[[kept.index(n) for n in numbers]]
    rows = rows / weights[:, None]
    distances = [[np.linalg.norm(one - other) for other in side] for side in (wanted, rows) for one in side]
    np.testing.assert_allclose(distances[:4], distances[4:], atol=1e-3)


def test_unused_places_of_a_vocabulary_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """They move neither the components nor the ranks of Zipf's law."""
    tokens = ["[PAD]", *(f"[unused{number}]" for number in range(40)), "[UNK]", "[CLS]", *(f"w{n}" for n in range(30))]
    rows = np.random.default_rng(1).standard_normal((len(tokens), 6)).astype(np.float32)
    rows[1:41] += 50
    monkeypatch.setattr(static, "_vectors", lambda model, asked: rows)

    class Vocabulary:
        vocab_size, special_ids, unk_id, token = len(tokens), [0, 42], 41, staticmethod(tokens.__getitem__)

    found, share = static.distil(None, Vocabulary(), [], [], 4)  # type: ignore[arg-type]
    assert not found[:43].any()
    wanted, explained = principal_components(rows[43:], 4)
    assert share == explained
    np.testing.assert_allclose(found[43:], wanted * zipf_weights(30)[:, None], rtol=1e-5)


def test_everyone_reads_the_same(table: Path) -> None:
    found = firth.load(table).encode(TEXTS)
    assert found.shape == (len(TEXTS), 12)
    np.testing.assert_allclose(SentenceTransformer(str(table), device="cpu").encode(TEXTS), found, atol=1e-5)
    model2vec = pytest.importorskip("model2vec")
    np.testing.assert_allclose(model2vec.StaticModel.from_pretrained(str(table)).encode(TEXTS), found, atol=1e-5)


def test_frequent_words_are_tokens_and_quality_is_stored(table: Path, run_folder: Path) -> None:
    config = read_json(table / "config.json")
    assert config["words"] >= 1
    assert config["frequencies"] == "counted"
    assert -1 <= config["quality"]["agreement"] <= 1
    assert config["quality"]["texts"] >= 30
    pieces = firth.load(table).pieces
    assert pieces.encode("kangaroos", add_special=False, read_special=False).tokens == ["kangaroos"]
    assert len(firth.load(run_folder).pieces.batch_ids(["kangaroos"])[0]) > 1


def test_as_word_vectors(table: Path, tmp_path: Path) -> None:
    firth.export(table, tmp_path / "table.vec")
    vectors, model = firth.load(tmp_path / "table.vec").vectors, firth.load(table)
    assert not any(word.startswith("##") for word in vectors.words)
    row = model.network.tokens.weight.detach().numpy()[model.pieces.id("doctor")]
    np.testing.assert_allclose(vectors["doctor"], row, atol=1e-5)


def test_refusals(table: Path, run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="exists already"):
        firth.export(run_folder, table, to="static")
    with pytest.raises(FirthError, match="from an encoder of pieces"):
        firth.export(table, tmp_path / "again", to="static")
    with pytest.raises(FirthError, match="no int8"):
        firth.export(run_folder, tmp_path / "again", to="static", int8=True)
    assert not (tmp_path / "again").exists()
