"""Published directories, strictly: no weight missing, none left over; the shared encoder both ways, by an ``EncoderFormat``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firth.core.config import require_memory
from firth.core.errors import FirthError
from firth.core.files import foreign_errors, load_tensors, read_json, save_tensors, write_json
from firth.core.registry import spec_of_model_type, specs
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.shards import INDEXES, load_shards
from firth.nn.layers import without_numbers

Weights = dict[str, torch.Tensor]
Names = Mapping[str, str | list[str]]
"""Our name of a weight: theirs, or those of the parts that we keep as one matrix."""
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
"""What transformers calls an activation: what we call it. Of several names the first is written."""
_FILES = ("model.safetensors", "pytorch_model.bin")


def activation_name(ours: str, known: Mapping[str, str] = ACTIVATIONS) -> str:
    """The published name of an activation."""
    return next(theirs for theirs, name in known.items() if name == ours)


def scatter(weights: Mapping[str, torch.Tensor], names: Names) -> Weights:
    """Weights by their published names: what ``Published.gather`` undoes. Matrices that are one with us are parted."""
    found: Weights = {}
    for ours, theirs in names.items():
        parts = [theirs] if isinstance(theirs, str) else theirs
        found |= zip(parts, weights[ours].chunk(len(parts)), strict=True)
    return found


def join_parts(parts: Mapping[str, Weights]) -> Weights:
    """The weights of several parts in one table, names prefixed by their part."""
    return {f"{part}.{name}": tensor for part, weights in parts.items() for name, tensor in weights.items()}


def split_parts(tensors: Weights) -> dict[str, Weights]:
    """And back."""
    parts: dict[str, Weights] = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = tensor
    return parts


def read_config(folder: Path) -> Any:
    """The ``config.json`` of a model, an object with names."""
    path = folder / "config.json"
    found = read_json(path)
    if not isinstance(found, dict):
        raise FirthError(f"{path}: not the description of a model; copy it again")
    return found


def require_fit(build: Callable[[], nn.Module], weights: Mapping[str, torch.Tensor], where: Path) -> None:
    """Refuses settings that ask for more numbers than the weights have, before memory is taken for them."""
    with without_numbers():
        network = build()
    wanted = sum(tensor.numel() for tensor in network.state_dict().values())
    there = sum(tensor.numel() for tensor in weights.values())
    if wanted > there:
        raise FirthError(
            f"{where}: weights and config do not fit (the config asks for {wanted:,} numbers, the weights are {there:,}); are the files of one model?"
        )
    tables = sum(buffer.numel() * buffer.element_size() for buffer in network.buffers())
    require_memory(tables, f"{where}: a model of this length", "lower the positions in its config")


class Published:
    """``title`` is what the weights should be, with its article: "a BERT"."""

    def __init__(self, folder: Path, title: str, rename: Callable[[str], str] = str) -> None:
        path = next((folder / name for name in (*_FILES, *INDEXES) if (folder / name).is_file()), None)
        if path is None:
            raise FirthError(
                f"{folder}: no weights here (neither {' nor '.join(_FILES)}); copy them into the folder of config.json"
            )
        self.path = path
        self.title = title
        self.tensors = {
            rename(name): tensor.float() if tensor.is_floating_point() else tensor
            for name, tensor in (load_shards if path.suffix == ".json" else load_tensors)(path).items()
        }

    def take(self, name: str) -> torch.Tensor:
        if name not in self.tensors:
            raise FirthError(f"{self.path}: '{name}' is missing; is the file whole and {self.title}?")
        return self.tensors.pop(name)

    def gather(self, names: Names) -> Weights:
        """Weights by our names; where there are several of theirs they become one matrix."""
        found: Weights = {}
        for ours, theirs in names.items():
            parts = [self.take(name) for name in ([theirs] if isinstance(theirs, str) else theirs)]
            if len({part.shape for part in parts}) > 1:
                raise FirthError(f"{self.path}: {', '.join(theirs)} differ in shape; are the files of one model?")
            found[ours] = parts[0] if len(parts) == 1 else torch.cat(parts)
        return found

    def drop_tied(self, name: str, table: torch.Tensor) -> None:
        """An output table that is there as well must be the token table."""
        output = self.tensors.pop(name, None)
        if output is not None and not torch.equal(output, table):
            raise FirthError(
                f"{self.path}: an output table of its own (untied), which Firth does not read; tie it to the tokens"
            )

    def finish(self, known: Callable[[str], bool] = lambda name: False) -> None:
        """Refuses what was not taken, but for what is ``known`` to say nothing new."""
        left = sorted(name for name in self.tensors if not known(name))
        if left:
            raise FirthError(
                f"{self.path}: weights that are not part of {self.title} ({', '.join(left[:3])}); is this another architecture?"
            )


Json = Mapping[str, object]
BERT_OUTSIDE = {  # ours: theirs, after the prefix of the encoder
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.segments": "embeddings.token_type_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
}
BERT_BLOCK: Mapping[str, str | tuple[str, ...]] = {
    "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "ffn.inner": "intermediate.dense",
    "ffn.outer": "output.dense",
    "ffn_norm": "output.LayerNorm",
}
BERT_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "ffn_dim": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "dropout_prob": "hidden_dropout_prob",
    "attention_dropout_prob": "attention_probs_dropout_prob",
    "norm_eps": "layer_norm_eps",
    "init_std": "initializer_range",
}
_PLAIN = {
    "positions": "learned",
    "norm": "layer",
    "bias": True,
    "norm_first": False,
    "gated": False,
    "share_layers": False,
    "window": None,
}


def has_shape(config: EncoderConfig, shape: Json) -> bool:
    """Whether these settings are as given."""
    return all(getattr(config, name) == value for name, value in shape.items())


def has_plain_blocks(config: EncoderConfig) -> bool:
    """Whether the classes of BERT and its kin compute what this model does, embeddings apart."""
    return has_shape(config, _PLAIN)


def held_by_bert(config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
    """Plain blocks under plain embeddings, and any head but that of replaced tokens."""
    fits = has_plain_blocks(config) and config.embedding_dim is None and not config.num_tasks
    fits = fits and config.pooler_activation == "tanh" and not config.published_as
    return config if fits and "replaced_head" not in heads else None


Heads = Mapping[str, Mapping[str, str]]
"""By the name of the part, ours: theirs."""


@dataclass(frozen=True)
class EncoderFormat:
    """What the published directories of a model call its parts, and which settings all of them have."""

    classes: Mapping[str, str]  # model_type: what the names of transformers' classes begin with; the first is the usual
    title: str
    heads: Heads
    architectures: tuple[tuple[str, str], ...]  # (heads, ending of the class): the first whose heads are all there
    output: str  # the output table, which is the token table once more
    prefix: str = ""  # of the encoder's weights; "": the model_type
    text_heads: Heads = field(default_factory=dict)  # those of pooler and classifier where a text gets a label
    outside: Mapping[str, str] = field(default_factory=lambda: BERT_OUTSIDE)  # parts of the encoder outside its blocks
    layer: str = "encoder.layer.{}"
    block: Mapping[str, str | tuple[str, ...]] = field(default_factory=lambda: BERT_BLOCK)
    settings: Mapping[str, str] = field(default_factory=lambda: BERT_SETTINGS)  # ours: theirs
    activation: str = "hidden_act"
    head_activation: str = (
        ""  # of the head over tokens, where it is not that of the layers: a setting of theirs, or a name
    )
    defaults: Json = field(default_factory=dict)  # theirs, where they are not BERT's
    required: Json = field(default_factory=dict)  # theirs, which all models have that Firth reads
    shape: Json = field(default_factory=dict)  # ours, which all models have
    text_shape: Json = field(default_factory=dict)  # ours, where ``text_heads`` are there
    switch: str | None = None  # a setting that must be true for the embeddings of tasks to count
    offset: bool = False  # whether the rows of positions begin behind that of the padding
    ignored: tuple[str, ...] = ()  # beginnings of the names of weights that a model here has no use for
    held: Callable[[EncoderConfig, set[str]], EncoderConfig | None] | None = None
    """The settings that such a directory says of a model with these heads; None where it cannot hold the model. Without it,
    models are held that were read from one."""
    reads: Callable[[Json, Path], Json] = lambda data, where: {}
    """Further settings of ours from theirs."""
    writes: Callable[[EncoderConfig], Json] = lambda config: {}
    """And theirs from ours."""

    @property
    def model_type(self) -> str:
        return next(iter(self.classes))

    def holds(self, config: EncoderConfig, heads: set[str]) -> EncoderConfig | None:
        if self.held is not None:
            return self.held(config, heads)
        if "token_head" in heads and config.activation != ACTIVATIONS.get(self.head_activation, config.activation):
            return None
        fits = config.published_as in self.classes and has_shape(config, self.shape) and not config.num_tasks
        return config if fits and heads <= set(self.heads) | set(self.text_heads) else None

    def names_of_heads(self, labels_texts: bool) -> dict[str, Mapping[str, str]]:
        return {**self.heads, **(self.text_heads if labels_texts else {})}


def bert_heads(prefix: str) -> dict[str, dict[str, str]]:
    """The heads of BERT, and of models whose directories differ from BERT's in the prefix alone."""
    return {
        "token_head": {
            "dense.weight": "cls.predictions.transform.dense.weight",
            "dense.bias": "cls.predictions.transform.dense.bias",
            "norm.weight": "cls.predictions.transform.LayerNorm.weight",
            "norm.bias": "cls.predictions.transform.LayerNorm.bias",
            "bias": "cls.predictions.bias",
        },
        "pooler": {"dense.weight": f"{prefix}.pooler.dense.weight", "dense.bias": f"{prefix}.pooler.dense.bias"},
        "pair_head": {"weight": "cls.seq_relationship.weight", "bias": "cls.seq_relationship.bias"},
        **TASK_HEADS,
    }


