"""The diagrams of the story: one function for each model."""

from collections.abc import Sequence
from itertools import pairwise

from drawing import Drawing


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
