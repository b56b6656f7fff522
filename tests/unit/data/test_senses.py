"""Both formats of words with senses, and what is wrong with a file."""

import gzip
from pathlib import Path

import pytest

from firth.core.errors import FirthError
from firth.data.tagged import read_first_senses, read_senses

ALL_WORDS = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="made">
<text id="d0">
<sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="old_age" pos="NOUN">old age</instance>
<wf lemma="of" pos="ADP">of</wf>
<instance id="d0.s0.t1" lemma="Art" pos="NOUN">art</instance>
<instance id="d0.s0.t2" lemma="end" pos="VERB">ends</instance>
</sentence>
<sentence id="d0.s1"><wf lemma="no" pos="DET">No</wf></sentence>
</text>
</corpus>
"""
KEYS = "d0.s0.t0 old_age%1:28:00::\nd0.s0.t1 art%1:06:00:: art%1:04:00::\n"
SAMPLE = """<corpus lang="en">
<lexelt item="hard-a">
<instance id="hard-a.1:"><answer instance="hard-a.1:" senseid="HARD1"/>
<context> <wf pos="PRP">it</wf> <compound><wf pos="VBZ">'s</wf></compound> <head> <wf pos="JJ">hard</wf></head> <wf pos="TO">to</wf> </context>
</instance>
<instance id="hard-a.2:"><answer instance="hard-a.2:" senseid="U"/><context>a <head>hard</head> one</context></instance>
</lexelt>
<lexelt item="art.n">
<instance id="art.1"><answer instance="art.1" senseid="art1"/><answer instance="art.1" senseid="art2"/>
<context>Fine, <head>arts</head> &amp; crafts don't pay.</context></instance>
</lexelt>
</corpus>
"""


def test_all_words(tmp_path: Path) -> None:
    path = tmp_path / "made.data.xml"
    path.write_text(ALL_WORDS, encoding="utf-8")
    (tmp_path / "made.gold.key.txt").write_text(KEYS, encoding="utf-8")
    (example,) = read_senses(str(path))
    assert example.words == ["The", "old", "age", "of", "art", "ends"]
    assert [mark[1:] for mark in example.marks] == [
        ("old_age#NOUN", 1, 3, ("old_age%1:28:00::",)),
        ("art#NOUN", 4, 5, ("art%1:06:00::", "art%1:04:00::")),
    ]


def test_packed(tmp_path: Path) -> None:
    (tmp_path / "made.data.xml.gz").write_bytes(gzip.compress(ALL_WORDS.encode()))
    (tmp_path / "made.gold.key.txt.gz").write_bytes(gzip.compress(KEYS.encode()))
    assert len(read_senses(str(tmp_path / "made.data.xml.gz"))[0].marks) == 2


def test_lexical_sample(tmp_path: Path) -> None:
    (tmp_path / "words.pos").write_text(SAMPLE, encoding="utf-8")
    hard, art = read_senses(str(tmp_path / "words.pos"))
    assert hard.words == ["it", "'s", "hard", "to"]
    assert hard.marks == [("hard-a.1:", "hard-a", 2, 3, ("HARD1",))]
    assert art.words == ["Fine", ",", "arts", "&", "crafts", "don't", "pay", "."]
    assert art.marks == [("art.1", "art.n", 2, 3, ("art1", "art2"))]


def test_lexical_sample_with_its_answers_apart(tmp_path: Path) -> None:
    """In such key files the item stands before the instance."""
    (tmp_path / "test.xml").write_text(
        '<corpus><lexelt item="art.n"><instance id="art.7"><context>Her <head>art</head>.</context></instance></lexelt></corpus>',
        encoding="utf-8",
    )
    (tmp_path / "test.key").write_text("art.n art.7 art%1 art%2\n", encoding="utf-8")
    assert read_senses(str(tmp_path / "test.xml"))[0].marks[0].senses == ("art%1", "art%2")


def test_first_senses(tmp_path: Path) -> None:
    path = tmp_path / "index.sense"
    path.write_text(
        "art%1:04:00:: 02743547 2 9\nart%1:06:00:: 02743548 1 20\nfine%5:00:00:good:00 01 1 3\nfine%2:32:00:: 02 1 0\n",
        encoding="utf-8",
    )
    assert read_first_senses(str(path)) == {
        "art#NOUN": "art%1:06:00::",
        "fine#ADJ": "fine%5:00:00:good:00",
        "fine#VERB": "fine%2:32:00::",
    }
    path.write_text("bank#NOUN money\n\n", encoding="utf-8")
    assert read_first_senses(str(path)) == {"bank#NOUN": "money"}
    path.write_text("bank#NOUN money\nwhat\n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"index\.sense:2: neither a line of WordNet's index\.sense nor"):
        read_first_senses(str(path))


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "bad.data.xml"
    path.write_text(ALL_WORDS.replace("</sentence>", "", 1), encoding="utf-8")
    with pytest.raises(FirthError, match=r"bad\.data\.xml:\d+: not well-formed XML"):
        read_senses(str(path))
    path.write_text(ALL_WORDS, encoding="utf-8")
    with pytest.raises(FirthError, match=r"no sense-annotated word.*bad\.gold\.key\.txt"):
        read_senses(str(path))
    (tmp_path / "bad.gold.key.txt").write_text("d0.s0.t0\n", encoding="utf-8")
    with pytest.raises(FirthError, match=r"bad\.gold\.key\.txt:1: 'd0\.s0\.t0' has no sense"):
        read_senses(str(path))
    with pytest.raises(FirthError, match="no such file or folder"):
        read_senses(str(tmp_path / "none.xml"))
