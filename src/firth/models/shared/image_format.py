"""What directories of image models share: labels, the image processor, settings that are Firth's own.

``preprocessor_config.json`` says how pixels are brought to size and normalised, as transformers' image processors do.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from firth.core.errors import FirthError
from firth.core.files import read_json, write_json
from firth.corpus.images import ImagesInfo
from firth.models.shared.published import Published, Weights

PROCESSOR = "preprocessor_config.json"


class Processing(NamedTuple):
    """How an image becomes what the network reads."""

    image_size: int
    num_channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def labels_to_json(info: ImagesInfo) -> dict[str, object]:
    named = dict(enumerate(info.labels))
    return {
        "id2label": {str(number): label for number, label in named.items()},
        "label2id": {label: number for number, label in named.items()},
    }


def save_processor(folder: Path, info: ImagesInfo, processor: str = "ViTImageProcessor") -> None:
    write_json(
        folder / PROCESSOR,
        {
            "image_processor_type": processor,
            "do_resize": True,
            "size": {"height": info.image_size, "width": info.image_size},
            "resample": 2,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(info.mean),
            "image_std": list(info.std),
        },
    )


def load_processor(folder: Path, image_size: int, num_channels: int) -> Processing:
    """Without the file: pixels from -1 to 1, as ViT was published."""
    half = (0.5,) * num_channels
    path = folder / PROCESSOR
    if not path.is_file():
        return Processing(image_size, num_channels, half, half)
    data = read_json(path)
    try:
        size = data.get("size", image_size)
        edges = {int(value) for value in size.values()} if isinstance(size, Mapping) else {int(size)}
        mean, std = (tuple(map(float, data.get(name, half))) for name in ("image_mean", "image_std"))
    except (AttributeError, TypeError, ValueError):
        raise FirthError(f"{path}: not the description of an image processor; copy it again") from None
    if len(edges) != 1 or not len(mean) == len(std) == num_channels or not all(value > 0 for value in std):
        raise FirthError(f"{path}: does not fit the model (one edge, {num_channels} means and deviations above 0)")
    return Processing(edges.pop(), num_channels, mean, std)


def read_config(folder: Path, model_type: str, title: str) -> dict[str, object]:
    where = folder / "config.json"
    data = read_json(where)
    if not isinstance(data, dict) or data.get("model_type") != model_type:
        raise FirthError(f"{where}: not the description of a {title} ('model_type' is not {model_type}); copy it again")
    if data.get("qkv_bias") is False:
        raise FirthError(f"{where}: this {title} has no bias in its attention, which Firth does not read")
    return data


def read_labels(folder: Path, num_outputs: int) -> list[str]:
    data = read_json(folder / "config.json")
    given = data.get("id2label") if isinstance(data, dict) else None
    if not isinstance(given, dict):
        return [str(number) for number in range(num_outputs)]
    try:
        return [str(given[str(number)]) for number in range(num_outputs)]
    except KeyError:
        raise FirthError(
            f"{folder / 'config.json'}: id2label does not name all {num_outputs} outputs; copy it again"
        ) from None


def take_heads(published: Published, mask_token: str) -> dict[str, Weights]:
    """A classifier, and what masked patches were decoded with."""
    heads: dict[str, Weights] = {}
    if "classifier.weight" in published.tensors:
        heads["classifier"] = published.gather({"weight": "classifier.weight", "bias": "classifier.bias"})
    if "decoder.0.weight" in published.tensors:
        weight = published.take("decoder.0.weight")[:, :, 0, 0]
        heads["decoder"] = {"weight": weight, "bias": published.take("decoder.0.bias")}
    if mask_token in published.tensors:
        heads["mask_token"] = {"": published.take(mask_token).flatten()}
    return heads
