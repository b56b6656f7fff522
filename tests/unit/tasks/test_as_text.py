"""Tasks in words: there and back, and their scores by hand."""

import pytest

from firth.core.errors import FirthError
from firth.data.labelled import TagExample, TextExample
from firth.tasks.config import WritingConfig
from firth.tasks.write.data import labels_of, read_back, score_written, source_text, target_text

NAMES = WritingConfig(form="tag", scheme="bio", labels=("LOC", "PER"), prefix="names: ")


def test_sources() -> None:
    config = WritingConfig(prefix="title: ")
    assert source_text(config, TextExample("A text.")) == "title: A text."
    assert source_text(config, TextExample("A.", "B.")) == "title: first: A. second: B."
    assert source_text(NAMES, TagExample(["Anna", "在", "北", "京"])) == "names: Anna 在北京"
    assert source_text(NAMES, TagExample(["他", "said", "", "是", "的"])) == "names: 他 said 是的"


def test_entities_there_and_back() -> None:
    example = TagExample("Mr. Brown saw Anna in Paris".split(), ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"])
    written = target_text(NAMES, example)
    assert written == "PER: Mr. Brown; PER: Anna; LOC: Paris"
    entities = read_back(NAMES, written)["entities"]
    assert entities == [
        {"type": "PER", "text": "Mr. Brown"},
        {"type": "PER", "text": "Anna"},
        {"type": "LOC", "text": "Paris"},
    ]
    assert target_text(NAMES, TagExample(["a", "b"], ["O", "O"])) == "-"
    assert read_back(NAMES, "-")["entities"] == []
    # a tokenizer may fold case and set signs apart; what is no type is not read
    assert read_back(NAMES, "per : mr . brown ; what: x; loc:")["entities"] == [{"type": "PER", "text": "mr . brown"}]


def test_other_tags() -> None:
    config = WritingConfig(form="tag", labels=("DT", "NN", "PRP$"))
    assert target_text(config, TagExample(["the", "dog"], ["DT", "NN"])) == "DT; NN"
    assert read_back(config, "dt ; prp $; zz")["tags"] == ["DT", "PRP$", None]


def test_labels() -> None:
    examples = [TextExample("a", None, "Good"), TextExample("b", None, "bad")]
    config = WritingConfig(form="classify")
    assert labels_of(config, examples) == ("Good", "bad")
    config = config.replace(labels=("Good", "bad"))
    assert [read_back(config, text)["label"] for text in ("good", " BAD ", "ugly")] == ["Good", "bad", None]
    with pytest.raises(FirthError, match="'Bad' and 'bad' would be written alike"):
        labels_of(config, [*examples, TextExample("c", None, "Bad")])
    tags = [TagExample(["a"], ["B-PER"]), TagExample(["a"], ["O"])]
    assert labels_of(NAMES, tags) == ("PER",)


def test_scores_of_texts() -> None:
    scores, name, (low, high) = score_written(WritingConfig(), ["a b c", "x"], ["A  b C", "y"])
    assert scores == {"exact_match": 0.5, "rouge_1": 50, "rouge_2": 50, "rouge_l": 50}
    assert name == "rouge_l"
    assert 0 <= low <= 50 <= high <= 100


def test_scores_of_classes() -> None:
    config = WritingConfig(form="classify", labels=("bad", "good"))
    scores, name, _ = score_written(config, ["good", "good", "what", "bad"], ["good", "bad", "bad", "bad"])
    assert scores["accuracy"] == 0.5
    assert name == "accuracy"
    config = WritingConfig(form="classify", labels=("None", "some"))
    assert score_written(config, ["xyz", "none"], ["None", "None"])[0]["accuracy"] == 0.5


def test_what_is_no_tag_is_never_right() -> None:
    """Not even beside another; and the interval is that of the score."""
    config = WritingConfig(form="tag", labels=("DT", "NN"))
    scores, name, (low, high) = score_written(config, ["DT; xx", "NN; NN"], ["DT; yy", "NN; DT"])
    assert scores["accuracy"] == 0.5
    assert name == "accuracy"
    assert low <= 0.5 <= high


def test_scores_of_entities() -> None:
    """Written: 3, wanted: 3, right: 2 (one is there twice but wanted once)."""
    written, wanted = ["PER: Anna; PER: Anna", "LOC: paris"], ["PER: Anna; LOC: Rome", "LOC: Paris"]
    scores, name, _ = score_written(NAMES, written, wanted)
    assert scores == pytest.approx({"exact_match": 0.5, "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3})
    assert name == "f1"


def test_scores_of_other_tags() -> None:
    config = WritingConfig(form="tag", labels=("DT", "NN"))
    scores, _, _ = score_written(config, ["DT; DT", "NN"], ["DT; NN", "NN; NN"])
    assert scores == {"exact_match": 0.0, "accuracy": 0.5}
