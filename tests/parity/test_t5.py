"""T5 directories both ways, plain and gated: transformers reads what Firth writes, and Firth what transformers writes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

import firth
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder, EncoderDecoderStepper
from firth.models.shared.translation_model import TranslationModel
from firth.models.t5.format import is_t5, load_t5, save_t5
from firth.models.t5.model import T5Model

V = 41
IDS = {"pad_id": 0, "eos_id": 1, "start_id": 0}


def theirs(folder: Path, **changes: Any) -> T5ForConditionalGeneration:
    config = T5Config(
        vocab_size=V,
        d_model=16,
        d_kv=6,
        d_ff=24,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=4,
        decoder_start_token_id=0,
        **changes,
    )
    torch.manual_seed(1)
    model = T5ForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model


def compare(ours: EncoderDecoder, other: T5ForConditionalGeneration) -> None:
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(2, V, (3, 20), generator=generator)  # far enough for logarithmic buckets
    tokens = torch.arange(20) < torch.tensor([20, 9, 3])[:, None]
    target = torch.randint(2, V, (3, 18), generator=generator)
    target[:, 0] = 0
    with torch.inference_mode():
        inputs = {"input_ids": source, "attention_mask": tokens.long(), "decoder_input_ids": target}
        wanted = other(**inputs, output_hidden_states=True)
        hidden = ours.hidden(source, tokens, target)
        found = ours.scores(hidden)
        memory = ours.last(Inputs(source, tokens))
        layers = ours(Inputs(source, tokens)).hidden
        stepper = EncoderDecoderStepper(ours, source, tokens)
        state = stepper.start(3)
        for place in range(18):
            step, state = stepper.step(target[:, place], state)
            torch.testing.assert_close(step, found[:, place].log_softmax(-1), atol=1e-4, rtol=0)
    torch.testing.assert_close(found, wanted.logits, atol=1e-4, rtol=0)
    torch.testing.assert_close(memory[tokens], wanted.encoder_last_hidden_state[tokens], atol=1e-4, rtol=0)
    last = hidden / ours.config.output_scale  # theirs is scaled later
    torch.testing.assert_close(last, wanted.decoder_hidden_states[-1], atol=1e-4, rtol=0)
    for one, other_one in zip(layers, wanted.encoder_hidden_states, strict=True):
        torch.testing.assert_close(one[tokens], other_one[tokens], atol=1e-4, rtol=0)


def load(folder: Path) -> EncoderDecoder:
    config, weights, ids = load_t5(folder)
    assert ids["start_id"] == ids["pad_id"]
    assert is_t5(config)
    model = EncoderDecoder(config)
    model.load_state_dict(weights)
    return model.eval()


@pytest.mark.parametrize(
    "changes", [{}, {"feed_forward_proj": "gated-gelu"}, {"feed_forward_proj": "gated-silu"}], ids=str
)
def test_firth_reads_what_transformers_writes(changes: dict[str, Any], tmp_path: Path) -> None:
    other = theirs(tmp_path, **changes)
    ours = load(tmp_path)
    compare(ours, other)
    again = tmp_path / "again"
    again.mkdir()
    save_t5(again, ours.config, dict(ours.state_dict()), IDS)
    compare(ours, T5ForConditionalGeneration.from_pretrained(again).eval())


def test_an_output_table_that_is_not_scaled(tmp_path: Path) -> None:
    """T5 1.1 says so by ``tie_word_embeddings``."""
    other = theirs(tmp_path, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"tie_word_embeddings": true', '"tie_word_embeddings": false'))
    ours = load(tmp_path)
    assert not ours.config.tied_output
    assert not other.config.scale_decoder_outputs
    compare(ours, other)


def test_a_translator_with_the_choices_of_t5_is_a_t5_directory(pairs_folder: Path, tmp_path: Path) -> None:
    shape = ["hidden_dim=16", "head_dim=6", "num_heads=2", "ffn_dim=24", "num_layers=2", "num_decoder_layers=1"]
    choices = ["positions=relative", "norm=rms", "norm_first=true", "bias=false", "gated=true", "activation=gelu_tanh"]
    choices += ["embedding_scale=1", "output_bias=false", "output_scale=0.25", "batch_tokens=256"]
    run = tmp_path / "run"
    trained = firth.pretrain(
        "transformer-tiny", corpus=pairs_folder, out=run, steps=3, settings=parse_settings(shape + choices)
    )
    assert isinstance(trained, TranslationModel)
    other = T5ForConditionalGeneration.from_pretrained(run).eval()
    assert trained.model.config == load(run).config
    assert isinstance(trained.model, EncoderDecoder)
    compare(trained.model, other)


@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("tokens", ["corpus_folder", "bpe_folder", "unigram_folder"])
def test_a_run_is_a_t5_directory(tokens: str, gated: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Model and tokenizer: transformers gives the same ids and scores, and a loss that is ours."""
    run = tmp_path / "run"
    shape = ["hidden_dim=32", "num_heads=2", "ffn_dim=48", "seq_len=32", "batch_size=4", "steps=3"]
    shape += ["gated=true", "activation=gelu_tanh", "tied_output=false"] if gated else []
    ours = firth.pretrain("t5-tiny", corpus=request.getfixturevalue(tokens), out=run, settings=parse_settings(shape))
    assert isinstance(ours, T5Model)
    other = T5ForConditionalGeneration.from_pretrained(run).eval()
    tokenizer = AutoTokenizer.from_pretrained(run)
    texts = ["The old <extra_id_0> found a clock <extra_id_1> the river.", "老师<extra_id_0>一本书。"]
    for text in texts:
        batch = tokenizer(text, return_tensors="pt")
        assert batch["input_ids"][0].tolist() == ours.pieces.encode(text).ids.tolist()
        assert batch["input_ids"][0, -1] == ours.eos_id == other.config.eos_token_id
        labels = tokenizer("<extra_id_0> doctor <extra_id_1> near", return_tensors="pt")["input_ids"]
        begun = torch.cat((torch.tensor([[ours.start_id]]), labels[:, :-1]), 1)
        with torch.inference_mode():
            wanted = other(**batch, labels=labels)
            assert isinstance(ours.model, EncoderDecoder)
            found = ours.model.scores(ours.model.hidden(batch["input_ids"], None, begun))
        torch.testing.assert_close(found, wanted.logits, atol=1e-4, rtol=0)
        loss = torch.nn.functional.cross_entropy(found[0], labels[0])
        torch.testing.assert_close(loss, wanted.loss, atol=1e-4, rtol=0)
    assert tokenizer.convert_tokens_to_ids("<extra_id_0>") == len(tokenizer) - 1 == ours.pieces.vocab_size - 1


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    assert not is_t5(EncoderDecoderConfig())
    theirs(tmp_path, relative_attention_num_buckets=16)
    with pytest.raises(FirthError, match="another relative_attention_num_buckets"):
        load_t5(tmp_path)


