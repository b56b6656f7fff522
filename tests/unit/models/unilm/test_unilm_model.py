"""UniLM runs: fine-tuned on pairs they learn to write; generation goes on from a text."""

from pathlib import Path

import pytest

import firth
from firth.cli.main import main
from firth.core.registry import find_run_recipe

SHAPE = ["num_layers=2", "hidden_dim=64", "num_heads=2", "ffn_dim=128", "max_positions=48", "seq_len=40"]
LOOP = ["batch_size=8", "evaluations=1", "checkpoints=1"]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs whose target is the source's words, so that a small model can learn it."""
    folder = tmp_path_factory.mktemp("copies")
    words = "red blue green dog cat bird runs sleeps sings house".split()
    lines = [f"{one} {two}" for one in words for two in words if one != two]
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "b.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    firth.prepare_pairs(
        [folder / "a.txt", folder / "b.txt"], folder / "pairs", tokens="wordpiece", vocab_size=300, heldout=0.1
    )
    (folder / "text.txt").write_text("".join(f"{line}. {line}.\n" for line in lines), encoding="utf-8")
    firth.prepare(
        folder / "text.txt",
        folder / "text",
        tokenizer=folder / "pairs" / "tokenizer",
        layout="line",
        heldout=0.1,
        workers=1,
    )
    return folder


@pytest.mark.slow
def test_fine_tuned_from_a_run_it_writes(copies: Path, tmp_path: Path) -> None:
    config = find_run_recipe("unilm-tiny").override([*SHAPE, *LOOP, "steps=20"])
    base = firth.pretrain(config, corpus=copies / "text", out=tmp_path / "base")
    continued = base.generate("red dog", max_tokens=5, seed=1)[0]
    assert continued.text.startswith("red dog")
    assert len(continued.tokens) <= 5
    with pytest.raises(firth.FirthError, match="48 positions"):
        base.generate("red dog", max_tokens=47)
    several = base.generate_many(["red dog", "a blue cat runs"], max_tokens=5, temperature=0)
    alone = base.generate("red dog", max_tokens=5, temperature=0)[0]
    assert several[0][0].tokens == alone.tokens  # whatever else is in the batch
    assert several[0][0].score == pytest.approx(alone.score, abs=1e-4)
    words = ["red dog", "--max-tokens", "4", "--beams", "2", "--trace", str(tmp_path / "tree.json")]
    main(["generate", str(tmp_path / "base"), *words])
    assert (tmp_path / "tree.json").is_file()

    config = find_run_recipe("unilm-seq2seq").override([*LOOP, "seq_len=40", "steps=250", "learning_rate=3e-3"])
    model = firth.pretrain(config, corpus=copies / "pairs", out=tmp_path / "run", base=tmp_path / "base")
    texts = ["red dog", "the cat", "bird sings", "green house"]
    found = model.translate(texts, beams=3, max_tokens=8)
    assert found[0] == "red dog"
    assert found[2:] == texts[2:]
    assert model.translate("red dog", beams=3, max_tokens=8) == found[:1]  # what else is in the batch changes nothing
    long = "red dog " * 9  # 18 words and 20 more to write are over the 37 that rows of training hold
    assert model.translate(f"{long} blue", max_tokens=20) == model.translate(f"{long} green house", max_tokens=20)
    several = model.translations("red dog", beams=4, nbest=2, max_tokens=8)[0]
    assert len(several) == 2
    assert several[0].normalised >= several[1].normalised
    scores = firth.evaluate(tmp_path / "run")
    assert scores["bleu"] > 50 or scores["chrf"] > 60
    with pytest.raises(firth.FirthError, match="leaves no room"):
        model.translate("red dog", max_tokens=46)
    with pytest.raises(firth.FirthError, match="without the setting 'copy_unknown'"):
        model.translations("red dog", copy_unknown=True)


@pytest.mark.slow
def test_with_rotary_positions_it_writes_too(copies: Path, tmp_path: Path) -> None:
    rotary = ["positions=rotary", "norm_first=true", "steps=150", "learning_rate=3e-3"]
    config = find_run_recipe("unilm-seq2seq").override([*SHAPE, *LOOP, *rotary])
    model = firth.pretrain(config, corpus=copies / "pairs", out=tmp_path / "run")
    texts = ["red dog", "bird sings", "green house"]
    assert model.translate(texts, beams=3, max_tokens=8) == texts
    assert model.generate("red dog", max_tokens=3, seed=1)[0].text.startswith("red dog")
    relative = find_run_recipe("unilm-seq2seq").override([*SHAPE, *LOOP, "positions=relative", "steps=1"])
    with pytest.raises(firth.FirthError, match="learned or rotary positions"):
        firth.pretrain(relative, corpus=copies / "pairs", out=tmp_path / "other")


def test_what_cannot_be(copies: Path, run_folder: Path, tmp_path: Path) -> None:
    config = find_run_recipe("unilm-seq2seq").override([*SHAPE, *LOOP, "steps=1", "num_segments=2"])
    with pytest.raises(firth.FirthError, match="6 segments"):
        firth.pretrain(config, corpus=copies / "pairs", out=tmp_path / "run")
    with pytest.raises(firth.FirthError, match="not a corpus of sentence pairs"):
        firth.pretrain("unilm-seq2seq", corpus=copies / "text", out=tmp_path / "run", steps=1)
    with pytest.raises(firth.FirthError, match="cannot translate"):
        firth.load(run_folder).translate("a")
