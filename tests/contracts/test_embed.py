"""Sentence vectors learned from every form of examples; a run is a directory that sentence-transformers opens."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import firth
from firth.core.errors import FirthError
from firth.core.run import Run
from firth.data.labelled import Columns
from firth.data.sentences import SentenceData, SentenceExample, read_sentence_data
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.sentences import SentenceConfig, SentenceModules
from firth.models.shared.static import StaticModel
from firth.tasks.embed.config import EmbedConfig
from firth.tasks.embed.run import build_network
from firth.tasks.embed.training import EmbedTraining, SentenceNetwork
from sample_text import english

TEXTS = [english(number) for number in range(40)]
LABELS = ("entailment", "neutral", "contradiction")
ROWS = {
    "pairs": ("anchor\tpositive", lambda n: f"{TEXTS[n]}\t{TEXTS[n].lower()} indeed"),
    "triplets": ("anchor\tpositive\tnegative", lambda n: f"{TEXTS[n]}\t{TEXTS[n]} yes\t{TEXTS[n - 1]}"),
    "scores": ("sentence1\tsentence2\tscore", lambda n: f"{TEXTS[n]}\t{TEXTS[n - n % 3]}\t{5 - 2.5 * (n % 3 > 0)}"),
    "nli": ("premise\thypothesis\tlabel", lambda n: f"{TEXTS[n // 3]}\t{TEXTS[n]}\t{LABELS[n % 3]}"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sentences")
    found = {"text": folder / "texts.txt"}
    found["text"].write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    for name, (header, row) in ROWS.items():
        found[name] = folder / f"{name}.tsv"
        found[name].write_text("\n".join([header, *(row(n) for n in range(24))]) + "\n", encoding="utf-8")
    return found


@pytest.mark.parametrize("name", ["text", *ROWS])
def test_form_is_found(files: dict[str, Path], name: str) -> None:
    data = read_sentence_data(files[name], Columns())
    assert data.form == name
    assert all((one.second is None) == (name == "text") for one in data.examples)
    assert all(one.negatives for one in data.examples) == (name == "triplets")


@pytest.mark.parametrize(
    ("form", "settings"),
    [
        ("pairs", {"negatives": "bm25"}),
        ("pairs", {"negatives": "model", "widths": (16, 8)}),
        ("triplets", {}),
        ("scores", {}),
        ("scores", {"loss": "cosine"}),
        ("nli", {}),
        ("nli", {"loss": "softmax", "pool": "cls"}),
        ("text", {}),
        ("text", {"loss": "tsdae"}),
    ],
    ids=str,
)
def test_run_is_a_sentence_transformer(
    files: dict[str, Path], run_folder: Path, tmp_path: Path, form: str, settings: dict[str, object]
) -> None:
    out = tmp_path / "run"
    given = {"base": run_folder, "train": files[form], "dev": files["scores"], "out": out, "batch_size": 8, "epochs": 1}
    model = firth.finetune("embed", **given, **settings)
    vectors = model.encode(TEXTS)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert np.abs(vectors - firth.load(run_folder).encode(TEXTS, pool="mean")).max() > 1e-3
    np.testing.assert_allclose(SentenceTransformer(str(out), device="cpu").encode(TEXTS), vectors, atol=1e-5)
    record = Run.open(out).record
    assert (record.kind, record.status, set(record.metrics)) == ("embed", "finished", {"spearman"})


SIZES = {"num_layers": 1, "hidden_dim": 32, "num_heads": 2, "ffn_dim": 48, "max_positions": 48, "seq_len": 32}


@pytest.mark.parametrize("recipe", ["modernbert-1m", "electra-mini", "ernie-tiny", "unilm-mini"])
def test_other_encoders(files: dict[str, Path], corpus_folder: Path, tmp_path: Path, recipe: str) -> None:
    firth.pretrain(recipe, corpus=corpus_folder, out=tmp_path / "base", steps=1, batch_size=4, **SIZES)
    model = firth.finetune("embed", base=tmp_path / "base", train=files["pairs"], out=tmp_path / "run", epochs=1)
    found = SentenceTransformer(str(tmp_path / "run"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, model.encode(TEXTS), atol=1e-5)


def test_word_vectors_by_sif(files: dict[str, Path], words_folder: Path, tmp_path: Path) -> None:
    base = firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "vectors", dim=16, min_count=1)
    model = firth.finetune(
        "embed", base=tmp_path / "vectors", train=files["text"], out=tmp_path / "sif", normalize=False
    )
    np.testing.assert_allclose(
        SentenceTransformer(str(tmp_path / "sif"), device="cpu").encode(TEXTS), model.encode(TEXTS), atol=1e-5
    )
    assert isinstance(base, StaticModel)
    read = [one.text for one in read_sentence_data(files["text"], Columns()).examples]
    words = [[word for word in base._cut(text)[0] if base._row(word) is not None] for text in read]
    counts = Counter(word.lower() for some in words for word in some)
    total = counts.total() + sum(word not in counts for word in base.vectors.words) + 2  # never met counts as once

    def row(word: str) -> np.ndarray:
        found = base._row(word)
        assert found is not None
        return 1e-3 / (1e-3 + counts[word.lower()] / total) * found

    weighted = np.stack([np.mean([row(word) for word in some], 0) for some in words])
    first = np.linalg.svd(weighted, full_matrices=False)[2][0]
    np.testing.assert_allclose(model.encode(read), weighted - np.outer(weighted @ first, first), atol=1e-5)


def test_table_learns_from_pairs(files: dict[str, Path], words_folder: Path, tmp_path: Path) -> None:
    firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "vectors", dim=16, min_count=1)
    out = tmp_path / "run"
    model = firth.finetune("embed", base=tmp_path / "vectors", train=files["pairs"], out=out, epochs=1)
    np.testing.assert_allclose(
        SentenceTransformer(str(out), device="cpu").encode(TEXTS), model.encode(TEXTS), atol=1e-5
    )


def test_cached_gradients_are_those_of_the_whole(run_folder: Path) -> None:
    model = firth.load(run_folder)
    assert isinstance(model, EncoderModel)
    network = SentenceNetwork(model.reader(), SentenceModules(SentenceConfig(), torch.nn.Sequential()))
    rows = [model.pieces.encode(text).ids[:40] for text in TEXTS[:12]]
    found = []
    for most in (100_000, 30):
        network.zero_grad()
        (network.vectors(rows, most).square().sum(1) ** 1.5).sum().backward()
        found.append(torch.cat([one.grad.flatten() for one in network.parameters() if one.grad is not None]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


def raw(run_folder: Path, loss: str, **settings: float) -> EmbedTraining:
    model = firth.load(run_folder)
    config = EmbedConfig(form="text", loss=loss, batch_size=32, epochs=1, **settings)
    data = SentenceData("text", [SentenceExample(text) for text in TEXTS])
    network = build_network(config, loss, model, model.reader())
    network.train()
    return EmbedTraining(config, loss, network, data, None)


def test_dropout_is_the_only_change(run_folder: Path) -> None:
    training = raw(run_folder, "simcse", dropout_prob=0.1)
    batch = training.batch(0)
    np.testing.assert_array_equal(batch.arrays["first"], batch.arrays["second"])
    rows = [training.rows[number] for number in batch.arrays["first"].tolist()]
    both = training.network.vectors([*rows, *rows], 10**6)
    assert float((both[: len(rows)] - both[len(rows) :]).abs().max()) > 1e-3
    training.network.eval()
    both = training.network.vectors([*rows, *rows], 10**6)
    torch.testing.assert_close(both[: len(rows)], both[len(rows) :])


def test_whole_words_are_deleted(run_folder: Path) -> None:
    training = raw(run_folder, "tsdae", delete_prob=0.6)
    reader = training.network.reader
    edges = reader.frame.size(False)
    shares = []
    for number in range(40):
        arrays = training.batch(number).arrays
        kept = np.split(arrays["sources"], np.cumsum(arrays["source_lens"])[:-1])
        whole = np.split(arrays["targets"], np.cumsum(arrays["target_lens"])[:-1])
        for source, target in zip(kept, whole, strict=True):
            found = reader.tokenize(
                next(text for text in TEXTS if reader.tokenize(text).ids.tolist() == target.tolist())
            )
            words = [found.ids[found.words == word].tolist() for word in dict.fromkeys(found.words.tolist())]
            left = source[len(reader.frame.before) : len(source) - len(reader.frame.after)].tolist()
            for word in words:  # in their order, each whole or gone
                if left[: len(word)] == word:
                    left = left[len(word) :]
            assert left == []
            shares.append((len(source) - edges) / len(target))
            assert shares[-1] > 0
    assert np.mean(shares) == pytest.approx(0.4, abs=0.06)


def test_refusals(files: dict[str, Path], run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="learns from scores, and these are pairs"):
        firth.finetune("embed", base=run_folder, train=files["pairs"], out=tmp_path / "run", loss="cosine")
    with pytest.raises(FirthError, match="widths: 999 is more than"):
        firth.finetune("embed", base=run_folder, train=files["pairs"], out=tmp_path / "run", widths=(999,))
    with pytest.raises(FirthError, match="needs a base"):
        firth.finetune("embed", train=files["pairs"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
