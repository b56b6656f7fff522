"""A table of token vectors as a model of texts: a text is the mean of its tokens' rows, hundreds of times faster than a
Transformer (model2vec, Tulkens & van Dongen 2024; ``StaticEmbedding`` of sentence-transformers).

The files are those of model2vec, which sentence-transformers reads, too: ``model.safetensors`` with ``embeddings``,
``tokenizer.json``, ``config.json``, ``modules.json``.

V tokens, N tokens end to end, S texts, D width.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
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
from firth.models.shared.static import StaticModel, words_of
from firth.nn.layers import TokenNetwork
from firth.nn.sentences import Normalize
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.words import has_han
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


def table_of_words(static: StaticModel, texts: Sequence[str], normalize: bool = True) -> TokenTableModel:
    """The vectors of words or pieces as a table; where n-grams can spell words, those of the texts as well."""
    vectors = static.vectors
    rows = np.asarray(vectors.rows(0, len(vectors)), np.float32)
    if static.pieces is not None:
        pieces = static.pieces
        place = {word: number for number, word in enumerate(vectors.words)}
        table = np.zeros((pieces.vocab_size, vectors.dim), np.float32)
        for number in range(pieces.vocab_size):
            found = place.get(pieces.token(number))
            if found is not None:
                table[number] = rows[found]
    else:
        words, counts = list(vectors.words), vectors.counts
        if vectors.subwords is not None:
            met = Counter(
                word for text in texts for word in words_of(text, static.whitespace_only, static.segmentation)[0]
            )
            late = [word for word in met if word not in vectors and word.strip()]
            words += late
            rows = np.concatenate(
                (rows, np.asarray([vectors[word] for word in late], np.float32).reshape(-1, vectors.dim))
            )
            counts = None if counts is None else np.concatenate((counts, [met[word] for word in late]))
        pieces = word_tokenizer(words, counts)
        table = np.concatenate((np.zeros((len(_SPECIALS), vectors.dim), np.float32), rows))
    modules = SentenceModules(SentenceConfig(static=True), nn.Sequential(*([Normalize()] if normalize else [])))
    return TokenTableModel(torch.from_numpy(table), pieces, modules, drops_unknown=False)


def token_counts(model: TokenTableModel, texts: Sequence[str]) -> NDArray[np.int64]:
    """How often each token occurs in texts, [V]."""
    found = np.zeros(len(model.network.tokens.weight), np.int64)
    for start in range(0, len(texts), 1000):
        ids = np.concatenate([np.zeros(0, np.int64), *model.token_ids(texts[start : start + 1000])])
        found += np.bincount(ids, minlength=len(found))
    return found


def sif_weights(counts_V: NDArray[np.integer], a: float) -> NDArray[np.float64]:
    """SIF weights a / (a + p) by token frequency; an unseen token counts as seen once."""
    counts = np.maximum(np.asarray(counts_V, np.float64), 1.0)
    return np.asarray(a / (a + counts / counts.sum()))


def apply_sif(model: TokenTableModel, texts: Sequence[str], a: float, components: int) -> None:
    """Weights the rows, and takes out the first directions of the vectors of the texts."""
    weight = model.network.tokens.weight
    with torch.no_grad():
        weights_V = sif_weights(token_counts(model, texts), a)
        weight.mul_(torch.from_numpy(weights_V.astype(np.float32))[:, None])
        if not components:
            return
        step = max(1, len(texts) // _TEXTS)
        vectors_SD = torch.from_numpy(model.encode(texts[::step], pool="mean")).double()
        values, directions_DD = torch.linalg.eigh(vectors_SD.T @ vectors_SD)
        common_DC = directions_DD[:, values.argsort(descending=True)[:components]].float()
        weight.sub_(weight @ common_DC @ common_DC.T)
