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
    "beam": ["--models", "2", "--seeds", "1"],
    "characters": ["--lines", "200", "--seeds", "1"],
    "cost": ["--longest", "16", "--seeds", "1"],
    "elmo_layers": ["--steps", "2", "--seeds", "1", "--lines", "800", "--many", "20"],
    "next_sentence": ["--steps", "2", "--seeds", "1", "--lines", "20", "--pairs", "6", "--sentences", "2"],
    "directions": ["--steps", "2", "--seeds", "1"],
    "gradients": ["--length", "5", "--seeds", "1"],
    "long_texts": ["--texts", "60", "--seeds", "1"],
    "memory": ["--steps", "20", "--seeds", "1"],
    "noise": ["--steps", "2", "--seeds", "1"],
    "norms": ["--steps", "2", "--seeds", "1"],
    "sharing": ["--steps", "2", "--seeds", "1"],
    "sizes": ["--largest", "100", "--seeds", "1"],
    "vectors": ["--lines", "40", "--seeds", "1"],
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
    for name in ("picture.svg", "picture.zh.svg"):
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("<svg xmlns=")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_experiment_is_short_and_has_a_page(script: Path) -> None:
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 120
    for ending in ("", ".zh"):
        text = (ROOT / "docs" / "questions" / f"{script.stem}{ending}.md").read_text(encoding="utf-8")
        assert f"python experiments/{script.name}" in text
        assert f"../pictures/question-{script.stem}{ending}.svg" in text
        assert (ROOT / "docs" / "pictures" / f"question-{script.stem}{ending}.svg").is_file()


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


def test_the_search_knows_the_best_sentence() -> None:
    """Dynamic programming finds what trying every sentence finds, and no beam finds better."""
    from itertools import product

    import torch

    sys.path.insert(0, str(ROOT / "experiments"))
    from beam import Chain, found, optimum

    torch.manual_seed(0)
    table = torch.randn(10, 10, 10).log_softmax(-1)
    scores = []
    for tokens in product(range(10), repeat=3):
        before, last, total = 1, 1, 0.0
        for token in tokens:
            total += float(table[before, last, token])
            before, last = last, token
            if token == 0:
                break
        scores.append(total)
    assert optimum(Chain(table), 3) == pytest.approx(max(scores), abs=1e-5)
    assert found(Chain(table), 1, 3)[1] <= max(scores) + 1e-5
    assert found(Chain(table), 100, 3)[1] == pytest.approx(max(scores), abs=1e-5)


def test_the_gradient_through_time_is_the_jacobian() -> None:
    """One step of the identity is the matrix itself; its radius is what was asked for."""
    import torch

    sys.path.insert(0, str(ROOT / "experiments"))
    from gradients import WIDTH, norms, recurrent_matrix

    torch.manual_seed(3)
    matrix = recurrent_matrix(0.7)
    assert float(torch.linalg.eigvals(matrix).abs().max()) == pytest.approx(0.7)
    size = float(matrix.norm()) / WIDTH**0.5
    assert 10 ** norms("identity", 0.7, 1, 3)[0] == pytest.approx(size)
    assert 10 ** norms("sigmoid", 0.7, 1, 3)[0] <= size / 4