TASK_HEADS = {
    "classifier": {"weight": "classifier.weight", "bias": "classifier.bias"},
    "spans": {"weight": "qa_outputs.weight", "bias": "qa_outputs.bias"},
}
LM_HEAD = {  # of RoBERTa and those after it
    "dense.weight": "lm_head.dense.weight",
    "dense.bias": "lm_head.dense.bias",
    "norm.weight": "lm_head.layer_norm.weight",
    "norm.bias": "lm_head.layer_norm.bias",
    "bias": "lm_head.bias",
}
DENSE_CLASSIFIER = {  # a classifier of two layers, of which the first is what a pooler is elsewhere
    "pooler": {"dense.weight": "classifier.dense.weight", "dense.bias": "classifier.dense.bias"},
    "classifier": {"weight": "classifier.out_proj.weight", "bias": "classifier.out_proj.bias"},
}
TASK_CLASSES = (
    ("classifier pooler", "ForSequenceClassification"),
    ("classifier", "ForTokenClassification"),
    ("spans", "ForQuestionAnswering"),
)
BERT_CLASSES = (*TASK_CLASSES, ("pair_head", "ForPreTraining"), ("token_head", "ForMaskedLM"), ("", "Model"))
MASKED_CLASSES = (*TASK_CLASSES, ("token_head", "ForMaskedLM"), ("", "Model"))
BERT_OUTPUT = "cls.predictions.decoder.weight"
_BIASES = {  # another name for the same
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "lm_head.decoder.bias": "lm_head.bias",
    "predictions.decoder.bias": "predictions.bias",
}
_OWN = "firth-encoder"
_HEADS = "heads.safetensors"


