"""Images as a corpus on disk: pixels of one size, decoded once, each file with its checksum.

``corpus.json``   what it is (``kind`` is ``images``), how it was made, checksums
``train/`` and ``heldout/``, each with
    ``pixels.bin``  uint8 [N, C, S, S]
    ``labels.bin``  int64 [N]: the number of the label, -1 without one

N images, C channels, S edge.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config, usable_cores
from firth.core.errors import FirthError
from firth.core.files import atomic_folder, check_files, checksum, write_json
from firth.core.types import Progress, generator, hashed, uniform
from firth.corpus.format import FORMAT, each_epoch, fingerprint_of, read_facts
from firth.corpus.parts import check_goal
from firth.data.images import MAX_PIXELS, ImageExample, Pixels, find_images, label_names, read_image

_HELDOUT = 0.05
_REPORT = 500


class ImageSplitInfo(Config):
    images: int

    @property
    def documents(self) -> int:
        """Each image is a document of its own."""
        return self.images


class ImagesInfo(Config):
    """The content of ``corpus.json`` of a corpus of images."""

    format: int = FORMAT
    kind: Literal["images"] = "images"
    image_size: int
    num_channels: int
    labels: tuple[str, ...]  # none: only for pre-training
    mean: tuple[float, ...]  # of the training images by channel, pixels from 0 to 1
    std: tuple[float, ...]
    source: str
    heldout_share: float
    skipped: tuple[str, ...]  # images that could not be read
    train: ImageSplitInfo
    heldout: ImageSplitInfo
    checksums: dict[str, str]

    @property
    def tokenizer(self) -> str:
        return ""

    def __repr__(self) -> str:
        images = f"{self.train.images:,} images, {self.heldout.images:,} held out"
        return f"<corpus: {images}, {self.image_size} x {self.image_size}, {len(self.labels)} labels>"

    __str__ = __repr__


class ImageSplit:
    """One part of a corpus of images."""

    def __init__(self, folder: Path, info: ImagesInfo, is_train: bool) -> None:
        self.folder = folder
        self.shape = (info.num_channels, info.image_size, info.image_size)
        self.is_train = is_train

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        return np.fromfile(self.folder / "labels.bin", np.int64)

    @cached_property
    def pixels(self) -> Pixels:
        path = self.folder / "pixels.bin"
        if not path.stat().st_size:
            return np.zeros((0, *self.shape), np.uint8)
        return np.memmap(path, np.uint8, "r").reshape(-1, *self.shape)

    def __len__(self) -> int:
        return len(self.labels)


class ImageCorpus:
    """A prepared corpus of images, opened for reading."""

    def __init__(self, folder: Path, info: ImagesInfo) -> None:
        self.folder = folder
        self.info = info
        self.train = ImageSplit(folder / "train", info, True)
        self.heldout = ImageSplit(folder / "heldout", info, False)

    @classmethod
    def open(cls, folder: str | Path, verify: bool = True) -> "ImageCorpus":
        folder = Path(folder)
        if not is_image_corpus(folder):
            raise FirthError(
                f"{folder}: not a corpus of images; make one with: firth prepare-images FOLDER --out CORPUS"
            )
        info = ImagesInfo.build(read_facts(folder), folder / "corpus.json")
        if verify:
            check_files(folder, info.checksums, "prepare the corpus again")
        return cls(folder, info)

    @property
    def fingerprint(self) -> str:
        """Equal for corpora with equal content."""
        return fingerprint_of(self.info.checksums)


def is_image_corpus(folder: Path) -> bool:
    if not (folder / "corpus.json").is_file():
        return False
    data = read_facts(folder)
    return isinstance(data, dict) and data.get("kind") == "images"


class ImageRows:
    """The images of a split in an order that is drawn again in every epoch."""

    def __init__(self, split: ImageSplit, seed: int) -> None:
        self.size = len(split)
        self._order = each_epoch(lambda epoch: generator(seed, 2, epoch).permutation(self.size))

    def __len__(self) -> int:
        return self.size

    def numbers(self, first: int, count: int) -> NDArray[np.int64]:
        """The images at ``count`` places from place ``first`` of the endless sequence of epochs."""
        places = np.arange(first, first + count)
        found = np.empty(count, np.int64)
        for epoch in np.unique(places // self.size).tolist():
            mine = places // self.size == epoch
            found[mine] = self._order(epoch)[places[mine] % self.size]
        return found


def prepare_images(
    given: Path,
    out: Path,
    image_size: int = 32,
    num_channels: int = 3,
    dev: Path | None = None,
    heldout: float | None = None,
    max_pixels: int = MAX_PIXELS,
    skip_bad: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ImagesInfo:
    """Makes the corpus ``out``. With ``dev`` those images are held out, else a share of all."""
    check_goal(out, overwrite)
    if not 4 <= image_size <= 2048 or num_channels not in (1, 3):
        raise FirthError("image_size is from 4 to 2048 pixels and num_channels 1 or 3: change what is not")
    share = heldout if heldout is not None else 0.0 if dev is not None else _HELDOUT
    if not 0 <= share < 1 or (dev is not None and share):
        raise FirthError(f"heldout is {share}: a share of the images, at least 0 and below 1, and 0 with --dev")
    examples = find_images(given)
    labels = label_names(examples)
    held = uniform(0, np.arange(len(examples))) < share
    parts = {"train": [one for one, out_ in zip(examples, held, strict=True) if not out_]}
    parts["heldout"] = (
        find_images(dev) if dev is not None else [one for one, out_ in zip(examples, held, strict=True) if out_]
    )
    unknown = next((one for one in parts["heldout"] if labels and one.label not in labels), None)
    if unknown is not None:
        raise FirthError(f"{unknown.name}: the label '{unknown.label}' is not among those of the training images")
    reading = ImageReading(image_size, num_channels, max_pixels, skip_bad, workers or usable_cores(), progress)
    return write_images(parts, labels, out, reading, str(given), share, overwrite=overwrite)


def write_images(
    parts: Mapping[str, Sequence[ImageExample]],
    labels: Sequence[str],
    out: Path,
    reading: "ImageReading",
    source: str,
    heldout_share: float = 0.0,
    spread: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    overwrite: bool = False,
) -> ImagesInfo:
    """The corpus of ``train`` and ``heldout`` images; ``spread``: mean and deviation by which pixels are normalised, if they
    are not those of the training images."""
    with atomic_folder(out, overwrite) as folder:
        counts = {name: reading.write(folder / name, some, labels) for name, some in parts.items()}
        if not counts["train"]:
            raise FirthError(f"{source}: no image is left to learn from; add images")
        mean, std = spread or _spread(folder / "train" / "pixels.bin", reading.channels, reading.size)
        files = sorted(folder.rglob("*.bin"))
        info = ImagesInfo(
            image_size=reading.size,
            num_channels=reading.channels,
            labels=tuple(labels),
            mean=mean,
            std=std,
            source=source,
            heldout_share=heldout_share,
            skipped=tuple(reading.skipped),
            train=ImageSplitInfo(images=counts["train"]),
            heldout=ImageSplitInfo(images=counts["heldout"]),
            checksums={str(path.relative_to(folder)): checksum(path) for path in files},
        )
        write_json(folder / "corpus.json", info.model_dump(mode="json"))
    return info


class ImageReading:
    """Decodes in threads (Pillow leaves the interpreter's lock while it does), in order."""

    def __init__(
        self, size: int, channels: int, max_pixels: int, skip_bad: bool, workers: int, progress: Progress | None
    ) -> None:
        if workers < 1:
            raise FirthError(f"workers is {workers}: at least 1 is needed")
        self.size, self.channels, self.max_pixels = size, channels, max_pixels
        self.skip_bad, self.workers = skip_bad, workers
        self.progress: Progress = progress or (lambda event: None)
        self.skipped: list[str] = []

    def write(self, folder: Path, examples: Sequence[ImageExample], labels: Sequence[str]) -> int:
        numbers = {label: number for number, label in enumerate(labels)}
        kept: list[int] = []
        folder.mkdir()
        with open(folder / "pixels.bin", "wb") as handle:
            for done, (example, pixels) in enumerate(zip(examples, self.decode(examples), strict=True), 1):
                if isinstance(pixels, FirthError):
                    if not self.skip_bad:
                        raise pixels
                    self.skipped.append(example.name)
                else:
                    handle.write(pixels.tobytes())
                    kept.append(-1 if example.label is None else numbers.get(example.label, -1))
                if done % _REPORT == 0 or done == len(examples):
                    self.progress({"event": "images", "images": done, "total": len(examples)})
        np.asarray(kept, np.int64).tofile(folder / "labels.bin")
        return len(kept)

    def _read(self, example: ImageExample) -> Pixels | FirthError:
        try:
            return read_image(example, self.size, self.channels, self.max_pixels)
        except FirthError as error:
            return error

    def decode(self, examples: Sequence[ImageExample]) -> Iterator[Pixels | FirthError]:
        """The pixels of each, or what is wrong with it."""
        waiting: deque[Future[Pixels | FirthError]] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for example in examples:
                    waiting.append(pool.submit(self._read, example))
                    if len(waiting) > 4 * self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)


def _spread(path: Path, channels: int, size: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of every channel; a channel that never changes counts as one of deviation 1."""
    pixels = np.memmap(path, np.uint8, "r").reshape(-1, channels, size, size)
    counts = np.zeros((channels, 256))
    for start in range(0, len(pixels), 256):
        for channel in range(channels):
            counts[channel] += np.bincount(pixels[start : start + 256, channel].ravel(), minlength=256)
    values, shares = np.arange(256) / 255, counts / counts.sum(1, keepdims=True)
    mean = shares @ values
    std = np.sqrt((shares * (values - mean[:, None]) ** 2).sum(1))
    return tuple(mean.round(6).tolist()), tuple(np.where(std < 1e-3, 1.0, std).round(6).tolist())


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
    cutmix_prob: Annotated[float, Field(ge=0, le=1)] = (
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
    if float(uniform(seed, place, _WHERE)) >= config.cutmix_prob:
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
