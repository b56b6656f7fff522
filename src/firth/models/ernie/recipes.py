"""ERNIE: phrases and entities hidden as wholes, several tasks at once (Sun et al. 2019; Sun et al. 2020)."""

from collections.abc import Callable

from firth.core.configs import RunConfig
from firth.models.bert.recipes import bert_mini, bert_tiny
from firth.models.ernie.config import KnowledgeMaskingConfig


def _ernie(name: str, bert: RunConfig) -> RunConfig:
    return bert.replace(recipe=name, spec="ernie", objective=KnowledgeMaskingConfig())


def ernie_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _ernie("ernie-tiny", bert_tiny())


def ernie_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _ernie("ernie-mini", bert_mini())


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "ernie-tiny": ernie_tiny,
    "ernie-mini": ernie_mini,
}
