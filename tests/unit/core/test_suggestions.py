"""What was meant: other programs' names, words of a name, slips of the keyboard; and nothing where nothing is near."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.core.errors import FirthError, _edits, closest, nearest
from firth.core.registry import find_recipe, find_run_recipe, recipes
from firth.models.fasttext.classifier import FastTextClassifierConfig
from firth.tasks.config import TaskConfig
from firth.tasks.embed.config import EmbedConfig

SETTINGS = sorted({key.rpartition(".")[2] for key in find_run_recipe("bert-tiny").keys()})


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("mask_probability", "mask_prob"),
        ("mlm_probability", "mask_prob"),
        ("lr", "learning_rate"),
        ("LearningRate", "learning_rate"),
        ("learning-rate", "learning_rate"),
        ("layers", "num_layers"),
        ("num_layer", "num_layers"),
        ("num_hidden_layers", "num_layers"),
        ("n_heads", "num_heads"),
        ("heads", "num_heads"),
        ("hidden", "hidden_dim"),
        ("hidden_size", "hidden_dim"),
        ("d_model", "hidden_dim"),
        ("hiden_dim", "hidden_dim"),
        ("batch", "batch_size"),
        ("max_len", "seq_len"),
        ("max_seq_length", "seq_len"),
        ("seq_length", "seq_len"),
        ("dropout", "dropout_prob"),
        ("attention_dropout", "attention_dropout_prob"),
        ("warmup", "warmup_ratio"),
        ("gradient_accumulation_steps", "gradient_accumulation"),
        ("random_seed", "seed"),
        ("optimiser", "optimizer"),
        ("evaluation_batch", "evaluation_batches"),
    ],
)
def test_settings(word: str, meant: str) -> None:
    assert closest(word, SETTINGS) == [meant]
    assert nearest(word, SETTINGS) == f"did you mean '{meant}'?"


@pytest.mark.parametrize("word", ["colour", "xyzzy", "size", "max", "n", "zz", "rowlen", ""])
def test_nothing_far(word: str) -> None:
    """A word that only says what kind of number it is tells nothing."""
    assert closest(word, SETTINGS) == []
    assert nearest(word, SETTINGS) == f"known: {', '.join(SETTINGS)}"


ELSEWHERE = {  # names of transformers, PyTorch's examples, gensim and fastText: the only settings that they may mean
    "adam_beta2": "beta2",
    "adam_epsilon": "adam_eps",
    "attention_probs_dropout_prob": "attention_dropout_prob",
    "bf16": "precision",
    "classifier_dropout": "",
    "d_kv": "head_dim",
    "early_stopping_patience": "patience",
    "embedding_size": "embedding_dim dim",
    "emsize": "embedding_dim",
    "epoch": "epochs",
    "eval_batch_size": "",
    "eval_steps": "evaluations",
    "fp16": "precision",
    "grad_clip": "clip_norm",
    "gradient_accumulation_steps": "gradient_accumulation",
    "gradient_clip": "clip_norm",
    "gradient_clip_val": "clip_norm",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout_prob",
    "hidden_size": "hidden_dim",
    "initializer_range": "init_std",
    "intermediate_size": "ffn_dim",
    "layer_norm_eps": "norm_eps",
    "load_best_model_at_end": "finish",
    "logging_steps": "",
    "lr": "learning_rate",
    "lrUpdateRate": "",
    "lr_scheduler_type": "schedule",
    "max_grad_norm": "clip_norm",
    "max_position_embeddings": "max_positions",
    "max_seq_length": "seq_len max_len max_positions",
    "max_steps": "steps",
    "maxn": "max_n",
    "metric_for_best_model": "metric",
    "minCount": "min_count",
    "min_alpha": "",
    "min_count": "min_count",
    "minn": "min_n",
    "mlm_probability": "mask_prob",
    "n_embd": "hidden_dim",
    "n_head": "num_heads",
    "n_layer": "num_layers",
    "n_positions": "max_positions",
    "neg": "num_negatives negatives",
    "nhid": "hidden_dim",
    "nlayers": "num_layers",
    "noise_share": "noise_density",
    "ns_exponent": "noise_power",
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "num_key_value_heads": "num_kv_heads",
    "num_train_epochs": "epochs",
    "num_warmup_steps": "warmup_ratio",
    "output_dir": "",
    "per_device_eval_batch_size": "",
    "per_device_train_batch_size": "batch_size",
    "pool": "pool pooling",
    "pooling": "pool pooling",
    "resid_pdrop": "dropout_prob",
    "sample": "sample",
    "save_steps": "checkpoints",
    "save_total_limit": "keep",
    "seed": "seed",
    "sg": "architecture",
    "tie_weights": "tied_output",
    "tie_word_embeddings": "tied_output",
    "type_vocab_size": "num_segments",
    "vector_size": "dim",
    "warmup_ratio": "warmup_ratio",
    "warmup_steps": "warmup_ratio",
    "weight_decay": "weight_decay",
    "window": "window",
    "wordNgrams": "word_ngrams",
    "workers": "threads",
    "ws": "window",
}


def every_kind() -> dict[str, list[str]]:
    """The settings of every recipe, task and classifier, without their sections."""
    tasks = {"classify": TaskConfig, "embed": EmbedConfig, "fasttext-classifier": FastTextClassifierConfig}
    found = {name: list(config.model_fields) for name, config in tasks.items()}
    return found | {name: [key.rpartition(".")[2] for key in find_recipe(name).keys()] for name in recipes()}


@pytest.mark.parametrize("word", ELSEWHERE)
def test_names_of_other_programs(word: str) -> None:
    """Each means its setting in whatever has it, and nothing elsewhere."""
    right = ELSEWHERE[word].split()
    for kind, known in every_kind().items():
        found, there = closest(word, known), [name for name in right if name in known]
        assert len(found) == min(1, len(there)), kind
        assert set(found) <= set(there), kind


def test_several_that_are_equally_near() -> None:
    assert nearest("eps", SETTINGS) == "did you mean 'adam_eps' or 'norm_eps'?"
    assert nearest("elmo", list(recipes())) == (
        "did you mean one of 'elmo-tiny', 'elmo-small', 'elmo-medium', 'elmo-original'?"
    )


def test_only_what_there_is() -> None:
    """Other programs' names point to the setting that this model has."""
    assert closest("max_length", ["max_len", "seq_len"]) == ["max_len"]
    assert closest("max_length", ["max_positions", "batch_size"]) == ["max_positions"]
    assert closest("vector_size", ["dim", "window"]) == ["dim"]
    assert closest("heads", ["head_dim", "num_heads"]) == ["num_heads"]
    assert closest("heads", ["threads", "epochs"]) == []
    assert closest("body_dimm", ["body", "body_dim"]) == ["body_dim"]
    assert closest("lr", []) == []


