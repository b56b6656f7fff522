"""Directories of sentence-transformers: which modules make a vector of a text, read and written, and the encoder that
does what they say.

``modules.json`` names the modules in order: Transformer (or StaticEmbedding), Pooling, then any of Dense, LayerNorm and
Normalize. ``sentence_bert_config.json`` has the longest text in tokens, ``config_sentence_transformers.json`` the prompts
and the similarity function.

N tokens of texts end to end, S texts, D hidden size, E width of the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from firth.core.config import Config
from firth.core.errors import FirthError, Later, is_installed, nearest
from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.types import BATCH_TOKENS, Floats, Frame, Inputs, Ints, TextReader, batches_by_length
from firth.nn.arrays import ACTIVATIONS, POOLS, ArrayTail, Part, Step, dense, load_arrays, norm, normalize

if TYPE_CHECKING:
    import torch
    from torch import nn

    from firth.nn import sentences as modules
    from firth.nn.sentences import Dense
else:
    torch, nn, modules = Later("torch"), Later("torch.nn"), Later("firth.nn.sentences")

MODULES, SETTINGS, PROMPTS, POOLING = (
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling",
)
_LENGTH_FILES = (
    SETTINGS,
    *(f"sentence_{kind}_config.json" for kind in ("roberta", "distilbert", "xlm-roberta", "xlnet")),
)
_LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "last",
}
_MODES = {"lasttoken" if pool == "last" else pool: pool for pool in POOLS}  # what a published file calls them
_TYPE = "sentence_transformers.models."
_QUESTION, _PASSAGE = ("query",), ("document", "passage", "corpus")
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]


class SentenceConfig(Config):
    """How a text becomes a vector, apart from the weights of the modules."""

    static: bool = False  # a table of tokens in place of a network
    network: str = ""  # the folder of the network below that of the modules
    pool: tuple[str, ...] = ("mean",)  # those of ``POOLS``, side by side
    include_prompt: bool = True  # false: the tokens of a prompt are read but not pooled
    max_len: int | None = None  # tokens, special ones included; longer texts lose their end
    lowercase: bool = False
    prompts: dict[str, str] = Field(default_factory=dict)
    default_prompt: str | None = None
    similarity: Similarity = "cosine"

    def prompt(self, name: str | None) -> str:
        """What is written before a text: a prompt by its name, or these very words."""
        if name is None:
            return self.prompts.get(self.default_prompt or "", "")
        return self.prompts.get(name, name)

    @property
    def question_prompt(self) -> str | None:
        """The name of the prompt for questions, if there is one."""
        return next((name for name in _QUESTION if name in self.prompts), None)

    @property
    def passage_prompt(self) -> str | None:
        return next((name for name in _PASSAGE if name in self.prompts), None)


@dataclass(frozen=True)
class SentenceModules:
    """The settings and the modules behind the pooling."""

    config: SentenceConfig
    tail: nn.Sequential | ArrayTail  # the second computes without torch, and does not learn

    def width(self, dim: int) -> int:
        """Of the vectors, where tokens have ``dim`` dimensions."""
        found = dim * (1 if self.config.static else len(self.config.pool))
        if isinstance(self.tail, ArrayTail):
            return self.tail.width or found
        for part in self.tail:
            found = part.linear.out_features if isinstance(part, modules.Dense) else found
        return found

    @property
    def learning(self) -> nn.Sequential:
        """The modules where they can learn and be written."""
        assert not isinstance(self.tail, ArrayTail)
        return self.tail

    def check(self, dim: int, folder: Path) -> None:
        """That each module reads vectors as wide as the one before it gives."""
        width = dim * (1 if self.config.static else len(self.config.pool))
        steps = self.tail.steps if isinstance(self.tail, ArrayTail) else [_step_of(part) for part in self.tail]
        for kind, read, given in steps:
            if read not in (None, width):
                raise FirthError(
                    f"{folder / MODULES}: {kind} reads {read} numbers, but what stands before it gives {width}; "
                    "are the files of one model?"
                )
            width = given or width

    def save(self, folder: Path, dim: int) -> None:
        """The files that sentence-transformers reads besides those of a network whose tokens have ``dim`` dimensions."""
        config = self.config
        rows = (
            [(config.network, "StaticEmbedding")]
            if config.static
            else [(config.network, "Transformer"), (POOLING, "Pooling")]
        )
        for part in self.learning:
            rows.append((f"{len(rows)}_{_kind_of(part)}", _kind_of(part)))
            _save_part(folder / rows[-1][0], part)
        if not config.static:
            (folder / POOLING).mkdir(parents=True, exist_ok=True)
            modes: dict[str, object] = {name: mode in config.pool for name, mode in _LEGACY.items()}
            if list(config.pool) != [mode for mode in _LEGACY.values() if mode in config.pool]:
                # an order that flags do not say; newer versions read it
                names = {pool: name for name, pool in _MODES.items()}
                modes["pooling_mode"] = [names[pool] for pool in config.pool]
            sizes = {"word_embedding_dimension": dim, "include_prompt": config.include_prompt}
            write_json(folder / POOLING / "config.json", {**sizes, **modes})
            write_json(folder / SETTINGS, {"max_seq_length": config.max_len, "do_lower_case": config.lowercase})
        write_json(
            folder / MODULES,
            [
                {"idx": number, "name": str(number), "path": name, "type": _TYPE + kind}
                for number, (name, kind) in enumerate(rows)
            ],
        )
        said = {"prompts": config.prompts, "default_prompt_name": config.default_prompt}
        write_json(folder / PROMPTS, {"__version__": {}, **said, "similarity_fn_name": config.similarity})


def _kind_of(part: nn.Module) -> str:
    return (
        "Dense" if isinstance(part, modules.Dense) else "LayerNorm" if isinstance(part, modules.Norm) else "Normalize"
    )


def _step_of(part: nn.Module) -> Step:
    if isinstance(part, modules.Dense):
        return "Dense", part.linear.in_features, part.linear.out_features
    return _kind_of(part), part.norm.normalized_shape[0] if isinstance(part, modules.Norm) else None, None


def _save_part(folder: Path, part: nn.Module) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(part, modules.Dense):
        kind = modules.ACTIVATIONS[part.activation]
        settings = {
            "in_features": part.linear.in_features,
            "out_features": part.linear.out_features,
            "bias": part.linear.bias is not None,
            "activation_function": f"{kind.__module__}.{kind.__qualname__}",
        }
        write_json(folder / "config.json", settings | ({"use_residual": True} if part.uses_residual else {}))
    elif isinstance(part, modules.Norm):
        write_json(folder / "config.json", {"dimension": part.norm.normalized_shape[0]})
    if any(True for _ in part.parameters()):
        save_tensors(folder / "model.safetensors", part.state_dict())


# -- reading


def read_sentence_modules(folder: Path, dim: int | None = None, arrays: bool | None = None) -> SentenceModules:
    """What ``modules.json`` says, checked; modules that Firth does not have are named. ``dim``: the width of tokens. ``arrays``:
    computed without torch, by default where that is not installed."""
    rows = _rows(folder)
    kinds = [kind for _, kind in rows]
    static = kinds[0] == "StaticEmbedding"
    if kinds[0] not in ("Transformer", "StaticEmbedding"):
        raise _refusal(folder, f"it begins with {kinds[0]}")
    config = SentenceConfig(static=static, network=rows[0][0])
    behind = rows[1:]
    if not static:
        if len(rows) < 2 or kinds[1] != "Pooling":
            raise _refusal(folder, "there is no Pooling behind the Transformer")
        config = config.replace(**_pooling(folder / rows[1][0] / "config.json"), **_lengths(folder, rows[0][0]))
        behind = rows[2:]
    config = config.replace(**_prompts(folder / PROMPTS))
    behind = [(name, kind) for name, kind in behind if kind != "Dropout"]
    tail: nn.Sequential | ArrayTail
    if not is_installed("torch") if arrays is None else arrays:
        read = [_read_arrays(folder, name, kind) for name, kind in behind]
        tail = ArrayTail([part for part, _ in read], [step for _, step in read])
    else:
        tail = nn.Sequential(*(_read_part(folder, name, kind) for name, kind in behind)).eval()
    found = SentenceModules(config, tail)
    if dim is not None:
        found.check(dim, folder)
    return found


def _refusal(folder: Path, why: str) -> FirthError:
    return FirthError(
        f"{folder / MODULES}: {why}; Firth reads Transformer and Pooling, or StaticEmbedding, then Dense, LayerNorm, Normalize"
    )


def _rows(folder: Path) -> list[tuple[str, str]]:
    """(folder, kind) of each module."""
    data = read_json(folder / MODULES)
    if not isinstance(data, list) or not data or not all(isinstance(row, dict) for row in data):
        raise FirthError(f"{folder / MODULES}: not a list of modules; copy it again")
    found = []
    for row in sorted(data, key=lambda row: int(row.get("idx", 0))):
        path, kind = str(row.get("path", "")), str(row.get("type", ""))
        path = "" if path == "." else path
        if not kind.startswith("sentence_transformers."):
            raise _refusal(folder, f"'{kind}' is code of its own, which is not run")
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise FirthError(f"{folder / MODULES}: '{path}' lies outside the folder; copy the model again")
        found.append((path, kind.rpartition(".")[2]))
    return found


def _object(path: Path) -> dict[str, object]:
    data = read_json(path)
    if not isinstance(data, dict):
        raise FirthError(f"{path}: not the settings of a module; copy it again")
    return data


def _pooling(path: Path) -> dict[str, object]:
    data = _object(path)
    said, named = {"include_prompt": bool(data.get("include_prompt", True))}, data.get("pooling_mode")
    if named is None:
        return {"pool": tuple(pool for name, pool in _LEGACY.items() if data.get(name)) or ("mean",), **said}
    modes = [named] if isinstance(named, str) else [str(mode) for mode in named] if isinstance(named, list) else []
    unknown = [mode for mode in modes if mode not in _MODES]
    if unknown or not modes:
        raise FirthError(
            f"{path}: unknown pooling '{unknown[0] if unknown else named}'; Firth knows {', '.join(_MODES)}"
        )
    return {"pool": tuple(_MODES[mode] for mode in modes), **said}


def _lengths(folder: Path, network: str) -> dict[str, object]:
    path = next((folder / network / name for name in _LENGTH_FILES if (folder / network / name).is_file()), None)
    data = {} if path is None else _object(path)
    most = data.get("max_seq_length")
    if most is None and (folder / network / "tokenizer_config.json").is_file():
        most = _object(folder / network / "tokenizer_config.json").get("model_max_length")
        most = most if isinstance(most, int) and most < 1 << 24 else None  # "no limit" is a very large number
    if most is not None and (not isinstance(most, int) or most < 1):
        raise FirthError(f"{path}: max_seq_length is {most!r}, not a number of tokens; copy it again")
    return {"max_len": most, "lowercase": bool(data.get("do_lower_case", False))}


def _prompts(path: Path) -> dict[str, object]:
    data = _object(path) if path.is_file() else {}
    prompts = data.get("prompts")
    found = {
        str(name): text
        for name, text in (prompts.items() if isinstance(prompts, dict) else ())
        if isinstance(text, str)
    }
    default, similarity = data.get("default_prompt_name"), data.get("similarity_fn_name")
    if default is not None and default not in found:
        raise FirthError(f"{path}: default_prompt_name '{default}': {nearest(str(default), found)}")
    return {"prompts": found, "default_prompt": default, "similarity": similarity or "cosine"}


def _read_arrays(folder: Path, name: str, kind: str) -> tuple[Part, Step]:
    """A module in NumPy, and the widths of what it reads and gives."""
    if kind == "Normalize":
        return normalize, (kind, None, None)
    where, data = _settings_of(folder, name, kind)
    weights = load_arrays(folder / name / "model.safetensors")
    try:
        if kind == "LayerNorm":
            size, width = int(str(data["dimension"])), 0
            shapes: dict[str, tuple[int, ...]] = {"norm.weight": (size,), "norm.bias": (size,)}
            part = norm(weights)
        else:
            (size, width), bias, activation, residual = _dense_settings(where, data)
            shapes = {"linear.weight": (width, size), **({"linear.bias": (width,)} if bias else {})}
            shapes |= {"residual.weight": (width, size)} if residual and size != width else {}
            part = dense(weights, activation, residual)
    except KeyError as error:
        raise FirthError(f"{where}: {error} is missing; copy it again") from None
    if {name: array.shape for name, array in weights.items()} != shapes:
        raise FirthError(f"{folder / name / 'model.safetensors'}: does not fit its config.json; copy it again")
    return part, (kind, size, width or None)


def _settings_of(folder: Path, name: str, kind: str) -> tuple[Path, dict[str, object]]:
    if kind not in ("Dense", "LayerNorm"):
        raise _refusal(folder, f"'{kind}' is a module that Firth does not have")
    where = folder / name / "config.json"
    return where, _object(where)


def _read_part(folder: Path, name: str, kind: str) -> nn.Module:
    if kind == "Normalize":
        return modules.Normalize()
    from firth.models.shared.published import require_fit

    where, data = _settings_of(folder, name, kind)

    def build() -> nn.Module:
        return modules.Norm(int(str(data["dimension"]))) if kind == "LayerNorm" else _dense(where, data)

    weights = next(
        (folder / name / one for one in ("model.safetensors", "pytorch_model.bin") if (folder / name / one).is_file()),
        folder / name / "model.safetensors",
    )
    tensors = load_tensors(weights)
    try:
        require_fit(build, tensors, where)
        part = build()
        part.load_state_dict(tensors)
    except KeyError as error:
        raise FirthError(f"{where}: {error} is missing; copy it again") from None
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise FirthError(f"{weights}: does not fit its config.json ({reason}); copy it again") from None
    return part


def _dense(path: Path, data: dict[str, object]) -> Dense:
    sizes, bias, activation, residual = _dense_settings(path, data)
    return modules.Dense(*sizes, bias, activation, residual)


def _dense_settings(path: Path, data: dict[str, object]) -> tuple[tuple[int, int], bool, str, bool]:
    """Sizes, bias, activation, and whether what is read is added."""
    activation = str(data.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in ACTIVATIONS:
        raise FirthError(f"{path}: unknown activation '{activation}'; Firth knows {', '.join(ACTIVATIONS)}")
    if data.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise FirthError(f"{path}: a Dense over tokens, which Firth does not have; it reads those over sentences")
    sizes = int(str(data["in_features"])), int(str(data["out_features"]))
    return sizes, bool(data.get("bias", True)), activation, bool(data.get("use_residual", False))


# -- encoding


Pooled: TypeAlias = "Callable[[Sequence[str], SentenceConfig, str], Any]"
"""Texts with a prompt before them to their pooled tokens: a tensor, or an array for modules that are arrays."""


class SentenceEncoder:
    """Texts to vectors as the modules say."""

    def __init__(self, modules: SentenceModules, pooled: Pooled) -> None:
        """``pooled`` gives the pooled tokens of texts with a prompt before them."""
        self.modules, self._pooled = modules, pooled

    @property
    def config(self) -> SentenceConfig:
        return self.modules.config

    def encode(self, texts: Sequence[str], prompt: str | None = None) -> NDArray[np.float32]:
        """float32 [S, E]."""
        said, tail = self.config.prompt(prompt), self.modules.tail
        if isinstance(tail, ArrayTail):
            return tail(self._pooled(texts, self.config, said))
        with torch.inference_mode():
            found: Floats = tail(self._pooled(texts, self.config, said)).float().cpu().numpy()
            return found

    def similarity(self, first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
        """[S, S'] by the similarity function of the model."""
        return similarities(first, second, self.config.similarity)


def similarities(first_SE: NDArray[np.float32], second_SE: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """Every row of the first with every row of the second; distances are negative."""
    if kind in ("cosine", "dot"):
        if kind == "cosine":
            first_SE, second_SE = (
                rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (first_SE, second_SE)
            )
        return np.asarray(first_SE @ second_SE.T, np.float32)
    power = 2 if kind == "euclidean" else 1
    found = [np.linalg.norm(second_SE - row, ord=power, axis=1) for row in first_SE]
    return -np.asarray(found, np.float32).reshape(len(first_SE), len(second_SE))


def pair_similarities(first_SE: NDArray[np.float32], second_SE: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """[S]: each row of the first with that of the second; distances are negative."""
    if kind == "cosine":
        norms = np.linalg.norm(first_SE, axis=1) * np.linalg.norm(second_SE, axis=1)
        return np.asarray((first_SE * second_SE).sum(1) / np.maximum(norms, 1e-12), np.float32)
    if kind == "dot":
        return np.asarray((first_SE * second_SE).sum(1), np.float32)
    return -np.asarray(np.linalg.norm(first_SE - second_SE, 2 if kind == "euclidean" else 1, axis=1), np.float32)


def num_unpooled(reader: TextReader, config: SentenceConfig, prompt: str) -> int:
    """Tokens at the beginning of a text that are read but not pooled: those of a prompt, where it is not included."""
    if not prompt or config.include_prompt:
        return 0
    return len(reader.frame.before) + len(reader.tokenize(prompt.lower() if config.lowercase else prompt).ids)


def text_rows(reader: TextReader, config: SentenceConfig, texts: Sequence[str]) -> list[Ints]:
    """The ids of texts with the special tokens around them; what is too long loses its end."""
    given = [text.lower() for text in texts] if config.lowercase else texts
    found = [reader.tokenize(text).ids for text in given] if reader.tokenize_all is None else reader.tokenize_all(given)
    most = min((size for size in (config.max_len, reader.max_len) if size is not None), default=None)
    room = None if most is None else max(0, most - reader.frame.size(False))
    return [framed(reader.frame, ids[:room]) for ids in found]


def framed(frame: Frame, ids: Ints) -> Ints:
    """The ids of a text with the special tokens around it; with characters the same number in each place."""
    shape = (-1, *(1 for _ in ids.shape[1:]))
    before, after = (
        np.asarray(some, np.int64).reshape(shape) + np.zeros((len(some), *ids.shape[1:]), np.int64)
        for some in (frame.before, frame.after)
    )
    return np.concatenate((before, ids, after))


def device_of(module: object) -> torch.device:
    """Where the weights of a network are."""
    weights = module.parameters() if isinstance(module, nn.Module) else iter(())
    return next((weight.device for weight in weights), torch.device("cpu"))


def last_hidden(reader: TextReader, rows: Sequence[Ints]) -> tuple[torch.Tensor, list[int]]:
    """The last layer of some rows end to end, [N, D], and their lengths; with gradients where they are on. All is done on the
    device of the network."""
    lens, device = [len(row) for row in rows], device_of(reader.module)
    if reader.module.can_pack and rows[0].ndim == 1:
        inputs = Inputs(torch.from_numpy(np.concatenate(rows)).to(device))
        hidden_ND = inputs.ids.new_zeros(0)
        for hidden_ND in reader.module.packed(inputs, lens):  # noqa: B007
            pass
        return hidden_ND, lens
    longest = max(1, *lens)
    ids = np.full((len(rows), longest, *rows[0].shape[1:]), reader.pad_id, np.int64)
    mask_BT, segments_BT = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask_BT[number, : len(row)] = 1
        if reader.frame.last_segment is not None and len(row):
            segments_BT[number, len(row) - 1] = reader.frame.last_segment
    segments = None if reader.frame.last_segment is None else torch.from_numpy(segments_BT).to(device)
    mask = torch.from_numpy(mask_BT).to(device)
    hidden_BTD = reader.module.last(Inputs(torch.from_numpy(ids).to(device), mask, segments=segments))
    return hidden_BTD[mask > 0], lens


def pool_by_reader(reader: TextReader, batch_tokens: int = BATCH_TOKENS) -> Pooled:
    """How any network that reads tokens pools texts, for ``SentenceEncoder``."""

    def pooled(texts: Sequence[str], config: SentenceConfig, prompt: str) -> torch.Tensor:
        rows = text_rows(reader, config, [prompt + text for text in texts])
        skip, device = num_unpooled(reader, config, prompt), device_of(reader.module)
        found = torch.zeros(len(rows), len(config.pool) * reader.dim, device=device)
        lens_S = [len(row) for row in rows]
        for numbers in batches_by_length(lens_S, batch_tokens, padded=not reader.module.can_pack):
            some = [rows[number] for number in numbers.tolist()]
            hidden_ND, lens = last_hidden(reader, some)
            found[torch.from_numpy(numbers).to(device)] = modules.pool_sequences(hidden_ND, lens, config.pool, skip)
        return found

    return pooled
