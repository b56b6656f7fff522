"""Words with tags, in each layout, with their places in the text."""

import json
from pathlib import Path

import pytest

from firth.core.errors import FirthError
from firth.data.labelled import TagExample
from firth.data.tagged import TagColumns, read_tagged


def read(path: Path, data: str, **settings: object) -> list[TagExample]:
    path.write_text(data, encoding="utf-8")
    found = read_tagged(str(path), **settings)  # type: ignore[arg-type]
    for example in found:
        assert len(example.offsets) == len(example.words)
    return found


def in_text(example: TagExample) -> list[str]:
    return [example.text[start:end] for start, end in example.offsets]


CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
# # O O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def test_conll(tmp_path: Path) -> None:
    first, second = read(tmp_path / "eng.train", CONLL)
    assert first.words == ["EU", "rejects", "#"]
    assert first.tags == ["I-ORG", "O", "O"]
    assert first.where.endswith("eng.train:3")
    assert second.text == "Peter Blackburn"
    assert in_text(second) == second.words
    assert second.where.endswith(":7")
    assert read(tmp_path / "a", CONLL, columns=TagColumns(tag=2))[0].tags == ["NNP", "VBZ", "#"]
    assert read(tmp_path / "a", CONLL, columns=TagColumns(word=2, tag=1))[0].words == ["NNP", "VBZ", "#"]


def test_bmes_by_characters(tmp_path: Path) -> None:
    data = "吴 B-NAME\n阳 E-NAME\n， O\n1 O\n9 O\n　 O\nA O\n生 O\n\n\n中\tO\n国\tO"
    first, second = read(tmp_path / "a.bmes", data)
    assert first.text == "吴阳，19　A生"  # the ideographic space is a word here
    assert in_text(first) == first.words
    assert second.tags == ["O", "O"]


def test_words_only(tmp_path: Path) -> None:
    (only,) = read(tmp_path / "a.txt", "Hello\nworld\n")
    assert only.tags is None
    assert only.text == "Hello world"


def test_mixed_languages_and_marks(tmp_path: Path) -> None:
    words = ["我", "爱", "café", "New", "York", "👩\u200d🚀", "！"]
    (found,) = read(tmp_path / "a.txt", "".join(f"{word}\tO\n" for word in words))
    assert found.text == "我爱café New York 👩\u200d🚀！"
    assert in_text(found) == words


CONLLU = """# sent_id = 1
# text = I don't  go.
1\tI\tI\tPRON\tPRP\t_\t3\tx\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t3\tx\t_\t_
3\tn't\tnot\tPART\tRB\t_\t3\tx\t_\t_
3.1\tnot\tnot\tX\tX\t_\t_\t_\t_\t_
4\tgo\tgo\tVERB\tVB\t_\t0\tx\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t3\tx\t_\t_

# no text here
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tde\tde\tADP\tA\t_\t3\tx\t_\t_
2\tle\tle\tDET\tD\t_\t3\tx\t_\t_
3\t同样\t同样\tADV\tRB\t_\t3\tx\t_\tSpaceAfter=No|X=y
4\tend\tend\tNOUN\tN\t_\t3\tx\t_\t_
"""


def test_conllu(tmp_path: Path) -> None:
    first, second = read(tmp_path / "a.conllu", CONLLU)
    assert first.words == ["I", "do", "n't", "go", "."]
    assert first.tags == ["PRON", "AUX", "PART", "VERB", "PUNCT"]
    assert first.text == "I don't  go."
    assert in_text(first) == first.words
    assert second.text == "du同样end"
    assert in_text(second) == ["du", "du", "同样", "end"]  # not spelled so: the whole surface
    assert read(tmp_path / "a.conllu", CONLLU, columns=TagColumns(tag="xpos"))[0].tags == "PRP VBP RB VB .".split()
    with pytest.raises(FirthError, match="CoNLL-U has no tag column 'deprel'; choose upos or xpos"):
        read(tmp_path / "a.conllu", CONLLU, columns=TagColumns(tag="deprel"))
    with pytest.raises(FirthError, match=r"a\.conllu:2: 3 columns where CoNLL-U has 10"):
        read(tmp_path / "a.conllu", "# text = x\n1\tx\ty\n", layout="conllu")


