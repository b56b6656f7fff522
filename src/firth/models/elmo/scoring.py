"""How likely sentences are to ELMo: each word by the softmax of the run, after the words before it and before those after it.

G directions (2), B sentences, T words with the borders of a sentence, N words predicted, V words of the softmax, P hidden
size of a direction.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.files import load_tensors
from firth.core.types import pad
from firth.corpus.format import Split
from firth.corpus.streams import MARKS, Located, Spellings
from firth.models.elmo.network import Elmo, build_token_layer
from firth.models.shared.model import loading
from firth.models.shared.scoring import ScoredText
from firth.nn.character_cnn import CharacterSoftmax, TableSoftmax
from firth.nn.softmax import judge_labels

_BEGIN, _END, _UNKNOWN = range(len(MARKS))
_TOGETHER = 1024  # words of which the characters are looked at in one go


class WordOutput:
    """The softmax of a run: a row and a bias for each word that it predicts."""

    def __init__(self, rows_VP: torch.Tensor, bias_V: torch.Tensor, known: Sequence[str]) -> None:
        """``known`` are the words without the marks, in the order of the rows."""
        self.rows_VP, self.bias_V = rows_VP, bias_V
        self.numbers = {word: len(MARKS) + place for place, word in enumerate(known)}

    @classmethod
    def load(cls, path: Path, model: Elmo, known: list[str]) -> "WordOutput":
        """A table of words, or rows from their characters, as the tensors say."""
        tensors = load_tensors(path)
        size, dim = len(MARKS) + len(known), model.config.projection_dim
        softmax: TableSoftmax | CharacterSoftmax
        if "correction.weight" in tensors:
            own = any(name.startswith("network.") for name in tensors)
            network = build_token_layer(model.config) if own else None
            softmax = CharacterSoftmax(network, size, dim, tensors["correction.weight"].shape[1])
        else:
            softmax = TableSoftmax(size, dim)
        with loading(path):
            softmax.load_state_dict(tensors)
        softmax.eval()
        if isinstance(softmax, TableSoftmax):
            return cls(softmax.rows.weight.detach(), softmax.bias.detach(), known)
        return cls(_spelt_rows(softmax, model, known), softmax.bias.detach(), known)

    def ids(self, sentence: Sequence[str]) -> NDArray[np.int64]:
        """A sentence with its borders; a word that is not predicted is the unknown one."""
        words = [self.numbers.get(word, _UNKNOWN) for word in sentence]
        return np.asarray([_BEGIN, *words, _END], np.int64)

    def score_texts(
        self,
        texts: Sequence[list[list[str]]],
        batches: Callable[[list[list[str]]], Sequence[NDArray[np.int64]]],
        read: Callable[[list[list[str]]], torch.Tensor],
    ) -> list[ScoredText]:
        """Texts as sentences of words; ``batches`` are numbers of sentences that ``read`` gives the last layer of."""
        sentences = [sentence for text in texts for sentence in text]
        found = [np.zeros(1)] * len(sentences)
        for numbers in batches(sentences):
            some = [sentences[number] for number in numbers]
            for number, log_probs in zip(numbers, self.score(some, read(some)), strict=True):
                found[number] = log_probs
        scores, parts = [], iter(found)
        for text in texts:
            mine = [next(parts) for _ in text]
            words = [word for sentence in text for word in sentence]
            log_probs = np.concatenate([np.zeros(0), *(part[:-1] for part in mine)])
            unknown = sum(word not in self.numbers for word in words)
            scores.append(ScoredText(words, log_probs, unknown, float(sum(part[-1] for part in mine))))
        return scores

    def score(self, sentences: Sequence[Sequence[str]], hidden_BTD: torch.Tensor) -> list[NDArray[np.float64]]:
        """From the last layer of sentences with their borders, for each sentence: log p of every word by both
        directions together, and last that of its borders."""
        ids_BT, mask_BT = pad([self.ids(sentence) for sentence in sentences])
        live = torch.from_numpy(mask_BT[:, 1:] > 0)
        forward_BTP, backward_BTP = hidden_BTD.chunk(2, dim=-1)
        after, before = torch.from_numpy(ids_BT[:, 1:])[live], torch.from_numpy(ids_BT[:, :-1])[live]
        forward_N = judge_labels(forward_BTP[:, :-1][live], self.rows_VP, self.bias_V, after)[0].double().numpy()
        backward_N = judge_labels(backward_BTP[:, 1:][live], self.rows_VP, self.bias_V, before)[0].double().numpy()
        borders = np.cumsum(mask_BT[:, 1:].sum(1))[:-1]
        # of n + 1 predictions the first backward one is the begin and the last forward one the end
        return [
            forward + np.roll(backward, -1)
            for forward, backward in zip(np.split(forward_N, borders), np.split(backward_N, borders), strict=True)
        ]


def _spelt_rows(softmax: CharacterSoftmax, model: Elmo, known: list[str]) -> torch.Tensor:
    """The rows of all words by their characters, [V, P]."""
    spellings = Spellings(known, known, model.config.max_chars)
    network = softmax.network or model.tokens
    widest = max(width for width, _ in model.config.filters)
    found = []
    with torch.inference_mode():
        for start in range(0, spellings.num_known, _TOGETHER):
            some = np.arange(start, min(start + _TOGETHER, spellings.num_known))
            characters = torch.from_numpy(spellings.characters(spellings.types(some), widest))
            found.append(softmax.rows(torch.from_numpy(some), network(characters)))
    return torch.cat(found)


def require_output(path: Path | None) -> Path:
    """The file of the softmax, which published weights come without."""
    if path is None or not path.is_file():
        raise FirthError(
            "this ELMo has no softmax (softmax.safetensors) in its folder, so it gives words no probability: use a run of Firth"
        )
    return path


Ids = NDArray[np.int64]


def read_both_directions(split: Split, sentence: Located, spellings: Spellings) -> tuple[Ids, Ids]:
    """Types that are read and types that come next, both [G, B, T]: the sentence, and the sentence turned around.

    A sentence of n words has n + 1 places: at each there is a word that is read and one that comes next, the borders of
    the sentence among them."""
    place, size = sentence.offset, sentence.len
    last = len(split.tokens) - 1

    def token(index: Ids) -> Ids:
        return np.asarray(split.tokens[np.clip(sentence.start + index, 0, last)], np.int64)

    inputs = np.stack(
        (
            np.where(place == 0, spellings.begin, token(place - 1)),
            np.where(place == 0, spellings.end, token(size - place)),
        )
    )
    targets = np.stack(
        (
            np.where(place == size, spellings.end, token(place)),
            np.where(place == size, spellings.begin, token(size - 1 - place)),
        )
    )
    return inputs, targets
