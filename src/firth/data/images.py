"""Images as people have them: a folder with a folder per class, a table of paths and labels, or an npz of arrays.

Decoding is by Pillow (extra ``images``): png, jpeg and webp only. What is damaged, or would be huge once decoded, is named and
refused before its pixels are read.

C channels, S edge of a square image.
"""

import io
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError, import_extra
from firth.core.files import foreign_errors, shorten
from firth.data.sources import find_sources
from firth.data.tables import open_table

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
FORMATS = ("PNG", "JPEG", "WEBP")
MAX_PIXELS = 50_000_000
MAX_BYTES = 200_000_000
_MAX_ARRAY_BYTES = 16_000_000_000
_ARRAYS = ("images", "pixels", "x", "data")
_LABELS = ("labels", "label", "y")
_PATHS = ("path", "image", "file", "filename")
_BILINEAR = 2  # as transformers' image processors say it: ``resample``
Pixels = NDArray[np.uint8]


class Picture(Protocol):
    """What is asked of Pillow's images."""

    mode: str
    size: tuple[int, int]
    info: dict[str, object]

    def convert(self, mode: str) -> "Picture": ...
    def resize(self, size: tuple[int, int], resample: int) -> "Picture": ...


@dataclass(frozen=True)
class ImageExample:
    """An image in a file, in memory, or one of an array; its label, if there is one."""

    name: str
    label: str | None
    path: Path | None = None
    pixels: Pixels | None = None  # [height, width] or [height, width, C]
    data: bytes | None = None  # a file's content


def find_images(given: Path, path: str | None = None, label: str | None = None) -> list[ImageExample]:
    """All images of a folder, a table or an npz, in an order that does not depend on the file system. ``path`` and ``label``
    name the columns of a table."""
    if not given.exists():
        raise FirthError(f"{given}: no such file or folder; check the path")
    if given.is_dir():
        found = _in_folder(given)
    elif given.suffix == ".npz":
        found = _in_arrays(given)
    elif given.suffix.lower() in SUFFIXES:
        found = [ImageExample(str(given), None, given)]
    else:
        found = _in_table(given, path, label)
    if not found:
        raise FirthError(
            f"{given}: no images in it ({', '.join(SUFFIXES)}); name a folder, a table or an npz of images"
        )
    return found


def _in_folder(folder: Path) -> list[ImageExample]:
    """A folder per class, or images without labels."""

    def images(inside: Path) -> list[Path]:
        return sorted(path for path in inside.iterdir() if path.is_file() and path.suffix.lower() in SUFFIXES)

    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    loose, labelled = images(folder), [(path, one.name) for one in classes for path in images(one)]
    if loose and labelled:
        raise FirthError(f"{loose[0]}: lies next to the folders of classes; move it into one of them")
    nested = next((path for one in classes for path in one.iterdir() if path.is_dir()), None)
    if nested is not None and not labelled:
        raise FirthError(f"{nested}: a folder within a class; name the folder that holds the classes")
    return [ImageExample(str(path), None, path) for path in loose] + [
        ImageExample(str(path), label, path) for path, label in labelled
    ]


def _in_table(file: Path, path_column: str | None = None, label_column: str | None = None) -> list[ImageExample]:
    """Columns ``path`` and ``label``, or those named; paths are taken from the folder of the table."""
    (source,) = find_sources([str(file)])
    table = open_table(source)
    rows = iter(table.rows)
    names = table.names
    if names is None:
        _, first = next(rows, (0, ()))
        names = [str(name) for name in first]
    wanted = [(path_column,) if path_column else _PATHS, (label_column,) if label_column else _LABELS]
    paths, labels = (
        [place for place, name in enumerate(names) if name.lower() in map(str.lower, some)] for some in wanted
    )
    if label_column and not labels:
        raise FirthError(f"{file}:1: no column '{label_column}' with labels; the columns are {', '.join(names)}")
    if not paths:
        raise FirthError(
            f"{file}:1: no column '{wanted[0][0]}' with the paths of images; the columns are {', '.join(names)}"
        )
    found = []
    for line, row in rows:
        if len(row) <= max(paths[0], *labels[:1], 0):
            raise FirthError(f"{file}:{line}: only {len(row)} fields, {len(names)} are needed; complete the line")
        path = file.parent / str(row[paths[0]])
        if not path.is_file():
            raise FirthError(f"{file}:{line}: {path}: no such image; check the path")
        found.append(ImageExample(str(path), str(row[labels[0]]) if labels else None, path))
    return found


