"""ELMo under both directions: the family of ``elmo-*``.

A run is the published pair (``options.json``, ``weights.hdf5``) with the softmax's words (``vocab.txt``, in the
published order) and weights (``softmax.safetensors``), and how the corpus split text into words (``words.json``).
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firth.core.configs import RunConfig, TokensConfig
from firth.core.errors import FirthError
from firth.core.files import read_json, write_json, write_text
from firth.core.tensors import load_tensors, save_tensors
from firth.core.types import Objective
from firth.corpus.format import Corpus
from firth.corpus.word_view import MARKS, Spellings
from firth.models.elmo.config import BothDirectionsConfig, ElmoConfig
from firth.models.elmo.format import OPTIONS, WEIGHTS, find_pair, load_elmo, require_h5py, save_elmo
from firth.models.elmo.model import ElmoModel
from firth.models.elmo.network import Elmo, build_token_layer
from firth.models.elmo.objective import NAMES, BothDirections
from firth.models.shared.model import Model
from firth.models.shared.pretraining import Pretraining, require_one_process
from firth.vectors.vocabulary import read_words, view_vocabulary

VOCABULARY, SOFTMAX, WORDS = "vocab.txt", "softmax.safetensors", "words.json"


def pair_of(path: Path) -> tuple[Path, Path]:
    found = find_pair(path)
    if found is None:
        raise FirthError(f"{path}: no ELMo here ({OPTIONS} and {WEIGHTS}); name its folder or its .hdf5 file")
    return found


def load_elmo_model(path: Path) -> Model:
    """A run, or a published pair: its folder or its weights."""
    options, weights = pair_of(path)
    config, tensors = load_elmo(options, weights)
    folder = weights.parent
    rules = (
        TokensConfig.build(read_json(folder / WORDS), folder / WORDS)
        if (folder / WORDS).is_file()
        else TokensConfig(kind="words", lowercase=False)
    )
    words = read_words(folder / VOCABULARY)[len(MARKS) :] if (folder / VOCABULARY).is_file() else []
    return ElmoModel.from_weights(config, tensors, rules, words, weights)


class ElmoPretraining(Pretraining):
    """A bidirectional language model over words."""

    published = (OPTIONS, WEIGHTS, VOCABULARY, SOFTMAX, WORDS)
    uses = ("encode {name} texts.txt --out vectors.npy",)
    model: Elmo
    objective: BothDirections

    @classmethod
    def require(cls) -> None:
        require_h5py()

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, ElmoConfig)
        assert isinstance(config.objective, BothDirectionsConfig)
        self.require()  # before hours of training, not after
        require_one_process(
            "ELMo carries its state from batch to batch, which one process does: train it without torchrun"
        )
        known = view_vocabulary(corpus, config.objective.min_count, config.objective.max_vocab).words
        return Elmo(config.model), self._build_objective(config, corpus, known)

    def _build_objective(self, config: RunConfig, corpus: Corpus, known: list[str]) -> BothDirections:
        model, objective = config.model, config.objective
        assert isinstance(model, ElmoConfig)
        assert isinstance(objective, BothDirectionsConfig)
        spellings = Spellings(read_words(corpus.folder / "tokenizer" / "words.txt"), known, model.max_chars)
        own = objective.softmax == "characters" and objective.softmax_network == "own"
        network = build_token_layer(model) if own else None
        return BothDirections(objective, model, spellings, config.training.batch_size, network)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        _require_words(corpus)
        return config

    def initialize(self, generator: torch.Generator) -> None:
        self.model.initialize(generator)
        counts = np.fromfile(self.corpus.folder / "tokenizer" / "counts.bin", np.int64)
        self.objective.start(generator, counts, self.corpus.info.train.sentences)

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

    # -- tests

    def evaluate(self) -> dict[str, float]:
        """The losses as perplexities: of each direction, and of both together."""
        found = super().evaluate()
        if found:
            found |= {f"{name}_perplexity": math.exp(min(found[name], 700.0)) for name in NAMES}
            found["perplexity"] = math.exp(min(found["loss"], 700.0))
        return found

    def final_scores(self, folder: Path) -> dict[str, Any]:
        """Why the two curves of the loss lie apart, where they do."""
        number = self.objective.num_samples
        said = (
            f"In training the loss is over the right word and {number:,} drawn ones; held-out text is scored over all."
        )
        return {"training_loss": said} if number else {}


def _require_words(corpus: Corpus) -> None:
    if corpus.info.tokens.kind != "words":
        raise FirthError(
            f"{corpus.folder}: a corpus of {corpus.info.tokens.kind} pieces; ELMo reads words: firth prepare --tokens words"
        )
