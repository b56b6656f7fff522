"""A trained T5: spans filled in, the encoder under tasks, going on from its weights, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
import torch

import firth
from firth.core.config import parse_settings
from firth.core.errors import FirthError
from firth.core.registry import find_run_recipe
from firth.core.types import Inputs
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.pretraining import find_pretraining
from firth.models.t5.model import T5Model
from firth.training.optimizer import build_optimizer, set_rate

SHAPE = ["hidden_dim=32", "num_heads=2", "ffn_dim=64", "num_layers=2", "num_decoder_layers=1", "seq_len=32"]
SHAPE += ["batch_size=4", "evaluations=1"]


@pytest.fixture(scope="module")
def run(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("t5") / "run"
    firth.pretrain(
        "t5-tiny", corpus=corpus_folder, out=folder, settings=parse_settings([*SHAPE, "steps=20", "learning_rate=0.01"])
    )
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> T5Model:
    loaded = firth.load(run)
    assert isinstance(loaded, T5Model)
    return loaded


def test_fill(model: T5Model) -> None:
    """Every sentinel gets a span of at least a token, in its place; all else stays as written."""
    text = "The OLD <extra_id_0> found a <extra_id_1> near the river."
    found = model.filled(text, 3)
    assert len(found) == 3
    for one in found:
        assert all(one.spans)
        assert one.text == f"The OLD {one.spans[0]} found a {one.spans[1]} near the river."
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    guesses = model.fill(text, 3)
    assert [[guess.token for guess in some] for some in guesses] == [
        [one.spans[place] for one in found] for place in range(2)
    ]
    assert guesses[0][0].text == found[0].text
    assert guesses[0][0].probability == pytest.approx(np.exp(found[0].score))


def test_masks_are_sentinels(model: T5Model) -> None:
    asked = model.fill("The [MASK] found a [MASK].", 2)
    assert asked == model.fill("The <extra_id_0> found a <extra_id_1>.", 2)


def test_the_score_is_that_of_the_whole_target(model: T5Model) -> None:
    """By one pass over source and target; and no filling of one token is likelier than the first that was found."""
    assert isinstance(model.model, EncoderDecoder)
    pieces, text = model.pieces, "The old <extra_id_0> found a clock."
    best = model.filled(text, 1, beams=pieces.vocab_size, max_span=1)[0]
    source = torch.from_numpy(pieces.encode(text).ids)[None]
    first = pieces.id("<extra_id_0>")
    assert first is not None
    ordinary = [number for number in range(pieces.vocab_size) if number not in pieces.special_ids]
    target = torch.tensor([[model.start_id, first, number] for number in ordinary])
    labels = torch.tensor([[first, number, model.eos_id] for number in ordinary])
    with torch.inference_mode():
        memory = model.model.last(Inputs(source)).expand(len(ordinary), -1, -1)
        scores = model.model.scores(model.model.decode(target, memory)).log_softmax(-1)
    totals = scores.gather(2, labels[:, :, None])[:, :, 0].sum(1)
    assert best.score == pytest.approx(float(totals.max()), abs=1e-4)


def test_what_cannot_be_filled(model: T5Model) -> None:
    with pytest.raises(FirthError, match="there is no <extra_id_0> in 'Nothing"):
        model.fill("Nothing is missing.")
    for text in ("<extra_id_0> and <extra_id_0>", "<extra_id_100>"):
        with pytest.raises(FirthError, match="each of <extra_id_0> to <extra_id_99> can stand in a text once"):
            model.fill(text)


def test_the_encoder_reads_for_tasks(model: T5Model) -> None:
    """Padding changes nothing, the decoder is neither trained nor kept."""
    reader = model.reader()
    ids = torch.randint(5, 300, (2, 9), generator=torch.Generator().manual_seed(0))
    blocks = (torch.arange(9) < torch.tensor([9, 4])[:, None]).long()
    with torch.inference_mode():
        layers = reader.module(Inputs(ids, blocks))
        alone = reader.module(Inputs(ids[1:, :4]))
    assert layers.hidden.shape == (3, 2, 9, 32)
    torch.testing.assert_close(layers.hidden[:, 1, :4], alone.hidden[:, 0], atol=1e-5, rtol=0)
    assert torch.equal(layers.mask, blocks > 0)
    with torch.inference_mode():
        last = reader.module.last(Inputs(ids, blocks))
    torch.testing.assert_close(last, layers.hidden[-1])
    assert not any("decoder" in name for name in reader.module.state_dict())
    empty = reader.module(Inputs(ids, torch.zeros_like(blocks)))
    assert torch.isfinite(empty.hidden).all()


@pytest.mark.parametrize("task", ["classify", "pair", "tag"])
def test_tasks(task: str, run: Path, tmp_path: Path) -> None:
    path = tmp_path / ("train.conll" if task == "tag" else "train.tsv")
    if task == "tag":
        path.write_text("The O\nold O\nAnna B-PER\n\nMr. B-PER\nBrown I-PER\nslept O\n\n" * 4, encoding="utf-8")
    elif task == "pair":
        rows = ["a dog\ta cat\tno", "a boat\ta boat\tyes"] * 6
        path.write_text("text\tsecond\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    else:
        path.write_text("text\tlabel\n" + "the old doctor\ten\n老师看见\tzh\n" * 6, encoding="utf-8")
    name = "tag" if task == "tag" else "classify"
    trained = firth.finetune(name, base=run, train=path, dev=path, out=tmp_path / "task", epochs=1)
    loaded = firth.load(tmp_path / "task")
    texts = {"classify": ["the doctor", "老师"], "pair": [("a dog", "a boat")], "tag": ["The old Anna"]}[task]
    assert loaded.predict(texts) == trained.predict(texts)


def test_going_on(run: Path, corpus_folder: Path, bpe_folder: Path, tmp_path: Path) -> None:
    """With its weights, on the corpus without sentinels; a corpus of other pieces is refused."""
    before = firth.load(run)
    after = firth.pretrain(
        "t5-tiny",
        corpus=corpus_folder,
        out=tmp_path / "on",
        base=run,
        settings=parse_settings(["steps=1", *SHAPE[-3:]]),
    )
    assert isinstance(before, T5Model)
    assert isinstance(after, T5Model)
    assert after.config == before.config
    assert after.pieces.fingerprint == before.pieces.fingerprint
    with pytest.raises(FirthError, match="made with another tokenizer"):
        firth.pretrain("t5-tiny", corpus=bpe_folder, out=tmp_path / "no", base=run, steps=1)
    assert "loss" in firth.evaluate(run, corpus_folder)


def test_a_corpus_without_pieces(words_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FirthError, match="a corpus of words, which has no pieces"):
        firth.pretrain("t5-tiny", corpus=words_folder, out=tmp_path / "run", steps=1)


def test_tables_and_biases_learn_at_rates_of_their_own(corpus: Corpus) -> None:
    config = configure(find_run_recipe("t5-tiny").override([*SHAPE, "learning_rate=0.001"]), corpus)
    family = find_pretraining(config)(config, corpus)
    optimizer = build_optimizer(family.module, config.training, family.rate_factors)
    set_rate(optimizer, 0.001)
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    model = family.model
    assert isinstance(model, EncoderDecoder)
    assert model.encoder_relative is not None
    assert rates[id(model.tokens.weight)] == pytest.approx(0.001 * 32**0.5)
    assert rates[id(model.encoder_relative.weight)] == pytest.approx(0.02)
    assert rates[id(model.encoder_blocks[0].attention.qkv.weight)] == 0.001  # type: ignore[union-attr]
    assert float(model.tokens.weight.detach().std()) == pytest.approx(1, abs=0.05)
    queries, keys = model.encoder_blocks[0].attention.qkv.weight.detach().split(32)[:2]  # type: ignore[union-attr,operator]
    assert float(keys.std()) == pytest.approx(32**-0.5, rel=0.1)
    assert float(queries.std()) == pytest.approx(32**-0.5, rel=0.1)
