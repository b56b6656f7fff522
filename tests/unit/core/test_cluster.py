"""Work on a Ray cluster: the same bytes as on one machine, nothing lost, nothing twice. One local instance for all tests."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.api import encoding
from firth.core.config import check_engine
from firth.core.errors import FirthError
from firth.core.storage import Cluster, _require_answer
from firth.corpus import prepare as preparing

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:  # workers find the functions of this file
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        found = Cluster(num_cpus=2)
        yield found
        found.ray.shutdown()


def _double(number: int, folder: str) -> int:
    """Its first worker is killed on the way."""
    mark = Path(folder) / f"killed-{number}"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with open(Path(folder) / "done", "a") as handle:
        handle.write(f"{number}\n")
    return 2 * number


def _fail(number: int) -> int:
    raise FirthError(f"line {number}: fix it")


def test_order_and_lost_workers(cluster: Cluster, tmp_path: Path) -> None:
    jobs = [(number, str(tmp_path)) for number in range(12)]
    assert list(cluster.ordered(_double, jobs)) == [2 * number for number, _ in jobs]
    assert sorted(map(int, (tmp_path / "done").read_text().split())) == list(range(12))


def test_backpressure(cluster: Cluster, tmp_path: Path) -> None:
    """Jobs are read as their results are taken."""
    read: list[int] = []

    def jobs() -> Iterator[tuple[int, str]]:
        for number in range(100, 200):
            read.append(number)
            yield number, str(tmp_path)

    results = cluster.ordered(_double, jobs())
    next(results)
    assert len(read) <= 2 * cluster.num_cpus
    results.close()  # type: ignore[attr-defined]


def test_mistakes(cluster: Cluster) -> None:
    with pytest.raises(FirthError, match="line 7: fix it"):
        cluster.call(_fail, 7)
    with pytest.raises(FirthError, match="no Ray cluster answers there"):
        _require_answer("127.0.0.1:1")
    with pytest.raises(FirthError, match="write HOST:PORT"):
        _require_answer("somewhere")
    with pytest.raises(FirthError, match="unknown engine 'spark': choose local or ray"):
        check_engine("spark", None)
    with pytest.raises(FirthError, match="write --engine ray with it"):
        check_engine("local", "127.0.0.1:6379")


@pytest.mark.parametrize("tokens", ["wordpiece", "words"])
def test_prepare(
    tokens: str, cluster: Cluster, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "_BLOCK_BYTES", 4000)
    found = []
    for engine in ("local", "ray"):
        out = tmp_path / engine
        firth.prepare(
            text_file,
            out,
            tokens=tokens,
            vocab_size=400,
            layout="line",
            deduplicate=True,
            workers=1,
            engine=engine,
            near_duplicates=0.7,
        )
        found.append({str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert found[0] == found[1]


def test_encode(cluster: Cluster, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that were done before a stop are not computed again."""
    monkeypatch.setattr(encoding, "_BLOCK", 64)
    texts = [f"The map of number {number} is old." for number in range(1200)]
    plain = firth.encode(run_folder, iter(texts), out=tmp_path / "plain.npy")
    broken = iter([*texts[:1100], None])
    with pytest.raises(TypeError):
        firth.encode(run_folder, _until_none(broken), out=tmp_path / "ray.npy", engine="ray")
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / ".ray.npy.parts").iterdir()}
    assert kept
    assert not (tmp_path / "ray.npy").exists()
    remote = firth.encode(run_folder, texts, out=tmp_path / "ray.npy", engine="ray")
    assert remote.shape == plain.shape == (1200, plain.shape[1])
    assert np.abs(remote - plain).max() < 1e-6
    assert (tmp_path / "plain.npy").stat().st_size == (tmp_path / "ray.npy").stat().st_size
    assert not (tmp_path / ".ray.npy.parts").exists()


def _until_none(texts: Iterator[str | None]) -> Iterator[str]:
    for text in texts:
        if text is None:
            raise TypeError
        yield text


def test_predict(cluster: Cluster, tmp_path: Path) -> None:
    rows = [(f"The {word} is {mood}.", mood) for word in ("map", "sea", "tree", "car") for mood in ("good", "bad")]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    firth.finetune("classify", train=tmp_path / "train.tsv", base="counts", out=tmp_path / "run")
    (tmp_path / "texts.txt").write_text("".join(f"A sea of {number}.\n" for number in range(600)))
    plain = list(firth.predict(tmp_path / "run", file=tmp_path / "texts.txt"))
    remote = list(firth.predict(tmp_path / "run", file=tmp_path / "texts.txt", engine="ray"))
    assert json.dumps(plain) == json.dumps(remote)
