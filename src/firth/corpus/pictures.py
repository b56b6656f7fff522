"""Images as people look at them: small squares as PNG files, whatever they were."""

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.data.images import SUFFIXES, ImageExample, find_images, read_image

_MAX_PIXELS = 25_000_000  # of an image that is decoded


def png(pixels_CHW: NDArray[np.uint8]) -> bytes:
    """A PNG file (W3C recommendation, 2003): one filter byte per line, 8 bits per channel, grey or RGB."""
    channels, height, width = pixels_CHW.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels_CHW.transpose(1, 2, 0))
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    whole = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(whole)


def is_image(path: str) -> bool:
    """Whether a path is that of an image that is there."""
    with contextlib.suppress(OSError, ValueError):
        return path.lower().endswith(SUFFIXES) and Path(path).is_file()
    return False


def small_image(path: str, size: int) -> bytes | None:
    """A small square of an image; None where it is not there any more, or damaged."""
    return _square(ImageExample(path, None, Path(path)), size) if is_image(path) else None


def first_image(given: Path, size: int) -> bytes | None:
    """The same of the first image of a folder, a table or an npz."""
    with contextlib.suppress(FirthError, OSError):
        return _square(find_images(given)[0], size)
    return None


def _square(example: ImageExample, size: int) -> bytes | None:
    with contextlib.suppress(FirthError, OSError):
        return png(read_image(example, size, max_pixels=_MAX_PIXELS))
    return None
