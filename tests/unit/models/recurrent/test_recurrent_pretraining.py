"""Recurrent language models from a corpus to numbers: words and pieces, perplexities, how far gradients reach."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import firth
from firth.core.errors import FirthError
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.corpus.format import Corpus
from firth.decoding.beam import beam_search
from firth.decoding.steps import continue_prompts
from firth.models.pretrain import configure
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.model import RecurrentModel
from firth.models.recurrent.network import Recurrent
from firth.models.recurrent.objective import gradient_norms
from firth.models.shared.pretraining import find_pretraining
from firth.nn.softmax import TokenOutput

TINY = ["num_layers=1", "hidden_dim=16", "embedding_dim=16", "seq_len=8", "batch_size=4", "evaluations=1", "steps=2"]


def small(name: str, *more: str) -> RunConfig:
    return find_run_recipe(name).override([*TINY, *more])


@pytest.fixture(scope="module")
def word_corpus(text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora") / "words"
    firth.prepare(text_file, folder, tokens="words", layout="line", heldout=0.1, workers=1)
    return folder


@pytest.fixture(scope="module")
def word_run(word_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "words"
    firth.pretrain(small("lstm-lm-nce", "max_vocab=40", "num_noise=32"), corpus=word_corpus, out=folder)
    return folder


def test_words_from_end_to_end(word_run: Path, word_corpus: Path) -> None:
    model = firth.load(word_run)
    assert isinstance(model, RecurrentModel)
    assert model.tokens.vocab_size == 42
    assert (word_run / "words.txt").read_text(encoding="utf-8").startswith("<unk>\n<eos>\n")
    found = firth.evaluate(word_run)
    assert found["perplexity_word"] == pytest.approx(found["perplexity_token"])  # words are the tokens
    assert 1 < found["perplexity_character"] < found["perplexity_word"]
    assert {"log_z_mean", "log_z_spread", "accuracy", "loss"} <= set(found)
    metrics = Run.open(word_run).record.metrics
    assert metrics["perplexity_token"] == pytest.approx(math.exp(metrics["loss"]))
    assert metrics["log_z_spread"] >= 0


def test_perplexities_by_hand(word_run: Path, word_corpus: Path) -> None:
    """The whole held-out text read document by document gives about what streams give, and exactly by hand for one."""
    model = firth.load(word_run)
    assert isinstance(model, RecurrentModel)
    text = "The old doctor found a broken clock."
    scores = model.token_scores(text)
    assert len(scores) == 9  # eight tokens and the end
    assert model.score(text) == pytest.approx(scores.sum())
    found = model.perplexities([text])
    assert found["perplexity_token"] == pytest.approx(math.exp(-scores.sum() / 9))
    assert found["perplexity_word"] == pytest.approx(math.exp(-scores.sum() / 9))
    assert found["perplexity_character"] == pytest.approx(math.exp(-scores.sum() / (len(text) + 1)))
    stepper = model.stepper()
    state = stepper.start(1)
    ids = [model.eos_id, *model.tokens.encode(text).ids.tolist(), model.eos_id]
    with torch.inference_mode():
        for place, number in enumerate(ids[:-1]):
            log_probs, state = stepper.step(torch.tensor([number]), state)
            assert float(log_probs[0, ids[place + 1]]) == pytest.approx(scores[place], abs=1e-4)


def test_other_text_is_read_with_the_words_of_the_model(
    word_run: Path, word_corpus: Path, text_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("".join(f"The doctor sold word{number} near the river.\n" for number in range(60)))
    firth.prepare(other, tmp_path / "other", tokens="words", layout="line", heldout=0.5, workers=1)
    assert firth.evaluate(word_run, corpus=tmp_path / "other")["perplexity_word"] > 1
    firth.prepare(other, tmp_path / "pieces", vocab_size=300, layout="line", heldout=0.5, workers=1)
    with pytest.raises(FirthError, match="a corpus of pieces, which"):
        firth.evaluate(word_run, corpus=tmp_path / "pieces")
    # and gone on with, also after a stop: the words stay those of the model
    config = small("lstm-lm-nce", "num_noise=8", "steps=6", "checkpoints=3")
    firth.pretrain(config, corpus=tmp_path / "other", base=word_run, out=tmp_path / "run")
    assert (tmp_path / "run" / "words.txt").read_bytes() == (word_run / "words.txt").read_bytes()
    run = Run.open(tmp_path / "run")
    wanted = (run.folder / "model.safetensors").read_bytes()
    shutil.rmtree(run.folder / "checkpoints" / "step-6")
    run.save(status="started")
    firth.pretrain(resume=run.folder)
    assert (run.folder / "model.safetensors").read_bytes() == wanted


def test_pieces_go_on_from_a_model(corpus_folder: Path, tmp_path: Path) -> None:
    firth.pretrain(small("gru-lm"), corpus=corpus_folder, out=tmp_path / "one")
    firth.pretrain(small("gru-lm"), corpus=corpus_folder, base=tmp_path / "one", out=tmp_path / "two")
    found = firth.evaluate(tmp_path / "two")
    assert found["perplexity_character"] < found["perplexity_token"] < found["perplexity_word"]


def test_adaptive_and_sampled_outputs(corpus_folder: Path, tmp_path: Path) -> None:
    for name, settings in (("adaptive", ["tied_output=false"]), ("sampled", ["num_noise=50"])):
        firth.pretrain(small("lstm-lm", f"output={name}", *settings), corpus=corpus_folder, out=tmp_path / name)
        model = firth.load(tmp_path / name)
        assert isinstance(model, RecurrentModel)
        log_probs, _ = model.stepper().prefill(torch.tensor([[model.eos_id]]))
        assert float(log_probs.detach().exp().sum()) == pytest.approx(1, abs=1e-4)
    with pytest.raises(FirthError, match=r"set model.tied_output=false"):
        small("lstm-lm", "output=adaptive")
    with pytest.raises(FirthError, match=r"set model.bidirectional=false"):
        small("lstm-lm", "bidirectional=true")


def test_processes_share_out_the_lanes(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a state that is carried each process has its own lanes: together they read the batch of one process."""
    config = configure(small("lstm-lm", "batch_size=4"), corpus)
    whole = find_pretraining(config)(config, corpus).batch(3)
    monkeypatch.setenv("WORLD_SIZE", "2")
    config = configure(small("lstm-lm", "batch_size=2"), corpus)
    parts = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        parts.append(find_pretraining(config)(config, corpus).batch(3))
    for name in ("ids", "labels"):
        assert np.array_equal(np.concatenate([part.arrays[name] for part in parts]), whole.arrays[name])
    assert sum(part.num_tokens for part in parts) == whole.num_tokens


