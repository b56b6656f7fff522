"""Tags: one for every word of any document, spans with the right characters."""

import numpy as np
import pytest

from conftest import Train  # type: ignore[attr-defined]
from firth.core.types import TextReader
from firth.data.labelled import TagExample
from firth.tasks.config import TaskConfig
from firth.tasks.data import build_data
from firth.tasks.model import tag_example
from firth.tasks.tag import Tag
from task_text import tagged

LABELS = ("B-X", "I-X", "O")


def tagger(reader: TextReader, **settings: object) -> Tag:
    return Tag(TaskConfig.build({"task": "tag", "labels": LABELS, "scheme": "bio", **settings}, "test"), reader)


@pytest.mark.parametrize("num_words", [1, 15, 46, 47, 200])
@pytest.mark.parametrize("stride", [None, 46, 7])
def test_every_word_is_judged_once(num_words: int, stride: int | None, bert_reader: TextReader) -> None:
    task = tagger(bert_reader, stride=stride)
    words = [("clock", "唐纳德", "e\u0301té", "🙂", "mapmaker")[number % 5] for number in range(num_words)]
    item = task.item(TagExample(words, ["O"] * num_words), 0)
    judged = np.concatenate(item.target[0])
    assert sorted(judged[judged >= 0].tolist()) == list(range(num_words))
    batch = task.batch([item])
    assert batch.counts["task"] == num_words
    items = task.training_items(item)
    assert len(items) == len(item.rows)
    assert sum(task.batch([one]).counts["task"] for one in items) in (num_words, num_words + len(items))


def test_the_first_piece_speaks(bert_reader: TextReader) -> None:
    task = tagger(bert_reader)
    words = ["the", "mapmaker", "slept"]
    encoding = bert_reader.tokenize(words)
    assert len(encoding.ids) > 3
    item = task.item(TagExample(words, ["O", "B-X", "O"]), 0)
    arrays = task.batch([item]).arrays
    firsts = [1 + encoding.words.tolist().index(word) for word in range(3)]
    assert np.flatnonzero(arrays["words"][0] >= 0).tolist() == firsts
    assert arrays["labels"][0, firsts].tolist() == [2, 0, 2]


@pytest.mark.parametrize("crf", [False, True])
def test_long_documents_get_a_tag_a_word(crf: bool, train: Train) -> None:
    model, _ = train("tag", tagged(12), epochs=8, crf=crf)
    words = tagged(1)[0].words * 40
    (found,) = model.predict([words])
    assert found["words"] == words
    assert len(found["tags"]) == len(words)
    (empty,) = model.predict([[]])
    assert empty["tags"] == []


@pytest.mark.parametrize("crf", [False, True])
def test_a_small_bert_learns_30_sentences(crf: bool, train: Train) -> None:
    examples = tagged(30)
    model, _ = train("tag", examples, crf=crf)
    assert [found["tags"] for found in model.predict_examples(examples)] == [one.tags for one in examples]


@pytest.mark.parametrize(
    ("text", "tags", "wanted"),
    [
        ("李明 去 北京", ["B-X", "O", "B-X"], ["李明", "北京"]),
        ("I met 👩‍👧 Ana", ["O", "O", "O", "B-X"], ["Ana"]),
        ("cafe\u0301 Rene\u0301 Roy", ["O", "B-X", "I-X"], ["Rene\u0301 Roy"]),
    ],
)
def test_characters_of_entities(text: str, tags: list[str], wanted: list[str], bert_reader: TextReader) -> None:
    task = tagger(bert_reader)
    example = tag_example(text)
    assert example.words == text.split()
    assert [text[start:end] for start, end in example.offsets] == example.words
    output = np.asarray([[word, LABELS.index(tag), 0.9] for word, tag in enumerate(tags)], np.float32)
    found = task.prediction(example, task.item(example, 0), output)["entities"]
    assert [one["text"] for one in found] == wanted
    assert [text[one["start"] : one["end"]] for one in found] == wanted


def test_chinese_is_read_as_it_was_learned() -> None:
    assert "北京" in tag_example("北京 since 2020").words
    assert tag_example("北京 since 2020", characters=True).words == ["北", "京", "since", "2020"]
    singly = build_data("tag", [TagExample(["北", "京"], ["B-X", "I-X"]), TagExample(["Ana"], ["B-X"])], [])
    assert singly.configured(TaskConfig(task="tag")).characters
    assert not build_data("tag", tagged(3), []).configured(TaskConfig(task="tag")).characters


def test_words_without_a_text(bert_reader: TextReader) -> None:
    task = tagger(bert_reader)
    example = TagExample(["Ana", "Roy", "slept"])
    output = np.asarray([[0, 0, 0.5], [1, 1, 1.0], [2, 2, 1.0]], np.float32)
    (found,) = task.prediction(example, task.item(example, 0), output)["entities"]
    assert found == {"type": "X", "text": "Ana Roy", "start": 0, "end": 7, "probability": 0.75}


@pytest.mark.parametrize("unread", ["\u200b", "\ufeff", "\ue000", ""])
def test_words_that_no_piece_is_left_of(unread: str, train: Train) -> None:
    """They are no entity; where there is no O they get the most frequent tag."""
    model, _ = train("tag", tagged(12), epochs=8)
    words = ["the", unread, "old", "doctor"]
    assert model.base.reader().tokenize(words).words.tolist().count(1) == 0
    (found,) = model.predict([words])
    assert found["tags"][1] == "O"
    assert all(entity["text"].strip("\u200b\ufeff\ue000 ") for entity in found["entities"])
    parts = [TagExample(["old", "doctor", "sleeps"], ["ADJ", "NOUN", "NOUN"])] * 4
    model, _ = train("tag", parts, epochs=1)
    assert model.predict([[unread]])[0]["tags"] == ["NOUN"]


@pytest.mark.parametrize("singly", [True, False])
def test_digits_and_letters_are_read_as_they_were_learned(singly: bool) -> None:
    """Single beside single Chinese characters, or whole."""
    words = list("他1965年在PMMI工作") if singly else ["他", "1965", "年", "在", "PMMI", "工", "作"]
    data = build_data("tag", [TagExample(words, ["O"] * len(words))] * 4, [])
    config = data.configured(TaskConfig(task="tag"))
    assert (config.characters, config.letters) == (True, singly)
    found = tag_example("1965年生，CEO", config.characters, letters=config.letters)
    assert found.words == (list("1965年生，CEO") if singly else ["1965", "年", "生", "，", "CEO"])
    assert found.text == "1965年生，CEO"
