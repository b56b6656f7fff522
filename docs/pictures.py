"""Draws the pictures of the documentation as SVG files: ``python docs/pictures.py`` writes docs/pictures/*.svg.

A file has its colours for light and dark in itself; on the site the style sheet takes their place. Words are English, or Chinese in
``NAME.zh.svg``. The comparison is drawn from the table of the quickstart in benchmarks/RESULTS.md; the charts of the questions come
from experiments/ and are only translated here. ``python docs/pictures.py quickstart/en`` draws the pictures from runs, too.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import story_pictures as story
from drawing import Drawing, in_chinese

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"


def comparison(d: Drawing) -> None:
    """The table of the quickstart: accuracy with its interval, and the seconds of pre-training. Points and not bars: the axis does
    not begin at 0."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    table = re.search(r"## The quickstart\n.*?```\n(.*?)```", text, re.DOTALL)
    assert table, "benchmarks/RESULTS.md has no table of the quickstart"
    found = re.findall(r"^[*+ ] (\S.*?)\s+(0\.\d+)\S*\s+(0\.\d+)–(0\.\d+)\s+\S+\s+(\S+)", table[1], re.MULTILINE)
    low, high, left, width = 0.45, 0.80, 150, 430
    for tick in (0.5, 0.6, 0.7, 0.8):
        x = left + (tick - low) / (high - low) * width
        d.parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="30" y2="{36 + 30 * len(found)}"/>')
        d.say(x, 22, f"{tick:.0%}", "soft")
    for number, (name, score, bottom, top, seconds) in enumerate(found):
        y = 38 + number * 30
        start, end, middle = (left + (float(value) - low) / (high - low) * width for value in (bottom, top, score))
        look = "c0" if seconds != "–" else "c1"
        d.say(left - 10, y + 15, name, anchor="end")
        d.parts.append(f'<line class="rule" x1="{left}" x2="{start:.1f}" y1="{y + 10}" y2="{y + 10}"/>')
        d.parts.append(f'<path class="line {look}" d="M{start:.1f} {y + 10}H{end:.1f}"/>')
        d.parts.append(f'<circle class="fill {look}" cx="{middle:.1f}" cy="{y + 10}" r="6"/>')
        d.say(end + 8, y + 15, f"{float(score):.3f}", "strong", "start")
        d.say(700, y + 15, seconds.replace("s", " s") if seconds != "–" else "no pre-training", "soft", "end")
    d.say(360, 58 + 30 * len(found), "accuracy on 1,000 test sentences; seconds of pre-training", "soft")


PICTURES: dict[str, tuple[Callable[[Drawing], None], int]] = {
    "comparison": (comparison, 275),
    "01-word2vec": (story.word2vec, 180),
    "02-glove": (story.glove, 180),
    "03-fasttext": (story.fasttext, 175),
    "04-recurrent": (story.recurrent, 165),
    "05-elmo": (story.elmo, 230),
    "06-seq2seq": (story.seq2seq, 200),
    "07-transformer": (story.transformer, 272),
    "08-bert": (story.bert, 184),
    "09-gpt": (story.gpt, 208),
    "10-t5": (story.t5, 180),
    "11-xlnet": (story.xlnet, 170),
    "12-unilm": (story.unilm, 176),
    "13-ernie": (story.ernie, 138),
    "14-electra": (story.electra, 208),
    "15-vit": (story.vit, 184),
    "16-swin": (story.swin, 205),
}


def drawn() -> dict[str, str]:
    """Every file by its name."""
    found = {}
    for name, (draw, height) in PICTURES.items():
        for lang in ("en", "zh"):
            picture = Drawing(720, height, lang)
            draw(picture)
            found[f"{name}.svg" if lang == "en" else f"{name}.zh.svg"] = picture.svg(name)
    for chart in sorted(FOLDER.glob("question-*.svg")):
        if not chart.name.endswith(".zh.svg"):
            found[f"{chart.stem}.zh.svg"] = in_chinese(chart.read_text(encoding="utf-8"))
    return found


def from_runs(folder: Path) -> dict[str, str]:
    """The pictures from the runs of ``firth quickstart``; they need firth and the folder."""
    from run_pictures import PICTURES as FROM_RUNS

    found = {}
    for name, (draw, height) in FROM_RUNS.items():
        for lang in ("en", "zh"):
            picture = Drawing(720, height, lang)
            draw(picture, folder)
            found[f"{name}.svg" if lang == "en" else f"{name}.zh.svg"] = picture.svg(name)
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    files = from_runs(Path(sys.argv[1])) if len(sys.argv) > 1 else {}
    for name, text in {**files, **drawn()}.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
