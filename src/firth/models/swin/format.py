"""Swin directories as Hugging Face writes them: SwinForImageClassification, SwinForMaskedImageModeling, SwinModel; both ways."""

from pathlib import Path

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import save_tensors, write_json
from firth.corpus.images import ImagesInfo
from firth.models.shared.image_format import labels_to_json, read_config, save_processor, take_heads
from firth.models.shared.image_network import ImageNetwork
from firth.models.shared.image_objective import Heads, ImageFormat, ImagePretraining
from firth.models.shared.published import ACTIVATIONS, Published, Weights, activation_name, scatter
from firth.models.swin.config import SwinConfig
from firth.models.swin.network import SwinNetwork

_SETTINGS = {
    "image_size": "image_size",
    "patch_size": "patch_size",
    "num_channels": "num_channels",
    "embed_dim": "embed_dim",
    "depths": "depths",
    "num_heads": "num_heads",
    "window_size": "window_size",
    "ffn_ratio": "mlp_ratio",
    "dropout_prob": "hidden_dropout_prob",
    "attention_dropout_prob": "attention_probs_dropout_prob",
    "drop_path_prob": "drop_path_rate",
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
_PATCH = "swin.embeddings.patch_embeddings.projection.weight"
_NEWER = (  # transformers 5 in memory: as published
    (".attention.q_proj.", ".attention.self.query."),
    (".attention.k_proj.", ".attention.self.key."),
    (".attention.v_proj.", ".attention.self.value."),
    (".attention.relative_position_bias.relative_position", ".attention.self.relative_position"),
    (".attention.o_proj.", ".attention.output.dense."),
    (".mlp.fc1.", ".intermediate.dense."),
    (".mlp.fc2.", ".output.dense."),
)


def _names(config: SwinConfig) -> dict[str, str | list[str]]:
    found: dict[str, str | list[str]] = {"embed.project.bias": "swin.embeddings.patch_embeddings.projection.bias"}
    for part in ("weight", "bias"):
        found[f"embed_norm.{part}"] = f"swin.embeddings.norm.{part}"
        found[f"norm.{part}"] = f"swin.layernorm.{part}"
    for stage, depth in enumerate(config.depths):
        base = f"swin.encoder.layers.{stage}"
        for place in range(depth):
            ours, theirs = f"stages.{stage}.blocks.{place}", f"{base}.blocks.{place}"
            found[f"{ours}.bias"] = f"{theirs}.attention.self.relative_position_bias_table"
            for part in ("weight", "bias"):
                found[f"{ours}.block.attention.qkv.{part}"] = [
                    f"{theirs}.attention.self.{name}.{part}" for name in ("query", "key", "value")
                ]
                for mine, its in _BLOCK.items():
                    found[f"{ours}.block.{mine}.{part}"] = f"{theirs}.{its}.{part}"
        if stage + 1 < len(config.depths):
            found[f"stages.{stage}.merge.reduce.weight"] = f"{base}.downsample.reduction.weight"
            found[f"stages.{stage}.merge.norm.weight"] = f"{base}.downsample.norm.weight"
            found[f"stages.{stage}.merge.norm.bias"] = f"{base}.downsample.norm.bias"
    return found


def save_swin(folder: Path, config: Config, weights: Weights, heads: Heads, info: ImagesInfo) -> None:
    assert isinstance(config, SwinConfig)
    save_processor(folder, info)
    tensors = scatter(weights, _names(config))
    shape = (config.embed_dim, config.num_channels, config.patch_size, config.patch_size)
    tensors[_PATCH] = weights["embed.project.weight"].view(shape)
    architecture = "SwinModel"
    if "classifier" in heads:
        architecture = "SwinForImageClassification"
        tensors |= {f"classifier.{name}": one for name, one in heads["classifier"].items()}
    if "decoder" in heads:
        architecture = "SwinForMaskedImageModeling"
        decoder = heads["decoder"]
        tensors |= {"decoder.0.weight": decoder["weight"][:, :, None, None], "decoder.0.bias": decoder["bias"]}
        tensors["swin.embeddings.mask_token"] = heads["mask_token"][""].view(1, 1, -1)
    save_tensors(folder / "model.safetensors", tensors)
    settings = {theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()}
    said = {
        "architectures": [architecture],
        "model_type": "swin",
        "hidden_act": activation_name(config.activation),
        "encoder_stride": config.patch_size * 2 ** (len(config.depths) - 1),
        "qkv_bias": True,
        "use_absolute_embeddings": False,
    }
    write_json(folder / "config.json", {**said, **settings, **(labels_to_json(info) if "classifier" in heads else {})})


def _spelling(name: str) -> str:
    if not name.startswith(("swin.", "classifier.", "decoder.")):
        name = f"swin.{name}"
    for newer, published in _NEWER:
        name = name.replace(newer, published)
    return name


def load_swin(folder: Path) -> tuple[SwinConfig, Weights, Heads]:
    where = folder / "config.json"
    data = read_config(folder, "swin", "Swin")
    activation = ACTIVATIONS.get(str(data.get("hidden_act", "gelu")))
    if activation is None or data.get("use_absolute_embeddings"):
        raise FirthError(f"{where}: this Swin uses an activation or positions that Firth does not know")
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    config = SwinConfig.build({**given, "activation": activation}, where)
    published = Published(folder, "a Swin", _spelling)
    weights = published.gather(_names(config))
    weights["embed.project.weight"] = published.take(_PATCH).flatten(1)
    heads = take_heads(published, "swin.embeddings.mask_token")
    published.finish(lambda name: name.endswith(("relative_position_index", "attn_mask")))
    return config, weights, heads


def _build(config: Config) -> ImageNetwork:
    assert isinstance(config, SwinConfig)
    return SwinNetwork(config)


FORMAT = ImageFormat(_build, save_swin, load_swin)


class SwinPretraining(ImagePretraining):
    format = FORMAT
