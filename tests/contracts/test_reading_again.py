"""A task that was taught reads other files as it read those: by their layout, and by the columns that were named."""

import json
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.cli.main import main
from firth.tasks.config import TaskConfig
from firth.tasks.model import TaskModel
from task_text import questions, tagged, write

CONLLU = "1\tthe\t_\tDET\tDT\t_\t_\t_\t_\t_\n2\tmap\t_\tNOUN\tNN\t_\t_\t_\t_\t_\n\n"


def predicted(run: Path, source: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    main(["predict", str(run), str(source), *more])
    return [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]


def config_of(run: Path) -> TaskConfig:
    model = firth.load(run)
    assert isinstance(model, TaskModel)
    return model.config


def test_files_laid_out_as_in_training(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not line by line: a sentence of CoNLL, a question of SQuAD, an object of a JSON file is one example."""
    sentences = write(tmp_path / "train", tagged(8))
    firth.finetune("tag", base="scratch", train=sentences, out=tmp_path / "tagger", epochs=1)
    found = predicted(tmp_path / "tagger", sentences, capsys)
    assert [one["words"] for one in found] == [example.words for example in tagged(8)]
    lines = tmp_path / "lines.txt"
    lines.write_text("the old map\n\nthe map O\n", encoding="utf-8")
    assert [len(one["tags"]) for one in predicted(tmp_path / "tagger", lines, capsys)] == [3, 0, 3]
    passages = write(tmp_path / "questions", questions(6))
    firth.finetune("answer", base=run_folder, train=passages, out=tmp_path / "reader", epochs=1)
    found = predicted(tmp_path / "reader", passages, capsys)
    assert [one["question"] for one in found] == [example.question for example in questions(6)]
    table = tmp_path / "train.json"
    table.write_text(
        json.dumps([{"text": "A map.", "label": "en"}, {"text": "一本书", "label": "zh"}]), encoding="utf-8"
    )
    firth.finetune("classify", base="scratch", train=table, out=tmp_path / "mood", epochs=1)
    assert [one["text"] for one in predicted(tmp_path / "mood", table, capsys)] == ["A map.", "一本书"]


def test_columns_are_those_it_was_taught_with(tmp_path: Path) -> None:
    """Scored by the tags that it learned, unless others are named."""
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU * 8, encoding="utf-8")
    firth.finetune(
        "tag", base="scratch", train=path, dev=path, out=tmp_path / "run", label="xpos", epochs=30, learning_rate=0.02
    )
    assert config_of(tmp_path / "run").labels == ("DT", "NN")
    assert firth.evaluate(tmp_path / "run", data=path)["accuracy"] == 1.0
    assert firth.evaluate(tmp_path / "run", data=path, label="upos")["accuracy"] == 0.0


def test_words_of_jsonl_by_their_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"tokens": ["x"], "forms": ["the", "map"], "tags": ["O", "O"], "kinds": ["D", "N"]}] * 6
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    firth.finetune("tag", base="scratch", train=path, out=tmp_path / "run", text="forms", label="kinds", epochs=1)
    assert predicted(tmp_path / "run", path, capsys)[0]["words"] == ["the", "map"]
    assert predicted(tmp_path / "run", path, capsys, "--text", "tokens")[0]["words"] == ["x"]


def test_texts_by_their_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where another column would have been guessed."""
    path = tmp_path / "a.tsv"
    path.write_text("text\tbody\tlabel\n" + "none\tA map.\ten\nnone\t一本书\tzh\n" * 6, encoding="utf-8")
    firth.finetune("classify", base="scratch", train=path, out=tmp_path / "run", text="body", epochs=1)
    assert predicted(tmp_path / "run", path, capsys)[0]["text"] == "A map."
    assert predicted(tmp_path / "run", path, capsys, "--text", "text")[0]["text"] == "none"


def test_nothing_to_answer_from_is_json(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty passage has no answer, however sure that is."""
    firth.finetune(
        "answer", base=run_folder, train=write(tmp_path / "train", questions(6)), out=tmp_path / "run", epochs=1
    )
    (tmp_path / "texts.txt").write_text("What?\t\n", encoding="utf-8")
    assert predicted(tmp_path / "run", tmp_path / "texts.txt", capsys)[0]["answer"] == ""


def test_chinese_answers_are_counted_by_characters(tmp_path: Path) -> None:
    examples = [
        {"question": "谁？", "context": "老师看见了一本旧书。", "answers": {"text": ["一本旧书"], "answer_start": [5]}}
    ] * 6
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in examples), encoding="utf-8")
    firth.finetune("answer", base="scratch", train=tmp_path / "a.jsonl", out=tmp_path / "zh", epochs=1)
    firth.finetune("answer", base="scratch", train=write(tmp_path / "b", questions(6)), out=tmp_path / "en", epochs=1)
    assert config_of(tmp_path / "zh").answer_metric == "cmrc"
    assert config_of(tmp_path / "en").answer_metric == "squad2"
