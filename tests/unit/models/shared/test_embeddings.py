"""Token tables that begin with static vectors: what is written into them, that it can be had again, and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import firth
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.corpus.format import Corpus
from firth.models.pretrain import configure
from firth.models.shared.embeddings import PieceVectors, check_start, fill_table, sample_documents, token_tables
from firth.models.shared.pretraining import find_pretraining
from firth.vectors.word_vectors import WordVectors

TABLE = "bert.embeddings.word_embeddings.weight"
STILL = ["learning_rate=1e-9", "steps=1", "evaluations=1", "checkpoints=1"]  # the table as it began


def test_rows_by_hand() -> None:
    """Mean 0, one common scale, twice the table's own; other rows and the table's mean stay."""
    table = nn.Embedding(6, 4)
    nn.init.normal_(table.weight, std=0.02, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        table.weight += torch.tensor([1.0, 0.0, 0.0, 0.0])
    before = table.weight.detach().clone()
    matrix = np.random.default_rng(0).normal(3.0, 2.0, (4, 4)).astype(np.float32)
    assert fill_table(table, ["[PAD]", "b", "a", "no", "d"], WordVectors(["a", "b", "c", "d"], matrix)) == 3
    rows = matrix[[1, 0, 3]]
    deviation = (before - before.mean(0)).std().item()
    wanted = (rows - rows.mean(0)) / np.std(rows - rows.mean(0), ddof=1) * 2 * deviation + before.mean(0).numpy()
    np.testing.assert_allclose(table.weight[[1, 2, 4]].detach().numpy(), wanted, rtol=1e-4, atol=1e-6)
    assert torch.equal(table.weight[[0, 3, 5]], before[[0, 3, 5]])


def test_a_sample_is_whole_documents(corpus: Corpus) -> None:
    split = corpus.train
    whole = {
        bytes(split.tokens[a:b].tobytes())
        for a, b in zip(split.document_starts, split.document_starts[1:], strict=False)
    }
    found = sample_documents(split, corpus.info.train.tokens // 3, seed=1)
    again, other = (sample_documents(split, corpus.info.train.tokens // 3, seed) for seed in (1, 2))
    pairs = list(zip(found.document_starts, found.document_starts[1:], strict=False))
    assert all(bytes(found.tokens[a:b].tobytes()) in whole for a, b in pairs)
    assert corpus.info.train.tokens // 3 <= len(found.tokens) < corpus.info.train.tokens // 2
    np.testing.assert_array_equal(found.tokens, again.tokens)
    assert not np.array_equal(found.tokens[:50], other.tokens[:50])
    assert len(sample_documents(split, 10**9, 1).tokens) == len(split.tokens)


@pytest.mark.slow
def test_pieces_that_stand_together_are_alike(tmp_path: Path) -> None:
    """Two kinds of sentences: the words of one kind are nearer to each other than to those of the other."""
    random = np.random.default_rng(0)
    kinds = [["river", "water", "boat", "fish"], ["clock", "minute", "hour", "watch"]]
    lines = [" ".join(random.choice(kinds[number % 2], 12)) for number in range(400)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    firth.prepare(tmp_path / "text.txt", tmp_path / "corpus", vocab_size=300, layout="line", heldout=0.0, workers=1)
    vectors = PieceVectors(Corpus.open(tmp_path / "corpus"), 16, seed=0, threads=1).train(1_500_000)
    near, far = vectors.similarity("river", "boat"), vectors.similarity("river", "hour")
    assert near > far + 0.3


def pretrain(config: RunConfig, corpus: Path, out: Path, **more: object) -> dict[str, torch.Tensor]:
    firth.pretrain(config, corpus=corpus, out=out, **more)  # type: ignore[arg-type]
    return load_file(out / "model.safetensors")


def test_vectors_of_a_run(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    """word2vec on a corpus of pieces; its rows are those that BERT begins with."""
    firth.pretrain("word2vec-skipgram", corpus=corpus_folder, out=tmp_path / "vectors", dim=32, min_count=1, threads=1)
    vectors = firth.load(tmp_path / "vectors")
    assert "##" in "".join(vectors.layers("unbelievable clocks").tokens)
    config = tiny_config.override([*STILL, f"embeddings={tmp_path / 'vectors'}"])
    table = pretrain(config, corpus_folder, tmp_path / "run")[TABLE]
    pieces = firth.load(tmp_path / "run").pieces
    rows = torch.from_numpy(vectors.vectors.vectors(["the", "river", "clock"]))
    ours = table[[pieces.id(word) for word in ("the", "river", "clock")]]
    torch.testing.assert_close(
        nn.functional.normalize(ours[0] - ours[1], dim=0),
        nn.functional.normalize(rows[0] - rows[1], dim=0),
        atol=1e-4,
        rtol=0,
    )
    assert Run.open(tmp_path / "run").record.embeddings is None


def test_the_same_seed_gives_the_same_table(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    config = tiny_config.override([*STILL, "embeddings=auto"])
    one, two = (pretrain(config, corpus_folder, tmp_path / name)[TABLE] for name in ("one", "two"))
    other = pretrain(config.override(["seed=1"]), corpus_folder, tmp_path / "other")[TABLE]
    plain = pretrain(config.override(["embeddings=none"]), corpus_folder, tmp_path / "plain")[TABLE]
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert float(one.std()) > 1.3 * float(plain.std())
    record = Run.open(tmp_path / "one").record
    assert record.embeddings is not None
    assert record.embeddings.tokens == 10 * Corpus.open(corpus_folder).info.train.tokens
    assert record.seconds > record.embeddings.seconds > 0


class StopAt:
    """Asks to stop at a step of the network, or (0) while vectors are trained."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, event: object) -> None:
        import signal

        if isinstance(event, dict) and event["event"] == "train":
            step = event["step"] if "gradient_norm" in event else 0
            if step == self.step:
                signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
