"""A trained model of images: vectors, labels, and where the class token looks.

L layers, B images, T tokens, D width.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.types import Prediction
from firth.corpus.images import ImagesInfo, as_shares, normalize
from firth.data.images import MAX_PIXELS, ImageExample, find_images, read_image
from firth.models.shared.image_format import Processing, load_processor, read_labels
from firth.models.shared.image_objective import ImageFormat
from firth.models.shared.model import Model, ModelFacts, loading
from firth.models.shared.published import Weights, require_fit

_AT_ONCE = 64


class ImageAnswers(Model):
    """What every model of images answers, however it computes. ``encode`` and ``predict`` take paths of images, or folders."""

    pools = ("mean", "max")
    processing: Processing
    labels: Sequence[str] = ()

    def vectors(self, pixels: torch.Tensor) -> torch.Tensor:
        """What is classified, [B, D]."""
        raise NotImplementedError

    def scores(self, pixels: torch.Tensor) -> torch.Tensor:
        """Of the labels, [B, K]."""
        raise NotImplementedError

    def _pooled(self, pixels: torch.Tensor, layer: int, pool: str) -> torch.Tensor:
        """Another layer, or another pooling of its patches."""
        raise NotImplementedError

    def _abilities(self) -> set[str]:
        return {"encode"} | ({"predict"} if self.labels else set())

    def describe(self) -> ModelFacts:
        task = "classify" if self.labels else None
        return super().describe().replace(task=task, labels=tuple(self.labels), images=True)

    def _cannot(self, what: str, who: str) -> NoReturn:
        raise FirthError(f"this model ({self.kind}) reads images and cannot {what}: use {who}")

    def pixels(self, examples: Sequence[ImageExample], max_pixels: int = MAX_PIXELS) -> torch.Tensor:
        """Normalised, [B, C, H, W]."""
        size, channels, mean, std = self.processing
        found = np.stack([read_image(one, size, channels, max_pixels) for one in examples])
        return torch.from_numpy(normalize(as_shares(found), mean, std))

    def decode(self, files: Sequence[bytes], max_pixels: int = MAX_PIXELS) -> torch.Tensor:
        """The same of the contents of files, wherever they come from."""
        examples = [ImageExample(f"image {number}", None, data=data) for number, data in enumerate(files, 1)]
        return self.pixels(examples, max_pixels)

    def _batches(self, examples: Sequence[ImageExample]) -> Iterator[torch.Tensor]:
        for start in range(0, len(examples), _AT_ONCE):
            yield self.pixels(examples[start : start + _AT_ONCE])

    def encode(
        self, texts: str | Sequence[str], layer: int = -1, pool: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """One vector per image: what is classified (the class token or the mean); of another layer the mean or maximum."""
        if prompt is not None:
            self._cannot("be prompted", "a sentence model")
        return self.encode_pixels(self._batches(find_all([texts] if isinstance(texts, str) else texts)), layer, pool)

    @torch.inference_mode()
    def encode_pixels(
        self, batches: Iterable[torch.Tensor], layer: int = -1, pool: str | None = None
    ) -> NDArray[np.float32]:
        pool = pool or "mean"
        self._check_choice(layer, pool)
        plain = layer in (-1, self.num_layers) and pool == "mean"
        return torch.cat(
            [self.vectors(pixels) if plain else self._pooled(pixels, layer, pool) for pixels in batches]
        ).numpy()

    def predict(self, texts: str | Sequence[str | Sequence[str]]) -> list[Prediction]:
        return self.predict_images(find_all([texts] if isinstance(texts, str) else [str(one) for one in texts]))

    def predict_images(self, examples: Sequence[ImageExample]) -> list[Prediction]:
        """The likeliest label of each image, and the probabilities of all."""
        return self.predict_pixels([example.name for example in examples], self._batches(examples))

    @torch.inference_mode()
    def predict_pixels(self, names: Sequence[str], batches: Iterable[torch.Tensor]) -> list[Prediction]:
        if not self.labels:
            self._cannot("predict labels", "a run with objective.kind=image_classes, or firth finetune classify")
        return class_predictions(names, self.labels, torch.cat([self.scores(pixels) for pixels in batches]))

    def evaluate_images(self, given: Path) -> dict[str, float]:
        """Accuracy on labelled images: a folder per class, a table or an npz."""
        examples = find_images(given)
        unknown = next((one for one in examples if one.label not in self.labels), None)
        if unknown is not None:
            raise FirthError(
                f"{unknown.name}: the label '{unknown.label}' is not one of this model ({', '.join(self.labels)})"
            )
        found = self.predict_images(examples)
        hits = sum(one["label"] == example.label for one, example in zip(found, examples, strict=True))
        return {"accuracy": hits / len(examples), "images": float(len(examples))}


class ImageModel(ImageAnswers):
    """A network with its weights."""

    def __init__(self, folder: Path, format: ImageFormat, kind: str) -> None:
        config, weights, heads = format.load(folder)
        self.kind, self.format = kind, format
        self.config = config
        require_fit(lambda: format.build(config), weights, folder)
        self.network = format.build(config)
        with loading(folder):
            self.network.load_state_dict(weights)
        self.network.eval()
        self.dim, self.num_layers = self.network.dim, self.network.num_layers
        sizes = config.model_dump()
        self.processing = load_processor(folder, sizes["image_size"], sizes["num_channels"])
        self.classifier: nn.Linear | None = None
        if "classifier" in heads:
            outputs, width = heads["classifier"]["weight"].shape
            self.classifier = nn.Linear(width, outputs)
            with loading(folder):
                self.classifier.load_state_dict(heads["classifier"])
            self.labels = read_labels(folder, self.classifier.out_features)

    @property
    def num_parameters(self) -> int:
        own = sum(one.numel() for one in self.network.parameters())
        return own + (sum(one.numel() for one in self.classifier.parameters()) if self.classifier else 0)

    def _abilities(self) -> set[str]:
        return super()._abilities() | ({"look"} if self.network.shows_attention else set())

    def vectors(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.network.summary(pixels)

    def scores(self, pixels: torch.Tensor) -> torch.Tensor:
        assert self.classifier is not None
        found: torch.Tensor = self.classifier(self.network.summary(pixels))
        return found

    def _pooled(self, pixels: torch.Tensor, layer: int, pool: str) -> torch.Tensor:
        tokens_BTD = self.network.layers(pixels)[layer][:, int(self.network.has_class_token) :]
        return tokens_BTD.mean(1) if pool == "mean" else tokens_BTD.amax(1)

    @torch.inference_mode()
    def look(self, pixels_1CHW: torch.Tensor) -> "Look":
        """Where the class token of one image looks."""
        if not self.network.shows_attention:
            self._cannot("show the attention of a class token", "a ViT")
        weights_LHTT = self.network.attention(pixels_1CHW)[:, 0].numpy()
        rows, columns = (size // self.network.patch_size for size in pixels_1CHW.shape[2:])
        return look_of(weights_LHTT, rows, columns, self.network.has_class_token)

    def save(self, folder: Path, info: ImagesInfo, head: Weights) -> None:
        """A directory with this network and another classifier; ``info`` has its labels and how pixels are normalised."""
        weights = {name: tensor.detach() for name, tensor in self.network.state_dict().items()}
        self.format.save(folder, self.config, weights, {"classifier": head}, info)


class Look(NamedTuple):
    """What the class token looks at: in every layer and head, and through all layers; each patch's share, all sum to 1."""

    weights: NDArray[np.float32]  # [L, heads, rows, columns]
    rollout: NDArray[np.float32]  # [rows, columns]


