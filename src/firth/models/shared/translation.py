"""Translation: another language from a sentence, token by token under teacher forcing (Sutskever et al. 2014, Vaswani
et al. 2017); the objective, and the pre-training that recurrent and Transformer translators share.

A row is a whole batch of pairs of like length. Labels are smoothed while training (Szegedy et al. 2016).

B pairs, T target tokens, N labels, D hidden size, V vocabulary.
"""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from firth.core.errors import FirthError
from firth.core.registry import RunConfig
from firth.core.run import Scores
from firth.core.types import Batch, Losses, Objective, pad
from firth.corpus.format import Corpus, same_tokens
from firth.corpus.pairs import PairBatches, PairsCorpus, PairSplit, as_pairs
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig, TranslatorConfig
from firth.models.shared.encoder_decoder import TranslationNetwork
from firth.models.shared.pretraining import Pretraining
from firth.models.shared.translation_model import TranslationModel, score_translations
from firth.models.shared.translator_format import build_translator, load_translator, save_translator
from firth.nn.softmax import cross_entropy_sum
from firth.reports.page import heat_map


@dataclass(frozen=True)
class PairSpecials:
    """The ids that batches need, of each side."""

    source_pad_id: int
    source_eos_id: int
    start_id: int  # begins every target; also its padding
    eos_id: int


def pair_specials(corpus: PairsCorpus) -> PairSpecials:
    """Those of the corpus; a tokenizer of others may lack one."""
    (pad_id, source_eos_id), (start_id, eos_id) = (
        (pieces.pad_id, pieces.eos_id) for pieces in (corpus.pieces, corpus.target_pieces)
    )
    if pad_id is None or source_eos_id is None or start_id is None or eos_id is None:
        raise FirthError(
            f"{corpus.folder}: its tokenizer has no token for padding or for the end of a text; prepare it with another one"
        )
    return PairSpecials(pad_id, source_eos_id, start_id, eos_id)


class Translation(nn.Module):
    """The objective; it has no weights of its own: the model scores its vocabulary."""

    def __init__(self, config: TranslationConfig, specials: PairSpecials) -> None:
        super().__init__()
        self.config = config
        self.specials = specials
        self.weights = {"target": 1.0}

    def rows(self, split: PairSplit, seed: int) -> PairBatches:
        """A row is a whole batch of pairs of like length."""
        if not split.num_pairs:
            raise FirthError(f"{split.folder}: no pairs to train on; prepare a corpus with more of them")
        source_lens, target_lens = (
            np.minimum(split.lens(side), np.iinfo(np.int64).max if most is None else most) + 1
            for side, most in self._limits.items()
        )
        return PairBatches(source_lens, target_lens, self.config.batch_tokens, seed)

    @property
    def _limits(self) -> dict[str, int | None]:
        return {"source": self.config.max_source_len, "target": self.config.max_target_len}

    def batch(self, split: PairSplit, rows: PairBatches, seed: int, first: int, count: int) -> Batch:
        """``count`` rows from ``first`` of the endless sequence as one batch; a pure function of its arguments."""
        pairs = np.concatenate([rows.pairs(number) for number in range(first, first + count)])
        special = self.specials
        sources, targets = (
            [np.asarray(split.sentence(side, pair)[:most], np.int64) for pair in pairs]
            for side, most in self._limits.items()
        )
        sources = [np.append(source, special.source_eos_id) for source in sources]
        labels = [np.append(target, special.eos_id) for target in targets]
        lens = np.asarray([len(row) for row in labels])
        source_BS, mask_BS = pad(sources, special.source_pad_id)
        arrays = {
            "source": source_BS,
            "source_tokens": mask_BS.astype(np.bool_),
            "target": pad([np.insert(target, 0, special.start_id) for target in targets], special.start_id)[0],
            "places": np.flatnonzero(np.arange(lens.max()) < lens[:, None]),
            "labels": np.concatenate(labels),
        }
        return Batch(arrays, {"target": int(lens.sum())}, int(lens.sum()) + sum(map(len, sources)))

    def loss(self, model: Any, batch: Batch) -> Losses:
        """Only where there is a label is anything scored."""
        tensors = batch.tensors
        hidden_BTD = model.hidden(tensors["source"], tensors["source_tokens"], tensors["target"])
        hidden_ND, labels_N = hidden_BTD.flatten(0, 1)[tensors["places"]], tensors["labels"]
        smoothing = self.config.label_smoothing
        return target_losses("target", model, hidden_ND, labels_N, self.training, smoothing)


def target_losses(
    name: str,
    model: Any,
    hidden_ND: torch.Tensor,
    labels_N: torch.Tensor,
    training: bool,
    smoothing: float = 0.0,
    text_N: torch.Tensor | None = None,
) -> Losses:
    """The loss of what was written, smoothed while training; in a test also how often the likeliest token was right, and
    both of the text alone where something else is written, too."""
    table_VD, bias_V = model.output_weights()
    if training:
        return Losses({name: cross_entropy_sum(hidden_ND, table_VD, bias_V, labels_N, smoothing)})
    scores_NV = functional.linear(hidden_ND, table_VD, bias_V).float()
    losses_N = functional.cross_entropy(scores_NV, labels_N, reduction="none")
    hits_N = scores_NV.argmax(-1) == labels_N
    measured = {"accuracy": (float(hits_N.sum()), float(len(labels_N)))}
    if text_N is not None:
        count = float(text_N.sum())
        measured["text_loss"] = float(losses_N.detach()[text_N].sum()), count
        measured["text_accuracy"] = float(hits_N[text_N].sum()), count
    return Losses({name: losses_N.sum()}, measured)


