"""Labelled tables in the layouts that people have."""

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from firth.core.errors import FirthError
from firth.data.labelled import Columns, TextExample, read_texts, stream_texts


def read(path: Path, data: str | bytes, **settings: object) -> list[TextExample]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_texts(str(path), **settings)  # type: ignore[arg-type]


def plain(examples: list[TextExample]) -> list[tuple[str, str | None, str | float | None]]:
    return [(example.text, example.second, example.label) for example in examples]


# name, what is in the file, the first example
GLUE = {
    "sst2": ("a.tsv", 'sentence\tlabel\nit\'s a "charming" film \t1\nbad\t0\n', ('it\'s a "charming" film ', None, "1")),
    "cola": ("a.tsv", "gj04\t1\t\tThe boat sank.\ngj04\t0\t*\tBoat the sank.\nx\t0\t?*\tSank.\n", ("The boat sank.", None, "1")),
    "cola-test": ("a.tsv", "index\tsentence\n0\tBill whistled.\n", ("Bill whistled.", None, None)),
    "mrpc": ("a.txt", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe said \"no\".\tNo, he said.\r\n", ('He said "no".', "No, he said.", "1")),
    "rte": ("a.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA b.\tB.\tnot_entailment\n", ("A b.", "B.", "not_entailment")),
    "qnli": ("a.tsv", "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n", ("Who?", "He.", "entailment")),
    "qqp": ("a.tsv", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\tWhy?\tHow?\t0\n", ("Why?", "How?", "0")),
    "mnli": ("a.tsv", "index\tsentence1_parse\tsentence1\tsentence2\tlabel1\tgold_label\n0\t(A)\tA\tB\tneutral\tcontradiction\n", ("A", "B", "contradiction")),
    "stsb": ("a.tsv", "index\tgenre\tsentence1\tsentence2\tscore\n0\tmain\tA.\tB.\t5.000\n", ("A.", "B.", 5.0)),
    "sts-benchmark": ("a.csv", "main-captions\tMSRvid\t2012\t1\t2.500\tA plane.\tAn air plane.\nmain-news\tx\t2013\t2\t4\tC.\tD.\textra\textra\n", ("A plane.", "An air plane.", 2.5)),
    "stsb-bare": ("a.tsv", "0\tmain-captions\tv\t12\t1\tnone\tnone\tA.\tB.\t3.800\n", ("A.", "B.", 3.8)),
    "snli-bare": ("a.tsv", "neutral\tA man.\tA boy.\nneutral\tA man.\tA dog.\n", ("A man.", "A boy.", "neutral")),
    "lcqmc": ("a.txt", "怎么弄？\t怎么开？\t1\n谁？\t什么歌\t0\n哪里？\t哪儿？\t1\n", ("怎么弄？", "怎么开？", "1")),
    "label-first": ("a.tsv", "1\t很好\n0\t不好\n1\t不错\n", ("很好", None, "1")),
    "label-last": ("a.txt", "很好\t好评\n不好\t差评\n不错\t好评\n", ("很好", None, "好评")),
    "csv": ("a.csv", 'label,review\n1,"距离较近,但是""蔡陆线""\n麻烦"\n', ('距离较近,但是"蔡陆线"\n麻烦', None, "1")),
    "category": ("a.csv", "cat,label,review\n书籍,1,好\n", ("好", None, "1")),
    "jsonl": ("a.jsonl", '{"label": 3, "text": "x"}\n\n{"text": "y", "label": 4}\n', ("x", None, "3")),
    "jsonl-in-json": ("a.json", '{"sentence1": "甲", "sentence2": "乙", "label": "neutral"}\n', ("甲", "乙", "neutral")),
    "json": ("a.json", '[\n {"text": "x",\n "label": true}]', ("x", None, "True")),
}  # fmt: skip


@pytest.mark.parametrize("layout", GLUE)
def test_layouts(tmp_path: Path, layout: str) -> None:
    name, data, wanted = GLUE[layout]
    assert plain(read(tmp_path / name, data, labelled=wanted[2] is not None))[0] == wanted


def test_one_example_a_row_and_where_it_stands(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", 'text,label\n"one\ntwo",1\n\nthree,0\n')
    assert plain(found) == [("one\ntwo", None, "1"), ("three", None, "0")]
    assert [example.where for example in found] == [f"{tmp_path}/a.csv:2", f"{tmp_path}/a.csv:5"]


def test_packed(tmp_path: Path) -> None:
    data = b"text\tlabel\nx\t1\n"
    assert read(tmp_path / "a.tsv.gz", gzip.compress(data)) == read(tmp_path / "a.tsv.gz", gzip.compress(data))
    assert plain(read(tmp_path / "a.tsv.zst", zstandard.compress(data))) == [("x", None, "1")]


def test_parquet(tmp_path: Path) -> None:
    table = pyarrow.table({"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [0, None]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    found = read_texts(str(tmp_path / "a.parquet"))
    assert plain(found) == [("a", "c", "0"), ("b", "d", None)]


class TestColumns:
    data = "id\tbody\tother\tstars\n1\tgood\tx\t5\n2\tbad\ty\t1\n"

    def test_named(self, tmp_path: Path) -> None:
        found = read(tmp_path / "a.tsv", self.data, columns=Columns("body", "other", "stars"))
        assert plain(found) == [("good", "x", "5"), ("bad", "y", "1")]

    def test_numbers(self, tmp_path: Path) -> None:
        bare = self.data.split("\n", 1)[1]
        assert plain(read(tmp_path / "a.tsv", bare, columns=Columns("2", None, "4")))[1] == ("bad", None, "1")
        assert plain(read(tmp_path / "b.tsv", "sentence\tq\nx\t1\n", columns=Columns(label="2")))[0] == ("x", None, "1")

    def test_names_of_everyday_tables(self, tmp_path: Path) -> None:
        """Words that may be labels as well are names where two of them stand together."""
        assert plain(read(tmp_path / "a.tsv", self.data)) == [("good", None, "5"), ("bad", None, "1")]
        assert plain(read(tmp_path / "b.tsv", "标签\t评论\n好\t不错\n")) == [("不错", None, "好")]
        assert plain(read(tmp_path / "c.tsv", "title\tthe first one\nname\tanother\n"))[0] == (
            "the first one",
            None,
            "title",
        )

    def test_missing(self, tmp_path: Path) -> None:
        for columns, message in (
            (Columns("bodi", None, "stars"), r"a\.tsv:1: no column 'bodi': did you mean 'body'\?"),
            (Columns("body", None, "grade"), r"a\.tsv:1: no column 'grade': known: body, id, other, stars"),
        ):
            with pytest.raises(FirthError, match=message):
                read(tmp_path / "a.tsv", self.data, columns=columns)
        unknown = self.data.replace("body", "prose")
        with pytest.raises(FirthError, match=r"a\.tsv:1: 4 columns \(1 id, 2 prose, 3 other, 4 stars\) and no header"):
            read(tmp_path / "a.tsv", unknown)
        with pytest.raises(FirthError, match=r"a\.jsonl:1: no text column among prose, stars; name it with --text"):
            read(tmp_path / "a.jsonl", '{"prose": "x", "stars": 1}\n')
        with pytest.raises(FirthError, match=r"a\.tsv:1: no label column among text, mood; name it with --label"):
            read(tmp_path / "a.tsv", "text\tmood\nx\t1\n")
        with pytest.raises(FirthError, match="only one column, so there are no labels"):
            read(tmp_path / "a.txt", "x\ny\n")
        with pytest.raises(FirthError, match=r"semicolons seem to separate its columns: rename it to a\.csv"):
            read(tmp_path / "a.tsv", "text;label\nA fine film, really;good\nNo;bad\n")
        with pytest.raises(FirthError, match="no column 9: there are 2"):
            read(tmp_path / "a.tsv", "x\t1\ny\t0\n", columns=Columns("1", None, "9"))

    def test_a_header_with_strange_names_is_no_example(self, tmp_path: Path) -> None:
        with pytest.raises(FirthError, match=r"looks like a header without known names \(prose, stars\)"):
            read(tmp_path / "a.csv", "prose,stars\ngood,5\nbad,1\n")
        with pytest.raises(FirthError, match="looks like a header"):
            read(tmp_path / "a.csv", "body,mood\n" + "a text,happy\nb text,sad\n" * 15)

    def test_two_texts_are_no_label(self, tmp_path: Path) -> None:
        data = "".join(f"text {number}\tother {number}\n" for number in range(30))
        with pytest.raises(FirthError, match="which column holds the labels"):
            read(tmp_path / "a.tsv", data)
        assert plain(read(tmp_path / "a.tsv", data, labelled=False))[3] == ("text 3", "other 3", None)


class TestScores:
    def test_found_by_fractions(self, tmp_path: Path) -> None:
        assert plain(read(tmp_path / "a.tsv", "a\tb\t1\nc\td\t2.5\n")) == [("a", "b", 1.0), ("c", "d", 2.5)]
        assert plain(read(tmp_path / "a.tsv", "a\tb\t1\nc\td\t2\n"))[0] == ("a", "b", "1")

    def test_asked_for(self, tmp_path: Path) -> None:
        assert plain(read(tmp_path / "a.tsv", "a\tb\t1\nc\td\t2\n", scores=True))[1] == ("c", "d", 2.0)
        with pytest.raises(FirthError, match=r"a\.tsv:2: the label 'good' is not a number"):
            read(tmp_path / "a.tsv", "text\tlabel\na\tgood\n", scores=True)
        assert plain(read(tmp_path / "a.tsv", "text\tlabel\na\t2.5\n", scores=False)) == [("a", None, "2.5")]


def test_bad_rows(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match=r"a\.tsv:3: 3 fields where 2 are expected; fix this line"):
        read(tmp_path / "a.tsv", "text\tlabel\nx\t1\ny\tz\t0\n")
    with pytest.raises(FirthError, match=r"a\.jsonl:2: not valid JSON"):
        read(tmp_path / "a.jsonl", '{"text": "x", "label": 1}\n{"text": \n')
    with pytest.raises(FirthError, match=r"a\.jsonl:1: not an object with named fields but list"):
        read(tmp_path / "a.jsonl", "[1]\n")
    with pytest.raises(FirthError, match=r"a\.jsonl:1: the text is not a string but int"):
        read(tmp_path / "a.jsonl", '{"text": 3, "label": 1}\n')
    with pytest.raises(FirthError, match=r"a\.csv:2: not valid csv"):
        read(tmp_path / "a.csv", 'text,label\n"x" y,1\n')
    with pytest.raises(FirthError, match=r"a\.parquet: not a complete parquet file"):
        read(tmp_path / "a.parquet", b"PAR1 and then something else PAR1")


def test_missing_labels_and_empty_texts_are_kept_for_the_check(tmp_path: Path) -> None:
    data = '{"text": "", "label": "a"}\n{"text": "x", "label": null}\n{"text": null, "label": " "}\n'
    assert plain(read(tmp_path / "a.jsonl", data)) == [("", None, "a"), ("x", None, None), ("", None, None)]


def test_pairs_without_agreement_are_left_out(tmp_path: Path) -> None:
    data = "gold_label\tsentence1\tsentence2\n-\ta\tb\nneutral\tc\td\n"
    assert plain(read(tmp_path / "a.tsv", data)) == [("c", "d", "neutral")]
    assert plain(read(tmp_path / "a.tsv", "text\tlabel\nx\t-\ny\t+\n"))[0] == ("x", None, "-")


def test_a_million_characters(tmp_path: Path) -> None:
    long = "词 e\u0301 " * 250_000
    assert plain(read(tmp_path / "a.csv", f'text,label\n"{long}",1\n')) == [(long, None, "1")]
    assert read(tmp_path / "a.jsonl", json.dumps({"text": long, "label": 1}))[0].text == long


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    assert read(tmp_path / "a.jsonl", '{"text": "a\\ud83d", "label": 1}\n')[0].text == "a\ufffd"
    assert read(tmp_path / "a.jsonl", '{"text": "a\\ud83d\\ude00", "label": 1}\n')[0].text == "a😀"


def test_stream(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("first text\n\nsecond, text\n", encoding="utf-8")
    assert [example.text for example in stream_texts(str(path))] == ["first text", "second, text"]


def test_parquet_that_breaks_off_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the rows by which the columns are found."""
    table = pyarrow.table({"text": [f"text {number}" for number in range(3000)], "label": ["a", "b"] * 1500})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    whole = pyarrow.parquet.ParquetFile.iter_batches

    def broken(self: object, **settings: object) -> object:
        for number, batch in enumerate(whole(self, **settings)):  # type: ignore[arg-type]
            if number > 6:
                raise pyarrow.ArrowInvalid("bad page")
            yield batch

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", broken)
    with pytest.raises(FirthError, match=r"a\.parquet: not a complete parquet file \(bad page\)"):
        read_texts(str(tmp_path / "a.parquet"))


def test_lines_of_fasttext(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("__label__good a fine  film\n\nnot so fine __label__bad\n", encoding="utf-8")
    found = read_texts(str(path))
    assert [(example.text, example.label) for example in found] == [("a fine film", "good"), ("not so fine", "bad")]
    assert found[1].where.endswith("train.txt:3")
    path.write_text("__label__good a\n__label__a __label__b c\n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"train\.txt:2: 2 labels where one is expected"):
        read_texts(str(path))
    path.write_text("__label__good a\nno label\n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"train\.txt:2: 0 labels"):
        read_texts(str(path))
