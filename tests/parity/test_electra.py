"""ELECTRA directories both ways, both parts: transformers reads what Firth writes, and Firth what transformers writes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, ElectraModel

import firth
from firth.core.config import parse_settings
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.tokenizers.pieces import Pieces

TEXTS = ["The old doctor found a broken clock near the river.", "老师看见了一本书。Anna sold 3.5 apples.", "a"]


@pytest.fixture(scope="module", params=["24", "32"], ids=["narrow-embeddings", "plain-embeddings"])
def electra_run(
    request: pytest.FixtureRequest,
    tiny_settings: list[str],
    corpus_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("electra") / "run"
    config = find_run_recipe("electra-tiny").override([*tiny_settings, "steps=3", f"embedding_dim={request.param}"])
    firth.pretrain(config, corpus=corpus_folder, out=folder)
    return folder


def read(model_class: type, folder: Path) -> torch.nn.Module:
    model, info = model_class.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    return model.eval()


@torch.inference_mode()
def same_numbers(folder: Path, theirs: torch.nn.Module, part: str) -> None:
    ours = firth.load(folder)
    for text in TEXTS:
        ids = torch.from_numpy(ours.pieces.encode(text).ids)[None]
        out = theirs(input_ids=ids, output_hidden_states=True)
        for layer, (one, other) in enumerate(zip(out.hidden_states, ours.layers(text).hidden, strict=True)):
            assert np.abs(one[0].numpy() - other).max() < 1e-4, f"layer {layer}"
        hidden = ours.encoder.last(Inputs(ids))
        if part == "replaced_head":
            assert float((out.logits - ours.replaced_head(hidden)).abs().max()) < 1e-4
        if part == "token_head":
            found = ours.token_head(hidden, ours.encoder.embeddings.tokens.weight)
            assert float((out.logits - found).abs().max()) < 1e-4


def test_transformers_reads_both_parts_of_a_run(electra_run: Path) -> None:
    same_numbers(electra_run, read(ElectraForPreTraining, electra_run), "replaced_head")
    same_numbers(electra_run / "generator", read(ElectraForMaskedLM, electra_run / "generator"), "token_head")


@pytest.mark.parametrize("embedding_size", [24, 32])
@pytest.mark.parametrize(
    ("model_class", "part"),
    [(ElectraForPreTraining, "replaced_head"), (ElectraForMaskedLM, "token_head"), (ElectraModel, "")],
)
def test_firth_reads_transformers(
    model_class: type, part: str, embedding_size: int, corpus_folder: Path, tmp_path: Path
) -> None:
    pieces = Pieces.load(corpus_folder / "tokenizer")
    model = model_class(
        ElectraConfig(
            vocab_size=pieces.vocab_size,
            embedding_size=embedding_size,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=64,
        )
    ).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path)
    pieces.save(tmp_path)
    same_numbers(tmp_path, model, part)


def test_the_generator_shares_the_tables(electra_run: Path) -> None:
    whole, part = firth.load(electra_run), firth.load(electra_run / "generator")
    for name, tensor in whole.encoder.embeddings.state_dict().items():
        assert torch.equal(tensor, part.encoder.embeddings.state_dict()[name]), name
    assert [len(found) for found in part.fill("The old [MASK] found it.", top=3)] == [3]
    with pytest.raises(firth.FirthError, match="no masked-token head"):
        whole.fill("The old [MASK] found it.")


def test_a_generator_of_another_width_is_refused(electra_run: Path, corpus_folder: Path, tmp_path: Path) -> None:
    settings = ["steps=1", "batch_size=4", "seq_len=32", "generator_ratio=0.5"]
    with pytest.raises(firth.FirthError, match="use the share that the base was trained with"):
        firth.pretrain(
            "electra-tiny",
            corpus=corpus_folder,
            out=tmp_path / "run",
            base=electra_run,
            settings=parse_settings(settings),
        )
    assert not (tmp_path / "run").exists()
