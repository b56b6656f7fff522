"""What every recipe of images must do: learn, save, load, resume with the same bytes, start from a base, answer."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

import firth
from chinese_names import metrics_of_run, without_kind, without_metric
from firth.cli.main import main
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import RunConfig, find_run_recipe, recipes
from firth.core.run import Run
from firth.core.types import Event
from image_samples import make_folder
from model_abilities import check_abilities

SMALL = {
    "vit": ["hidden_dim=32", "num_layers=2", "num_heads=2", "ffn_dim=64", "patch_size=4"],
    "swin": ["embedding_dim=16", "depths=[2,1]", "num_heads=[2,2]", "patch_size=2", "window_size=4"],
}
RECIPES = sorted(name for name, spec in recipes().items() if spec.reads_images)
LOOP = ["image_size=16", "batch_size=8", "evaluations=2", "checkpoints=2"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    firth.prepare_images(make_folder(folder / "in", 80), folder / "corpus", image_size=16, heldout=0.2)
    return folder


def shrunk(name: str, *more: str) -> RunConfig:
    return find_run_recipe(name).override([*SMALL[recipes()[name].name], *LOOP, *more])


def bytes_of(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", RECIPES)
def test_train_save_load_resume(name: str, images: Path, tmp_path: Path) -> None:
    config = shrunk(name, "steps=6", "mix_prob=0.5", "color=0.2")
    trained = firth.pretrain(config, corpus=images / "corpus", out=tmp_path / "whole")
    loaded = firth.load(tmp_path / "whole")
    check_abilities(loaded)
    paths = [str(path) for path in sorted((images / "in").rglob("*.png"))[:5]]
    np.testing.assert_array_equal(trained.encode(paths), loaded.encode(paths))
    assert loaded.encode(paths).shape == (5, loaded.dim)
    found = firth.evaluate(tmp_path / "whole")
    assert found["loss"] == pytest.approx(Run.open(tmp_path / "whole").record.metrics["loss"], rel=1e-5)

    def stop(event: Event) -> None:
        if event["event"] == "evaluate" and event["step"] == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        firth.pretrain(config, corpus=images / "corpus", out=tmp_path / "cut", progress=stop)
    firth.pretrain(resume=tmp_path / "cut")
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


@pytest.mark.parametrize("name", ["vit", "swin"])
def test_classes_are_learned_and_used(
    name: str, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a masked model on; then predict, evaluate and encode by the command line."""
    masked = shrunk(f"{name}-tiny-masked", "steps=10")
    firth.pretrain(masked, corpus=images / "corpus", out=tmp_path / "masked")
    config = shrunk(f"{name}-tiny", "steps=150", "learning_rate=0.003")
    firth.pretrain(config, corpus=images / "corpus", out=tmp_path / "run", base=tmp_path / "masked")
    assert Run.open(tmp_path / "run").record.metrics["accuracy"] > 0.8
    assert firth.evaluate(tmp_path / "run", data=images / "in")["accuracy"] > 0.8
    one = str(sorted((images / "in" / "rows").iterdir())[0])
    capsys.readouterr()
    assert not main(["predict", str(tmp_path / "run"), one])
    assert json.loads(capsys.readouterr().out)["label"] in ("rows", "columns")
    goal = tmp_path / "vectors.npy"
    assert not main(["encode", str(tmp_path / "run"), str(images / "in"), "--out", str(goal)])
    assert np.load(goal).shape[0] == 80
    with pytest.raises(FirthError, match="reads images and cannot"):
        firth.load(tmp_path / "run").fill("a")
    with pytest.raises(FirthError, match="cannot predict labels"):
        firth.load(tmp_path / "masked").predict(one)


def test_mean_and_sizes(images: Path, tmp_path: Path) -> None:
    """A ViT without a class token keeps its own names; a base of another size is stretched."""
    config = shrunk("vit-tiny", "steps=2", "pool=mean", "positions=learned")
    firth.pretrain(config, corpus=images / "corpus", out=tmp_path / "mean")
    assert json.loads((tmp_path / "mean" / "config.json").read_text())["model_type"] == "firth-vit"
    assert firth.load(tmp_path / "mean").encode(str(images / "in")).shape == (80, 32)
    firth.prepare_images(images / "in", tmp_path / "larger", image_size=24)
    firth.pretrain(
        config.override(["image_size=24"]), corpus=tmp_path / "larger", out=tmp_path / "grown", base=tmp_path / "mean"
    )