@pytest.mark.parametrize(
    ("one", "two", "edits"),
    [
        ("", "", 0),
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("hiden", "hidden", 1),
        ("lyaer", "layer", 1),
        ("kitten", "sitting", 3),
    ],
)
def test_edits_by_hand(one: str, two: str, edits: int) -> None:
    assert _edits(one, two) == edits


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_edits_are_a_distance(one: str, two: str) -> None:
    assert _edits(one, two) == _edits(two, one)
    assert (_edits(one, two) == 0) == (one == two)
    assert abs(len(one) - len(two)) <= _edits(one, two) <= max(len(one), len(two))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("lr=1", "unknown setting 'lr': did you mean 'learning_rate'?"),
        ("training.lr=1", "unknown setting 'training.lr': did you mean 'training.learning_rate'?"),
        ("model.lr=1", "unknown setting 'model.lr': did you mean 'training.learning_rate'?"),
        ("optimizer.lr=1", "unknown setting 'optimizer.lr': did you mean 'training.learning_rate'?"),
        ("model.eps=1", "unknown setting 'model.eps': did you mean 'model.norm_eps'?"),
        ("model.learning_rate=1", "unknown setting 'model.learning_rate': did you mean 'training.learning_rate'?"),
    ],
)
def test_sections(word: str, said: str) -> None:
    """A setting of the section that was named comes first, then one of another."""
    with pytest.raises(FirthError) as error:
        find_run_recipe("bert-tiny").override([word])
    assert str(error.value) == said


def test_the_settings_of_a_section_are_listed() -> None:
    with pytest.raises(FirthError, match=r"'objective\.foo': known: objective\.") as error:
        find_run_recipe("bert-tiny").override(["objective.foo=1"])
    assert "training." not in str(error.value)
