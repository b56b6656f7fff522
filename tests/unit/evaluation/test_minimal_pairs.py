"""Minimal pairs by a model whose answers are known, with the floors worked out by hand; and through a run."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.cli.main import main
from firth.core.errors import FirthError
from firth.corpus.format import Corpus
from firth.evaluation.minimal_pairs import evaluate_minimal_pairs, unigram_counts, unigram_log_likelihoods
from firth.models.shared.model import Model
from firth.models.shared.scoring import ScoredText

BIGRAMS = {("a", "dog"): 0.5, ("two", "dogs"): 0.25, ("dog", "barks"): 0.5, ("dogs", "bark"): 0.5}


class Bigrams(Model):
    """log p of a word after the one before it, by a table; 0.01 where it says nothing. Unknown words are all one."""

    kind = "toy"
    score_methods = ("left-to-right",)
    words = frozenset({"a", "two", "dog", "dogs", "bark", "barks"})

    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        found = []
        for text in texts:
            words = [word if word in self.words else "<unk>" for word in text.split()]
            log_probs = np.log([BIGRAMS.get(pair, 0.01) for pair in zip([".", *words], words, strict=False)])
            found.append(ScoredText(words, log_probs, words.count("<unk>")))
        return found


PAIRS = [
    ("dog barks", "dogs barks", "agreement", "verb"),  # right; fewer characters
    ("two dogs bark", "two dogs barks", "agreement", "verb"),  # right; fewer characters
    ("a cat", "a bird", "animals", "noun"),  # the same tokens: a tie, whatever the sums are
    ("bark dogs", "dogs bark", "order", "verb"),  # wrong; the same words in another order: a tie of unigrams
    ("two dogs", "a", "order", "noun"),  # wrong: the longer one has the lower likelihood
]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    rows = [dict(zip(("good", "bad", "set", "phenomenon"), pair, strict=True)) for pair in PAIRS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_shares_by_hand(pairs: Path) -> None:
    events: list[object] = []
    found = evaluate_minimal_pairs(Bigrams(), pairs, progress=events.append)
    # own tokens: dog 1, dogs 6, bark 3, barks 3, two 3, a 3, <unk> 2
    assert [(row["name"], row["pairs"]) for row in found["sets"]] == [("agreement", 2), ("animals", 1), ("order", 2)]
    assert [row["accuracy"] for row in found["sets"]] == [1.0, 0.5, 0.0]
    # "dog" is rarer than "dogs"; "bark" and "barks" are as frequent; the order of words means nothing; two tokens lose
    assert [row["unigram"] for row in found["sets"]] == [0.25, 0.5, 0.25]
    assert [row["fewer_tokens"] for row in found["sets"]] == [0.5, 0.5, 0.25]
    assert [row["fewer_characters"] for row in found["sets"]] == [1.0, 1.0, 0.25]
    assert found["mean"]["accuracy"] == pytest.approx((1.0 + 0.5 + 0.0) / 3)  # not of the pairs: 2.5 / 5
    assert found["mean"]["fewer_characters"] == pytest.approx((1.0 + 1.0 + 0.25) / 3)
    assert [(row["name"], row["pairs"], row["accuracy"]) for row in found["phenomena"]] == [
        ("verb", 3, pytest.approx(2 / 3)),
        ("noun", 2, 0.25),
    ]
    assert found["fields"] == []
    assert (found["ties"], found["tokens"], found["unknown_tokens"]) == (1, 21, 2)
    assert found["method"] == "left-to-right"
    assert found["unigram_from"].startswith("the pairs' own tokens")
    assert events == [{"event": "scored", "pairs": 5, "total": 5}]


def test_the_first_of_each_set(pairs: Path) -> None:
    found = evaluate_minimal_pairs(Bigrams(), pairs, num=1)
    assert [(row["name"], row["pairs"]) for row in found["sets"]] == [("agreement", 1), ("animals", 1), ("order", 1)]


def test_equal_tokens_are_a_tie_however_sums_are_rounded(pairs: Path) -> None:
    class Noisy(Bigrams):
        def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
            found = super().score_texts(texts, method)
            return [ScoredText(one.tokens, one.log_probs + 1e-7 * n, 0) for n, one in enumerate(found)]

    assert evaluate_minimal_pairs(Noisy(), pairs)["sets"][1]["accuracy"] == 0.5


def test_unigrams() -> None:
    """(count + 1) / (all + types + 1): something is left for what was never seen."""
    texts = [ScoredText(["x", "x", "new"], np.zeros(3), 0), ScoredText([], np.zeros(0), 0)]
    found = unigram_log_likelihoods(texts, {"x": 3, "y": 4})
    assert found.tolist() == [pytest.approx(2 * math.log(4 / 10) + math.log(1 / 10)), 0.0]


def test_counts_of_pieces(run_folder: Path, corpus: Corpus) -> None:
    counts, said = unigram_counts(run_folder, [])
    assert str(corpus.folder) in said
    assert sum(counts.values()) == corpus.info.train.tokens
    number = int(corpus.train.tokens[10])
    assert counts[corpus.pieces.token(number)] == (np.asarray(corpus.train.tokens) == number).sum()


def test_counts_of_words(words_folder: Path, tmp_path: Path) -> None:
    """What a run does not know is its unknown word; ELMo, which reads any word, has all of them."""
    settings = {"max_vocab": 20, "embedding_dim": 8, "hidden_dim": 8, "batch_size": 2, "seq_len": 8}
    firth.pretrain("lstm-lm", corpus=words_folder, out=tmp_path / "lstm", steps=1, settings=settings)
    counts, _ = unigram_counts(tmp_path / "lstm", [])
    corpus = Corpus.open(words_folder)
    assert len(counts) == 22
    assert sum(counts.values()) == corpus.info.train.tokens + corpus.info.train.documents  # an end a document
    words = (words_folder / "tokenizer" / "words.txt").read_text().split("\n")[:-1]
    theirs = dict(zip(words, np.fromfile(words_folder / "tokenizer" / "counts.bin", np.int64).tolist(), strict=True))
    assert all(counts[word] == theirs[word] for word in words[:20])
    assert counts["<unk>"] == sum(theirs[word] for word in words[20:])


def test_a_corpus_that_is_gone(run_folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "run"
    moved.mkdir()
    for path in run_folder.iterdir():
        if path.is_file():
            (moved / path.name).write_bytes(path.read_bytes())
    record = json.loads((moved / "firth.json").read_text())
    record["corpus"]["path"] = str(tmp_path / "gone")
    (moved / "firth.json").write_text(json.dumps(record))
    counts, said = unigram_counts(moved, [ScoredText(["x", "y", "x"], np.zeros(3), 0)])
    assert dict(counts) == {"x": 2, "y": 1}
    assert said == f"the pairs' own tokens (the run's corpus is not at {tmp_path / 'gone'})"


def test_evaluate_a_run(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From Python and from the command line alike: the model's own likelihoods decide."""
    good, bad = ["the old doctor sleeps.", "a red boat"], ["the old doctor sleep.", "a boat red"]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{one}\t{other}\n" for one, other in zip(good, bad, strict=True)))
    model = firth.load(run_folder)
    for scoring in ("masked", "masked-word"):
        sides = [[one.log_likelihood for one in model.score_texts(side, scoring)] for side in (good, bad)]
        found = firth.evaluate(run_folder, minimal_pairs=path, scoring=scoring)
        assert found["mean"]["accuracy"] == np.mean([one > other for one, other in zip(*sides, strict=True)])
        assert found["method"] == scoring
    main(["evaluate", str(run_folder), "--minimal-pairs", str(path), "--scoring", "masked-word", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert {name: value for name, value in said.items() if name in found} == found
    main(["evaluate", str(run_folder), "--minimal-pairs", str(path), "--num", "1"])
    told = capsys.readouterr().out
    assert "unigram" in told
    assert "fewer characters" in told
    assert "mean of the sets" in told
    assert "scored by masked;" in told


def test_refused(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("A\tB\n")
    with pytest.raises(FirthError, match=r"does not score texts by 'guess': choose masked or masked-word"):
        firth.evaluate(run_folder, minimal_pairs=path, scoring="guess")
    with pytest.raises(FirthError, match="--corpus and --minimal-pairs measure different things"):
        firth.evaluate(run_folder, "corpus", minimal_pairs=path)
    with pytest.raises(FirthError, match="are for minimal pairs"):
        firth.evaluate(run_folder, num=3)
    path.write_text(f"A\t{'many words ' * 50}\n")
    with pytest.raises(FirthError, match=r"the text 'many words .*' has 402 tokens, more than the model's 48"):
        firth.evaluate(run_folder, minimal_pairs=path)
