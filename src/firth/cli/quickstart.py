"""The first minutes: the main job on a sample that comes with a package, nothing downloaded by hand."""

from pathlib import Path
from typing import Any

from firth.cli.output import say, say_json
from firth.cli.progress import progress_display
from firth.cli.sample import PARTS, write_sample
from firth.core.errors import FirthError
from firth.core.units import show_duration

RECIPES = ("word2vec", "fasttext", "elmo-tiny", "bert-tiny-modern", "scratch")
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
        "cached": "   nothing was trained: all of this was there already ({seconds})",
        "table": "2. Good or bad? What each representation reaches, and what it costs",
        "fill": "3. What {name} would put in the place of [MASK]",
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
    """Compare on the sample, then fill in; finished steps are not done again."""
    from firth import task_api
    from firth.core.units import show_bytes

    if lang not in _WORDS:
        raise FirthError(f"there is no sample in '{lang}': choose en or zh")
    words, out = _WORDS[lang], folder / lang
    text = write_sample(lang, out)
    if not as_json:
        say(words["text"].format(text=show_bytes(text.stat().st_size), **PARTS))
        say(words["start"].format(budget=budget))
    found = task_api.compare(
        "classify",
        corpus=text,
        layout="line",
        train=out / "train.tsv",
        dev=out / "dev.tsv",
        test=out / "test.tsv",
        out=out,
        budget=budget,
        recipes=RECIPES,
        settings=["max_len=64"],
        stage=lambda title: progress_display(title, as_json),
        note=None if as_json else lambda line: say(f"   {line}"),
    )
    if as_json:
        say_json(found)
        return
    if found["cached"]:
        say(words["cached"].format(seconds=show_duration(found["seconds"])))
    say(words["table"])
    for line in task_api.compare_lines(found, _TABLE[lang]):
        say(line)
    _fill(found, out, lang)
    say()
    for name in ("report", "serve", "own"):
        say(words[name].format(out=out))


def _fill(found: dict[str, Any], out: Path, lang: str) -> None:
    """Guesses of the masked model, before it was fine-tuned."""
    from firth import api
    from firth.core.runs import Run

    row = next(row for row in found["rows"] if row["name"].startswith("bert"))
    model = api.load(Run.open(out / row["folder"]).facts["base"])
    say(_WORDS[lang]["fill"].format(name=row["name"]))
    for sentence in _SENTENCES[lang]:
        guesses = model.fill(sentence, 4)[0]
        say(f"   {sentence}  " + "  ".join(f"{guess.token} {guess.probability:.0%}" for guess in guesses))
