"""Directories of encoders: a published BERT or ELECTRA directory wherever the model is one, else Firth's own names."""

from pathlib import Path

import torch

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.core.model_configs import EncoderConfig
from firth.core.tensors import load_tensors, save_tensors
from firth.interop.bert import BERT, Format, is_plain, load_bert, save_bert
from firth.interop.electra import ELECTRA, fits_electra

_OWN = "firth-encoder"
_PUBLISHED = {kind.model_type: kind for kind in (BERT, ELECTRA)}
Weights = dict[str, torch.Tensor]


def _format(config: EncoderConfig, heads: set[str]) -> Format | None:
    """The published format that holds this model, if one does."""
    if not is_plain(config):
        return None
    if fits_electra(config, heads):
        return ELECTRA
    return BERT if config.embedding_dim is None and heads <= set(BERT.heads) else None


def save_encoder(folder: Path, config: EncoderConfig, encoder: Weights, heads: dict[str, Weights], pad_id: int) -> None:
    """Variants that no published class can hold (rotary positions, pre-norm ...) keep Firth's names."""
    kind = _format(config, set(heads))
    if kind is not None:
        if kind is ELECTRA:
            config = config.replace(embedding_dim=config.token_dim)
        save_bert(folder, config, encoder, heads, pad_id, kind)
        return
    tensors = {f"encoder.{name}": tensor for name, tensor in encoder.items()}
    for part, weights in heads.items():
        tensors |= {f"{part}.{name}": tensor for name, tensor in weights.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", {"model_type": _OWN, "pad_token_id": pad_id, "encoder": config.model_dump()})


def load_encoder(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights and those of the heads that are there."""
    data = read_json(folder / "config.json")
    if not isinstance(data, dict):
        raise FirthError(f"{folder / 'config.json'}: not the description of a model; copy it again")
    if data.get("model_type") != _OWN:
        return load_bert(folder, _PUBLISHED.get(str(data.get("model_type")), BERT))
    config = EncoderConfig.build(data.get("encoder"), folder / "config.json")
    parts: dict[str, Weights] = {}
    for name, tensor in load_tensors(folder / "model.safetensors").items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = tensor
    if "encoder" not in parts:
        raise FirthError(f"{folder / 'model.safetensors'}: no encoder in it; copy it again")
    return config, parts.pop("encoder"), parts
