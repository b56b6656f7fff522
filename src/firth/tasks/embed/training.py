"""Learning sentence vectors: the network, batches by number, the losses, and the trainable for the loop.

A batch may be larger than memory: its texts are read in parts, and what is in a part is computed once more on the way
back (checkpoints; for losses over a whole batch this is the gradient cache of Gao et al. 2021). The gradient is that of the
whole batch.

N tokens end to end, S texts, D hidden size, E width of the vectors, B examples, V tokens of the vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from firth.core.errors import FirthError
from firth.core.registry import Precision, precision_context
from firth.core.types import Batch, Floats, Ints, Losses, TextReader, batches_by_length, hashed, uniform, unit_rows
from firth.data.sentences import CONTRADICTION, ENTAILMENT, NLI, SentenceData, SentenceExample
from firth.models.shared.sentences import (
    SentenceModules,
    framed,
    last_hidden,
    num_unpooled,
    text_rows,
)
from firth.nn.layers import dropout
from firth.nn.sentences import pool_sequences
from firth.retrieval.exact import best_places
from firth.retrieval.words import Bm25
from firth.tasks.embed.config import EmbedConfig
from firth.tasks.embed.scoring import Encode, encode_with, prompts_of, score_examples
from firth.training.ranks import process_count

_EMBED = 0xE3BD


class SentenceNetwork(nn.Module):
    """The base, the modules behind the pooling, and what only the training needs."""

    def __init__(self, reader: TextReader, modules: SentenceModules, dropout_prob: float = 0.0) -> None:
        """``dropout_prob`` is for bases that have no dropout of their own: it falls on their tokens' vectors."""
        super().__init__()
        self.reader, self.modules_read = reader, modules
        self.reader_module, self.tail = reader.module, modules.learning
        self.dropout_prob = dropout_prob
        self.precision: Precision = "float32"  # of the base's products while it learns
        self.device = "cpu"
        self.head: nn.Module | None = None  # a classifier or a decoder
        if not isinstance(self.reader_module, nn.Module):
            raise FirthError(f"this base ({reader.kind}) does not learn: choose another --base")

    def vectors(self, rows: Sequence[Ints], max_tokens: int, unpooled: Sequence[int] | None = None) -> torch.Tensor:
        """[S, E] in the order of the rows, which are read in parts of so many tokens; ``unpooled``: how many tokens of each
        row are not pooled."""
        skips = [0] * len(rows) if unpooled is None else unpooled
        lens = [len(row) for row in rows]
        parts = [*batches_by_length(lens, max_tokens, padded=not self.reader_module.can_pack)]
        learns = torch.is_grad_enabled() and len(parts) > 1
        found = []
        for part in parts:
            some, skip = [rows[number] for number in part.tolist()], [skips[number] for number in part.tolist()]
            found.append(checkpoint(self._read, some, skip, use_reentrant=False) if learns else self._read(some, skip))
        back = torch.from_numpy(np.argsort(np.concatenate(parts), kind="stable"))
        return torch.cat(found)[back.to(found[0].device)]

    def _read(self, rows: Sequence[Ints], skips: Sequence[int]) -> torch.Tensor:
        learns = self.training and torch.is_grad_enabled()
        with precision_context(self.precision if learns else "float32", self.device):
            hidden_ND, lens = last_hidden(self.reader, rows)
        hidden_ND = dropout(hidden_ND.float(), self.dropout_prob, self.training)
        config = self.modules_read.config
        pools = ("mean",) if config.static else config.pool
        found: torch.Tensor = self.tail(pool_sequences(hidden_ND, lens, pools, skips))
        return found


