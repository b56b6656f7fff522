"""A table of token vectors as a model of texts: a text is the mean of its tokens' rows, hundreds of times faster than a
Transformer (model2vec, Tulkens & van Dongen 2024; ``StaticEmbedding`` of sentence-transformers).

The files are those of model2vec, which sentence-transformers reads, too: ``model.safetensors`` with ``embeddings``,
``tokenizer.json``, ``config.json``, ``modules.json``.

V tokens, N tokens end to end, S texts, D width.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.types import Inputs, Layers, TextReader
from firth.models.shared.model import Model, TextLayers, require_layer, require_pool, require_room
from firth.models.shared.sentences import (
    MODULES,
    SentenceConfig,
    SentenceEncoder,
    SentenceModules,
    read_sentence_modules,
)
from firth.nn.layers import TokenNetwork
from firth.nn.sentences import Normalize
from firth.tokenizers.pieces import Pieces
from firth.vectors.word_vectors import WordVectors

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_NO_LIMIT = 1_000_000


class TokenTable(TokenNetwork):
    """A row for each token, which may learn."""

    def __init__(self, table_VD: torch.Tensor) -> None:
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(table_VD, freeze=False)

    def forward(self, inputs: Inputs) -> Layers:
        return Layers(self.tokens(inputs.ids)[None], inputs.mask)

    @property
    def can_pack(self) -> bool:
        return True

    def packed(self, inputs: Inputs, lens: Sequence[int]) -> Iterator[torch.Tensor]:
        yield self.tokens(inputs.ids)


class TokenTableModel(Model):
    """What ``firth.load`` gives for model2vec and StaticEmbedding."""

    kind = "token table"
    spec_name = "model2vec"

    def __init__(self, table_VD: torch.Tensor, pieces: Pieces, modules: SentenceModules, drops_unknown: bool) -> None:
        """``drops_unknown``: unknown tokens are not counted, as model2vec does."""
        self.network, self.pieces, self.dim = TokenTable(table_VD).eval(), pieces, table_VD.shape[1]
        self.drops_unknown = drops_unknown and pieces.unk_id is not None
        self.sentence = SentenceEncoder(modules, self._pooled)

    @property
    def num_parameters(self) -> int:
        return self.network.tokens.weight.numel()

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    def token_ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of each text that are counted."""
        found = self.pieces.batch_ids(texts)
        return [ids[ids != self.pieces.unk_id] for ids in found] if self.drops_unknown else found

    def _bags(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens of all texts end to end, and where each text begins."""
        with self.pieces.reading(special=False) as backend:
            found = [one.ids for one in backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        lens_S = np.asarray([len(ids) for ids in found], np.int64)
        ids_N = np.fromiter((number for ids in found for number in ids), np.int64, int(lens_S.sum()))
        if self.drops_unknown:
            known_N = ids_N != self.pieces.unk_id
            owner_N = np.repeat(np.arange(len(found)), lens_S)
            ids_N, lens_S = ids_N[known_N], np.bincount(owner_N[known_N], minlength=len(found))
        return torch.from_numpy(ids_N), torch.from_numpy(np.cumsum(lens_S) - lens_S)

    def _pooled(self, texts: Sequence[str], config: SentenceConfig, prompt: str) -> torch.Tensor:
        given = [prompt + text for text in texts] if prompt else texts
        if not len(given):
            return torch.zeros(0, self.dim)
        return functional.embedding_bag(*self._bag_inputs(given), mode="mean")

    def _bag_inputs(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        ids_N, starts_S = self._bags(texts)
        return ids_N, self.network.tokens.weight, starts_S

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        require_layer(layer, 1)
        require_pool(pool, self.pools)
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        ids_N, table, starts_S = self._bag_inputs(texts)
        with torch.inference_mode():
            return functional.embedding_bag(ids_N, table, starts_S, mode=pool).numpy()

    def layers(self, text: str | list[str]) -> TextLayers:
        """One layer: the rows of the tokens."""
        found = self.pieces.encode(text, add_special=False, read_special=False)
        with torch.inference_mode():
            hidden = self.network.tokens(torch.from_numpy(found.ids)).numpy()[None]
        return TextLayers(found.tokens, found.offsets, found.words, hidden)

    def reader(self) -> TextReader:
        pieces = self.pieces
        return TextReader(
            kind=self.kind,
            module=self.network,
            tokenize=lambda text: pieces.encode(text, add_special=False, read_special=False),
            dim=self.dim,
            num_layers=1,
            max_len=None,
            pad_id=pieces.pad_id or 0,
            tokenize_all=self.token_ids,
            unk_id=pieces.unk_id,
        )

    def word_vectors(self) -> WordVectors:
        """The rows of tokens that are whole words, as word vectors."""
        marked = self.pieces.kind != "wordpiece"  # there a token that begins a word has a mark, else one that goes on
        names = [(number, self.pieces.token(number)) for number in range(len(self.network.tokens.weight))]
        rows = {
            token.lstrip("▁Ġ") if marked else token: number
            for number, token in names
            if token and number not in self.pieces.special_ids and (token[0] in "▁Ġ" if marked else token[:2] != "##")
        }
        words = [word for word in rows if word]
        table_VD = self.network.tokens.weight.detach().numpy()[[rows[word] for word in words]]
        return WordVectors(words, table_VD)

    def save(self, folder: Path, more: Mapping[str, object] | None = None) -> None:
        """The files of model2vec and sentence-transformers; ``more`` goes into config.json."""
        save_tensors(folder / WEIGHTS, {"embeddings": self.network.tokens.weight})
        self.pieces.save(folder)
        assert self.sentence is not None
        modules = self.sentence.modules
        modules.save(folder, self.dim)
        normalize = any(isinstance(part, Normalize) for part in modules.tail)
        write_json(
            folder / CONFIG,
            {
                "model_type": "model2vec",
                "architectures": ["StaticModel"],
                "hidden_dim": self.dim,
                "seq_length": _NO_LIMIT,
                "normalize": normalize,
                "keeps_unknown": not self.drops_unknown,
                **(more or {}),
            },
        )


def is_token_table(path: Path) -> bool:
    """Whether a folder begins with StaticEmbedding, without a config.json that says so."""
    return (path / MODULES).is_file() and read_sentence_modules(path).config.static


def load_token_table(folder: Path) -> TokenTableModel:
    """A directory of model2vec, or one that begins with StaticEmbedding."""
    data = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    tensors = load_tensors(folder / WEIGHTS)
    name = "embedding.weight" if "embedding.weight" in tensors else "embeddings"
    if name not in tensors or tensors[name].ndim != 2:
        raise FirthError(f"{folder / WEIGHTS}: no table of tokens in it ('embeddings'); copy it again")
    table_VD, mapping, weights = tensors[name], tensors.get("mapping"), tensors.get("weights")
    if mapping is not None:
        if not len(mapping) or int(mapping.max()) >= len(table_VD) or int(mapping.min()) < 0:
            raise FirthError(f"{folder / WEIGHTS}: 'mapping' does not fit the table; copy it again")
        table_VD = table_VD[mapping.long()]
    table_VD = table_VD.float()
    if weights is not None:
        if len(weights) != len(table_VD):
            raise FirthError(f"{folder / WEIGHTS}: 'weights' does not fit the table; copy it again")
        table_VD = table_VD * weights.float()[:, None]
    pieces = Pieces.load(folder)
    require_room(pieces.vocab_size, len(table_VD), folder)
    if (folder / MODULES).is_file():
        modules = read_sentence_modules(folder)
    else:
        parts = [Normalize()] if isinstance(data, dict) and data.get("normalize") else []
        modules = SentenceModules(SentenceConfig(static=True), nn.Sequential(*parts))
    published = isinstance(data, dict) and data.get("model_type") == "model2vec" and not data.get("keeps_unknown")
    return TokenTableModel(table_VD.contiguous(), pieces, modules, published)
