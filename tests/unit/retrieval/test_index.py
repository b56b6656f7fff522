"""A search index: what is found equals what the formulas say, documents come and go, filters, snippets, passages."""

import itertools
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.errors import FirthError
from firth.retrieval import store
from firth.retrieval.exact import WEIGHTS, WeightSample, careful_weight, choose_weight, fuse
from firth.retrieval.passages import cut_passages, num_units
from firth.retrieval.search import SearchIndex
from firth.retrieval.words import terms
from sample_text import english

CHINESE = [
    "北京大学的老师在图书馆里看书。今天天气很好，他们去公园散步。",
    "苹果公司发布了新的手机。价格比去年高。",
    "上海的冬天比北京暖和。很多人喜欢在外滩散步。",
]


def write_rows(path: Path, num: int = 60) -> Path:
    rows = [
        {
            "text": " ".join(english(10 * n + k) for k in range(6)),
            "key": f"d{n}",
            "year": 1990 + n % 7,
            "kind": "ab"[n % 2],
        }
        for n in range(num)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl")


def make(rows: Path, out: Path, **settings: object) -> SearchIndex:
    firth.index(rows, out, **{"id": "key", "passage_size": 40, **settings})  # type: ignore[arg-type]
    return SearchIndex(out, firth.load)


def bm25_twin(passages: list[str], question: str) -> np.ndarray:
    """Σ idf(t) · tf (k₁ + 1) / (tf + k₁ (1 - b + b |d| / mean)), word by word."""
    counts = [Counter(terms(text)) for text in passages]
    lens = [sum(counter.values()) for counter in counts]
    mean, scores = sum(lens) / len(lens), np.zeros(len(passages))
    for word in terms(question):
        found_in = sum(word in counter for counter in counts)
        idf = math.log(1 + (len(passages) - found_in + 0.5) / (found_in + 0.5))
        for place, (counter, size) in enumerate(zip(counts, lens, strict=True)):
            tf = counter[word]
            scores[place] += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * size / mean))
    return scores


def all_passages(index: SearchIndex) -> list[str]:
    return [
        part.passage(number)[2]
        for part in index.refresh().parts
        for number in range(part.num_passages)
        if part.live_P is None or part.live_P[number]
    ]


@pytest.mark.parametrize("changed", [False, True], ids=["fresh", "after deletions and merges"])
def test_bm25_is_the_formula(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool) -> None:
    monkeypatch.setattr("firth.retrieval.build._COMMITTED", 16)
    monkeypatch.setattr(store, "_TOGETHER", 3)
    index = make(rows, tmp_path / "index")
    assert index.record.generation > 3
    if changed:
        firth.index([], tmp_path / "index", delete=["d3", "d11", "d40"])
        more = write_rows(tmp_path / "more.jsonl", 5)
        more.write_text(more.read_text(encoding="utf-8").replace("d1", "e1"), encoding="utf-8")
        firth.index(more, tmp_path / "index", id="key", passage_size=40)
    question = "the old doctor found a broken clock near the river"
    passages = all_passages(index)
    wanted = bm25_twin(passages, question)
    hits = index.search(question, top=1000, passages=True, mode="words")
    assert len(hits) == (wanted > 0).sum()
    np.testing.assert_allclose([hit.words for hit in hits], np.sort(wanted[wanted > 0])[::-1], rtol=1e-5)
    assert {hit.text for hit in hits} == {text for text, score in zip(passages, wanted, strict=True) if score > 0}


def test_documents_come_and_go(rows: Path, tmp_path: Path) -> None:
    index = make(rows, tmp_path / "index")
    assert index.record.num_documents == 60
    assert vars(firth.index(rows, tmp_path / "index", id="key", passage_size=40))["unchanged"] == 60
    changed = rows.read_text(encoding="utf-8").splitlines()
    changed[7] = json.dumps({"text": "A purple zeppelin landed on the roof.", "key": "d7", "year": 2020, "kind": "c"})
    rows.write_text("\n".join([*changed, changed[0].replace("d0", "d60")]) + "\n", encoding="utf-8")
    done = firth.index(rows, tmp_path / "index", id="key", passage_size=40)
    assert (done.added, done.replaced, done.unchanged, done.documents) == (1, 1, 59, 61)
    (hit,) = index.search("purple zeppelin")
    assert (hit.id, hit.fields["year"]) == ("d7", 2020)
    assert hit.text[slice(*hit.best)] == "A purple zeppelin landed on the roof."
    assert [hit.text[start:end] for start, end in hit.marks] == ["purple", "zeppelin"]
    firth.index([], tmp_path / "index", delete="d7")
    assert index.search("purple zeppelin") == []
    with pytest.raises(FirthError, match="no document with the id 'd7'"):
        firth.index([], tmp_path / "index", delete="d7")
    assert firth.index([], tmp_path / "index", delete=str(rows)).documents == 0
    assert index.search("doctor") == []


