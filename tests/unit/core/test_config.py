"""Configs: overriding by full and short key, and one clear sentence for every mistake."""

import os
from pathlib import Path

import pytest

from firth.core.config import usable_cores
from firth.core.errors import FirthError
from firth.core.registry import RunConfig, TokensConfig, TrainingConfig, find_run_recipe, recipes
from firth.models.bert.config import MaskedTokensConfig
from firth.models.shared.configs import EncoderConfig
from firth.tasks.config import TaskConfig, WritingConfig


@pytest.fixture
def config() -> RunConfig:
    return find_run_recipe("bert-tiny")


@pytest.mark.parametrize(
    ("word", "section", "name", "value"),
    [
        ("training.learning_rate=1e-3", "training", "learning_rate", 1e-3),
        ("learning_rate = 0.5", "training", "learning_rate", 0.5),
        ("model.num_layers=3", "model", "num_layers", 3),
        ("num_layers=3", "model", "num_layers", 3),
        ("seq_len=64", "objective", "seq_len", 64),
        ("whole_word_mask=true", "objective", "whole_word_mask", True),
        ("schedule=cosine", "training", "schedule", "cosine"),
        ('schedule="cosine"', "training", "schedule", "cosine"),
        ("budget=90", "training", "budget", "90"),
        ("budget=1h30m", "training", "budget", "1h30m"),
        ("steps=null", "training", "steps", None),
    ],
)
def test_override(config: RunConfig, word: str, section: str, name: str, value: object) -> None:
    changed = config.override([word])
    assert getattr(getattr(changed, section), name) == value
    assert type(getattr(getattr(changed, section), name)) is type(value)


def test_override_leaves_the_original(config: RunConfig) -> None:
    before = config.model_dump()
    config.override(["num_layers=7", "seed=3"])
    assert config.model_dump() == before


def test_later_words_win(config: RunConfig) -> None:
    assert config.override(["seed=1", "training.seed=2"]).training.seed == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hiden_dim=8", "unknown setting 'hiden_dim': did you mean 'hidden_dim'?"),
        ("model.hiden_dim=8", "unknown setting 'model.hiden_dim': did you mean 'model.hidden_dim'?"),
        ("xyzzy=8", "unknown setting 'xyzzy': known: "),
        ("model=8", "unknown setting 'model'"),
        ("objective.kind=next_token", "bert is not trained with objective.kind=next_token: choose masked_tokens"),
        ("num_layers", "'num_layers' is not a setting: write it as key=value"),
        ("num_layers=two", "settings: setting 'model.num_layers' cannot be 'two'"),
        ("num_layers=2.5", "settings: setting 'model.num_layers' cannot be 2.5"),
        ("num_layers=0", "greater than 0"),
        ("num_layers=[1]", "settings: setting 'model.num_layers' cannot be [1]"),
        ("learning_rate=NaN", "finite number"),
        ("dropout_prob=1", "less than 1"),
        ("activation=swish", "'gelu', 'gelu_tanh' or 'relu'"),
        ("num_heads=3", "num_heads (3) does not divide hidden_dim (128)"),
        ("seq_len=600", "objective.seq_len (600) is longer than model.max_positions (512)"),
        ("mask_token_prob=0.95", "add up to more than 1"),
        ("budget=soon", "'soon' is not a duration"),
        ("seed=99999999999999999999", "less than"),
    ],
)
def test_mistakes(config: RunConfig, word: str, said: str) -> None:
    with pytest.raises(FirthError) as error:
        config.override([word])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_one_length_only(config: RunConfig) -> None:
    with pytest.raises(FirthError, match="steps and budget were given: say how long to train in one way only"):
        config.override(["steps=5", "budget=5m"])


def test_rotary_heads_are_even() -> None:
    with pytest.raises(FirthError, match="even size, not 5"):
        EncoderConfig.build({"hidden_dim": 10, "num_heads": 2, "positions": "rotary"}, "model")


def test_build_names_where_and_the_nearest_key() -> None:
    with pytest.raises(
        FirthError, match=r"^firth\.json: unknown setting 'model\.num_layer': did you mean 'num_layers'\?"
    ):
        RunConfig.build({"recipe": "x", "spec": "bert", "model": {"num_layer": 2}, "objective": {}}, Path("firth.json"))
    with pytest.raises(FirthError, match="'recipe' is missing"):
        RunConfig.build({"spec": "bert", "model": {}, "objective": {}}, "here")
    with pytest.raises(FirthError, match=r"^here: the whole cannot be 5"):
        TokensConfig.build(5, "here")  # what a file may hold


