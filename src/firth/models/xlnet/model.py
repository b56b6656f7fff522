"""A trained two-stream model with its tokenizer: vectors from the content stream, guesses from the query stream.

Its texts end with [SEP] [CLS], and [CLS] is of segment 2. Masks are not seen by anyone.

B batch, T tokens, P picked tokens, D hidden size, L layers.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.files import read_json, save_tensors, write_json
from firth.core.types import Encoding, Frame, Inputs, TextReader
from firth.models.shared.masked_model import MaskedModel
from firth.models.shared.model import loading, require_room
from firth.models.shared.published import ACTIVATIONS, Published, Weights, activation_name
from firth.models.xlnet.config import TwoStreamConfig
from firth.models.xlnet.network import TwoStream
from firth.nn.layers import pool_tokens
from firth.tokenizers.pieces import Pieces

_SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_dim": "d_model",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "ffn_dim": "d_inner",
    "dropout_prob": "dropout",
    "norm_eps": "layer_norm_eps",
    "init_std": "initializer_range",
    "max_positions": "max_positions",  # ours alone
}
_DEFAULTS = {"d_model": 1024, "n_layer": 24, "n_head": 16, "d_inner": 4096, "vocab_size": 32000}
_PLAIN = {
    "attention_norm.weight": "rel_attn.layer_norm.weight",
    "attention_norm.bias": "rel_attn.layer_norm.bias",
    "ffn.inner.weight": "ff.layer_1.weight",
    "ffn.inner.bias": "ff.layer_1.bias",
    "ffn.outer.weight": "ff.layer_2.weight",
    "ffn.outer.bias": "ff.layer_2.bias",
    "ffn_norm.weight": "ff.layer_norm.weight",
    "ffn_norm.bias": "ff.layer_norm.bias",
}
_BIASES = {"content_bias": "r_w_bias", "distance_bias": "r_r_bias", "segment_bias": "r_s_bias"}


def save_xlnet(folder: Path, config: TwoStreamConfig, model: Weights, bias: torch.Tensor, pieces: Any) -> None:
    """``config.json`` and ``model.safetensors`` of an XLNetLMHeadModel; ``pieces`` names the special ids."""
    heads = (config.num_heads, config.hidden_dim // config.num_heads)
    tensors = {
        "transformer.word_embedding.weight": model["embeddings.tokens.weight"],
        "transformer.mask_emb": model["embeddings.unseen"][None, None],
        "lm_loss.bias": bias,
    }
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}.", f"transformer.layer.{layer}."
        attention = f"{ours}attention."
        key, value = model[f"{attention}key_value.weight"].chunk(2)
        matrices = {"q": model[f"{attention}query.weight"], "k": key, "v": value}
        matrices["r"] = model[f"{attention}distance.weight"]
        tensors |= {f"{theirs}rel_attn.{name}": matrix.T.unflatten(1, heads) for name, matrix in matrices.items()}
        tensors[f"{theirs}rel_attn.o"] = model[f"{attention}out.weight"].unflatten(1, heads)
        tensors[f"{theirs}rel_attn.seg_embed"] = model[f"{attention}segments"].transpose(0, 1)
        tensors |= {f"{theirs}rel_attn.{its}": model[attention + mine][:, 0] for mine, its in _BIASES.items()}
        tensors |= {theirs + its: model[ours + mine] for mine, its in _PLAIN.items()}
    save_tensors(folder / "model.safetensors", tensors)
    write_json(
        folder / "config.json",
        {
            "architectures": ["XLNetLMHeadModel"],
            "model_type": "xlnet",
            **{theirs: getattr(config, ours) for ours, theirs in _SETTINGS.items()},
            "d_head": heads[1],
            "ff_activation": activation_name(config.activation),
            "attn_type": "bi",
            "bi_data": False,
            "clamp_len": -1,
            "mem_len": None,
            "pad_token_id": pieces.pad_id,
            "bos_token_id": pieces.cls_id,
            "eos_token_id": pieces.sep_id,
            "tie_word_embeddings": True,
        },
    )


def _config(data: Any, where: Path) -> TwoStreamConfig:
    data = {**_DEFAULTS, **data}
    activation = ACTIVATIONS.get(str(data.get("ff_activation", "gelu")))
    if activation is None or data.get("attn_type", "bi") != "bi" or data.get("clamp_len", -1) > 0:
        raise FirthError(
            f"{where}: this XLNet uses an activation, attention or distances that Firth does not know (ff_activation, attn_type, clamp_len)"
        )
    given = {ours: data[theirs] for ours, theirs in _SETTINGS.items() if theirs in data}
    return TwoStreamConfig.build({**given, "activation": activation}, where)


def load_xlnet(folder: Path) -> tuple[TwoStreamConfig, Weights, torch.Tensor | None]:
    """Config, weights and the bias of the output; nothing missing, nothing left over."""
    config = _config(read_json(folder / "config.json"), folder / "config.json")
    published = Published(folder, "an XLNet", _prefixed)
    take = published.take
    model = {
        "embeddings.tokens.weight": take("transformer.word_embedding.weight"),
        "embeddings.unseen": take("transformer.mask_emb")[0, 0],
    }
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}.", f"transformer.layer.{layer}."
        attention, its = f"{ours}attention.", f"{theirs}rel_attn."
        model[f"{attention}query.weight"] = take(f"{its}q").flatten(1).T
        model[f"{attention}key_value.weight"] = torch.cat([take(its + name).flatten(1).T for name in ("k", "v")])
        model[f"{attention}distance.weight"] = take(f"{its}r").flatten(1).T
        model[f"{attention}out.weight"] = take(f"{its}o").flatten(1)
        model[f"{attention}segments"] = take(f"{its}seg_embed").transpose(0, 1)
        model |= {attention + mine: take(its + name)[:, None] for mine, name in _BIASES.items()}
        model |= {ours + mine: take(theirs + name) for mine, name in _PLAIN.items()}
    published.drop_tied("lm_loss.weight", model["embeddings.tokens.weight"])
    bias = published.tensors.pop("lm_loss.bias", None)
    published.finish()
    return config, model, bias


def _prefixed(name: str) -> str:
    """The model alone is saved without its prefix."""
    return name if name.startswith(("transformer.", "lm_loss.")) else f"transformer.{name}"


_CLS_SEGMENT = 2


class XlnetModel(MaskedModel):
    """What ``firth.load`` gives for XLNet."""

    kind = "two-stream encoder"
    spec_name = "xlnet"
    encoder: TwoStream

    def __init__(
        self,
        config: TwoStreamConfig,
        weights: dict[str, torch.Tensor],
        bias: torch.Tensor | None,
        pieces: Pieces,
        where: Path,
    ) -> None:
        super().__init__(pieces, config.hidden_dim, config.num_layers, config.max_positions)
        self.config, self.bias = config, bias
        self.encoder = TwoStream(config)
        with loading(where):
            self.encoder.load_state_dict(weights)
        require_room(pieces.vocab_size, config.vocab_size, where)
        self.encoder.eval()

    @property
    def num_parameters(self) -> int:
        weights = sum(parameter.numel() for parameter in self.encoder.parameters())
        return weights + (0 if self.bias is None else len(self.bias))

    @property
    def can_guess(self) -> bool:
        return self.bias is not None

    def reader(self) -> TextReader:
        """The content stream for a task: A [SEP] B [SEP] [CLS], the last of which speaks for the text."""
        reader = super().reader()
        if not reader.frame.before:
            return reader
        frame = Frame((), reader.frame.between, reader.frame.after + reader.frame.before, _CLS_SEGMENT)
        return replace(reader, frame=frame, summary="last")

    def _windows(self, encoding: Encoding) -> list[NDArray[np.int64]]:
        """As for other encoders, but both special tokens stand at the end."""
        size, room = len(encoding.ids), self.max_positions - 2
        if size <= room + 2:
            return [np.arange(size)]
        ending = np.asarray([size - 2, size - 1])
        return [
            np.concatenate((np.arange(start, min(start + room, size - 2)), ending))
            for start in range(0, size - 2, room)
        ]

    def _segments(self, ids_BT: torch.Tensor) -> torch.Tensor:
        return torch.eq(ids_BT, _known(self.pieces.cls_id)) * _CLS_SEGMENT

    def _inputs(self, ids_BT: torch.Tensor, doc_ids_BT: torch.Tensor | None = None) -> Inputs:
        return Inputs(ids_BT, doc_ids_BT, segments=self._segments(ids_BT))

    def _looks(self, ids_BT: torch.Tensor, segments_T: NDArray[np.int64]) -> torch.Tensor:
        return self.encoder.attention(Inputs(ids_BT, segments=torch.from_numpy(segments_T)[None]))

    def _guess(self, picks_BP: torch.Tensor, ids_BT: torch.Tensor) -> torch.Tensor:
        assert self.bias is not None
        seen_BTT = torch.ne(ids_BT, _known(self.pieces.mask_id))[:, None].expand(-1, ids_BT.shape[1], -1)
        hidden_BPD, _ = self.encoder.predicted(picks_BP, ids_BT, seen_BTT, self._segments(ids_BT))
        return functional.linear(hidden_BPD, self.encoder.embeddings.tokens.weight, self.bias)

    def _pool(self, hidden_BTD: torch.Tensor, mask_BT: torch.Tensor, pool: str) -> torch.Tensor:
        return pool_tokens(hidden_BTD, mask_BT, "last" if pool == "cls" else pool)


def _known(number: int | None) -> int:
    """An id, or one that no token has."""
    return -1 if number is None else number