def test_a_text_that_is_not_the_words(tmp_path: Path) -> None:
    line = "1\t{}\tx\tX\tX\t_\t0\tx\t_\t_\n"
    (found,) = read(tmp_path / "a.conllu", "# text = quite other\n" + line.format("one") + line.format("two"))
    assert found.text == "one two"
    assert in_text(found) == ["one", "two"]


def test_slashes(tmp_path: Path) -> None:
    data = "[中央/n  电台/n]nt  报道/v  １/２/m  [/w  x/y/z\n\n好/a\n"
    first, second = read(tmp_path / "a.txt", data)
    assert first.words == ["中央", "电台", "报道", "１/２", "[", "x/y"]
    assert first.tags == ["n", "n", "v", "m", "w", "z"]
    assert second.where.endswith("a.txt:3")
    with pytest.raises(FirthError, match=r"a\.txt:1: 'go' has no tag after a slash"):
        read(tmp_path / "a.txt", "I/P go home/N", layout="slashes")


def test_jsonl(tmp_path: Path) -> None:
    data = json.dumps({"tokens": ["a", "b"], "ner_tags": [0, 3]}) + "\n" + json.dumps({"words": ["c"]})
    first, second = read(tmp_path / "a.jsonl", data)
    assert first.tags == ["0", "3"]
    assert second.tags is None
    with pytest.raises(FirthError, match=r"a\.jsonl:1: no list of words"):
        read(tmp_path / "a.jsonl", '{"text": "x"}')
    with pytest.raises(FirthError, match="'tags' is not a list but str"):
        read(tmp_path / "a.jsonl", '{"words": ["x"], "tags": "O"}')


def test_bad_columns(tmp_path: Path) -> None:
    with pytest.raises(FirthError, match=r"a:2: 1 columns where the first word has 2: words and tags do not align"):
        read(tmp_path / "a", "Hello O\nworld\n")
    for columns in (TagColumns(word=5), TagColumns(tag=3), TagColumns(tag=-3), TagColumns(word=-5)):
        with pytest.raises(FirthError, match="no such column: there are 2"):
            read(tmp_path / "a", "Hello O\n", columns=columns)
    with pytest.raises(FirthError, match="there is no column 0"):
        read(tmp_path / "a", "Hello O\n", columns=TagColumns(tag=0))
    with pytest.raises(FirthError, match="no such column: there are 1"):
        read(tmp_path / "a", "Hello\n", columns=TagColumns(tag=4))
    for columns in (TagColumns(tag="upos"), TagColumns(word="token")):
        with pytest.raises(FirthError, match="work for CoNLL-U and jsonl"):
            read(tmp_path / "a", "Hello O\n", columns=columns)
    with pytest.raises(FirthError, match="unknown tag layout 'xml'"):
        read(tmp_path / "a", "Hello O\n", layout="xml")


def test_fields_by_name(tmp_path: Path) -> None:
    line = '{"tokens": ["A", "b"], "forms": ["C", "\\ud800"], "ner_tags": ["O", "O"], "pos_tags": ["D", "N"]}\n'
    assert read(tmp_path / "a.jsonl", line)[0].tags == ["O", "O"]
    found = read(tmp_path / "a.jsonl", line, columns=TagColumns(word="forms", tag="pos_tags"))[0]
    assert (found.words, found.tags) == (["C", "\ufffd"], ["D", "N"])
    with pytest.raises(FirthError, match=r"a\.jsonl:1: no list 'pos_tag' of tags: did you mean 'pos_tags'"):
        read(tmp_path / "a.jsonl", line, columns=TagColumns(tag="pos_tag"))
    with pytest.raises(FirthError, match=r"no list of words \(looked for words_\)"):
        read(tmp_path / "a.jsonl", line, columns=TagColumns(word="words_"))
