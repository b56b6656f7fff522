"""A trained translator with its tokenizers: text in, translations out; attention and the encoder's layers to look at.

B texts, S source tokens, T target tokens, D hidden size, L layers, H heads.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.model_configs import EncoderDecoderConfig, Seq2SeqConfig
from firth.core.types import Encoding
from firth.decoding.beam import beam_search
from firth.decoding.hypotheses import Hypothesis
from firth.decoding.settings import Beam, Rules
from firth.models.encoder_decoder import EncoderDecoder
from firth.models.encoder_decoder_steps import EncoderDecoderStepper
from firth.models.seq2seq import Seq2Seq, Seq2SeqStepper
from firth.nn.packed import PackedMatrix
from firth.representations.base import Attention, Representation, TextLayers, Translated
from firth.text.characters import is_han
from firth.text.pieces import Pieces

_BATCH_TOKENS = 2048
_SAME_LEN = 8  # sources whose lengths agree up to this are searched together


@dataclass(frozen=True)
class AttentionMaps(Attention):
    """That of the source (a recurrent model has none: no layers), of the target, and between them: row t of
    ``between`` is what was looked at to write target token t."""

    target_tokens: list[str]
    between: NDArray[np.float32]  # [L, H, T, S]
    target: NDArray[np.float32] | None  # [L, H, T, T]; a recurrent model has none

    @property
    def source_tokens(self) -> list[str]:
        return self.tokens

    @property
    def source(self) -> NDArray[np.float32] | None:
        """[L, H, S, S]; a recurrent model has none."""
        return self.weights if len(self.weights) else None

    @property
    def alignment(self) -> NDArray[np.float32]:
        """[T, S]: the mean of all layers and heads between target and source."""
        found: NDArray[np.float32] = self.between.mean((0, 1))
        return found


class TranslationRepresentation(Representation):
    """What ``firth.load`` gives for models that translate."""

    kind = "translator"
    source_len: int | None = None  # tokens of a source that are read, where it was taught so

    def __init__(
        self,
        config: EncoderDecoderConfig | Seq2SeqConfig,
        weights: dict[str, torch.Tensor],
        ids: dict[str, int],
        pieces: Pieces,
        target_pieces: Pieces,
        languages: list[str],
        where: Path,
    ) -> None:
        self.config = config
        self.dim = config.hidden_dim
        self.pieces, self.target_pieces, self.languages = pieces, target_pieces, languages
        self.start_id, self.eos_id = ids["start_id"], ids["eos_id"]
        self.model = EncoderDecoder(config) if isinstance(config, EncoderDecoderConfig) else Seq2Seq(config)
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise FirthError(
                f"{where}: weights and config do not fit ({reason}); are the files of one model?"
            ) from None
        self.model.eval()

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    # -- the source

    @property
    def _room(self) -> int | None:
        """The most tokens that fit; None without a limit."""
        learned = isinstance(self.config, EncoderDecoderConfig) and self.config.positions == "learned"
        return self.config.max_positions if learned and isinstance(self.config, EncoderDecoderConfig) else None

    def _encode(self, text: str | list[str]) -> Encoding:
        """The pieces of a source and the end."""
        assert self.pieces.eos_id is not None
        found = self.pieces.encode(text, add_special=False, read_special=False)
        size = len(text) if isinstance(text, str) else len(" ".join(text))
        if self.source_len is not None and len(found.ids) > self.source_len:
            most = self.source_len
            found = Encoding(
                found.ids[:most], found.offsets[:most], found.words[:most], found.tokens[:most], found.segments[:most]
            )
        if self._room is not None and len(found.ids) + 1 > self._room:
            raise FirthError(f"a text has {len(found.ids)} tokens, more than the model's {self._room - 1}: shorten it")
        return Encoding(
            np.append(found.ids, self.pieces.eos_id),
            np.concatenate((found.offsets, [[size, size]])),
            np.append(found.words, -1),
            [*found.tokens, self.pieces.token(self.pieces.eos_id)],
            np.append(found.segments, 0),
        )

    def _batches(self, rows: Sequence[NDArray[np.int64]]) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
        """(numbers, ids, tokens) of sources of like length, the longest first."""
        group = [-(-len(row) // _SAME_LEN) for row in rows]
        order = sorted(range(len(rows)), key=lambda number: -group[number])
        start = 0
        while start < len(order):
            same = group[order[start]]
            most = max(1, _BATCH_TOKENS // (same * _SAME_LEN))
            stop = start
            while stop < len(order) and stop - start < most and group[order[stop]] == same:
                stop += 1
            numbers = order[start:stop]
            ids = np.full((len(numbers), max(len(rows[number]) for number in numbers)), self.pieces.pad_id or 0)
            tokens = np.zeros_like(ids, np.bool_)
            for place, number in enumerate(numbers):
                ids[place, : len(rows[number])] = rows[number]
                tokens[place, : len(rows[number])] = True
            yield numbers, torch.from_numpy(ids), torch.from_numpy(tokens)
            start = stop

    def encode(self, texts: str | Sequence[str], layer: int = -1, pool: str = "mean") -> NDArray[np.float32]:
        """A vector a text from the encoder, float32 [N, D]."""
        if pool not in ("mean", "max"):
            raise FirthError(f"unknown pool '{pool}': a translator has mean and max")
        num_layers = self.config.num_layers + 1
        if not -num_layers <= layer < num_layers:
            raise FirthError(
                f"layer {layer} does not exist: this model has layers 0 to {num_layers - 1} (0 is the token layer)"
            )
        rows = [self._encode(text).ids for text in ([texts] if isinstance(texts, str) else texts)]
        out = np.zeros((len(rows), self.dim), np.float32)
        with torch.inference_mode():
            for numbers, ids, tokens in self._batches(rows):
                hidden_BSD = self.model.layers(ids, tokens).hidden[layer]
                real = tokens[:, :, None]
                if pool == "max":
                    out[numbers] = hidden_BSD.masked_fill(~real, float("-inf")).amax(1).numpy()
                else:
                    out[numbers] = ((hidden_BSD * real).sum(1) / real.sum(1)).numpy()
        return out

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer of the encoder for every source token; a list is taken as words."""
        encoding = self._encode(text)
        with torch.inference_mode():
            hidden = self.model.layers(torch.from_numpy(encoding.ids)[None]).hidden[:, 0]
        return TextLayers(encoding.tokens, encoding.offsets, encoding.words, hidden.numpy())

    # -- the target

    def translate(self, texts: str | Sequence[str], beams: int = 5, **settings: Any) -> list[str]:
        """The best translation of each text; ``settings`` as of ``translations``."""
        return [found[0].text for found in self.translations(texts, beams, 1, **settings)]

    def translations(
        self,
        texts: str | Sequence[str],
        beams: int = 5,
        nbest: int = 1,
        *,
        length_penalty: float = 0.6,
        max_tokens: int | None = None,
        copy_unknown: bool = False,
        prefixes: Sequence[str] | None = None,
        rules: Rules | None = None,
        **settings: Any,
    ) -> list[list[Translated]]:
        """The ``nbest`` best translations of each text, best first.

        ``prefixes`` are how translations must begin, one a text; ``copy_unknown`` puts the source word
        that was most looked at in the place of an unknown token.
        """
        if settings:
            raise FirthError(f"translating has no setting '{next(iter(settings))}'")
        texts = [texts] if isinstance(texts, str) else list(texts)
        if prefixes is not None and len(prefixes) != len(texts):
            raise FirthError(
                f"{len(prefixes)} prefixes for {len(texts)} texts: give one a text, empty where there is none"
            )
        beam = Beam.build({"width": beams, "num_best": nbest, "alpha": length_penalty}, "beam search")
        found: list[list[Translated]] = [[Translated("", 0.0, 0.0)] * nbest for _ in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        encodings = [self._encode(texts[place]) for place in places]
        with torch.inference_mode():
            for numbers, ids, tokens in self._batches([encoding.ids for encoding in encodings]):
                forced = [self._prefix(prefixes[places[number]] if prefixes else "") for number in numbers]
                searched = self._search(ids, tokens, forced, beam, max_tokens, rules)
                for number, begun, hypotheses in zip(numbers, forced, searched, strict=True):
                    place = places[number]
                    found[place] = [
                        self._finished(texts[place], encodings[number], begun, one, copy_unknown) for one in hypotheses
                    ]
        return found

    def _prefix(self, text: str) -> list[int]:
        if not text.strip():
            return []
        return self.target_pieces.encode(text, add_special=False, read_special=False).ids.tolist()

    @functools.cached_property
    def _output(self) -> PackedMatrix:
        return PackedMatrix(*self.model.output_weights())

    def _stepper(self, ids: torch.Tensor, tokens: torch.Tensor) -> Any:
        if isinstance(self.model, EncoderDecoder):
            return EncoderDecoderStepper(self.model, ids, tokens, self._output)
        return Seq2SeqStepper(self.model, ids, tokens, self._output)

    def _search(
        self,
        ids: torch.Tensor,
        tokens: torch.Tensor,
        forced: list[list[int]],
        beam: Beam,
        max_tokens: int | None,
        rules: Rules | None,
    ) -> list[list[Hypothesis]]:
        """At most twice as many tokens as the source has, and some: what runs on has lost its way."""
        room = 2 * _SAME_LEN * -(-ids.shape[1] // _SAME_LEN) + 16 if max_tokens is None else max_tokens
        if self._room is not None:
            room = max(1, min(room, self._room - 1 - max(map(len, forced))))
        prompts = [[self.start_id, *begun] for begun in forced]
        banned = tuple({*self.target_pieces.special_ids, self.start_id} - {self.eos_id, self.target_pieces.unk_id})
        spare = range(self.target_pieces.vocab_size, self.model.target_vocab_size)
        rules = rules or Rules(banned=tuple(sorted({*banned, *spare})))
        return beam_search(self._stepper(ids, tokens), prompts, room, self.eos_id, beam, rules)

    def _finished(self, text: str, encoding: Encoding, begun: list[int], one: Hypothesis, copy: bool) -> Translated:
        ids = [*begun, *one.ids]
        if copy and self.target_pieces.unk_id in ids:
            return Translated(self._copied(text, encoding, ids), one.score, one.normalised)
        return Translated(self.target_pieces.decode(ids), one.score, one.normalised)

    def _copied(self, text: str, encoding: Encoding, ids: list[int]) -> str:
        """Unknown tokens become the source words that were looked at most (Luong et al. 2015b)."""
        maps = self._maps(encoding, [*ids, self.eos_id])
        if maps is None:
            return self.target_pieces.decode(ids)
        parts: list[str] = []
        known: list[int] = []
        for place, number in enumerate([*ids, None]):
            if number is not None and number != self.target_pieces.unk_id:
                known.append(number)
                continue
            parts += [self.target_pieces.decode(known)] if known else []
            known = []
            if number is not None:
                best = int(maps.alignment[place, :-1].argmax())  # never the end
                mine = encoding.offsets[encoding.words == encoding.words[best]]
                parts.append(text[int(mine[:, 0].min()) : int(mine[:, 1].max())].strip())
        return _joined(parts)

    # -- to be looked at

    def attention(self, text: str, target: str | None = None) -> AttentionMaps:
        """What is looked at while ``text`` becomes ``target`` (by default the model's own translation)."""
        encoding = self._encode(text)
        if target is None:
            target = self.translate(text)[0]
        maps = self._maps(encoding, [*self._prefix(target), self.eos_id])
        if maps is None:
            raise FirthError("this model has no attention: train one with attention=dot, general or additive")
        return maps

    def _maps(self, encoding: Encoding, ids: list[int]) -> AttentionMaps | None:
        source = torch.from_numpy(encoding.ids)[None]
        target = torch.tensor([[self.start_id, *ids[:-1]]])
        names = [self.target_pieces.token(number) for number in ids]
        with torch.inference_mode():
            if isinstance(self.model, EncoderDecoder):
                inside, own, between = (part[:, 0].numpy() for part in self.model.attention(source, None, target))
                return AttentionMaps(encoding.tokens, encoding.offsets, inside, names, between, own)
            weights_BTS = self.model.attention(source, None, target)
        if weights_BTS is None:
            return None
        none = np.zeros((0, 0, len(encoding.ids), len(encoding.ids)), np.float32)
        return AttentionMaps(encoding.tokens, encoding.offsets, none, names, weights_BTS[None].numpy(), None)


def _joined(parts: list[str]) -> str:
    """Words with spaces between, except between Chinese characters."""
    out = ""
    for part in parts:
        gap = bool(out and part) and not (is_han(out[-1]) and is_han(part[0]))
        out += f" {part}" if gap else part
    return out