def test_unfit_corpora_are_refused(images: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for path in sorted((images / "in" / "rows").iterdir())[:6]:
        (tmp_path / "plain" / path.name).write_bytes(path.read_bytes())
    firth.prepare_images(tmp_path / "plain", tmp_path / "unlabelled", image_size=16)
    with pytest.raises(FirthError, match="classes need two"):
        firth.pretrain(shrunk("vit-tiny", "steps=1"), corpus=tmp_path / "unlabelled", out=tmp_path / "run")
    with pytest.raises(FirthError, match="not a corpus of images"):
        firth.pretrain(shrunk("vit-tiny", "steps=1"), corpus=tmp_path, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def bases(images: Path) -> Path:
    """A small trained base of each model."""
    for name in ("vit", "swin"):
        config = shrunk(f"{name}-tiny-masked", "steps=10")
        firth.pretrain(config, corpus=images / "corpus", out=images / "bases" / name)
    return images / "bases"


@pytest.mark.parametrize("name", ["vit", "swin"])
def test_finetune_classify(
    name: str, images: Path, bases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line; the better of both candidates is kept, calibrated, and is a directory of the base's format."""
    out = tmp_path / "run"
    asked = ["finetune", "classify", "--base", str(bases / name), "--train", str(images / "in"), "--out", str(out)]
    assert not main([*asked, "--dev", str(images / "in")])
    shown = capsys.readouterr().out
    assert "80 images, 2 labels" in shown
    assert "linear" in shown
    assert "photo.jpg" in shown
    record = Run.open(out).record
    assert record.task is not None
    assert record.task.chosen is not None
    scores = {one.name: one.score or 0.0 for one in record.task.chosen.candidates}
    assert record.metrics["accuracy"] == max(scores.values()) > 0.8
    assert firth.evaluate(out, data=images / "in")["accuracy"] == pytest.approx(record.metrics["accuracy"])
    assert sorted(path.name for path in (out / "seeds" / "0").iterdir()) == ["metrics.jsonl"]
    assert (out / "metrics.jsonl").read_bytes() == (out / "seeds" / "0" / "metrics.jsonl").read_bytes()
    assert json.loads((out / "config.json").read_text())["architectures"][0].endswith("ForImageClassification")
    processing = [json.loads((one / "preprocessor_config.json").read_text()) for one in (bases / name, out)]
    assert processing[0] == processing[1]
    assert "Confusions" in (out / "report.html").read_text()
    assert without_metric(metrics_of_run(out)) == []  # the Chinese page has a name for each
    assert without_kind([firth.load(out).kind, firth.load(bases / name).kind]) == []


def test_finetune_without_dev_and_from_a_table(images: Path, bases: Path, tmp_path: Path) -> None:
    """A fifth decides, then all images are learned from; columns may be named. Interrupted, the same command goes on and
    ends with the same bytes."""
    files = sorted((images / "in").rglob("*.png"))
    (tmp_path / "list.csv").write_text("photo,kind\n" + "".join(f"{path},{path.parent.name}\n" for path in files))
    given = {"base": bases / "vit", "train": tmp_path / "list.csv", "text": "photo", "label": "kind", "epochs": 2}
    firth.finetune("classify", **given, out=tmp_path / "whole")
    record = Run.open(tmp_path / "whole").record
    assert record.task is not None
    assert record.task.chosen is not None
    assert [one.note for one in record.task.chosen.candidates] == ["on a fifth that was held out"]
    assert record.task.chosen.examples == 80

    def stop(event: Event) -> None:
        if event["event"] == "evaluate" and event["step"] == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        firth.finetune("classify", **given, out=tmp_path / "cut", progress=stop)
    with pytest.raises(FirthError, match="not finished; go on with: the same command"):
        firth.load(tmp_path / "cut")
    firth.finetune("classify", **given, out=tmp_path / "cut")
    assert bytes_of(tmp_path / "cut") == bytes_of(tmp_path / "whole")


def test_finetune_refuses(images: Path, bases: Path, tmp_path: Path) -> None:
    good = {"train": images / "in", "out": tmp_path / "run"}
    with pytest.raises(FirthError, match="images, which scratch does not read"):
        firth.finetune("classify", **good)
    with pytest.raises(FirthError, match="can be classified"):
        firth.finetune("score", base=bases / "vit", **good)
    with pytest.raises(FirthError, match="not a setting of images"):
        firth.finetune("classify", base=bases / "vit", **good, max_len=64)
    with pytest.raises(FirthError, match="leave out --seeds"):
        firth.finetune("classify", base=bases / "vit", **good, seeds=2)
    (tmp_path / "one" / "only").mkdir(parents=True)
    (tmp_path / "one" / "only" / "a.png").write_bytes(b"nothing")
    with pytest.raises(FirthError, match="classes need two"):
        firth.finetune("classify", base=bases / "vit", train=tmp_path / "one", out=tmp_path / "run")
    (tmp_path / "one" / "other").mkdir()
    (tmp_path / "one" / "other" / "b.png").write_bytes(b"nothing")
    with pytest.raises(FirthError, match="a single image"):
        firth.finetune("classify", base=bases / "vit", train=tmp_path / "one", out=tmp_path / "run")
    for name in ("only/c.png", "other/d.png"):
        (tmp_path / "one" / name).write_bytes(b"nothing")
    with pytest.raises(FirthError, match=r"\.png: not a whole"):
        firth.finetune("classify", base=bases / "vit", train=tmp_path / "one", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["vit", "swin", "mean"])
def test_onnx(name: str, images: Path, bases: Path, tmp_path: Path) -> None:
    """The same vectors and scores; int8 nearly; accuracy of both on labelled images."""
    source = tmp_path / "run"
    if name == "mean":
        config = shrunk("vit-tiny", "steps=2", "pool=mean")
        firth.pretrain(config, corpus=images / "corpus", out=source)
    else:
        firth.finetune("classify", base=bases / name, train=images / "in", dev=images / "in", out=source)
    model = firth.load(source)
    for int8 in (False, True):
        out = tmp_path / f"int8-{int8}"
        record = firth.export(source, out, to="onnx", int8=int8, data=images / "in")
        checked = record["export"]["verified"]
        assert checked["smallest_cosine"] > (0.99 if int8 else 0.999999)
        assert int8 or max(checked["largest_difference"], checked["largest_output_difference"]) < 1e-4
        assert abs(checked["before"]["accuracy"] - checked["after"]["accuracy"]) <= (0.05 if int8 else 0)
        exported = firth.load(out)
        assert exported.abilities == ["encode", "predict"]
        np.testing.assert_allclose(
            exported.encode(str(images / "in")), model.encode(str(images / "in")), atol=0.5 if int8 else 1e-4
        )
    with pytest.raises(FirthError, match="one vector per image"):
        exported.encode(str(images / "in"), layer=0)
    assert firth.evaluate(out, data=images / "in")["images"] == 80
    firth.export(bases / "swin", tmp_path / "unlabelled", to="onnx", verify=True)
    assert firth.load(tmp_path / "unlabelled").abilities == ["encode"]
    with pytest.raises(FirthError, match="learned no labels"):
        firth.export(bases / "swin", tmp_path / "scored", to="onnx", data=images / "in")


def test_search_by_image(images: Path, bases: Path, tmp_path: Path) -> None:
    """An index of paths, a line each; the question is an image, and it finds itself. A server must not open paths."""
    files = sorted((images / "in").rglob("*.png"))[:12]
    (tmp_path / "list.txt").write_text("".join(f"{path}\n" for path in files))
    firth.index(tmp_path / "list.txt", tmp_path / "index", model=bases / "vit", layout="line")
    found = firth.search(tmp_path / "index", str(files[5]), top=3)
    assert found[0].text == str(files[5])
    assert found[0].score > found[1].score
    with pytest.raises(FirthError, match="an index of images is asked with an image"):
        firth.load(tmp_path / "index").search(str(files[5]))
    with pytest.raises(FirthError, match="no such file"):
        firth.search(tmp_path / "index", "hello")
