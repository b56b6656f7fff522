"""ViT directories as Hugging Face writes them: ViTForImageClassification, ViTForMaskedImageModeling, ViTModel; both ways. A
network without a class token, which these classes do not have, keeps Firth's own names."""

from pathlib import Path

import torch

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import read_json, save_tensors, write_json
from firth.corpus.images import ImagesInfo
from firth.models.shared.image_format import labels_to_json, read_config, save_processor, take_heads
from firth.models.shared.image_network import ImageNetwork
from firth.models.shared.image_objective import Heads, ImageFormat, ImagePretraining
from firth.models.shared.published import (
    ACTIVATIONS,
    Published,
    Weights,
    activation_name,
    join_parts,
    scatter,
    split_parts,
)
from firth.models.vit.config import VitConfig
from firth.models.vit.network import VitNetwork
from firth.nn.patches import stretch_positions

OWN = "firth-vit"
_SETTINGS = {
    "image_size": "image_size",
    "patch_size": "patch_size",
    "num_channels": "num_channels",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "ffn_dim": "intermediate_size",
    "dropout_prob": "hidden_dropout_prob",
    "attention_dropout_prob": "attention_probs_dropout_prob",
    "norm_eps": "layer_norm_eps",
    "init_std": "initializer_range",
}
_BLOCK = {
    "attention.out": "attention.output.dense",
    "attention_norm": "layernorm_before",
    "ffn.inner": "intermediate.dense",
    "ffn.outer": "output.dense",
    "ffn_norm": "layernorm_after",
}
_PATCH = "vit.embeddings.patch_embeddings.projection.weight"
_NEWER = (  # transformers 5 in memory: as published
    ("vit.layers.", "vit.encoder.layer."),
    (".attention.q_proj.", ".attention.attention.query."),
    (".attention.k_proj.", ".attention.attention.key."),
    (".attention.v_proj.", ".attention.attention.value."),
    (".attention.o_proj.", ".attention.output.dense."),
    (".mlp.fc1.", ".intermediate.dense."),
    (".mlp.fc2.", ".output.dense."),
)


def _names(num_layers: int) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {
        "embed.project.bias": "vit.embeddings.patch_embeddings.projection.bias",
        "norm.weight": "vit.layernorm.weight",
        "norm.bias": "vit.layernorm.bias",
    }
    for layer in range(num_layers):
        base = f"vit.encoder.layer.{layer}"
        for part in ("weight", "bias"):
            found[f"blocks.{layer}.attention.qkv.{part}"] = [
                f"{base}.attention.attention.{name}.{part}" for name in ("query", "key", "value")
            ]
            for ours, theirs in _BLOCK.items():
                found[f"blocks.{layer}.{ours}.{part}"] = f"{base}.{theirs}.{part}"
    return found


def save_vit(folder: Path, config: Config, weights: Weights, heads: Heads, info: ImagesInfo) -> None:
    assert isinstance(config, VitConfig)
    labels = labels_to_json(info) if "classifier" in heads else {}
    save_processor(folder, info)
    if config.pool != "cls":
        flat = {part: {name or "value": one for name, one in tensors.items()} for part, tensors in heads.items()}
        save_tensors(folder / "model.safetensors", join_parts({"network": weights, **flat}))
        write_json(folder / "config.json", {"model_type": OWN, "network": config.model_dump(), **labels})
        return
    tensors = scatter(weights, _names(config.num_layers))
    tensors["vit.embeddings.cls_token"] = weights["class_token"].view(1, 1, -1)
    tensors["vit.embeddings.position_embeddings"] = weights["positions"][None]
    shape = (config.hidden_dim, config.num_channels, config.patch_size, config.patch_size)
    tensors[_PATCH] = weights["embed.project.weight"].view(shape)
    architecture = "ViTModel"
    if "classifier" in heads:
        architecture = "ViTForImageClassification"
        tensors |= {f"classifier.{name}": one for name, one in heads["classifier"].items()}
    if "decoder" in heads:
        architecture = "ViTForMaskedImageModeling"
        decoder = heads["decoder"]
        tensors |= {"decoder.0.weight": decoder["weight"][:, :, None, None], "decoder.0.bias": decoder["bias"]}
        tensors["vit.embeddings.mask_token"] = heads["mask_token"][""].view(1, 1, -1)
    save_tensors(folder / "model.safetensors", tensors)
    settings = {theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()}
    own = {"firth_positions": config.positions, "encoder_stride": config.patch_size, "qkv_bias": True}
    said = {"architectures": [architecture], "model_type": "vit", "hidden_act": activation_name(config.activation)}
    write_json(folder / "config.json", {**said, **settings, **own, **labels})


def _spelling(name: str) -> str:
    if not name.startswith(("vit.", "classifier.", "decoder.", "pooler.")):
        name = f"vit.{name}"
    for newer, published in _NEWER:
        name = name.replace(newer, published)
    return name


def load_vit(folder: Path) -> tuple[VitConfig, Weights, Heads]:
    where = folder / "config.json"
    data = read_json(where)
    if isinstance(data, dict) and data.get("model_type") == OWN:
        config = VitConfig.build(data.get("network"), where)
        parts = split_parts(Published(folder, "a ViT").tensors)
        if "mask_token" in parts:
            parts["mask_token"] = {"": parts["mask_token"]["value"]}
        return config, parts.pop("network", {}), parts
    data = read_config(folder, "vit", "ViT")
    activation = ACTIVATIONS.get(str(data.get("hidden_act", "gelu")))
    if activation is None:
        raise FirthError(f"{where}: this ViT uses an activation that Firth does not know ({data.get('hidden_act')})")
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    given |= {"activation": activation, "positions": data.get("firth_positions", "learned")}
    config = VitConfig.build(given, where)
    published = Published(folder, "a ViT", _spelling)
    weights = published.gather(_names(config.num_layers))
    weights["class_token"] = published.take("vit.embeddings.cls_token").flatten()
    weights["positions"] = published.take("vit.embeddings.position_embeddings")[0]
    weights["embed.project.weight"] = published.take(_PATCH).flatten(1)
    heads = take_heads(published, "vit.embeddings.mask_token")
    published.finish(lambda name: name.startswith(("vit.pooler.", "pooler.")))
    return config, weights, heads


def _build(config: Config) -> ImageNetwork:
    assert isinstance(config, VitConfig)
    return VitNetwork(config)


FORMAT = ImageFormat(_build, save_vit, load_vit)


class VitPretraining(ImagePretraining):
    format = FORMAT

    def _fit(self, weights: Weights) -> None:
        assert isinstance(self.model, VitNetwork)
        first = int(self.model.has_class_token)
        edge = self.model.config.image_size // self.model.config.patch_size
        patches = stretch_positions(weights["positions"][first:], edge, edge)
        weights["positions"] = torch.cat((weights["positions"][:first], patches))
