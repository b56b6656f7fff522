"""Trained models that translate: sources in, targets out, with BLEU and chrF.

``Translator`` is what any of them answers, wherever it searches; ``TranslationModel`` is one with its network;
``SourceReader`` the encoder by itself, as tasks read it (CoVe, McCann et al. 2017).

B batch, N sources, S source tokens, T target tokens, D hidden size.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.errors import FirthError
from firth.core.run import Scores
from firth.core.types import Encoding, Frame, Inputs, Layers, TextReader, batches_by_length, pad
from firth.decoding.beam import beam_search
from firth.decoding.steps import Beam, Hypothesis, Rules
from firth.models.shared.encoder_decoder import TranslationNetwork
from firth.models.shared.model import AttentionMaps, Model, TextLayers, Translated, loading
from firth.models.shared.published import Weights
from firth.models.shared.translator_format import build_translator, load_translator
from firth.nn.layers import PackedMatrix, TokenNetwork, pool_tokens
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.words import is_han, spaced


def tokenizer_for(language: str, references: Sequence[str]) -> str:
    """sacrebleu's tokenizer: ``zh`` for Chinese, whether by name or by the look of the references; else ``13a``."""
    if language:
        return "zh" if language.lower().replace("_", "-").split("-")[0] in ("zh", "zho", "cmn", "cn") else "13a"
    letters = [char for text in references[:200] for char in text if char.isalpha()]
    return "zh" if letters and sum(map(is_han, letters)) > 0.5 * len(letters) else "13a"


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "", tokenize: str | None = None
) -> Scores:
    """``bleu``, ``chrf`` and their signatures."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(tokenize=tokenize or tokenizer_for(language, references)), CHRF()
    scores = [metric.corpus_score(list(hypotheses), [list(references)]) for metric in (bleu, chrf)]
    return Scores(
        {"bleu": float(scores[0].score), "chrf": float(scores[1].score)},
        {"bleu_signature": str(bleu.get_signature()), "chrf_signature": str(chrf.get_signature())},
    )


_BATCH_TOKENS = 2048
_SAME_LEN = 8  # sources whose lengths agree up to this are searched together


class Translator(Model, ABC):
    """A source is its pieces and the end; what is ``search``ed and how is for those that can."""

    kind = "translator"
    spec_name = "transformer"
    room: int | None = None  # the most tokens that fit; None without a limit
    target_vocab_size: int  # rows of the target's table, which may be more than it has tokens

    def __init__(self, ids: dict[str, int], pieces: Pieces, target_pieces: Pieces, languages: list[str]) -> None:
        self.pieces, self.target_pieces, self.languages = pieces, target_pieces, languages
        self.start_id, self.eos_id = ids["start_id"], ids["eos_id"]

    @property
    def vocab_size(self) -> int:
        return self.pieces.vocab_size

    @abstractmethod
    def search(
        self, rows: list[NDArray[np.int64]], forced: list[list[int]], beam: Beam, max_tokens: int, rules: Rules
    ) -> list[list[Hypothesis]]:
        """The best continuations of what is forced, one list a source."""

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
        if self.room is not None and len(found.ids) + 1 > self.room:
            raise FirthError(f"a text has {len(found.ids)} tokens, more than the model's {self.room - 1}: shorten it")
        return Encoding(
            np.append(found.ids, self.pieces.eos_id),
            np.concatenate((found.offsets, [[size, size]])),
            np.append(found.words, -1),
            [*found.tokens, self.pieces.token(self.pieces.eos_id)],
            np.append(found.segments, 0),
        )

    def _batches(self, rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The numbers of sources of like length, the longest first."""
        lens = [_SAME_LEN * -(-len(row) // _SAME_LEN) for row in rows]
        return batches_by_length(lens, _BATCH_TOKENS, longest_first=True, equal=True)

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

        ``prefixes`` are how translations must begin, one per text; ``copy_unknown`` puts the source word
        that was most looked at in the place of an unknown token.
        """
        if settings:
            raise FirthError(f"translating has no setting '{next(iter(settings))}'")
        texts = [texts] if isinstance(texts, str) else list(texts)
        if prefixes is not None and len(prefixes) != len(texts):
            raise FirthError(
                f"{len(prefixes)} prefixes for {len(texts)} texts: give one per text, empty where there is none"
            )
        beam = Beam.build({"width": beams, "num_best": nbest, "alpha": length_penalty}, "beam search")
        found: list[list[Translated]] = [[Translated("", 0.0, 0.0)] * nbest for _ in texts]
        places = [place for place, text in enumerate(texts) if text.strip()]
        encodings = [self._encode(texts[place]) for place in places]
        rules = rules or Rules(banned=self._never_said())
        for numbers in self._batches([encoding.ids for encoding in encodings]):
            rows = [encodings[number].ids for number in numbers]
            forced = [self._prefix(prefixes[places[number]] if prefixes else "") for number in numbers]
            searched = self.search(rows, forced, beam, self._most(rows, forced, max_tokens), rules)
            for number, begun, hypotheses in zip(numbers.tolist(), forced, searched, strict=True):
                place = places[number]
                found[place] = [
                    self._finished(texts[place], encodings[number], begun, one, copy_unknown) for one in hypotheses
                ]
        return found

    def _prefix(self, text: str) -> list[int]:
        if not text.strip():
            return []
        return self.target_pieces.encode(text, add_special=False, read_special=False).ids.tolist()

    def _never_said(self) -> tuple[int, ...]:
        """Special tokens other than the end and the unknown, and spare rows of the table."""
        special = {*self.target_pieces.special_ids, self.start_id} - {self.eos_id, self.target_pieces.unk_id}
        return tuple(sorted({*special, *range(self.target_pieces.vocab_size, self.target_vocab_size)}))

    def _most(self, rows: list[NDArray[np.int64]], forced: list[list[int]], max_tokens: int | None) -> int:
        """At most twice as many tokens as the source has, and some: what runs on has lost its way."""
        longest = max(map(len, rows))
        found = 2 * _SAME_LEN * -(-longest // _SAME_LEN) + 16 if max_tokens is None else max_tokens
        return found if self.room is None else max(1, min(found, self.room - 1 - max(map(len, forced))))

    def _finished(self, text: str, encoding: Encoding, begun: list[int], one: Hypothesis, copy: bool) -> Translated:
        ids = [*begun, *one.ids]
        if copy and self.target_pieces.unk_id in ids:
            return Translated(self._copied(text, encoding, ids), one.score, one.normalised)
        return Translated(self.target_pieces.decode(ids), one.score, one.normalised)

    def _copied(self, text: str, encoding: Encoding, ids: list[int]) -> str:
        """The translation with source words in the place of unknown tokens."""
        raise FirthError("this model does not show what it looked at, so nothing can be copied: use the original run")


class SourceReader(TokenNetwork):
    """Shares the weights of the model, and owns those of the encoder alone: a task neither trains nor keeps the rest.
    Positions and segments follow from the text alone."""

    def __init__(self, model: TranslationNetwork) -> None:
        super().__init__()
        self.__dict__["model"] = model  # past nn.Module, which would register all of it
        self.tokens = model.tokens
        for name, part in model.encoder_parts().items():
            self.add_module(name, part)

    model: TranslationNetwork

    def train(self, mode: bool = True) -> "SourceReader":
        super().train(mode)
        self.model.train(mode)
        return self

    def forward(self, inputs: Inputs) -> Layers:
        """Every layer of the encoder."""
        return Layers(self.model(_read(inputs)).hidden, inputs.mask)

    def last(self, inputs: Inputs) -> torch.Tensor:
        """The last layer only, [B, T, D]."""
        return self.model.last(_read(inputs))


def _read(inputs: Inputs) -> Inputs:
    """The ids, and where there are tokens unless they are everywhere. An empty row looks at its padding, not at nothing."""
    tokens = inputs.mask
    return Inputs(inputs.ids, None if bool(tokens.all()) else tokens | ~tokens.any(1, keepdim=True))


class TranslationModel(Translator):
    """What ``firth.load`` gives for models that translate."""

    def __init__(
        self,
        network: TranslationNetwork,
        weights: Weights,
        ids: dict[str, int],
        pieces: Pieces,
        target_pieces: Pieces,
        languages: list[str],
        where: Path,
    ) -> None:
        super().__init__(ids, pieces, target_pieces, languages)
        self.model, self.config = network, network.config
        self.dim, self.num_layers = network.tokens.embedding_dim, network.num_layers
        self.target_vocab_size, self.room = network.target_vocab_size, network.max_len
        with loading(where):
            network.load_state_dict(weights)
        network.eval()
        network.prepare_decoding()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """From a run or a published directory."""
        config, weights, ids, pieces, target_pieces, languages = load_translator(folder)
        return cls(build_translator(config), weights, ids, pieces, target_pieces, languages, folder)

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def _abilities(self) -> set[str]:
        return super()._abilities() | {"translate"} | self.model.shows

    # -- the source

    def reader(self) -> TextReader:
        """The encoder for a task (CoVe, McCann et al. 2017): a text is read as a source, with the end after it."""
        pieces = self.pieces
        assert pieces.eos_id is not None
        return TextReader(
            kind=self.kind,
            module=SourceReader(self.model),
            tokenize=lambda text: pieces.encode(text, add_special=False, read_special=False),
            dim=self.dim,
            num_layers=self.num_layers + 1,
            max_len=self.room,
            frame=Frame(after=(pieces.eos_id,)),
            pad_id=pieces.pad_id or 0,
            unk_id=pieces.unk_id,
        )

    def _padded(self, rows: Sequence[NDArray[np.int64]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids [B, S], and where there are tokens."""
        ids, tokens = pad(rows, self.pieces.pad_id or 0)
        return torch.from_numpy(ids), torch.from_numpy(tokens > 0)

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        """One vector per text from the encoder, float32 [N, D]."""
        self._check_choice(layer, pool)
        rows = [self._encode(text).ids for text in texts]
        out = np.zeros((len(rows), self.dim), np.float32)
        with torch.inference_mode():
            for numbers in self._batches(rows):
                ids, tokens = self._padded([rows[number] for number in numbers])
                out[numbers] = pool_tokens(self.model(Inputs(ids, tokens)).hidden[layer], tokens, pool).numpy()
        return out

    def layers(self, text: str | list[str]) -> TextLayers:
        """Every layer of the encoder for every source token; a list is taken as words."""
        encoding = self._encode(text)
        with torch.inference_mode():
            hidden = self.model(Inputs(torch.from_numpy(encoding.ids)[None])).hidden[:, 0]
        return TextLayers(encoding.tokens, encoding.offsets, encoding.words, hidden.numpy())

    # -- the target

    @functools.cached_property
    def _output(self) -> PackedMatrix:
        return PackedMatrix(*self.model.output_weights())

    def search(
        self, rows: list[NDArray[np.int64]], forced: list[list[int]], beam: Beam, max_tokens: int, rules: Rules
    ) -> list[list[Hypothesis]]:
        prompts = [[self.start_id, *begun] for begun in forced]
        with torch.inference_mode():
            stepper = self.model.stepper(*self._padded(rows), self._output)
            return beam_search(stepper, prompts, max_tokens, self.eos_id, beam, rules)

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
        return spaced(parts)

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

    def align(self, text: str, target: str | None = None) -> AttentionMaps:
        return self.attention(text, target)

    def _maps(self, encoding: Encoding, ids: list[int]) -> AttentionMaps | None:
        source = torch.from_numpy(encoding.ids)[None]
        target = torch.tensor([[self.start_id, *ids[:-1]]])
        names = [self.target_pieces.token(number) for number in ids]
        with torch.inference_mode():
            found = self.model.looks(source, target)
        if found is None:
            return None
        inside, between = (part.numpy() for part in (found[0], found[2]))
        own = None if found[1] is None else found[1].numpy()
        return AttentionMaps(encoding.tokens, encoding.offsets, inside, names, between, own)