def look_of(weights_LHTT: NDArray[np.float32], rows: int, columns: int, has_class_token: bool) -> Look:
    """The class token's row of attention, without itself; of networks without one the mean over all patches. Attention rollout
    (Abnar & Zuidema 2020): heads are averaged, half of each layer is the token itself, layers are multiplied."""

    def seen(weights_TT: NDArray[np.float32]) -> NDArray[np.float32]:
        row_T = weights_TT[..., 0, 1:] if has_class_token else weights_TT.mean(-2)
        return row_T / np.maximum(row_T.sum(-1, keepdims=True), 1e-12)

    through_TT = np.eye(weights_LHTT.shape[-1], dtype=np.float32)
    for layer_TT in weights_LHTT.mean(1):
        through_TT = (layer_TT + np.eye(len(layer_TT), dtype=np.float32)) / 2 @ through_TT
    grid = (rows, columns)
    return Look(
        seen(weights_LHTT).reshape(*weights_LHTT.shape[:2], *grid).astype(np.float32),
        seen(through_TT).reshape(grid).astype(np.float32),
    )


def class_predictions(names: Sequence[str], labels: Sequence[str], scores_BK: torch.Tensor) -> list[Prediction]:
    """The likeliest label of each, and the probabilities of all."""
    found: list[Prediction] = []
    for name, shares in zip(names, scores_BK.softmax(-1).tolist(), strict=True):
        named = dict(zip(labels, shares, strict=True))
        found.append({"text": name, "label": max(named, key=named.__getitem__), "probabilities": named})
    return found


def find_all(paths: Sequence[str]) -> list[ImageExample]:
    return [example for path in paths for example in find_images(Path(path))]
