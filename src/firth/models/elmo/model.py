"""A trained ELMo: words of any language in, every layer out; words that were never seen have vectors, too.

The token layer depends on the word alone, so its vector is kept once it is known. Text is read a sentence at
a time, with its borders, as in training; a list is taken as the words of one sentence.

B sentences, T words, P output size of a direction, D = 2P, L LSTM layers.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.core.registry import TokensConfig
from firth.core.types import Encoding, Frame, TextReader, batches_by_length
from firth.corpus.streams import MARKS
from firth.models.elmo.config import ElmoConfig
from firth.models.elmo.format import OPTIONS, WEIGHTS, find_pair, load_elmo
from firth.models.elmo.network import BEGIN, END, PADDING, Elmo, ElmoWords
from firth.models.elmo.scoring import WordOutput, require_output
from firth.models.shared.model import Found, Model, TextLayers
from firth.models.shared.scoring import BOTH_DIRECTIONS, ScoredText, choose_method
from firth.tokenizers.segmentation import Segmentation
from firth.tokenizers.sentences import split_sentences
from firth.tokenizers.words import PADDING as CHARACTER_PADDING
from firth.tokenizers.words import border_ids, character_ids, trimmed
from firth.vectors.vocabulary import read_words

_BATCH_CELLS = 1 << 22  # words of a batch times cells: what is held at a time grows with both
_CACHED_WORDS = 400_000
_TOGETHER = 512
Spans = list[tuple[int, int]]


class TokenCache:
    """The token layer's vector of every word that was asked for; the borders of a sentence come first."""

    def __init__(self, model: Elmo) -> None:
        self.model = model
        rows = model.tokens.embedding.weight.new_zeros((2, model.config.projection_dim))
        self.state: tuple[dict[str, int], torch.Tensor] = {}, rows  # replaced as a whole

    @property
    def rows(self) -> torch.Tensor:
        return self.state[1]

    def _compute(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Words of like length together, so that little padding is computed."""
        found = self.state[1].new_empty((len(ids), self.model.config.projection_dim))
        widest = max(width for width, _ in self.model.config.filters)
        lens = (ids != ids[0, -1]).sum(1) if len(ids) else []
        for some in batches_by_length(lens, max_rows=_TOGETHER):
            found[some] = self.model.tokens(torch.from_numpy(trimmed(ids[some], widest)))
        return found

    def look_up(self, words: Sequence[str]) -> tuple[NDArray[np.int64], torch.Tensor]:
        """The row of each word, and the rows; new ones are computed. Several threads may ask: nothing that was given out
        changes, and what one of them adds another may have to compute again."""
        places, rows = self.state
        if not places:
            rows = self._compute(border_ids(self.model.config.max_chars))
        fresh = [word for word in dict.fromkeys(words) if word not in places]
        if len(places) + len(fresh) > _CACHED_WORDS:
            places, fresh, rows = {}, list(dict.fromkeys(words)), rows[:2]
        if fresh:
            places = places | {word: len(rows) + number for number, word in enumerate(fresh)}
            rows = torch.cat((rows, self._compute(character_ids(fresh, self.model.config.max_chars))))
            self.state = places, rows
        return np.fromiter((places[word] for word in words), np.int64, len(words)), rows


class ElmoModel(Model):
    """What ``firth.load`` gives for ELMo."""

    kind = "bidirectional language model"
    spec_name = "elmo"
    score_methods: tuple[str, ...] = (BOTH_DIRECTIONS,)
    softmax_path: Path | None = None  # of the weights that give words a probability; runs have them

    def __init__(self, config: ElmoConfig, rules: TokensConfig, known: list[str]) -> None:
        """``rules`` say how text becomes words; ``known`` are the words of the softmax, the frequent first."""
        self.config = config
        self.rules = rules
        self.known = known
        self.dim, self.num_layers = config.hidden_dim, config.num_layers
        self.model = Elmo(config)
        self.cache = TokenCache(self.model)

    @classmethod
    def from_weights(
        cls, config: ElmoConfig, weights: dict[str, torch.Tensor], rules: TokensConfig, known: list[str], where: Path
    ) -> "ElmoModel":
        found = cls(config, rules, known)
        try:
            found.model.load_state_dict(weights)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise FirthError(
                f"{where}: weights and options do not fit ({reason}); are the files of one model?"
            ) from None
        found.model.eval()
        return found

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def vocab_size(self) -> int | None:
        """Words that it predicts; it reads any."""
        return len(self.known) or None

    @property
    def text_rules(self) -> TokensConfig:
        return self.rules

    def _abilities(self) -> set[str]:
        return super()._abilities() | ({"nearest"} if self.known else set())

    # -- text to words

    def _sentences(self, text: str | list[str]) -> tuple[list[list[str]], Spans]:
        """The words of each sentence as the model reads them, and where they stand in the text (a list: as if
        joined by spaces)."""
        if isinstance(text, list):
            ends = np.cumsum([len(word) + 1 for word in text]) - 1
            spans = [(int(end) - len(word), int(end)) for word, end in zip(text, ends, strict=True)]
            return [[self._fold(word) for word in text]] if text else [], spans
        chinese = self.segmentation.is_chinese(text)
        spans, sentences = [], []
        for start, end in split_sentences(text):
            found = [(start + first, start + last) for first, last in self._split(text[start:end], chinese)]
            if found:
                sentences.append([self._fold(text[first:last]) for first, last in found])
                spans += found
        return sentences, spans

    def _split(self, sentence: str, chinese: bool) -> Spans:
        if self.rules.word_split == "whitespace":
            return [match.span() for match in re.finditer(r"\S+", sentence)]
        return self.segmentation.split(sentence, chinese)

    def _fold(self, word: str) -> str:
        return word.lower() if self.rules.lowercase else word

    # -- words to layers

    def _read(self, sentences: Sequence[list[str]]) -> Iterator[tuple[int, torch.Tensor]]:
        """(number, hidden [L+1, T, D]) of each sentence, without its borders; like lengths go together."""
        for numbers in self._batches(sentences):
            hidden = self._layers([sentences[number] for number in numbers])
            for row, number in enumerate(numbers.tolist()):
                yield number, hidden[:, row, 1 : len(sentences[number]) + 1]

    @functools.cached_property
    def _output(self) -> WordOutput:
        return WordOutput.load(require_output(self.softmax_path), self.model, self.known)

    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        """log p of every word by both directions together; sentences are read by themselves, and ``end`` is the
        log-probability of all their borders."""
        choose_method(method, self.score_methods, self.kind)
        split = [self._sentences(text)[0] for text in texts]
        with torch.inference_mode():
            return self._output.score_texts(split, self._batches, lambda some: self._layers(some)[-1])

    def _batches(self, sentences: Sequence[list[str]]) -> list[NDArray[np.int64]]:
        """Numbers of sentences of like length that are read together."""
        room = max(64, min(4096, _BATCH_CELLS // self.config.cell_dim))
        return batches_by_length([len(sentence) for sentence in sentences], room)

    def _layers(self, sentences: Sequence[list[str]]) -> torch.Tensor:
        """[L+1, B, T+2, D], borders included."""
        rows, table = self.cache.look_up([word for sentence in sentences for word in sentence])
        longest = max(len(sentence) for sentence in sentences) + 2
        places = np.zeros((len(sentences), longest), np.int64)
        mask = np.zeros((len(sentences), longest), np.bool_)
        first = 0
        for row, sentence in enumerate(sentences):
            size = len(sentence)
            places[row, 1 : size + 1] = rows[first : first + size]
            places[row, size + 1] = 1
            mask[row, : size + 2] = True
            first += size
        return self.model.layers(table[torch.from_numpy(places)], torch.from_numpy(mask)).hidden

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every word."""
        return self.layers_of([text])[0]

    def layers_of(self, texts: Sequence[str | list[str]]) -> list[TextLayers]:
        split = [self._sentences(text) for text in texts]
        with torch.inference_mode():
            found = dict(self._read([sentence for sentences, _ in split for sentence in sentences]))
        layers, first = [], 0
        for text, (sentences, spans) in zip(texts, split, strict=True):
            parts = [found[first + number].numpy() for number in range(len(sentences))]
            first += len(sentences)
            hidden = np.concatenate(parts, axis=1) if parts else np.zeros((self.config.num_layers + 1, 0, self.dim))
            words = text if isinstance(text, list) else [text[start:end] for start, end in spans]
            offsets = np.asarray(spans, np.int64).reshape(-1, 2)
            layers.append(TextLayers(words, offsets, np.arange(len(words)), hidden.astype(np.float32)))
        return layers

    def reader(self) -> TextReader:
        """The model for a task. A text is read as one sentence between its borders, since a task needs one row per text."""
        size = self.config.max_chars
        marks = np.concatenate((np.full((1, size), CHARACTER_PADDING + 1), border_ids(size)))
        module = ElmoWords(self.model, marks)

        def tokenize(text: str | list[str]) -> Encoding:
            sentences, spans = self._sentences(text)
            words = [word for sentence in sentences for word in sentence]
            fresh = module.missing(words)
            module.add(fresh, character_ids(fresh, size))
            ids = np.fromiter((module.numbers[word] for word in words), np.int64, len(words))
            offsets = np.asarray(spans, np.int64).reshape(-1, 2)
            return Encoding(ids, offsets, np.arange(len(ids)), words, np.zeros(len(ids), np.int64))

        return TextReader(
            kind=self.kind,
            module=module,
            tokenize=tokenize,
            dim=self.dim,
            num_layers=self.config.num_layers + 1,
            max_len=None,
            frame=Frame(before=(BEGIN,), after=(END,)),
            pad_id=PADDING,
        )

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """The mean (or largest) of the vectors of the words of each text; zeros for a text without words."""
        self._check_choice(layer, pool)
        split = [self._sentences(text)[0] for text in texts]
        owner = [number for number, sentences in enumerate(split) for _ in sentences]
        pooled = np.full((len(texts), self.dim), 0.0 if pool == "mean" else -np.inf, np.float64)
        with torch.inference_mode():
            for number, hidden in self._read([sentence for sentences in split for sentence in sentences]):
                rows = hidden[layer].double().numpy()
                mine = pooled[owner[number]]
                np.maximum(mine, rows.max(0), out=mine) if pool == "max" else np.add(mine, rows.sum(0), out=mine)
        counts = np.asarray([sum(map(len, sentences)) for sentences in split])
        pooled[counts == 0] = 0.0
        return (pooled / np.maximum(counts, 1)[:, None] if pool == "mean" else pooled).astype(np.float32)

    def nearest(self, word: str, top: int = 10) -> list[Found]:
        """Words of the vocabulary whose token layer is nearest: spelt alike, or learned to be alike. The word
        itself need not be known."""
        if not self.known:
            self._cannot("list near words (it came without a vocabulary)", "a run of Firth")
        with torch.inference_mode():
            rows, table = self.cache.look_up([self._fold(word), *self.known])
            vectors = torch.nn.functional.normalize(table[torch.from_numpy(rows)], dim=-1)
            scores = (vectors[1:] @ vectors[0]).numpy()
        order = np.argsort(-scores, kind="stable")[: top + 1]
        found = [(self.known[place], float(scores[place])) for place in order if self.known[place] != self._fold(word)]
        return found[:top]


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
    model = ElmoModel.from_weights(config, tensors, rules, words, weights)
    model.softmax_path = folder / SOFTMAX if words else None
    model._segmentation = Segmentation.load(folder)
    return model
