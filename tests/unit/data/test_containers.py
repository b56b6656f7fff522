"""Documents from docx, pdf, tar and the arrow files of datasets, and how far a compressed file has been read."""

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pyarrow
import pyarrow.ipc
import pytest
import zstandard

import firth
from firth.core.errors import FirthError
from firth.data import containers
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import PassedOver, find_sources
from firth.data.tables import open_table

TEXTS = ["The first one, मैं.", "第二个文本。", "A third\nof two lines"]
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def texts(path: Path, **settings: str) -> list[str]:
    config = ReadingConfig(**settings)
    return [document.text for document in read_documents(find_sources([str(path)]), config)]


def write_docx(path: Path, body: str, name: str = "word/document.xml") -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(name, f'<?xml version="1.0"?><w:document {_W}><w:body>{body}</w:body></w:document>')


def test_docx(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>Über </w:t></w:r><w:r><w:t>alles</w:t><w:tab/><w:t>x</w:t></w:r></w:p>"
        "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:t>one</w:t><w:br/><w:t>two</w:t></w:r></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    write_docx(tmp_path / "a.docx", body)
    assert texts(tmp_path / "a.docx") == ["Über alles\tx\none\ntwo\ncell"]


_ALTERNATE = (
    '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
    '<mc:Choice Requires="wps">{0}</mc:Choice><mc:Fallback>{0}</mc:Fallback></mc:AlternateContent>'
)


def test_docx_text_boxes(tmp_path: Path) -> None:
    """Each is there for newer and for older programs; read once, before the paragraph that it stands in."""
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    body = f"<w:p><w:r><w:t>before </w:t></w:r><w:r>{_ALTERNATE.format(box)}</w:r><w:r><w:t>after</w:t></w:r></w:p>"
    write_docx(tmp_path / "a.docx", body)
    assert texts(tmp_path / "a.docx") == ["boxed\nbefore after"]
    inner = _ALTERNATE.format(f"<w:p><w:r>{_ALTERNATE.format('<w:t>once</w:t>')}</w:r></w:p>")
    write_docx(tmp_path / "b.docx", f"<w:p><w:r>{inner}<w:t>outer</w:t></w:r></w:p>")
    assert texts(tmp_path / "b.docx") == ["once\nouter"]


def test_docx_signs_and_moves(tmp_path: Path) -> None:
    moved = "<w:r><w:t>moved</w:t></w:r>"
    body = (
        f"<w:p><w:moveFrom>{moved}</w:moveFrom><w:r><w:t>a</w:t></w:r></w:p><w:p><w:moveTo>{moved}</w:moveTo></w:p>"
        "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>state</w:t><w:noBreakHyphen/><w:t>of</w:t></w:r>"
        "<w:del><w:r><w:tab/></w:r></w:del></w:p>"
    )
    write_docx(tmp_path / "a.docx", body)
    assert texts(tmp_path / "a.docx") == ["a\nmoved\nstate-of"]


def test_docx_by_the_strict_standard(tmp_path: Path) -> None:
    text = '<w:document xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"><w:p><w:t>strict</w:t></w:p></w:document>'
    with zipfile.ZipFile(tmp_path / "a.docx", "w") as archive:
        archive.writestr("word/document.xml", text)
    assert texts(tmp_path / "a.docx") == ["strict"]


def test_docx_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(b"not a zip")
    with pytest.raises(FirthError, match=r"not a whole \.docx file"):
        texts(path)
    write_docx(path, "", "other.xml")
    with pytest.raises(FirthError, match=r"no word/document\.xml"):
        texts(path)
    write_docx(path, "<w:p><w:r>")
    with pytest.raises(FirthError, match=r"not a whole \.docx file"):
        texts(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", '<!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>')
    with pytest.raises(FirthError, match="declares entities"):
        texts(path)
    write_docx(path, "<w:p><w:r><w:t>" + "a" * 10_000 + "</w:t></w:r></w:p>")
    monkeypatch.setattr(containers, "MAX_PART_BYTES", 5000)
    with pytest.raises(FirthError, match="unpacks to more than"):
        texts(path)


def write_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize(("name", "mode"), [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("a.tgz", "w:gz")])
def test_tar(tmp_path: Path, name: str, mode: str) -> None:
    members = {
        "000.txt": TEXTS[0].encode(),
        "000.jpg": b"\xff\xd8",
        "001.json": json.dumps({"text": TEXTS[1], "more": 1}).encode(),
        "sub/002.txt": TEXTS[2].encode(),
        "003.txt": b"  ",
    }
    write_tar(tmp_path / name, members, mode)
    with pytest.warns(PassedOver, match=r"passed over 1 member \(\.jpg 1\)"):
        assert texts(tmp_path / name) == TEXTS


def test_members_of_other_kinds(tmp_path: Path) -> None:
    """What macOS and WebDataset put beside texts, lines of JSON, lists, byte order marks."""
    members = {
        "._a.txt": b"\0\5\x16\7\0Mac OS X\0\0",
        "a.txt": TEXTS[0].encode("utf-16"),
        "0.jpg": b"x",
        "0.json": json.dumps({"url": "http://x", "width": 3}).encode(),
        "b.jsonl": "".join(json.dumps({"text": text}) + "\n\n" for text in TEXTS).encode("utf-8-sig"),
        "c.json": json.dumps([{"text": TEXTS[1]}, TEXTS[2]]).encode(),
        "LICENSE": b"x",
    }
    write_tar(tmp_path / "a.tar", members)
    with pytest.warns(PassedOver, match=r"a\.tar: passed over 3 members \(.*\.json without 'text' 1"):
        assert texts(tmp_path / "a.tar") == [TEXTS[0], *TEXTS, *TEXTS[1:]]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.jpg": b"x"}, "no .txt, .json or .jsonl"),
        ({"a.txt": b"\xff\xff"}, r"a\.tar: a\.txt: not utf-8 \(byte 0xff\)"),
        ({"a.json": b"{"}, "not valid JSON"),
        ({"a.jsonl": b'{"text": "x"}\n{"texts": "x"}'}, r"a\.jsonl:2: no field"),
        ({"a.json": b'{"texts": "x"}'}, "no field 'text': did you mean 'texts'"),
        ({"a.json": b'{"text": 3}'}, "not a string but int"),
    ],
)
def test_tar_with_faults(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    write_tar(tmp_path / "a.tar", members)
    with pytest.raises(FirthError, match=message):
        texts(tmp_path / "a.tar")


def test_a_damaged_tar(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"a.txt": b"x" * 5000})
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:2000])
    with pytest.raises(FirthError, match="damaged or truncated"):
        texts(tmp_path / "a.tar")


