"""Predictions into the user's table: nothing of it is lost, in any format."""

import csv
import json
from pathlib import Path

import pyarrow.parquet
import pytest

import firth
from firth.cli.main import main
from task_text import files

ROWS = [
    {"id": "7", "text": "The doctor found a map.", "note": 'a "quoted", note'},
    {"id": "3", "text": "老师看见了书。", "note": ""},
    {"id": "5", "text": "", "note": "two\nlines"},
    {"id": "1", "text": "The nurse found a boat.", "note": "x;y|z"},
]


@pytest.fixture(scope="module")
def classifier(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    firth.finetune("classify", base=run_folder, **files(folder, "classify"), out=folder / "run", epochs=1)  # type: ignore[arg-type]
    return folder / "run"


def write_rows(path: Path, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS), encoding=encoding)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    else:
        with open(path, "w", encoding=encoding, newline="") as handle:
            writer = csv.DictWriter(handle, ["id", "text", "note"], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(ROWS)
    return path


def read_rows(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".parquet":
        return list(pyarrow.parquet.read_table(path).to_pylist())
    with open(path, encoding="utf-8", newline="") as handle:
        return [dict(row) for row in csv.DictReader(handle)]


@pytest.mark.parametrize("source", ["in.csv", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("out", ["out.csv", "out.jsonl", "out.parquet"])
def test_every_column_and_row_is_kept(classifier: Path, tmp_path: Path, source: str, out: str) -> None:
    scored = firth.predict(classifier, file=write_rows(tmp_path / source), out=tmp_path / out)
    found = read_rows(tmp_path / out)
    assert scored.rows == len(found) == len(ROWS)
    assert [{name: row[name] for name in ROWS[0]} for row in found] == ROWS
    wanted = firth.predict(classifier, [row["text"] for row in ROWS])
    assert [row["predicted_label"] for row in found] == [one["label"] for one in wanted]
    for row, one in zip(found, wanted, strict=True):
        assert float(str(row["predicted_probability"])) == pytest.approx(one["probabilities"][one["label"]], abs=1e-5)
        for label, probability in one["probabilities"].items():
            assert float(str(row[f"probability_{label}"])) == pytest.approx(probability, abs=1e-5)


@pytest.mark.parametrize("delimiter", [";", "|", "\t"])
def test_delimiters_of_a_csv(classifier: Path, tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "in.csv"
    lines = [delimiter.join(["id", "text", "note"])]
    lines += [delimiter.join([str(number), f"The doctor, the nurse {number}.", "a, b"]) for number in range(30)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert firth.predict(classifier, file=path, out=tmp_path / "out.tsv").rows == 30
    head, first, *_ = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert head.split("\t")[:3] == ["id", "text", "note"]
    assert first.split("\t")[:3] == ["0", "The doctor, the nurse 0.", "a, b"]
    firth.predict(classifier, file=path, out=tmp_path / "out.csv")  # a csv has the same one as its input
    head, first, *_ = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    own = delimiter.replace("\t", ",")
    assert head.split(own)[:4] == ["id", "text", "note", "predicted_label"]
    assert next(csv.reader([first], delimiter=own))[:3] == ["0", "The doctor, the nurse 0.", "a, b"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_byte_order_marks(classifier: Path, tmp_path: Path, encoding: str) -> None:
    write_rows(tmp_path / "in.csv", encoding=encoding)
    firth.predict(classifier, file=tmp_path / "in.csv", out=tmp_path / "out.csv")
    assert [row["text"] for row in read_rows(tmp_path / "out.csv")] == [row["text"] for row in ROWS]


def test_another_encoding_is_asked_for(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "in.csv", encoding="gb18030")
    command = ["predict", str(classifier), str(tmp_path / "in.csv"), "--out", str(tmp_path / "out.csv")]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 2
    assert "--encoding" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    main([*command, "--encoding", "gb18030"])
    assert "4 rows" in capsys.readouterr().out
    assert [row["text"] for row in read_rows(tmp_path / "out.csv")] == [row["text"] for row in ROWS]


def test_labels_are_kept_and_not_read(classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("text\tlabel\nThe nurse.\tzh\n老师\t-\n", encoding="utf-8")
    firth.predict(classifier, file=tmp_path / "in.tsv", out=tmp_path / "out.csv")
    assert [row["label"] for row in read_rows(tmp_path / "out.csv")] == ["zh", "-"]


@pytest.mark.parametrize(
    ("name", "content", "out", "said"),
    [
        ("in.csv", "text,note\nA map.,x\nA boat.\n", "out.csv", "in.csv:3: 1 field where 2 are expected"),
        ("in.csv", "text,predicted_label\nA map.,x\n", "out.csv", "two columns 'predicted_label'"),
        ("in.csv", "body,note\nA map.,x\n" * 2, "out.csv", "--text"),
        ("in.csv", "text,note\nA map.,x\n", "out.xls", "the ending says the format"),
        ("in.csv", "text,note\nA map.,x\n", "in.csv", "this is the file that is read"),
        (
            "in.jsonl",
            '{"text": "a"}\n' * 1000 + '{"text": "b", "new": 1}\n',
            "out.jsonl",
            "in.jsonl:1001: a field 'new'",
        ),
    ],
)
def test_bad_tables(classifier: Path, tmp_path: Path, name: str, content: str, out: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(firth.FirthError, match=said.replace("(", r"\(")):
        firth.predict(classifier, file=tmp_path / name, out=tmp_path / out)
    assert {path.name for path in tmp_path.iterdir()} == {name}
    assert (tmp_path / name).read_text(encoding="utf-8") == content


def test_a_text_on_the_command_line(classifier: Path, run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["predict", str(classifier), "The doctor found a map."])
    said = json.loads(capsys.readouterr().out)
    assert said["label"] == firth.predict(classifier, ["The doctor found a map."])[0]["label"]
    main(["encode", str(run_folder), "老师看见了书。"])
    assert len(json.loads(capsys.readouterr().out)["vector"]) == firth.load(run_folder).dim
    with pytest.raises(SystemExit):
        main(["predict", str(classifier), "missing.txt"])
    assert "no such file" in capsys.readouterr().err


def test_values_are_kept_without_loss(classifier: Path, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": "A map.", "x": 3.14159265358979, "n": 1, "big": 2**70, "mixed": 1, "when": None, "s": {}},
        {"text": "A boat.", "x": 1234567.891, "n": 2, "big": 1, "mixed": "one", "when": None, "s": {"a": 1}},
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for out in ("out.csv", "out.jsonl", "out.parquet"):
        firth.predict(classifier, file=tmp_path / "in.jsonl", out=tmp_path / out)
        found = read_rows(tmp_path / out)
        assert [float(str(row["x"])) for row in found] == [3.14159265358979, 1234567.891]
        assert [str(row["big"]) for row in found] == [str(2**70), "1"]
        assert [str(row["mixed"]) for row in found] == ["1", "one"]
    assert [row["n"] for row in read_rows(tmp_path / "out.parquet")] == [1, 2]
    assert isinstance(read_rows(tmp_path / "out.parquet")[0]["predicted_probability"], float)


def test_a_column_that_changes_its_type_is_refused_in_parquet(classifier: Path, tmp_path: Path) -> None:
    lines = ['{"text": "A map.", "n": 1}'] * 1000 + ['{"text": "A map.", "n": 1.5}'] * 3
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(firth.FirthError, match="the column 'n' changes its type"):
        firth.predict(classifier, file=tmp_path / "in.jsonl", out=tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    firth.predict(classifier, file=tmp_path / "in.jsonl", out=tmp_path / "out.csv")
    assert [row["n"] for row in read_rows(tmp_path / "out.csv")][-1] == "1.5"


def test_types_of_parquet_columns_are_kept(classifier: Path, tmp_path: Path) -> None:
    schema = pyarrow.schema([("text", pyarrow.string()), ("n", pyarrow.int16()), ("late", pyarrow.string())])
    rows = [{"text": "A map.", "n": 3, "late": None}] * 1000 + [{"text": "A boat.", "n": 4, "late": "x"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), tmp_path / "in.parquet")
    firth.predict(classifier, file=tmp_path / "in.parquet", out=tmp_path / "out.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert [table.schema.field(name).type for name in schema.names] == list(schema.types)
    assert table.select(schema.names).to_pylist() == rows


@pytest.mark.parametrize(
    "content",
    [
        'text\n"I liked it, really"\nIt was good; I loved it\nNice\n',
        "text\nred | blue\ngreen\n",
        'label,text\nx,"int a;\nint b;\nint c;"\ny,"return a;\nreturn b;"\n',
        'label,text\nx,"a | b | c\nd | e | f\ng | h | i"\n',
    ],
)
def test_other_marks_inside_a_csv_are_no_delimiters(classifier: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "in.csv").write_text(content, encoding="utf-8")
    firth.predict(classifier, file=tmp_path / "in.csv", out=tmp_path / "out.csv")
    with open(tmp_path / "in.csv", encoding="utf-8", newline="") as handle:
        wanted = [row["text"] for row in csv.DictReader(handle)]
    assert [row["text"] for row in read_rows(tmp_path / "out.csv")] == wanted


def test_half_characters_and_long_texts(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "good \\ud83d", "note": "\\ud83d"}\n', encoding="utf-8")
    for out in ("out.csv", "out.jsonl", "out.parquet"):
        assert firth.predict(classifier, file=tmp_path / "in.jsonl", out=tmp_path / out).rows == 1
    main(["predict", str(classifier), "好" * 200])
    assert json.loads(capsys.readouterr().out)["label"]
    for name in ("评论.csv", "my reviews.tsv"):
        with pytest.raises(SystemExit):
            main(["predict", str(classifier), name])
        assert "no such file" in capsys.readouterr().err
