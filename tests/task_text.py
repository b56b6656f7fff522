"""Small labelled files for tests of tasks: what each asks can be told from single words."""

import json
import random
from pathlib import Path
from typing import Any

from firth.data.labelled import Answer, AnswerExample, TagExample, TextExample

PEOPLE = ["doctor", "teacher", "captain", "farmer", "nurse"]
THINGS = ["boat", "clock", "map", "book", "gate"]


def texts(count: int, seed: int = 0) -> list[TextExample]:
    """English or Chinese."""
    pick = random.Random(seed)
    found = []
    for number in range(count):
        if number % 2:
            found.append(TextExample(f"{pick.choice(['老师', '小王'])}看见了{pick.choice(['书', '船'])}。", None, "zh"))
        else:
            found.append(TextExample(f"The {pick.choice(PEOPLE)} found a {pick.choice(THINGS)}.", None, "en"))
    return found


def pairs(count: int, seed: int = 0) -> list[TextExample]:
    """Whether both sentences are about the same person."""
    pick = random.Random(seed)
    found = []
    for number in range(count):
        first, other = pick.sample(PEOPLE, 2)
        second = first if number % 2 else other
        label = "same" if number % 2 else "other"
        found.append(TextExample(f"The {first} slept.", f"A {second} found a {pick.choice(THINGS)}.", label))
    return found


def scores(count: int, seed: int = 0) -> list[TextExample]:
    """How many things are named."""
    pick = random.Random(seed)
    return [
        TextExample(" and ".join(["the nurse", *(pick.choice(THINGS) for _ in range(number % 4))]), None, number % 4)
        for number in range(count)
    ]


def tagged(count: int, seed: int = 0) -> list[TagExample]:
    """People are spans of two words."""
    pick = random.Random(seed)
    found = []
    for _ in range(count):
        words = ["the", "old", pick.choice(PEOPLE), "found", "a", pick.choice(THINGS)]
        found.append(TagExample(words, ["O", "B-PER", "I-PER", "O", "O", "B-OBJ"]))
    return found


def questions(count: int, seed: int = 0) -> list[AnswerExample]:
    """What somebody found; every third passage does not say it."""
    pick = random.Random(seed)
    found = []
    for number in range(count):
        person, other = pick.sample(PEOPLE, 2)
        thing, more = pick.sample(THINGS, 2)
        passage = f"The {person} found a {thing}. The {other} sold a {more}."
        if number % 3 == 2:
            found.append(AnswerExample(str(number), "What did the king find?", passage, [], True))
        else:
            answer = Answer(thing, passage.index(thing))
            found.append(
                AnswerExample(str(number), f"What did the {person} find?", passage, [answer], False, "", [thing])
            )
    return found


MAKERS: dict[str, Any] = {
    "classify": texts,
    "pair": pairs,
    "score": scores,
    "tag": tagged,
    "crf": tagged,
    "answer": questions,
}


def write(path: Path, examples: list[Any]) -> Path:
    """As people have such files; the ending is chosen by the kind."""
    first = examples[0]
    if isinstance(first, TagExample):
        text = "\n".join(
            "".join(f"{word} {tag}\n" for word, tag in zip(one.words, one.tags or [], strict=True)) for one in examples
        )
        path = path.with_suffix(".conll")
    elif isinstance(first, AnswerExample):
        path = path.with_suffix(".json")
        paragraphs = [
            {
                "context": one.passage,
                "qas": [
                    {
                        "id": one.id,
                        "question": one.question,
                        "is_impossible": one.impossible,
                        "answers": [{"text": answer.text, "answer_start": answer.start} for answer in one.answers],
                    }
                ],
            }
            for one in examples
        ]
        text = json.dumps({"version": "2.0", "data": [{"title": "toy", "paragraphs": paragraphs}]}, ensure_ascii=False)
    else:
        path = path.with_suffix(".tsv")
        second = first.second is not None
        head = "text\tsecond\tlabel\n" if second else "text\tlabel\n"
        text = head + "".join(
            "\t".join([one.text, *([one.second or ""] if second else []), str(one.label)]) + "\n" for one in examples
        )
    path.write_text(text, encoding="utf-8")
    return path


def files(folder: Path, kind: str, num_train: int = 24, num_dev: int = 9) -> dict[str, Path]:
    """``train`` and ``dev`` for ``firth.finetune``."""
    make = MAKERS[kind]
    return {
        "train": write(folder / "train", make(num_train)),
        "dev": write(folder / "dev", make(num_dev, seed=1)),
    }


def write_vectors(path: Path, dim: int = 8) -> Path:
    """Vectors of the words that occur here."""
    pick = random.Random(5)
    words = [*PEOPLE, *THINGS, "the", "a", "old", "found", "slept", "and", "sold", "老师", "小王", "书", "船", "看见"]
    lines = [f"{len(words)} {dim}"] + [
        " ".join([word, *(f"{pick.gauss(0, 0.5):.4f}" for _ in range(dim))]) for word in words
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