def test_a_tar_whose_header_lies(tmp_path: Path) -> None:
    """A sparse member without the map that it promises: tarfile stops with an error that is none of its own."""
    member = tarfile.TarInfo("big.txt")
    member.size = 512
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9" * 12}
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(member, io.BytesIO(bytes(512)))
    with pytest.raises(FirthError, match="damaged or truncated"):
        texts(tmp_path / "a.tar")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_docx_whose_text_does_not_unpack(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w", method) as archive:
        archive.writestr("word/document.xml", f"<w:document {_W}/>" + "x" * 3000)
    raw = bytearray((tmp_path / "a.docx").read_bytes())
    raw[50:60] = bytes(10)
    (tmp_path / "a.docx").write_bytes(raw)
    with pytest.raises(FirthError, match=r"not a whole \.docx file"):
        texts(tmp_path / "a.docx")


def test_a_docx_of_many_levels(tmp_path: Path) -> None:
    write_docx(tmp_path / "a.docx", "<w:p>" + "<w:r>" * 5000 + "</w:r>" * 5000 + "</w:p>")
    with pytest.raises(FirthError, match="1,000 deep"):
        texts(tmp_path / "a.docx")


def write_arrow(path: Path, table: pyarrow.Table, stream: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    make = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with open(path, "wb") as handle, make(handle, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_dataset(folder: Path, table: pyarrow.Table) -> None:
    """As ``datasets.Dataset.save_to_disk`` does."""
    write_arrow(folder / "data-00000-of-00002.arrow", table.slice(0, 2))
    write_arrow(folder / "data-00001-of-00002.arrow", table.slice(2))
    write_arrow(folder / "cache-1234.arrow", table)
    files = [{"filename": f"data-0000{number}-of-00002.arrow"} for number in range(2)]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}), encoding="utf-8")
    (folder / "dataset_info.json").write_text("{}", encoding="utf-8")


