"""A model is one folder: it takes from ``models/shared``, not from another model."""

import ast
from pathlib import Path

import pytest

import firth

MODELS = Path(firth.__file__).parent / "models"
FILES = sorted(path for path in MODELS.glob("*/*.py") if path.parent.name != "shared")
NAME_MAPS = {"electra/format.py", "ernie/format.py"}  # these extend the published names of BERT


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(MODELS)))
def test_models_do_not_import_one_another(path: Path) -> None:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    names = [node.module.split(".") for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    others = {name[2] for name in names if name[:2] == ["firth", "models"] and len(name) > 2}
    allowed = {path.parent.name, "shared"} | ({"bert"} if str(path.relative_to(MODELS)) in NAME_MAPS else set())
    assert others <= allowed
