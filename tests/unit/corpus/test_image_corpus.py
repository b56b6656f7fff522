"""Images to a corpus: what is read, what is refused, changed copies as pure functions."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import firth
from firth.core.errors import FirthError
from firth.corpus.images import AugmentConfig, ImageCorpus, ImageRows, augment, mix, normalize, partners
from image_samples import bars, make_folder


def test_folder_becomes_a_corpus(tmp_path: Path) -> None:
    info = firth.prepare_images(make_folder(tmp_path / "in"), tmp_path / "out", image_size=16, heldout=0.25)
    corpus = ImageCorpus.open(tmp_path / "out")
    assert info.labels == ("columns", "rows")
    assert info.train.images + info.heldout.images == 40
    assert info.heldout.images > 0
    assert corpus.train.pixels.shape == (info.train.images, 3, 16, 16)
    pixels = corpus.train.pixels / 255
    np.testing.assert_allclose(pixels.mean((0, 2, 3)), info.mean, atol=1e-5)
    np.testing.assert_allclose(pixels.std((0, 2, 3)), info.std, atol=1e-5)


def test_folder_table_and_npz_give_the_same_bytes(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "in", 12)
    files = sorted(folder.rglob("*.png"))
    lines = [f"in/{path.parent.name}/{path.name},{path.parent.name}" for path in files]
    (tmp_path / "list.csv").write_text("path,label\n" + "\n".join(lines) + "\n")
    arrays = np.stack([np.asarray(Image.open(path)) for path in files])
    np.savez(tmp_path / "all.npz", images=arrays, labels=np.array([path.parent.name for path in files]))
    found = [
        firth.prepare_images(tmp_path / name, tmp_path / f"out-{name}", image_size=16, workers=workers)
        for name, workers in (("in", 1), ("list.csv", 2), ("all.npz", 3))
    ]
    assert found[0].checksums == found[1].checksums == found[2].checksums
    assert found[0].labels == found[1].labels == found[2].labels


def test_modes_become_plain_colours(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    Image.new("RGBA", (8, 8), (10, 20, 30, 0)).save(folder / "a.png")  # transparent: white
    Image.new("L", (8, 8), 77).save(folder / "b.png")
    Image.new("I;16", (8, 8), 0x4D00).save(folder / "c.png")
    Image.new("RGB", (20, 10), (1, 2, 3)).save(folder / "d.webp", lossless=True)
    firth.prepare_images(folder, tmp_path / "out", image_size=8, heldout=0)
    pixels = ImageCorpus.open(tmp_path / "out").train.pixels
    assert (pixels[0] == 255).all()
    assert (pixels[1] == 77).all()
    assert (pixels[2] == 77).all()
    assert pixels[3, :, 4, 4].tolist() == [1, 2, 3]


def _bomb(edge: int) -> bytes:
    """A png that says it has edge x edge pixels, in a few bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("cut.png", lambda whole: whole[: len(whole) // 2], "not a whole"),
        ("text.png", lambda whole: b"hello", "not a whole"),
        ("empty.jpg", lambda whole: b"", "not a whole"),
        ("bomb.png", lambda whole: _bomb(60_000), "too many pixels"),
        ("large.png", lambda whole: _bomb(10_000), "10000 x 10000 pixels"),
    ],
)
def test_bad_images_are_named_and_refused(tmp_path: Path, name: str, data: Callable[[bytes], bytes], said: str) -> None:
    folder = make_folder(tmp_path / "in", 6)
    whole = (folder / "rows" / "000.png").read_bytes()
    (folder / "rows" / name).write_bytes(data(whole))
    with pytest.raises(FirthError, match=said) as refused:
        firth.prepare_images(folder, tmp_path / "out", image_size=16)
    assert name in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]  # nothing half-written stays
    info = firth.prepare_images(folder, tmp_path / "out", image_size=16, skip_bad=True)
    assert [Path(skipped).name for skipped in info.skipped] == [name]


def test_damaged_corpus_is_named(tmp_path: Path) -> None:
    firth.prepare_images(make_folder(tmp_path / "in", 8), tmp_path / "out", image_size=16)
    path = tmp_path / "out" / "train" / "pixels.bin"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(FirthError, match=r"pixels\.bin: damaged"):
        ImageCorpus.open(tmp_path / "out")


def test_npz_is_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", images=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FirthError, match="not a whole npz of plain arrays"):
        firth.prepare_images(tmp_path / "bad.npz", tmp_path / "out")


IMAGES = np.stack([bars(number) for number in range(6)]).transpose(0, 3, 1, 2)


def test_changes_depend_on_seed_and_place_alone() -> None:
    config, places = AugmentConfig(color=0.3), np.arange(100, 106)
    whole = augment(IMAGES, 7, places, config)
    parts = [augment(IMAGES[at : at + 1], 7, places[at : at + 1], config)[0] for at in range(6)]
    np.testing.assert_array_equal(whole, np.stack(parts))
    assert not np.array_equal(whole, augment(IMAGES, 8, places, config))
    assert whole.min() >= 0
    assert whole.max() <= 1


def test_flip_and_crop_by_hand() -> None:
    nothing = augment(IMAGES, 0, np.arange(6), AugmentConfig(flip=False, crop_padding=0))
    np.testing.assert_allclose(nothing, IMAGES / 255, atol=1e-7)
    flipped = augment(IMAGES, 0, np.arange(6), AugmentConfig(crop_padding=0))
    kinds = {
        tuple(np.array_equal(one, other) for other in (plain, plain[:, :, ::-1]))
        for one, plain in zip(flipped, nothing, strict=True)
    }
    assert kinds == {(True, False), (False, True)}
    padded = np.pad(nothing[0], ((0, 0), (2, 2), (2, 2)), "reflect")
    moved = augment(IMAGES[:1].repeat(20, 0), 3, np.arange(20), AugmentConfig(flip=False, crop_padding=2))
    cuts = [padded[:, row : row + 16, column : column + 16] for row in range(5) for column in range(5)]
    assert all(any(np.allclose(one, cut) for cut in cuts) for one in moved)


def test_mixtures_by_hand() -> None:
    black, white = np.zeros((3, 16, 16), np.float32), np.ones((3, 16, 16), np.float32)
    sums, share = mix(black, white, 1, 5, AugmentConfig(cutmix_prob=0))
    np.testing.assert_allclose(sums, 1 - share, atol=1e-6)
    for place in range(10):
        cut, share = mix(black, white, 1, place, AugmentConfig(cutmix_prob=1))
        assert set(np.unique(cut)) <= {0.0, 1.0}
        assert 1 - cut.mean() == pytest.approx(share, abs=1e-6)
    others = partners(1, np.arange(1000), 50, AugmentConfig(mix_prob=0.3))
    assert others.max() < 50
    assert 0.2 < (others >= 0).mean() < 0.4
    np.testing.assert_allclose(normalize(white[None], (0.5,) * 3, (0.25,) * 3), 2.0)


def test_rows_read_every_image_once_an_epoch(tmp_path: Path) -> None:
    firth.prepare_images(make_folder(tmp_path / "in", 10), tmp_path / "out", image_size=16, heldout=0)
    rows = ImageRows(ImageCorpus.open(tmp_path / "out").train, 3)
    numbers = rows.numbers(0, 25)
    assert sorted(numbers[:10]) == sorted(numbers[10:20]) == list(range(10))
    np.testing.assert_array_equal(numbers[7:13], rows.numbers(7, 6))
