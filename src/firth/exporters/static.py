"""Distils an encoder into a table of token vectors (model2vec, Tulkens & van Dongen 2024), hundreds of times faster to read with.

Every piece of the vocabulary, and frequent words of a text that are several pieces, go through the model once, alone; their
vectors are reduced by principal components and weighted by how rare they are (SIF, Arora et al. 2017: a / (a + p)). Frequencies
are counted in a text; without one they follow Zipf's law by the order of the vocabulary. How much is lost is measured and
written into ``config.json``.

V tokens, D width of the model, E width of the table.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from firth.core.errors import FirthError
from firth.core.files import atomic_folder
from firth.core.types import BATCH_TOKENS, Floats, Ints, batches_by_length, generator, unit_rows
from firth.data.labelled import Columns
from firth.data.sentences import SentenceData, read_sentence_data
from firth.models.shared.model import Model
from firth.models.shared.sentences import SentenceConfig, SentenceModules, framed, last_hidden
from firth.models.shared.token_table import TokenTableModel
from firth.nn.sentences import Normalize, pool_sequences
from firth.tasks.embed.scoring import score_examples
from firth.tasks.scores import spearman
from firth.tokenizers.pieces import Pieces

DIM = 256
SIF = 1e-4
_MAX_WORDS, _FEWEST = 20_000, 5  # words that become tokens, and how often they must occur
_COMPARED = 300  # texts of which all pairs are compared with the original
_MAX_TEXTS = 100_000
_UNUSED = re.compile(r"\[unused\d+\]")  # places of BERT's vocabulary that never learned


def export_static(model: Model, source: Path, out: Path, data: Path | None = None, dim: int = DIM) -> dict[str, object]:
    """A directory that Firth, model2vec and sentence-transformers read; returns what it says about itself."""
    if out.exists():
        raise FirthError(f"{out}: exists already; choose another name")
    if dim < 1:
        raise FirthError(f"dim {dim}: choose at least 1")
    pieces = getattr(model, "pieces", None)
    if not isinstance(pieces, Pieces) or isinstance(model, TokenTableModel) or model.num_layers < 1:
        raise FirthError(f"{source}: a {model.kind}; a table is distilled from an encoder of pieces, such as BERT")
    examples = None if data is None else read_sentence_data(data, Columns())
    texts = [] if examples is None else _texts(examples)
    words = _frequent_words(pieces, texts) if pieces.kind == "wordpiece" else []
    table, explained = distil(model, pieces, words, texts, dim)
    modules = SentenceModules(SentenceConfig(static=True), nn.Sequential(Normalize()))
    found = TokenTableModel(table, _with_words(pieces, words), modules, drops_unknown=True)
    facts: dict[str, object] = {
        "distilled_from": source.resolve().name,
        "words": len(words),
        **({} if pieces.kind == "wordpiece" else {"words_note": "words become rows only with WordPiece"}),
        "explained_variance": round(explained, 4),
        "frequencies": "counted" if texts else "zipf",
        "quality": measure(model, found, examples),
    }
    with atomic_folder(out) as folder:
        found.save(folder, facts)
    return {"tokens": len(table), "dim": table.shape[1], **facts}


def _texts(data: SentenceData) -> list[str]:
    return [text for one in data.examples[:_MAX_TEXTS] for text in (one.text, one.second or "") if text]


# -- the table


def distil(
    model: Model, pieces: Pieces, words: Sequence[str], texts: Sequence[str], dim: int = DIM
) -> tuple[Floats, float]:
    """[V, E] for the pieces and the words behind them, and the share of variance that the components keep."""
    special = np.zeros(pieces.vocab_size + len(words), np.bool_)
    special[[*pieces.special_ids, *([pieces.unk_id] if pieces.unk_id is not None else [])]] = True
    special[[number for number in range(pieces.vocab_size) if _UNUSED.fullmatch(pieces.token(number))]] = True
    rows = [np.asarray([number], np.int64) for number in range(pieces.vocab_size)]
    rows += pieces.batch_ids(words) if words else []
    vectors_VD = _vectors(model, rows)
    known_V = ~special
    table_VE = np.zeros((len(rows), min(dim, vectors_VD.shape[1])), np.float32)
    table_VE[known_V], explained = principal_components(vectors_VD[known_V], dim)
    if texts:
        shares_V = _shares(_with_words(pieces, words), texts, len(rows))
        weights_V = SIF / (SIF + shares_V)
    else:
        weights_V = np.ones(len(rows))
        weights_V[known_V] = zipf_weights(int(known_V.sum()))
    return (table_VE * weights_V[:, None]).astype(np.float32), explained


def _vectors(model: Model, rows: Sequence[Ints]) -> Floats:
    """What the model says of each token alone, special tokens around it, before it is normalised."""
    reader = model.reader()
    config = SentenceConfig() if model.sentence is None else model.sentence.config
    tail = (
        []
        if model.sentence is None
        else [part for part in model.sentence.modules.learning if not isinstance(part, Normalize)]
    )
    whole = [framed(reader.frame, row) for row in rows]
    found = torch.zeros(len(rows), len(config.pool) * reader.dim)
    reader.module.eval()
    with torch.inference_mode():
        for numbers in batches_by_length([len(row) for row in whole], BATCH_TOKENS, padded=not reader.module.can_pack):
            hidden_ND, lens = last_hidden(reader, [whole[number] for number in numbers.tolist()])
            found[torch.from_numpy(numbers)] = pool_sequences(hidden_ND, lens, config.pool)
        for part in tail:
            found = part(found)
    return np.nan_to_num(found.float().numpy())


def principal_components(rows_VD: Floats, dim: int) -> tuple[Floats, float]:
    """The centred rows in the directions of most variance, and the share of variance that these have."""
    centred = rows_VD.astype(np.float64) - rows_VD.mean(0, dtype=np.float64)
    values, directions = np.linalg.eigh(centred.T @ centred)
    values, directions = np.maximum(values[::-1], 0), directions[:, ::-1]
    total = float(values.sum()) or 1.0
    return (centred @ directions[:, :dim]).astype(np.float32), float(values[:dim].sum()) / total


def zipf_weights(num: int) -> Floats:
    """SIF weights of tokens in the order of their frequency, whose shares are as 1/2, 1/3, ..."""
    inverse = 1 / np.arange(2, num + 2)
    return np.asarray(SIF / (SIF + inverse / inverse.sum()), np.float32)


def _shares(pieces: Pieces, texts: Sequence[str], size: int) -> Floats:
    """How often each token occurs; one that was not met counts as once."""
    counts = np.ones(size)
    for ids in pieces.batch_ids(texts):
        counts += np.bincount(ids, minlength=size)
    return np.asarray(counts / counts.sum(), np.float32)


# -- words


def _frequent_words(pieces: Pieces, texts: Sequence[str]) -> list[str]:
    """Words of the texts that the tokenizer cuts into several pieces, the most frequent first."""
    backend, counts = pieces.backend, Counter[str]()
    for text in texts:
        normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        counts.update(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
    often = [word for word, count in counts.most_common() if count >= _FEWEST and pieces.id(word) is None]
    cut = pieces.batch_ids(often) if often else []
    return [word for word, ids in zip(often, cut, strict=True) if len(ids) > 1 and pieces.unk_id not in ids][
        :_MAX_WORDS
    ]


def _with_words(pieces: Pieces, words: Sequence[str]) -> Pieces:
    """A WordPiece tokenizer that knows some words more."""
    if not words:
        return pieces
    description = json.loads(pieces.backend.to_str())
    vocabulary = description["model"]["vocab"]
    for place, word in enumerate(words):
        vocabulary[word] = pieces.vocab_size + place
    return Pieces(Tokenizer.from_str(json.dumps(description)))


# -- what is lost


def measure(model: Model, table: TokenTableModel, data: SentenceData | None) -> dict[str, object]:
    """Scores of both where the data can be scored; and how well cosines of texts agree (Spearman). Without data the texts
    are words of the vocabulary, drawn at random."""
    found: dict[str, object] = {}
    if data is not None and data.form != "text":
        for name, one in (("original", model), ("static", table)):
            scores = score_examples(data, one.encode, SentenceConfig() if one.sentence is None else one.sentence.config)
            found |= {f"{name}_{kind}": round(value, 4) for kind, value in scores.items()}
    texts = list(dict.fromkeys(_texts(data))) if data is not None else _made_up(table.pieces)
    random = generator(0xD157)
    texts = [texts[number] for number in random.permutation(len(texts))[:_COMPARED].tolist()]
    if len(texts) < 3:
        return found
    pairs = np.triu_indices(len(texts), 1)
    first, second = (unit_rows(one.encode(texts)) for one in (model, table))
    agreement = float(spearman((first @ first.T)[pairs], (second @ second.T)[pairs]))
    return {**found, "agreement": round(agreement, 4), "texts": len(texts), "made_up": data is None}


def _made_up(pieces: Pieces) -> list[str]:
    words = [word for number in range(pieces.vocab_size) if (word := pieces.token(number)).isalpha() and len(word) > 2]
    random = generator(0x3A3E)
    return [" ".join(random.choice(words, 8)) for _ in range(_COMPARED)] if words else []
