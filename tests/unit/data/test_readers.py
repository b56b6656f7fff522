"""Every format and layout to documents."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from firth.core.errors import FirthError
from firth.data import readers
from firth.data import sources as lines
from firth.data.readers import Document, ReadingConfig, find_layouts, read_documents, read_places, read_texts
from firth.data.sources import find_sources

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
TEXTS = ["A first text, with a comma.", "他说：“你好。”\n第二行。", 'Quote " and tab\tinside.']


def read(path: Path, data: bytes | str | None = None, **settings: str) -> list[Document]:
    if data is not None:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(read_documents(find_sources([str(path)]), ReadingConfig(**settings)))


def texts(path: Path, data: bytes | str | None = None, **settings: str) -> list[str]:
    return [document.text for document in read(path, data, **settings)]


@pytest.mark.parametrize("packing", PACK)
class TestFormats:
    def test_jsonl(self, tmp_path: Path, packing: str) -> None:
        lines = "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(TEXTS))
        lines += "\n" + json.dumps("a bare string") + "\n" + json.dumps({"text": "  "}) + "\n"
        found = texts(tmp_path / f"a.jsonl{packing}", PACK[packing](lines.encode()))
        assert found == [*TEXTS, "a bare string"]

    def test_csv(self, tmp_path: Path, packing: str) -> None:
        rows = "".join('{},"{}"\r\n'.format(n, text.replace('"', '""')) for n, text in enumerate(TEXTS))
        assert texts(tmp_path / f"a.csv{packing}", PACK[packing](("id,text\r\n" + rows).encode())) == TEXTS

    def test_tsv_keeps_quotes_as_they_are(self, tmp_path: Path, packing: str) -> None:
        data = 'text\tlabel\n"Well," he said\t1\n他说"好"\t0\n'
        found = texts(tmp_path / f"a.tsv{packing}", PACK[packing](data.encode()))
        assert found == ['"Well," he said', '他说"好"']

    def test_parquet(self, tmp_path: Path, packing: str) -> None:
        table = pyarrow.table({"id": [0, 1, 2, 3, 4], "text": [*TEXTS, None, ""]})
        plain = tmp_path / "plain"
        pyarrow.parquet.write_table(table, plain)
        assert texts(tmp_path / f"a.parquet{packing}", PACK[packing](plain.read_bytes())) == TEXTS

    def test_txt(self, tmp_path: Path, packing: str) -> None:
        data = PACK[packing](b"one text\nanother text\n")
        assert texts(tmp_path / f"a.txt{packing}", data) == ["one text", "another text"]


class TestLayouts:
    def test_a_document_a_line(self, tmp_path: Path) -> None:
        assert texts(tmp_path / "a.txt", "First text. Of two.\r\nSecond text.\n\n", layout="auto") == [
            "First text. Of two.",
            "Second text.",
        ]

    def test_sentences_with_blank_lines_between_documents(self, tmp_path: Path) -> None:
        first, second = read(tmp_path / "a.txt", "\n\nOne. Still one.\nTwo!\n\n \n他来了。\n你好？\n")
        assert first == Document("One. Still one.\nTwo!", [(0, 15), (16, 20)])
        assert second == Document("他来了。\n你好？", [(0, 4), (5, 8)])

    def test_wrapped_prose_is_one_document(self, tmp_path: Path) -> None:
        line = "words that go on and on until the line is full and then"
        prose = "\n".join([line] * 20) + "\n\n" + "\n".join([line] * 20)
        assert texts(tmp_path / "a.txt", prose) == [prose]
        assert texts(tmp_path / "b.txt", prose.replace("\n\n", "\n")) == [prose.replace("\n\n", "\n")]

    def test_many_files_are_a_document_each(self, tmp_path: Path) -> None:
        for number in range(10):
            (tmp_path / f"{number}.txt").write_text(f"Text {number}.\nIts second line.\n")
        found = texts(tmp_path)
        assert len(found) == 10
        assert found[3] == "Text 3.\nIts second line.\n"

    @pytest.mark.parametrize(("layout", "number"), [("file", 1), ("blank", 2), ("line", 3)])
    def test_the_named_layout_wins(self, tmp_path: Path, layout: str, number: int) -> None:
        assert len(read(tmp_path / "a.txt", "One.\nTwo.\n\nThree.\n", layout=layout)) == number

    def test_a_long_file_is_cut_between_sentences(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_DOCUMENT_CHARS", 100)
        data = "这是一句话。" * 1000
        found = texts(tmp_path / "a.txt", data, layout="file")
        assert "".join(found) == data
        assert all(len(text) <= 100 and text.endswith("。") for text in found)
        assert texts(tmp_path / "b.jsonl", json.dumps({"text": data}), layout="file") == found

    def test_one_endless_line_is_running_text(self, tmp_path: Path) -> None:
        data = "word " * 500_000
        assert "".join(texts(tmp_path / "a.txt", data)) == data

    def test_unknown_layout(self, tmp_path: Path) -> None:
        with pytest.raises(FirthError, match="unknown layout 'page'"):
            read(tmp_path / "a.txt", "x", layout="page")


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf8", "utf-8-sig"])
    @pytest.mark.parametrize("layout", ["line", "file"])
    def test_a_byte_order_mark_is_no_text(self, tmp_path: Path, encoding: str, layout: str) -> None:
        data = b"\xef\xbb\xbf" + "héllo".encode()
        assert texts(tmp_path / "a.txt", data, layout=layout, encoding=encoding) == ["héllo"]

    def test_only_the_first_mark_goes(self, tmp_path: Path) -> None:
        data = b"\xef\xbb\xbf" + "a\n\ufeffb\n".encode()
        assert texts(tmp_path / "a.txt", data, layout="line") == ["a", "\ufeffb"]

    @pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
    def test_a_mark_before_a_table(self, tmp_path: Path, name: str) -> None:
        data = "text\nhi\n" if name.endswith("csv") else '{"text": "hi"}\n'
        assert texts(tmp_path / name, b"\xef\xbb\xbf" + data.encode()) == ["hi"]

    @pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "big5", "utf-16-le"])
    @pytest.mark.parametrize("layout", ["line", "file", "auto"])
    def test_a_named_encoding(self, tmp_path: Path, encoding: str, layout: str) -> None:
        assert texts(tmp_path / "a.txt", "中文文字".encode(encoding), layout=layout, encoding=encoding) == ["中文文字"]

    @pytest.mark.parametrize("layout", ["line", "blank", "file", "auto"])
    def test_other_bytes_are_named_by_line(self, tmp_path: Path, layout: str) -> None:
        with pytest.raises(FirthError, match=r"a\.txt:2: not utf-8.*--encoding"):
            read(tmp_path / "a.txt", b"good\n" + "中文".encode("gb18030") + b"\n", layout=layout)

    def test_wrong_named_encoding_is_named_by_line(self, tmp_path: Path) -> None:
        with pytest.raises(FirthError, match=r"a\.txt:\d: not ascii"):
            read(tmp_path / "a.txt", "good\nnaïve\n", encoding="ascii")

    def test_utf16_without_its_name(self, tmp_path: Path) -> None:
        with pytest.raises(FirthError, match=r"a\.txt:1: .*--encoding"):
            read(tmp_path / "a.txt", "some text\n".encode("utf-16-le"))

    def test_unknown_encoding(self, tmp_path: Path) -> None:
        for layout in ("line", "file"):
            with pytest.raises(FirthError, match="unknown encoding 'klingon'"):
                read(tmp_path / "a.txt", "x", encoding="klingon", layout=layout)

    def test_half_a_surrogate_pair_becomes_the_replacement_character(self, tmp_path: Path) -> None:
        assert texts(tmp_path / "a.jsonl", '{"text": "a\\ud83d b"}\n') == ["a\ufffd b"]


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "data", "message"),
        [
            ("a.jsonl", '{"text": "x"}\n{"text": \n', r"a\.jsonl:2: not valid JSON"),
            ("a.jsonl", '{"txt": "x"}\n', r"a\.jsonl:1: no column 'text': did you mean 'txt'"),
            ("a.jsonl", '{"text": 3}\n', r"a\.jsonl:1: 'text' is not a string but int"),
            ("a.csv", "texts,id\nx,1\n", r"a\.csv:1: no column 'text': did you mean 'texts'"),
            ("a.csv", "text,id\nx,1\ny\n", r"a\.csv:3: 1 field where the header has 2"),
            ("a.csv", 'text,id\n"x,1\n', r"a\.csv:2: not valid csv"),
            ("a.tsv", "text\tid\nx\n", r"a\.tsv:2: 1 field"),
            ("a.parquet", "no parquet", r"a\.parquet: not a complete parquet file"),
        ],
    )
    def test_the_line_is_named(self, tmp_path: Path, name: str, data: str, message: str) -> None:
        with pytest.raises(FirthError, match=message):
            read(tmp_path / name, data)

    def test_another_column(self, tmp_path: Path) -> None:
        assert texts(tmp_path / "a.csv", "id,body\n1,x\n", column="body") == ["x"]

    def test_a_parquet_column_of_numbers(self, tmp_path: Path) -> None:
        pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2]}), tmp_path / "a.parquet")
        with pytest.raises(FirthError, match="'text' is not a string but int"):
            read(tmp_path / "a.parquet")

    @pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
    def test_an_endless_line_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
        monkeypatch.setattr(lines, "MAX_LINE_CHARS", 2_000_000)
        with pytest.raises(FirthError, match=r"a\.txt:2: a line of more than 2 MB"):
            read(tmp_path / "a.txt", b"short\n" + b"x" * 3_500_000, layout="line", encoding=encoding)


def test_chinese_titles_are_a_document_a_line_and_wrapped_chinese_is_not(tmp_path: Path) -> None:
    titles = [f"第{number}期关于{'春夏秋冬' * (number % 2)}城市交通的报告{number}" for number in range(10, 60)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(titles), encoding="utf-8")
    assert sorted({len(title) for title in titles})[0] >= 0.7 * max(map(len, titles))
    assert find_layouts(find_sources([str(path)]), ReadingConfig()) == {"line": 1}
    path.write_text(
        "\n".join("春夏秋冬城市交通报告一二三四"[: 12 + number % 2] for number in range(50)), encoding="utf-8"
    )
    assert find_layouts(find_sources([str(path)]), ReadingConfig()) == {"line": 1}
    text = "他想了很久还是决定去北京看一看那里的城市" * 30
    path.write_text("\n".join(text[place : place + 38] for place in range(0, len(text), 38)), encoding="utf-8")
    assert find_layouts(find_sources([str(path)]), ReadingConfig()) == {"file": 1}
    assert find_layouts(find_sources([str(path)] * 10), ReadingConfig()) == {"file": 10}
    assert find_layouts(find_sources([str(path)]), ReadingConfig(layout="blank")) == {"blank": 1}


@pytest.mark.parametrize(
    "value",
    [
        [{"text": text, "n": 1} for text in TEXTS],
        {"data": [{"text": text} for text in TEXTS]},
        [{"text": None}, {"text": " "}, *({"text": text} for text in TEXTS)],
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_list_of_records(tmp_path: Path, value: object, indent: int | None) -> None:
    if isinstance(value, dict) and indent is None:
        pytest.skip("an object in one line is a line of jsonl")
    assert texts(tmp_path / "a.json", json.dumps(value, indent=indent)) == TEXTS


def test_json_that_has_an_object_in_each_line(tmp_path: Path) -> None:
    assert texts(tmp_path / "a.json", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)) == TEXTS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('["a", "b"]', "not a list of objects"),
        ('{\n"a": {"b": 1}\n}', "not a list of objects"),
        ('[{"texts": "a"}]', "no column 'text': did you mean 'texts'"),
        ('[{"text": "a"}, {"text": 7}]', "'text' of record 2 is not a string but int"),
        ("plain text", "not valid JSON"),
    ],
)
def test_json_that_holds_no_texts(tmp_path: Path, data: str, message: str) -> None:
    """It is not trained on as if it were plain text."""
    with pytest.raises(FirthError, match=rf"a\.json.*{message}"):
        texts(tmp_path / "a.json", data)


def test_a_dictionary_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("飞桨\n", encoding="utf-8")
    with pytest.raises(FirthError, match="a folder, not a dictionary"):
        readers.read_dictionary(tmp_path)
    assert readers.read_dictionary(tmp_path / "words.txt") == ["飞桨"]


ROWS = [("1", "One."), ("2", ""), ("3", "Three."), ("4", None)]


def rows_file(path: Path, column: str = "text") -> str:
    """The rows in the format of the name."""
    table = pyarrow.table({"id": [id for id, _ in ROWS], column: [text for _, text in ROWS]})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".arrow":
        with pyarrow.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    elif path.suffix in (".json", ".jsonl"):
        lines = [json.dumps({"id": id, column: text}) for id, text in ROWS]
        path.write_text(
            "\n".join(lines) + "\n" if path.suffix == ".jsonl" else f"[{', '.join(lines)}]", encoding="utf-8"
        )
    else:
        mark = "," if path.suffix == ".csv" else "\t"
        lines = [mark.join((column, "id")), *(mark.join((text or "", id)) for id, text in ROWS)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


TABLES = ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.arrow"]


@pytest.mark.parametrize("name", TABLES)
def test_answers_by_row_have_every_row(name: str, tmp_path: Path) -> None:
    path = rows_file(tmp_path / name)
    assert list(read_texts(path)) == ["One.", "", "Three.", ""]
    assert [document.text for document in read_documents(find_sources([path]), ReadingConfig())] == ["One.", "Three."]


@pytest.mark.parametrize("name", TABLES)
def test_places_do_not_change_when_other_rows_are_empty(name: str, tmp_path: Path) -> None:
    (source,) = find_sources([rows_file(tmp_path / name)])
    found = [f"{place} {one.text}" for place, one in read_places(source, ReadingConfig(), 0, fields=True)]
    mark = ":" if name.endswith("l") else "#"
    assert found == [f"{mark}1 One.", f"{mark}3 Three."]


def test_lines_are_lines_and_records_are_not(tmp_path: Path) -> None:
    def places(name: str, text: str, layout: str = "auto") -> list[str]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        (source,) = find_sources([str(tmp_path / name)])
        return [str(place) for place, _ in read_places(source, ReadingConfig(layout=layout), 1)]

    assert places("a.txt", "One.\n\nThree.\n", "line") == [":1", ":3"]
    assert places("a.txt", "One.\n\nThree.\n", "blank") == ["#1", "#2"]
    assert places("a.txt", "One.\n\nThree.\n", "file") == [":1"]
    assert places("a.csv", 'text\n"One\nand two."\nThree.\n') == ["#1", "#2"]
    assert places("b.csv", f"text\n{'word ' * 250_000}\nThree.\n") == ["#1", "#1-2", "#2"]
    assert len(list(read_texts(str(tmp_path / "b.csv")))) == 2


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("column", ["正文", "评论", "review", "Comment"])
def test_usual_names_of_the_column(name: str, column: str, tmp_path: Path) -> None:
    path = rows_file(tmp_path / name, column)
    assert list(read_texts(path)) == ["One.", "", "Three.", ""]
    with pytest.raises(FirthError, match=r"no column 'body': known: .*; choose with --column"):
        list(read_texts(path, "body"))


def test_the_remedy_is_that_of_the_command(tmp_path: Path) -> None:
    path = rows_file(tmp_path / "a.csv", "words")
    with pytest.raises(FirthError, match=r"no column 'text': known: id, words; name it with --text$"):
        list(read_documents(find_sources([path]), ReadingConfig(), "name it with --text"))
