"""Fine-tuning: cached features, rates by layer, patience, the best weights, seeds that are done stay done."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from conftest import Train  # type: ignore[attr-defined]
from firth.cli.main import main
from firth.core.errors import FirthError, Interrupted
from firth.core.files import read_json
from firth.core.run import Run
from firth.core.types import TextReader
from firth.tasks.classify import Classify
from firth.tasks.config import TaskConfig
from firth.tasks.finetune import sweep_points
from firth.tasks.model import load_base_model
from firth.tasks.training import Finetuning, layer_rates
from firth.training.loop import Loop
from task_text import files, tagged, texts


def trainable(reader: TextReader, **settings: Any) -> Finetuning:
    config = TaskConfig.build({"labels": ["en", "zh"], "batch_size": 4, "epochs": 2, **settings}, "test")
    task = Classify(config, reader)
    return Finetuning(config, task, task.build(False), texts(10), texts(4, seed=1))


@pytest.mark.parametrize("layers", ["last", "mix"])
def test_cached_features_change_nothing(layers: str, bert_reader: TextReader) -> None:
    found = trainable(bert_reader, tune=False, layers=layers)
    assert found.cache is not None
    found.network.eval()
    for number in range(found.steps):
        batch = found.batch(number)
        assert "features" in batch.arrays
        with_cache = found.loss(batch.to("cpu")).sums["task"]
        arrays = {name: array for name, array in batch.arrays.items() if name != "features"}
        without = type(batch)(arrays, batch.counts, batch.num_tokens).to("cpu")
        torch.testing.assert_close(with_cache, found.loss(without).sums["task"], atol=1e-5, rtol=1e-5)
    kept = len(found.cache)
    found.batch(0)
    assert len(found.cache) == kept == 10
    for parameter in bert_reader.module.parameters():
        parameter.requires_grad_(True)


def test_every_example_once_an_epoch(bert_reader: TextReader) -> None:
    found = trainable(bert_reader)
    for epoch in found.epochs:
        assert sorted(np.concatenate(epoch).tolist()) == list(range(10))
    again = trainable(bert_reader)
    for number in range(found.steps):
        np.testing.assert_array_equal(found.batch(number).arrays["ids"], again.batch(number).arrays["ids"])


def test_lower_layers_learn_slower(bert_reader: TextReader) -> None:
    network = trainable(bert_reader).network
    rates = layer_rates(network, 0.5)
    by_part = {
        part: {rate for name, rate in rates.items() if f".{part}." in name}
        for part in ("embeddings", "blocks.0", "blocks.1")
    }
    assert by_part == {"embeddings": {0.125}, "blocks.0": {0.25}, "blocks.1": {0.5}}
    assert not any(name.startswith(("out.", "pooler.")) for name in rates)
    assert layer_rates(network, 1.0) == {}


def test_the_best_weights_are_kept(bert_reader: TextReader, monkeypatch: pytest.MonkeyPatch) -> None:
    found = trainable(bert_reader, patience=2)
    values = iter([0.5, 0.9, 0.9, 0.7])
    monkeypatch.setattr(found.task, "score", lambda *_: {"accuracy": next(values)})
    bias = found.network.out.bias
    ended = []
    for number in range(4):
        with torch.no_grad():
            bias.fill_(number)
        found.evaluate()
        ended.append(found.enough())
    assert ended == [False, False, False, True]  # equal is not better
    found.take_best()
    assert bias.tolist() == [1.0, 1.0]


def test_patience_begins_with_the_first_thing_found(bert_reader: TextReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tagger finds nothing in its first epochs."""
    found = trainable(bert_reader, patience=2)
    values = iter([0.0, 0.0, 0.0, 0.0, 0.3, 0.2, 0.1])
    monkeypatch.setattr(found.task, "score", lambda *_: {"accuracy": next(values)})
    ended = []
    for _ in range(7):
        found.evaluate()
        ended.append(found.enough())
    assert ended == [False] * 6 + [True]


def test_an_unknown_metric(bert_reader: TextReader) -> None:
    with pytest.raises(FirthError, match="'acuracy' is no score of this task; choose among accuracy"):
        trainable(bert_reader, metric="acuracy").evaluate()


