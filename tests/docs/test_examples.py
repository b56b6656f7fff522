"""Every script in ``examples/`` runs, at small size, and stays short; every benchmark finds what it imports from the package."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALLER = {
    "02_a_model_of_your_own": ["--steps", "4"],
    "03_two_senses": ["--steps", "4"],
    "04_translate": ["--steps", "4"],
    "05_images": ["--epochs", "1"],
}


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_the_example_runs(script: Path, tmp_path: Path) -> None:
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 80
    command = [sys.executable, str(script), *SMALLER.get(script.stem, [])]
    if script.stem != "05_images":
        command += ["--out", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_the_benchmark_finds_what_it_imports(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "firth":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")
