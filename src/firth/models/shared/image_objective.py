"""What networks of images learn: classes, or the pixels of hidden patches (SimMIM, Xie et al. 2022); and the pre-training that
puts network, objective and corpus together.

B batch, C channels, H height, W width, U patches of the input, P hidden tokens of the last layer, D width, K labels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.config import Config
from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.types import Arrays, Batch, Losses, uniform
from firth.corpus.format import Corpus
from firth.corpus.images import (
    Floats,
    ImageCorpus,
    ImageRows,
    ImagesInfo,
    ImageSplit,
    as_shares,
    augment,
    mix,
    normalize,
    partners,
)
from firth.models.shared.configs import ImageClassesConfig, ImageObjectiveConfig, MaskedPatchesConfig
from firth.models.shared.image_format import Heads
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.published import Weights
from firth.nn.patches import ImageNetwork, Masked, cut_patches

_MASKED = 31  # the key of draws of masks


class ImageObjective(nn.Module):
    """Batches of changed images; a subclass adds what is asked about them."""

    def __init__(self, config: ImageObjectiveConfig, info: ImagesInfo) -> None:
        super().__init__()
        self.config = config
        self.info = info
        self.weights = {config.kind: 1.0}

    def rows(self, split: ImageSplit, seed: int) -> ImageRows:
        if not len(split):
            raise FirthError(f"{split.folder}: no images to train on; prepare a corpus with more of them")
        return ImageRows(split, seed)

    def _images(self, split: ImageSplit, rows: ImageRows, seed: int, first: int, count: int) -> "_Drawn":
        """Changed and mixed if they are for training, and the labels [B, 2] with the share of the first, [B]."""
        places, numbers = np.arange(first, first + count), rows.numbers(first, count)
        shares, labels = np.ones(count, np.float32), np.stack([split.labels[numbers]] * 2, 1)
        if not split.is_train:
            return _Drawn(self._normed(as_shares(split.pixels[numbers])), labels, shares)
        settings = self.config.augment
        pixels = augment(split.pixels[numbers], seed, places, settings)
        others = partners(seed, places, len(split), settings)
        for number in np.flatnonzero(others >= 0).tolist():
            other, place = others[number : number + 1], places[number : number + 1]
            second = augment(split.pixels[other], seed + 1, place, settings)[0]
            pixels[number], shares[number] = mix(pixels[number], second, seed, int(place[0]), settings)
            labels[number, 1] = split.labels[other[0]]
        return _Drawn(self._normed(pixels), labels, shares)

    def batch(self, split: ImageSplit, rows: ImageRows, seed: int, first: int, count: int) -> Batch:
        """Images at places ``first`` to ``first + count``; a pure function of its arguments."""
        raise NotImplementedError

    def loss(self, model: ImageNetwork, batch: Batch) -> Losses:
        raise NotImplementedError

    def _normed(self, pixels: Floats) -> Floats:
        return normalize(pixels, self.info.mean, self.info.std)


@dataclass(frozen=True)
class _Drawn:
    pixels: Floats
    labels: NDArray[np.int64]
    shares: Floats


class ImageClasses(ImageObjective):
    """Cross-entropy of the labels by one matrix over the summary of an image."""

    def __init__(self, config: ImageClassesConfig, network: ImageNetwork, info: ImagesInfo) -> None:
        super().__init__(config, info)
        self.smoothing = config.label_smoothing
        self.classifier = nn.Linear(network.dim, len(info.labels))

    def batch(self, split: ImageSplit, rows: ImageRows, seed: int, first: int, count: int) -> Batch:
        drawn = self._images(split, rows, seed, first, count)
        arrays: Arrays = {"pixels": drawn.pixels, "labels": drawn.labels, "shares": drawn.shares}
        return Batch(arrays, {"image_classes": count}, count)

    def loss(self, model: ImageNetwork, batch: Batch) -> Losses:
        tensors = batch.tensors
        scores_BK = self.classifier(model.summary(tensors["pixels"])).float()
        logs_BK = scores_BK.log_softmax(-1)
        labels_B2, shares_B = tensors["labels"], tensors["shares"]
        picked_B2 = logs_BK.gather(1, labels_B2)
        smoothing = self.smoothing if self.training else 0.0
        likely_B = shares_B * picked_B2[:, 0] + (1 - shares_B) * picked_B2[:, 1]
        loss = -((1 - smoothing) * likely_B + smoothing * logs_BK.mean(-1)).sum()
        if self.training:
            return Losses({"image_classes": loss})
        hits = float((scores_BK.argmax(-1) == labels_B2[:, 0]).sum())
        return Losses({"image_classes": loss}, {"accuracy": (hits, float(len(scores_BK)))})


class MaskedPatches(ImageObjective):
    """The mean absolute difference of the pixels that were hidden, by one matrix over the last layer. Equally many places are
    hidden in every image, so that only these are decoded."""

    def __init__(self, config: MaskedPatchesConfig, network: ImageNetwork, info: ImagesInfo) -> None:
        super().__init__(config, info)
        self.stride, self.patch_size = network.stride, network.patch_size
        self.unit = config.mask_size or network.stride
        if self.unit % network.stride or info.image_size % self.unit:
            raise FirthError(
                f"objective.mask_size ({self.unit}) must be a multiple of {network.stride} pixels that divides the image ({info.image_size})"
            )
        edge = info.image_size // self.unit
        self.edge, self.num_hidden = edge, min(max(1, round(config.mask_prob * edge * edge)), edge * edge - 1)
        if edge < 2:
            raise FirthError(f"objective.mask_size ({self.unit}) hides the whole image: choose a smaller one")
        self.mask_token = nn.Parameter(torch.zeros(network.embed_dim))
        self.decoder = nn.Linear(network.dim, info.num_channels * network.stride**2)

    def batch(self, split: ImageSplit, rows: ImageRows, seed: int, first: int, count: int) -> Batch:
        drawn = self._images(split, rows, seed, first, count)
        places = np.arange(first, first + count)[:, None]
        draws = uniform(seed, places, _MASKED, np.arange(self.edge**2)[None, :])
        hidden = draws.argsort(1, kind="stable").argsort(1, kind="stable") < self.num_hidden
        grid = hidden.reshape(count, self.edge, self.edge)

        def finer(size: int) -> NDArray[np.bool_]:
            times = self.unit // size
            return grid.repeat(times, 1).repeat(times, 2).reshape(count, -1)

        tokens = finer(self.stride)
        picks = np.nonzero(tokens)[1].reshape(count, -1).astype(np.int64)
        hidden_pixels = count * self.num_hidden * self.unit**2 * self.info.num_channels
        arrays: Arrays = {"pixels": drawn.pixels, "hidden": finer(self.patch_size), "picks": picks}
        return Batch(arrays, {"masked_patches": hidden_pixels}, count)

    def loss(self, model: ImageNetwork, batch: Batch) -> Losses:
        pixels, picks_BP = batch.tensors["pixels"], batch.tensors["picks"]
        hidden_BPD = model.patches(pixels, Masked(batch.tensors["hidden"], self.mask_token), picks_BP)
        found = self.decoder(hidden_BPD).float()
        wanted = cut_patches(pixels, self.stride)
        wanted = wanted.gather(1, picks_BP[:, :, None].expand(-1, -1, wanted.shape[-1]))
        return Losses({"masked_patches": functional.l1_loss(found, wanted, reduction="sum")})


@dataclass(frozen=True)
class ImageFormat:
    """How a model builds its network from its settings, and how its directory is written and read."""

    build: Callable[[Config], ImageNetwork]
    save: Callable[[Path, Config, Weights, Heads, ImagesInfo], None]
    load: Callable[[Path], tuple[Config, Weights, Heads]]


class ImagePretraining(Pretraining):
    """A network of images under either objective. A model says its ``format``."""

    format: ImageFormat
    model: ImageNetwork
    published = ("config.json", "model.safetensors", "preprocessor_config.json")
    uses = ("predict {name} photo.jpg", "encode {name} photo.jpg --out vectors.npy")

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, ImageObjective]:
        network = self.format.build(config.model)
        info: object = corpus.info
        assert isinstance(info, ImagesInfo)
        if isinstance(config.objective, ImageClassesConfig):
            if len(info.labels) < 2:
                raise FirthError(
                    f"{corpus.folder}: {len(info.labels)} labels, classes need two; prepare a folder per class, or use objective.kind=masked_patches"
                )
            return network, ImageClasses(config.objective, network, info)
        assert isinstance(config.objective, MaskedPatchesConfig)
        return network, MaskedPatches(config.objective, network, info)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        self.model.start(generator)
        if isinstance(self.objective, MaskedPatches):
            nn.init.normal_(self.objective.mask_token, std=0.02, generator=generator)

    @classmethod
    def open_corpus(cls, path: Path) -> ImageCorpus:
        return ImageCorpus.open(path)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        """The network reads images of the size and channels of the corpus."""
        info: object = corpus.info
        assert isinstance(info, ImagesInfo)
        size = {"image_size": info.image_size, "num_channels": info.num_channels}
        return config.replace(model=config.model.replace(**size).model_dump())

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> Config:
        return cls.format.load(base)[0]

    def _heads(self) -> Heads:
        if isinstance(self.objective, ImageClasses):
            return {"classifier": dict(self.objective.classifier.state_dict())}
        assert isinstance(self.objective, MaskedPatches)
        return {
            "decoder": dict(self.objective.decoder.state_dict()),
            "mask_token": {"": self.objective.mask_token.detach()},
        }

    def start_from(self, base: Path) -> None:
        _, weights, heads = self.format.load(base)
        self._fit(weights)
        self.model.load_state_dict(weights)
        mine = self._heads()
        with torch.no_grad():
            for part, tensors in mine.items():
                given = heads.get(part, {})
                if {name: one.shape for name, one in given.items()} == {
                    name: one.shape for name, one in tensors.items()
                }:
                    for name, one in tensors.items():
                        one.copy_(given[name])

    def _fit(self, weights: Weights) -> None:
        """Positions of another grid are stretched to that of the corpus."""

    def export(self, folder: Path) -> None:
        info: object = self.corpus.info
        assert isinstance(info, ImagesInfo)
        self.format.save(folder, self.config.model, dict(self.model.state_dict()), self._heads(), info)
