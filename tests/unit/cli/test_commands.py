"""The commands when all is well: what is printed, and that JSON is JSON."""

import inspect
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firth
from firth.cli.main import EVALUATE, PREPARE, SERVE, START, TRAIN, USE, application, main, say_json, text_width, wrap
from firth.core.registry import find_run_recipe, recipes
from firth.models.elmo.config import ElmoConfig
from firth.models.elmo.format import options_to_json
from sample_text import write_documents

Capture = pytest.CaptureFixture[str]

CLASSIFIER = "fasttext-classifier"


def said(words: list[object], capsys: Capture) -> str:
    main([str(word) for word in words])
    return capsys.readouterr().out


def said_json(words: list[object], capsys: Capture) -> Any:
    return json.loads(said([*words, "--json"], capsys))


def test_the_road(work: Path, tiny_settings: list[str], capsys: Capture) -> None:
    write_documents(work / "a.txt", 80)
    facts = said_json(["prepare", "a.txt", "--out", "corpus", "--vocab-size", 400, "--layout", "line"], capsys)
    assert facts["train"]["documents"] + facts["heldout"]["documents"] == 80
    assert f"{facts['vocab_size']} wordpiece" in said(["info", "corpus"], capsys)
    told = said(["pretrain", "bert-tiny", *tiny_settings, "--corpus", "corpus", "--out", "run", "--steps", 2], capsys)
    assert "run: trained" in told
    assert "report: run/report.html" in told
    assert said_json(["info", "run"], capsys)["status"] == "finished"
    assert "finished" in said(["pretrain", "--resume", "run"], capsys)  # nothing is left to do
    again = ["pretrain", "bert-tiny", *tiny_settings, "--corpus", "corpus", "--out", "run", "--steps", 3, "--overwrite"]
    assert said_json(again, capsys)["steps"] == 3


