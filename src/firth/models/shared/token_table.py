"""A table of token vectors as a model of texts: a text is the mean of its tokens' rows, hundreds of times faster than a
Transformer (model2vec, Tulkens & van Dongen 2024; ``StaticEmbedding`` of sentence-transformers).

The files are those of model2vec, which sentence-transformers reads, too: ``model.safetensors`` with ``embeddings``,
``tokenizer.json``, ``config.json``, ``modules.json``.

V tokens, N tokens end to end, S texts, D width.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from firth.core.errors import FirthError, Later, is_installed
from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.types import Floats, Ints, TextReader
from firth.models.shared.model import Model, TextLayers, require_layer, require_pool, require_room
from firth.models.shared.sentences import (
    MODULES,
    SentenceConfig,
    SentenceEncoder,
    SentenceModules,
    read_sentence_modules,
)
from firth.nn.arrays import ArrayTail, load_arrays, normalize
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.words import has_han
from firth.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.nn import functional

    from firth.nn.lookup import TokenTable
else:
    torch, nn, functional = Later("torch"), Later("torch.nn"), Later("torch.nn.functional")

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_NO_LIMIT = 1_000_000
_BLOCK = 64  # texts whose rows are gathered at one time


class TokenTableModel(Model):
    """What ``firth.load`` gives for model2vec and StaticEmbedding."""

    kind = "token table"
    spec_name = "model2vec"
    sentence_rate = 1e-2

    def __init__(self, table_VD: Floats, pieces: Pieces, modules: SentenceModules, drops_unknown: bool) -> None:
        """``drops_unknown``: unknown tokens are not counted, as model2vec does."""
        self._table, self.pieces, self.dim = table_VD, pieces, table_VD.shape[1]
        self.drops_unknown = drops_unknown and pieces.unk_id is not None
        self.sentence = SentenceEncoder(modules, self._pooled)

    @property
    def num_parameters(self) -> int:
        return self._table.size

    @cached_property
    def network(self) -> "TokenTable":
        """The same numbers as a network, which may learn."""
        from firth.nn.lookup import TokenTable

        return TokenTable(torch.from_numpy(self._table)).eval()

    @property
    def table(self) -> Floats:
        """[V, D], as learned so far."""
        if "network" not in vars(self):
            return self._table
        found: Floats = self.network.tokens.weight.detach().cpu().numpy()
        return found

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    def token_ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of each text that are counted."""
        found = self.pieces.batch_ids(texts)
        return [ids[ids != self.pieces.unk_id] for ids in found] if self.drops_unknown else found

    def _bags(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """The tokens of all texts end to end, and where each text begins."""
        with self.pieces.reading(special=False) as backend:
            found = [one.ids for one in backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        lens_S = np.asarray([len(ids) for ids in found], np.int64)
        ids_N = np.fromiter((number for ids in found for number in ids), np.int64, int(lens_S.sum()))
        if self.drops_unknown:
            known_N = ids_N != self.pieces.unk_id
            owner_N = np.repeat(np.arange(len(found)), lens_S)
            ids_N, lens_S = ids_N[known_N], np.bincount(owner_N[known_N], minlength=len(found))
        return ids_N, lens_S

    def _pooled(self, texts: Sequence[str], config: SentenceConfig, prompt: str) -> Any:
        """An array where the modules behind are arrays, else a tensor."""
        return self._pool([prompt + text for text in texts] if prompt else texts, "mean")

    def _pool(self, texts: Sequence[str], pool: str) -> Any:
        assert self.sentence is not None
        ids_N, lens_S = self._bags(texts)
        if isinstance(self.sentence.modules.tail, ArrayTail):
            return pool_bags(self.table, ids_N, lens_S, pool)
        if not len(lens_S):
            return torch.zeros(0, self.dim)
        ids, starts = (torch.from_numpy(part) for part in (ids_N, np.cumsum(lens_S) - lens_S))
        return functional.embedding_bag(ids, self.network.tokens.weight, starts, mode=pool)

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        require_layer(layer, 1)
        require_pool(pool, self.pools)
        found = self._pool(texts, pool)
        return np.asarray(found if isinstance(found, np.ndarray) else found.detach(), np.float32)

    def layers(self, text: str | list[str]) -> TextLayers:
        """One layer: the rows of the tokens."""
        found = self.pieces.encode(text, add_special=False, read_special=False)
        return TextLayers(found.tokens, found.offsets, found.words, self.table[found.ids][None])

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
        names = [(number, self.pieces.token(number)) for number in range(len(self._table))]
        rows = {
            token.lstrip("▁Ġ") if marked else token: number
            for number, token in names
            if token and number not in self.pieces.special_ids and (token[0] in "▁Ġ" if marked else token[:2] != "##")
        }
        words = [word for word in rows if word]
        return WordVectors(words, self.table[[rows[word] for word in words]])

    def sentence_base(self, texts: Callable[[], list[str]], normalize: bool) -> "TokenTableModel":
        return self

    def weigh_words(self, texts: Sequence[str], a: float, components: int) -> None:
        weight = self.network.tokens.weight
        with torch.no_grad():
            weights_V = sif_weights(token_counts(self, texts), a)
            weight.mul_(torch.from_numpy(weights_V.astype(np.float32))[:, None])
            if not components:
                return
            step = max(1, len(texts) // _TEXTS)
            vectors_SD = torch.from_numpy(self.encode(texts[::step], pool="mean")).double()
            values, directions_DD = torch.linalg.eigh(vectors_SD.T @ vectors_SD)
            common_DC = directions_DD[:, values.argsort(descending=True)[:components]].float()
            weight.sub_(weight @ common_DC @ common_DC.T)

    def token_embedding(self) -> "nn.Embedding":
        return self.network.tokens

    def save_sentences(self, folder: Path, modules: SentenceModules) -> None:
        assert self.sentence is not None
        known = self.sentence.modules
        self.sentence.modules = SentenceModules(known.config.replace(prompts=modules.config.prompts), known.tail)
        self.save(folder)

    def save(self, folder: Path, more: Mapping[str, object] | None = None) -> None:
        """The files of model2vec and sentence-transformers; ``more`` goes into config.json."""
        from firth.nn.sentences import Normalize

        save_tensors(folder / WEIGHTS, {"embeddings": self.network.tokens.weight})
        self.pieces.save(folder)
        assert self.sentence is not None
        modules = self.sentence.modules
        modules.save(folder, self.dim)
        normalize = any(isinstance(part, Normalize) for part in modules.learning)
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


def pool_bags(table_VD: Floats, ids_N: Ints, lens_S: Ints, pool: str) -> Floats:
    """The mean or the largest of the rows of each text, [S, D]; zeros for one without tokens."""
    found = np.zeros((len(lens_S), table_VD.shape[1]), np.float32)
    there = np.flatnonzero(lens_S)
    ends = np.cumsum(lens_S[there])
    for first in range(0, len(there), _BLOCK):
        some = there[first : first + _BLOCK]
        begin = int(ends[first] - lens_S[some[0]])
        starts = ends[first : first + _BLOCK] - lens_S[some] - begin
        rows = table_VD[ids_N[begin : int(ends[first + len(some) - 1])]]
        joined = np.maximum.reduceat(rows, starts) if pool == "max" else np.add.reduceat(rows, starts)
        found[some] = joined if pool == "max" else joined / lens_S[some, None].astype(np.float32)
    return found


def is_token_table(path: Path) -> bool:
    """Whether a folder begins with StaticEmbedding, without a config.json that says so."""
    return (path / MODULES).is_file() and read_sentence_modules(path).config.static


def load_token_table(folder: Path) -> TokenTableModel:
    """A directory of model2vec, or one that begins with StaticEmbedding."""
    data = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    table_VD = _read_table(folder / WEIGHTS)
    pieces = Pieces.load(folder)
    require_room(pieces.vocab_size, len(table_VD), folder)
    if (folder / MODULES).is_file():
        modules = read_sentence_modules(folder, table_VD.shape[1])
    else:
        modules = _modules(isinstance(data, dict) and bool(data.get("normalize")))
    published = isinstance(data, dict) and data.get("model_type") == "model2vec" and not data.get("keeps_unknown")
    return TokenTableModel(np.ascontiguousarray(table_VD), pieces, modules, published)


def _read_table(path: Path) -> Floats:
    """The rows of the tokens [V, D], weighted."""
    if is_installed("torch"):
        tensors = {
            name: (tensor.float() if tensor.is_floating_point() else tensor).numpy()
            for name, tensor in load_tensors(path).items()
        }
    else:
        tensors = load_arrays(path)
    name = "embedding.weight" if "embedding.weight" in tensors else "embeddings"
    if name not in tensors or tensors[name].ndim != 2:
        raise FirthError(f"{path}: no table of tokens in it ('embeddings'); copy it again")
    table_VD, mapping, weights = tensors[name], tensors.get("mapping"), tensors.get("weights")
    if mapping is not None:
        if not len(mapping) or int(mapping.max()) >= len(table_VD) or int(mapping.min()) < 0:
            raise FirthError(f"{path}: 'mapping' does not fit the table; copy it again")
        table_VD = table_VD[mapping.astype(np.int64)]
    table_VD = table_VD.astype(np.float32, copy=not table_VD.flags.writeable)
    if weights is not None:
        if len(weights) != len(table_VD):
            raise FirthError(f"{path}: 'weights' does not fit the table; copy it again")
        table_VD = table_VD * weights.astype(np.float32)[:, None]
    return table_VD


def _modules(normalizes: bool) -> SentenceModules:
    """A mean of rows, of length 1 if so wished."""
    if not is_installed("torch"):
        return SentenceModules(SentenceConfig(static=True), ArrayTail([normalize] if normalizes else []))
    from firth.nn.sentences import Normalize

    return SentenceModules(SentenceConfig(static=True), nn.Sequential(*([Normalize()] if normalizes else [])))


_SPECIALS = ("[PAD]", "[UNK]")
_WORDS = r"[\p{L}\p{M}\p{N}_]+(?:['’.\-][\p{L}\p{M}\p{N}_]+)*|\S"
_HAN_SHARE = 0.2
_TEXTS = 50_000  # from which common directions are found


def word_tokenizer(words: Sequence[str], counts: NDArray[np.integer] | None) -> Pieces:
    """Finds these words in texts. Chinese, which has no spaces, is cut such that the words are the most frequent ones together
    (a unigram model); all others are words between spaces and punctuation."""
    lowercase = all(word == word.lower() for word in words)
    names = [*_SPECIALS, *words]
    if sum(map(has_han, words)) > _HAN_SHARE * len(words):
        ranks = np.arange(1, len(words) + 1)
        frequency = 1.0 / ranks if counts is None else np.maximum(np.asarray(counts, np.float64), 1)
        scores = np.log(frequency / frequency.sum()).tolist()
        model = models.Unigram([*((name, 0.0) for name in _SPECIALS), *zip(words, scores, strict=True)], 1, False)
        tokenizer = Tokenizer(model)
    else:
        vocabulary = {name: number for number, name in enumerate(names)}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), "removed", invert=True)
    tokenizer.add_special_tokens(list(_SPECIALS))
    return Pieces(tokenizer)


def table_of_words(
    vectors: WordVectors, pieces: Pieces | None, met: Mapping[str, int], normalizes: bool = True
) -> TokenTableModel:
    """The vectors of words or pieces as a table; where n-grams can spell words, those that were ``met`` so often as well."""
    rows = np.asarray(vectors.rows(0, len(vectors)), np.float32)
    if pieces is not None:
        place = {word: number for number, word in enumerate(vectors.words)}
        table = np.zeros((pieces.vocab_size, vectors.dim), np.float32)
        for number in range(pieces.vocab_size):
            found = place.get(pieces.token(number))
            if found is not None:
                table[number] = rows[found]
    else:
        words, counts = list(vectors.words), vectors.counts
        if vectors.subwords is not None:
            late = [word for word in met if word not in vectors and word.strip()]
            words += late
            rows = np.concatenate(
                (rows, np.asarray([vectors[word] for word in late], np.float32).reshape(-1, vectors.dim))
            )
            counts = None if counts is None else np.concatenate((counts, [met[word] for word in late]))
        pieces = word_tokenizer(words, counts)
        table = np.concatenate((np.zeros((len(_SPECIALS), vectors.dim), np.float32), rows))
    return TokenTableModel(table, pieces, _modules(normalizes), drops_unknown=False)


def token_counts(model: TokenTableModel, texts: Sequence[str]) -> NDArray[np.int64]:
    """How often each token occurs in texts, [V]."""
    found = np.zeros(len(model.table), np.int64)
    for start in range(0, len(texts), 1000):
        ids = np.concatenate([np.zeros(0, np.int64), *model.token_ids(texts[start : start + 1000])])
        found += np.bincount(ids, minlength=len(found))
    return found


def sif_weights(counts_V: NDArray[np.integer], a: float) -> NDArray[np.float64]:
    """SIF weights a / (a + p) by token frequency; an unseen token counts as seen once."""
    counts = np.maximum(np.asarray(counts_V, np.float64), 1.0)
    return np.asarray(a / (a + counts / counts.sum()))
