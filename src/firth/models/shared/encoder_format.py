"""Directories of encoders: a published BERT, ELECTRA or ERNIE directory wherever the model is one, else Firth's own
names. Heads for which the published format has no place lie beside it in ``heads.safetensors``."""

from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.tensors import load_tensors, save_tensors
from firth.models.bert.format import BERT, Format, has_plain_blocks, load_bert, save_bert
from firth.models.electra.format import ELECTRA, fits_electra
from firth.models.ernie.format import ERNIE
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.published import Weights, join_parts, split_parts

_OWN = "firth-encoder"
_PUBLISHED = {kind.model_type: kind for kind in (BERT, ELECTRA, ERNIE)}
_HEADS = "heads.safetensors"


def _format(config: EncoderConfig, heads: set[str]) -> Format | None:
    """The published format that holds this model, if one does."""
    if not has_plain_blocks(config):
        return None
    if fits_electra(config, heads):
        return ELECTRA
    if config.embedding_dim is not None:
        return None
    return ERNIE if config.num_tasks else BERT


def save_encoder(folder: Path, config: EncoderConfig, encoder: Weights, heads: dict[str, Weights], pad_id: int) -> None:
    """Variants that no published class can hold (rotary positions, pre-norm ...) keep Firth's names."""
    kind = _format(config, set(heads))
    if kind is not None:
        if kind is ELECTRA:
            config = config.replace(embedding_dim=config.token_dim)
        placed = {part: weights for part, weights in heads.items() if part in kind.heads}
        others = {part: weights for part, weights in heads.items() if part not in kind.heads}
        if others:
            save_tensors(folder / _HEADS, join_parts(others))
        save_bert(folder, config, encoder, placed, pad_id, kind)
        return
    save_tensors(folder / "model.safetensors", join_parts({"encoder": encoder, **heads}))
    write_json(folder / "config.json", {"model_type": _OWN, "pad_token_id": pad_id, "encoder": config.model_dump()})


def load_encoder(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights and those of the heads that are there."""
    data = read_json(folder / "config.json")
    if not isinstance(data, dict):
        raise FirthError(f"{folder / 'config.json'}: not the description of a model; copy it again")
    if data.get("model_type") != _OWN:
        config, encoder, heads = load_bert(folder, _PUBLISHED.get(str(data.get("model_type")), BERT))
        others = split_parts(load_tensors(folder / _HEADS)) if (folder / _HEADS).is_file() else {}
        return config, encoder, {**heads, **others}
    config = EncoderConfig.build(data.get("encoder"), folder / "config.json")
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    if "encoder" not in parts:
        raise FirthError(f"{folder / 'model.safetensors'}: no encoder in it; copy it again")
    return config, parts.pop("encoder"), parts
