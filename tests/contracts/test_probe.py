"""``firth probe`` on every generation: a table, its files, and a sentence where something is missing or wrong."""

import json
from pathlib import Path

import pytest

import firth
from firth.cli.main import main
from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe

SENTENCES = [
    ("The old doctor found a clock .", "DET ADJ NOUN VERB DET NOUN PUNCT"),
    ("Anna sold the clock .", "PROPN VERB DET NOUN PUNCT"),
    ("A broken clock slept .", "DET ADJ NOUN VERB PUNCT"),
    ("The doctor saw the old river .", "DET NOUN VERB DET ADJ NOUN PUNCT"),
]
SENSES = """<corpus><lexelt item="clock.n">{}</lexelt></corpus>"""
SENSE = (
    '<instance id="c{0}"><answer instance="c{0}" senseid="{1}"/><context>{2} <head>clock</head> .</context></instance>'
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe_data")
    lines = []
    for _ in range(6):
        for words, tags in SENTENCES:
            for number, (word, tag) in enumerate(zip(words.split(), tags.split(), strict=True), 1):
                lines.append("\t".join([str(number), word, "_", tag, "_", "_", "0", "_", "_", "_"]))
            lines.append("")
    (folder / "tags.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    marked = "".join(
        SENSE.format(number, ("time", "blow")[number % 2], ("The old doctor sold the", "She saw a river")[number % 2])
        for number in range(12)
    )
    (folder / "senses.xml").write_text(SENSES.format(marked), encoding="utf-8")
    (folder / "texts.txt").write_text("The old doctor found a clock. Anna sold it.\n" * 3, encoding="utf-8")
    (folder / "pairs.txt").write_text("dog cat 3\nold new 7\ndog tree 1\n", encoding="utf-8")
    (folder / "questions.txt").write_text(": one\ndog cat old new\n", encoding="utf-8")
    (folder / "vectors.txt").write_text("5 2\ndog 1 0\ncat 1 0.2\nold 0 1\nnew 0.1 1\ntree -1 0\n", encoding="utf-8")
    return folder


def rows_of(found: dict[str, object]) -> dict[str, dict[str, object]]:
    return {row["name"].strip(): row for row in found["rows"]}  # type: ignore[attr-defined]


def test_an_encoder(run_folder: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(run_folder), "--pos", str(data / "tags.conllu"), "--senses", str(data / "senses.xml")]
    main(["probe", *words, "--texts", str(data / "texts.txt"), "--json"])
    found = json.loads(capsys.readouterr().out)
    rows = rows_of(found)
    accuracy = rows["part of speech: accuracy"]
    assert len(accuracy["layers"]) == 3
    assert accuracy["reference"].keys() == {"majority", "tag of the word"}
    assert found["tags"]["selectivity"] == pytest.approx(
        [a - c for a, c in zip(found["tags"]["accuracy"], found["tags"]["control"], strict=True)]
    )
    assert rows["senses: F1"]["reference"].keys() == {"first sense"}
    assert found["senses"]["num_train"] == 10
    assert found["senses"]["num_test"] == 2
    assert rows["pseudo perplexity"]["reference"]["all"] > 1
    assert rows["attention: distance in tokens"]["layers"][0] is None
    assert len(found["attention"]["entropy"]) == 2
    report = Path(found["report"])
    assert report == run_folder / "probe" / "report.html"
    page = report.read_text(encoding="utf-8")
    assert page.count("<svg") == 7  # the sign of the page, and what is drawn; lines wide and narrow
    assert "http" not in page
    assert json.loads((run_folder / "probe" / "probe.json").read_text(encoding="utf-8"))["rows"] == found["rows"]
    main(["probe", *words, "--texts", str(data / "texts.txt")])
    shown = capsys.readouterr().out
    assert "tag of the word" in shown
    assert "report: " in shown
    again = firth.probe(run_folder, pos=data / "tags.conllu", senses=data / "senses.xml", texts=data / "texts.txt")
    assert again["rows"] == found["rows"]  # the same every time


def test_without_data_it_says_what_to_give(gpt_folder: Path, tmp_path: Path) -> None:
    found = firth.probe(gpt_folder, out=tmp_path / "here")
    assert (tmp_path / "here" / "report.html").is_file()
    notes = "\n".join(found["notes"])
    assert "part of speech: give sentences with tags by --pos FILE" in notes
    assert "for a real measurement give --senses" in notes
    rows = rows_of(found)
    assert rows["senses: F1"]["reference"]["first sense"] == 0.5
    assert {"perplexity per token", "perplexity per word", "perplexity per character"} <= rows.keys()
    assert found["attention"]["after"] == [[0.0, 0.0], [0.0, 0.0]]
    assert firth.probe(firth.load(gpt_folder), language="zh")["senses"]["num_test"] == 32


def test_static_vectors(data: Path) -> None:
    found = firth.probe(
        data / "vectors.txt",
        similarity=[data / "pairs.txt"],
        analogies=[data / "questions.txt"],
        pos=data / "tags.conllu",
    )
    assert "report" not in found  # nothing is written beside a file
    rows = rows_of(found)
    assert rows["similarity, Spearman: pairs.txt"]["layers"] == [1.0]
    assert "analogies: questions.txt" in rows
    assert len(rows["part of speech: accuracy"]["layers"]) == 1
    notes = "\n".join(found["notes"])
    assert "attention: this model (static vectors) cannot show attention" in notes
    assert "gives words no probability" in notes


def test_a_translator_and_elmo(pairs_folder: Path, words_folder: Path, tmp_path: Path) -> None:
    """The encoder of a translator is asked, without translating; ELMo has no attention and no perplexity."""
    small = ["num_layers=2", "num_decoder_layers=2", "hidden_dim=32", "num_heads=2", "ffn_dim=48", "batch_tokens=256"]
    config = find_run_recipe("transformer-tiny").override([*small, "steps=4", "checkpoints=2"])
    found = firth.probe(firth.pretrain(config, corpus=pairs_folder, out=tmp_path / "mt"), num_texts=5)
    assert len(found["attention"]["distance"]) == 2
    assert found["senses"]["num_test"] == 48
    elmo = ["projection_dim=8", "cell_dim=16", "max_vocab=200", "num_samples=20", "steps=2", "batch_size=4"]
    config = find_run_recipe("elmo-tiny").override(elmo)
    found = firth.probe(firth.pretrain(config, corpus=words_folder, out=tmp_path / "elmo"), num_texts=5)
    assert len(found["senses"]["f1"]) == 3
    notes = "\n".join(found["notes"])
    assert "perplexity: this model (bidirectional language model) gives words no probability" in notes
    assert "attention: this model (bidirectional language model) cannot show attention" in notes


def test_what_is_refused(run_folder: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("just\nwords\n", encoding="utf-8")
    with pytest.raises(FirthError, match="words without tags"):
        firth.probe(run_folder, pos=tmp_path / "plain.txt")
    (tmp_path / "few.txt").write_text("a X\n\nb Y\n", encoding="utf-8")
    with pytest.raises(FirthError, match="2 sentences are too few to hold some out; give a test file too"):
        firth.probe(run_folder, pos=tmp_path / "few.txt")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sense'"):
        firth.probe(run_folder, sense="x")  # type: ignore[call-arg]
    with pytest.raises(FirthError, match="language"):
        firth.probe(run_folder, language="fr")
    with pytest.raises(FirthError, match="no such run or model"):
        firth.probe(tmp_path / "none")
    found = firth.probe(run_folder, similarity=data / "pairs.txt", out=tmp_path)
    assert any("similarity and analogy files are for static vectors" in note for note in found["notes"])
