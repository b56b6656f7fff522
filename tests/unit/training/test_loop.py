"""The loop: accumulation, clipping, stopping at NaN, budgets and exact resuming."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import firth
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import RunConfig, choose_precision
from firth.core.run import Run
from firth.core.types import Batch, Losses
from firth.corpus.format import Corpus
from firth.models.bert.objective import BertPretraining
from firth.models.pretrain import configure
from firth.models.shared.pretraining import find_pretraining
from firth.training.checkpoints import list_checkpoints, prefetched, read_state
from firth.training.loop import Loop, Timing


def build_loop(config: RunConfig, corpus: Corpus, folder: Path, *settings: str) -> Loop:
    config = configure(config.override(list(settings)), corpus)
    folder.mkdir(exist_ok=True)
    return Loop(find_pretraining(config)(config, corpus), config.training, folder)


def train(loop: Loop, steps: int) -> list[float]:
    """The mean loss of every step."""
    losses = []
    with prefetched(loop.trainable.batch, loop._numbers(0, steps)) as batches:
        for step in range(steps):
            result = loop._step(batches, step, steps)
            losses.append(result.sums["masked"] / result.counts["masked"])
    return losses


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize(("rows", "accumulation"), [(4, 2), (2, 4), (1, 8)])
def test_accumulation_equals_the_big_batch(
    tiny_config: RunConfig, corpus: Corpus, tmp_path: Path, rows: int, accumulation: int, optimizer: str
) -> None:
    """The rows, masks and weights of the sum are the same; only the order of float32 additions
    differs, so the numbers agree to rounding (not to the last bit)."""
    usual = (f"optimizer={optimizer}", "learning_rate=1e-3")
    big = build_loop(tiny_config, corpus, tmp_path, "batch_size=8", *usual)
    small = build_loop(
        tiny_config,
        corpus,
        tmp_path,
        f"batch_size={rows}",
        f"gradient_accumulation={accumulation}",
        *usual,
    )
    assert train(big, 3) == pytest.approx(train(small, 3), abs=1e-6)
    for name, value in big.module.state_dict().items():
        torch.testing.assert_close(small.module.state_dict()[name], value, atol=1e-6, rtol=0, msg=name)


def test_the_same_seed_gives_the_same_bits(tiny_config: RunConfig, corpus: Corpus, tmp_path: Path) -> None:
    settings = ("dropout_prob=0.2", "attention_dropout_prob=0.1")
    one, two = (build_loop(tiny_config, corpus, tmp_path, *settings) for _ in range(2))
    other = build_loop(tiny_config, corpus, tmp_path, *settings, "seed=1")
    assert train(one, 3) == train(two, 3) != train(other, 3)
    for name, value in one.module.state_dict().items():
        assert torch.equal(two.module.state_dict()[name], value)


@pytest.mark.parametrize("clip_norm", [0, 1e-3])
def test_clipping(
    tiny_config: RunConfig, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clip_norm: float
) -> None:
    loop = build_loop(tiny_config, corpus, tmp_path, f"clip_norm={clip_norm}")
    seen: list[float] = []

    def look(*arguments: object, **more: object) -> None:
        gradients = [parameter.grad for parameter in loop.module.parameters() if parameter.grad is not None]
        seen.append(math.sqrt(sum(float(gradient.pow(2).sum()) for gradient in gradients)))

    monkeypatch.setattr(loop.optimizer, "step", look)
    with prefetched(loop.trainable.batch, loop._numbers(0, 1)) as batches:
        result = loop._step(batches, 0, 1)
    assert result.norm > 0.01  # what is reported is the norm before
    assert seen[0] == pytest.approx(clip_norm or result.norm, rel=1e-3)


def test_speed_is_that_of_steps(
    tiny_config: RunConfig, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a test takes between two steps is not counted: here a second a look at the clock, 1,000 a test."""
    loop = build_loop(tiny_config, corpus, tmp_path, "evaluations=3")
    clock = [0.0]

    def look() -> float:
        clock[0] += 1
        return clock[0]

    def evaluate() -> dict[str, float]:
        clock[0] += 1000
        return {"loss": 1.0}

    monkeypatch.setattr("firth.training.loop.time.perf_counter", look)
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0)
    monkeypatch.setattr(loop.trainable, "evaluate", evaluate)
    loop.run(3, "resume")
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    trained = [line for line in lines if line["event"] == "train"]
    before = 0
    for line in trained:
        assert line["tokens_per_s"] > (line["tokens"] - before) / 10
        before = line["tokens"]
    assert len(trained) == 3