class SentenceDecoder(nn.Module):
    """Writes a text again from its vector alone (TSDAE, Wang et al. 2021): causal blocks that read the vector in the place before
    the first token. The token table is that of the base."""

    def __init__(self, table: nn.Embedding, width: int, num_layers: int, max_len: int) -> None:
        super().__init__()
        dim = table.embedding_dim
        self.__dict__["table"] = table  # used, but owned by the base
        self.first = nn.Linear(width, dim)
        self.positions = nn.Embedding(max_len + 1, dim)
        heads = next(count for count in (8, 4, 2, 1) if dim % count == 0)
        block = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, num_layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        nn.init.normal_(self.positions.weight, std=0.02)

    def loss(self, vectors_SE: torch.Tensor, targets: Sequence[Ints]) -> torch.Tensor:
        """-log p of all tokens of the texts, summed."""
        table: nn.Embedding = self.__dict__["table"]
        lens, device = [len(row) for row in targets], vectors_SE.device
        longest = max(lens)
        padded, there = np.zeros((len(lens), longest), np.int64), np.arange(longest) < np.asarray(lens)[:, None]
        padded[there] = np.concatenate(targets)
        ids_ST, mask_ST = torch.from_numpy(padded).to(device), torch.from_numpy(there).to(device)
        read_STD = torch.cat((self.first(vectors_SE)[:, None], table(ids_ST[:, :-1])), 1)
        read_STD = read_STD + self.positions(torch.arange(longest, device=device))
        causal = nn.Transformer.generate_square_subsequent_mask(longest, device=device)
        hidden_STD = self.norm(self.blocks(read_STD, mask=causal, is_causal=True))
        scores_NV = hidden_STD[mask_ST] @ table.weight.T
        return functional.cross_entropy(scores_NV, ids_ST[mask_ST], reduction="sum")


def training_examples(data: SentenceData, loss: str) -> list[SentenceExample]:
    """What the loss learns from: of inference and scores, ranking takes what belongs together."""
    if loss != "ranking" or data.form in ("pairs", "triplets"):
        return data.examples
    if data.form == "scores":
        return [one for one in data.examples if isinstance(one.label, float) and one.label > 0.8]
    against: dict[str, list[str]] = {}
    for one in data.examples:
        if one.label == CONTRADICTION and one.second is not None:
            against.setdefault(one.text, []).append(one.second)
    return [
        SentenceExample(one.text, one.second, tuple(against.get(one.text, ())[:1]), None, one.where)
        for one in data.examples
        if one.label == ENTAILMENT
    ]


def also_right(first_B: Ints, second_C: Ints, own: bool) -> NDArray[np.bool_]:
    """[B, C]: whether another candidate than the b-th is right for the b-th anchor, too: a text that belongs to this anchor in
    any row, or (``own``) the anchor's own text. The first B candidates belong to the anchors, by their numbers."""
    size = len(first_B)
    same_anchor_BB = first_B[:, None] == first_B[None, :]
    right_BC = second_C[:size, None] == second_C[None, :]
    found = (same_anchor_BB.astype(np.float32) @ right_BC.astype(np.float32)) > 0
    if own:
        found |= second_C[None, :] == first_B[:, None]
    found[np.arange(size), np.arange(size)] = False
    return np.asarray(found, np.bool_)


