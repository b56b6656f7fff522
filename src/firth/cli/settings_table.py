"""Every setting of a recipe or a task with its value and what the source says about it."""

import ast
import inspect
import json
import textwrap
import tokenize
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import get_args

from firth.core.config import Config


@dataclass(frozen=True)
class Setting:
    """``name`` is the full one; ``about`` is the comment behind it, or empty."""

    name: str
    value: object
    about: str

    @property
    def text(self) -> str:
        """As it is written on the command line."""
        value = self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)
        return f"{self.name}={value}"


def list_settings(name: str) -> list[Setting]:
    """Of a recipe or a kind of task."""
    return _settings_of(_find_config(name))


def _find_config(name: str) -> Config:
    from firth.core.errors import FirthError, nearest
    from firth.core.registry import find_recipe, recipes
    from firth.tasks.config import TaskKind, WritingConfig, task_config

    tasks = get_args(TaskKind)
    if name in tasks:
        return task_config(name)
    if name == "write":
        return WritingConfig()
    if name not in recipes():
        raise FirthError(f"unknown recipe or task '{name}': {nearest(name, [*recipes(), *tasks, 'write'])}")
    return find_recipe(name)


def _settings_of(config: Config, section: str = "") -> list[Setting]:
    plain, found = config.model_dump(mode="json"), list[Setting]()
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(value, Config):
            found += _settings_of(value, f"{section}{name}.")
        else:
            found.append(
                Setting(section + name, plain[name], field.description or _comments(type(config)).get(name, ""))
            )
    return found


@cache
def _comments(config: type[Config]) -> dict[str, str]:
    """The comments behind the fields of a config and of those that it is made from."""
    found: dict[str, str] = {}
    for one in reversed(config.__mro__):
        if issubclass(one, Config) and one is not Config:
            found |= _own_comments(one)
    return found


def _own_comments(config: type[Config]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(config))
    except OSError:  # a package without its source
        return {}
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = " ".join(comments[line] for line in lines if line in comments)
    return found
