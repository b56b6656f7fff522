"""A model is one folder: it takes from ``models/shared``, not from another model; ``models/shared`` takes from none."""

import ast
from pathlib import Path

import pytest

import firth

MODELS = Path(firth.__file__).parent / "models"
FILES = sorted(MODELS.glob("*/*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(MODELS)))
def test_models_take_from_shared_alone(path: Path) -> None:
    """Imports inside functions and for the type checker count, too."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    parts = [name.split(".") for name in names]
    others = {part[2] for part in parts if part[:2] == ["firth", "models"] and len(part) > 2}
    assert others <= {path.parent.name, "shared"}
