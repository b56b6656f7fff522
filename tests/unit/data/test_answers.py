"""Questions and answers in each layout; answers that do not stand where the file says."""

import json
from pathlib import Path
from typing import Any

import pytest

from firth.core.errors import FirthError
from firth.data.answers import AnswerFile, read_answers
from firth.data.labelled import Answer

PASSAGE = "Zürich 👩\u200d🚀 在瑞士，cafe\u0301 too."


def read(path: Path, data: Any, **settings: bool) -> AnswerFile:
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return read_answers(str(path), **settings)


def squad(*qas: dict[str, Any]) -> dict[str, Any]:
    return {"version": "v2.0", "data": [{"title": "x", "paragraphs": [{"context": PASSAGE, "qas": list(qas)}]}]}


def question(text: str, start: int, name: str = "q1") -> dict[str, Any]:
    return {"id": name, "question": "Where?", "answers": [{"text": text, "answer_start": start}]}


@pytest.mark.parametrize("text", ["Zürich", "👩\u200d🚀", "瑞士", "cafe\u0301"])
def test_squad(tmp_path: Path, text: str) -> None:
    found = read(tmp_path / "a.json", squad(question(text, PASSAGE.index(text))))
    (example,) = found.examples
    assert example.answers == [Answer(text, PASSAGE.index(text))]
    start = example.answers[0].start
    assert example.passage[start : start + len(text)] == text
    assert example.references == [text]
    assert not example.impossible
    assert (found.num_answers, found.bad) == (1, [])
    assert example.where.endswith("a.json q1")


def test_no_answer(tmp_path: Path) -> None:
    none = {"id": "q2", "question": "Who?", "answers": [], "is_impossible": True, "plausible_answers": [{"text": "x"}]}
    old = {"id": "q3", "question": "Who?", "answers": []}
    unknown = {"id": "q4", "question": "Who?"}
    examples = read(tmp_path / "a.json", squad(question("瑞士", PASSAGE.index("瑞士")), none, old, unknown)).examples
    assert [example.impossible for example in examples] == [False, True, True, False]


def test_cmrc_flat(tmp_path: Path) -> None:
    data = [
        {
            "context_id": "DEV_0",
            "context_text": "《战国无双3》是由光荣开发的。",
            "title": "战国无双3",
            "qas": [{"query_id": "DEV_0_QUERY_0", "query_text": "由谁开发？", "answers": ["光荣", "光荣开发", "光荣"]}],
        }
    ]
    (example,) = read(tmp_path / "a.json", data).examples
    assert example.id == "DEV_0_QUERY_0"
    assert example.answers == [Answer("光荣", 9), Answer("光荣开发", 9), Answer("光荣", 9)]


def test_one_object_a_line(tmp_path: Path) -> None:
    line = {"id": 7, "question": "Q?", "context": "a b c", "answers": {"text": ["b"], "answer_start": [2]}}
    none = {"id": 8, "question": "Q?", "context": "a b c", "answers": {"text": [], "answer_start": []}}
    data = json.dumps(line) + "\n" + json.dumps(none) + "\n"
    for name in ("a.jsonl", "a.json"):
        first, second = read(tmp_path / name, data).examples
        assert first.answers == [Answer("b", 2)]
        assert first.id == "7"
        assert second.impossible
    assert read(tmp_path / "b.json", json.dumps([line, none], indent=1)).examples[0].answers == [Answer("b", 2)]


def test_subjqa(tmp_path: Path) -> None:
    header = "question,review,human_ans_spans,human_ans_indices,q_review_id\n"
    rows = 'How?,It wasn\'t bad. ANSWERNOTFOUND,was n\'t bad,"(3, 13)",r1\nWhy?,Good. ANSWERNOTFOUND,ANSWERNOTFOUND,"(6, 20)",r2\n'
    first, second = read(tmp_path / "a.csv", header + rows).examples
    assert first.passage == "It wasn't bad."
    assert first.answers == [Answer("wasn't bad", 3)]
    assert second.impossible
    assert second.passage == "Good."
    with pytest.raises(FirthError, match=r"a\.csv:1: no column 'review' for questions and answers"):
        read(tmp_path / "a.csv", "question,text\nx,y\n")


