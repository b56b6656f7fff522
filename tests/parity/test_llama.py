"""Decoders in Llama's shape against transformers: every layer, scores, generation with a cache, both ways on disk."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.models.gpt.config import DecoderConfig
from firth.models.gpt.format import load_decoder, save_decoder
from firth.models.gpt.model import DecoderModel
from firth.models.gpt.network import Decoder
from firth.nn.grouped import rope_frequencies
from firth.tokenizers.pieces import Pieces
from piece_samples import build_pieces
from published_models import MIXED, lines

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, tied, one head of keys": ("Llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "llama 3": ("Llama", {"rope_parameters": LLAMA3}),
    "llama, linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
    "mistral": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("Qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}),
    "qwen3": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
}


def published(name: str, seed: int = 0) -> Any:
    """A model of transformers with random weights, norms and biases included."""
    kind, more = KINDS[name]
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **more})
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


@pytest.fixture(params=KINDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_layer(tmp_path: Path, name: str) -> None:
    model = published(name)
    model.save_pretrained(tmp_path)
    config, weights = load_decoder(tmp_path)
    ours = Decoder(config).eval()
    ours.load_state_dict(weights)
    ids = torch.randint(0, 90, (2, 50))
    with torch.inference_mode():
        theirs = model(ids, output_hidden_states=True)
        mine = ours(Inputs(ids)).hidden
        for layer, expected in enumerate(theirs.hidden_states):
            assert (mine[layer] - expected).abs().max() < 1e-4, layer
        assert (ours.scores(mine[-1]) - theirs.logits).abs().max() < 1e-4
        cache = ours.begin(2)  # token by token, and several at once
        steps = [ours.advance(ids[:, :7], cache), *(ours.advance(ids[:, at : at + 1], cache) for at in range(7, 50))]
        assert (torch.cat(steps, 1) - mine[-1]).abs().max() < 1e-4


def test_attention(name: str, tmp_path: Path) -> None:
    model = published(name)
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    config, weights = load_decoder(tmp_path)
    ours = Decoder(config).eval()
    ours.load_state_dict(weights)
    ids = torch.randint(0, 90, (1, 20))
    with torch.inference_mode():
        expected = torch.stack(model(ids, output_attentions=True).attentions)
        assert (ours.attention(Inputs(ids)) - expected).abs().max() < 1e-5


def test_written_again(tmp_path: Path, name: str) -> None:
    """What is written is the same model for transformers, and the same config for Firth."""
    model = published(name)
    model.save_pretrained(tmp_path / "theirs")
    config, weights = load_decoder(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    save_decoder(tmp_path / "ours", config, weights, 2)
    assert load_decoder(tmp_path / "ours")[0] == config
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    ids = torch.randint(0, 90, (2, 40))
    with torch.inference_mode():
        assert (again(ids).logits - model(ids).logits).abs().max() < 1e-5


def with_tokenizer(folder: Path, name: str = "llama") -> tuple[Any, Pieces]:
    model = published(name)
    model.save_pretrained(folder)
    pieces = build_pieces()
    pieces.save(folder)
    data = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    data |= {"bos_token_id": pieces.eos_id, "eos_token_id": pieces.eos_id}
    (folder / "config.json").write_text(json.dumps(data), encoding="utf-8")
    return model, pieces


def test_greedy_generation(tmp_path: Path) -> None:
    model, pieces = with_tokenizer(tmp_path)
    mine = firth.load(tmp_path)
    assert isinstance(mine, DecoderModel)
    found = mine.generate("the dogs", max_tokens=12, temperature=0, min_tokens=12)[0]
    prompt = torch.tensor([[pieces.eos_id, *pieces.encode("the dogs", add_special=False).ids.tolist()]])
    silent = [[number] for number in (*pieces.special_ids, *range(pieces.vocab_size, 90))]
    with torch.inference_mode():
        out = model.generate(prompt, max_new_tokens=12, do_sample=False, bad_words_ids=silent, pad_token_id=0)
    assert found.tokens == [pieces.token(number) for number in out[0, prompt.shape[1] :].tolist()]


def test_beams_reorder_the_cache(tmp_path: Path) -> None:
    """Hypotheses of a beam share a cache; each scores as if it were read alone."""
    with_tokenizer(tmp_path, "qwen3")
    model = firth.load(tmp_path)
    assert isinstance(model, DecoderModel)
    for one in model.generate("the dogs", max_tokens=8, beams=4, num=4, length_penalty=0.0):
        ids = np.concatenate(
            (model.ids("the dogs"), [model.pieces.id(token) for token in one.tokens], [model.eos_id] * one.finished)
        ).astype(np.int64)
        assert one.score == pytest.approx(model.score_ids(ids)[len(model.ids("the dogs")) :].sum(), abs=1e-3)


def test_frequencies_by_hand() -> None:
    found = rope_frequencies(4, 100.0)
    assert found.tolist() == pytest.approx([1.0, 0.1])

    class Scaling:
        kind, factor, low_freq_factor, high_freq_factor, trained_positions = "llama3", 8.0, 1.0, 4.0, 63

    # 63 positions turn the first pair 63 / 2π = 10.03 times, the second 1.003 times: a hair above the lower limit
    share = (63 * 0.1 / (2 * np.pi) - 1) / 3
    assert rope_frequencies(4, 100.0, Scaling()).tolist() == pytest.approx(
        [1.0, share * 0.1 + (1 - share) * 0.1 / 8], rel=1e-6
    )


def test_a_text_follows_its_own_beginning(tmp_path: Path) -> None:
    """Llama reads texts after <s>, and they end with </s>."""
    model, _ = with_tokenizer(tmp_path)
    data = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(data | {"bos_token_id": 1}), encoding="utf-8")
    mine = firth.load(tmp_path)
    assert isinstance(mine, DecoderModel)
    ids = mine.ids("the dogs barked")
    with torch.inference_mode():
        scores = model(torch.tensor([[1, *ids.tolist()]])).logits[0, :-1, : mine.pieces.vocab_size].log_softmax(-1)
    expected = scores.gather(1, torch.from_numpy(ids)[:, None])[:, 0].numpy()
    assert np.abs(mine.score_ids(ids) - expected).max() < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_bias": True}, "built in a way that Firth does not know .attention_bias"),
        ({"hidden_act": "laplace"}, "activation laplace"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}},
            "type 'yarn'; Firth reads default, linear and llama3",
        ),
        ({"partial_rotary_factor": 0.5}, "does not know .partial_rotary_factor"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "does not know .layer_types"),
        ({"model_type": "mistral", "max_position_embeddings": 8192}, "does not know .sliding_window"),
        ({"num_key_value_heads": 3}, "does not divide num_heads"),
        ({"model_type": "phi"}, "gpt2, llama, mistral, qwen2, qwen3"),
    ],
)
def test_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    published("llama").save_pretrained(tmp_path)
    data = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(data | change), encoding="utf-8")
    with pytest.raises(FirthError, match=message):
        load_decoder(tmp_path)


def test_shapes_that_no_directory_has() -> None:
    with pytest.raises(ValueError, match="positions=rotary goes with norm=rms gated=true bias=false"):
        DecoderConfig(positions="rotary")
    with pytest.raises(ValueError, match="are for positions=rotary"):
        DecoderConfig(num_kv_heads=4)


def test_trained_further_and_fine_tuned(tmp_path: Path, bpe_folder: Path) -> None:
    """A published directory is the base of a training and of a task; both are directories that transformers reads."""
    pieces = Pieces.load(bpe_folder / "tokenizer")
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SHAPE, "vocab_size": pieces.vocab_size})).eval()
    model.save_pretrained(tmp_path / "base")
    pieces.save(tmp_path / "base")
    firth.pretrain(
        "llama-tiny",
        corpus=bpe_folder,
        out=tmp_path / "run",
        base=tmp_path / "base",
        steps=2,
        seq_len=32,
        batch_size=4,
        evaluations=1,
    )
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run").eval()
    trained = firth.load(tmp_path / "run")
    assert isinstance(trained, DecoderModel)
    assert trained.config.num_kv_heads == 2
    assert trained.bos_id == 1 != trained.eos_id  # as the base had it
    ids = torch.from_numpy(trained.ids("The old man found a clock."))[None]
    with torch.inference_mode():
        assert (again(ids).logits - trained.decoder.scores(trained.decoder.last(Inputs(ids)))).abs().max() < 1e-4
    assert not torch.equal(again.lm_head.weight, model.lm_head.weight)
    lines = [{"text": f"good {n}", "label": "yes"} for n in range(8)] + [
        {"text": f"bad {n}", "label": "no"} for n in range(8)
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    firth.finetune("classify", base=tmp_path / "run", train=tmp_path / "train.jsonl", out=tmp_path / "task", epochs=1)
    assert firth.load(tmp_path / "task").predict("good 3")[0]["label"] in ("yes", "no")


def test_tokenizers(tmp_path: Path) -> None:
    """Of Llama (SentencePiece with bytes) and Qwen (bytes): the ids of transformers."""
    import sentencepiece
    from tokenizers import ByteLevelBPETokenizer

    (tmp_path / "text.txt").write_text("\n".join(lines()), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"),
        model_prefix=str(tmp_path / "tokenizer"),
        model_type="bpe",
        vocab_size=700,
        byte_fallback=True,
        character_coverage=0.985,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(lines(), 600, show_progress=False)
    bpe.save_model(str(tmp_path))
    llama = transformers.LlamaTokenizer.from_pretrained(tmp_path)
    qwen = transformers.Qwen2Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    for number, theirs in enumerate((llama, qwen)):
        theirs.save_pretrained(tmp_path / str(number))
        ours = Pieces.load(tmp_path / str(number))
        for text in MIXED:
            found = ours.encode(text, add_special=False, read_special=False).ids.tolist()
            assert found == theirs(text, add_special_tokens=False)["input_ids"], text
        assert ours.eos_id == theirs.eos_token_id