def test_fill(run_folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "The [MASK] sold an apple."
    found = said_json(["fill", run_folder, text, "--top", 3], capsys)
    wanted = firth.load(run_folder).fill(text, 3)
    assert [guess["token"] for guess in found[0]["masks"][0]] == [guess.token for guess in wanted[0]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{text}\n\n老[MASK]看见了。\n".encode())))
    assert len(said_json(["fill", run_folder, "-"], capsys)) == 2
    assert said(["fill", run_folder, text], capsys).count("%") == 5


def test_encode(run_folder: Path, work: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["One text.", "另一个。", "A third text, longer than the others."]
    (work / "a.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (work / "a.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    wanted = firth.load(run_folder).encode(texts, 1, "max")
    options = ["--layer", 1, "--pool", "max"]
    assert said_json(["encode", run_folder, "a.txt", "--out", "v.npy", *options], capsys) == {
        "out": "v.npy",
        "texts": 3,
        "dim": 32,
    }
    np.testing.assert_allclose(np.load(work / "v.npy"), wanted, atol=1e-6)
    lines = [
        json.loads(line)
        for line in said(["encode", run_folder, "a.jsonl", "--column", "body", *options], capsys).splitlines()
    ]
    assert [line["text"] for line in lines] == texts
    np.testing.assert_allclose([line["vector"] for line in lines], wanted, atol=1e-5)
    assert said_json(["encode", run_folder, "a.txt", "--out", "all.npy", "--all-layers"], capsys)["layers"] == 3
    model = firth.load(run_folder)
    np.testing.assert_array_equal(np.load("all.npy")[:, 1], model.encode(texts, 1))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert len(said(["encode", run_folder, "-", *options], capsys).splitlines()) == 3


def test_info_on_a_model(run_folder: Path, work: Path, capsys: Capture) -> None:
    (work / "model").mkdir()
    shutil.copy(run_folder / "config.json", work / "model")
    assert "bert" in said(["info", "model"], capsys)
    assert said_json(["info", "model"], capsys)["hidden_size"] == 32
    (work / "elmo").mkdir()
    (work / "elmo" / "options.json").write_text(json.dumps(options_to_json(ElmoConfig(cell_dim=48), 9)))
    (work / "elmo" / "weights.hdf5").touch()
    assert "a model: elmo" in said(["info", "elmo"], capsys)
    assert said_json(["info", "elmo"], capsys)["cell_dim"] == 48


def test_help_without_words(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main([])
    told = capsys.readouterr()
    assert "prepare" in told.out
    assert "firth:" not in told.err


def test_every_command_can_say_json() -> None:
    import typer

    for name, command in typer.main.get_command(application()).commands.items():  # type: ignore[attr-defined]
        assert any("--json" in option.opts for option in command.params), name


def test_lines_of_standard_input_stay_beside_their_vectors(
    run_folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One.\r\n\nTwo.\n")))
    lines = said(["encode", run_folder, "-"], capsys).splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["One.", "", "Two."]


def test_a_corpus_made_with_another_tokenizer_says_what_it_is(bpe_folder: Path, work: Path, capsys: Capture) -> None:
    write_documents(work / "a.txt", 30)
    told = said(
        ["prepare", "a.txt", "--out", "corpus", "--layout", "line", "--tokenizer", bpe_folder / "tokenizer"], capsys
    )
    assert "corpus: a corpus of bpe" in told
    assert "firth pretrain gpt-tiny" in told


def test_json_has_no_nan(capsys: Capture) -> None:
    say_json({"a": [float("nan"), (1.5, float("inf"))], "b": "NaN"})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {"a": [None, [1.5, None]], "b": "NaN"}


def test_the_help_is_in_the_order_of_work(capsys: Capture) -> None:
    told = said(["--help"], capsys)
    places = [told.index(f"─ {name} ─") for name in (START, PREPARE, TRAIN, USE, EVALUATE, SERVE)]
    assert places == sorted(places)
    assert all(command.rich_help_panel for command in application().registered_commands)


def test_flags_name_no_value(capsys: Capture) -> None:
    told = said(["finetune", "--help"], capsys)
    assert "--overwrite" in told
    assert "<bool>" not in told
    assert "-h" in told


def test_shell_completion(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_FIRTH_COMPLETE": "complete_bash", "COMP_WORDS": "firth pre", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == ["prepare", "prepare-pairs", "prepare-images", "pretrain", "predict"]


def test_version(capsys: Capture) -> None:
    assert said(["--version"], capsys) == f"firth {firth.__version__}\n"


def test_recipes(capsys: Capture) -> None:
    told = said(["recipes"], capsys)
    assert "\nbert\n  bert-tiny" in told
    assert "minutes on a laptop" in told
    found = said_json(["recipes"], capsys)
    assert {name: line for lines in found.values() for name, line in lines.items()} == firth.recipes()


def test_settings(capsys: Capture) -> None:
    told = said(["settings", "bert-tiny"], capsys).splitlines()
    assert any(line.startswith("model.num_layers=2 ") for line in told)
    assert any(line.startswith("objective.dupe_factor=0 ") and "# 0: new masks in every epoch" in line for line in told)
    assert said_json(["settings", "word2vec"], capsys)["learning_rate"] == {
        "value": None,
        "about": "at first; none: 0.05 for CBOW, 0.025 for skip-gram",
    }
    found = said_json(["settings", "classify"], capsys)
    assert found["answer_metric"]["about"].startswith("none: by the answers")  # on a line of its own
    assert found["tune"] == {"value": True, "about": "false: its weights stay as they are"}
    assert "prefix" in said_json(["settings", "write"], capsys)
    with pytest.raises(SystemExit):
        main(["settings", "bert-tinny"])
    assert "did you mean 'bert-tiny'" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*recipes(), "classify", "score", "tag", "answer", "embed", "write", CLASSIFIER])
def test_every_setting_says_what_it_does(name: str) -> None:
    """Also which values it takes, where these are few."""
    application()  # the commands join it in the order of the help
    from firth.cli.train_commands import list_settings

    rows = {row.name: row.about for row in list_settings(name)}
    assert [one for one, about in rows.items() if not about] == []
    if "training.schedule" in rows:
        assert rows["training.schedule"].endswith("(linear, cosine, inverse_sqrt, constant)")


def test_every_setting_that_is_shown_can_be_given(capsys: Capture) -> None:
    lines = said(["settings", "gpt-tiny"], capsys).splitlines()
    words = [line.partition("  #")[0] for line in lines if not line.startswith(" ")]  # the rest of a comment
    assert find_run_recipe("gpt-tiny").override(words) == find_run_recipe("gpt-tiny")


@pytest.mark.parametrize("name", ["elmo-small", "modernbert-1m", "word2vec", "classify", "embed", CLASSIFIER])
def test_settings_fit_the_terminal(name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(["settings", name], capsys).splitlines()
    assert max(map(text_width, lines)) <= 80
    about = [row["about"] for row in said_json(["settings", name], capsys).values() if row["about"]]
    told = " ".join(" ".join(line.partition("  # ")[2] for line in lines).split())
    assert all(" ".join(one.split()) in told for one in about)  # nothing is cut off


def test_lines_are_broken_between_words_and_chinese_characters() -> None:
    assert wrap("a film about war", 8) == ["a film", "about", "war"]
    assert wrap("价格问题直接关系到经济发展。", 10) == ["价格问题直", "接关系到经", "济发展。"]
    assert wrap("x" * 20, 8) == ["x" * 20]  # a path is not cut
    assert text_width("\x1b[1m经济\x1b[0m ok") == 7


def test_files_in_another_encoding(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an error advises exists: every command that reads text has --encoding."""
    monkeypatch.chdir(tmp_path)
    Path("zh.txt").write_text("我们去公园散步。\n今天的天气很好。\n" * 20, encoding="gb18030")
    for command in (
        ["words", "zh.txt"],
        ["duplicates", "zh.txt", "--model", "none"],
        ["prepare", "zh.txt", "--out", "c"],
    ):
        with pytest.raises(SystemExit):
            main(command)
        assert "name its --encoding" in capsys.readouterr().err or command[0] == "duplicates"
    assert said(["words", "zh.txt", "--encoding", "gb18030"], capsys)
    reading = {
        "compare",
        "encode",
        "probe",
        "words",
        "translate",
        "finetune",
        "predict",
        "suggest",
        "evaluate",
        "index",
    }
    for command in application().registered_commands:
        assert command.callback is not None
        if command.callback.__name__ in reading | {"topics", "duplicates", "prepare", "prepare_pairs"}:
            assert "encoding" in inspect.signature(command.callback).parameters, command.callback.__name__


def test_the_words_are_those_of_python() -> None:
    """An option is named as the argument of the function."""
    own = {"as_json", "adapt_epochs", "check", "names", "column", "run", "model", "text", "inputs", "top", "suspects"}
    for command in application().registered_commands:
        assert command.callback is not None
        function = getattr(firth, command.callback.__name__, None)
        if inspect.isfunction(function):
            known = set(inspect.signature(function).parameters)
            assert set(inspect.signature(command.callback).parameters) - own <= known | {"file", "encoding"}


def test_ctrl_c_is_not_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A shell must not go on after a command that was stopped."""

    def stop(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("firth.api.training.recipes", stop)
    with pytest.raises(SystemExit) as stopped:
        main(["recipes"])
    assert stopped.value.code == 130
    assert "stopped" in capsys.readouterr().err


def test_a_check_that_refuses_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The code of typer.Exit, which typer hands back as a value."""
    refused, fine = tmp_path / "one.csv", tmp_path / "two.csv"
    refused.write_text("text,label\n" + "".join(f"text {number},same\n" for number in range(12)))
    fine.write_text("text,label\n" + "".join(f"text {number},{'ab'[number % 2]}\n" for number in range(12)))
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as stopped:
            main(["finetune", "classify", "--base", "counts", "--train", str(refused), "--check", *more])
        assert stopped.value.code == 2
    main(["finetune", "classify", "--base", "counts", "--train", str(fine), "--check"])
    assert "all examples have the same label" in capsys.readouterr().out


def test_a_long_label_leaves_the_table_its_columns() -> None:
    from firth.cli.describe import label_rows
    from firth.core.run import LabelScore

    score = LabelScore(precision=1.0, recall=1.0, f1=1.0, true=3, guessed=3)
    rows = label_rows({"n" * 53: score, "很长的标签" * 6: score, "plain": score})
    assert all(text_width(name) + 4 + text_width(value) <= 80 for name, value in rows)
    assert {name for name, _ in rows} >= {"  plain", f"  {'n' * 31}…"}


def test_the_next_command_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, out = tmp_path / "t.csv", tmp_path / "my mood"
    train.write_text("text,label\n" + "".join(f"{'good' if n % 2 else 'bad'} {n},{n % 2}\n" for n in range(12)))
    main(["finetune", "classify", "--base", "counts", "--train", str(train), "--out", str(out)])
    said = capsys.readouterr().out
    assert f"next: firth predict '{out}' texts.txt" in said
    assert f"firth serve '{out}'" in said


def test_messages_name_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, out = tmp_path / "t.csv", tmp_path / "run"
    train.write_text("comment,label\n" + "".join(f"{'good' if n % 2 else 'bad'} {n},{n % 2}\n" for n in range(12)))
    words = ["finetune", "classify", "--base", "counts", "--train", str(train), "--out", str(out), "class_weights=true"]
    main([*words, "--text", "comment"])
    other = tmp_path / "o.csv"
    other.write_text("words,label\ngood,1\nbad,0\n")
    for asked, wanted in (
        (["predict", str(out), str(other), "--min-confidence", "2"], "firth: --min-confidence 2: not between 0 and 1"),
        (["evaluate", str(out), "--data", str(other)], "name the right one with --text"),
    ):
        with pytest.raises(SystemExit):
            main(asked)
        assert wanted in capsys.readouterr().err
    main(["evaluate", str(out), "--data", str(train)])
    said = capsys.readouterr().out
    assert "macro f1, 95 %" in said
    assert "macro_f1" not in said


def test_vectors_stay_beside_the_rows_of_a_table(run_folder: Path, work: Path, capsys: Capture) -> None:
    (work / "a.csv").write_text("id,评论\n1,很好\n2,\n3,不好\n", encoding="utf-8")
    words = ["encode", run_folder, "a.csv", "--out", "v.npy"]
    assert said(words, capsys) == "v.npy: 3 vectors of 32 dimensions, 1 of them of empty texts\n"
    wanted = firth.load(run_folder).encode(["很好", "", "不好"])
    np.testing.assert_allclose(np.load("v.npy"), wanted, atol=1e-6)
    assert said_json(words, capsys) == {"out": "v.npy", "texts": 3, "dim": 32, "empty": 1}


def test_errors_fit_a_terminal_and_are_one_line_elsewhere(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    def told() -> str:
        with pytest.raises(SystemExit):
            main(["info", f"{'a folder with words in its name ' * 4}"])
        return capsys.readouterr().err

    assert told().count("\n") == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    lines = told().splitlines()
    assert len(lines) > 1
    assert all(text_width(line) <= 60 for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])


def test_a_text_may_not_be_empty(run_folder: Path, work: Path, capsys: Capture) -> None:
    (work / "a.txt").write_text("A file of the folder.\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["encode", str(run_folder), "", "--out", "v.npy"])
    assert "an empty text or name" in capsys.readouterr().err


def test_lines_after_the_work_fit_the_terminal(
    run_folder: Path, work: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    write_documents(work / "a.txt", 40)
    folder = work / "a folder"
    told = said(["prepare", "a.txt", "--out", folder, "--vocab-size", 300], capsys)
    command = " ".join(told[told.index("next:") :].split())
    assert f"--corpus '{folder}'" in command
    told = said(["tokens", folder, "One word"], capsys)
    assert " ".join(told.split()).startswith(f"{folder}: ")


def test_a_condition_that_no_document_satisfies(work: Path, capsys: Capture) -> None:
    (work / "a.csv").write_text("text,label\nThe football match.,sports\n", encoding="utf-8")
    said(["index", "a.csv", "--out", "ix"], capsys)
    assert "no document satisfies --where" in said(["search", "ix", "football", "--where", "label=sport"], capsys)
    assert "try other words" in said(["search", "ix", "zeppelin", "--where", "label=sports"], capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["finetune", "clasify", "--train", "a.csv", "--out", "run"],
        ["finetune", "classify", "learning_rat=1", "--train", "a.csv", "--out", "run"],
        ["finetune", "embed", "learning_rat=1", "--train", "a.csv", "--out", "run"],
        ["pretrain", "bert-tiny", "learning_rat=1", "--corpus", "corpus", "--out", "run"],
    ],
)
def test_a_wrong_name_is_refused_before_torch_is_loaded(words: list[str]) -> None:
    program = (
        "import sys\nfrom firth.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert "did you mean" in done.stderr
    assert done.stdout == "False\n"