class TestBadPlaces:
    data = squad(
        question("瑞士", PASSAGE.index("瑞士"), "good"),
        question("瑞士", 3, "shifted"),
        question("Bern", 0, "absent"),
        {"id": "both", "question": "?", "answers": [{"text": "Bern", "answer_start": -1}, {"text": "too", "answer_start": PASSAGE.index("too")}]},
    )  # fmt: skip

    def test_named_and_counted(self, tmp_path: Path) -> None:
        with pytest.raises(FirthError) as error:
            read(tmp_path / "a.json", self.data)
        told = str(error.value)
        assert "3 of 5 answers are not in their passage at the given offset" in told
        assert "a.json shifted: '瑞士' at 3, where the passage has 'ic'" in told
        assert "--skip-bad" in told

    def test_skipped_if_asked(self, tmp_path: Path) -> None:
        found = read(tmp_path / "a.json", self.data, skip_bad=True)
        assert [example.id for example in found.examples] == ["good", "both"]
        assert found.examples[1].answers == [Answer("too", PASSAGE.index("too"))]
        assert found.examples[1].references == ["Bern", "too"]
        assert len(found.bad) == 3
        assert "absent: 'Bern' is not in the passage" in found.bad[1]

    def test_scores_need_texts_only(self, tmp_path: Path) -> None:
        found = read(tmp_path / "a.json", self.data, only_references=True)
        assert [example.references for example in found.examples] == [["瑞士"], ["瑞士"], ["Bern"], ["Bern", "too"]]
        assert len(found.bad) == 3


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match=r"a\.json:2: not valid JSON"):
        read(tmp_path / "a.json", '{"data": [\n}')
    with pytest.raises(FirthError, match="no list 'data' of articles"):
        read(tmp_path / "a.json", {"version": 1})
    with pytest.raises(FirthError, match=r"no 'context' \(text\) in title"):
        read(tmp_path / "a.json", {"data": [{"title": "x"}]})
    with pytest.raises(FirthError, match="an answer is neither text nor an object"):
        read(tmp_path / "a.json", squad({"id": 1, "question": "?", "answers": [3]}))
    with pytest.raises(FirthError, match="1 answers but 2 starts"):
        read(
            tmp_path / "a.jsonl", {"question": "?", "context": "x", "answers": {"text": ["x"], "answer_start": [0, 1]}}
        )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (squad({"id": "q", "question": "Who?", "answers": {"text": "x"}}), "'answers' is not a list but dict"),
        ({"data": [{"paragraphs": 3}]}, "'paragraphs' is not a list but int"),
        ({"data": [{"paragraphs": ["x"]}]}, "not an object with 'context' but str"),
        ({"data": [{"paragraphs": [{"context": "x", "qas": [4]}]}]}, "not an object with 'question' but int"),
        (squad(question("瑞士", "3")), "'answer_start' is not an integer but '3'"),  # type: ignore[arg-type]
        ([{"question": "?", "context": "x", "answers": {"text": "x", "answer_start": 3}}], "'text' is not a list"),
        ([{"question": "?", "context": "x", "answers": {"text": [5], "answer_start": [0]}}], "neither text nor"),
    ],
)
def test_what_is_not_laid_out_so(tmp_path: Path, data: Any, said: str) -> None:
    with pytest.raises(FirthError, match=said):
        read(tmp_path / "a.json", data)


def test_answers_that_are_null_and_half_characters(tmp_path: Path) -> None:
    (example,) = read(tmp_path / "a.json", squad({"id": "q", "question": "\ud800?", "answers": None})).examples
    assert (example.question, example.impossible, example.answers) == ("\ufffd?", False, [])