TABLE = pyarrow.table({"text": TEXTS, "label": [0, 1, 0]})


@pytest.mark.parametrize("stream", [True, False])
def test_arrow(tmp_path: Path, stream: bool) -> None:
    write_arrow(tmp_path / "a.arrow", TABLE, stream)
    assert texts(tmp_path / "a.arrow") == TEXTS
    table = open_table(find_sources([str(tmp_path / "a.arrow")])[0])
    assert (table.names, [row for _, row in table.rows]) == (
        ["text", "label"],
        [[t, n] for t, n in zip(TEXTS, [0, 1, 0], strict=True)],
    )
    with pytest.raises(FirthError, match="no column 'txt': did you mean 'text'"):
        texts(tmp_path / "a.arrow", column="txt")
    with pytest.raises(FirthError, match="column 'label' is not a string but int"):
        texts(tmp_path / "a.arrow", column="label")
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:300])
    with pytest.raises(FirthError, match="not a complete arrow file"):
        texts(tmp_path / "a.arrow")


def test_a_folder_of_datasets(tmp_path: Path) -> None:
    write_dataset(tmp_path / "set/train", TABLE)
    write_dataset(tmp_path / "set/test", TABLE)
    assert texts(tmp_path / "set/train") == TEXTS  # without the cache
    (tmp_path / "set/dataset_dict.json").write_text('{"splits": ["train", "test"]}', encoding="utf-8")
    with pytest.raises(FirthError, match=r"several splits \(test, train\); name one, such as .*train"):
        texts(tmp_path / "set")
    (tmp_path / "set/train/data-00001-of-00002.arrow").unlink()
    with pytest.raises(FirthError, match="names files that are not here"):
        texts(tmp_path / "set/train")


def test_written_by_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"text": TEXTS}).save_to_disk(str(tmp_path / "set"))
    assert texts(tmp_path / "set") == TEXTS


def pdf_of(lines: list[str]) -> bytes:
    """A page with these lines of Latin letters."""
    drawn = "BT /F1 12 Tf 72 720 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    parts = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = "%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{part}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer << /Size 6 /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + end).encode("latin-1")


def test_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf_of(["The first line.", "The second."]))
    assert [text.split() for text in texts(tmp_path / "a.pdf")] == [["The", "first", "line.", "The", "second."]]
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4 nothing")
    with pytest.raises(FirthError, match=r"b\.pdf: "):
        texts(tmp_path / "b.pdf")


def test_a_container_has_no_labels(tmp_path: Path) -> None:
    write_docx(tmp_path / "a.docx", "")
    with pytest.raises(FirthError, match="a docx has no columns"):
        open_table(find_sources([str(tmp_path / "a.docx")])[0])


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["txt", "txt.gz", "txt.zst", "txt.zip", "parquet"])
def test_progress_is_that_of_the_compressed_bytes(tmp_path: Path, ending: str) -> None:
    """From 0 to 100 %, never beyond, and with the half of the text near the half of the bytes."""
    import pyarrow.parquet

    lines = [
        f"Line {number} of a text that is not the same as line {number * 7919 % 10007}." for number in range(60_000)
    ]
    data = "\n".join(lines).encode()
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": lines}), path, row_group_size=5000)
    elif ending.endswith("zip"):
        with zipfile.ZipFile(path, "w") as archive:  # stored: a megabyte is read at a time
            archive.writestr("a.txt", data)
    else:
        pack = {"gz": gzip.compress, "zst": zstandard.compress}.get(ending.rpartition(".")[2], bytes)
        path.write_bytes(pack(data))
    events: list[tuple[int, int]] = []

    def note(event: object) -> None:
        assert isinstance(event, dict)
        if event["event"] == "block":
            events.append((event["bytes"], event["total"]))

    firth.prepare(path, tmp_path / "corpus", layout="line", vocab_size=400, workers=1, progress=note)
    shares = [done / total for done, total in events]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert abs(shares[len(shares) // 2 - 1] - 0.5) < 0.3
    assert max(shares[:-1]) <= 1