def test_report_shows_how_far_gradients_reach(word_run: Path) -> None:
    (chart,) = Run.open(word_run).record.charts
    assert list(chart.series) == ["layer 1"]
    assert [point[0] for point in chart.series["layer 1"]] == list(range(8))
    page = (word_run / "report.html").read_text(encoding="utf-8")
    assert "How far gradients reach back" in page
    assert "firth generate words" in page


def test_gradient_norms_are_autograd_through_time() -> None:
    """Against the product of Jacobians: for h' = tanh(W x + U h), dh'/dh = diag(1 - h'^2) U."""
    torch.manual_seed(0)
    model = Recurrent(
        RecurrentConfig(vocab_size=9, cell="rnn_tanh", embedding_dim=4, hidden_dim=4, num_layers=1)
    ).double()
    head = TokenOutput(4, 9, True).double()
    ids, labels = torch.tensor([[1, 5, 2, 7]]), torch.tensor([3])
    norms = gradient_norms(model, head, ids, labels)
    with torch.no_grad():
        hidden = model.read(ids).hidden_TBD[:, 0]
        table = model.tokens.weight
        probabilities = (hidden[-1] @ table.T).softmax(-1)
        probabilities[3] -= 1
        gradient = probabilities @ table
        layer = model.stack.directions()[0]
        wanted = [float(gradient.norm())]
        for at in (3, 2, 1):
            gradient = (gradient * (1 - hidden[at] ** 2)) @ layer.weight_hidden
            wanted.append(float(gradient.norm()))
    np.testing.assert_allclose(norms[0], wanted[::-1], rtol=1e-5)


