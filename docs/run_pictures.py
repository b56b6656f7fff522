"""Pictures from real runs: what ``firth quickstart`` leaves in its folder. Drawn only when that folder is given."""

import json
import re
from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np

from drawing import Drawing

SENTENCE = "I did not like the story, but the music is great."
LAYER, HEAD = 0, 0
WORD = "play"
BEFORE = {"verb": ("to", "who", "they", "can", "will"), "noun": ("a", "the", "stage", "school", "this")}
EACH = 30


def loss(d: Drawing, folder: Path) -> None:
    """The masked model of the quickstart: loss in training and on held-out text."""
    run = folder / "bases" / "modernbert-1m"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    train = [(line["step"], line["loss"]) for line in lines if line["event"] == "train"]
    heldout = [(line["step"], line["heldout_loss"]) for line in lines if line["event"] == "evaluate"]
    size = json.loads((run / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    left, right, top, bottom = 50, 700, 34, 220
    low, high, last = 4.0, 14.0, train[-1][0]

    def place(step: float, value: float) -> tuple[float, float]:
        return left + step / last * (right - left), bottom - (value - low) / (high - low) * (bottom - top)

    for tick in range(int(low), int(high) + 1, 2):
        y = place(0, tick)[1]
        d.parts.append(f'<line class="rule" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        d.say(left - 8, y + 4, str(tick), "soft", "end")
    for step in range(0, last + 1, 50):
        d.say(place(step, low)[0], bottom + 18, str(step), "soft")
    y = place(0, log(size))[1]
    d.parts.append(f'<path class="line c7" stroke-dasharray="5 4" d="M{left} {y:.1f}H{right}"/>')
    d.say(right, y - 6, "log of the vocabulary size", "soft", "end")
    path = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in train)
    d.parts.append(f'<polyline class="line c0" points="{path}"/>')
    for point in heldout:
        x, y = place(*point)
        d.parts.append(f'<circle class="dot c1" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
        d.say(x - 4, y - 10, f"{point[1]:.2f}", "strong", "end")
    d.parts.append(
        '<line class="line c0" x1="50" x2="72" y1="14" y2="14"/><circle class="dot c1" cx="191" cy="14" r="5"/>'
    )
    d.say(78, 18, "training", anchor="start")
    d.say(202, 18, "held-out text", anchor="start")
    d.say(700, 18, "loss at masked tokens", "soft", "end")
    d.say(700, bottom + 36, "step", "soft", "end")


def attention(d: Drawing, folder: Path) -> None:
    """One head of the masked model of the quickstart on a sentence."""
    import firth

    found = firth.load(str(folder / "bases" / "modernbert-1m")).attention(SENTENCE)
    weights, left, top, size = found.weights[LAYER, HEAD], 250, 66, 22
    edge = len(found.tokens) * size
    d.parts.append(f'<rect class="box" x="{left - 2}" y="{top - 2}" width="{edge + 2}" height="{edge + 2}" rx="3"/>')
    for row, token in enumerate(found.tokens):
        d.say(left - 8, top + row * size + 15, token, anchor="end")
        x = left + row * size + 14
        d.parts.append(f'<text transform="translate({x} {top - 6}) rotate(-60)" class="soft">{token}</text>')
        for column, weight in enumerate(weights[row]):
            if weight > 0.005:
                at = f'x="{left + column * size}" y="{top + row * size}" width="{size - 2}" height="{size - 2}"'
                d.parts.append(f'<rect class="fill c0" fill-opacity="{weight**0.5:.2f}" {at}/>')
    d.say(left + edge / 2, top + edge + 20, "a row attends to the columns", "soft")


def occurrences(text: Path) -> Iterator[tuple[str, str]]:
    """Short sentences of the text with the word once, and whether it is a verb or a noun by the word before it."""
    left = dict.fromkeys(BEFORE, EACH)
    with text.open(encoding="utf-8") as lines:
        for line in lines:
            for sentence in re.split(r"(?<=[.!?]) +", line.strip()):
                found = re.findall(rf"([\w']+) {WORD}\b", sentence)
                if len(found) != 1 or not 5 <= len(sentence.split()) <= 18:
                    continue
                for kind, words in BEFORE.items():
                    if found[0].lower() in words and left[kind]:
                        left[kind] -= 1
                        yield kind, sentence


def senses(d: Drawing, folder: Path) -> None:
    """The vectors that ELMo gives one word in sixty sentences, in two dimensions."""
    import firth

    model = firth.load(str(folder / "bases" / "elmo-tiny"))
    kinds, vectors = [], []
    for kind, sentence in occurrences(folder / "text.txt"):
        layers = model.layers(sentence)
        place = [token.lower() for token in layers.tokens].index(WORD)
        kinds.append(kind)
        vectors.append(layers.hidden[-1, place])
    centred = np.array(vectors) - np.mean(vectors, axis=0)
    points = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    points *= 1 if points[kinds.index("verb"), 0] < 0 else -1
    low, high = points.min(0), points.max(0)
    for kind, (x, y) in zip(kinds, (points - low) / (high - low), strict=True):
        look = "c0" if kind == "verb" else "c1"
        d.parts.append(
            f'<circle class="dot {look}" cx="{30 + 660 * x:.1f}" cy="{206 - 160 * y:.1f}" r="5" fill-opacity=".8"/>'
        )
    d.parts.append('<circle class="dot c0" cx="30" cy="14" r="5"/><circle class="dot c1" cx="200" cy="14" r="5"/>')
    d.say(42, 18, "“play”, a verb", anchor="start")
    d.say(212, 18, "“play”, a noun", anchor="start")
    d.say(700, 240, "first and second principal component, second LSTM layer", "soft", "end")


PICTURES = {"run-loss": (loss, 262), "run-attention": (attention, 432), "run-senses": (senses, 252)}
