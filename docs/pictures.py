"""Draws the diagrams of the documentation as SVG files: ``python docs/pictures.py`` writes docs/pictures/*.svg.

A file has its colours for light and dark in itself; on the site the style sheet takes their place. Words are English, or Chinese in
``NAME.zh.svg``. The comparison is drawn from the table of the quickstart in benchmarks/RESULTS.md.
"""

import html
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
_LIGHT = "--d-text:#1a2226;--d-soft:#55636a;--d-card:#ffffff;--d-rule:#e2e0d9;--d-c0:#0d6e70;--d-c1:#b35c10;--d-c2:#6a51b8;--d-c3:#b0386a;--d-c4:#3d7a2d;--d-c5:#2f66b0"
_DARK = "--d-text:#e4e9ea;--d-soft:#9caab0;--d-card:#161d20;--d-rule:#2a3438;--d-c0:#5fc4bb;--d-c1:#f0a35c;--d-c2:#b3a0ee;--d-c3:#ec8fb5;--d-c4:#8cc97a;--d-c5:#86b4f2"
_CLASSES = "".join(
    f".line.c{n}{{stroke:var(--d-c{n})}}.fill.c{n},.dot.c{n}{{fill:var(--d-c{n})}}.tint.c{n}{{fill:var(--d-c{n});stroke:var(--d-c{n})}}"
    for n in range(6)
)
STYLE = (
    f"svg{{{_LIGHT}}}@media(prefers-color-scheme:dark){{svg{{{_DARK}}}}}"
    "text{font:12px system-ui,'Noto Sans CJK SC','PingFang SC','Microsoft YaHei',sans-serif;fill:var(--d-text)}"
    "text.soft,svg.chart text{fill:var(--d-soft)}text.strong{font-weight:600}text.mono{font-family:ui-monospace,monospace}"
    ".box{fill:var(--d-card);stroke:var(--d-rule)}.arrow{stroke:var(--d-soft);fill:none;stroke-width:1.4}.head{fill:var(--d-soft)}"
    ".rule,.grid{stroke:var(--d-rule)}.line{fill:none;stroke-width:2}.tint{fill-opacity:.16;stroke-width:1.3}.cell{fill:var(--d-c0)}"
    + _CLASSES
)
_CHINESE = {
    "mean": "平均",
    "is it “dog”?": "是“dog”吗？",
    "CBOW: the word from its context": "CBOW：由上下文预测中心词",
    "skip-gram: the context from the word": "skip-gram：由中心词预测上下文",
    "counts X": "共现计数 X",
    "word vectors W": "词向量 W",
    "context vectors C": "上下文向量 C",
    "log X ≈ W Cᵀ + biases": "log X ≈ W Cᵀ + 偏置",
    "its own row": "该词自己的行",
    "rows of the n-gram table, by hash": "n-gram 表中的行（由哈希选出）",
    "sum": "求和",
    "vector of “where”": "“where”的向量",
    "state": "状态",
    "next token": "下一个词元",
    "characters": "字符",
    "CNN + highway": "CNN + highway",
    "forward LSTM": "前向 LSTM",
    "backward LSTM": "后向 LSTM",
    "task": "任务",
    "encoder × N": "编码器 × N",
    "decoder × N": "解码器 × N",
    "encoder": "编码器",
    "decoder": "解码器",
    "context vector": "上下文向量",
    "attention weights": "注意力权重",
    "self-attention": "自注意力",
    "masked self-attention": "带掩码的自注意力",
    "cross-attention": "交叉注意力",
    "feed-forward": "前馈网络",
    "source + positions": "源句 + 位置",
    "target so far + positions": "已生成的译文 + 位置",
    "keys, values": "键、值",
    "next word": "下一个词",
    "residual + norm around every box": "每个方框都带残差连接和层归一化",
    "next sentence?": "是下一句吗？",
    "Transformer encoder: every token sees every token": "Transformer 编码器：每个词元都能看到所有词元",
    "Transformer: a token sees itself and what is before it": "Transformer：词元只能看到自己和前面的词元",
    "row attends to column": "行关注列",
    "text": "原文",
    "encoder input": "编码器输入",
    "decoder output": "解码器输出",
    "order of prediction": "预测顺序",
    "“old” is predicted last, from all others": "“old”最后预测，依据其余所有词元",
    "“slept” is predicted third, from “dog” and “the”": "“slept”第三个预测，依据“dog”和“the”",
    "both sides": "双向",
    "left to right": "从左到右",
    "right to left": "从右到左",
    "source to target": "源到目标",
    "tokens": "单字",
    "phrase": "短语",
    "entity": "实体",
    "masked": "掩码后",
    "generator samples": "生成器采样",
    "discriminator": "判别器",
    "original": "原词",
    "replaced": "被替换",
    "image": "图像",
    "patches": "图像块",
    "linear + positions": "线性映射 + 位置",
    "Transformer encoder": "Transformer 编码器",
    "class": "类别",
    "windows": "窗口",
    "shifted windows": "移动窗口",
    "merged patches": "合并后的图像块",
    "accuracy on 1,000 test sentences; seconds of pre-training": "1,000 条测试句上的准确率；右侧为预训练秒数",
    "no pre-training": "无预训练",
}


