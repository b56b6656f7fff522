"""The next word and the one before, jointly: ELMo's objective and its pre-training (Peters et al. 2018).

Text is read in streams, in both directions, with the state carried from batch to batch; words are scored by a sampled
softmax over a table, or over characters as well.

G directions (2), B streams, T words, N predicted words, M characters, P output size of a direction, V vocabulary.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.files import load_tensors, save_tensors, write_json, write_text
from firth.core.registry import RunConfig
from firth.core.run import Scores
from firth.core.types import Batch, Losses, Objective, generator
from firth.corpus.format import Corpus, Split, need_text
from firth.corpus.streams import MARKS, Spellings, Streams, TokenStream, cut_evenly
from firth.models.elmo.config import BothDirectionsConfig, ElmoConfig
from firth.models.elmo.format import OPTIONS, WEIGHTS, load_elmo, require_h5py, save_elmo
from firth.models.elmo.model import SOFTMAX, VOCABULARY, WORDS, pair_of
from firth.models.elmo.network import Elmo, build_token_layer
from firth.models.elmo.scoring import Ids, read_both_directions
from firth.models.shared.embeddings import require_fit
from firth.models.shared.pretraining import Pretraining
from firth.nn.character_cnn import CharacterCNN, CharacterSoftmax, TableSoftmax, sampled_loss
from firth.nn.lstmp import State
from firth.nn.softmax import cross_entropy_sum, draw_log_uniform, log_expected_counts, log_unigram
from firth.tokenizers.segmentation import FILE as SEGMENTATION
from firth.tokenizers.segmentation import Segmentation
from firth.training.optimizer import Muon
from firth.training.ranks import own_share
from firth.vectors.vocabulary import read_words, view_vocabulary
from firth.vectors.word_vectors import WordVectors

_ORDER, _NOISE = 31, 41  # what the random numbers here are for
_TOGETHER = 1024  # words of which the characters are looked at in one go
NAMES = ("forward", "backward")


class BothDirections(nn.Module):
    """The objective: windows of text in streams, the softmax, the state that is carried."""

    def __init__(
        self,
        config: BothDirectionsConfig,
        model: ElmoConfig,
        spellings: Spellings,
        num_streams: int,
        network: CharacterCNN | None = None,
    ) -> None:
        """``network`` is the softmax's own, if it has one."""
        super().__init__()
        self.config = config
        self.spellings = spellings
        self.num_streams = num_streams
        self.widest = max(width for width, _ in model.filters)
        size = spellings.num_known
        self.softmax: TableSoftmax | CharacterSoftmax = (
            TableSoftmax(size, model.projection_dim)
            if config.softmax == "table"
            else CharacterSoftmax(network, size, model.projection_dim, config.correction_dim)
        )
        self.num_samples = min(config.num_samples, size - 1)
        self.weights = dict.fromkeys(NAMES, 0.5)
        self.num_layers = model.num_layers
        for layer in range(model.num_layers):
            self.register_buffer(f"hidden_{layer}", torch.zeros(2, num_streams, model.projection_dim))
            self.register_buffer(f"cell_{layer}", torch.zeros(2, num_streams, model.cell_dim))
        self._heldout_states: list[State] | None = None
        self._all_rows: torch.Tensor | None = None
        self.own = own_share(num_streams)  # streams of this process in training

    def start(self, generator: torch.Generator, counts: Ids, num_sentences: int) -> None:
        """``counts`` of the corpus's types. Scores begin at how often words occur, which a language model would learn
        first otherwise, in hundreds of steps."""
        self.softmax.initialize(generator)
        known_V = np.zeros(self.spellings.num_known, np.int64)
        np.add.at(known_V, self.spellings.known(np.arange(len(counts))), counts)
        known_V[:2] = num_sentences  # the marks at both ends of each
        with torch.no_grad():
            self.softmax.bias.copy_(log_unigram(known_V))

    # -- batches

    def rows(self, split: Split, seed: int) -> Streams:
        text = TokenStream(split, (self.spellings.end,), "sentence", shuffle_key=(seed, _ORDER))
        need_text(split, len(text))
        return Streams(text, cut_evenly(len(text), self.num_streams), self.config.seq_len)

    def batch(self, split: Split, rows: Streams, seed: int, first: int, count: int, own: slice = slice(None)) -> Batch:
        """Window ``first / count`` of every stream, or of those named; a pure function of its arguments."""
        assert count == self.num_streams
        number = first // count
        window = rows.window(number, own)
        sentence = rows.text.locate(window.positions, window.epoch)
        inputs, targets = (
            np.ascontiguousarray(part.transpose(0, 2, 1))
            for part in read_both_directions(split, sentence, self.spellings)
        )
        live = np.ascontiguousarray(window.inside.T)
        distinct, places = self.distinct(inputs)
        goals = self.spellings.known(targets)
        arrays: dict[str, NDArray[Any]] = {"inputs": places, "targets": goals, "num_inputs": np.asarray(len(distinct))}
        if self.num_samples:
            distinct = self._add_candidates(arrays, distinct, goals, (seed, _NOISE, number))
        arrays["characters"] = self.spell(distinct)
        if not live.all():
            arrays["live"] = np.stack((live, live))
        fresh = (sentence.offset == 0).T if self.config.reset_between_sentences else np.zeros_like(live)
        fresh[0] |= window.number == 0
        if fresh.any():
            arrays["fresh"] = np.stack((fresh, fresh))
        size = int(live.sum())
        return Batch(arrays, dict.fromkeys(NAMES, size), size)

    def distinct(self, inputs: Ids) -> tuple[Ids, Ids]:
        """The distinct types of a batch, and where each is among them."""
        found, places = np.unique(inputs, return_inverse=True)
        return found, places.reshape(inputs.shape)

    def spell(self, types: Ids) -> Ids:
        """Their characters."""
        return self.spellings.characters(types, self.widest)

    def _add_candidates(self, arrays: dict[str, NDArray[Any]], distinct: Ids, goals: Ids, key: tuple[int, ...]) -> Ids:
        """The words that a sampled softmax compares: the targets of the batch and the noise, each once. Returns
        the words to spell: the inputs first, then candidates that are not among them."""
        size = self.spellings.num_known
        noise, num_draws = draw_log_uniform(self.num_samples, size, *key)
        candidates = np.unique(np.concatenate((goals.reshape(-1), noise)))
        arrays["candidates"] = candidates
        arrays["target_places"] = np.searchsorted(candidates, goals)
        arrays["samples"] = np.searchsorted(candidates, noise)
        arrays["log_expected"] = log_expected_counts(candidates, size, num_draws).astype(np.float32)
        if self.config.softmax == "table":
            return distinct
        types = self.spellings.types(candidates)
        at = np.minimum(np.searchsorted(distinct, types), len(distinct) - 1)
        known = distinct[at] == types
        arrays["spelt"] = np.where(known, at, len(distinct) + np.cumsum(~known) - 1)
        return np.concatenate((distinct, types[~known]))

    # -- the state

    def _states(self) -> list[State] | None:
        if not self.training:
            return self._heldout_states
        return [
            (getattr(self, f"hidden_{layer}")[:, self.own], getattr(self, f"cell_{layer}")[:, self.own])
            for layer in range(self.num_layers)
        ]

    def _keep(self, states: list[State]) -> None:
        if not self.training:
            self._heldout_states = states
            return
        for layer, (hidden, cell) in enumerate(states):
            getattr(self, f"hidden_{layer}")[:, self.own] = hidden.detach()
            getattr(self, f"cell_{layer}")[:, self.own] = cell.detach()

    def train(self, mode: bool = True) -> "BothDirections":
        """Between training and testing, what was kept for a test is forgotten."""
        self._heldout_states, self._all_rows = None, None
        super().train(mode)
        return self

    # -- the loss

    def loss(self, model: Elmo, batch: Batch) -> Losses:
        """Sums of cross-entropy in both directions; a test is always over the whole vocabulary."""
        tensors = batch.tensors
        characters = tensors["characters"]
        if not self._shared:
            characters = characters[: int(batch.arrays["num_inputs"])]
        vectors_UP = model.tokens(characters)
        inputs_GTBP = functional.embedding(tensors["inputs"], vectors_UP)
        live = tensors.get("live")
        outputs_GTBP, states = model.read(inputs_GTBP, self._states(), live, tensors.get("fresh"))
        self._keep(states)
        hidden_GNP = outputs_GTBP.flatten(1, 2)
        if self.training and self.num_samples:
            sums = self._against_samples(tensors, hidden_GNP, vectors_UP)
        else:
            sums = self._over_all(model, hidden_GNP, tensors["targets"].flatten(1), live)
        return Losses(dict(zip(NAMES, sums, strict=True)))

    @property
    def _shared(self) -> bool:
        """The softmax takes its rows from the token layer: both are computed in one go."""
        return isinstance(self.softmax, CharacterSoftmax) and self.softmax.network is None

    def _against_samples(
        self, tensors: Mapping[str, torch.Tensor], hidden_GNP: torch.Tensor, vectors_UP: torch.Tensor
    ) -> list[torch.Tensor]:
        """The sum of each direction over the sampled words."""
        candidates = tensors["candidates"]
        if isinstance(self.softmax, TableSoftmax):
            rows_UP = self.softmax.rows(candidates)
        elif self.softmax.network is None:
            rows_UP = self.softmax.rows(candidates, functional.embedding(tensors["spelt"], vectors_UP))
        else:
            rows_UP = self.softmax.rows(candidates, self.softmax.network(tensors["characters"][tensors["spelt"]]))
        targets, samples = tensors["target_places"].flatten(), tensors["samples"]
        bias_U, log_expected_U = self.softmax.bias[candidates], tensors["log_expected"]
        each = sampled_loss(hidden_GNP.flatten(0, 1), rows_UP, bias_U, log_expected_U, targets, samples)
        if "live" in tensors:
            each = each * tensors["live"].flatten()
        return list(each.view(2, -1).sum(1))

    def _over_all(
        self, model: Elmo, hidden_GNP: torch.Tensor, targets_GN: torch.Tensor, live: torch.Tensor | None
    ) -> list[torch.Tensor]:
        """The sum of each direction over the whole vocabulary. The rows of a test are made once."""
        rows_VP = self._all_rows if self._all_rows is not None else self.all_rows(model.tokens)
        if not self.training:
            self._all_rows = rows_VP.detach()
        sums = []
        for number in range(2):
            hidden, targets = hidden_GNP[number], targets_GN[number]
            if live is not None:
                hidden, targets = hidden[live[number].flatten()], targets[live[number].flatten()]
            sums.append(cross_entropy_sum(hidden, rows_VP, self.softmax.bias, targets))
        return sums

    def all_rows(self, tokens: nn.Module) -> torch.Tensor:
        """The rows of all words, [V, P]."""
        if isinstance(self.softmax, TableSoftmax):
            return self.softmax.rows.weight
        words = np.arange(self.spellings.num_known)
        network = self.softmax.network or tokens
        device = self.softmax.correction.weight.device
        found = []
        for start in range(0, len(words), _TOGETHER):
            some = words[start : start + _TOGETHER]
            characters = torch.from_numpy(self.spell(self.spellings.types(some))).to(device)
            found.append(self.softmax.rows(torch.from_numpy(some).to(device), network(characters)))
        return torch.cat(found)


