"""Every notebook's code runs from top to bottom, at small size, and is stored without output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import write_samples

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
SMALLER = {  # instead of the cell with the tag "parameters"
    "1_word_vectors": "folder, lines, dims, epochs = 'quickstart/en', 200, (5, 10), 1",
    "2_a_bert_of_your_own": "folder, lines, vocab_size, steps = 'quickstart/en', 200, 300, 4",
    "3_classify_with_few_labels": "folder, lines, sizes, budget = 'quickstart/en', 200, (20, 40), '20s'",
}


def code_of(notebook: Path) -> str:
    """The code cells as one script; what a cell ends with is shown as a notebook would, by its repr."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            smaller = "parameters" in cell["metadata"].get("tags", [])
            parts.append(SMALLER[notebook.stem] if smaller else "".join(cell["source"]))
    return "\n\n".join(parts) + "\n"


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == len(SMALLER) == 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_is_stored_without_output(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert sum("parameters" in cell["metadata"].get("tags", []) for cell in cells) == 1
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    (tmp_path / "cells.py").write_text(code_of(notebook), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "cells.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
