"""Published ELMo files: read and written, and every layer against the plain twin."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from elmo_twin import Twin

import firth
from firth.models.elmo.format import load_elmo, read_arrays, save_elmo
from firth.models.elmo.model import ElmoModel, TokenCache

SENTENCES = [
    "The cat sat on the mat .".split(),
    ["Hi"],
    "A pneumonoultramicroscopicsilicovolcanoconiosisspecialistsconference met 老师 in 北京 .".split(),
]


def write_pair(folder: Path, residual: bool = True, n_highway: int = 2, scale: float = 0.5) -> Path:
    """Files as the original program writes them, from the layout in its own words."""
    pick = np.random.default_rng(3)
    filters, char, proj, cell = [[1, 4], [2, 6], [4, 9]], 5, 6, 10
    total = sum(number for _, number in filters)

    def some(*shape: int, scale: float = 0.5) -> Any:
        return pick.normal(0, scale, shape).astype(np.float32)

    arrays = {"char_embed": some(261, char), "CNN_proj/W_proj": some(total, proj), "CNN_proj/b_proj": some(proj)}
    for number, (width, count) in enumerate(filters):
        arrays[f"CNN/W_cnn_{number}"], arrays[f"CNN/b_cnn_{number}"] = some(1, width, char, count), some(count)
    for number in range(n_highway):
        for part in ("carry", "transform"):
            arrays[f"CNN_high_{number}/W_{part}"] = some(total, total)
            arrays[f"CNN_high_{number}/b_{part}"] = some(total)
    for way in range(2):
        for layer in range(2):
            name = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            arrays[f"{name}/W_0"] = some(2 * proj, 4 * cell, scale=scale)
            arrays[f"{name}/B"], arrays[f"{name}/W_P_0"] = some(4 * cell), some(cell, proj, scale=3 * scale)
    options = {
        "lstm": {
            "cell_clip": 3,
            "proj_clip": 3,
            "n_layers": 2,
            "projection_dim": proj,
            "dim": cell,
            "use_skip_connections": residual,
        },
        "char_cnn": {
            "embedding": {"dim": char},
            "filters": filters,
            "n_highway": n_highway,
            "n_characters": 262,
            "max_characters_per_token": 50,
            "activation": "relu",
        },
    }
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    (folder / "options.json").write_text(json.dumps(options))
    return folder


@pytest.mark.parametrize("residual", [False, True])
def test_every_layer_equals_the_twin(tmp_path: Path, residual: bool) -> None:
    folder = write_pair(tmp_path / "pair", residual)
    twin, model = Twin(folder / "options.json", folder / "weights.hdf5"), firth.load(folder)
    for sentence in SENTENCES:
        np.testing.assert_allclose(model.layers(sentence).hidden, twin.layers(sentence), atol=1e-5)


@pytest.mark.parametrize("residual", [False, True])
def test_clips_equal_the_twin(tmp_path: Path, residual: bool) -> None:
    """Wild weights, where rounding grows: in double precision."""
    folder = write_pair(tmp_path / "pair", residual, scale=1.5)
    twin, loaded = Twin(folder / "options.json", folder / "weights.hdf5"), firth.load(folder)
    assert isinstance(loaded, ElmoModel)
    model = ElmoModel(loaded.config, loaded.rules, [])
    model.model.load_state_dict(loaded.model.state_dict())
    model.model.double()
    model.cache = TokenCache(model.model)
    with torch.inference_mode():
        found = dict(model._read(SENTENCES))
    wanted = [twin.layers(sentence) for sentence in SENTENCES]
    for number, layers in enumerate(wanted):
        np.testing.assert_allclose(found[number].numpy(), layers, atol=1e-9)
    assert any((np.abs(layers[1]) == 3).any() for layers in wanted), "the clips must have been at work"


def test_together_as_alone(tmp_path: Path) -> None:
    """Padding changes no word, and neither does the order of the sentences."""
    model: Any = firth.load(write_pair(tmp_path / "pair"))
    with torch.inference_mode():
        together, turned = dict(model._read(SENTENCES)), dict(model._read(SENTENCES[::-1]))
    for number, sentence in enumerate(SENTENCES):
        alone = model.layers(sentence).hidden
        np.testing.assert_allclose(together[number].numpy(), alone, atol=1e-5)
        np.testing.assert_allclose(turned[len(SENTENCES) - 1 - number].numpy(), alone, atol=1e-5)


def test_each_direction_sees_one_side_only(tmp_path: Path) -> None:
    model = firth.load(write_pair(tmp_path / "pair"))
    first = model.layers("The cat sat on the mat".split()).hidden
    other = model.layers("The cat sat under the mat".split()).hidden
    half = model.dim // 2
    for layer in (1, 2):
        np.testing.assert_array_equal(first[layer, :3, :half], other[layer, :3, :half])
        np.testing.assert_array_equal(first[layer, 4:, half:], other[layer, 4:, half:])
        assert np.abs(first[layer, 3:, :half] - other[layer, 3:, :half]).max() > 1e-3
        assert np.abs(first[layer, :4, half:] - other[layer, :4, half:]).max() > 1e-3
    np.testing.assert_array_equal(np.delete(first[0], 3, 0), np.delete(other[0], 3, 0))


def test_written_as_read(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "pair")
    config, weights = load_elmo(folder / "options.json", folder / "weights.hdf5")
    (tmp_path / "again").mkdir()
    save_elmo(tmp_path / "again", config, weights)
    one, two = (read_arrays(path / "weights.hdf5") for path in (folder, tmp_path / "again"))
    assert set(one) == set(two)
    for name, array in one.items():
        np.testing.assert_array_equal(array, two[name])
    options = json.loads((tmp_path / "again" / "options.json").read_text())
    given = json.loads((folder / "options.json").read_text())
    assert {key: options[key] for key in given} == given
    save_elmo(folder, config, weights)
    assert (folder / "weights.hdf5").read_bytes() == (tmp_path / "again" / "weights.hdf5").read_bytes()


def test_found_by_folder_file_and_published_names(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "pair")
    wanted = firth.load(folder).encode("A cat.")
    np.testing.assert_array_equal(firth.load(folder / "weights.hdf5").encode("A cat."), wanted)
    for name in ("options.json", "weights.hdf5"):
        (folder / name).rename(folder / f"elmo_2x_{name}")
    np.testing.assert_array_equal(firth.load(folder).encode("A cat."), wanted)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_pair(tmp_path / "pair")
    options = folder / "options.json"
    good = options.read_text()
    options.write_text(good.replace('"dim": 10', '"dim": 11'))
    with pytest.raises(firth.FirthError, match=r"W_0' has shape \(12, 40\), but the options ask for \(12, 44\)"):
        firth.load(folder)
    options.write_text(good.replace('"n_highway": 2', '"n_highway": 3'))
    with pytest.raises(firth.FirthError, match="'CNN_high_2/W_carry' is missing"):
        firth.load(folder)
    options.write_text(good.replace('"n_highway": 2', '"n_highway": 1'))
    with pytest.raises(firth.FirthError, match="weights that the options do not speak of"):
        firth.load(folder)
    options.write_text('{"lstm": {}}')
    with pytest.raises(firth.FirthError, match="not the options of an ELMo with characters"):
        firth.load(folder)
    options.write_text(good)
    (folder / "weights.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(firth.FirthError, match="not a whole HDF5 file"):
        firth.load(folder)
    options.unlink()
    with pytest.raises(firth.FirthError, match="no ELMo here"):
        firth.load(folder / "weights.hdf5")
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(firth.FirthError, match=r"pip install 'firth\[elmo\]'"):
        read_arrays(folder / "weights.hdf5")