_SCORED = 2000  # held-out sentences that are translated at the end
_DRAWN = 2
_BIAS_FACTOR = 20.0


def scaled(model: TranslatorConfig) -> dict[str, float]:
    """T5 makes what it scores smaller by the root of its width, whatever that has become."""
    if not isinstance(model, EncoderDecoderConfig) or model.output_scale == 1.0:
        return {}
    return {"output_scale": model.hidden_dim**-0.5 if model.tied_output else 1.0}


def rate_factors(config: TranslatorConfig) -> dict[str, float]:
    """Adam moves every number alike, but T5 was made for steps in proportion to what a weight is (Adafactor): its tables
    are as large as the root of the width compared with its matrices. (Its queries are small, which is why ours are not:
    ``t5/format.py`` makes them so.) And a bias says nothing before it is some units large,
    which takes a short training too long: until then no token knows its neighbours, and nothing else is learned."""
    if not isinstance(config, EncoderDecoderConfig) or not config.by_width:
        return {}
    found = {"model.tokens.weight": config.hidden_dim**0.5}
    if config.positions == "relative":
        found |= {f"model.{side}_relative.weight": _BIAS_FACTOR for side in ("encoder", "decoder")}
    return found


class TranslationPretraining(Pretraining):
    """Sentence pairs in, a translator out."""

    reads_pairs = True
    published = (
        "config.json",
        "model.safetensors",
        "languages.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
        "target/tokenizer.json",
    )
    uses = ('translate {name} "A sentence."', "translate {name} texts.txt --beams 5")
    model: TranslationNetwork
    objective: Translation

    @property
    def pairs(self) -> PairsCorpus:
        return as_pairs(self.corpus)

    @classmethod
    def open_corpus(cls, path: Path) -> PairsCorpus:
        return PairsCorpus.open(path)

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.objective, TranslationConfig)
        specials = pair_specials(as_pairs(corpus))
        assert isinstance(config.model, TranslatorConfig)
        self.rate_factors = rate_factors(config.model)
        return build_translator(config.model), Translation(config.objective, specials)

    def initialize(self, generator: torch.Generator) -> None:
        self.model.initialize(generator)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
        """The sizes of the vocabularies; sentences must fit into learned positions."""
        assert isinstance(config.model, TranslatorConfig)
        pairs = as_pairs(corpus)
        if not from_base:
            target = pairs.info.target_vocab_size if pairs.info.separate else None
            sizes = {"vocab_size": pairs.info.vocab_size, "target_vocab_size": target}
            config = config.replace(model=config.model.replace(**sizes, **scaled(config.model)).model_dump())
        model = config.model
        if isinstance(model, EncoderDecoderConfig) and model.positions == "learned":
            longest = 1 + max(
                int(split.lens(side).max(initial=0))
                for split in (pairs.train, pairs.heldout)
                for side in ("source", "target")
            )
            if longest > model.max_positions:
                raise FirthError(
                    f"{pairs.folder}: a sentence has {longest} tokens, more than model.max_positions ({model.max_positions}): raise it, or prepare the corpus with a smaller --max-len"
                )
        return config

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> TranslatorConfig:
        config, _, _, pieces, target_pieces, _ = load_translator(base)
        given = as_pairs(corpus)
        if not (same_tokens(pieces, given.pieces) and same_tokens(target_pieces, given.target_pieces)):
            raise FirthError(
                f"{corpus.folder}: made with another tokenizer than {base}; prepare it again with --tokenizer {base}"
            )
        return config

    def start_from(self, base: Path) -> None:
        self.model.load_state_dict(load_translator(base)[1])

    def export(self, folder: Path) -> None:
        """A Marian directory where transformers knows such a model."""
        info = self.pairs.info
        target = self.pairs.target_pieces if info.separate else None
        save_translator(
            folder, self.model.config, dict(self.model.state_dict()), self.pairs.pieces, target, info.languages
        )

    def final_scores(self, folder: Path) -> Scores:
        """BLEU and chrF of the finished model on held-out sentences, with their signatures."""
        return self._bleu(folder, _SCORED)

    def extra_scores(self, folder: Path, num_texts: int) -> Scores:
        return self._bleu(folder, _SCORED)

    def _bleu(self, folder: Path, limit: int) -> Scores:
        if not self.pairs.heldout.num_pairs:
            return Scores()
        if self.score_pairs is not None:
            return self.score_pairs(folder, self.pairs.heldout, limit)
        sources, references = (self.pairs.heldout.texts(side)[:limit] for side in ("source", "target"))
        translated = TranslationModel.load(folder).translate(sources)
        return score_translations(translated, references, self.pairs.info.languages[1])

    def report_parts(self, folder: Path) -> list[str]:
        """How some held-out sentences were translated, and what was looked at."""
        if not self.pairs.heldout.num_pairs:
            return []
        model = TranslationModel.load(folder)
        texts = [text for text in self.pairs.heldout.texts("source") if 2 < len(text.split()) < 16 or text.isalpha()]
        parts = []
        for text in texts[:_DRAWN]:
            target = model.translate(text)[0]
            parts.append(f"<p>{html.escape(text)}</p><p>→ {html.escape(target)}</p>")
            if "alignment" in model.abilities:
                maps = model.attention(text, target)
                drawn = heat_map(maps.alignment, maps.target_tokens, maps.source_tokens)
                parts.append(f'<figure class="wide">{drawn}</figure>')
        note = '<p class="soft">The colour is the root of the attention weight, from 0 to 1.</p>'
        return ["<h2>Translations, and what was looked at</h2>", note, *parts] if parts else []