def test_simple_networks_forget_and_lstms_remember() -> None:
    """Small recurrent weights make the gradient vanish; an LSTM whose forget gate is open keeps it."""
    torch.manual_seed(0)
    ids, labels = torch.randint(9, (4, 25)), torch.randint(9, (4,))
    falls = {}
    for cell in ("rnn_tanh", "lstm"):
        model = Recurrent(RecurrentConfig(vocab_size=9, cell=cell, embedding_dim=8, hidden_dim=8, num_layers=1))
        layer = model.stack.directions()[0]
        with torch.no_grad():
            layer.weight_hidden *= 0.5
            if cell == "lstm":
                layer.bias[16:24] = 4.0
        norms = gradient_norms(model, TokenOutput(8, 9, True), ids, labels)[0]
        falls[cell] = norms[0] / norms[-1]
    assert falls["rnn_tanh"] < 1e-6
    assert falls["lstm"] > 1e-2


def test_texts_are_continued(word_run: Path) -> None:
    """Through the decoding room: greedy is a beam of one, and prompts may differ in length."""
    model = firth.load(word_run)
    assert isinstance(model, RecurrentModel)
    prompts = [[model.eos_id, 3], [model.eos_id, 4, 5, 6]]
    greedy = continue_prompts(model.stepper(), prompts, 5, model.eos_id)
    alone = continue_prompts(model.stepper(), prompts[1:], 5, model.eos_id)
    assert greedy[1].ids == alone[0].ids
    best = beam_search(model.stepper(), prompts, 5, model.eos_id)
    assert best[0][0].score >= greedy[0].score - 1e-4 or best[0][0].normalised > greedy[0].normalised


def test_encode(word_run: Path) -> None:
    model = firth.load(word_run)
    layers = model.layers("The old doctor found")
    for pool, wanted in (("last", layers.hidden[-1, -1]), ("max", layers.hidden[-1].max(0))):
        np.testing.assert_allclose(model.encode("The old doctor found", pool=pool)[0], wanted, atol=1e-6)
    assert np.isfinite(model.encode(["", "The"])).all()
    with pytest.raises(FirthError, match="unknown pool 'cls'"):
        model.encode("a", pool="cls")
    with pytest.raises(FirthError, match="layer 7 does not exist"):
        model.encode("a", layer=7)


def test_damaged_models_are_refused(word_run: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(word_run, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    words = tmp_path / "run" / "words.txt"
    words.write_text(words.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    with pytest.raises(FirthError, match="43 tokens but the model only 42"):
        firth.load(tmp_path / "run")


def test_a_projected_lstm(corpus_folder: Path, tmp_path: Path) -> None:
    """Trained, written, read, decoded, and looked into like every other cell."""
    config = small("lstm-lm", "cell=lstmp", "cell_dim=24", "cell_clip=2", "projection_clip=1", "weight_drop_prob=0.2")
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    model = firth.load(tmp_path / "run")
    assert isinstance(model, RecurrentModel)
    assert (model.config.num_cells, model.config.projection_clip) == (24, 1)
    assert len(model.generate("The old", max_tokens=4)) == 1
    assert model.encode(["The old doctor."]).shape == (1, 16)
    assert "How far gradients reach back" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_the_finished_model_is_the_average(
    corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firth.training.loop.stopped_improving", lambda losses, latest, patience: len(losses) == 1)
    settings = ["seq_len=8", "learning_rate=1", "steps=6", "evaluations=6", "checkpoints=6", "keep=6"]
    config = small("lstm-lm-awd", *settings)
    firth.pretrain(config, corpus=corpus_folder, out=tmp_path / "run")
    steps = [load_file(tmp_path / "run" / "checkpoints" / f"step-{n}" / "model.safetensors") for n in range(2, 7)]
    found = load_file(tmp_path / "run" / "model.safetensors")
    name = "stack.layers.0.0.weight_hidden"
    wanted = torch.stack([step[f"model.{name}"] for step in steps]).mean(0)
    torch.testing.assert_close(found[f"model.{name}"], wanted)