def test_resumed_exactly(
    tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a checkpoint, where it was stopped before the first one, and before the first step."""
    monkeypatch.setattr("firth.training.loop._REPORT_S", 0.0)
    config = tiny_config.override(["embeddings=auto", "optimizer=muon"])
    whole = pretrain(config, corpus_folder, tmp_path / "whole")
    with pytest.raises(Interrupted):
        pretrain(config, corpus_folder, tmp_path / "parts", progress=StopAt(2))
    firth.pretrain(resume=tmp_path / "parts")
    monkeypatch.setattr("firth.models.shared.embeddings._REPORT_S", 0.0)
    with pytest.raises(Interrupted, match="stopped before the first step; go on with: firth pretrain --resume"):
        pretrain(config, corpus_folder, tmp_path / "early", progress=StopAt(0))
    firth.pretrain(resume=tmp_path / "early")
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed" / "checkpoints")
    (tmp_path / "killed" / "model.safetensors").unlink()
    Run.open(tmp_path / "killed").save(status="started")
    firth.pretrain(resume=tmp_path / "killed")
    for name in ("parts", "early", "killed"):
        assert (tmp_path / name / "model.safetensors").read_bytes() == (
            tmp_path / "whole" / "model.safetensors"
        ).read_bytes()
    assert whole


@pytest.mark.slow
def test_a_budget_is_shared(tiny_config: RunConfig, corpus_folder: Path, tmp_path: Path) -> None:
    config = tiny_config.override(["steps=null", "budget=3s", "embeddings=auto", "embeddings_ratio=0.3"])
    pretrain(config, corpus_folder, tmp_path / "run")
    record = Run.open(tmp_path / "run").record
    assert record.embeddings is not None
    assert record.embeddings.rows > 100
    assert record.steps


NAMES = ["bert-tiny", "electra-tiny", "ernie-tiny", "unilm-tiny", "xlnet-tiny", "t5-tiny", "gpt-tiny", "lstm-lm"]


@pytest.mark.parametrize("name", NAMES)
def test_every_token_table(name: str, corpus_folder: Path, bpe_folder: Path) -> None:
    """Rows of the tables of all networks are the tokens that the corpus says."""
    corpus = Corpus.open(bpe_folder if name == "gpt-tiny" else corpus_folder)
    config = configure(find_run_recipe(name).override(["embeddings=auto"]), corpus)
    trainable = find_pretraining(config)(config, corpus)
    check_start(trainable)
    (table,) = token_tables(trainable.model)
    names = trainable.token_names()
    assert len(names) == corpus.info.vocab_size <= table.num_embeddings
    word = corpus.pieces.token(int(corpus.train.tokens[5]))
    vectors = WordVectors([word, "nothing", names[-1]], np.eye(3, table.embedding_dim, dtype=np.float32))
    before = table.weight.detach().clone()
    assert fill_table(table, names, vectors) == 2
    changed = (table.weight.detach() != before).any(1).nonzero().flatten().tolist()
    assert changed == sorted({int(corpus.train.tokens[5]), corpus.info.vocab_size - 1})


def test_words_of_a_recurrent_model(words_folder: Path) -> None:
    corpus = Corpus.open(words_folder)
    config = configure(find_run_recipe("lstm-lm").override(["embeddings=auto"]), corpus)
    trainable = find_pretraining(config)(config, corpus)
    check_start(trainable)
    assert trainable.token_names()[:2] == ["<unk>", "<eos>"]
    assert "river" in trainable.token_names()


def test_what_cannot_be_is_refused(
    tiny_config: RunConfig, corpus_folder: Path, words_folder: Path, pairs_folder: Path, tmp_path: Path
) -> None:
    firth.pretrain("word2vec", corpus=corpus_folder, out=tmp_path / "narrow", dim=8, epochs=1, threads=1)
    firth.pretrain("word2vec", corpus=words_folder, out=tmp_path / "words", dim=32, epochs=1, threads=1)
    for path, message in (
        (tmp_path / "narrow", "the vectors have 8 dimensions, the token table 32; train vectors with dim=32"),
        (tmp_path / "missing", "no such run or file of vectors; write auto, none, or a path"),
    ):
        with pytest.raises(FirthError, match=message):
            pretrain(tiny_config.override([f"embeddings={path}"]), corpus_folder, tmp_path / "run")
    with pytest.raises(FirthError, match="this recipe learns from pairs"):
        pretrain(find_run_recipe("transformer-tiny").override(["embeddings=auto"]), pairs_folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()