class EmbedTraining:
    """A ``Trainable``: sentence vectors on training examples, tested on dev examples."""

    def __init__(
        self, config: EmbedConfig, loss: str, network: SentenceNetwork, data: SentenceData, dev: SentenceData | None
    ) -> None:
        assert config.epochs is not None
        self.config, self.kind, self.network, self.dev = config, loss, network, dev
        self.module: nn.Module = network
        self.weights: Mapping[str, float] = {}
        self.rate_factors: Mapping[str, float] = {}
        self.examples = training_examples(data, loss)
        self.prompts = prompts_of(data.form, network.modules_read.config)
        read = network.modules_read.config.replace(max_len=config.max_len)
        if loss == "tsdae":  # what has no tokens cannot be written again
            room = network.reader.frame.size(False)
            rows = text_rows(network.reader, read, [one.text for one in self.examples])
            self.examples = [one for one, row in zip(self.examples, rows, strict=True) if len(row) > room]
        if not self.examples:
            raise FirthError(f"no example that loss={loss} could learn from: choose another loss or check the labels")
        self.texts: dict[str, int] = {}
        for one in self.examples:
            for text in (one.text, one.second, *one.negatives):
                if text is not None:
                    self.texts.setdefault(text, len(self.texts))
        self.rows = self._rows(list(self.texts), self.prompts[0])  # of all texts as first ones, ...
        alike = self.prompts[0] == self.prompts[1]
        self.other_rows = self.rows if alike else self._rows(list(self.texts), self.prompts[1])  # ... and as others
        self.unpooled = [num_unpooled(network.reader, read, prompt) for prompt in self.prompts]
        self.order = self._shuffled(config.epochs)
        self.best: dict[str, float] | None = None
        self.best_weights: dict[str, torch.Tensor] = {}

    def _rows(self, texts: Sequence[str], prompt: str) -> list[Ints]:
        """The tokens of texts with a prompt before them."""
        read = self.network.modules_read.config.replace(max_len=self.config.max_len)
        return text_rows(self.network.reader, read, [prompt + text for text in texts])

    def _shuffled(self, epochs: int) -> list[Ints]:
        """The examples of each batch, every epoch in another order."""
        size, found = len(self.examples), []
        for epoch in range(epochs):
            order = np.argsort(hashed(self.config.seed, _EMBED, epoch, np.arange(size)), kind="stable")
            parts = [order[first : first + self.config.batch_size] for first in range(0, size, self.config.batch_size)]
            if len(parts) > 1 and len(parts[-1]) < 2:
                parts.pop()  # an example alone has no negatives
            found += parts
        return found

    @property
    def steps(self) -> int:
        return -(-len(self.order) // process_count())

    # -- batches

    def batch(self, number: int) -> Batch:
        """A pure function of the number."""
        chosen = [self.examples[one] for one in self.order[number % len(self.order)].tolist()]
        if self.kind == "tsdae":
            return self._deleted(number, chosen)
        first = [self.texts[one.text] for one in chosen]
        second = first if self.kind == "simcse" else [self.texts[one.second or ""] for one in chosen]
        others = [self.texts[text] for one in chosen for text in one.negatives] if self.kind == "ranking" else []
        arrays = {"first": np.asarray(first), "second": np.asarray([*second, *others])}
        if self.kind in ("cosine", "cosent"):
            arrays["scores"] = np.asarray([one.label for one in chosen], np.float32)
        if self.kind == "softmax":
            arrays["classes"] = np.asarray([NLI.index(str(one.label)) for one in chosen])
        tokens = sum(len(self.rows[text]) for text in first)
        tokens += sum(len(self.other_rows[text]) for text in (*second, *others))
        return Batch(arrays, {"embed": len(chosen)}, tokens)

    def _deleted(self, number: int, chosen: Sequence[SentenceExample]) -> Batch:
        """Texts, and the same without most of their words."""
        reader, targets, sources = self.network.reader, [], []
        lowercase, prompt = self.network.modules_read.config.lowercase, self.prompts[0]
        before = reader.tokenize(prompt.lower() if lowercase else prompt).ids
        room = max(1, self.config.max_len - reader.frame.size(False) - len(before))
        for place, one in enumerate(chosen):
            found = reader.tokenize(one.text.lower() if lowercase else one.text)
            ids = found.ids[:room]
            words = found.words[: len(ids)]
            drawn = uniform(self.config.seed, _EMBED, 1, number, place, words.clip(min=0))
            stays = drawn >= self.config.delete_prob
            if not stays.any():
                stays = drawn == drawn.max()
            targets.append(ids)
            sources.append(framed(reader.frame, np.concatenate((before, ids[stays]))))
        arrays = {
            "sources": np.concatenate(sources),
            "source_lens": np.asarray([len(row) for row in sources]),
            "targets": np.concatenate(targets),
            "target_lens": np.asarray([len(row) for row in targets]),
        }
        return Batch(arrays, {"embed": int(arrays["target_lens"].sum())}, len(arrays["sources"]))

    # -- losses

    def loss(self, batch: Batch) -> Losses:
        config, network = self.config, self.network
        if self.kind == "tsdae":
            sources, targets = (
                _split(batch.arrays[f"{name}s"], batch.arrays[f"{name}_lens"]) for name in ("source", "target")
            )
            assert isinstance(network.head, SentenceDecoder)
            skips = [self.unpooled[0]] * len(sources)
            vectors = network.vectors(sources, config.max_batch_tokens, skips)
            return Losses({"embed": network.head.loss(vectors, targets)})
        first, second = batch.arrays["first"].tolist(), batch.arrays["second"].tolist()
        rows = [self.rows[number] for number in first] + [self.other_rows[number] for number in second]
        skips = [self.unpooled[0]] * len(first) + [self.unpooled[1]] * len(second)
        found = over_widths(
            network.vectors(rows, config.max_batch_tokens, skips),
            config.widths,
            lambda some: self._one(some, batch, len(first)),
        )
        return Losses({"embed": found})

    def _one(self, vectors_SE: torch.Tensor, batch: Batch, size: int) -> torch.Tensor:
        first, second = vectors_SE[:size], vectors_SE[size:]
        if self.kind in ("ranking", "simcse"):
            same = also_right(batch.arrays["first"], batch.arrays["second"], own=self.kind == "ranking")
            return ranking_loss(first, second, self.config.scale, torch.from_numpy(same).to(first.device))
        if self.kind == "softmax":
            assert isinstance(self.network.head, nn.Linear)
            return softmax_loss(first, second, self.network.head, batch.tensors["classes"])
        scores_B = batch.tensors["scores"]
        if self.kind == "cosent":
            return cosent_loss(first, second, scores_B, self.config.scale)
        return cosine_loss(first, second, scores_B)

    # -- dev scores

    def encode(self, texts: Sequence[str], /, *, prompt: str | None = None) -> Floats:
        """[S, E] by the network as it is, with a prompt by its name."""
        self.network.eval()
        config = self.network.modules_read.config
        said = config.prompt(prompt)
        skips = [num_unpooled(self.network.reader, config, said)] * len(texts)
        with torch.inference_mode():
            found = self.network.vectors(self._rows(texts, said), self.config.max_batch_tokens, skips)
        vectors: Floats = found.float().cpu().numpy()
        return vectors

    def evaluate(self) -> dict[str, float]:
        """The dev scores; the weights of the best are kept."""
        if self.dev is None:
            return {}
        scores = score_examples(self.dev, self.encode, self.network.modules_read.config)
        name = self.config.metric or next(iter(scores))
        if name not in scores:
            raise FirthError(f"metric: '{name}' is no score of this file; choose among {', '.join(scores)}")
        if self.best is None or scores[name] > self.best[name]:
            self.best = scores
            self.best_weights = {key: value.detach().clone() for key, value in self.network.state_dict().items()}
        return scores

    def enough(self) -> bool:
        return False

    def take_best(self) -> None:
        """Back to the weights of the best dev score."""
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)
        self.network.eval()


