"""Swin directories as Hugging Face writes them: SwinForImageClassification, SwinForMaskedImageModeling, SwinModel; both ways."""

from pathlib import Path

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.corpus.images import ImagesInfo
from firth.models.shared.image_format import SETTINGS, Directory, Heads, block_names
from firth.models.shared.image_objective import ImageFormat
from firth.models.shared.published import Weights
from firth.models.swin.config import SwinConfig
from firth.models.swin.network import SwinNetwork
from firth.nn.patches import ImageNetwork

DIRECTORY = Directory(
    "Swin",
    "swin",
    {
        **SETTINGS,
        "embedding_dim": "embed_dim",
        "depths": "depths",
        "num_heads": "num_heads",
        "window_size": "window_size",
        "ffn_ratio": "mlp_ratio",
        "drop_path_prob": "drop_path_rate",
    },
    "attention.self",
    ((".attention.relative_position_bias.relative_position", ".attention.self.relative_position"),),
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
            found |= block_names(f"{ours}.block", theirs, DIRECTORY.attention)
        if stage + 1 < len(config.depths):
            found[f"stages.{stage}.merge.reduce.weight"] = f"{base}.downsample.reduction.weight"
            found[f"stages.{stage}.merge.norm.weight"] = f"{base}.downsample.norm.weight"
            found[f"stages.{stage}.merge.norm.bias"] = f"{base}.downsample.norm.bias"
    return found


def save_swin(folder: Path, config: Config, weights: Weights, heads: Heads, info: ImagesInfo) -> None:
    assert isinstance(config, SwinConfig)
    facts = {"encoder_stride": config.patch_size * 2 ** (len(config.depths) - 1), "use_absolute_embeddings": False}
    DIRECTORY.save(folder, config, weights, _names(config), heads, info, {}, facts)


def load_swin(folder: Path) -> tuple[SwinConfig, Weights, Heads]:
    given, data = DIRECTORY.read_settings(folder)
    if data.get("use_absolute_embeddings"):
        raise FirthError(f"{folder / 'config.json'}: this Swin has positions of its own, which Firth does not read")
    config = SwinConfig.build(given, folder / "config.json")

    def known(name: str) -> bool:
        return name.endswith(("relative_position_index", "attn_mask"))

    return config, *DIRECTORY.take(DIRECTORY.open(folder), _names(config), known)


def _build(config: Config) -> ImageNetwork:
    assert isinstance(config, SwinConfig)
    return SwinNetwork(config)


FORMAT = ImageFormat(_build, save_swin, load_swin)
