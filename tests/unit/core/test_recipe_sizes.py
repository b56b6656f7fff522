"""A recipe without its size is chosen by the budget."""

import pytest

from firth.core.errors import FirthError
from firth.core.registry import RunConfig, find_recipe


@pytest.mark.parametrize(
    ("name", "budget", "recipe"),
    [
        ("modernbert", "40s", "modernbert-1m"),
        ("modernbert", "3m", "modernbert-1m"),
        ("modernbert", "4m", "modernbert-10m"),
        ("modernbert", "20m", "modernbert-10m"),
        ("modernbert", "30m", "modernbert-1h"),
        ("modernbert", "3h", "modernbert-1h"),
        ("modernbert", "1d", "modernbert-10h"),
        ("llama", "1m", "llama-10m"),
        ("modernbert-1m", "10h", "modernbert-1m"),
    ],
)
def test_the_size_is_the_nearest_by_ratio(name: str, budget: str, recipe: str) -> None:
    config = find_recipe(name, budget)
    assert isinstance(config, RunConfig)
    assert config.recipe == recipe


def test_a_name_without_size_needs_a_budget() -> None:
    with pytest.raises(FirthError, match="modernbert has a size for each length of training: give it a budget"):
        find_recipe("modernbert")
    with pytest.raises(FirthError, match="unknown recipe 'lstm'"):
        find_recipe("lstm", "1h")
