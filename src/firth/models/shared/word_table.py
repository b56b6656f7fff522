"""Word vectors as a table for whole texts, and SIF (Arora et al. 2017): a text is the mean of its words' vectors, each
weighted by a / (a + p(word)), without the direction that all texts have in common.

Both steps are linear, so they are folded into the table: what is left to do for a text is a mean of rows, which
sentence-transformers and model2vec compute as well.

V tokens, S texts, D width.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from torch import nn

from firth.models.shared.sentences import SentenceConfig, SentenceModules
from firth.models.shared.static import StaticModel, words_of
from firth.models.shared.token_table import TokenTableModel
from firth.nn.sentences import Normalize
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.words import has_han

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
