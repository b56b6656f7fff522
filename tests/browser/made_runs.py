"""One small run of every kind that the page shows, trained in seconds on text made here.

The text knows the words of the page's first examples, in both languages, so that a click on them shows something.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import firth
from firth.core.config import parse_settings
from firth.core.registry import find_run_recipe
from firth.data.labelled import Answer, AnswerExample, TagExample, TextExample
from image_samples import make_folder
from task_text import write

RULERS = [("king", "man", "his", "crown"), ("queen", "woman", "her", "crown"), ("prince", "boy", "his", "horse")]
CITIES = ["Paris", "London", "Berlin", "Rome"]
ANIMALS = ["dog", "cat", "horse", "bird"]
NUMBERS = ["one", "two", "three", "four"]
HAN_RULERS = [("国王", "男人"), ("女王", "女人")]
HAN_CITIES = ["北京", "上海", "巴黎", "伦敦"]
HAN_ANIMALS = ["狗", "猫", "马", "鸟"]
SMALL = ["num_layers=2", "hidden_dim=48", "num_heads=2", "ffn_dim=96", "max_positions=64", "seq_len=48", "batch_size=8"]
LOOP = ["evaluation_batches=2", "evaluations=4", "checkpoints=2"]


def english(pick: random.Random) -> str:
    ruler, person, whose, thing = pick.choice(RULERS)
    animal, other = pick.sample(ANIMALS, 2)
    return pick.choice(
        [
            f"The {ruler} is a {person} who loves {whose} {thing}.",
            f"A {person} asked the {ruler} for {whose} help.",
            f"We travelled from {pick.choice(CITIES)} to {pick.choice(CITIES)} by train.",
            f"The streets of {pick.choice(CITIES)} are old and wide.",
            f"The {animal} barked at the {other} in the garden.",
            f"A little {animal} runs through the garden.",
            f"She counted {pick.choice(NUMBERS)} apples and {pick.choice(NUMBERS)} letters.",
            "She sat on the bank of the river and read.",
            "The boat was tied up at the bank of the river.",
            "He took money from the bank on Monday.",
            "The bank lent them money for the house.",
        ]
    )


def chinese(pick: random.Random) -> str:
    ruler, person = pick.choice(HAN_RULERS)
    animal, other = pick.sample(HAN_ANIMALS, 2)
    return pick.choice(
        [
            f"{ruler}是一个{person}，她喜欢自己的国家。",
            f"一个{person}请{ruler}帮忙。",
            f"我们从{pick.choice(HAN_CITIES)}坐火车去{pick.choice(HAN_CITIES)}。",
            f"一只{animal}在花园里看见了{other}。",
            f"今天的天气很{pick.choice(['好', '热', '冷'])}，我们去公园散步。",
            "他在市场上买了三个苹果。",
            "苹果公司今天发布了新的手机。",
        ]
    )


def write_text(path: Path, count: int) -> Path:
    """A document a line; every third is Chinese."""
    pick = random.Random(7)
    lines = []
    for number in range(count):
        said = [chinese(pick) if number % 3 == 2 else english(pick) for _ in range(3)]
        lines.append(("" if number % 3 == 2 else " ").join(said))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def moods(count: int, seed: int = 0) -> list[TextExample]:
    pick = random.Random(seed)
    found = []
    for number in range(count):
        word = pick.choice(["wonderful", "best"]) if number % 2 else pick.choice(["terrible", "worst"])
        found.append(TextExample(f"A {word} film in the garden.", None, "good" if number % 2 else "bad"))
    return found


def pairs(count: int, seed: int = 0) -> list[TextExample]:
    pick = random.Random(seed)
    found = []
    for number in range(count):
        one, other = pick.sample(ANIMALS, 2)
        second = one if number % 2 else other
        found.append(TextExample(f"The {one} barked.", f"A {second} runs.", "same" if number % 2 else "other"))
    return found


def names(count: int, seed: int = 0) -> list[TagExample]:
    pick = random.Random(seed)
    found = []
    for _ in range(count):
        before = pick.choice([[], ["Today"], ["😀"]])
        words = [*pick.choice(["Marie Curie", "Anna Brown"]).split(), "was", "born", "in", pick.choice(CITIES), "."]
        tags = ["O"] * len(before) + ["B-PER", "I-PER", "O", "O", "O", "B-LOC", "O"]
        found.append(TagExample([*before, *words], tags))
    return found


def questions(count: int, seed: int = 0) -> list[AnswerExample]:
    pick = random.Random(seed)
    found = []
    for number in range(count):
        city = pick.choice(CITIES)
        passage = f"The king was born in {city} and loves his crown."
        answer = Answer(city, passage.index(city))
        found.append(AnswerExample(str(number), "Where was the king born?", passage, [answer], False, "", [city]))
    return found


def sentence_pairs(count: int) -> tuple[list[str], list[str]]:
    """Every word becomes another one; the order stays."""
    words = {"A": "Ein", "little": "kleiner", "dog": "Hund", "bird": "Vogel", "runs": "läuft", "sings": "singt"}
    words |= {"through": "durch", "in": "in", "the": "den", "garden": "Garten", "forest": "Wald", "quickly": "schnell"}
    pick = random.Random(3)
    sources = [
        f"A {pick.choice(['', 'little '])}{pick.choice(['dog', 'bird'])} {pick.choice(['runs', 'sings'])} "
        f"{pick.choice(['', 'quickly '])}{pick.choice(['through', 'in'])} the {pick.choice(['garden', 'forest'])}."
        for _ in range(count)
    ]
    return sources, [" ".join(words[word] for word in source[:-1].split()) + "." for source in sources]


def _pretrain(recipe: str, corpus: Path, out: Path, settings: Sequence[str]) -> Path:
    firth.pretrain(find_run_recipe(recipe).override([*settings, *LOOP]), corpus=corpus, out=out)
    return out


def _finetune(task: str, base: Path, made: tuple[list[object], list[object]], out: Path, **settings: object) -> Path:
    train, dev = (
        write(out.parent / f"{out.name}-{part}", rows) for part, rows in zip(("train", "dev"), made, strict=True)
    )
    firth.finetune(task, base=base, train=train, dev=dev, out=out, learning_rate=2e-3, **settings)  # type: ignore[arg-type]
    return out


def _translator(folder: Path, out: Path) -> Path:
    sides = []
    for language, lines in zip(("en", "de"), sentence_pairs(300), strict=True):
        path = folder / f"pairs.{language}"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        sides.append(str(path))
    firth.prepare_pairs(sides, folder / "pairs", vocab_size=300, heldout=0.05)
    shape = ["num_layers=1", "num_decoder_layers=1", "hidden_dim=48", "num_heads=2", "ffn_dim=96", "dropout_prob=0.0"]
    settings = [*shape, "batch_tokens=512", "steps=120", "learning_rate=0.01", "label_smoothing=0.0", "average=1"]
    return _pretrain("transformer-tiny", folder / "pairs", out, settings)


def _image_model(folder: Path, out: Path) -> Path:
    firth.prepare_images(make_folder(folder / "images", 40), folder / "pixels", image_size=16)
    shape = ["hidden_dim=32", "num_layers=2", "num_heads=2", "ffn_dim=64"]
    return _pretrain("vit-tiny", folder / "pixels", out, [*shape, "batch_size=16", "steps=40", "learning_rate=0.003"])


def make_runs(folder: Path) -> list[Path]:
    """Paths of the runs, in the order in which they are served."""
    text, runs = write_text(folder / "news.txt", 600), folder / "runs"
    how = {"layout": "line", "heldout": 0.05, "workers": 1}
    firth.prepare(text, folder / "words", tokens="words", **how)  # type: ignore[arg-type]
    firth.prepare(text, folder / "pieces", vocab_size=600, **how)  # type: ignore[arg-type]
    firth.prepare(text, folder / "bytes", tokens="bpe", vocab_size=600, lowercase=False, **how)  # type: ignore[arg-type]
    vectors = ["dim=16", "min_count=2", "epochs=30", "threads=1", "sample=0", "window=3"]
    firth.pretrain("word2vec", corpus=folder / "words", out=runs / "word2vec", settings=parse_settings(vectors))
    bert = _pretrain("bert-tiny", folder / "pieces", runs / "bert", [*SMALL, "steps=120", "learning_rate=0.003"])
    return [
        runs / "word2vec",
        bert,
        _pretrain("gpt-tiny", folder / "bytes", runs / "gpt", [*SMALL, "steps=80", "learning_rate=0.01"]),
        _translator(folder, runs / "en-de"),
        _finetune("classify", bert, (moods(24), moods(8, 1)), runs / "mood", epochs=2, layers="mix"),
        _finetune("classify", bert, (pairs(24), pairs(8, 1)), runs / "same", epochs=1),
        _finetune("tag", bert, (names(64), names(8, 1)), runs / "names", epochs=8),
        _finetune("answer", bert, (questions(32), questions(8, 1)), runs / "asked", epochs=4),
        _image_model(folder, runs / "bars"),
        _index(folder, runs / "word2vec", runs / "found"),
    ]


def _index(folder: Path, model: Path, out: Path) -> Path:
    rows = [
        {"text": one.passage, "id": f"story {number}", "year": 1990 + number} for number, one in enumerate(questions(8))
    ]
    (folder / "stories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    firth.index(folder / "stories.jsonl", out, model=model, id="id")
    return out
