"""Runs that show what those of ``made_runs`` do not: models of a single language, an index of images and one whose documents form
groups, a classifier of images that was fine-tuned, and reports of other kinds."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from made_runs import LOOP, SMALL, chinese, english, moods, write_text

import firth
from firth.core.config import parse_settings
from firth.core.registry import find_run_recipe
from firth.data.labelled import TextExample
from image_samples import make_folder
from task_text import write


class MoreRuns(NamedTuple):
    """Folders; ``reports`` are pages."""

    english: list[Path]
    chinese: list[Path]
    indexes: list[Path]
    reports: list[Path]


def _pretrain(recipe: str, corpus: Path, out: Path, *settings: str) -> Path:
    firth.pretrain(find_run_recipe(recipe).override([*settings, *LOOP]), corpus=corpus, out=out)
    return out


def _text(path: Path, said: Callable[[random.Random], str], between: str) -> Path:
    pick = random.Random(5)
    path.write_text("".join(f"{between.join(said(pick) for _ in range(3))}\n" for _ in range(300)), encoding="utf-8")
    return path


def _of_language(folder: Path, name: str, said: Callable[[random.Random], str], rows: list[TextExample]) -> list[Path]:
    """Word vectors, a masked model, a language model and a classifier that read one language."""
    text, runs = _text(folder / f"{name}.txt", said, " " if name == "english" else ""), folder / "runs"
    how = {"layout": "line", "heldout": 0.05, "workers": 1}
    firth.prepare(text, folder / f"{name}-words", tokens="words", **how)  # type: ignore[arg-type]
    firth.prepare(text, folder / f"{name}-pieces", vocab_size=400, **how)  # type: ignore[arg-type]
    vectors = parse_settings(["dim=16", "min_count=2", "epochs=10", "threads=1", "sample=0", "window=3"])
    firth.pretrain("word2vec", corpus=folder / f"{name}-words", out=runs / f"{name}-word2vec", settings=vectors)
    bert = _pretrain("bert-tiny", folder / f"{name}-pieces", runs / f"{name}-bert", *SMALL, "steps=60")
    _pretrain("gpt-tiny", folder / f"{name}-pieces", runs / f"{name}-gpt", *SMALL, "steps=40")
    train, dev = (write(folder / f"{name}-{part}", some) for part, some in (("train", rows[:24]), ("dev", rows[24:])))
    firth.finetune("classify", base=bert, train=train, dev=dev, out=runs / f"{name}-mood", epochs=1)
    return [runs / f"{name}-{kind}" for kind in ("word2vec", "bert", "gpt", "mood")]


def _han_moods(count: int) -> list[TextExample]:
    pick, found = random.Random(2), []
    for number in range(count):
        word = pick.choice(["精彩", "最好"]) if number % 2 else pick.choice(["糟糕", "最差"])
        found.append(TextExample(f"今天在公园看了一部{word}的电影。", None, "好" if number % 2 else "差"))
    return found


def _indexes(folder: Path, vectors: Path) -> list[Path]:
    runs, images = folder / "runs", make_folder(folder / "images", 40)
    firth.prepare_images(images, folder / "pixels", image_size=16)
    shape = ["hidden_dim=32", "num_layers=2", "num_heads=2", "ffn_dim=64", "batch_size=16", "learning_rate=0.003"]
    vit = _pretrain("vit-tiny", folder / "pixels", folder / "vit", *shape, "steps=20")
    (folder / "paths.txt").write_text("".join(f"{path}\n" for path in sorted(images.rglob("*.png"))), encoding="utf-8")
    firth.index(folder / "paths.txt", runs / "photos", model=vit, layout="line")
    dev = make_folder(folder / "dev images", 20)
    firth.finetune("classify", base=vit, train=images, dev=dev, out=runs / "kinds", epochs=1)
    stories = write_text(folder / "stories.txt", 60)
    firth.index(stories, runs / "stories", model=vectors, layout="line")
    firth.index(stories, runs / "plain", layout="line")
    return [runs / name for name in ("photos", "kinds", "stories", "plain")]


def _reports(folder: Path, bert: Path) -> list[Path]:
    """Of a comparison, a probe, ELMo and GloVe."""
    shape = ["filters=[[1,4],[3,8]]", "projection_dim=8", "cell_dim=16", "seq_len=12", "num_samples=32", "batch_size=4"]
    elmo = _pretrain("elmo-tiny", folder / "english-words", folder / "elmo", *shape, "steps=20")
    glove = parse_settings(["dim=8", "min_count=2", "epochs=3", "threads=1"])
    firth.pretrain("glove", corpus=folder / "english-words", out=folder / "glove", settings=glove)
    tagged = folder / "tags.conllu"
    words = [("The", "DET"), ("king", "NOUN"), ("barked", "VERB"), ("at", "ADP"), ("London", "PROPN"), (".", "PUNCT")]
    sentence = "".join(f"{n}\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n" for n, (word, tag) in enumerate(words, 1))
    tagged.write_text(f"{sentence}\n" * 30, encoding="utf-8")
    firth.probe(bert, out=folder / "probe", pos=tagged, pos_test=tagged, texts=folder / "english.txt", num_texts=5)
    train, dev = (write(folder / f"compare-{part}", moods(some)) for part, some in (("train", 24), ("dev", 12)))
    firth.compare(
        "classify", train=train, dev=dev, corpus=folder / "english.txt", out=folder / "compared", budget="8s",
        recipes=["word2vec", "bert-tiny"], seeds=1, vocab_size=300,
    )  # fmt: skip
    return [
        elmo / "report.html",
        folder / "glove" / "report.html",
        *(folder / name / "report.html" for name in ("probe", "compared")),
    ]


def make_more_runs(folder: Path) -> MoreRuns:
    first = _of_language(folder, "english", english, moods(36))
    second = _of_language(folder, "chinese", chinese, _han_moods(36))
    return MoreRuns(first, second, _indexes(folder, first[0]), _reports(folder, first[1]))
