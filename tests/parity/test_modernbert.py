"""ModernBERT directories both ways: every layer as transformers computes it."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, ModernBertConfig, ModernBertForMaskedLM

import firth
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.models.modernbert.format import held_by_modernbert
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder_model import EncoderModel

TEXTS = [
    "The old doctor found a broken clock near the river.",
    "老师看见了一本书。Anna sold 3.5 apples, didn't she?",
    "a",
]


@pytest.fixture(scope="module")
def run(tiny_settings: list[str], corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained far enough that norms are not one and no part is small."""
    out = tmp_path_factory.mktemp("runs") / "modern"
    config = find_run_recipe("modernbert-1m").override([*tiny_settings, "steps=6", "learning_rate=0.01"])
    firth.pretrain(config, corpus=corpus_folder, out=out)
    return out


def theirs_of(folder: Path) -> ModernBertForMaskedLM:
    theirs, info = ModernBertForMaskedLM.from_pretrained(folder, output_loading_info=True, attn_implementation="eager")
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    return theirs.eval()


@torch.inference_mode()
def agree(ours: EncoderModel, theirs: ModernBertForMaskedLM, ids: torch.Tensor) -> None:
    """Embeddings, every block, the final norm and the scores."""
    wanted = theirs(input_ids=ids, output_hidden_states=True)
    found = ours.encoder(Inputs(ids)).hidden
    assert len(wanted.hidden_states) == len(found)
    last = theirs.model(input_ids=ids).last_hidden_state
    for layer, hidden in enumerate([*wanted.hidden_states[:-1], last]):
        assert float((hidden - found[layer]).abs().max()) < 1e-4, layer
    assert ours.token_head is not None
    scores = ours.token_head(found[-1], ours.encoder.embeddings.tokens.weight)
    assert float((wanted.logits - scores).abs().max()) < 1e-4


def test_transformers_reads_a_run(run: Path) -> None:
    ours, theirs = firth.load(run), theirs_of(run)
    tokenizer = AutoTokenizer.from_pretrained(run)
    for text in TEXTS:
        ids = torch.from_numpy(ours.pieces.encode(text).ids)[None]
        assert tokenizer(text)["input_ids"] == ids[0].tolist()
        agree(ours, theirs, ids)


@torch.inference_mode()
def test_padding_and_the_auto_classes(run: Path) -> None:
    """What sentence-transformers does: a batch of texts by the tokenizer, and the mean of their tokens."""
    model, tokenizer = AutoModel.from_pretrained(run).eval(), AutoTokenizer.from_pretrained(run)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
    wanted = (hidden * mask).sum(1) / mask.sum(1)
    assert float((wanted - torch.from_numpy(firth.load(run).encode(TEXTS))).abs().max()) < 1e-4


@pytest.mark.parametrize("theta", [10_000.0, 160_000.0])
def test_firth_reads_transformers(run: Path, theta: float, tmp_path: Path) -> None:
    """A model of theirs with random weights, written by transformers itself."""
    torch.manual_seed(0)
    pieces = firth.load(run).pieces
    config = ModernBertConfig(
        vocab_size=pieces.vocab_size,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        pad_token_id=pieces.pad_id,
        layer_types=["full_attention"] * 3,
        rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": theta}},
        initializer_range=0.3,
        attn_implementation="eager",
    )
    theirs = ModernBertForMaskedLM(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs.save_pretrained(tmp_path)
    pieces.save(tmp_path, segments=False)
    ours = firth.load(tmp_path)
    assert ours.config.rotary_base == theta
    for text in TEXTS:
        agree(ours, theirs, torch.from_numpy(pieces.encode(text).ids)[None])


def test_pairs_need_no_segments(run: Path) -> None:
    """Two texts in one row are told apart by their special tokens."""
    assert firth.load(run).attention("one text", "another").weights.shape[0] == 2


@pytest.mark.parametrize("name", ["modernbert-1m", "modernbert-10m", "modernbert-1h", "modernbert-10h"])
def test_every_recipe_has_the_shape(name: str) -> None:
    config = find_run_recipe(name)
    assert isinstance(config.model, EncoderConfig)
    assert held_by_modernbert(config.model, {"token_head"}) == config.model
    assert config.model.hidden_dim == 64 * config.model.num_heads