def find_encoder_format(folder: Path) -> EncoderFormat | None:
    """The published format of a directory; None for one with Firth's own names."""
    data = read_config(folder)
    if data.get("model_type") == _OWN:
        return None
    spec = spec_of_model_type(str(data.get("model_type")))
    if spec is None or spec.encoder_format is None:
        known = [kind for one in specs().values() if one.encoder_format is not None for kind in one.model_types]
        raise FirthError(
            f"{folder / 'config.json'}: a model of type '{data.get('model_type')}', which is no encoder like BERT; Firth reads {', '.join(known)} here"
        )
    return spec.encoder_format()


def format_for(config: EncoderConfig, heads: set[str]) -> tuple[EncoderFormat, EncoderConfig] | None:
    """The first published format that can hold a model with these heads, and the settings that it says."""
    for spec in specs().values():
        kind = None if spec.encoder_format is None else spec.encoder_format()
        held = None if kind is None else kind.holds(config, heads)
        if kind is not None and held is not None:
            return kind, held
    return None


def save_encoder(folder: Path, config: EncoderConfig, encoder: Weights, heads: dict[str, Weights], pad_id: int) -> None:
    """The directory of the first model that can hold this one; heads that it has no names for go into a file of their own."""
    found = format_for(config, set(heads))
    if found is None:
        save_tensors(folder / "model.safetensors", join_parts({"encoder": encoder, **heads}))
        write_json(folder / "config.json", {"model_type": _OWN, "pad_token_id": pad_id, "encoder": config.model_dump()})
        return
    kind, held = found
    placed = {part: weights for part, weights in heads.items() if part in kind.heads}
    others = {part: weights for part, weights in heads.items() if part not in kind.heads}
    if others:
        save_tensors(folder / _HEADS, join_parts(others))
    save_published(folder, held, encoder, placed, pad_id, kind)


