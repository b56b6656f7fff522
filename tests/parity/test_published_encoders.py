"""Published encoders: tokens, every layer, guesses and heads as transformers computes them, written again and exported."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForMaskedLM, AutoTokenizer

import firth
from firth.core.errors import FirthError
from firth.core.types import Inputs
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.published import load_encoder, save_encoder
from firth.tasks.model import TaskModel
from firth.tokenizers.pieces import Pieces
from published_models import MIXED, PAIR, SETTINGS, write_model, write_tokenizer

TYPES = list(SETTINGS)


@pytest.fixture(scope="module", params=TYPES)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / request.param
    write_model(folder, request.param)
    return folder


def test_tokens(directory: Path) -> None:
    ours, theirs = Pieces.load(directory), AutoTokenizer.from_pretrained(directory)
    for text in MIXED:
        assert ours.encode(text, read_special=False).ids.tolist() == theirs(text)["input_ids"], text
    assert ours.encode(*PAIR).ids.tolist() == theirs(*PAIR)["input_ids"]
    masked = f"The old{theirs.mask_token} found it."
    assert ours.encode(masked).ids.tolist() == theirs(masked)["input_ids"]
    ids = (ours.pad_id, ours.cls_id, ours.sep_id, ours.mask_id)
    assert ids == (theirs.pad_token_id, theirs.cls_token_id, theirs.sep_token_id, theirs.mask_token_id)


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_a_mask_takes_the_space_before_it(model_type: str, tmp_path: Path) -> None:
    """As those models were trained, and as their tokenizer.json says; transformers 5 forgets it where there is none."""
    write_tokenizer(tmp_path, model_type)
    pieces = Pieces.load(tmp_path)
    assert pieces.encode("The old <mask> it").ids.tolist() == pieces.encode("The old<mask> it").ids.tolist()


def test_tokens_written_by_transformers(directory: Path, tmp_path: Path) -> None:
    """The newer files of the same tokenizer."""
    theirs = AutoTokenizer.from_pretrained(directory)
    theirs.save_pretrained(tmp_path)
    ours = Pieces.load(tmp_path)
    for text in MIXED:
        assert ours.encode(text, read_special=False).ids.tolist() == theirs(text)["input_ids"], text


@torch.inference_mode()
def test_layers_and_guesses(directory: Path) -> None:
    """Rows of unequal length: every layer at every token, the scores, and each way through the network."""
    ours = firth.load(directory)
    assert isinstance(ours, EncoderModel)
    theirs = AutoModelForMaskedLM.from_pretrained(directory, attn_implementation="eager").eval()
    torch.manual_seed(1)
    ids, mask = torch.randint(5, 400, (3, 50)), torch.ones(3, 50, dtype=torch.long)
    for row, size in ((1, 30), (2, 7)):
        mask[row, size:], ids[row, size:] = 0, ours.pieces.pad_id or 0
    wanted = theirs(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    inputs = Inputs(ids, mask)
    found = ours.encoder(inputs).hidden
    real = mask.bool()
    for layer, hidden in enumerate(wanted.hidden_states):
        assert float((hidden - found[layer])[real].abs().max()) < 1e-4, layer
    assert ours.token_head is not None
    scores = ours.token_head(found[-1], ours.encoder.embeddings.tokens.weight)
    assert float((wanted.logits - scores)[real].abs().max()) < 1e-4
    assert float((ours.encoder.last(inputs) - found[-1])[real].abs().max()) < 1e-5
    picks = torch.tensor([[0, 40], [2, 9], [1, 6]])
    picked = found[-1].gather(1, picks[:, :, None].expand(-1, -1, 32))
    assert float((ours.encoder.picked(inputs, picks) - picked).abs().max()) < 1e-5
    if ours.encoder.can_pack:
        *_, last = ours.encoder.packed(Inputs(ids[real]), mask.sum(1).tolist())
        assert float((last - found[-1][real]).abs().max()) < 1e-5


@torch.inference_mode()
def test_attention(directory: Path) -> None:
    ours = firth.load(directory)
    theirs = AutoModelForMaskedLM.from_pretrained(directory, attn_implementation="eager").eval()
    tokens = AutoTokenizer.from_pretrained(directory)(MIXED[1], return_tensors="pt")
    wanted = theirs(**tokens, output_attentions=True).attentions
    found = ours.attention(MIXED[1]).weights
    for layer, weights in enumerate(wanted):
        np.testing.assert_allclose(found[layer], weights[0].numpy(), atol=1e-5)


def test_used(directory: Path) -> None:
    """Vectors, guesses, two texts, and what it is called."""
    model = firth.load(directory)
    assert model.encode(MIXED).shape == (len(MIXED), 32)
    mask = model.mask_token
    guesses = model.fill(f"The old {mask} found a clock.", top=3)
    assert [len(some) for some in guesses] == [3]
    assert model.attention(*PAIR).weights.shape[:2] == (4, 4)
    assert model.spec_name == {"xlm-roberta": "roberta", "camembert": "roberta", "deberta-v2": "deberta"}.get(
        directory.name, directory.name
    )


@torch.inference_mode()
def test_written_again(directory: Path, tmp_path: Path) -> None:
    """The same directory: transformers reads it and computes the same."""
    config, encoder, heads = load_encoder(directory)
    pieces = Pieces.load(directory)
    save_encoder(tmp_path, config, encoder, heads, pieces.pad_id or 0)
    pieces.save(tmp_path, segments=config.num_segments > 1, max_len=config.max_positions)
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (directory, tmp_path))
    assert (before["model_type"], before["architectures"]) == (after["model_type"], after["architectures"])
    model, info = AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    first = AutoModelForMaskedLM.from_pretrained(directory).eval()
    tokens = AutoTokenizer.from_pretrained(tmp_path)(MIXED[:4], padding=True, return_tensors="pt")
    assert tokens["input_ids"][0].tolist()[:9] == AutoTokenizer.from_pretrained(directory)(MIXED[0])["input_ids"][:9]
    real = tokens["attention_mask"].bool()
    assert float((model.eval()(**tokens).logits - first(**tokens).logits)[real].abs().max()) < 1e-5


def test_exported(directory: Path, tmp_path: Path) -> None:
    record = firth.export(directory, tmp_path / "onnx", to="onnx", verify=True)
    card = (tmp_path / "onnx" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# onnx\n\nA model exported to ONNX, written with Firth")
    assert "| smallest cosine with the original |" in card
    assert record["export"]["verified"]["largest_difference"] < 1e-4


HEADS = ["roberta", "distilbert", "albert", "mpnet", "electra", "deberta-v2"]


@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification", "QuestionAnswering"])
@pytest.mark.parametrize("model_type", HEADS)
@torch.inference_mode()
def test_heads(model_type: str, kind: str, tmp_path: Path) -> None:
    """Tasks that were learned elsewhere, read here and written again."""
    names = {"SequenceClassification": ["bad", "good", "so so"], "TokenClassification": ["O", "B-X", "I-X"]}
    labels = names.get(kind, ["0", "1"])
    theirs = write_model(tmp_path / "a", model_type, f"For{kind}", id2label=dict(enumerate(labels)))
    tokens = AutoTokenizer.from_pretrained(tmp_path / "a")
    for folder in ("a", "b"):
        model = firth.load(tmp_path / folder)
        assert isinstance(model, TaskModel)
        if kind == "SequenceClassification":
            for text in ([MIXED[0]], list(PAIR)) if folder == "a" else ([MIXED[0]],):
                both = model_type in ("albert", "electra")  # transformers 5 leaves out ALBERT's segments unless asked
                batch = tokens(*text, return_tensors="pt", return_token_type_ids=both)
                wanted = theirs(**batch).logits[0].softmax(0)
                found = model.predict([text if len(text) == 2 else text[0]])[0]["probabilities"]
                np.testing.assert_allclose([found[label] for label in labels], wanted.numpy(), atol=1e-5)
        elif kind == "TokenClassification":
            item = model.task.item(model.example(["Where", "is", "it"]), 0)
            scores = model.network.token_scores(model.task.batch([item]).to("cpu").tensors)
            wanted = theirs(**tokens("Where is it", return_tensors="pt")).logits
            assert float((scores - wanted).abs().max()) < 1e-4
        else:
            assert "answer" in model.predict([PAIR])[0]
        assert model.spec_name == model_type.removesuffix("-v2")
        if folder == "a":
            (tmp_path / "b").mkdir()
            model.save(tmp_path / "b", None)
            data = json.loads((tmp_path / "b" / "config.json").read_text())
            assert data["architectures"] == [f"{SETTINGS[model_type][0]}For{kind}"]
            theirs = getattr(transformers, data["architectures"][0]).from_pretrained(tmp_path / "b").eval()


@pytest.mark.parametrize(
    ("model_type", "settings", "said"),
    [
        ("albert", {"num_hidden_groups": 2}, "it reads num_hidden_groups=1"),
        ("deberta-v2", {"share_att_key": False}, "it reads share_att_key=True"),
        ("deberta-v2", {"pos_att_type": ["c2p"]}, "it reads those of version 3"),
        ("roberta", {"is_decoder": True}, "reads from left to right"),
        ("modernbert", {"layer_types": ["sliding_attention"] * 4}, "in an order that Firth does not know"),
        ("longformer", {}, "of type 'longformer', which Firth does not read; it reads .*roberta, xlm-roberta"),
    ],
)
def test_what_is_not_read_is_refused(model_type: str, settings: dict[str, object], said: str, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, model_type if model_type in SETTINGS else "roberta")
    usual = SETTINGS.get(model_type, ("", {}))[1]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, **usual, **settings}))
    with pytest.raises(FirthError, match=said):
        firth.load(tmp_path)