def _split(ids: Ints, lens: Ints) -> list[Ints]:
    return np.split(ids, np.cumsum(lens)[:-1])


_LOOKED_AT = 50  # candidates of each pair
_BLOCK = 256


def mine_negatives(
    examples: Sequence[SentenceExample],
    kind: str,
    num: int,
    margin: float,
    encode: Encode,
    prompts: tuple[str | None, str | None] = (None, None),
) -> list[SentenceExample]:
    """The examples with so many negatives more, found among the second texts by the ``model`` or by ``bm25``; ``prompts``: of
    the first texts and of the second."""
    pool = list(dict.fromkeys(one.second or "" for one in examples))
    place = {text: number for number, text in enumerate(pool)}
    right: dict[str, set[int]] = {}
    for one in examples:
        right.setdefault(one.text, set()).add(place[one.second or ""])
    anchors = list(right)
    found: dict[str, tuple[str, ...]] = {}
    words = Bm25(pool) if kind == "bm25" else None
    rows = None if words is not None else unit_rows(encode_with(encode, pool, prompts[1]))
    for start in range(0, len(anchors), _BLOCK):
        some = anchors[start : start + _BLOCK]
        if words is not None:
            scores = np.stack([words.scores(text) for text in some])
        else:
            assert rows is not None
            scores = np.asarray(unit_rows(encode_with(encode, some, prompts[0])) @ rows.T, np.float32)
        for text, scores_N in zip(some, scores, strict=True):
            found[text] = tuple(pool[number] for number in _choose(scores_N, right[text], place.get(text), num, margin))
    return [replace(one, negatives=(*one.negatives, *found[one.text])) for one in examples]


