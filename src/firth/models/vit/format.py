"""ViT directories as Hugging Face writes them: ViTForImageClassification, ViTForMaskedImageModeling, ViTModel, both ways; the
encoder of ViTMAE is read. A network without a class token, which these classes do not have, keeps Firth's own names."""

from pathlib import Path

import torch

from firth.core.config import Config
from firth.core.files import read_json, save_tensors, write_json
from firth.corpus.images import ImagesInfo
from firth.models.shared.image_format import SETTINGS, Directory, Heads, block_names, labels_to_json, save_processor
from firth.models.shared.image_objective import ImageFormat, ImagePretraining
from firth.models.shared.published import Published, Weights, join_parts, split_parts
from firth.models.vit.config import VitConfig
from firth.models.vit.network import VitNetwork
from firth.nn.patches import ImageNetwork, stretch_positions

OWN, MAE = "firth-vit", "vit_mae"
DIRECTORY = Directory(
    "ViT",
    "vit",
    {
        **SETTINGS,
        "hidden_dim": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "ffn_dim": "intermediate_size",
    },
    "attention.attention",
    (("vit.layers.", "vit.encoder.layer."),),
)


def _names(num_layers: int) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {
        "embed.project.bias": "vit.embeddings.patch_embeddings.projection.bias",
        "norm.weight": "vit.layernorm.weight",
        "norm.bias": "vit.layernorm.bias",
    }
    for layer in range(num_layers):
        found |= block_names(f"blocks.{layer}", f"vit.encoder.layer.{layer}", DIRECTORY.attention)
    return found


def save_vit(folder: Path, config: Config, weights: Weights, heads: Heads, info: ImagesInfo) -> None:
    assert isinstance(config, VitConfig)
    if config.pool != "cls":
        labels = labels_to_json(info) if "classifier" in heads else {}
        flat = {part: {name or "value": one for name, one in tensors.items()} for part, tensors in heads.items()}
        save_tensors(folder / "model.safetensors", join_parts({"network": weights, **flat}))
        write_json(folder / "config.json", {"model_type": OWN, "network": config.model_dump(), **labels})
        save_processor(folder, info)
        return
    more = {
        "vit.embeddings.cls_token": weights["class_token"].view(1, 1, -1),
        "vit.embeddings.position_embeddings": weights["positions"][None],
    }
    facts = {"firth_positions": config.positions, "encoder_stride": config.patch_size}
    DIRECTORY.save(folder, config, weights, _names(config.num_layers), heads, info, more, facts)


def load_vit(folder: Path) -> tuple[VitConfig, Weights, Heads]:
    where = folder / "config.json"
    data = read_json(where)
    if isinstance(data, dict) and data.get("model_type") == OWN:
        config = VitConfig.build(data.get("network"), where)
        parts = split_parts(Published(folder, "a ViT").tensors)
        if "mask_token" in parts:
            parts["mask_token"] = {"": parts["mask_token"]["value"]}
        return config, parts.pop("network", {}), parts
    given, data = DIRECTORY.read_settings(folder, (MAE,))
    config = VitConfig.build({**given, "positions": data.get("firth_positions", "learned")}, where)
    published = DIRECTORY.open(folder)
    more = {
        "class_token": published.take("vit.embeddings.cls_token").flatten(),
        "positions": published.take("vit.embeddings.position_embeddings")[0],
    }
    unread = ("vit.pooler.", "pooler.", *(("decoder.", "vit.mask_token") if data["model_type"] == MAE else ()))
    weights, heads = DIRECTORY.take(published, _names(config.num_layers), lambda name: name.startswith(unread))
    return config, weights | more, heads


def _build(config: Config) -> ImageNetwork:
    assert isinstance(config, VitConfig)
    return VitNetwork(config)


FORMAT = ImageFormat(_build, save_vit, load_vit)


class VitPretraining(ImagePretraining):
    """Positions of another size are stretched."""

    format = FORMAT

    def _fit(self, weights: Weights) -> None:
        assert isinstance(self.model, VitNetwork)
        first = int(self.model.has_class_token)
        edge = self.model.config.image_size // self.model.config.patch_size
        patches = stretch_positions(weights["positions"][first:], edge, edge)
        weights["positions"] = torch.cat((weights["positions"][:first], patches))