def _in_arrays(file: Path) -> list[ImageExample]:
    """uint8 ``images`` [N, height, width(, C)] and ``labels`` [N]; nothing is unpickled."""
    with foreign_errors(file, "a whole npz of plain arrays"):
        with zipfile.ZipFile(file) as inside:
            size = sum(entry.file_size for entry in inside.infolist())
        if size > _MAX_ARRAY_BYTES:
            raise FirthError(f"{file}: {size:,} bytes once unpacked; split it into smaller files")
        with np.load(file, allow_pickle=False) as arrays:
            pixels = next((arrays[name] for name in _ARRAYS if name in arrays), None)
            labels = next((arrays[name] for name in _LABELS if name in arrays), None)
    if pixels is None or pixels.dtype != np.uint8 or pixels.ndim not in (3, 4):
        raise FirthError(f"{file}: needs an array 'images', uint8 [N, height, width] or [N, height, width, channels]")
    if labels is not None and labels.shape != (len(pixels),):
        raise FirthError(f"{file}: {len(pixels)} images but labels of shape {labels.shape}; give one label per image")
    return [
        ImageExample(f"{file}:{number}", None if labels is None else str(labels[number]), pixels=one)
        for number, one in enumerate(pixels)
    ]


def read_image(example: ImageExample, size: int, channels: int = 3, max_pixels: int = MAX_PIXELS) -> Pixels:
    """[C, S, S]: decoded, turned upright, brought to a square (bilinear, as the published image processors do)."""
    if example.data is not None:
        return decode_image(example.data, example.name, size, channels, max_pixels)
    if example.path is None:
        return _squared(_from_array(example), size, channels)
    with open(example.path, "rb") as handle:
        data = handle.read(MAX_BYTES + 1)
    return decode_image(data, example.name, size, channels, max_pixels)


def decode_image(data: bytes, name: str, size: int, channels: int = 3, max_pixels: int = MAX_PIXELS) -> Pixels:
    """The same of the bytes of a file, which may come from anywhere."""
    if len(data) > MAX_BYTES:
        raise FirthError(f"{name}: larger than {MAX_BYTES:,} bytes; make it smaller first")
    images = import_extra("PIL.Image", "images", "reading images")
    operations = import_extra("PIL.ImageOps", "images", "reading images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opened = images.open(io.BytesIO(data), formats=FORMATS)
            width, height = opened.size
            if width * height > max_pixels:
                raise FirthError(
                    f"{name}: {width} x {height} pixels, more than the {max_pixels:,} that are decoded; make it smaller first"
                )
            opened.load()
            return _squared(operations.exif_transpose(opened), size, channels)
    except FirthError:
        raise
    except images.DecompressionBombError as error:
        raise FirthError(f"{name}: too many pixels to be decoded ({error}); make it smaller first") from None
    except Exception as error:  # whatever a decoder says about damaged bytes
        reason = shorten(str(error).partition("<")[0] or error)
        raise FirthError(f"{name}: not a whole png, jpeg or webp image ({reason}); replace or remove it") from None


def _from_array(example: ImageExample) -> Picture:
    pixels = example.pixels
    assert pixels is not None
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
        raise FirthError(f"{example.name}: {pixels.shape[2]} channels; images have 1, 3 or 4")
    found: Picture = import_extra("PIL.Image", "images", "reading images").fromarray(np.ascontiguousarray(pixels))
    return found


def _squared(image: Picture, size: int, channels: int) -> Pixels:
    """Transparent places become white; 16-bit grey is scaled down."""
    images = import_extra("PIL.Image", "images", "reading images")
    if image.mode.startswith("I"):
        image = images.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    elif image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        above = image.convert("RGBA")
        image = images.alpha_composite(images.new("RGBA", above.size, (255, 255, 255, 255)), above)
    plain = image.convert("L" if channels == 1 else "RGB")
    if plain.size != (size, size):
        plain = plain.resize((size, size), _BILINEAR)
    found = np.asarray(plain, np.uint8)
    return found[None] if channels == 1 else np.ascontiguousarray(found.transpose(2, 0, 1))


def label_names(examples: Sequence[ImageExample]) -> list[str]:
    """The labels in order; numbers by their value. All images have one or none has."""
    labels = {example.label for example in examples}
    if labels == {None}:
        return []
    missing = next((example for example in examples if not example.label), None)
    if missing is not None:
        raise FirthError(f"{missing.name}: has no label, others have one; give it one or leave it out")
    named = [str(label) for label in labels]
    return sorted(named, key=(lambda name: f"{int(name):020d}") if all(name.isdecimal() for name in named) else None)
