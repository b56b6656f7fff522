"""ERNIE directories both ways, with task ids; without tasks a run is a BERT directory."""

from pathlib import Path

import pytest
import torch
from transformers import BertForPreTraining, ErnieConfig, ErnieForPreTraining

import firth
from firth.core.files import read_json
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.tokenizers.pieces import Pieces

TEXT = "The old doctor found a broken clock near the river."


@torch.inference_mode()
def same_numbers(folder: Path, theirs: torch.nn.Module) -> None:
    ours = firth.load(folder)
    encoding = ours.pieces.encode(TEXT, "老师看见了一本书。")
    ids, segments = torch.from_numpy(encoding.ids)[None], torch.from_numpy(encoding.segments)[None]
    for task in range(3):
        tasks = torch.full_like(ids, task)
        out = theirs.eval()(input_ids=ids, token_type_ids=segments, task_type_ids=tasks)
        hidden = ours.encoder.last(Inputs(ids, segments=segments, tasks=tasks))
        found = ours.token_head(hidden, ours.encoder.embeddings.tokens.weight)
        assert float((out.prediction_logits - found).abs().max()) < 1e-4
        assert float((out.seq_relationship_logits - ours.pair_head(hidden[:, 0])).abs().max()) < 1e-4
    plain = theirs.ernie(input_ids=torch.from_numpy(ours.pieces.encode(TEXT).ids)[None]).last_hidden_state
    assert float((plain[0] - torch.from_numpy(ours.layers(TEXT).hidden[-1])).abs().max()) < 1e-4


def test_firth_reads_transformers(corpus_folder: Path, tmp_path: Path) -> None:
    pieces = Pieces.load(corpus_folder / "tokenizer")
    model = ErnieForPreTraining(
        ErnieConfig(
            vocab_size=pieces.vocab_size,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=64,
            use_task_id=True,
        )
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path)
    pieces.save(tmp_path)
    same_numbers(tmp_path, model)


@pytest.mark.parametrize("num_tasks", [0, 3])
def test_transformers_reads_a_run(
    tiny_settings: list[str], corpus_folder: Path, tmp_path: Path, num_tasks: int
) -> None:
    config = find_run_recipe("ernie-tiny").override([*tiny_settings, "steps=3", f"num_tasks={num_tasks}"])
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    assert (tmp_path / "run" / "heads.safetensors").is_file()
    model_class = ErnieForPreTraining if num_tasks else BertForPreTraining
    model, info = model_class.from_pretrained(tmp_path / "run", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    if num_tasks:
        same_numbers(tmp_path / "run", model)
    scores = firth.evaluate(tmp_path / "run", num_texts=2)
    assert read_json(tmp_path / "run" / "firth.json")["metrics"]["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    assert {"masked", "next_sentence", "sentence_order", "sentence_distance"} <= scores.keys()