def test_one_rate_of_dropout_is_for_all(tmp_path: Path) -> None:
    """There it is applied to attention and inside the feed-forward, too."""
    theirs(tmp_path, dropout_rate=0.2)
    config, _, _ = load_t5(tmp_path)
    assert (config.dropout_prob, config.attention_dropout_prob, config.activation_dropout_prob) == (0.2, 0.2, 0.2)


def test_what_is_ours_alone_comes_back(corpus_folder: Path, tmp_path: Path) -> None:
    shape = ["hidden_dim=16", "num_heads=2", "ffn_dim=24", "seq_len=32", "batch_size=4", "gated=true"]
    more = ["max_positions=640", "attention_dropout_prob=0.2", "activation_dropout_prob=0.3"]
    run = tmp_path / "run"
    with pytest.raises(FirthError, match="the gated GELU of a T5 is the tanh one"):
        firth.pretrain(
            "t5-tiny", corpus=corpus_folder, out=run, steps=2, settings=parse_settings([*shape, "activation=gelu"])
        )
    firth.pretrain(
        "t5-tiny",
        corpus=corpus_folder,
        out=run,
        steps=2,
        settings=parse_settings([*shape, *more, "activation=gelu_tanh"]),
    )
    config, _, _ = load_t5(run)
    assert (config.activation, config.max_positions) == ("gelu_tanh", 640)
    assert (config.attention_dropout_prob, config.activation_dropout_prob) == (0.2, 0.3)
    assert is_t5(config)
    assert not is_t5(config.replace(activation="gelu"))