def _choose(scores_N: Floats, right: set[int], itself: int | None, num: int, margin: float) -> list[int]:
    """The nearest that are not right, nor so near that they may be."""
    limit = margin * max(float(scores_N[number]) for number in right)
    best = best_places(scores_N[None], _LOOKED_AT + len(right) + 1)[0].tolist()
    return [number for number in best if number not in right and number != itself and scores_N[number] < limit][:num]


# -- losses for sentence vectors, each as a sum over its examples.
#
# B examples, C candidates, D dimensions, K classes.


Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def cosines(first_BD: torch.Tensor, second_CD: torch.Tensor) -> torch.Tensor:
    """[B, C]."""
    return functional.normalize(first_BD, dim=1) @ functional.normalize(second_CD, dim=1).T


def ranking_loss(
    anchors_BD: torch.Tensor, candidates_CD: torch.Tensor, scale: float, same_BC: torch.Tensor | None = None
) -> torch.Tensor:
    """In-batch negatives (Henderson et al. 2017; InfoNCE): the b-th candidate belongs to the b-th anchor, all others to others:
    -log softmax(scale · cos)_bb. ``same_BC`` is true where another candidate is right as well: it is left out."""
    scores_BC = scale * cosines(anchors_BD, candidates_CD)
    if same_BC is not None:
        scores_BC = scores_BC.masked_fill(same_BC, float("-inf"))
    targets_B = torch.arange(len(anchors_BD), device=scores_BC.device)
    return functional.cross_entropy(scores_BC, targets_B, reduction="sum")


def cosine_loss(first_BD: torch.Tensor, second_BD: torch.Tensor, scores_B: torch.Tensor) -> torch.Tensor:
    """(cos - score)², Reimers & Gurevych 2019."""
    return (functional.cosine_similarity(first_BD, second_BD) - scores_B).square().sum()


def cosent_loss(first_BD: torch.Tensor, second_BD: torch.Tensor, scores_B: torch.Tensor, scale: float) -> torch.Tensor:
    """CoSENT (Su 2022): B · log(1 + Σ exp(scale (cos_i - cos_j))) over pairs of examples with score_i < score_j."""
    found_B = scale * functional.cosine_similarity(first_BD, second_BD)
    gaps_BB = found_B[:, None] - found_B[None, :]
    gaps_BB = gaps_BB.masked_fill(~(scores_B[:, None] < scores_B[None, :]), float("-inf"))
    return len(found_B) * torch.logsumexp(torch.cat((gaps_BB.new_zeros(1), gaps_BB.flatten())), 0)


def softmax_loss(
    first_BD: torch.Tensor, second_BD: torch.Tensor, out: torch.nn.Linear, targets_B: torch.Tensor
) -> torch.Tensor:
    """Classes of pairs from u, v and |u - v| (Reimers & Gurevych 2019)."""
    joined_B3D = torch.cat((first_BD, second_BD, (first_BD - second_BD).abs()), 1)
    return functional.cross_entropy(out(joined_B3D), targets_B, reduction="sum")


def over_widths(
    vectors_ED: torch.Tensor, widths: Sequence[int], loss: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Matryoshka (Kusupati et al. 2022): the mean of a loss over vectors cut to each width; all of them without any."""
    if not widths:
        return loss(vectors_ED)
    return torch.stack([loss(vectors_ED[:, :width]) for width in widths]).mean()
