"""ELMo as it was published: ``options.json`` and ``weights.hdf5`` (Peters et al. 2018), both ways, strictly.

The file holds one matrix for input and state of a cell, and the gates of a highway layer apart; the row
of the character table for "no word" is not in it.
"""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import disk_errors, foreign_errors, read_json, sync_folder, write_json
from firth.models.elmo.config import ElmoConfig
from firth.models.shared.published import Weights

Arrays = dict[str, NDArray[np.float32]]
OPTIONS, WEIGHTS = "options.json", "weights.hdf5"


def require_h5py() -> ModuleType:
    """The library that reads HDF5, or a word about how to get it."""
    try:
        import h5py
    except ImportError:
        raise FirthError("ELMo's weights are HDF5 files, which need h5py: pip install 'firth[elmo]'") from None
    found: ModuleType = h5py
    return found


def find_pair(path: Path) -> tuple[Path, Path] | None:
    """(options, weights) if the path is a folder with both, or one of the two files, the other in the same folder; else None.

    Published pairs carry a prefix or other names: one file of each kind in a folder is a pair, too.
    """
    folder = path if path.is_dir() else path.parent
    if path.is_file() and path.suffix not in (".hdf5", ".h5", ".json"):
        return None
    options = sorted(folder.glob("*options.json"))
    weights = [path] if path.suffix in (".hdf5", ".h5") else sorted((*folder.glob("*.hdf5"), *folder.glob("*.h5")))
    if path.is_file() and path.suffix == ".json":
        options = [path]
    if len(options) > 1 or len(weights) > 1:
        stem = weights[0].name.removesuffix("weights.hdf5") if weights else ""
        options = [name for name in options if name.name == f"{stem}options.json"] or options
        if len(options) > 1 or len(weights) > 1:
            raise FirthError(f"{folder}: more than one ELMo in it; name the .hdf5 file itself")
    return (options[0], weights[0]) if options and weights else None


# -- options


def options_to_json(config: ElmoConfig, num_tokens_vocab: int | None = None) -> dict[str, Any]:
    """The published keys; programs that train on read ``n_tokens_vocab``."""
    options: dict[str, Any] = {
        "bidirectional": True,
        "char_cnn": {
            "activation": config.activation,
            "embedding": {"dim": config.char_dim},
            "filters": [list(pair) for pair in config.filters],
            "max_characters_per_token": config.max_chars,
            "n_characters": config.num_characters,
            "n_highway": config.num_highway,
        },
        "dropout": config.dropout_prob,
        "lstm": {
            "cell_clip": config.cell_clip,
            "dim": config.cell_dim,
            "n_layers": config.num_layers,
            "proj_clip": config.projection_clip,
            "projection_dim": config.projection_dim,
            "use_skip_connections": config.residual,
        },
    }
    if num_tokens_vocab is not None:
        options["n_tokens_vocab"] = num_tokens_vocab
    return options