class Poisoned(BertPretraining):
    """The loss turns to NaN in batch number 4."""

    def batch(self, number: int) -> Batch:
        batch = super().batch(number)
        return replace(batch, counts={**batch.counts, "masked": -1}) if number == 4 else batch

    def loss(self, batch: Batch) -> Losses:
        losses = super().loss(batch)
        if batch.counts["masked"] < 0:
            return Losses({name: value * float("nan") for name, value in losses.sums.items()})
        return losses


def test_nan_stops_at_the_last_good_checkpoint(tiny_config: RunConfig, corpus: Corpus, tmp_path: Path) -> None:
    config = configure(tiny_config, corpus)
    loop = Loop(Poisoned(config, corpus), config.training, tmp_path)
    with pytest.raises(
        FirthError, match=r"NaN or infinite at step 5; the last good checkpoint is .*/step-3; .*smaller learning_rate"
    ):
        loop.run(6, "resume")
    assert [step for step, _ in list_checkpoints(tmp_path / "checkpoints")] == [3]
    for value in loop.module.state_dict().values():
        assert bool(value.isfinite().all())


def test_a_huge_rate_is_noticed(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    """Weights that overflow in the last step of all are noticed by the evaluation after it."""
    for steps in (1, 6):
        config = tiny_config.override(["learning_rate=1e38", "warmup_ratio=0", f"steps={steps}"])
        with pytest.raises(FirthError, match=r"loss or gradient became NaN or infinite at step [12];"):
            firth.pretrain(config, corpus=corpus_folder, out=tmp_path / str(steps))
        assert not (tmp_path / str(steps) / "config.json").exists()


def test_evaluation_is_repeatable_and_changes_nothing(tiny_config: RunConfig, corpus: Corpus, tmp_path: Path) -> None:
    trainable = build_loop(tiny_config, corpus, tmp_path).trainable
    before = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    first = trainable.evaluate()
    assert 0 <= first["masked_accuracy"] <= 1
    assert first.get("masked", first["loss"]) == pytest.approx(math.log(corpus.info.vocab_size), rel=0.1)
    assert trainable.evaluate() == first
    assert all(torch.equal(value, before[name]) for name, value in trainable.module.state_dict().items())


class StopAt:
    """A progress that asks the loop to stop, as a signal would, at the first report."""

    def __call__(self, event: object) -> None:
        import signal

        signal.raise_signal(signal.SIGTERM)


def test_interrupted_and_resumed_is_the_same_run(
    tiny_config: RunConfig, run_folder: Path, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    with pytest.raises(
        Interrupted, match=r"stopped at step 1 of 6, which is saved; go on with: firth pretrain --resume .*run"
    ):
        firth.pretrain(tiny_config, corpus=corpus_folder, out=tmp_path / "run", progress=StopAt())
    with pytest.raises(FirthError, match="this run is not finished; go on with: firth pretrain --resume"):
        firth.load(tmp_path / "run")
    firth.pretrain(resume=tmp_path / "run")
    for name in ("model.safetensors", "config.json", "tokenizer.json", "vocab.txt"):
        assert (tmp_path / "run" / name).read_bytes() == (run_folder / name).read_bytes(), name
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["event"] == "evaluate"] == [3, 6]


def test_muon_goes_on_exactly(
    tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config.override(["optimizer=muon"])
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "whole")
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    with pytest.raises(Interrupted):
        firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "parts", progress=StopAt())
    firth.pretrain(resume=tmp_path / "parts")
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_budget_fixes_the_steps(
    tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of steps is stored, and the timing leaves no trace: the run equals one of that many steps."""
    config = tiny_config.override(["steps=null", "budget=1s"])
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    with pytest.raises(Interrupted):
        firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run", progress=StopAt())
    steps = json.loads((tmp_path / "run" / "firth.json").read_text())["steps"]
    assert steps >= 1

    def never(*arguments: object) -> int:
        raise AssertionError("a run is timed once")

    monkeypatch.setattr(Loop, "measure", never)
    (tmp_path / "run" / "firth.json").write_text(
        (tmp_path / "run" / "firth.json").read_text().replace(f'"steps": {steps},', '"steps": 4,')
    )
    firth.pretrain(resume=tmp_path / "run")
    assert read_state(tmp_path / "run" / "checkpoints" / "step-4")["step"] == 4


def test_slow_tests_take_a_fifth_of_the_budget() -> None:
    assert Timing(0.5, 1.0, 0.0).fit(100.0, 8) == (184, 8)
    assert Timing(0.5, 10.0, 0.0).fit(100.0, 8) == (160, 2)
    assert Timing(0.5, 40.0, 0.0).fit(100.0, 8) == (120, 1)  # the last is always made
    assert Timing(0.5, 200.0, 0.0).fit(100.0, 8) == (1, 1)
    assert Timing(0.5, 1.0, 0.0).fit(100.0, 0) == (198, 1)


def test_measuring_puts_everything_back(tiny_config: RunConfig, corpus: Corpus, tmp_path: Path) -> None:
    plain, measured = (build_loop(tiny_config, corpus, tmp_path) for _ in range(2))
    steps, tests = measured.measure(0.5)
    assert steps >= 1
    assert tests >= 1
    assert train(plain, 2) == train(measured, 2)
    assert measured.step == measured.tokens == 0


def test_best_and_last_are_kept(
    tiny_config: RunConfig, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = build_loop(tiny_config, corpus, tmp_path, "evaluations=6", "keep=2")
    scores = iter([5.0, 3.0, 4.0, 4.5, 4.2, 4.1])
    monkeypatch.setattr(loop.trainable, "evaluate", lambda: {"loss": next(scores)})
    assert loop.run(6, "resume") == {"loss": 4.1}
    assert [step for step, _ in list_checkpoints(loop.checkpoints)] == [2, 5, 6]
    assert loop.best == {"loss": 3.0, "step": 2}


def test_epochs_become_steps(tiny_config: RunConfig, corpus_folder: Path, corpus: Corpus, tmp_path: Path) -> None:
    config = tiny_config.override(["steps=null", "epochs=0.5", "batch_size=16"])
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "firth.json").read_text())
    rows = len(find_pretraining(config)(configure(config, corpus), corpus).rows)
    assert facts["steps"] == round(0.5 * rows / 16)
    assert facts["epochs"] == pytest.approx(0.5, abs=16 / rows)


def test_a_corpus_without_heldout(tiny_config: RunConfig, text_file: Path, tmp_path: Path) -> None:
    firth.prepare(text_file, tmp_path / "corpus", vocab_size=400, layout="line", heldout=0.0, workers=1)
    firth.pretrain(tiny_config, corpus=tmp_path / "corpus", out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "firth.json").read_text())["metrics"] == {}
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()


def test_prefetch_keeps_order_and_passes_errors() -> None:
    def make(number: int) -> int:
        if number == 7:
            raise FirthError("seven")
        return number * number

    found = []
    with pytest.raises(FirthError, match="seven"), prefetched(make, iter(range(20))) as batches:
        found.extend(batches)
    with prefetched(make, iter(range(5))) as batches:
        assert list(batches) == [0, 1, 4, 9, 16]


def test_killed_before_the_first_checkpoint_it_begins_with_its_base_again(
    tiny_config: RunConfig, run_folder: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    firth.pretrain(tiny_config, corpus=corpus_folder, base=run_folder, out=whole)
    shutil.copytree(whole, killed)
    shutil.rmtree(killed / "checkpoints")
    (killed / "model.safetensors").unlink()
    Run.open(killed).save(status="started")
    firth.pretrain(resume=killed)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_averaging_has_the_tests_that_it_goes_by() -> None:
    assert Timing(0.5, 40.0, 0.0).fit(1000.0, 100, least=7) == (1440, 7)


def test_a_checkpoint_that_a_killed_process_did_not_remove_is_removed(run_folder: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(run_folder, tmp_path / "run"))
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    for name in ("step-1", "step-2"):
        shutil.copytree(run / "checkpoints" / before[-1], run / "checkpoints" / name, dirs_exist_ok=True)
    Run.open(run).save(status="started")
    firth.pretrain(resume=run)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before


def test_automatic_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 where there are units for it; what is asked for stays."""
    for units in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda units=units: units)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
        assert choose_precision("auto", "cpu") == ("bfloat16" if units else "float32")
        assert choose_precision("float32", "cpu") == "float32"
        assert choose_precision("bfloat16", "cpu") == "bfloat16"
