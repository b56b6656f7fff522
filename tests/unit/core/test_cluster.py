"""Work on a Ray cluster: the same bytes as on one machine, nothing lost, nothing twice. One cluster of several nodes on this
machine for all tests; one of the nodes is killed."""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from compare_text import settings
from firth.api import encoding
from firth.api.searching import open_for_search
from firth.core.config import check_engine, usable_cores
from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe
from firth.core.run import Run
from firth.core.storage import Cluster, _require_answer
from firth.core.types import Arrays
from firth.corpus import parts
from firth.corpus import prepare as preparing
from firth.corpus import prepare_pairs as preparing_pairs
from firth.corpus.parts import _encode_block
from firth.retrieval import build as building
from pair_text import sentence_pairs, write_sides

os.environ.setdefault(
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"
)  # else Ray replaces 127.0.0.1 by the machine's own address
ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow


NODE: dict[str, Any] = {"node_ip_address": "127.0.0.1", "object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A head without cores, and two nodes."""
    from ray.cluster_utils import Cluster as Nodes

    with pytest.MonkeyPatch.context() as patch:  # workers find the functions of this file
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        found = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **NODE})
        for _ in range(2):
            found.add_node(num_cpus=1, wait=False, **NODE)
        ray.init(address=found.address, _node_ip_address="127.0.0.1", log_to_driver=False, logging_level=logging.ERROR)
        found.wait_for_nodes()
        yield found
        ray.shutdown()
        found.shutdown()


@pytest.fixture(scope="module")
def cluster(nodes: Any) -> Cluster:
    return Cluster()


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


def test_cores(cluster: Cluster) -> None:
    """A job has the cores that it was given; more than a machine has are refused."""
    assert cluster.call(_cores) == 1
    with pytest.raises(FirthError, match="a job runs on one machine, and the largest of this cluster has 1"):
        Cluster(cores=2)


def _cores() -> int:
    return usable_cores()


@pytest.mark.parametrize("tokens", ["wordpiece", "words"])
def test_prepare(
    tokens: str, cluster: Cluster, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "_BLOCK_BYTES", 4000)
    for engine in ("local", "ray"):
        firth.prepare(
            text_file,
            tmp_path / engine,
            tokens=tokens,
            vocab_size=400,
            layout="line",
            deduplicate=True,
            workers=1,
            engine=engine,
            near_duplicates=0.7,
        )
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _encode_slowly(rules: str | parts.PackedFolder, block: parts.Block) -> Arrays:
    time.sleep(0.2)
    return _encode_block(rules, block)


