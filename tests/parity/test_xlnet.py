"""XLNet directories both ways; both streams, any permutation mask, with and without memory, read both ways."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, XLNetConfig, XLNetLMHeadModel, XLNetModel

import firth
from firth.core.registry import find_run_recipe
from firth.models.xlnet.format import load_xlnet
from firth.models.xlnet.network import TwoStream
from firth.models.xlnet.objective import with_class_last
from firth.tokenizers.pieces import Pieces

TEXTS = ["The old doctor found a broken clock near the river.", "老师看见了一本书。Anna sold 3.5 apples.", "a"]
LENGTH, ROWS, TARGETS, MEMORY = 11, 4, 3, 5


@pytest.fixture(scope="module")
def published(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random XLNet as transformers writes it, with Firth's tokenizer."""
    folder = tmp_path_factory.mktemp("xlnet")
    pieces = Pieces.load(corpus_folder / "tokenizer")
    torch.manual_seed(0)
    model = XLNetLMHeadModel(
        XLNetConfig(vocab_size=pieces.vocab_size, d_model=32, n_layer=3, n_head=4, d_inner=48, mem_len=MEMORY)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    with_class_last(pieces).save(folder)
    return folder


def build(folder: Path) -> tuple[TwoStream, torch.Tensor]:
    config, weights, bias = load_xlnet(folder)
    model = TwoStream(config)
    model.load_state_dict(weights)
    assert bias is not None
    return model.eval(), bias


def close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return float((one - other).abs().max()) < 1e-4


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "both-ways"])
@pytest.mark.parametrize("with_memory", [False, True], ids=["alone", "memory"])
@pytest.mark.parametrize("with_segments", [False, True], ids=["plain", "segments"])
@torch.inference_mode()
def test_any_mask(published: Path, backward: bool, with_memory: bool, with_segments: bool) -> None:
    """``perm_mask`` and ``target_mapping`` at random; every token sees at least one other, as transformers needs."""
    theirs = XLNetLMHeadModel.from_pretrained(published, bi_data=backward).eval()
    ours, bias = build(published)
    draw = torch.Generator().manual_seed(1)
    size = ours.config.vocab_size
    ids = torch.randint(5, size, (ROWS, LENGTH), generator=draw)
    segments = torch.randint(0, 3, (ROWS, LENGTH), generator=draw) if with_segments else None
    seen = torch.rand(ROWS, LENGTH, LENGTH, generator=draw) < 0.5
    seen[:, :, 0] = True
    seen[:, torch.arange(LENGTH), torch.arange(LENGTH)] = False
    seen[:, 0, 1] = True
    picks = torch.stack([torch.randperm(LENGTH, generator=draw)[:TARGETS] for _ in range(ROWS)])
    mapping = torch.nn.functional.one_hot(picks, LENGTH).float()
    memory = torch.randn(3, ROWS, MEMORY, 32, generator=draw) if with_memory else None
    out = theirs(
        input_ids=ids,
        perm_mask=(~seen).float(),
        target_mapping=mapping,
        token_type_ids=segments,
        mems=None if memory is None else [part.transpose(0, 1) for part in memory],
        use_mems=True,
    )
    directions = torch.arange(ROWS) >= ROWS // 2 if backward else None
    hidden, given = ours.predicted(picks, ids, seen, segments, memory, directions)
    assert close(out.logits, torch.nn.functional.linear(hidden, ours.embeddings.tokens.weight, bias))
    for mine, kept in zip(given, out.mems, strict=True):
        assert close(kept.transpose(0, 1), mine[:, -MEMORY:])


@torch.inference_mode()
def same_layers(folder: Path, theirs: torch.nn.Module) -> None:
    ours, tokenizer = firth.load(folder), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt")
        assert inputs["input_ids"][0].tolist() == ours.pieces.encode(text).ids.tolist()
        wanted = theirs(**inputs, output_hidden_states=True).hidden_states
        for layer, (one, other) in enumerate(zip(wanted, ours.layers(text).hidden, strict=True)):
            assert np.abs(one[0].numpy() - other).max() < 1e-4, f"layer {layer}"
    vectors = [ours.encode([text], pool="cls")[0] for text in TEXTS]
    np.testing.assert_allclose(ours.encode(TEXTS, pool="cls"), vectors, atol=1e-5)  # with padding or without
    np.testing.assert_allclose(vectors[0], ours.layers(TEXTS[0]).hidden[-1, -1], atol=1e-5)


def test_firth_reads_transformers(published: Path, tmp_path: Path) -> None:
    same_layers(published, XLNetModel.from_pretrained(published).eval())
    model = XLNetModel.from_pretrained(published).eval()
    model.save_pretrained(tmp_path)
    Pieces.load(published).save(tmp_path)
    with pytest.raises(firth.FirthError, match="no masked-token head"):
        firth.load(tmp_path).fill("a [MASK]")


@pytest.fixture(scope="module")
def xlnet_run(tiny_settings: list[str], corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xlnet") / "run"
    config = find_run_recipe("xlnet-tiny").override([*tiny_settings, "steps=3", "memory_len=8", "max_positions=640"])
    firth.pretrain(config, corpus=corpus_folder, out=folder)
    return folder


@torch.inference_mode()
def test_transformers_reads_a_run(xlnet_run: Path) -> None:
    model, info = XLNetLMHeadModel.from_pretrained(xlnet_run, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    same_layers(xlnet_run, model.eval())
    ours = firth.load(xlnet_run)
    assert load_xlnet(xlnet_run)[0].max_positions == 640  # ours alone
    encoding = ours.pieces.encode("The old [MASK] found it.")
    ids = torch.from_numpy(encoding.ids)[None]
    place = int((ids[0] == ours.pieces.mask_id).nonzero()[0, 0])
    hidden = torch.zeros(1, ids.shape[1], ids.shape[1])
    hidden[:, :, place] = 1.0
    mapping = torch.nn.functional.one_hot(torch.tensor([[place]]), ids.shape[1]).float()
    types = torch.from_numpy(encoding.segments)[None]
    scores = model(input_ids=ids, perm_mask=hidden, target_mapping=mapping, token_type_ids=types).logits[0, 0]
    scores[ours.pieces.special_ids] = -torch.inf
    guess = ours.fill("The old [MASK] found it.", top=1)[0][0]
    assert guess.token == ours.pieces.token(int(scores.argmax()))
    assert abs(guess.probability - float(scores.softmax(-1).max())) < 1e-4