def test_a_metric_that_is_best_when_small(bert_reader: TextReader, monkeypatch: pytest.MonkeyPatch) -> None:
    found = trainable(bert_reader, metric="mean_squared_error")
    monkeypatch.setattr(found.task, "score", lambda *_: {"pearson": 0.5, "mean_squared_error": 0.1})
    with pytest.raises(FirthError, match=r"'mean_squared_error' is best when it is small; choose among pearson$"):
        found.evaluate()


def test_the_same_seed_gives_the_same_weights(train: Train) -> None:
    def weights(seed: int) -> dict[str, torch.Tensor]:
        return train("tag", tagged(8), epochs=2, dropout_prob=0.2, seed=seed)[0].network.state_dict()

    first, second, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert not torch.equal(first["out.weight"], other["out.weight"])


def test_class_weights_help_rare_classes(train: Train) -> None:
    same = [one for one in texts(60) if one.label == "en"][:28] + [one for one in texts(60) if one.label == "zh"][:2]
    model, _ = train("classify", same, same, epochs=1, class_weights=True)
    assert isinstance(model.task, Classify)
    assert model.task.class_weights is not None
    assert model.task.class_weights.tolist() == pytest.approx([30 / 56, 30 / 4])


def finetune(folder: Path, run_folder: Path, out: str, **more: Any) -> Any:
    return firth.finetune(
        "classify", base=run_folder, **files(folder, "classify", 12, 6), out=folder / out, epochs=1, **more
    )


def test_seeds(run_folder: Path, tmp_path: Path) -> None:
    finetune(tmp_path, run_folder, "three", seeds=3, learning_rate=0.001)
    record = Run.open(tmp_path / "three").record
    task = record.task
    assert task is not None
    assert task.best is not None
    assert task.spread is not None
    values = [result.scores["accuracy"] for result in task.results]
    assert [result.seed for result in task.results] == [0, 1, 2]
    assert task.spread.model_dump() == {
        "mean": pytest.approx(np.mean(values)),
        "deviation": pytest.approx(np.std(values, ddof=1)),
        "count": 3,
    }
    assert values[task.best] == max(values) == record.metrics["accuracy"]
    alone = finetune(tmp_path, run_folder, "one", learning_rate=1e-3, seed=task.best)
    assert alone.predict(["The map.", "书"]) == firth.load(tmp_path / "three").predict(["The map.", "书"])