def test_a_long_wrong_value_is_shortened() -> None:
    with pytest.raises(FirthError) as error:
        TrainingConfig.build({"steps": "x" * 5000}, "here")
    assert len(str(error.value)) < 300


def test_frozen_and_replace() -> None:
    config = MaskedTokensConfig()
    with pytest.raises(ValueError, match="frozen"):
        config.seq_len = 5
    assert config.replace(seq_len=16).seq_len == 16
    with pytest.raises(FirthError, match="MaskedTokensConfig: unknown setting 'rowlen'"):
        config.replace(rowlen=16)


@pytest.mark.parametrize("name", sorted(name for name, spec in recipes().items() if spec.network))
def test_recipes_survive_json(name: str) -> None:
    config = find_run_recipe(name)
    assert config.recipe == name
    assert RunConfig.build(config.model_dump(mode="json"), "json") == config
    assert len(config.keys()) == len(set(config.keys()))


def test_update_takes_values_as_they_are(config: RunConfig) -> None:
    changed = config.update({"num_layers": 3, "training.budget": "90", "objective": {"seq_len": 64}, "epochs": None})
    assert (changed.model.num_layers, changed.objective.seq_len) == (3, 64)  # type: ignore[attr-defined]
    assert (changed.training.budget, changed.training.epochs) == ("90", None)
    deep = {"model": {"num_layers": 5, "hidden_dim": 64}, "training": {"steps": 2}}
    assert config.update(deep) == config.override(["model.num_layers=5", "hidden_dim=64", "steps=2"])
    task = TaskConfig().update({"labels": ("1", "null"), "scheme": None, "metric": "1e3"})
    assert (task.labels, task.scheme, task.metric) == (("1", "null"), None, "1e3")
    assert WritingConfig().update({"prefix": "1e3"}).prefix == "1e3"
    assert config.update({}) == config


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("prefix=1e3", "prefix", "1e3"),
        ("prefix=true", "prefix", "true"),
        ("prefix=null", "prefix", "null"),
        ('prefix="title: "', "prefix", "title: "),
        ("scheme=null", "scheme", None),
        ("scheme=7", "scheme", "7"),
        ('labels=["a", "b"]', "labels", ("a", "b")),
        ("beams=null", "beams", None),
    ],
)
def test_typed_text_is_read_by_the_setting(word: str, name: str, value: object) -> None:
    assert getattr(WritingConfig().override([word]), name) == value


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_layers": "two"}, "setting 'model.num_layers' cannot be 'two'"),
        ({"num_layers": None}, "setting 'model.num_layers' cannot be None"),
        ({"num_layers": (1, 2)}, r"setting 'model.num_layers' cannot be \(1, 2\)"),
        ({"model": {"num_layer": 2}}, "unknown setting 'model.num_layer': did you mean 'model.num_layers'"),
        ({"modle": {"num_layers": 2}}, "unknown setting 'modle.num_layers': did you mean 'model.num_layers'"),
        ({"model": 3}, "unknown setting 'model'"),
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
    ],
)
def test_update_says_what_is_wrong(config: RunConfig, settings: dict[str, object], said: str) -> None:
    with pytest.raises(FirthError, match=said) as error:
        config.update(settings)
    assert "\n" not in str(error.value)


def test_lists_are_typed_with_commas() -> None:
    """Or as JSON; each part is checked."""
    typed = TaskConfig().override(["thresholds=0.3, 0.5", "labels=a,b", "candidates=counts,linear"])
    assert (typed.thresholds, typed.labels, typed.candidates) == ((0.3, 0.5), ("a", "b"), ("counts", "linear"))
    assert TaskConfig().override(['labels=["a,b", "c"]', "thresholds=0.4"]).labels == ("a,b", "c")
    for word in ("thresholds=0.3,1.5", "thresholds=0", "thresholds=0.3,x", "candidates=count"):
        with pytest.raises(FirthError, match=word.partition("=")[0]):
            TaskConfig().override([word])


def test_usable_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    assert usable_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
