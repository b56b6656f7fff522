"""Tokens added to a published tokenizer that has older files alone: the same as in transformers."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from firth.core.errors import FirthError
from firth.tokenizers.pieces import Pieces
from published_models import write_tokenizer

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "patient", "has", "covid", "##19", "hyper", "##tension"]
TEXTS = ["the patient has Hypertension", "the [DRUG] has hypertension", "hypertensions covid19 [drug]"]


def bert(folder: Path) -> Path:
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    write(folder, "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": "BertTokenizer"})
    return folder


def write(folder: Path, name: str, value: object) -> None:
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def row(content: str, special: bool = False) -> dict[str, object]:
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": not special, "special": special}
    return {"content": content, **flags}


def agree(folder: Path, texts: list[str]) -> Pieces:
    ours, theirs = Pieces.load(folder), AutoTokenizer.from_pretrained(folder)
    assert [ours.encode(text).ids.tolist() for text in texts] == [theirs(text)["input_ids"] for text in texts]
    assert ours.vocab_size == len(theirs)
    return ours


def test_the_older_file(tmp_path: Path) -> None:
    write(bert(tmp_path), "added_tokens.json", {"hypertension": 12, "[DRUG]": 13})
    write(tmp_path, "special_tokens_map.json", {"extra_special_tokens": ["[DRUG]"]})
    ours = agree(tmp_path, TEXTS)
    assert ours.encode(TEXTS[0]).tokens[-2] == "hypertension"
    (tmp_path / "saved").mkdir()
    ours.save(tmp_path / "saved")
    again = Pieces.load(tmp_path / "saved")
    assert [again.encode(text).tokens for text in TEXTS] == [ours.encode(text).tokens for text in TEXTS]


def test_the_newer_setting(tmp_path: Path) -> None:
    listed = {"0": row("[PAD]", True), "4": row("[MASK]", True), "12": row("hypertension"), "13": row("[DRUG]", True)}
    more = {"do_lower_case": True, "tokenizer_class": "BertTokenizer", "added_tokens_decoder": listed}
    write(bert(tmp_path), "tokenizer_config.json", more)
    agree(tmp_path, TEXTS)


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta"])
def test_other_tokenizers(model_type: str, tmp_path: Path) -> None:
    count = write_tokenizer(tmp_path, model_type)
    (tmp_path / "tokenizer.json").unlink(missing_ok=True)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.is_file() else {}
    config.pop("added_tokens_decoder", None)
    write(tmp_path, "tokenizer_config.json", config)
    write(tmp_path, "added_tokens.json", {"hypertension": count})
    assert Pieces.load(tmp_path).encode("the hypertension of").tokens.count("hypertension") == 1
    agree(tmp_path, ["the hypertension of", "doctor"])


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ({"hypertension": 20}, r"'hypertension' has id 20 here, but 12"),
        ({"the": 12}, r"'the' has id 12 here, but 5"),
        ({"a": 12, "b": 12}, "no number of its own"),
        ({"a": "12"}, "no number of its own"),
        ({"": 12}, "without its letters"),
        ({"x" * 1001: 12}, "without its letters"),
        ([1], "not an object"),
    ],
)
def test_lists_that_do_not_fit(listed: object, message: str, tmp_path: Path) -> None:
    write(bert(tmp_path), "added_tokens.json", listed)
    with pytest.raises(FirthError, match=rf"added_tokens\.json: .*{message}"):
        Pieces.load(tmp_path)


@pytest.mark.parametrize("listed", [[1], {"x": row("a")}, {"12": "a"}, {"12": row("\ud800")}, {"-1": row("a")}])
def test_settings_that_do_not_fit(listed: object, tmp_path: Path) -> None:
    write(bert(tmp_path), "tokenizer_config.json", {"added_tokens_decoder": listed})
    with pytest.raises(FirthError, match=r"tokenizer_config\.json: "):
        Pieces.load(tmp_path)
