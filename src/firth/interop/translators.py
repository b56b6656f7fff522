"""Directories of translators: a published Marian or T5 directory wherever the model is one, else Firth's own names.

The tokenizer's files lie beside the weights; where the target has a tokenizer of its own it is in
``target/``.
"""

from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.model_configs import EncoderDecoderConfig, Seq2SeqConfig
from firth.core.tensors import load_tensors, save_tensors
from firth.interop.marian import is_marian, load_marian, save_marian
from firth.interop.published import Weights
from firth.interop.t5 import is_t5, load_t5, save_t5
from firth.text.pieces import Pieces

TranslatorConfig = EncoderDecoderConfig | Seq2SeqConfig
_KINDS: dict[str, type[EncoderDecoderConfig] | type[Seq2SeqConfig]] = {
    "firth-encoder-decoder": EncoderDecoderConfig,
    "firth-seq2seq": Seq2SeqConfig,
}


def save_translator(
    folder: Path,
    config: TranslatorConfig,
    weights: Weights,
    pieces: Pieces,
    target_pieces: Pieces | None,
    languages: list[str],
) -> None:
    """Weights, config and tokenizers; ``target_pieces`` None: one tokenizer for both sides."""
    target = target_pieces or pieces
    assert target.pad_id is not None
    assert target.eos_id is not None
    ids = {"pad_id": target.pad_id, "eos_id": target.eos_id, "start_id": target.pad_id}
    if isinstance(config, EncoderDecoderConfig) and is_marian(config) and target_pieces is None:
        save_marian(folder, config, weights, ids)
    elif isinstance(config, EncoderDecoderConfig) and is_t5(config):
        save_t5(folder, config, weights, ids)
    else:
        save_tensors(folder / "model.safetensors", weights)
        kind = next(name for name, known in _KINDS.items() if isinstance(config, known))
        write_json(folder / "config.json", {"model_type": kind, "ids": ids, "model": config.model_dump()})
    write_json(folder / "languages.json", languages)
    pieces.save(folder)
    if target_pieces is not None:
        (folder / "target").mkdir(exist_ok=True)
        target_pieces.save(folder / "target")


def load_translator(folder: Path) -> tuple[TranslatorConfig, Weights, dict[str, int], Pieces, Pieces, list[str]]:
    """Config, weights, ids of pad, eos and start, the tokenizers of both sides, the languages."""
    where = folder / "config.json"
    data = read_json(where)
    config: TranslatorConfig
    if data.get("model_type") == "marian":
        config, weights, ids = load_marian(folder)
    elif data.get("model_type") == "t5":
        config, weights, ids = load_t5(folder)
    else:
        config = _KINDS[data["model_type"]].build(data.get("model"), where)
        weights, ids = load_tensors(folder / "model.safetensors"), data.get("ids")
        if not isinstance(ids, dict) or not all(isinstance(ids.get(name), int) for name in ("eos_id", "start_id")):
            raise FirthError(f"{where}: damaged (ids missing); copy it again")
    pieces = Pieces.load(folder)
    target_pieces = Pieces.load(folder / "target") if (folder / "target").is_dir() else pieces
    languages = read_json(folder / "languages.json") if (folder / "languages.json").is_file() else ["", ""]
    sizes = (
        (pieces, config.vocab_size),
        (target_pieces, config.target_vocab_size or config.vocab_size),
    )
    for found, size in sizes:
        if found.vocab_size > size:
            raise FirthError(
                f"{folder}: the tokenizer has {found.vocab_size} tokens but the model only {size}; the files belong to different models"
            )
    return config, weights, ids, pieces, target_pieces, languages