class ElmoPretraining(Pretraining):
    """A bidirectional language model over words."""

    published = (OPTIONS, WEIGHTS, VOCABULARY, SOFTMAX, WORDS, SEGMENTATION)
    uses = ("encode {name} texts.txt --out vectors.npy",)
    batch_is_fixed = True
    model: Elmo
    objective: BothDirections
    rows: Streams

    @classmethod
    def require(cls) -> None:
        require_h5py()

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, ElmoConfig)
        assert isinstance(config.objective, BothDirectionsConfig)
        self.require()  # before hours of training, not after
        known = view_vocabulary(corpus, config.objective.min_count, config.objective.max_vocab).words
        return Elmo(config.model), self._build_objective(config, corpus, known)

    def _build_objective(self, config: RunConfig, corpus: Corpus, known: list[str]) -> BothDirections:
        model, objective = config.model, config.objective
        assert isinstance(model, ElmoConfig)
        assert isinstance(objective, BothDirectionsConfig)
        spellings = Spellings(read_words(corpus.folder / "tokenizer" / "words.txt"), known, model.max_chars)
        own = objective.softmax == "characters" and objective.softmax_network == "own"
        network = build_token_layer(model) if own else None
        names = (f"{kind}_{layer}" for kind in ("hidden", "cell") for layer in range(model.num_layers))
        self.lanes = {f"objective.{name}": 1 for name in names}
        return BothDirections(objective, model, spellings, self.rows_per_batch, network)

    @classmethod
    def divides_lanes(cls, config: RunConfig) -> bool:
        return True

    def batch(self, number: int) -> Batch:
        size, seed = self.rows_per_batch, self.config.training.seed
        return self.objective.batch(self.corpus.train, self.rows, seed, number * size, size, self.objective.own)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        _require_words(corpus)
        return config

    def initialize(self, generator: torch.Generator) -> None:
        self.model.initialize(generator)
        self.objective.start(generator, self._counts(), self.corpus.info.train.sentences)
        if self.config.training.embeddings != "none":  # what all of the text taught is not to be lost in a part of it
            names = (f"model.tokens.{name}" for name, _ in self.model.tokens.named_parameters())
            self.rate_factors = dict.fromkeys(names, SLOWER)

    def _counts(self) -> Ids:
        return np.fromfile(self.corpus.folder / "tokenizer" / "counts.bin", np.int64)

    # -- word vectors to begin with

    @property
    def vectors_dim(self) -> int:
        return self.model.config.projection_dim

    def token_names(self) -> list[str]:
        """The words of the softmax."""
        return self.objective.spellings.known_words

    def take_vectors(self, vectors: WordVectors) -> int:
        """The token layer learns to spell them, and the rows of a softmax's table are those vectors."""
        known = require_fit(self.token_names(), vectors, self.vectors_dim)
        rows = np.asarray([row for row, _ in known])
        found_NP = standardised(vectors.rows(0, len(vectors))[[place for _, place in known]])
        types, seed = self.objective.spellings.types(rows), self.config.training.seed
        mimic(self.model.tokens, self.objective.spell(types), found_NP, self._counts()[types], seed)
        if isinstance(self.objective.softmax, TableSoftmax):
            take_rows(self.objective.softmax, rows, found_NP)
        return len(known)

    # -- a model that is trained already

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> ElmoConfig:
        _require_words(corpus)
        return load_elmo(*pair_of(base))[0]

    def start_from(self, base: Path) -> None:
        """The model's weights; the softmax keeps the corpus's own words, and takes the rows of those that the
        base knew, if the base is a run."""
        self.model.load_state_dict(load_elmo(*pair_of(base))[1])
        if (base / SOFTMAX).is_file():
            self._take_softmax(load_tensors(base / SOFTMAX), read_words(base / VOCABULARY))

    def _take_softmax(self, tensors: dict[str, torch.Tensor], words: list[str]) -> None:
        ours = self.objective.softmax.state_dict()
        place = {word: number for number, word in enumerate(words)}
        known = self.objective.spellings.known_words
        here = [number for number, word in enumerate(known) if word in place]
        there = [place[known[number]] for number in here]
        for name, tensor in tensors.items():
            if name not in ours or ours[name].shape[1:] != tensor.shape[1:]:
                return  # another kind of softmax: it begins anew
            if len(tensor) == len(words):
                ours[name][here] = tensor[there]
            elif ours[name].shape == tensor.shape:
                ours[name].copy_(tensor)
        self.objective.softmax.load_state_dict(ours)

    def restore(self, folder: Path) -> None:
        """Also the run's own words: a word of another corpus is known only if the run knew it."""
        words = read_words(folder / VOCABULARY)
        if words != self.objective.spellings.known_words:
            self.objective = self._build_objective(self.config, self.corpus, words[len(MARKS) :])
            self.module = nn.ModuleDict({"model": self.model, "objective": self.objective})
        self.model.load_state_dict(load_elmo(*pair_of(folder))[1])
        try:
            self.objective.softmax.load_state_dict(load_tensors(folder / SOFTMAX))
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise FirthError(f"{folder / SOFTMAX}: does not fit this run ({reason}); copy it again") from None

    def export(self, folder: Path) -> None:
        known = self.objective.spellings.known_words
        save_elmo(folder, self.model.config, self.model.state_dict(), len(known))
        write_text(folder / VOCABULARY, "".join(f"{word}\n" for word in known))
        save_tensors(folder / SOFTMAX, self.objective.softmax.state_dict())
        write_json(folder / WORDS, self.corpus.info.tokens.model_dump())
        Segmentation.load(self.corpus.folder / "tokenizer").save(folder)

    # -- tests

    def evaluate(self) -> dict[str, float]:
        """The losses as perplexities: of each direction, and of both together."""
        found = super().evaluate()
        if found:
            found |= {f"{name}_perplexity": math.exp(min(found[name], 700.0)) for name in NAMES}
            found["perplexity"] = math.exp(min(found["loss"], 700.0))
        return found

    def final_scores(self, folder: Path) -> Scores:
        """Why the two curves of the loss lie apart, where they do."""
        number = self.objective.num_samples
        said = (
            f"In training the loss is over the right word and {number:,} drawn ones; held-out text is scored over all."
        )
        return Scores(notes={"training_loss": said}) if number else Scores()