def test_a_shorter_file_takes_its_documents_along(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("One zebra ran.\nTwo lions slept.\nThree owls flew.\n", encoding="utf-8")
    firth.index(path, tmp_path / "index", layout="line")
    path.write_text("One zebra ran.\nTwo tigers slept.\n", encoding="utf-8")
    done = firth.index(path, tmp_path / "index", layout="line")
    assert (done.unchanged, done.replaced, done.deleted, done.documents) == (1, 1, 1, 2)
    assert [hit.id for hit in firth.search(tmp_path / "index", "tigers")] == [f"{path}:2"]
    assert firth.search(tmp_path / "index", "owls") == []


@pytest.mark.parametrize(
    ("where", "fits"),
    [
        (["year>=1995"], lambda row: row["year"] >= 1995),
        (["year<1992", "kind=b"], lambda row: row["year"] < 1992 and row["kind"] == "b"),
        (["kind!=a"], lambda row: row["kind"] != "a"),
        ({"year": 1993}, lambda row: row["year"] == 1993),
    ],
)
def test_filters(rows: Path, tmp_path: Path, where: object, fits: object) -> None:
    index = make(rows, tmp_path / "index")
    found = {hit.id for hit in index.search("the doctor found a river", top=100, where=where)}  # type: ignore[arg-type]
    every = {hit.id for hit in index.search("the doctor found a river", top=100)}
    lines = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert found == every & {row["key"] for row in lines if fits(row)}  # type: ignore[operator]
    assert found


def test_bad_conditions_and_questions(rows: Path, tmp_path: Path) -> None:
    index = make(rows, tmp_path / "index")
    for where, words in ((["yaer>=3"], "year"), (["year"], "such as year"), (["year>x"], "compares numbers")):
        with pytest.raises(FirthError, match=words):
            index.search("doctor", where=where)
    with pytest.raises(FirthError, match="question is empty"):
        index.search("  ")
    with pytest.raises(FirthError, match="without vectors"):
        index.search("doctor", mode="vectors")
    with pytest.raises(FirthError, match="was made with passage_size 40, not 50"):
        firth.index(rows, tmp_path / "index", id="key", passage_size=50)
    with pytest.raises(FirthError, match="no id in column 'kye'"):
        firth.index(rows, tmp_path / "other", id="kye")
    assert not (tmp_path / "other").exists()
    with pytest.raises(FirthError, match="not a search index"):
        firth.search(tmp_path, "doctor")


def test_chinese_is_segmented(tmp_path: Path) -> None:
    (tmp_path / "zh.txt").write_text("\n".join(CHINESE) + "\n", encoding="utf-8")
    firth.index(tmp_path / "zh.txt", tmp_path / "index", layout="line")
    hit = firth.search(tmp_path / "index", "苹果手机的价格")[0]
    assert hit.text == CHINESE[1]
    assert {hit.text[start:end] for start, end in hit.marks} >= {"苹果", "手机", "价格"}


def test_passages_hold_everything_and_overlap() -> None:
    text = " ".join(english(number) for number in range(60))
    found = cut_passages(text, None, 50, 2)
    assert all(num_units(text[start:end]) <= 50 for start, end in found)
    assert found[0][0] == 0
    assert found[-1][1] == len(text)
    assert all(one[0] < other[0] < one[1] < other[1] for one, other in itertools.pairwise(found))
    assert cut_passages(text, None, 50, 0)[1][0] > cut_passages(text, None, 50, 0)[0][1]
    long = cut_passages("字" * 1000 + " " + "x" * 5000, None, 100, 1)
    assert [long[0], long[-1][1]] == [(0, 100), 6001]
    assert cut_passages("   \n ", None, 10, 1) == []


def test_fusion() -> None:
    found = dict(fuse({5: 8.0, 7: 2.0}, {7: 0.9, 9: 0.5, 5: 0.4}, 0.25))
    assert found == pytest.approx({5: 0.75, 7: 0.75 * 0.25 + 0.25, 9: 0.25 * 0.2})
    assert [number for number, _ in fuse({5: 8.0, 7: 2.0}, {7: 0.9, 9: 0.5}, 0.0)] == [5, 7]
    assert [number for number, _ in fuse({5: 8.0, 7: 2.0}, {7: 0.9, 9: 0.5}, 1.0)] == [7, 9]
    assert fuse({}, {3: 0.1}, 0.5) == [(3, 0.5)]
    assert fuse({}, {}, 0.5) == []


def test_weight_follows_the_better_half() -> None:
    texts = [f"{english(3 * n)} {english(3 * n + 1)} number{n}" for n in range(60)]
    asked = {n: (f"{english(3 * n)} number{n}", texts[n]) for n in range(40)}
    random = np.random.default_rng(0)
    rows = random.standard_normal((60, 16)).astype(np.float32)

    def noise(some: object) -> np.ndarray:
        return random.standard_normal((len(some), 16)).astype(np.float32)  # type: ignore[arg-type]

    assert choose_weight(WeightSample(texts, rows, np.arange(60), asked), noise, noise) <= 0.2
    known = dict(zip(texts, rows, strict=True))
    vague = {n: (f"unknown{n}", texts[n]) for n in range(40)}

    def encode(some: list[str]) -> np.ndarray:
        return np.stack([known[text] if text in known else rows[int(text[7:])] for text in some])

    assert choose_weight(WeightSample(texts, rows, np.arange(60), vague), encode, encode) >= 0.5


def test_careful_weight() -> None:
    random = np.random.default_rng(0)
    peak = np.asarray([1 - abs(weight - 0.5) for weight in WEIGHTS])

    def ranks(scores: np.ndarray, noise: float) -> np.ndarray:
        return scores[:, None] + noise * random.standard_normal((11, 50))

    assert careful_weight(ranks(peak, 0.001)) == 0.5
    assert careful_weight(ranks(np.linspace(0.9, 0.1, 11), 0.01)) == 0.0
    assert careful_weight(ranks(np.linspace(0.1, 0.9, 11), 0.01)) == 1.0
    assert careful_weight(ranks(np.linspace(0.9, 0.5, 11), 0.01)) == 0.2
    assert careful_weight(ranks(np.linspace(0.5, 0.9, 11), 0.01)) == 0.8


def test_rows_keep_their_numbers_when_an_empty_one_is_filled_or_emptied(tmp_path: Path) -> None:
    path, index = tmp_path / "rows.csv", tmp_path / "index"

    def write(*texts: str) -> None:
        path.write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)), encoding="utf-8")

    def ids(word: str) -> list[str]:
        return [hit.id for hit in firth.search(index, word)]

    write("A zebra ran.", "", "Two owls flew.", "Lions slept.")
    assert firth.index(path, index).documents == 3
    assert ids("owls") == [f"{path}#3"]
    write("A zebra ran.", "Tigers ate.", "Two owls flew.", "Lions slept.")
    done = firth.index(path, index)
    assert (done.added, done.replaced, done.unchanged, done.deleted) == (1, 0, 3, 0)
    assert (ids("owls"), ids("tigers")) == ([f"{path}#3"], [f"{path}#2"])
    write("", "Tigers ate.", "Two owls flew.", "Lions slept.", "Bears sat.")
    done = firth.index(path, index)
    assert (done.added, done.unchanged, done.deleted, done.documents) == (1, 3, 1, 4)
    assert (ids("zebra"), ids("bears")) == ([], [f"{path}#5"])
    assert firth.index([], index, delete=f"{path}#3").deleted == 1
    assert ids("owls") == []
    write("", "Tigers ate.")
    assert firth.index(path, index).documents == 1


