"""What is wrong with labelled data or with a task is told in a sentence, and nothing is left behind."""

import io
import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from refusals import refused

import firth
from firth.cli.main import main
from task_text import files, pairs, questions, tagged, texts, write

Told = pytest.CaptureFixture[str]
GOOD = "text\tlabel\nA map.\ten\n一本书\tzh\n"


@pytest.fixture(scope="module")
def task_run(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    firth.finetune("classify", base=run_folder, **files(folder, "classify", 8, 4), out=folder / "run", epochs=1)  # type: ignore[arg-type]
    return folder / "run"


def start(task: str, train: str, *more: object) -> list[object]:
    return ["finetune", task, "--train", train, "--out", "run", "epochs=1", *more]


def test_columns(work: Path, capsys: Told) -> None:
    Path("a.tsv").write_text(GOOD, encoding="utf-8")
    refused(start("classify", "a.tsv", "--label", "mood"), capsys, "a.tsv:1", "no column 'mood'")
    refused(start("classify", "a.tsv", "--text", "texts"), capsys, "did you mean 'text'?")
    Path("b.tsv").write_text("text\tother\nA map.\ten\n", encoding="utf-8")
    refused(start("classify", "b.tsv"), capsys, "b.tsv:1", "no label column among text, other")
    Path("c.tsv").write_text(GOOD + "only text\n", encoding="utf-8")
    refused(start("classify", "c.tsv"), capsys, "c.tsv:4", "1 field where 2 are expected")


def test_labels(work: Path, capsys: Told) -> None:
    Path("a.tsv").write_text(GOOD, encoding="utf-8")
    Path("dev.tsv").write_text("text\tlabel\nUne carte\tfr\n", encoding="utf-8")
    refused(start("classify", "a.tsv", "--dev", "dev.tsv"), capsys, "dev.tsv:2", "'fr' is not in the training data")
    Path("same.tsv").write_text("text\tlabel\nA map.\ten\nA boat.\ten\n", encoding="utf-8")
    refused(start("classify", "same.tsv"), capsys, "all examples have the same label")
    Path("words.tsv").write_text("text\tlabel\nA map.\t1.5\nA boat.\tgood\n", encoding="utf-8")
    refused(start("score", "words.tsv"), capsys, "words.tsv:3", "'good' is not a number")


def test_nothing_to_learn_from(work: Path, capsys: Told) -> None:
    Path("empty.tsv").write_text("")
    refused(start("classify", "empty.tsv"), capsys, "empty.tsv: the file is empty")
    Path("head.tsv").write_text("text\tlabel\n")
    refused(start("classify", "head.tsv"), capsys, "head.tsv: no examples in it")
    Path("empty.conll").write_text("")
    refused(start("tag", "empty.conll"), capsys, "empty.conll")
    Path("empty.json").write_text("")
    refused(start("answer", "empty.json"), capsys, "empty.json")
    refused(start("classify", "no.tsv"), capsys, "no.tsv")
    refused(["finetune", "classify", "--out", "run"], capsys, "name a file with --train")
    Path("a.tsv").write_text(GOOD, encoding="utf-8")
    refused(["finetune", "classify", "--train", "a.tsv"], capsys, "name a folder with --out")


def test_tags(work: Path, capsys: Told) -> None:
    Path("a.jsonl").write_text(json.dumps({"words": ["a", "b"], "tags": ["O"]}) + "\n")
    refused(start("tag", "a.jsonl"), capsys, "a.jsonl:1", "words and tags differ in number")
    Path("b.conll").write_text("the O\nmap B-X\nlost\n")
    refused(start("tag", "b.conll"), capsys, "b.conll:3")


def test_answers_that_are_not_there(run_folder: Path, work: Path, capsys: Told) -> None:
    path = write(work / "train", questions(8))
    data = json.loads(path.read_text())
    data["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] += 1
    path.write_text(json.dumps(data))
    said = refused(
        start("answer", "train.json", "--base", run_folder), capsys, "1 of 6 answers are not in their passage"
    )
    assert "skip them with --skip-bad" in said
    assert " at " in said
    main([str(word) for word in start("answer", "train.json", "--base", run_folder, "--skip-bad")])
    assert firth.load("run").predict([("What?", "A map.")])[0]["answer"] in "A map."


def test_a_base_that_cannot(run_folder: Path, work: Path, capsys: Told) -> None:
    write(work / "train", texts(8))
    refused(start("classify", "train.tsv", "--base", "runs/none"), capsys, "runs/none: no such run or model")
    refused(start("clasify", "train.tsv"), capsys, "unknown task 'clasify': did you mean 'classify'?")
    refused(start("classify", "train.tsv", "learning_rat=1"), capsys, "did you mean 'learning_rate'?")
    refused(start("classify", "train.tsv", "crf=true"), capsys, "crf is for tagging")
    refused(start("classify", "train.tsv", "--seeds", "2"), capsys, "name one with --dev")
    refused(
        start("classify", "train.tsv", "--base", run_folder, "stride=900", "long_text=windows", "max_len=8"),
        capsys,
        "stride 900",
    )


def test_the_wrong_run(run_folder: Path, task_run: Path, work: Path, capsys: Told) -> None:
    Path("texts.txt").write_text("A map.\n")
    refused(["predict", run_folder, "texts.txt"], capsys, "no task was learned here (encoder)")
    refused(["predict", "nothing", "texts.txt"], capsys, "nothing: no such run or model")
    refused(["predict", task_run, "no.txt"], capsys, "no.txt")
    refused(["predict", task_run, "texts.txt", "--names", "names.txt"], capsys, "finds no names")
    assert not Path("names.txt").exists()
    refused(["fill", task_run, "A [MASK]."], capsys, "cannot fill in masked words")
    Path("dev.tsv").write_text("text\tlabel\nUne carte\tfr\n", encoding="utf-8")
    refused(["evaluate", task_run, "--data", "dev.tsv"], capsys, "dev.tsv:2", "'fr' is unknown to this model")
    refused(["evaluate", task_run], capsys, "a task, which is measured on labelled examples", "--data FILE")


def test_a_run_that_exists(task_run: Path, work: Path, capsys: Told) -> None:
    import shutil

    shutil.copytree(task_run, "run")
    write(work / "train", texts(8))
    refused(start("classify", "train.tsv"), capsys, "run: exists already")
    Path("full").mkdir()
    Path("full/mine.txt").write_text("x")
    refused([*start("classify", "train.tsv", "--overwrite"), "--out", "full"], capsys, "not a run of Firth")


def test_one_text_where_two_belong(run_folder: Path, work: Path, capsys: Told) -> None:
    write(work / "train", pairs(8))
    main([str(word) for word in start("classify", "train.tsv", "--base", run_folder)])
    capsys.readouterr()
    Path("texts.txt").write_text("A map.\n")
    refused(["predict", "run", "texts.txt"], capsys, "texts.txt:1", "put a tab between them")


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_empty_and_endless_texts(task: str, run_folder: Path, work: Path, capsys: Told) -> None:
    """Both are read: an empty text is warned of, a million characters go through in bounded memory."""
    write(work / "train", tagged(6) if task == "tag" else [*texts(6)])
    main([str(word) for word in start(task, "train.conll" if task == "tag" else "train.tsv", "--base", run_folder)])
    capsys.readouterr()
    Path("texts.txt").write_text("A map.\n\n" + "clock " * (1_000_000 // 6) + "\n")
    main(["predict", "run", "texts.txt"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 3
    if task == "tag":
        assert [len(one["tags"]) for one in found] == [3, 0, 1_000_000 // 6]
    else:
        assert all(one["label"] in ("en", "zh") for one in found)


def test_warnings(run_folder: Path, work: Path, capsys: Told) -> None:
    Path("a.tsv").write_text(GOOD + "\ten\n", encoding="utf-8")
    main([str(word) for word in start("classify", "a.tsv", "--dev", "a.tsv", "--base", run_folder)])
    out = " ".join(capsys.readouterr().out.split())
    assert "every dev example is also in train: the score will say nothing" in out
    assert "empty text" in out


def test_one_text_here_and_two_there(run_folder: Path, task_run: Path, work: Path, capsys: Told) -> None:
    """Also where the base would not mind."""
    write(work / "train", texts(8))
    write(work / "dev", pairs(4))
    Path("two.tsv").write_text("text\tsecond\tlabel\nA map.\tA boat.\ten\n", encoding="utf-8")
    Path("dev.tsv").write_text("text\tsecond\tlabel\nA map.\tA boat.\ten\n一本书\t书\tzh\n", encoding="utf-8")
    for base in ("scratch", run_folder):
        words = start("classify", "train.tsv", "--dev", "dev.tsv", "--base", base)
        refused(words, capsys, "dev.tsv:2", "two texts where training has one (2 in all)")
        words = start("classify", "dev.tsv", "--dev", "train.tsv", "--base", base)
        refused(words, capsys, "train.tsv:2", "one text where training has two (8 in all)")
    for words in (["evaluate", task_run, "--data", "two.tsv"], ["predict", task_run, "two.tsv"]):
        refused(words, capsys, "two.tsv:2: two texts where this model reads one")


def test_columns_of_tags(work: Path, capsys: Told) -> None:
    Path("a.conll").write_text("the O\nmap B-X\n")
    refused(start("tag", "a.conll", "--text", "word"), capsys, "a.conll: column names like 'word'")
    refused(start("tag", "a.conll", "--text", "-5"), capsys, "a.conll:1: no such column: there are 2")


def test_lines_that_are_not_utf8(task_run: Path, work: Path, capsys: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A map.\nb\xffd\n")))
    refused(["predict", task_run, "-"], capsys, "standard input:2: not utf-8")


class Elements(HTMLParser):
    """Those that could run something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("img", "script", "iframe", "object") or any(name.startswith("on") for name, _ in attrs):
            self.found.append(tag)


def test_markup_in_names_labels_and_texts_is_inert(work: Path, run_folder: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\"'><script>alert(2)<\\/script>"
    name = "<img src=x onerror=alert(3)>"
    rows = [f"{'good' if number % 2 else 'bad'} {evil} {number}\t{evil}{number % 2}" for number in range(40)]
    (work / f"{name}.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    data, out = work / f"{name}.tsv", work / f"run {name}"
    firth.finetune("classify", base=run_folder, train=data, dev=data, out=out, epochs=1)
    topics = work / "map.html"
    vectors = work / "vectors.txt"
    vectors.write_text(f"good 1 0\nbad 0 1\n{evil.split()[0]} 1 1\n", encoding="utf-8")
    firth.topics(data, vectors, out=topics)
    for page in (out / "report.html", topics):
        text = page.read_text(encoding="utf-8")
        assert "alert(" in text, page  # it is shown
        elements = Elements()
        elements.feed(text)
        assert elements.found == [], page
