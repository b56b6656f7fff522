"""What directories of image models share: names of weights and settings, heads, labels, the image processor.

``preprocessor_config.json`` says how pixels are brought to size and normalised, as transformers' image processors do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.files import read_json, save_tensors, write_json
from firth.corpus.images import ImagesInfo
from firth.models.shared.published import ACTIVATIONS, Names, Published, Weights, activation_name, scatter

Heads = dict[str, Weights]
PROCESSOR = "preprocessor_config.json"
SETTINGS = {  # ours: theirs
    "image_size": "image_size",
    "patch_size": "patch_size",
    "num_channels": "num_channels",
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
_HEADS = ("classifier.", "decoder.", "pooler.")
_NEWER = (
    (".attention.o_proj.", ".attention.output.dense."),
    (".mlp.fc1.", ".intermediate.dense."),
    (".mlp.fc2.", ".output.dense."),
)


def block_names(ours: str, theirs: str, attention: str) -> dict[str, str | list[str]]:
    """The weights of a block; ``attention`` is where queries, keys and values are."""
    found: dict[str, str | list[str]] = {}
    for part in ("weight", "bias"):
        found[f"{ours}.attention.qkv.{part}"] = [
            f"{theirs}.{attention}.{name}.{part}" for name in ("query", "key", "value")
        ]
        found |= {f"{ours}.{mine}.{part}": f"{theirs}.{its}.{part}" for mine, its in _BLOCK.items()}
    return found


@dataclass(frozen=True)
class Directory:
    """What the directories of one model call their parts."""

    title: str  # "ViT": how the names of transformers' classes begin
    prefix: str  # "vit": of weights; also the ``model_type``
    settings: Mapping[str, str]  # of the network: ours to theirs
    attention: str  # where a block has its queries, keys and values
    newer: tuple[tuple[str, str], ...] = ()  # how transformers 5 spells weights in memory: as they are published

    @property
    def patch_weight(self) -> str:
        return f"{self.prefix}.embeddings.patch_embeddings.projection.weight"

    @property
    def mask_token(self) -> str:
        return f"{self.prefix}.embeddings.mask_token"

    def save(
        self,
        folder: Path,
        config: Config,
        weights: Weights,
        names: Names,
        heads: Heads,
        info: ImagesInfo,
        more: Weights,
        facts: Mapping[str, object],
    ) -> None:
        """``more`` are weights that need another shape than ours, ``facts`` further settings."""
        sizes = config.model_dump()
        square = (sizes["num_channels"], sizes["patch_size"], sizes["patch_size"])
        tensors = scatter(weights, names) | more
        tensors[self.patch_weight] = weights["embed.project.weight"].unflatten(1, square)
        architecture = f"{self.title}Model"
        if "classifier" in heads:
            architecture = f"{self.title}ForImageClassification"
            tensors |= {f"classifier.{name}": one for name, one in heads["classifier"].items()}
        if "decoder" in heads:
            architecture = f"{self.title}ForMaskedImageModeling"
            decoder = heads["decoder"]
            tensors |= {"decoder.0.weight": decoder["weight"][:, :, None, None], "decoder.0.bias": decoder["bias"]}
            tensors[self.mask_token] = heads["mask_token"][""].view(1, 1, -1)
        save_tensors(folder / "model.safetensors", tensors)
        said = {
            "architectures": [architecture],
            "model_type": self.prefix,
            "hidden_act": activation_name(sizes["activation"]),
            "qkv_bias": True,
        }
        settings = {theirs: sizes[ours] for ours, theirs in self.settings.items()}
        labels = labels_to_json(info) if "classifier" in heads else {}
        write_json(folder / "config.json", {**said, **settings, **facts, **labels})
        save_processor(folder, info)

    def read_settings(
        self, folder: Path, model_types: tuple[str, ...] = ()
    ) -> tuple[dict[str, object], dict[str, object]]:
        """Ours, and the whole of config.json."""
        where = folder / "config.json"
        data = read_json(where)
        if not isinstance(data, dict) or data.get("model_type") not in (self.prefix, *model_types):
            raise FirthError(
                f"{where}: not the description of a {self.title} ('model_type' is not {self.prefix}); copy it again"
            )
        if data.get("qkv_bias") is False:
            raise FirthError(f"{where}: this {self.title} has no bias in its attention, which Firth does not read")
        activation = ACTIVATIONS.get(str(data.get("hidden_act", "gelu")))
        if activation is None:
            raise FirthError(
                f"{where}: this {self.title} uses an activation that Firth does not know ({data.get('hidden_act')})"
            )
        given = {ours: data[theirs] for ours, theirs in self.settings.items() if theirs in data}
        return {**given, "activation": activation}, data

    def open(self, folder: Path) -> Published:
        """Weights by their published names, however they are spelled."""

        def spelling(name: str) -> str:
            if not name.startswith((f"{self.prefix}.", *_HEADS)):
                name = f"{self.prefix}.{name}"
            for newer, published in (*self.newer, *self._newer_attention(), *_NEWER):
                name = name.replace(newer, published)
            return name

        return Published(folder, f"a {self.title}", spelling)

    def _newer_attention(self) -> list[tuple[str, str]]:
        return [(f".attention.{name[0]}_proj.", f".{self.attention}.{name}.") for name in ("query", "key", "value")]

    def take(self, published: Published, names: Names, known: Callable[[str], bool]) -> tuple[Weights, Heads]:
        """All weights and heads; what is ``known`` may be left over."""
        weights = published.gather(names)
        weights["embed.project.weight"] = published.take(self.patch_weight).flatten(1)
        heads: Heads = {}
        if "classifier.weight" in published.tensors:
            heads["classifier"] = published.gather({"weight": "classifier.weight", "bias": "classifier.bias"})
        if "decoder.0.weight" in published.tensors:
            weight = published.take("decoder.0.weight")[:, :, 0, 0]
            heads["decoder"] = {"weight": weight, "bias": published.take("decoder.0.bias")}
        if self.mask_token in published.tensors:
            heads["mask_token"] = {"": published.take(self.mask_token).flatten()}
        published.finish(known)
        return weights, heads


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


def save_processor(folder: Path, info: ImagesInfo) -> None:
    save_processing(folder, Processing(info.image_size, info.num_channels, info.mean, info.std))


def save_processing(folder: Path, found: Processing) -> None:
    write_json(
        folder / PROCESSOR,
        {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": found.image_size, "width": found.image_size},
            "resample": 2,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(found.mean),
            "image_std": list(found.std),
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
