"""Recipes by name."""

from collections.abc import Callable

from firth.core.configs import RunConfig
from firth.core.errors import FirthError, nearest
from firth.recipes import bert

RECIPES: dict[str, Callable[[], RunConfig]] = {
    "bert-tiny": bert.bert_tiny,
    "bert-mini": bert.bert_mini,
    "bert-small": bert.bert_small,
    "bert-base": bert.bert_base,
    "bert-large": bert.bert_large,
    "bert-mini-modern": bert.bert_mini_modern,
    "bert-continue": bert.bert_continue,
}


def find_recipe(name: str) -> RunConfig:
    if name not in RECIPES:
        raise FirthError(f"unknown recipe '{name}': {nearest(name, list(RECIPES))}")
    return RECIPES[name]()
