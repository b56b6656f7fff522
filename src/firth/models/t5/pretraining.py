"""Encoder-decoders that write what was taken out of a text: the family of T5."""

from pathlib import Path

import torch
from torch import nn

from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.types import Objective
from firth.corpus.format import Corpus, same_tokens
from firth.models.shared.configs import EncoderDecoderConfig
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.translation import load_translator, rate_factors, save_translator, scaled
from firth.models.t5.config import CorruptedSpansConfig
from firth.models.t5.model import T5Model
from firth.models.t5.objective import CorruptedSpans
from firth.tokenizers.pieces import Pieces
from firth.tokenizers.sentinels import sentinel_ids, with_sentinels


def load_text_to_text(folder: Path) -> T5Model:
    """A T5 run or a published T5 directory."""
    return T5Model(*load_translator(folder), folder)


def pieces_of(corpus: Corpus, config: CorruptedSpansConfig) -> Pieces:
    """The tokenizer of the corpus with sentinels behind it, or a word about what is missing."""
    pieces = corpus.pieces
    missing = [
        name for name, number in (("padding", pieces.pad_id), ("the end of a text", pieces.eos_id)) if number is None
    ]
    if missing:
        raise FirthError(
            f"{corpus.folder}: its tokenizer has no token for {' and '.join(missing)}, which this recipe needs; prepare the corpus with --tokens unigram"
        )
    return with_sentinels(pieces, config.num_sentinels)


class T5Pretraining(Pretraining):
    """Plain text in, a model out that fills in and can be taught to write."""

    uses = (
        'fill {name} "A sentence with <extra_id_0> in it."',
        "finetune write --base {name} --train pairs.tsv --out NEW_RUN",
    )
    model: EncoderDecoder
    objective: CorruptedSpans

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderDecoderConfig)
        assert isinstance(config.objective, CorruptedSpansConfig)
        self.pieces = pieces = pieces_of(corpus, config.objective)
        assert pieces.pad_id is not None
        assert pieces.eos_id is not None
        self.rate_factors = rate_factors(config.model)
        sentinels = sentinel_ids(pieces)[: config.objective.num_sentinels]
        return EncoderDecoder(config.model), CorruptedSpans(config.objective, pieces.pad_id, pieces.eos_id, sentinels)

    def initialize(self, generator: torch.Generator) -> None:
        self.model.initialize(generator)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        """The size of the vocabulary with its sentinels; scores are made smaller by the root of the width, whatever it is."""
        assert isinstance(config.model, EncoderDecoderConfig)
        assert isinstance(config.objective, CorruptedSpansConfig)
        if from_base:
            return config
        if config.model.gated and config.model.activation == "gelu":
            raise FirthError("activation=gelu with gated=true: the gated GELU of a T5 is the tanh one; set gelu_tanh")
        model = config.model.replace(vocab_size=pieces_of(corpus, config.objective).vocab_size)
        return config.replace(model=model.replace(**scaled(model)).model_dump())

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> EncoderDecoderConfig:
        config, _, _, pieces, _, _ = load_translator(base)
        if not isinstance(config, EncoderDecoderConfig) or config.target_vocab_size is not None:
            raise FirthError(
                f"{base}: not a T5, whose encoder and decoder share one vocabulary; name a run of t5-tiny or a T5 directory"
            )
        if not same_tokens(pieces, corpus.pieces):
            raise FirthError(
                f"{corpus.folder}: made with another tokenizer than {base}; prepare it again with --tokenizer {base}"
            )
        if not sentinel_ids(pieces):
            raise FirthError(
                f"{base}: its tokenizer has no sentinels (<extra_id_0> and so on); name a run of t5-tiny or a T5 directory"
            )
        return config

    def start_from(self, base: Path) -> None:
        self.model.load_state_dict(load_translator(base)[1])

    def export(self, folder: Path) -> None:
        """A T5 directory wherever the model is one."""
        save_translator(folder, self.model.config, dict(self.model.state_dict()), self.pieces, None, ["", ""])