def test_finished_seeds_are_not_trained_again(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    run = Loop.run

    def stopped(self: Loop, *words: Any) -> Any:
        trained.append(self.config.seed)
        if len(trained) == 2:
            raise Interrupted("stopped")
        return run(self, *words)

    monkeypatch.setattr(Loop, "run", stopped)
    with pytest.raises(Interrupted):
        finetune(tmp_path, run_folder, "run", seeds=3)
    first = read_json(tmp_path / "run" / "seeds" / "0" / "result.json")
    with pytest.raises(FirthError, match="exists already"):
        finetune(tmp_path, run_folder, "run", seeds=2)
    finetune(tmp_path, run_folder, "run", seeds=3)
    assert trained == [0, 1, 1, 2]
    record = Run.open(tmp_path / "run").record
    assert record.finished
    assert record.task is not None
    assert record.task.results[0].model_dump(mode="json") == first
    finetune(tmp_path, run_folder, "whole", seeds=3)
    whole = Run.open(tmp_path / "whole").record
    assert whole.task is not None
    assert [result.scores for result in record.task.results] == [result.scores for result in whole.task.results]
    assert record.checksums == whole.checksums


def test_one_process_a_run(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "run", lambda *_: (_ for _ in ()).throw(Interrupted("stopped")))
    with pytest.raises(Interrupted):
        finetune(tmp_path, run_folder, "run")
    run = Run.open(tmp_path / "run")
    with run.lock(), pytest.raises(FirthError, match="another process"):
        finetune(tmp_path, run_folder, "run")
    assert Run.open(tmp_path / "run").record.status == "started"


def test_the_usual_grid_suits_the_base(run_folder: Path) -> None:
    base = load_base_model(run_folder)
    config = TaskConfig(learning_rate=1e-3, epochs=5)
    small = sweep_points(config, base, True)
    assert {(point["learning_rate"], point["epochs"]) for point in small} == {
        (rate, epochs) for rate in (5e-4, 1e-3, 2e-3) for epochs in (5, 10)
    }
    base.dim = 768
    assert len(sweep_points(config, base, True)) == 12  # Devlin et al. 2018, A.3
    with pytest.raises(FirthError, match="seed is not a setting"):
        sweep_points(config, base, {"seed": (1, 2)})
    with pytest.raises(FirthError, match="learning_rate"):
        sweep_points(config, base, {"learning_rate": (-1.0,)})


def test_a_sweep_of_ones_own(tmp_path: Path) -> None:
    """As typed, and as a mapping: every combination is trained and stored, and another grid is another run."""
    paths = files(tmp_path, "classify", 12, 6)
    words = [
        "finetune",
        "classify",
        "--train",
        str(paths["train"]),
        "--dev",
        str(paths["dev"]),
        "--out",
        str(tmp_path / "a"),
    ]
    main([*words, "--sweep", "learning_rate=1e-2,3e-3", "epochs=1,2", "body=none"])
    task = Run.open(tmp_path / "a").record.task
    assert task is not None
    wanted = [{"learning_rate": rate, "epochs": epochs} for rate in (1e-2, 3e-3) for epochs in (1, 2)]
    assert list(task.grid) == [result.point for result in task.results[:-1]] == wanted
    assert [result.settings.epochs for result in task.results[:-1]] == [1, 2, 1, 2]
    untuned = task.results[-1]  # a sweep is not below what it stands on
    assert not untuned.point
    assert [one.name for one in untuned.candidates] == ["counts"]
    assert task.chosen is not None
    assert task.chosen.score == max(result.score for result in task.results)
    assert task.spread is not None
    assert task.spread.count == 4
    grid = {"learning_rate": (1e-2, 3e-3), "epochs": (1, 2)}
    firth.finetune("classify", **paths, out=tmp_path / "b", sweep=grid, body="none")  # type: ignore[arg-type]
    again = Run.open(tmp_path / "b").record.task
    assert again is not None
    assert [result.score for result in again.results] == [result.score for result in task.results]
    with pytest.raises(FirthError, match="exists already"):
        firth.finetune("classify", **paths, out=tmp_path / "b", sweep={**grid, "epochs": (1, 3)}, body="none")  # type: ignore[arg-type]


def test_a_task_as_base(run_folder: Path, tmp_path: Path) -> None:
    """What was tuned for one task goes on to the next; also where the model is not a published one."""
    finetune(tmp_path, run_folder, "first", layers="mix")
    again = finetune(tmp_path, tmp_path / "first", "second", tune=False)
    assert firth.load(tmp_path / "second").predict(["A map."]) == again.predict(["A map."])


def test_only_what_is_tuned_computes_in_half_precision(
    bert_reader: TextReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base's products while it learns: gradients are float32's up to rounding. Heads, losses and predictions are float32."""
    seen: list[tuple[bool, bool]] = []
    plain = torch.nn.Linear.forward

    def noted(self: torch.nn.Linear, hidden: torch.Tensor) -> torch.Tensor:
        seen.append((self in inside, torch.is_autocast_enabled("cpu")))
        return plain(self, hidden)

    monkeypatch.setattr(torch.nn.Linear, "forward", noted)
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # the library computes them on any CPU
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    gradients = {}
    for precision in ("float32", "bfloat16"):
        torch.manual_seed(0)
        found = trainable(bert_reader, precision=precision, dropout_prob=0.0)
        found.network.start(torch.Generator().manual_seed(0))
        inside = set(found.network.reader_module.modules())
        seen.clear()
        found.network.train()
        loss = found.loss(found.batch(0).to("cpu")).sums["task"]
        assert loss.dtype == torch.float32
        assert set(seen) == {(True, precision == "bfloat16"), (False, False)}
        found.network.zero_grad()
        loss.backward()
        gradients[precision] = [one.grad for one in found.network.parameters() if one.grad is not None]
        seen.clear()
        found.evaluate()
        assert {half for _, half in seen} == {False}
    norms = [sum(float(one.square().sum()) for one in some) for some in gradients.values()]
    apart = sum(float((one - two).square().sum()) for one, two in zip(*gradients.values(), strict=True))
    assert 0 < apart < 0.001 * min(norms)