def test_ids_of_another_layout_go(tmp_path: Path) -> None:
    """And those that older versions gave to rows."""
    path, index = tmp_path / "notes.txt", tmp_path / "index"
    path.write_text("One zebra ran.\n\nTwo lions slept.\n", encoding="utf-8")
    firth.index(path, index, layout="line")
    done = firth.index(path, index, layout="blank")
    assert (done.added, done.deleted, done.documents) == (2, 2, 2)
    assert [hit.id for hit in firth.search(index, "lions")] == [f"{path}#2"]


def test_duplicates_are_named_by_their_rows(tmp_path: Path) -> None:
    rows = [("One zebra.",), ("",), ("Two lions.",), ("One zebra.",)]
    (tmp_path / "a.csv").write_text("评论,n\n" + "".join(f"{text},1\n" for (text,) in rows), encoding="utf-8")
    (tmp_path / "vectors.txt").write_text("one 1 0 0\nzebra 0 1 0\ntwo 0 0 1\nlions 0 1 1\n", encoding="utf-8")
    ((first, second, _),) = firth.duplicates(tmp_path / "a.csv", tmp_path / "vectors.txt", least=0.99)
    assert (first, second) == (f"{tmp_path / 'a.csv'}#1", f"{tmp_path / 'a.csv'}#4")
