"""The scripts of a text are known wherever they stand in it."""

import gzip
import json
from pathlib import Path

import pytest

from firth.core.registry import TokensConfig
from firth.corpus.prepare import prepare
from firth.data.readers import ReadingConfig, script_sample
from firth.data.sources import find_sources
from language_text import natural

ENGLISH, THAI = "The dogs barked at the moon.", natural("Thai").replace("\n", " ")


def share(inputs: list[Path], encoding: str = "utf-8", **settings: str) -> float:
    """Of Thai in a sample, which is never large."""
    found = script_sample(find_sources([str(path) for path in inputs]), ReadingConfig(encoding=encoding, **settings))
    text = "".join(found)
    assert 0 < len(text) < 400_000
    return sum("\u0e00" <= char < "\u0e80" for char in text) / len(text)


def lines(english: int, thai: int) -> list[str]:
    return [ENGLISH] * english + [THAI] * thai


@pytest.mark.parametrize("layout", ["line", "file"])
def test_the_order_of_files_does_not_matter(tmp_path: Path, layout: str) -> None:
    one, two = tmp_path / "1.txt", tmp_path / "2.txt"
    one.write_text("\n".join(lines(30_000, 0)), encoding="utf-8")
    two.write_text("\n".join(lines(0, 300)), encoding="utf-8")
    shares = share([one, two], layout=layout), share([two, one], layout=layout)
    assert shares[0] == shares[1] > 0.005


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.txt.gz", "a.tis"])
def test_what_stands_at_the_end_of_a_large_file_is_seen(tmp_path: Path, name: str) -> None:
    path, written = tmp_path / name, lines(15_000, 1500)
    if name.endswith("jsonl"):
        written = [json.dumps({"text": line}) for line in written]
    if name.endswith("csv"):
        written = ["text", *(f'"{line}"' for line in written)]
    data = "\n".join(written).encode("cp874" if name == "a.tis" else "utf-8")
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    encoding = "cp874" if name == "a.tis" else "utf-8"
    assert share([path], encoding, layout="line") > 0.01


def test_other_encodings_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines(20_000, 2000)), encoding="utf-16")
    assert share([path]) > 0.01


@pytest.mark.parametrize("turn", [1, -1])
def test_a_corpus_of_two_files_has_both_dictionaries(tmp_path: Path, turn: int) -> None:
    (tmp_path / "1.txt").write_text("\n".join(lines(5000, 0)), encoding="utf-8")
    (tmp_path / "2.txt").write_text("\n".join(lines(0, 100)), encoding="utf-8")
    files = [str(tmp_path / "1.txt"), str(tmp_path / "2.txt")][::turn]
    info = prepare(files, tmp_path / "c", TokensConfig(vocab_size=500), workers=1)
    assert info.unsegmented["Thai"].startswith("icu")
