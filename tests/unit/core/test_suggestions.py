"""What was meant: other programs' names, words of a name, slips of the keyboard; and nothing where nothing is near."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.core.errors import FirthError, _edits, closest, nearest
from firth.core.registry import find_run_recipe, recipes

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