class Drawing:
    """A picture of ``width`` x ``height``; words are translated where there is a translation."""

    def __init__(self, width: int, height: int, lang: str) -> None:
        self.width, self.height, self.lang, self.parts = width, height, lang, list[str]()

    def say(self, x: float, y: float, words: str, look: str = "", anchor: str = "middle") -> None:
        words = _CHINESE.get(words, words) if self.lang == "zh" else words
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{look}">{html.escape(words)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, words: str = "", look: str = "box", height: float = 26, text: str = ""
    ) -> None:
        """A box with its left upper corner at x, y; a tinted one covers what is behind it, too."""
        if look.startswith("tint"):
            self.parts.append(f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        self.parts.append(f'<rect class="{look}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        if words:
            self.say(x + width / 2, y + height / 2 + 4, words, text)

    def arrow(self, x: float, y: float, to_x: float, to_y: float, look: str = "arrow", bend: float = 0) -> None:
        """An arrow; ``bend`` moves the middle of its path to the side."""
        length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
        across, down = (to_x - x) / length, (to_y - y) / length
        if bend:
            middle_x, middle_y = (x + to_x) / 2 - down * bend, (y + to_y) / 2 + across * bend
            size = max(((to_x - middle_x) ** 2 + (to_y - middle_y) ** 2) ** 0.5, 1e-9)
            across, down = (to_x - middle_x) / size, (to_y - middle_y) / size
            path = f"M{x:g} {y:g}Q{middle_x:.1f} {middle_y:.1f} {to_x - 5 * across:.1f} {to_y - 5 * down:.1f}"
        else:
            path = f"M{x:g} {y:g}L{to_x - 5 * across:.1f} {to_y - 5 * down:.1f}"
        left = f"{to_x - 7 * across - 3.5 * down:.1f},{to_y - 7 * down + 3.5 * across:.1f}"
        right = f"{to_x - 7 * across + 3.5 * down:.1f},{to_y - 7 * down - 3.5 * across:.1f}"
        self.parts.append(
            f'<path class="{look}" d="{path}"/><polygon class="head" points="{to_x:g},{to_y:g} {left} {right}"/>'
        )

    def row(
        self,
        x: float,
        y: float,
        words: Sequence[str],
        size: float = 64,
        gap: float = 10,
        look: str = "box",
        special: dict[int, str] | None = None,
    ) -> list[float]:
        """Boxes side by side; the middles of the boxes."""
        for number, word in enumerate(words):
            self.box(
                x + number * (size + gap),
                y,
                size,
                word,
                (special or {}).get(number, look),
                text="mono" if word.startswith(("[", "<")) else "",
            )
        return [x + number * (size + gap) + size / 2 for number in range(len(words))]

    def squares(self, x: float, y: float, seen: Sequence[str], size: float = 18, look: str = "fill c0") -> None:
        """A mask: '#' for what is seen."""
        for down, line in enumerate(seen):
            for across, sign in enumerate(line):
                shown = f'class="{look}" fill-opacity=".75"' if sign == "#" else 'class="box"'
                self.parts.append(
                    f'<rect {shown} x="{x + across * size:g}" y="{y + down * size:g}" width="{size - 2:g}" height="{size - 2:g}" rx="2"/>'
                )

    def svg(self, name: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="firth" viewBox="0 0 {self.width} {self.height}" style="max-width:{self.width}px" role="img" '
            f'aria-label="{html.escape(name)}"><style>{STYLE}</style>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )


def word2vec(d: Drawing) -> None:
    words = ["the", "old", "dog", "slept", "here"]
    for left, title in ((10, "CBOW: the word from its context"), (370, "skip-gram: the context from the word")):
        d.say(left + 160, 16, title, "strong")
        xs = d.row(left, 32, words, 56, 10, special={2: "tint c1"})
        if left == 10:
            for number in (0, 1, 3, 4):
                d.arrow(xs[number], 58, left + 160 + (number - 2) * 14, 96)
            d.box(left + 110, 96, 100, "mean", "tint c0")
            d.arrow(left + 160, 122, left + 160, 146)
            d.box(left + 90, 146, 140, "is it “dog”?", "tint c1")
        else:
            d.box(left + 110, 112, 100, "w(dog)", "tint c0", text="mono")
            d.arrow(xs[2], 58, xs[2], 112)
            for number in (0, 1, 3, 4):
                d.arrow(left + 160 + (number - 2) * 20, 112, xs[number], 60, bend=-6 if number < 2 else 6)


def glove(d: Drawing) -> None:
    words, counts = ["ice", "steam", "solid", "water"], ["·  3  9 20", "3  ·  1 18", "9  1  ·  4", "20 18  4  ·"]
    d.say(140, 16, "counts X", "strong")
    for number, (word, line) in enumerate(zip(words, counts, strict=True)):
        d.say(58, 62 + number * 30, word, anchor="end")
        d.say(84 + number * 40, 38, word, "soft")
        for column, value in enumerate(line.split()):
            d.box(66 + column * 40, 46 + number * 30, 36, value)
    d.arrow(240, 104, 300, 104)
    for left, title, look in ((316, "word vectors W", "tint c0"), (446, "context vectors C", "tint c2")):
        d.say(left + 50, 16, title, "strong")
        for number, word in enumerate(words):
            d.box(left, 46 + number * 30, 100, word, look)
    d.say(640, 100, "log X ≈ W Cᵀ + biases")
    d.say(640, 122, "Σ f(X) (w·c + b − log X)²", "soft")


def fasttext(d: Drawing) -> None:
    grams = ["<where>", "<wh", "whe", "her", "ere", "re>", "<whe", "…"]
    xs = d.row(10, 20, grams, 78, 10, special={0: "tint c1"})
    d.say(xs[0], 14, "its own row", "soft")
    d.say(430, 14, "rows of the n-gram table, by hash", "soft")
    for x in xs:
        d.arrow(x, 46, 360 + (x - 360) * 0.18, 92)
    d.box(290, 92, 140, "sum", "tint c0")
    d.arrow(360, 118, 360, 140)
    d.box(280, 140, 160, "vector of “where”", "tint c2")


def recurrent(d: Drawing) -> None:
    xs = d.row(70, 130, ["the", "dog", "slept", "."], 90, 60)
    for number, x in enumerate(xs):
        d.arrow(x, 130, x, 102)
        d.box(x - 45, 76, 90, "state", "tint c0")
        d.arrow(x, 76, x, 48)
        d.box(x - 45, 22, 90, ["dog", "slept", ".", "…"][number], "tint c1")
        d.arrow(x - 105 if number else 40, 89, x - 45, 89)
    d.arrow(xs[-1] + 45, 89, 710, 89)
    d.say(32, 39, "next token", "soft")


def elmo(d: Drawing) -> None:
    xs = d.row(80, 196, ["<t h e>", "<b e a r>", "<s l e p t>"], 120, 40)
    d.say(70, 213, "characters", "soft", "end")
    for x, following in pairwise(xs):  # below the boxes: the states pass behind those of the other direction
        for y in (59, 109):
            d.arrow(x - 4, y - 5, following - 60, y - 5)
            d.arrow(following + 4, y + 6, x + 60, y + 6)
    for x in xs:
        d.arrow(x, 196, x, 172)
        d.box(x - 60, 146, 120, "CNN + highway", "box")
        for shift, words, look in ((-60, "→ h", "tint c0"), (4, "h ←", "tint c1")):
            d.arrow(x + shift + 28, 146, x + shift + 28, 122)
            d.arrow(x + shift + 28, 96, x + shift + 28, 72)
            d.box(x + shift, 96, 56, words, look)
            d.box(x + shift, 46, 56, words, look)
    d.say(140, 30, "forward LSTM", "soft")
    d.say(320, 30, "backward LSTM", "soft")
    d.box(572, 90, 140, "γ Σ sⱼ hⱼ", "tint c2", text="mono")
    for y in (59, 109, 159):
        d.arrow(xs[-1] + 62, y, 572, 103)
    d.arrow(642, 116, 642, 146)
    d.box(592, 146, 100, "task", "box")


def seq2seq(d: Drawing) -> None:
    source = d.row(20, 150, ["a", "dog", "runs"], 70, 40)
    target = d.row(400, 30, ["ein", "Hund", "läuft"], 70, 30, look="tint c1")
    for number, x in enumerate(source):
        d.arrow(x, 150, x, 128)
        d.box(x - 35, 102, 70, "h", "tint c0")
        if number:
            d.arrow(x - 75, 115, x - 35, 115)
    for number, x in enumerate(target):
        d.box(x - 35, 102, 70, "d", "tint c2")
        d.arrow(x, 102, x, 56)
        if number:
            d.arrow(x - 65, 115, x - 35, 115)
    d.arrow(source[-1] + 35, 115, 400, 115)
    d.say(356, 108, "state", "soft")
    for number, x in enumerate(source):
        d.arrow(x, 102, 500, 72, "arrow", bend=-22 + 8 * number)
    d.say(250, 40, "attention weights", "soft")
    d.say(110, 194, "encoder", "strong")
    d.say(535, 150, "decoder", "strong")


def transformer(d: Drawing) -> None:
    def stack(x: float, title: str, parts: Sequence[tuple[str, str]], below: str) -> None:
        d.parts.append(f'<rect class="box" x="{x:g}" y="34" width="240" height="{len(parts) * 44 + 14}" rx="8"/>')
        d.say(x, 24, title, "strong", "start")
        for number, (name, look) in enumerate(parts):
            y = 44 + number * 44
            d.box(x + 20, y, 200, name, look, 30)
            if number:
                d.arrow(x + 120, y, x + 120, y - 14)
        d.arrow(x + 120, 216, x + 120, 44 + len(parts) * 44 - 14)
        d.box(x + 20, 216, 200, below)

    stack(30, "encoder × N", [("feed-forward", "tint c2"), ("self-attention", "tint c0")], "source + positions")
    stack(
        430,
        "decoder × N",
        [("feed-forward", "tint c2"), ("cross-attention", "tint c1"), ("masked self-attention", "tint c0")],
        "target so far + positions",
    )
    d.parts.append(
        '<path class="arrow" d="M150 34V10H350V103H444"/><polygon class="head" points="450,103 443,99.5 443,106.5"/>'
    )
    d.say(400, 96, "keys, values", "soft")
    d.arrow(550, 34, 550, 8)
    d.say(560, 14, "next word", "soft", "start")
    d.say(350, 262, "residual + norm around every box", "soft")


def bert(d: Drawing) -> None:
    tokens = ["[CLS]", "the", "[MASK]", "barked", "[SEP]", "it", "was", "loud", "[SEP]"]
    xs = d.row(8, 150, tokens, 70, 9, special={2: "tint c1"})
    d.box(8, 84, 702, "Transformer encoder: every token sees every token", "tint c0", 34)
    for x in xs:
        d.arrow(x, 150, x, 118)
    d.arrow(xs[0], 84, xs[0], 56)
    d.arrow(xs[2], 84, xs[2], 56)
    d.box(0, 30, 100, "next sentence?", "tint c2")
    d.box(xs[2] - 35, 30, 70, "dog", "tint c1")


def gpt(d: Drawing) -> None:
    words = ["the", "dog", "slept", "here"]
    d.squares(70, 30, ["#...", "##..", "###.", "####"], 38)
    for number, word in enumerate(words):
        d.say(62, 52 + number * 38, word, anchor="end")
        d.say(88 + number * 38, 22, word, "soft")
    d.say(146, 200, "row attends to column", "soft")
    xs = d.row(310, 140, words, 84, 14)
    d.box(310, 84, 378, "Transformer: a token sees itself and what is before it", "tint c0", 32)
    for x, following in zip(xs, ["dog", "slept", "here", "…"], strict=True):
        d.arrow(x, 140, x, 116)
        d.arrow(x, 84, x, 56)
        d.box(x - 42, 30, 84, following, "tint c1")


def t5(d: Drawing) -> None:
    for y, title in ((24, "text"), (84, "encoder input"), (144, "decoder output")):
        d.say(104, y + 17, title, "soft", "end")
    d.row(
        114,
        24,
        ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"],
        54,
        6,
        special={2: "tint c1", 3: "tint c1", 8: "tint c3"},
    )
    d.row(
        114,
        84,
        ["Thank", "you", "<X>", "me", "to", "your", "party", "<Y>", "week"],
        60,
        6,
        special={2: "tint c1", 7: "tint c3"},
    )
    d.row(
        114,
        144,
        ["<X>", "for", "inviting", "<Y>", "last", "<Z>"],
        80,
        10,
        special={0: "tint c1", 1: "tint c1", 2: "tint c1", 3: "tint c3", 4: "tint c3"},
    )


def xlnet(d: Drawing) -> None:
    xs = d.row(150, 40, ["the", "old", "dog", "slept"], 90, 20, special={1: "tint c1", 3: "tint c3"})
    d.say(130, 57, "text", "soft", "end")
    d.say(130, 29, "order of prediction", "soft", "end")
    for x, number in zip(xs, "2413", strict=True):
        d.say(x, 29, number, "strong")
    for number in (0, 2, 3):
        d.arrow(xs[number], 66, xs[1], 68, bend=24 if number == 0 else -18 * abs(number - 1))
    d.say(360, 136, "“old” is predicted last, from all others")
    d.say(360, 158, "“slept” is predicted third, from “dog” and “the”", "soft")


def unilm(d: Drawing) -> None:
    masks = {
        "both sides": ["####"] * 4,
        "left to right": ["#...", "##..", "###.", "####"],
        "right to left": ["####", ".###", "..##", "...#"],
        "source to target": ["##..", "##..", "###.", "####"],
    }
    for number, (title, mask) in enumerate(masks.items()):
        d.say(100 + number * 174, 20, title, "strong")
        d.squares(46 + number * 174, 34, mask, 27, f"fill c{number}")
    d.say(360, 166, "row attends to column", "soft")


def ernie(d: Drawing) -> None:
    text = list("哈尔滨是黑龙江的省会")
    for line, (title, hidden) in enumerate({"tokens": (1, 8), "phrase": (4, 5, 6), "entity": (0, 1, 2)}.items()):
        y = 14 + line * 46
        d.say(94, y + 17, title, "soft", "end")
        words = ["[M]" if number in hidden else word for number, word in enumerate(text)]
        d.row(110, y, words, 48, 8, special=dict.fromkeys(hidden, "tint c1"))


def electra(d: Drawing) -> None:
    rows = {
        "text": ["the", "chef", "cooked", "the", "meal"],
        "masked": ["the", "[MASK]", "cooked", "the", "[MASK]"],
        "generator samples": ["the", "cook", "cooked", "the", "meal"],
    }
    for line, (title, words) in enumerate(rows.items()):
        d.say(130, 29 + line * 52, title, "soft", "end")
        xs = d.row(150, 12 + line * 52, words, 90, 16, special=dict.fromkeys((1, 4), "tint c0" if line else "box"))
        for x in xs if line else ():
            d.arrow(x, line * 52 - 14, x, 12 + line * 52)
    d.say(130, 191, "discriminator", "soft", "end")
    for number, x in enumerate(xs):
        d.arrow(x, 142, x, 174)
        d.box(x - 45, 174, 90, "replaced" if number == 1 else "original", "tint c4" if number == 1 else "tint c2")


def vit(d: Drawing) -> None:
    d.squares(20, 50, ["####", "####", "####", "####"], 26, "fill c5")
    d.say(72, 40, "image", "strong")
    d.arrow(132, 102, 176, 102)
    d.say(330, 40, "patches", "strong")
    xs = d.row(184, 150, ["[CLS]", "1", "2", "3", "…", "16"], 46, 8, special={0: "tint c1"})
    d.box(184, 100, 316, "linear + positions", "box")
    d.box(184, 54, 316, "Transformer encoder", "tint c0", 30)
    for x in xs:
        d.arrow(x, 150, x, 126)
        d.arrow(x, 100, x, 84)
    d.arrow(500, 69, 560, 69)
    d.box(560, 56, 110, "class", "tint c1")


def swin(d: Drawing) -> None:
    for left, title, cut in ((30, "windows", 4), (270, "shifted windows", 2)):
        d.say(left + 80, 20, title, "strong")
        d.squares(left, 34, ["........"] * 8, 20)
        for number in range(1, 8):
            if number % 4 == cut % 4:
                at = left + number * 20 - 1
                d.parts.append(
                    f'<path class="line c1" d="M{at} 32V194M{left - 2} {34 + number * 20 - 1}H{left + 160}"/>'
                )
        d.arrow(left + 172, 114, left + 228, 114)
    d.say(580, 20, "merged patches", "strong")
    d.squares(510, 44, ["...."] * 4, 36)


def comparison(d: Drawing) -> None:
    """The table of the quickstart: accuracy with its interval, and the seconds of pre-training."""
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
        d.parts.append(
            f'<rect class="fill {look}" fill-opacity=".55" x="{left}" y="{y}" width="{middle - left:.1f}" height="20" rx="3"/>'
        )
        d.parts.append(f'<path class="line {look}" d="M{start:.1f} {y + 10}H{end:.1f}"/>')
        d.say(end + 8, y + 15, f"{float(score):.3f}", "strong", "start")
        d.say(700, y + 15, seconds.replace("s", " s") if seconds != "–" else "no pre-training", "soft", "end")
    d.say(360, 58 + 30 * len(found), "accuracy on 1,000 test sentences; seconds of pre-training", "soft")


PICTURES: dict[str, tuple[Callable[[Drawing], None], int]] = {
    "comparison": (comparison, 275),
    "01-word2vec": (word2vec, 180),
    "02-glove": (glove, 180),
    "03-fasttext": (fasttext, 175),
    "04-recurrent": (recurrent, 165),
    "05-elmo": (elmo, 230),
    "06-seq2seq": (seq2seq, 200),
    "07-transformer": (transformer, 272),
    "08-bert": (bert, 184),
    "09-gpt": (gpt, 208),
    "10-t5": (t5, 180),
    "11-xlnet": (xlnet, 170),
    "12-unilm": (unilm, 176),
    "13-ernie": (ernie, 138),
    "14-electra": (electra, 208),
    "15-vit": (vit, 184),
    "16-swin": (swin, 205),
}


def drawn() -> dict[str, str]:
    """Every file by its name."""
    found = {}
    for name, (draw, height) in PICTURES.items():
        for lang in ("en", "zh"):
            picture = Drawing(720, height, lang)
            draw(picture)
            found[f"{name}.svg" if lang == "en" else f"{name}.zh.svg"] = picture.svg(name)
    return found


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawn().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
