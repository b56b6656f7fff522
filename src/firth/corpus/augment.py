"""Changed copies of images, as pure functions of (seed, place): flips, crops, colour; and two images mixed (mixup, Zhang et
al. 2018; cutmix, Yun et al. 2019).

N images, C channels, H height, W width, K labels.
"""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.batching import generator, hashed, uniform
from firth.core.config import Config

Floats = NDArray[np.float32]
_FLIP, _ROW, _COLUMN, _LIGHT, _CONTRAST, _SATURATION, _PARTNER, _MIX, _WHERE, _SHARE = range(10, 20)
_GREY = np.array([0.299, 0.587, 0.114], np.float32)


class AugmentConfig(Config):
    """How much training images are changed; nothing at 0."""

    flip: bool = True  # left and right, every second time
    crop_padding: Annotated[int, Field(ge=0, le=64)] = (
        4  # pixels by which an image is moved at most; edges are mirrored
    )
    color: Annotated[float, Field(ge=0, lt=1)] = 0.0  # brightness, contrast and saturation change by this share at most
    mix_prob: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of images that are mixed with another one
    cutmix_share: Annotated[float, Field(ge=0, le=1)] = (
        1.0  # of those: by a rectangle (cutmix), the rest by a sum (mixup)
    )
    mix_alpha: Annotated[float, Field(gt=0)] = 1.0  # of the beta distribution of shares


def augment(pixels_NCHW: NDArray[np.uint8], seed: int, places_N: NDArray[np.int64], config: AugmentConfig) -> Floats:
    """Pixels from 0 to 1."""
    _, _, height, width = pixels_NCHW.shape
    pad = min(config.crop_padding, height - 1, width - 1)
    out = np.empty(pixels_NCHW.shape, np.float32)
    flips = config.flip & (uniform(seed, places_N, _FLIP) < 0.5)
    rows = (uniform(seed, places_N, _ROW) * (2 * pad + 1)).astype(int)
    columns = (uniform(seed, places_N, _COLUMN) * (2 * pad + 1)).astype(int)
    padded = np.pad(pixels_NCHW, ((0, 0), (0, 0), (pad, pad), (pad, pad)), "reflect") if pad else pixels_NCHW
    for number, (flip, row, column) in enumerate(zip(flips, rows, columns, strict=True)):
        cut = padded[number, :, row : row + height, column : column + width]
        out[number] = cut[:, :, ::-1] if flip else cut
    out /= 255
    return _recolor(out, seed, places_N, config.color) if config.color else out


def _recolor(pixels: Floats, seed: int, places_N: NDArray[np.int64], most: float) -> Floats:
    def factor(key: int) -> Floats:
        return (1 + most * (2 * uniform(seed, places_N, key) - 1)).astype(np.float32)[:, None, None, None]

    pixels = pixels * factor(_LIGHT)
    mean = pixels.mean((1, 2, 3), keepdims=True)
    pixels = (pixels - mean) * factor(_CONTRAST) + mean
    if pixels.shape[1] == 3:
        grey = np.einsum("nchw,c->nhw", pixels, _GREY)[:, None]
        pixels = (pixels - grey) * factor(_SATURATION) + grey
    return pixels.clip(0, 1)


def partners(seed: int, places_N: NDArray[np.int64], num_images: int, config: AugmentConfig) -> NDArray[np.int64]:
    """The image that each is mixed with, -1 where none is."""
    others = (hashed(seed, places_N, _PARTNER) % np.uint64(num_images)).astype(np.int64)
    return np.where(uniform(seed, places_N, _MIX) < config.mix_prob, others, -1)


def mix(first_CHW: Floats, second_CHW: Floats, seed: int, place: int, config: AugmentConfig) -> tuple[Floats, float]:
    """The mixture, and what share of it is the first image."""
    draws = generator(seed, place, _SHARE)
    share = float(draws.beta(config.mix_alpha, config.mix_alpha))
    if float(uniform(seed, place, _WHERE)) >= config.cutmix_share:
        return (share * first_CHW + (1 - share) * second_CHW).astype(np.float32), share
    _, height, width = first_CHW.shape
    rows, columns = round(height * (1 - share) ** 0.5), round(width * (1 - share) ** 0.5)
    row, column = int(draws.integers(height - rows + 1)), int(draws.integers(width - columns + 1))
    found = first_CHW.copy()
    found[:, row : row + rows, column : column + columns] = second_CHW[:, row : row + rows, column : column + columns]
    return found, 1 - rows * columns / (height * width)


def normalize(pixels_NCHW: Floats, mean: tuple[float, ...], std: tuple[float, ...]) -> Floats:
    spread = np.asarray(std, np.float32)[:, None, None]
    return (pixels_NCHW - np.asarray(mean, np.float32)[:, None, None]) / spread


def as_shares(pixels: NDArray[np.uint8]) -> Floats:
    """From 0 to 1."""
    return pixels.astype(np.float32) / np.float32(255)