def config_from_options(data: Any, where: Path) -> ElmoConfig:
    try:
        cnn, lstm = data["char_cnn"], data["lstm"]
        given = {
            "char_dim": cnn["embedding"]["dim"],
            "filters": cnn["filters"],
            "num_highway": cnn.get("n_highway") or 0,
            "max_chars": cnn["max_characters_per_token"],
            "activation": cnn.get("activation", "relu"),
            "cell_dim": lstm["dim"],
            "projection_dim": lstm["projection_dim"],
            "num_layers": lstm["n_layers"],
            "residual": lstm.get("use_skip_connections", False),
            "cell_clip": lstm.get("cell_clip") or 0.0,
            "projection_clip": lstm.get("proj_clip") or 0.0,
            "dropout_prob": data.get("dropout") or 0.0,
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise FirthError(
            f"{where}: not the options of an ELMo with characters ({error} is missing); check the path"
        ) from None
    return ElmoConfig.build(given, where)


# -- names


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def to_published(config: ElmoConfig, weights: Mapping[str, torch.Tensor]) -> Arrays:
    """Arrays by the names of the original."""
    ours = {name: tensor.detach().cpu().float().numpy() for name, tensor in weights.items()}
    found: Arrays = {"char_embed": ours["tokens.embedding.weight"][1:]}
    for number, (width, _) in enumerate(config.filters):
        kernel = ours[f"tokens.convolutions.{number}.weight"]  # [filters, width * char_dim]
        found[f"CNN/W_cnn_{number}"] = kernel.T.reshape(1, width, config.char_dim, -1)
        found[f"CNN/b_cnn_{number}"] = ours[f"tokens.convolutions.{number}.bias"]
    for number in range(config.num_highway):
        for kind, letter in (("weight", "W"), ("bias", "b")):
            for part, values in zip(
                ("carry", "transform"), np.split(ours[f"tokens.highways.{number}.both.{kind}"], 2), strict=True
            ):
                found[f"CNN_high_{number}/{letter}_{part}"] = values.T
    if config.project:
        found["CNN_proj/W_proj"] = ours["tokens.projection.weight"].T
        found["CNN_proj/b_proj"] = ours["tokens.projection.bias"]
    for layer in range(config.num_layers):
        part = f"readers.layers.{layer}"
        for direction in range(2):
            cell = _cell(direction, layer)
            joint = (ours[f"{part}.input_weight"][direction], ours[f"{part}.state_weight"][direction])
            found[f"{cell}/W_0"] = np.concatenate(joint)
            found[f"{cell}/B"] = ours[f"{part}.bias"][direction]
            found[f"{cell}/W_P_0"] = ours[f"{part}.projection"][direction]
    return found


def from_published(config: ElmoConfig, arrays: Arrays, where: Path) -> Weights:
    """The model's weights; nothing missing, nothing left over, every shape as the options say."""
    left = dict(arrays)

    def take(name: str, *shape: int) -> NDArray[np.float32]:
        if name not in left:
            raise FirthError(f"{where}: '{name}' is missing; is the file whole and an ELMo?")
        found = left.pop(name)
        if found.shape != shape:
            raise FirthError(
                f"{where}: '{name}' has shape {found.shape}, but the options ask for {shape}; are the files of one model?"
            )
        return found

    char_dim, num_filters, size = config.char_dim, config.num_filters, config.projection_dim
    table = take("char_embed", config.num_characters - 1, char_dim)
    ours: Arrays = {"tokens.embedding.weight": np.concatenate((np.zeros((1, char_dim), np.float32), table))}
    for number, (width, count) in enumerate(config.filters):
        kernel = take(f"CNN/W_cnn_{number}", 1, width, char_dim, count)
        ours[f"tokens.convolutions.{number}.weight"] = kernel.reshape(width * char_dim, count).T
        ours[f"tokens.convolutions.{number}.bias"] = take(f"CNN/b_cnn_{number}", count)
    for number in range(config.num_highway):
        gates = [take(f"CNN_high_{number}/W_{part}", num_filters, num_filters).T for part in ("carry", "transform")]
        biases = [take(f"CNN_high_{number}/b_{part}", num_filters) for part in ("carry", "transform")]
        ours[f"tokens.highways.{number}.both.weight"] = np.concatenate(gates)
        ours[f"tokens.highways.{number}.both.bias"] = np.concatenate(biases)
    if config.project:
        ours["tokens.projection.weight"] = take("CNN_proj/W_proj", num_filters, size).T
        ours["tokens.projection.bias"] = take("CNN_proj/b_proj", size)
    for layer in range(config.num_layers):
        cells = [_cell(direction, layer) for direction in range(2)]
        joint = [take(f"{cell}/W_0", 2 * size, 4 * config.cell_dim) for cell in cells]
        part = f"readers.layers.{layer}"
        ours[f"{part}.input_weight"] = np.stack([one[:size] for one in joint])
        ours[f"{part}.state_weight"] = np.stack([one[size:] for one in joint])
        ours[f"{part}.bias"] = np.stack([take(f"{cell}/B", 4 * config.cell_dim) for cell in cells])
        ours[f"{part}.projection"] = np.stack([take(f"{cell}/W_P_0", config.cell_dim, size) for cell in cells])
    _check_left(left, where)
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in ours.items()}


_NOT_READ = ("softmax", "Adagrad", "global_step", "train_perplexity", "lm/")  # what a training may leave in the file


def _check_left(left: Arrays, where: Path) -> None:
    extra = sorted(name for name in left if not name.startswith(_NOT_READ))
    if extra:
        raise FirthError(
            f"{where}: weights that the options do not speak of ({', '.join(extra[:3])}); are the files of one model?"
        )


# -- files


def save_elmo(
    folder: Path, config: ElmoConfig, weights: Mapping[str, torch.Tensor], num_tokens_vocab: int | None = None
) -> None:
    """Both files, each whole or not at all; the same weights give the same bytes."""
    h5py = require_h5py()
    path = folder / WEIGHTS
    temporary = folder / f".{WEIGHTS}.tmp"
    with disk_errors(path):
        try:
            with h5py.File(temporary, "w", libver="earliest", track_order=False) as file:
                for name, array in sorted(to_published(config, weights).items()):
                    file.create_dataset(name, data=np.ascontiguousarray(array), dtype="float32", track_times=False)
            temporary.replace(path)
            sync_folder(folder)
        finally:
            temporary.unlink(missing_ok=True)
    write_json(folder / OPTIONS, options_to_json(config, num_tokens_vocab))


def load_elmo(options: Path, weights: Path) -> tuple[ElmoConfig, Weights]:
    """The config and the model's weights."""
    config = config_from_options(read_json(options), options)
    with foreign_errors(weights, "the weights of an ELMo"):
        return config, from_published(config, read_arrays(weights), weights)


_MAX_RATIO, _SMALL_BYTES = 8, 1 << 20  # weights hardly compress; small arrays of zeros may


def read_arrays(path: Path) -> Arrays:
    """Every array of an HDF5 file by its full name. An array must be numbers that are in this very file: not in another
    one, not left out, not blown up from a few bytes."""
    h5py = require_h5py()
    found: Arrays = {}

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.dtype.kind not in "fiu" or item.external or item.is_virtual:
            raise ValueError(f"'{name}' is not an array of numbers in this file")
        if item.nbytes > max(_SMALL_BYTES, _MAX_RATIO * item.id.get_storage_size()):
            raise ValueError(f"'{name}' says {item.nbytes:,} bytes, but {item.id.get_storage_size():,} are there")
        found[name] = np.asarray(item[...], np.float32)

    with foreign_errors(path, "a whole HDF5 file of weights"), h5py.File(path, "r") as file:
        file.visititems(visit)
    return found
