"""What models say of themselves: what they can do, and a line for people."""

import re
from pathlib import Path

import numpy as np
import pytest

import firth
from firth.core.types import TextReader
from firth.models.seq2seq.config import Seq2SeqConfig
from firth.models.seq2seq.network import Seq2Seq
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder import PairHead
from firth.models.shared.encoder_decoder import EncoderDecoder, TranslationNetwork
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.model import ABILITIES, Attention, AttentionMaps, Model, TextLayers
from firth.models.shared.static import ScratchModel, StaticModel
from firth.models.shared.translation_model import TranslationModel
from firth.models.unilm.model import UnilmModel
from firth.tasks.config import TaskConfig, WritingConfig
from firth.tasks.model import build_model
from firth.tasks.write.model import WritingModel
from firth.tokenizers.pieces import Pieces
from firth.vectors.word_vectors import WordVectors
from model_abilities import METHODS

ANY = ["encode", "layers", "map", "context"]


@pytest.fixture
def bert(run_folder: Path) -> EncoderModel:
    model = firth.load(run_folder)
    assert isinstance(model, EncoderModel)
    return model


@pytest.fixture
def static() -> StaticModel:
    return StaticModel(WordVectors(["dog", "bird"], np.eye(2, 3, dtype=np.float32)))


def translator(pieces: Pieces, **settings: str) -> TranslationModel:
    sizes = {"vocab_size": pieces.vocab_size, "hidden_dim": 16, **settings}
    if settings:
        network: TranslationNetwork = Seq2Seq(Seq2SeqConfig.build(sizes, "test"))
    else:
        shape = {**sizes, "num_layers": 1, "num_heads": 2, "ffn_dim": 16}
        network = EncoderDecoder(EncoderDecoderConfig.build(shape, "test"))
    ids = {"start_id": 0, "eos_id": 1}
    return TranslationModel(network, dict(network.state_dict()), ids, pieces, pieces, ["en", "de"], Path("here"))


def test_of_an_encoder_those_of_its_heads(bert: EncoderModel) -> None:
    bert.pair_head = PairHead(bert.dim)
    assert bert.abilities == ["encode", "fill", "follows", "layers", "map", "context", "attention", "tokens"]
    bert.pair_head = None
    assert bert.abilities == ["encode", "fill", "layers", "map", "context", "attention", "tokens"]
    bert.token_head = None
    assert "fill" not in bert.abilities


def test_a_unified_encoder_writes_if_it_can_guess(bert: EncoderModel) -> None:
    model = UnilmModel(bert.config, bert.pieces)
    assert model.abilities == ["encode", "layers", "map", "context", "attention", "tokens"]
    model.token_head = bert.token_head
    assert {"fill", "generate", "translate"} <= set(model.abilities)


def test_of_tables(static: StaticModel) -> None:
    assert static.abilities == ["encode", "nearest", "analogy", "layers", "map", "context", "tokens"]
    assert ScratchModel(["dog"], 3).abilities == []


def test_of_translators(bert: EncoderModel) -> None:
    pieces = bert.pieces
    assert translator(pieces).abilities == [
        "encode",
        "translate",
        "layers",
        "map",
        "context",
        "attention",
        "alignment",
        "tokens",
    ]
    assert translator(pieces, attention="dot").abilities == [
        "encode",
        "translate",
        "layers",
        "map",
        "context",
        "alignment",
        "tokens",
    ]
    assert translator(pieces, attention="none").abilities == [
        "encode",
        "translate",
        "layers",
        "map",
        "context",
        "tokens",
    ]


def test_of_tasks_those_of_their_base(bert: EncoderModel, static: StaticModel) -> None:
    config = TaskConfig(task="classify", labels=("no", "yes"))
    assert build_model(config, bert, False).abilities == [
        "encode",
        "predict",
        "layers",
        "map",
        "context",
        "attention",
        "tokens",
    ]
    assert build_model(config, static, False).abilities == ["encode", "predict", "layers", "map", "context", "tokens"]
    assert build_model(config, ScratchModel(["dog"], 3), False).abilities == ["predict"]
    facts = build_model(config, bert, False).describe()
    assert (facts.kind, facts.task, facts.labels) == ("classify on encoder", "classify", ("no", "yes"))


def test_of_a_task_that_is_written(bert: EncoderModel) -> None:
    base = UnilmModel(bert.config, bert.pieces)
    base.token_head = bert.token_head
    plain = WritingModel(WritingConfig(form="text"), base)
    assert plain.abilities == ["encode", "fill", "translate", "layers", "map", "context"]
    assert plain.describe().task is None
    classify = WritingModel(WritingConfig(form="classify", labels=("no", "yes")), base)
    assert set(classify.abilities) == {*plain.abilities, "predict"}
    assert classify.describe().kind == "writer on unified encoder"


def test_who_says_so_has_a_method_for_it(bert: EncoderModel, static: StaticModel) -> None:
    for model in (bert, static, translator(bert.pieces)):
        assert set(model.abilities) <= set(ABILITIES)
        for ability in set(model.abilities) - {"tokens"}:  # all models have this one that have a tokenizer
            name = METHODS.get(ability, ability)
            assert getattr(type(model), name) is not getattr(Model, name), (model.kind, ability)


def test_a_new_model_has_what_all_have() -> None:
    class New(Model):
        def reader(self) -> TextReader:
            raise NotImplementedError

    assert New().abilities == ANY
    assert repr(New()) == "<model, 0 dimensions, 0 parameters>"


def test_models_in_a_line(bert: EncoderModel, static: StaticModel, run_folder: Path, tmp_path: Path) -> None:
    size = bert.num_parameters
    shown = f"<bert: encoder, 2 layers x 32, {size / 1000:.1f}k parameters, vocabulary of {bert.pieces.vocab_size:,}, Latin, "
    assert size >= 10_000
    assert repr(bert) == f"{shown}from {run_folder}>"
    assert repr(static) == "<word2vec: static vectors, 3 dimensions, 6 parameters, vocabulary of 2, Latin>"
    assert re.fullmatch(r"<transformer: translator, 1 layers x 16, .*, en-de>", repr(translator(bert.pieces)))
    task = repr(build_model(TaskConfig(task="score"), bert, False))
    assert task.startswith("<bert: score on encoder, 2 layers x 32, ")


def test_arrays_are_not_printed() -> None:
    tokens = [str(number) for number in range(10)]
    offsets, words = np.zeros((10, 2), np.int64), np.arange(10)
    layers = TextLayers(tokens, offsets, words, np.zeros((3, 10, 4), np.float32))
    assert repr(layers) == "<layers of 10 tokens [0 1 2 3 4 5 6 7 ...]: 3 x 10 x 4>"
    weights = np.zeros((2, 5, 3, 3), np.float32)
    assert repr(Attention(tokens[:3], offsets, weights)) == "<attention of 3 tokens [0 1 2]: 2 layers, 5 heads, 3 x 3>"
    maps = AttentionMaps(tokens[:3], offsets, weights, tokens[:2], np.zeros((2, 5, 2, 3), np.float32), None)
    assert repr(maps) == "<attention of 3 tokens [0 1 2] by 2 tokens [0 1]: 2 layers, 5 heads, 2 x 3>"


def test_what_is_loaded_is_named_by_its_spec(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("2 3\ndog 1 0 0\nbird 0 1 0\n")
    found = firth.load(tmp_path / "vectors.txt")
    assert (found.spec_name, found.path) == ("word2vec", tmp_path / "vectors.txt")
    assert firth.load(run_folder).spec.name == "bert"
