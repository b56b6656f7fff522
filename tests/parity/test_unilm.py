"""A UniLM run is a BERT directory with six segments: transformers gives the same layers and scores."""

from pathlib import Path

import torch
from transformers import BertForMaskedLM

import firth
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.models.unilm.model import UnilmModel


def test_transformers_reads_a_run(tiny_settings: list[str], corpus_folder: Path, tmp_path: Path) -> None:
    config = find_run_recipe("unilm-tiny").override([*tiny_settings, "steps=3"])
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    theirs, info = BertForMaskedLM.from_pretrained(tmp_path / "run", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    ours = firth.load(tmp_path / "run")
    assert isinstance(ours, UnilmModel)
    assert ours.token_head is not None
    ids = torch.randint(5, ours.pieces.vocab_size, (2, 16), generator=torch.Generator().manual_seed(0))
    segments = torch.arange(6).repeat(2, 3)[:, :16]  # every one of them
    with torch.inference_mode():
        wanted = theirs.eval()(input_ids=ids, token_type_ids=segments, output_hidden_states=True)
        layers = ours.encoder(Inputs(ids, segments=segments)).hidden
        scores = ours.token_head(layers[-1], ours.encoder.embeddings.tokens.weight)
    for one, other in zip(layers, wanted.hidden_states, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
    torch.testing.assert_close(scores, wanted.logits, atol=1e-4, rtol=0)
