"""Settings of published encoders: each of transformers' that changes numbers is read, or refused where it is not the usual."""

import json
from pathlib import Path

import pytest
import torch
import transformers

from firth.core.errors import FirthError
from firth.core.registry import specs
from firth.models.shared.published import EncoderFormat, config_from_json, load_encoder, save_encoder
from published_models import write_model

FORMATS = {
    model_type: (spec.encoder_format(), name)
    for spec in specs().values()
    if spec.encoder_format is not None
    for model_type, name in spec.encoder_format().classes.items()
}
DEBERTA = {
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}
READ = {  # not by a table of settings
    *("is_decoder", "add_cross_attention", "pad_token_id", "tie_word_embeddings", "layer_types", "rope_parameters"),
    *("local_attention", "pos_att_type", "position_buckets", "max_relative_positions", "embedding_size"),
}
TRAINING = {  # rates of dropout, first weights, speed, other heads and generation
    *("use_cache", "classifier_dropout", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"),
    *("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "classifier_dropout_prob", "summary_type"),
    *("summary_use_proj", "summary_activation", "summary_last_dropout", "pooler_dropout", "initializer_cutoff_factor"),
    *("attention_dropout", "embedding_dropout", "mlp_dropout", "deterministic_flash_attn", "sparse_prediction"),
    *("sparse_pred_ignore_index",),
}
SHAPES = {"legacy", "pooler_hidden_size", "classifier_pooling", "classifier_bias"}  # seen by the weights that there are


def settings_of(model_type: str, name: str) -> dict[str, object]:
    """Of transformers' class, as it writes them."""
    more = DEBERTA if model_type == "deberta-v2" else {}
    found: dict[str, object] = json.loads(json.dumps(getattr(transformers, f"{name}Config")(**more).to_dict()))
    return found


@pytest.mark.parametrize("model_type", FORMATS)
def test_what_is_left_out_is_as_in_transformers(model_type: str) -> None:
    """It writes what differs from its class alone."""
    kind, name = FORMATS[model_type]
    short = {"model_type": model_type, **(DEBERTA if model_type == "deberta-v2" else {})}
    whole = settings_of(model_type, name)
    ours = config_from_json(kind, short | {"vocab_size": whole["vocab_size"]}, Path("config.json"))
    assert ours == config_from_json(kind, whole, Path("config.json"))


@pytest.mark.parametrize("model_type", FORMATS)
def test_every_setting_is_known(model_type: str) -> None:
    kind, name = FORMATS[model_type]
    own = settings_of(model_type, name).keys() - transformers.PretrainedConfig().to_dict().keys()
    tables = {*kind.settings.values(), *kind.required, kind.activation, kind.head_activation, kind.switch}
    assert own - tables - READ - TRAINING - SHAPES == set()


def changed(kind: EncoderFormat, name: str, **more: object) -> object:
    return config_from_json(kind, settings_of(kind.model_type, name) | more, Path("config.json"))


YARN = {"rope_type": "yarn", "factor": 4.0}


@pytest.mark.parametrize(
    "more",
    [
        {"rope_parameters": {"full_attention": YARN}},
        {"rope_parameters": {"sliding_attention": {"type": "linear", "factor": 2.0}}},
        {"rope_parameters": YARN},
        {"rope_parameters": {"full_attention": {"rope_type": "default", "partial_rotary_factor": 0.5}}},
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        {"partial_rotary_factor": 0.5},
    ],
)
def test_modernbert_with_other_angles(more: dict[str, object]) -> None:
    with pytest.raises(
        FirthError, match=r"config\.json: rotary positions of .*; of ModernBERT Firth reads the default"
    ):
        changed(*FORMATS["modernbert"], **more)


def test_the_newer_spelling_of_angles_counts() -> None:
    """As in transformers, where a directory has both."""
    kind, _ = FORMATS["modernbert"]
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 5000.0}}
    found = config_from_json(
        kind, {"model_type": "modernbert", "rope_parameters": rope, "global_rope_theta": 7.0}, Path()
    )
    assert found.rotary_base == 5000.0


@pytest.mark.parametrize(
    ("model_type", "more"),
    [
        ("roberta", {"hidden_act": "relu"}),
        ("camembert", {"hidden_act": "gelu_new"}),
        ("mpnet", {"hidden_act": "relu"}),
        ("electra", {"hidden_act": "relu"}),
        ("modernbert", {"hidden_activation": "relu"}),
        ("modernbert", {"classifier_activation": "relu"}),
    ],
)
def test_a_head_with_another_activation(model_type: str, more: dict[str, object], tmp_path: Path) -> None:
    """That of some heads is fixed, or a setting of its own."""
    write_model(tmp_path, model_type, "ForMaskedLM", **more)
    with pytest.raises(FirthError, match="has another activation"):
        load_encoder(tmp_path)


def test_both_activations_of_modernbert(tmp_path: Path) -> None:
    """Read where they are alike, and written so."""
    more = {"hidden_activation": "relu", "classifier_activation": "relu"}
    theirs = write_model(tmp_path / "theirs", "modernbert", "ForMaskedLM", **more)
    (tmp_path / "ours").mkdir()
    save_encoder(tmp_path / "ours", *load_encoder(tmp_path / "theirs"), pad_id=0)
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        assert torch.allclose(again(input_ids=ids).logits, theirs(input_ids=ids).logits, atol=1e-4)


def test_deberta_that_adds_positions(tmp_path: Path) -> None:
    """The class does unless it is told not to."""
    kind, _ = FORMATS["deberta-v2"]
    for more in ({}, {"position_biased_input": True}):
        data = {name: value for name, value in DEBERTA.items() if name != "position_biased_input"}
        with pytest.raises(FirthError, match="position_biased_input=False"):
            config_from_json(kind, {"model_type": "deberta-v2", **data, **more}, Path("config.json"))