def test_a_lost_worker(cluster: Cluster, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is killed while it has a block: another one does it, and the corpus has the same bytes."""
    monkeypatch.setattr(preparing, "_BLOCK_BYTES", 1000)
    settings: dict[str, Any] = {"vocab_size": 400, "layout": "line", "workers": 1}
    firth.prepare(text_file, tmp_path / "local", **settings)
    mark, killed = tmp_path / "begun", tmp_path / "killed"
    mark.mkdir()

    def encode(rules: str | parts.PackedFolder, block: parts.Block) -> Arrays:
        (mark / str(time.time_ns())).touch()
        if len(list(mark.iterdir())) >= 3 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return _encode_block(rules, block)

    monkeypatch.setattr(parts, "_encode_block", encode)
    firth.prepare(text_file, tmp_path / "ray", engine="ray", **settings)
    assert killed.exists()
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")


def test_a_lost_node(
    nodes: Any, cluster: Cluster, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is killed while its blocks are under way: others do them, and the corpus has the same bytes."""
    monkeypatch.setattr(preparing, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(parts, "_encode_block", _encode_slowly)
    settings: dict[str, Any] = {"vocab_size": 400, "layout": "line", "workers": 1}
    firth.prepare(text_file, tmp_path / "local", **settings)
    doomed = nodes.add_node(num_cpus=2, **NODE)
    seen: list[str] = []

    def kill(event: dict[str, Any]) -> None:
        seen.append(event["event"])
        if seen.count("block") == 8:
            nodes.remove_node(doomed, allow_graceful=False)

    firth.prepare(text_file, tmp_path / "ray", engine="ray", progress=kill, **settings)
    assert seen.count("block") > 12
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")
    assert not doomed.any_processes_alive()  # Ray may go on listing the node for minutes on a busy machine


def test_prepare_pairs(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing_pairs, "_TOGETHER", 20)
    sides = write_sides(tmp_path, sentence_pairs(150))
    for engine in ("local", "ray"):
        firth.prepare_pairs(sides, tmp_path / engine, vocab_size=300, heldout=0.1, separate=True, engine=engine)
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")


def test_index(cluster: Cluster, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents that are changed, repeated and stopped on the way; the same documents, passages and answers as here."""
    monkeypatch.setattr(building, "_COMMITTED", 6)
    monkeypatch.setattr(building, "_ENCODED", 4)
    rows = [{"id": f"d{number % 31}", "text": f"The map of town {number} is old. " * 3} for number in range(40)]
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_text("".join(json.dumps({**row, "text": "A tree."}) + "\n" for row in rows[:12]))
    new.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = {}
    for engine in ("local", "ray"):
        settings: dict[str, Any] = {"model": run_folder, "id": "id", "engine": engine, "passage_size": 10}
        firth.index(old, tmp_path / engine, **settings)
        changes = asdict(firth.index(new, tmp_path / engine, **settings))
        index = open_for_search(tmp_path / engine)
        hits = [asdict(hit) for hit in firth.search(index, "town 17", mode="both", top=8, weight=0.5)]
        found[engine] = [(hit["id"], hit["text"]) for hit in hits]
        assert changes["documents"] == 31
        assert changes["added"] == 19
    assert found["local"] == found["ray"]
    assert firth.index(new, tmp_path / "ray", **settings).unchanged >= 22  # nothing is made twice
    with pytest.raises(FirthError, match="a cluster makes vectors: name a --model"):
        firth.index(new, tmp_path / "words", engine="ray")


def test_sweep_of_pretraining(cluster: Cluster, corpus_folder: Path, tiny_settings: list[str], tmp_path: Path) -> None:
    config = find_run_recipe("bert-tiny").override([*tiny_settings, "steps=4"])
    swept = []
    for engine in ("local", "ray"):
        out = tmp_path / engine
        firth.pretrain(config, corpus=corpus_folder, out=out, sweep={"learning_rate": (1e-3, 1e-4)}, engine=engine)
        swept.append(Run.open(out).record.sweep)
    for here, there in zip(*swept, strict=True):
        assert here.loss == pytest.approx(there.loss, abs=1e-4)
        assert here.chosen == there.chosen
    with pytest.raises(FirthError, match="one training on several machines is started by torchrun"):
        firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "one", engine="ray")


def test_trainings_and_folds(cluster: Cluster, run_folder: Path, tmp_path: Path) -> None:
    """Seeds are jobs, and of one training its folds; the scores are those of one machine."""
    rows = [(f"The {word} is {mood}.", mood) for word in ("map", "sea", "tree", "car") for mood in ("good", "bad")]
    train = tmp_path / "train.tsv"
    train.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    settings: dict[str, Any] = {"train": train, "base": run_folder, "epochs": 1, "batch_size": 4}
    ways: dict[str, dict[str, Any]] = {
        "seeds": {"dev": train, "seeds": 2},
        "folds": {"folds": 2, "settings": {"candidates": ["linear", "tuned"]}},
        "alone": {"folds": 2, "settings": {"candidates": ["tuned"]}},
    }
    for name, more in ways.items():
        results = []
        for engine in ("local", "ray"):
            firth.finetune("classify", out=tmp_path / f"{name}-{engine}", engine=engine, **settings, **more)
            task = Run.open(tmp_path / f"{name}-{engine}").record.task
            assert task is not None
            results.append([(one.seed, one.score, [tried.score for tried in one.candidates]) for one in task.results])
        assert results[0] == results[1], name
    with pytest.raises(FirthError, match="leave out --engine ray here"):
        firth.finetune("embed", train=train, base=run_folder, out=tmp_path / "embed", engine="ray")


def test_compare(cluster: Cluster, tmp_path: Path) -> None:
    """Cells land in the cache of the comparison: with them one machine has nothing left to train."""
    given = settings(tmp_path)
    remote = firth.compare("classify", **given, shares=[0.5, 1], engine="ray")
    assert remote["cached"] is False
    assert all(len(row["scores"]) == 2 for row in remote["rows"] if row["kind"] != "floor")
    here = firth.compare("classify", **given, shares=[0.5, 1])
    assert here["cached"] is True
    assert [row["scores"] for row in here["rows"]] == [row["scores"] for row in remote["rows"]]


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
