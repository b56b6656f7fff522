"""What a trained GPT answers: scores, perplexities, continuations, labels by prompt."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import firth
from firth.cli.main import application, main
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.corpus.format import Corpus, Split
from firth.models.gpt.model import DecoderModel, classify_by_prompt
from firth.tokenizers.words import is_han

TEXT = "The old doctor found a broken clock near the river."


@pytest.fixture(scope="module")
def gpt(gpt_folder: Path) -> DecoderModel:
    loaded = firth.load(gpt_folder)
    assert isinstance(loaded, DecoderModel)
    return loaded


def test_scores_are_sums_over_tokens(gpt: DecoderModel) -> None:
    ids = [gpt.eos_id, *gpt.pieces.encode("The old doctor").ids.tolist(), gpt.eos_id]
    with torch.inference_mode():
        scores = gpt.decoder.scores(gpt.decoder.last(Inputs(torch.tensor([ids]))))[0].log_softmax(-1)
    wanted = sum(float(scores[place, number]) for place, number in enumerate(ids[1:]))
    assert gpt.score("The old doctor") == pytest.approx(wanted, abs=1e-3)


def test_long_texts_are_scored_in_windows(gpt: DecoderModel) -> None:
    """Each token once, after at least half the positions; the first window as if there were no more."""
    ids = gpt.pieces.encode(" ".join([TEXT] * 8)).ids
    most = gpt.config.max_positions
    assert len(ids) > 2 * most
    found = gpt.score_ids(ids)
    np.testing.assert_allclose(found[:most], gpt.score_ids(ids[:most]), atol=1e-4)
    read = np.append(gpt.eos_id, ids[:-1])
    place = most + 1  # in the second window, which begins half a window before its first new token
    with torch.inference_mode():
        hidden = gpt.decoder.last(Inputs(torch.from_numpy(read[most - most // 2 : place + 1])[None]))[0, -1]
        wanted = gpt.decoder.scores(hidden)[: gpt.pieces.vocab_size].log_softmax(-1)[ids[place]]
    assert found[place] == pytest.approx(float(wanted), abs=1e-4)


def test_perplexities_by_hand(gpt: DecoderModel) -> None:
    texts = [TEXT, "An apple!"]
    found = gpt.perplexities(texts)
    total = sum(gpt.score(text) for text in texts)
    num_tokens = sum(len(gpt.pieces.encode(text).ids) + 1 for text in texts)
    assert found["perplexity_token"] == pytest.approx(np.exp(-total / num_tokens))
    assert found["perplexity_word"] == pytest.approx(np.exp(-total / (11 + 3 + 2)))
    assert found["perplexity_character"] == pytest.approx(np.exp(-total / (len(TEXT) + len(texts[1]) + 2)))


def test_evaluate(gpt: DecoderModel, gpt_folder: Path, bpe_folder: Path) -> None:
    found = firth.evaluate(gpt_folder, num_texts=10_000)
    assert {"loss", "accuracy", "perplexity_token", "perplexity_word", "perplexity_character"} <= set(found)
    check_perplexities(found, gpt, Corpus.open(bpe_folder).heldout)


def test_perplexities_of_chinese_in_wordpieces(corpus: Corpus, tmp_path: Path) -> None:
    """Characters are those that people write: the spaces that pieces put between them are none."""
    settings = ["num_layers=1", "hidden_dim=16", "num_heads=2", "ffn_dim=32", "max_positions=48", "seq_len=32"]
    firth.pretrain("gpt-tiny", corpus=corpus.folder, out=tmp_path / "run", steps=1, settings=parse_settings(settings))
    gpt = firth.load(tmp_path / "run")
    assert isinstance(gpt, DecoderModel)
    check_perplexities(firth.evaluate(tmp_path / "run", num_texts=10_000), gpt, corpus.heldout)


def check_perplexities(found: dict[str, Any], gpt: DecoderModel, split: Split) -> None:
    """Against counts over the documents: log-probabilities by ``score_ids``, words where they begin, characters of the text."""
    loss = num_tokens = num_words = num_characters = 0.0
    texts = []
    for first, last in itertools.pairwise(split.document_starts.tolist()):
        ids = np.asarray(split.tokens[first:last], np.int64)
        loss -= gpt.score_ids(np.append(ids, gpt.eos_id)).sum()
        texts.append(gpt.pieces.decode(ids.tolist()))
        num_tokens += len(ids) + 1
        num_words += sum(split.word_starts(first, last)) + 1
        num_characters += len(texts[-1]) + 1
    assert any("老师" in text for text in texts)
    assert not any(
        is_han(a) and b == " " and is_han(c)
        for text in texts
        for a, b, c in zip(text, text[1:], text[2:], strict=False)
    )
    for name, count in {"token": num_tokens, "word": num_words, "character": num_characters}.items():
        assert found[f"perplexity_{name}"] == pytest.approx(np.exp(loss / count), rel=1e-5)


def test_encode(gpt: DecoderModel) -> None:
    layers = gpt.layers(TEXT)
    for pool, wanted in (
        ("mean", layers.hidden[-1].mean(0)),
        ("last", layers.hidden[-1, -1]),
        ("max", layers.hidden[-1].max(0)),
    ):
        np.testing.assert_allclose(gpt.encode([TEXT, "A."], pool=pool)[0], wanted, atol=1e-5)
    long = " ".join([TEXT] * 8)
    np.testing.assert_allclose(gpt.encode(long)[0], gpt.layers(long).hidden[-1].mean(0), atol=1e-5)
    assert gpt.encode("").shape == (1, gpt.dim)
    with pytest.raises(FirthError, match="unknown pool 'cls'"):
        gpt.encode(TEXT, pool="cls")
    with pytest.raises(FirthError, match="layer 9 does not exist"):
        gpt.encode(TEXT, layer=9)


def test_generation_does_not_depend_on_the_batch(gpt: DecoderModel) -> None:
    texts = ["The old", "", "A broken clock near the river found"]
    for settings in (
        {"seed": 4, "num": 2, "temperature": 0.8, "top_k": 30},
        {"beams": 3, "num": 2},
        {"temperature": 0, "no_repeat_ngram": 2},
        {"seed": 1, "max_tokens": 70},  # longer than the model's positions
    ):
        together = gpt.generate_many(texts, **settings)
        for text, found in zip(texts, together, strict=True):
            alone = gpt.generate(text, **settings)
            assert [one.added for one in alone] == [one.added for one in found]
            assert all(one.text == text + one.added for one in found)
    drawn = gpt.generate("The old", num=3, seed=4, temperature=0.8, top_k=30)
    assert [one.added for one in drawn[:2]] == [
        one.added for one in gpt.generate("The old", num=2, seed=4, temperature=0.8, top_k=30)
    ]
    assert len({one.added for one in drawn}) == 3


def test_the_score_of_a_continuation(gpt: DecoderModel) -> None:
    found = gpt.generate("The old", temperature=0, max_tokens=6)[0]
    ids = gpt.pieces.encode("The old").ids.tolist()
    added = [gpt.pieces.id(token) for token in found.tokens] + ([gpt.eos_id] if found.finished else [])
    wanted = gpt.score_ids(np.asarray(ids + added))[len(ids) :].sum()
    assert found.score == pytest.approx(wanted, abs=1e-3)


def test_bad_settings(gpt: DecoderModel, run_folder: Path) -> None:
    for settings, said in (
        ({"num": 5, "beams": 3}, "raise beams or lower num"),
        ({"num": 2, "temperature": 0}, "use beams"),
        ({"top_p": 0}, "top_p"),
        ({"beam": 3}, "did you mean 'beams'"),
    ):
        with pytest.raises(FirthError, match=said):
            gpt.generate("The", **settings)
    with pytest.raises(FirthError, match="cannot continue texts"):
        firth.load(run_folder).generate("The")


EXAMPLES = [("doctor", "good"), ("clock", "so bad"), ("apple", "good")]


def test_labels_by_prompt_are_scores_of_whole_texts(gpt: DecoderModel) -> None:
    template = "{text}: {label}; "
    texts = ["the river", "old"]
    shown = "doctor: good; clock: so bad; apple: good; "
    for text, found in zip(texts, classify_by_prompt(gpt, EXAMPLES, texts, template), strict=True):
        scores = []
        for label in ("good", "so bad"):
            head, answer = gpt.pieces.encode(f"{shown}{text}:").ids, gpt.pieces.encode(f" {label}").ids
            scores.append(gpt.score_ids(np.concatenate((head, answer)))[len(head) :].sum())
        wanted = np.exp(scores) / np.exp(scores).sum()
        assert list(found.probabilities) == ["good", "so bad"]
        np.testing.assert_allclose(list(found.probabilities.values()), wanted, atol=1e-4)
        assert found.label == ("good", "so bad")[int(np.argmax(wanted))]


def test_prompts_that_cannot_be(gpt: DecoderModel, run_folder: Path) -> None:
    for examples, template, said in (
        (EXAMPLES * 9, "{text}: {label}; ", "fewer or shorter examples"),
        (EXAMPLES[:1], "{text}: {label}; ", "at least two"),
        (EXAMPLES, "{label}: {text}; ", "must have"),
    ):
        with pytest.raises(FirthError, match=said):
            classify_by_prompt(gpt, examples, ["old"], template)
    with pytest.raises(FirthError, match="cannot classify by prompt"):
        firth.predict(run_folder, ["old"], examples=EXAMPLES)


def ran(*words: str, given: str | None = None, command: str = "generate") -> str:
    done = CliRunner().invoke(application(), [command, *words], input=given)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command(gpt_folder: Path, work: Path) -> None:
    run = str(gpt_folder)
    assert ran(run, "The old", "--seed", "1").startswith("The old")
    assert ran(run, "The old", "--seed", "1") == ran(run, "The old", "--seed", "1")
    assert ran(run, "The", "--num", "3").count("\n---\n") == 2
    both = json.loads(ran(run, "-", "--json", "--temperature", "0", given="The old\nA clock\n"))
    assert [one["text"] for one in both] == ["The old", "A clock"]
    found = json.loads(ran(run, "The old", "--beams", "3", "--num", "2", "--trace", "tree.json", "--json"))
    (tree,) = json.loads((work / "tree.json").read_text())
    assert tree["text"] == "The old"
    nodes = {node["number"]: node for node in tree["nodes"]}
    best = found[0]["continuations"][0]
    said = [
        node for node in nodes.values() if node["fate"] == "finished" and node["score"] == pytest.approx(best["score"])
    ]
    path = []
    node = said[0]
    while node["parent"]:
        path.append(node["says"])
        node = nodes[node["parent"]]
    path.append(node["says"])
    assert "".join(reversed(path)) == best["added"]


def test_the_command_with_examples(gpt_folder: Path, work: Path) -> None:
    (work / "examples.tsv").write_text("text\tlabel\nthe doctor\tgood\na clock\tbad\n")
    words = (str(gpt_folder), "-", "--examples", "examples.tsv", "--template", "{text}: {label}\\n")
    lines = ran(*words, given="an apple\nthe river\n", command="predict").splitlines()
    found = [json.loads(line) for line in lines]
    assert [one["text"] for one in found] == ["an apple", "the river"]
    for one in found:
        assert one["label"] in ("good", "bad")
        assert set(one["probabilities"]) == {"good", "bad"}
        assert sum(one["probabilities"].values()) == pytest.approx(1)
    shown = [("the doctor", "good"), ("a clock", "bad")]
    again = firth.predict(gpt_folder, ["an apple", "the river"], examples=shown, template="{text}: {label}\n")
    assert found == again


def test_labels_by_prompt_are_scored(gpt: DecoderModel, gpt_folder: Path, work: Path) -> None:
    """As a classifier is, on a labelled file."""
    (work / "examples.tsv").write_text("text\tlabel\nthe doctor\tgood\na clock\tbad\n")
    asked = [("an apple", "good"), ("the river", "bad"), ("old", "bad"), ("a red boat", "good")]
    (work / "dev.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in asked))
    words = ["evaluate", str(gpt_folder), "--data", "dev.tsv", "--examples", "examples.tsv", "--template"]
    done = CliRunner().invoke(application(), [*words, "{text}: {label}\\n", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    shown = [("the doctor", "good"), ("a clock", "bad")]
    guesses = classify_by_prompt(gpt, shown, [text for text, _ in asked], "{text}: {label}\n")
    right = [guess.label == label for guess, (_, label) in zip(guesses, asked, strict=True)]
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert (found["examples"], found["shown"]) == (4, 2)
    assert found["interval"]["low"] <= found["accuracy"] <= found["interval"]["high"]
    plain = CliRunner().invoke(application(), [*words, "{text}: {label}\\n"])
    assert "accuracy, 95 %" in plain.stdout


def test_prompts_and_files_that_do_not_fit(
    gpt_folder: Path, run_folder: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work / "shown.tsv").write_text("text\tlabel\nthe doctor\tgood\na clock\tbad\n")
    (work / "pairs.tsv").write_text("text\tsecond\tlabel\na dog\ta cat\tgood\n")
    (work / "other.tsv").write_text("text\tlabel\na dog\tstrange\n")
    (work / "empty.tsv").write_text("")
    for run, words, said in (
        (gpt_folder, ["--data", "pairs.tsv", "--examples", "shown.tsv"], "pairs.tsv:2: two texts where"),
        (gpt_folder, ["--data", "shown.tsv", "--examples", "pairs.tsv"], "pairs.tsv:2: two texts where"),
        (gpt_folder, ["--data", "other.tsv", "--examples", "shown.tsv"], "'strange' is unknown to these examples"),
        (gpt_folder, ["--data", "empty.tsv", "--examples", "shown.tsv"], "empty.tsv"),
        (gpt_folder, ["--examples", "shown.tsv"], "name that file with --data"),
        (gpt_folder, ["--template", "{text}"], "name these with --examples"),
        (run_folder, ["--data", "shown.tsv", "--examples", "shown.tsv"], "cannot classify by prompt"),
    ):
        with pytest.raises(SystemExit) as left:
            main(["evaluate", str(run), *words])
        assert left.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_mistakes_are_one_sentence(gpt_folder: Path, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "texts.txt").write_text("a dog\n")
    for words, said in (
        (["generate", "The", "--trace", "tree.json"], "set its width"),
        (["generate", "The", "--beams", "2", "--trace", "no/tree.json"], "does not exist"),
        (["generate", "The", "--num", "3", "--beams", "2"], "raise beams or lower num"),
        (["predict", "texts.txt", "--template", "{text}"], "name these with --examples"),
        (["predict", "texts.txt", "--examples", "none.tsv"], "none.tsv"),
    ):
        with pytest.raises(SystemExit) as left:
            main([words[0], str(gpt_folder), *words[1:]])
        assert left.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
