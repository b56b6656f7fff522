"""Translators under teacher forcing: the family of seq2seq and the Transformer."""

import html
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firth.assembly.bleu import score_translations
from firth.assembly.charts import heat_map
from firth.assembly.families import Family
from firth.assembly.tokenizers import same_tokens
from firth.assembly.writing_model import score_heldout
from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.model_configs import EncoderDecoderConfig, Seq2SeqConfig
from firth.core.objective_configs import TranslationConfig
from firth.corpus.pairs import PairsCorpus
from firth.interop.translators import TranslatorConfig, load_translator, save_translator
from firth.models.encoder_decoder import EncoderDecoder
from firth.models.seq2seq import Seq2Seq
from firth.objectives.translation import PairSpecials, Translation
from firth.representations.translation import TranslationRepresentation

_SCORED = 2000  # held-out sentences that are translated at the end
_DRAWN = 2
_BIAS_FACTOR = 20.0


def load_translation(folder: Path) -> TranslationRepresentation:
    """A run or a Marian directory."""
    return TranslationRepresentation(*load_translator(folder), folder)


def scaled(model: TranslatorConfig) -> dict[str, float]:
    """T5 makes what it scores smaller by the root of its width, whatever that has become."""
    if not isinstance(model, EncoderDecoderConfig) or model.output_scale == 1.0:
        return {}
    return {"output_scale": model.hidden_dim**-0.5 if model.tied_output else 1.0}


def rate_factors(config: EncoderDecoderConfig) -> dict[str, float]:
    """Adam moves every number alike, but T5 was made for steps in proportion to what a weight is (Adafactor): its tables
    are as large as the root of the width beside its matrices. (Its queries are small, which is why ours are not:
    ``interop/t5.py`` makes them so.) And a bias says nothing before it is some units large,
    which takes a short training too long: until then no token knows its neighbours, and nothing else is learned."""
    if not config.by_width:
        return {}
    found = {"model.tokens.weight": config.hidden_dim**0.5}
    if config.positions == "relative":
        found |= {f"model.{side}_relative.weight": _BIAS_FACTOR for side in ("encoder", "decoder")}
    return found


class TranslationFamily(Family):
    """Sentence pairs in, a translator out."""

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
    model: EncoderDecoder | Seq2Seq
    objective: Translation
    corpus: Any

    @classmethod
    def open_corpus(cls, path: Path) -> Any:
        return PairsCorpus.open(path)

    def build(self, config: RunConfig, corpus: Any) -> tuple[nn.Module, nn.Module]:
        assert isinstance(config.objective, TranslationConfig)
        source, target = corpus.pieces, corpus.target_pieces
        specials = PairSpecials(source.pad_id, source.eos_id, target.pad_id, target.eos_id)
        objective = Translation(config.objective, specials)
        if isinstance(config.model, EncoderDecoderConfig):
            self.rate_factors = rate_factors(config.model)
            return EncoderDecoder(config.model), objective
        assert isinstance(config.model, Seq2SeqConfig)
        return Seq2Seq(config.model), objective

    def initialize(self, generator: torch.Generator) -> None:
        self.model.initialize(generator)

    @classmethod
    def configure(cls, config: RunConfig, corpus: Any, from_base: bool = False) -> RunConfig:
        """The sizes of the vocabularies; sentences must fit into learned positions."""
        assert isinstance(config.model, EncoderDecoderConfig | Seq2SeqConfig)
        if not from_base:
            target = corpus.info.target_vocab_size if corpus.info.separate else None
            sizes = {"vocab_size": corpus.info.vocab_size, "target_vocab_size": target}
            config = config.replace(model=config.model.replace(**sizes, **scaled(config.model)).model_dump())
        model = config.model
        if isinstance(model, EncoderDecoderConfig) and model.positions == "learned":
            longest = 1 + max(
                int(split.lens(side).max(initial=0))
                for split in (corpus.train, corpus.heldout)
                for side in ("source", "target")
            )
            if longest > model.max_positions:
                raise FirthError(
                    f"{corpus.folder}: a sentence has {longest} tokens, more than model.max_positions ({model.max_positions}): raise it, or prepare the corpus with a smaller --max-len"
                )
        return config

    @classmethod
    def base_config(cls, base: Path, corpus: Any) -> TranslatorConfig:
        config, _, _, pieces, target_pieces, _ = load_translator(base)
        if not (same_tokens(pieces, corpus.pieces) and same_tokens(target_pieces, corpus.target_pieces)):
            raise FirthError(
                f"{corpus.folder}: made with another tokenizer than {base}; prepare it again with --tokenizer {base}"
            )
        return config

    def start_from(self, base: Path) -> None:
        self.model.load_state_dict(load_translator(base)[1])

    def export(self, folder: Path) -> None:
        """A Marian directory where transformers knows such a model."""
        info = self.corpus.info
        target = self.corpus.target_pieces if info.separate else None
        save_translator(
            folder, self.model.config, dict(self.model.state_dict()), self.corpus.pieces, target, info.languages
        )

    def final_scores(self, folder: Path) -> dict[str, Any]:
        """BLEU and chrF of the finished model on held-out sentences, with their signatures."""
        return self._bleu(folder, _SCORED)

    def extra_scores(self, folder: Path, num_texts: int) -> dict[str, Any]:
        return self._bleu(folder, _SCORED)

    def _bleu(self, folder: Path, limit: int) -> dict[str, Any]:
        if not self.corpus.heldout.num_pairs:
            return {}
        if (found := score_heldout(folder, self.corpus.heldout, limit)) is not None:
            return found
        sources, references = (self.corpus.heldout.texts(side)[:limit] for side in ("source", "target"))
        translated = load_translation(folder).translate(sources)
        return score_translations(translated, references, self.corpus.info.languages[1])

    def report_parts(self, folder: Path) -> list[str]:
        """How some held-out sentences were translated, and what was looked at."""
        if not self.corpus.heldout.num_pairs:
            return []
        model = load_translation(folder)
        texts = [text for text in self.corpus.heldout.texts("source") if 2 < len(text.split()) < 16 or text.isalpha()]
        parts = []
        for text in texts[:_DRAWN]:
            target = model.translate(text)[0]
            parts.append(f"<p>{html.escape(text)}</p><p>→ {html.escape(target)}</p>")
            if isinstance(model.config, EncoderDecoderConfig) or model.config.attention != "none":
                maps = model.attention(text, target)
                parts.append(f"<figure>{heat_map(maps.alignment, maps.target_tokens, maps.source_tokens)}</figure>")
        return ["<h2>Translations, and what was looked at</h2>", *parts] if parts else []