def task_format(config: EncoderConfig, heads: set[str]) -> EncoderFormat | None:
    """The published format that can hold an encoder with these heads of a task; None where there is none."""
    for spec in specs().values():
        kind = spec.encoder_format() if spec.encoder_format is not None and spec.has_task_heads else None
        if (
            kind is not None
            and heads <= kind.heads.keys() | kind.text_heads.keys()
            and kind.holds(config, heads) == config
        ):
            return kind
    return None


def load_encoder(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights and those of the heads that are there; the weights are as many as the config asks."""
    with foreign_errors(folder, "an encoder that can be read"):
        config, encoder, heads = _load_parts(folder)
        require_fit(lambda: Encoder(config), encoder, folder)
        return config, encoder, heads


def _load_parts(folder: Path) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    kind = find_encoder_format(folder)
    if kind is not None:
        config, encoder, heads = load_published(folder, kind)
        others = split_parts(load_tensors(folder / _HEADS)) if (folder / _HEADS).is_file() else {}
        return config, encoder, {**heads, **others}
    where = folder / "config.json"
    config = EncoderConfig.build(read_config(folder).get("encoder"), where)
    parts = split_parts(load_tensors(folder / "model.safetensors"))
    if "encoder" not in parts:
        raise FirthError(f"{folder / 'model.safetensors'}: no encoder in it; copy it again")
    return config, parts.pop("encoder"), parts


def save_published(
    folder: Path,
    config: EncoderConfig,
    encoder: Weights,
    heads: dict[str, Weights],
    pad_id: int,
    kind: EncoderFormat,
    more: Json | None = None,
) -> None:
    """``config.json`` (with ``more`` in it) and ``model.safetensors`` with the published names."""
    if kind.offset and "embeddings.positions.weight" in encoder:
        table = encoder["embeddings.positions.weight"]
        unused = table.new_zeros(pad_id + 1, table.shape[1])
        encoder = {**encoder, "embeddings.positions.weight": torch.cat((unused, table))}
    tensors = scatter(encoder, _names(kind, config))
    names = kind.names_of_heads({"classifier", "pooler"} <= set(heads))
    for part, weights in heads.items():
        tensors |= {names[part][name]: tensor for name, tensor in weights.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(folder / "config.json", config_to_json(kind, config, set(heads), pad_id) | dict(more or {}))


def load_published(folder: Path, kind: EncoderFormat) -> tuple[EncoderConfig, Weights, dict[str, Weights]]:
    """Config, the encoder's weights, and the heads that are there; nothing missing, nothing left over."""
    data = read_config(folder)
    config = config_from_json(kind, data, folder / "config.json")
    published = Published(folder, f"a {kind.title}", lambda name: _spelling(name, kind))
    tensors = published.tensors
    for repeated, bias in _BIASES.items():
        if bias not in tensors and repeated in tensors:
            tensors[bias] = tensors[repeated]
    encoder = published.gather(_names(kind, config))
    if kind.offset and "embeddings.positions.weight" in encoder:
        encoder["embeddings.positions.weight"] = encoder["embeddings.positions.weight"][_offset(data) :].clone()
    published.drop_tied(kind.output, encoder["embeddings.tokens.weight"])
    labels_texts = any(name in tensors for name in kind.text_heads.get("classifier", {}).values())
    if labels_texts:
        config = config.replace(**kind.text_shape)
    heads = {
        part: published.gather(names)
        for part, names in kind.names_of_heads(labels_texts).items()
        if any(name in tensors for name in names.values())
    }
    if "token_head" in heads and kind.head_activation:
        asked = {**kind.defaults, **data}.get(kind.head_activation, kind.head_activation)
        if ACTIVATIONS.get(str(asked)) != config.activation:
            raise FirthError(
                f"{folder / 'config.json'}: the head of this {kind.title} has another activation ({asked}) than its layers, which Firth does not read"
            )
    unused = (f"{kind.prefix or kind.model_type}.embeddings.position_ids", *kind.ignored)
    published.finish(lambda name: name in _BIASES or name.startswith(unused))
    return config, encoder, heads


def config_to_json(kind: EncoderFormat, config: EncoderConfig, heads: set[str], pad_id: int) -> dict[str, object]:
    model_type = config.published_as if config.published_as in kind.classes else kind.model_type
    ending = next(name for needed, name in kind.architectures if set(needed.split()) <= heads)
    settings = {theirs: getattr(config, ours) for ours, theirs in kind.settings.items()}
    if kind.offset:
        settings[kind.settings["max_positions"]] += pad_id + 1
    return {
        "architectures": [kind.classes[model_type] + ending],
        "model_type": model_type,
        **settings,
        **({kind.switch: True} if kind.switch else {}),
        **kind.required,
        kind.activation: activation_name(config.activation),
        "pad_token_id": pad_id,
        "tie_word_embeddings": True,
        **kind.writes(config),
    }


def config_from_json(kind: EncoderFormat, data: object, where: Path) -> EncoderConfig:
    found = data.get("model_type") if isinstance(data, dict) else None
    if not isinstance(data, dict) or found not in kind.classes:
        raise FirthError(
            f"{where}: a model of type '{found}', which is not {kind.title}; Firth reads {kind.title} directories here"
        )
    data = {kind.activation: "gelu", **kind.defaults, **data}
    activation = ACTIVATIONS.get(str(data[kind.activation]))
    if activation is None or data.get("position_embedding_type", "absolute") != "absolute":
        raise FirthError(
            f"{where}: this {kind.title} uses an activation or positions that Firth does not know ({data[kind.activation]})"
        )
    if data.get("is_decoder") or data.get("add_cross_attention"):
        raise FirthError(
            f"{where}: this {kind.title} reads from left to right (is_decoder); Firth reads those that look both ways"
        )
    other = [name for name, value in kind.required.items() if data.get(name, value) != value]
    if other:
        asked = ", ".join(f"{name}={kind.required[name]}" for name in other)
        raise FirthError(f"{where}: this {kind.title} is built in a way that Firth does not know; it reads {asked}")
    given = {ours: data[theirs] for ours, theirs in kind.settings.items() if theirs in data}
    if kind.switch is not None and not data.get(kind.switch):
        given.pop("num_tasks", None)
    if kind.offset and isinstance(given.get("max_positions"), int):
        given["max_positions"] -= _offset(data)
    read_as = {"published_as": found} if kind.held is None else {}
    given |= {**kind.shape, "activation": activation, **kind.reads(data, where), **read_as}
    return EncoderConfig.build(given, where)


def _offset(data: Json) -> int:
    """How many rows of positions are before the first token's: positions count on from the id of the padding."""
    pad_id = data.get("pad_token_id", 1)
    return pad_id + 1 if isinstance(pad_id, int) else 2


def _names(kind: EncoderFormat, config: EncoderConfig) -> dict[str, str | list[str]]:
    """Every name of ours with theirs (three of them for queries, keys and values, where those are three)."""
    with without_numbers():
        ours = list(Encoder(config).state_dict())
    prefix = kind.prefix or kind.model_type
    found: dict[str, str | list[str]] = {}
    for name in ours:
        part, _, end = name.rpartition(".")
        if not part.startswith("blocks."):
            if part not in kind.outside and name not in kind.outside:
                raise AssertionError(f"{kind.title} has no name for {name}")
            theirs = kind.outside.get(name) or f"{kind.outside[part]}.{end}"
            found[name] = f"{prefix}.{theirs}"
            continue
        _, layer, inner = part.split(".", 2)
        base, places = f"{prefix}.{kind.layer.format(layer)}", kind.block[inner]
        if isinstance(places, str):
            found[name] = f"{base}.{places}.{end}"
        else:
            found[name] = [f"{base}.{place}.{end}" for place in places]
    return found


_BARE = ("embeddings.", "embeddings_project.", "encoder.", "pooler.", "transformer.", "layers.", "final_norm.")


def _spelling(name: str, kind: EncoderFormat) -> str:
    """Older spellings (gamma, beta) and a missing ``bert.`` prefix put right."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    own = any(name in names.values() for heads in (kind.heads, kind.text_heads) for names in heads.values())
    return f"{kind.prefix or kind.model_type}.{name}" if name.startswith(_BARE) and not own else name
