"""A trained model of images: vectors, labels, and where the class token looks.

L layers, B images, T tokens, D width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from firth.core.errors import FirthError
from firth.core.types import Prediction
from firth.corpus.augment import as_shares, normalize
from firth.data.images import ImageExample, find_images, read_image
from firth.models.shared.image_format import load_processor, read_labels
from firth.models.shared.image_objective import ImageFormat
from firth.models.shared.model import Model, loading

_AT_ONCE = 64


class ImageModel(Model):
    """``encode`` and ``predict`` take paths of images, or folders of them."""

    pools = ("mean", "max")

    def __init__(self, folder: Path, format: ImageFormat, kind: str) -> None:
        config, weights, heads = format.load(folder)
        self.kind = kind
        self.config = config
        self.network = format.build(config)
        with loading(folder):
            self.network.load_state_dict(weights)
        self.network.eval()
        self.dim, self.num_layers = self.network.dim, self.network.num_layers
        sizes = config.model_dump()
        self.processing = load_processor(folder, sizes["image_size"], sizes["num_channels"])
        self.classifier: nn.Linear | None = None
        self.labels: list[str] = []
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
        return {"encode"} | ({"predict"} if self.classifier is not None else set())

    def _cannot(self, what: str, who: str) -> NoReturn:
        raise FirthError(f"this model ({self.kind}) reads images and cannot {what}: use {who}")

    def pixels(self, examples: Sequence[ImageExample]) -> torch.Tensor:
        """Normalised, [B, C, H, W]."""
        size, channels, mean, std = self.processing
        found = np.stack([read_image(one, size, channels) for one in examples])
        return torch.from_numpy(normalize(as_shares(found), mean, std))

    @torch.inference_mode()
    def encode(
        self, texts: str | Sequence[str], layer: int = -1, pool: str | None = None, prompt: str | None = None
    ) -> NDArray[np.float32]:
        """One vector per image: what is classified (the class token or the mean); of another layer the mean or maximum."""
        examples = find_all([texts] if isinstance(texts, str) else texts)
        pool = pool or "mean"
        if prompt is not None:
            self._cannot("be prompted", "a sentence model")
        self._check_choice(layer, pool)
        found = []
        for start in range(0, len(examples), _AT_ONCE):
            pixels = self.pixels(examples[start : start + _AT_ONCE])
            if layer in (-1, self.num_layers) and pool == "mean":
                found.append(self.network.summary(pixels))
            else:
                tokens_BTD = self.network.layers(pixels)[layer][:, int(self.network.has_class_token) :]
                found.append(tokens_BTD.mean(1) if pool == "mean" else tokens_BTD.amax(1))
        return torch.cat(found).numpy()

    def predict(self, texts: str | Sequence[str | Sequence[str]]) -> list[Prediction]:
        return self.predict_images(find_all([texts] if isinstance(texts, str) else [str(one) for one in texts]))

    @torch.inference_mode()
    def predict_images(self, examples: Sequence[ImageExample]) -> list[Prediction]:
        """The likeliest label of each image, and the probabilities of all."""
        if self.classifier is None:
            self._cannot("predict labels", "a run with objective.kind=image_classes")
        found: list[Prediction] = []
        for start in range(0, len(examples), _AT_ONCE):
            some = examples[start : start + _AT_ONCE]
            shares_BK = self.classifier(self.network.summary(self.pixels(some))).softmax(-1)
            for example, shares in zip(some, shares_BK.tolist(), strict=True):
                named = dict(zip(self.labels, shares, strict=True))
                found.append(
                    {"text": example.name, "label": max(named, key=lambda name: named[name]), "probabilities": named}
                )
        return found

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


def find_all(paths: Sequence[str]) -> list[ImageExample]:
    return [example for path in paths for example in find_images(Path(path))]
