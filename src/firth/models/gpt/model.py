"""A trained GPT with its tokenizer: vectors, scores, continuations, and labels by examples that are shown first.

It continues texts token by token, with the keys and values of what was read kept. When the positions are used up, the older half of the text falls out and the rest is read again: a model
with learned positions cannot slide. All rows have read equally many tokens, so this befalls all at once.

N rows, T tokens, V vocabulary.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.types import BATCH_TOKENS, Floats, Frame, Inputs, Ints, TextReader
from firth.decoding.steps import Trace
from firth.models.gpt.config import DecoderConfig
from firth.models.gpt.network import Decoder
from firth.models.shared.generation import Continuation, Generation, generate
from firth.models.shared.model import Attention, Model, PromptedLabel, TextLayers, loading, require_room
from firth.models.shared.scoring import LEFT_TO_RIGHT, ScoredText, choose_method, score_next, scored
from firth.nn.arrays import encode_windows, padded_batches
from firth.nn.cache import KeyValues
from firth.nn.layers import PackedMatrix, pool_tokens
from firth.nn.softmax import judge_labels
from firth.tokenizers.pieces import Pieces


@dataclass
class DecoderState:
    """The cache, and the tokens that are in it."""

    cache: KeyValues
    ids_NT: torch.Tensor


class DecoderStepper:
    """``vocab_size``: tokens beyond it are spare rows of the table and never chosen; ``scores`` stands in for the
    model's own, which it must equal."""

    def __init__(
        self, model: Decoder, vocab_size: int, scores: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> None:
        self.model = model
        self.scores = scores or model.scores
        self.vocab_size = vocab_size

    def start(self, num_rows: int) -> DecoderState:
        nothing = torch.zeros((num_rows, 0), dtype=torch.long, device=self.model.tokens.weight.device)
        return DecoderState(self.model.begin(num_rows), nothing)

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, DecoderState]:
        most = self.model.config.max_positions
        if ids_NT.shape[1] > most:
            ids_NT = ids_NT[:, -max(1, most // 2) :]
        state = DecoderState(self.model.begin(len(ids_NT)), ids_NT)
        hidden = self.model.advance(ids_NT, state.cache)[:, -1]
        return self._log_probs(hidden), state

    def step(self, ids_N: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        ids_NT = torch.cat((state.ids_NT, ids_N[:, None]), 1)
        if ids_NT.shape[1] > self.model.config.max_positions:
            return self.prefill(ids_NT)
        hidden = self.model.advance(ids_N[:, None], state.cache)[:, -1]
        return self._log_probs(hidden), DecoderState(state.cache, ids_NT)

    def reorder(self, state: DecoderState, index_N: torch.Tensor) -> DecoderState:
        return DecoderState(state.cache.reorder(index_N), state.ids_NT[index_N])

    def _log_probs(self, hidden_ND: torch.Tensor) -> torch.Tensor:
        return self.scores(hidden_ND)[:, : self.vocab_size].float().log_softmax(-1)


class DecoderModel(Model):
    """What ``firth.load`` gives for models in the shape of GPT-2 or Llama. A text is read as the beginning of a document
    wherever it is scored or continued: the token that ends texts stands before it."""

    kind = "decoder"
    spec_name = "gpt"
    pools = ("mean", "last", "max")
    score_methods: tuple[str, ...] = (LEFT_TO_RIGHT,)

    def __init__(self, config: DecoderConfig, pieces: Pieces) -> None:
        self.config = config
        self.dim, self.num_layers = config.hidden_dim, config.num_layers
        self.pieces = self.tokens = pieces
        assert pieces.eos_id is not None
        self.eos_id = pieces.eos_id
        self.bos_id = pieces.eos_id if config.bos_id is None else config.bos_id
        self.decoder = Decoder(config)

    @classmethod
    def from_weights(
        cls, config: DecoderConfig, weights: dict[str, torch.Tensor], pieces: Pieces, where: Path
    ) -> "DecoderModel":
        if pieces.eos_id is None:
            raise FirthError(f"{where}: its tokenizer has no token that ends a text; copy the files of the model again")
        model = cls(config, pieces)
        with loading(where):
            model.decoder.load_state_dict(weights)
        require_room(pieces.vocab_size, config.vocab_size, where)
        model.decoder.eval()
        return model

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.decoder.parameters())

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    def _abilities(self) -> set[str]:
        return super()._abilities() | {"generate", "attention"}

    def stepper(self) -> DecoderStepper:
        """For decoding: one token at a time."""
        return DecoderStepper(self.decoder, self.pieces.vocab_size, self._output)

    @functools.cached_property
    def _output(self) -> PackedMatrix:
        return PackedMatrix(self.decoder.head_VD, None)

    def reader(self) -> TextReader:
        """The decoder for a task: the token that ends texts stands around them and between two (Radford et al.
        2018, fig. 1), and the last one has read everything."""
        pieces, end = self.pieces, (self.eos_id,)
        return TextReader(
            kind=self.kind,
            module=self.decoder,
            tokenize=lambda text: pieces.encode(text, add_special=False, read_special=False),
            dim=self.dim,
            num_layers=self.config.num_layers + 1,
            max_len=self.config.max_positions,
            frame=Frame((self.bos_id,), end, end),
            pad_id=self.eos_id,
            summary="last",
            joins_pairs=True,
            unk_id=pieces.unk_id,
        )

    def ids(self, text: str) -> NDArray[np.int64]:
        """Tokens of a text without any special ones."""
        return self.pieces.encode(text, add_special=False, read_special=False).ids

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """One vector per text, float32 [N, D]; ``pool`` last is the token that has seen all others. Texts longer
        than the model go through in windows, and an empty text is the token that ends texts."""
        self._check_choice(layer, pool)
        windows = []
        for text in texts:
            ids = self.ids(text)
            ids = ids if len(ids) else np.asarray([self.eos_id])
            windows.append(np.split(ids, range(self.config.max_positions, len(ids), self.config.max_positions)))
        with torch.inference_mode():
            return encode_windows(windows, self.dim, pool, lambda some: self._pooled(some, layer, pool))

    def _pooled(self, windows: Sequence[Ints], layer: int, pool: str) -> Iterator[tuple[Ints, Floats]]:
        """(numbers, a vector each) of some windows at a time."""
        for numbers, ids_BT, mask_BT in padded_batches(windows):
            inputs = Inputs(torch.from_numpy(ids_BT), torch.from_numpy(mask_BT))
            last = layer in (-1, self.num_layers)
            hidden_BTD = self.decoder.last(inputs) if last else self.decoder(inputs).hidden[layer]
            yield numbers, pool_tokens(hidden_BTD, inputs.mask, pool).numpy()

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every token; a list is taken as words."""
        encoding = self.pieces.encode(text, add_special=False, read_special=False)
        hidden = np.zeros((self.config.num_layers + 1, len(encoding.ids), self.dim), np.float32)
        most = self.config.max_positions
        with torch.inference_mode():
            for start in range(0, len(encoding.ids), most):
                ids = torch.from_numpy(encoding.ids[start : start + most])[None]
                hidden[:, start : start + most] = self.decoder(Inputs(ids)).hidden[:, 0].numpy()
        return TextLayers(encoding.tokens, encoding.offsets, encoding.words, hidden)

    def attention(self, text: str, second: str | None = None) -> Attention:
        """What each token looks at, in every layer and head: itself and those before it."""
        if second is not None:
            raise FirthError("a decoder reads one text from left to right: join the two texts to one")
        encoding = self.pieces.encode(text, add_special=False, read_special=False)
        size, most = len(encoding.ids), self.config.max_positions
        if not size:
            raise FirthError("there is nothing to look at in an empty text: give some words")
        if size > most:
            raise FirthError(f"the text has {size} tokens, more than the model's {most}: shorten it")
        with torch.inference_mode():
            weights_LHTT = self.decoder.attention(Inputs(torch.from_numpy(encoding.ids)[None]))[:, 0]
        return Attention(encoding.tokens, encoding.offsets, weights_LHTT.float().numpy())

    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        """log p of every token given all before it, after the token that ends texts; of long texts as ``score_ids``."""
        choose_method(method, self.score_methods, self.kind)
        encodings = [self.pieces.encode(text, add_special=False, read_special=False) for text in texts]
        rows = [np.concatenate(([self.bos_id], one.ids, [self.eos_id])) for one in encodings]
        fit = [number for number, row in enumerate(rows) if len(row) - 1 <= self.config.max_positions]
        with torch.inference_mode():
            found = dict(zip(fit, score_next([rows[number] for number in fit], self._judge), strict=True))
        log_probs = [found[n] if n in found else self.score_ids(row[1:]) for n, row in enumerate(rows)]
        unk_id = self.pieces.unk_id
        return [scored(one, mine[:-1], unk_id, mine[-1]) for one, mine in zip(encodings, log_probs, strict=True)]

    def _judge(self, read_BT: torch.Tensor, inside_BT: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
        """log p of the token after each one that is inside, [N]."""
        hidden_ND = self.decoder.last(Inputs(read_BT))[inside_BT]
        return judge_labels(hidden_ND, self.decoder.head_VD[: self.pieces.vocab_size], None, labels_N)[0]

    def score_ids(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """log p of each token given all before it; where they do not fit, at least half the positions are."""
        read = np.append(self.bos_id, ids[:-1])
        found = np.zeros(len(ids))
        most, done = self.config.max_positions, 0
        with torch.inference_mode():
            while done < len(ids):
                start = max(0, min(done - most // 2, len(ids) - most)) if done else 0
                stop = min(start + most, len(ids))
                hidden = self.decoder.last(Inputs(torch.from_numpy(read[start:stop])[None]))[0, done - start :]
                scores = self.decoder.scores(hidden)[:, : self.pieces.vocab_size].float().log_softmax(-1)
                found[done:stop] = scores.gather(1, torch.from_numpy(ids[done:stop])[:, None])[:, 0].numpy()
                done = stop
        return found

    def perplexities(self, texts: Sequence[str]) -> dict[str, float]:
        """Per token, per word and per character; the end of a text counts as one of each."""
        total, sizes = 0.0, np.zeros(3)
        for text in texts:
            encoding = self.pieces.encode(text, add_special=False, read_special=False)
            total += float(self.score_ids(np.append(encoding.ids, self.eos_id)).sum())
            sizes += len(encoding.ids) + 1, len(np.unique(encoding.words)) + 1, len(text) + 1
        return name_perplexities(-total, *sizes.tolist())

    def generate_many(
        self, texts: Sequence[str], trace: Trace | None = None, **settings: object
    ) -> list[list[Continuation]]:
        """Each text continued, in one batch: see ``Generation`` for the settings. When the positions are used up
        the older half of the text is forgotten."""
        chosen = Generation.build(settings, "generate")
        return generate(self.stepper(), self.pieces, texts, chosen, trace, self.bos_id)

    def classify_by_prompt(
        self, examples: Sequence[tuple[str, str]], texts: Sequence[str], template: str | None = None
    ) -> list[PromptedLabel]:
        return classify_by_prompt(self, examples, texts, template or TEMPLATE)


def name_perplexities(loss: float, num_tokens: float, num_words: float, num_characters: float) -> dict[str, float]:
    """exp of the loss a token, a word, a character: three numbers that must not be confused."""
    counts = {"token": num_tokens, "word": num_words, "character": num_characters}
    return {f"perplexity_{name}": float(np.exp(loss / count)) for name, count in counts.items()}


TEMPLATE = "{text}\nLabel: {label}\n\n"


def classify_by_prompt(
    model: DecoderModel,
    examples: Sequence[tuple[str, str]],
    texts: Sequence[str],
    template: str = TEMPLATE,
) -> list[PromptedLabel]:
    """``examples`` are (text, label); the labels of all texts are sought among theirs."""
    opening, middle, closing = _parts(template)
    labels = list(dict.fromkeys(label for _, label in examples))
    if len(labels) < 2:
        raise FirthError(f"the examples have {len(labels)} label(s): at least two different ones are needed")
    shown = "".join(f"{opening}{text}{middle}{label}{closing}" for text, label in examples)
    # The space before a label belongs to it, as in all text that the model has read.
    question, space = middle.rstrip(" "), middle[len(middle.rstrip(" ")) :]
    asked = [[model.bos_id, *model.ids(f"{shown}{opening}{text}{question}").tolist()] for text in texts]
    answers = [model.ids(space + label).tolist() for label in labels]
    most = model.config.max_positions
    needed = max(map(len, asked), default=0) + max(map(len, answers))
    if needed > most:
        raise FirthError(
            f"examples and text come to {needed} tokens, more than the model's {most}: give fewer or shorter examples"
        )
    if not texts:
        return []
    head = _shared(asked)
    rows = [(text[len(head) :], answer) for text in asked for answer in answers]
    scores = np.asarray(_scores(model, head, rows)).reshape(len(texts), len(labels))
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return [PromptedLabel(labels[int(row.argmax())], dict(zip(labels, row.tolist(), strict=True))) for row in shares]


def _parts(template: str) -> tuple[str, str, str]:
    """What stands before the text, between text and label, and after the label."""
    before, has_text, rest = template.partition("{text}")
    middle, has_label, after = rest.partition("{label}")
    if not has_text or not has_label:
        raise FirthError(f"template '{template}' must have {{text}} and, after it, {{label}}")
    return before, middle, after


def _shared(rows: list[list[int]]) -> list[int]:
    """The tokens with which all rows begin: where the examples end is the tokenizer's affair."""
    first, last = min(rows), max(rows)
    same = next((place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:same]


def _scores(model: DecoderModel, head: list[int], rows: list[tuple[list[int], list[int]]]) -> list[float]:
    """log p of each answer after the head and its text."""
    decoder, found = model.decoder, []
    size = max(1, BATCH_TOKENS // max((len(text) + len(answer) for text, answer in rows), default=1))
    with torch.inference_mode():
        cache = decoder.begin(1)
        before = decoder.advance(torch.tensor([head]), cache)[:, -1:]
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            longest = max(len(text) + len(answer) for text, answer in some)
            ids = torch.tensor([[*text, *answer, *[0] * (longest - len(text) - len(answer))] for text, answer in some])
            copies = torch.zeros(len(some), dtype=torch.long)
            hidden = decoder.advance(ids, cache.reorder(copies))
            # Place t of ``hidden`` predicts token t once the last place of the head stands before it.
            hidden = torch.cat((before[copies], hidden[:, :-1]), 1)
            for row, (text, answer) in enumerate(some):
                scores = decoder.scores(hidden[row, len(text) : len(text) + len(answer)])
                log_probs = scores[:, : model.pieces.vocab_size].float().log_softmax(-1)
                found.append(float(log_probs.gather(1, torch.tensor(answer)[:, None]).sum()))
    return found
