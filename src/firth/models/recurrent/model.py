"""A trained recurrent language model with its tokens: vectors, scores and continuations.

Decoding reads one token at a time; all that is kept of a text is the state.

N rows, S states of a layer, H state size, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.registry import TokensConfig
from firth.core.types import BATCH_TOKENS, Encoding, Frame, Inputs, TextReader, batches_by_length, pad
from firth.decoding.steps import Trace
from firth.models.recurrent.config import RecurrentConfig
from firth.models.recurrent.network import Recurrent
from firth.models.shared.generation import Continuation, Generation, generate
from firth.models.shared.model import Model, TextLayers, loading, require_room
from firth.models.shared.scoring import LEFT_TO_RIGHT, ScoredText, choose_method, score_next, scored
from firth.nn.layers import pool_tokens
from firth.nn.softmax import AdaptiveOutput, TokenOutput
from firth.tokenizers.pieces import UNKNOWN_PIECES, UNKNOWN_WORDS
from firth.tokenizers.word_tokens import AnyTokens, WordTokens

State: TypeAlias = list[torch.Tensor]  # [S, N, H] a layer


class RecurrentStepper:
    """``Stepper`` and ``Prefilled`` of the decoding room: what has been read is the state, however much it was."""

    def __init__(self, model: Recurrent, head: TokenOutput) -> None:
        self.model, self.head = model, head

    @property
    def vocab_size(self) -> int:
        return self.model.config.vocab_size

    def start(self, num_rows: int) -> State:
        return self.model.zero_state(num_rows)

    def step(self, ids_N: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        reading = self.model.read(ids_N[:, None], state)
        return self.head.log_probs(reading.hidden_TBD[0], self.model.tokens.weight), reading.state

    def prefill(self, ids_NT: torch.Tensor) -> tuple[torch.Tensor, State]:
        reading = self.model.read(ids_NT)
        return self.head.log_probs(reading.hidden_TBD[-1], self.model.tokens.weight), reading.state

    def reorder(self, state: State, index_N: torch.Tensor) -> State:
        return [part.index_select(1, index_N) for part in state]


class RecurrentModel(Model):
    """What ``firth.load`` gives for recurrent language models."""

    kind = "recurrent language model"
    spec_name = "recurrent"
    pools = ("mean", "last", "max")
    score_methods: tuple[str, ...] = (LEFT_TO_RIGHT,)

    def __init__(self, model: Recurrent, head: TokenOutput, tokens: AnyTokens) -> None:
        self.model, self.head, self.tokens = model.eval(), head.eval(), tokens
        self.config = model.config
        self.dim, self.num_layers = model.width, model.config.num_layers
        eos_id = tokens.eos_id
        assert eos_id is not None, "such a model is only trained with a token that ends texts"
        self.eos_id = eos_id

    @classmethod
    def from_weights(
        cls,
        config: RecurrentConfig,
        output: str,
        weights: dict[str, torch.Tensor],
        head_weights: dict[str, torch.Tensor],
        tokens: AnyTokens,
        where: Path,
    ) -> "RecurrentModel":
        require_room(tokens.vocab_size, config.vocab_size, where)
        if tokens.eos_id is None:
            raise FirthError(f"{where}: its tokenizer has no token that ends a text; copy the files of the model again")
        model = Recurrent(config)
        head: TokenOutput
        if output == "adaptive":
            head = AdaptiveOutput(config.hidden_dims[-1], torch.zeros(config.vocab_size, dtype=torch.int64))
        else:
            head = TokenOutput(config.hidden_dims[-1], config.vocab_size, config.tied_output)
        with loading(where):
            model.load_state_dict(weights)
            head.load_state_dict(head_weights)
        return cls(model, head, tokens)

    @property
    def text_rules(self) -> TokensConfig:
        if not isinstance(self.tokens, WordTokens):
            return TokensConfig()
        split: Literal["whitespace", "words"] = "whitespace" if self.tokens.whitespace_only else "words"
        return TokensConfig(kind="words", lowercase=self.tokens.lowercase, word_split=split)

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for part in (self.model, self.head) for parameter in part.parameters())

    @property
    def vocab_size(self) -> int:
        return self.tokens.vocab_size

    def _abilities(self) -> set[str]:
        return super()._abilities() | (set() if self.config.bidirectional else {"generate"})

    @property
    def unknown_limit(self) -> float:  # type: ignore[override]
        return UNKNOWN_WORDS if isinstance(self.tokens, WordTokens) else UNKNOWN_PIECES

    def stepper(self) -> RecurrentStepper:
        """For decoding: one token at a time."""
        return RecurrentStepper(self.model, self.head)

    def reader(self) -> TextReader:
        """The network for a task: a text is read after an end token, and its last token has read all of it."""
        return TextReader(
            kind=self.kind,
            module=self.model,
            tokenize=self._encoded,
            dim=self.dim,
            num_layers=self.config.num_layers + 1,
            max_len=None,
            frame=Frame((self.eos_id,)),
            pad_id=self.eos_id,
            summary="mean" if self.config.bidirectional else "last",
            unk_id=self.tokens.unk_id,
        )

    def _encoded(self, text: str | list[str]) -> Encoding:
        return self.tokens.encode(text, add_special=False)

    # -- vectors

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """One vector per text, float32 [N, D]; ``last`` takes the last token, which has read the whole text."""
        self._check_choice(layer, pool)
        rows = [np.append(self.eos_id, self._encoded(text).ids) for text in texts]
        found = np.zeros((len(rows), self.dim), np.float32)
        for numbers in batches_by_length([len(row) for row in rows], BATCH_TOKENS):
            found[numbers] = self._pooled([rows[number] for number in numbers], layer, pool)
        return found

    @torch.inference_mode()
    def _pooled(self, rows: list[NDArray[np.int64]], layer: int, pool: str) -> NDArray[np.float32]:
        """From the tokens of each text; from the end token that it is read after, where it has none."""
        ids_BT, mask_BT = pad(rows, self.eos_id)
        inputs = Inputs(torch.from_numpy(ids_BT), torch.from_numpy(mask_BT))
        read_BT = inputs.mask.clone()
        read_BT[:, 0] = read_BT.sum(1) == 1
        return pool_tokens(self.model(inputs).hidden[layer], read_BT, pool).numpy()

    @torch.inference_mode()
    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer for every token; a list is taken as words."""
        encoding = self._encoded(text)
        ids = torch.from_numpy(np.concatenate(([self.eos_id], encoding.ids)))[None]
        hidden = self.model(Inputs(ids)).hidden[:, 0, 1:].numpy()
        return TextLayers(encoding.tokens, encoding.offsets, encoding.words, hidden)

    # -- likelihoods

    @torch.inference_mode()
    def score_texts(self, texts: Sequence[str], method: str | None = None) -> list[ScoredText]:
        """log p of every token given those before it, after the token that ends texts."""
        if self.config.bidirectional:
            self._cannot("score texts", "a model that reads in one direction")
        choose_method(method, self.score_methods, self.kind)
        encodings = [self._encoded(text) for text in texts]
        rows = [np.concatenate(([self.eos_id], one.ids, [self.eos_id])) for one in encodings]
        return [
            scored(one, found[:-1], self.tokens.unk_id, found[-1])
            for one, found in zip(encodings, score_next(rows, self._judge), strict=True)
        ]

    def _judge(self, read_BT: torch.Tensor, inside_BT: torch.Tensor, labels_N: torch.Tensor) -> torch.Tensor:
        """log p of the token after each one that is inside, [N]."""
        hidden_ND = self.model.read(read_BT).hidden_TBD.transpose(0, 1)[inside_BT]
        return self.head.judge(hidden_ND, labels_N, self.model.tokens.weight)[0]

    def token_scores(self, text: str) -> NDArray[np.float64]:
        """log p of each token given those before it, and of the end after the last."""
        (found,) = self.score_texts([text])
        assert found.end is not None
        return np.append(found.log_probs, found.end)

    def perplexities(self, texts: Sequence[str]) -> dict[str, float]:
        """Per token, per word and per character; the end of a text counts as one of each."""
        total, sizes = 0.0, np.zeros(3)
        for text in texts:
            total += self.score(text)
            encoding = self._encoded(text)
            sizes += len(encoding.ids) + 1, len(np.unique(encoding.words)) + 1, len(text) + 1
        return {
            f"perplexity_{name}": float(np.exp(-total / size))
            for name, size in zip(("token", "word", "character"), sizes.tolist(), strict=True)
        }

    # -- continuations

    def generate_many(
        self, texts: Sequence[str], trace: Trace | None = None, **settings: object
    ) -> list[list[Continuation]]:
        """Each text continued, in one batch: see ``Generation`` for the settings."""
        if self.config.bidirectional:
            self._cannot("continue texts", "a model that reads in one direction")
        return generate(self.stepper(), self.tokens, texts, Generation.build(settings, "generate"), trace)