def _require_words(corpus: Corpus) -> None:
    if corpus.info.tokens.kind != "words":
        raise FirthError(
            f"{corpus.folder}: a corpus of {corpus.info.tokens.kind} pieces; ELMo reads words: firth prepare --tokens words"
        )


# -- ELMo begins with word vectors: its character network learns to spell out the vectors of the corpus's words (Pinter et al. 2017,
# "Mimicking word embeddings using subword RNNs"), and the rows of its softmax are those vectors.
#
# N words, M characters, P width of a vector.


_BATCH, _GROUP = 256, 8  # words of a step; steps whose words are drawn together and sorted by length
_EPOCHS = 10.0  # through the words of the softmax
_RATE, _WARMUP, _MOMENTUM = 2e-2, 0.05, 0.9
SLOWER = 0.05  # than the rest learns a token layer that has learned to spell vectors
_STREAM = 0x3141  # what the random numbers here are for


def standardised(vectors_NP: NDArray[np.float32]) -> torch.Tensor:
    """With mean 0 in every direction and one common deviation of 1."""
    found = torch.from_numpy(np.asarray(vectors_NP, np.float32))
    found = found - found.mean(0)
    return found / found.std().clamp(min=1e-12)


@torch.no_grad()
def take_rows(softmax: TableSoftmax, rows_N: NDArray[np.int64], vectors_NP: torch.Tensor) -> None:
    """These rows of the table, with the deviation that the table was drawn with."""
    softmax.rows.weight[torch.from_numpy(rows_N)] = vectors_NP * softmax.rows.weight.std()


