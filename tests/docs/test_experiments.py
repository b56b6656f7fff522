"""Every script in ``experiments/`` runs, at small size, prints an answer and draws its picture; each has a page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import write_samples

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (ROOT / "experiments").glob("*.py") if path.stem != "picture")
SMALLER = {
    "scale": ["--seeds", "2"],
    "masks": ["--steps", "4", "--seeds", "1"],
    "positions": ["--steps", "3", "--seeds", "1"],
    "heads": ["--steps", "2", "--seeds", "1"],
    "masking": ["--steps", "2", "--seeds", "1", "--sentences", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_experiment_runs(script: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    command = [sys.executable, str(script), *SMALLER[script.stem], "--out", "picture.svg"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d\.\d", done.stdout)
    assert (tmp_path / "picture.svg").read_text(encoding="utf-8").startswith("<svg xmlns=")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_experiment_is_short_and_has_a_page(script: Path) -> None:
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 120
    for page in (f"{script.stem}.md", f"{script.stem}.zh.md"):
        text = (ROOT / "docs" / "questions" / page).read_text(encoding="utf-8")
        assert f"python experiments/{script.name}" in text
        assert f"../pictures/question-{script.stem}.svg" in text


def test_the_measure_of_the_scale_is_the_derivative() -> None:
    """1 - Σ p² is the trace of the softmax's derivative, by differences."""
    import numpy as np

    sys.path.insert(0, str(ROOT / "experiments"))
    from scale import gradient_left, softmax

    scores = np.random.default_rng(0).normal(size=7)
    steps = [(softmax(scores + 1e-6 * unit) - softmax(scores - 1e-6 * unit)) / 2e-6 for unit in np.eye(7)]
    assert np.trace(np.array(steps)) == pytest.approx(float(gradient_left(softmax(scores))), abs=1e-6)


def test_rotary_scores_depend_on_the_distance_only() -> None:
    import torch

    sys.path.insert(0, str(ROOT / "experiments"))
    from positions import rotated

    one = torch.randn(1, 1, 1, 8).expand(1, 1, 10, 8)
    two = torch.randn(1, 1, 1, 8).expand(1, 1, 10, 8)
    scores = rotated(one)[0, 0] @ rotated(two)[0, 0].T
    assert torch.allclose(scores[:-1, :-1], scores[1:, 1:], atol=1e-5)