def _optimizer(network: CharacterCNN) -> Muon:
    """Muon for the filters and layers above them, Adam for the characters."""
    parts: dict[int, list[torch.nn.Parameter]] = {0: [], 1: []}
    for name, parameter in network.named_parameters():
        parts[int(parameter.ndim == 2 and not name.startswith("embedding"))].append(parameter)
    groups: list[dict[str, object]] = [
        {"params": some, "weight_decay": 0.0, "maps": maps} for maps, some in parts.items()
    ]
    return Muon(groups, _RATE, (0.9, 0.999), 1e-8, _MOMENTUM)


def mimic(
    network: CharacterCNN,
    characters_NM: NDArray[np.int64],
    vectors_NP: torch.Tensor,
    counts_N: NDArray[np.int64],
    seed: int,
) -> list[float]:
    """Trains the network to give these vectors for these words; frequent words are drawn more often, by the root of their
    counts. The mean squared error of each step."""
    widest = max(width for width, _ in network.filters)
    lens_N = (characters_NM != characters_NM[:, -1:].max()).sum(1)
    chances_N = np.sqrt(np.maximum(counts_N, 1).astype(np.float64))
    chances_N /= chances_N.sum()
    steps = max(1, round(_EPOCHS * len(counts_N) / _BATCH))
    warmup = max(1.0, _WARMUP * steps)
    optimizer = _optimizer(network)
    errors: list[float] = []
    while len(errors) < steps:
        draws = generator(seed, _STREAM, len(errors))
        chosen = draws.choice(len(counts_N), _BATCH * _GROUP, p=chances_N)
        groups = chosen[np.argsort(lens_N[chosen], kind="stable")].reshape(_GROUP, _BATCH)
        for some in groups[draws.permutation(_GROUP)[: steps - len(errors)]]:
            for group in optimizer.param_groups:
                group["lr"] = _RATE * min((len(errors) + 1) / warmup, 1 - len(errors) / steps)
            longest = int(lens_N[some].max()) + widest  # more padding changes nothing
            found_NP = network(torch.from_numpy(characters_NM[some, :longest]))
            loss = (found_NP - vectors_NP[some]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            errors.append(float(loss.detach()))
    return errors
