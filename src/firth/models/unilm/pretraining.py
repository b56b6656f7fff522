"""UniLM under four kinds of mask, and taught to write. A run is a BERT directory."""

from pathlib import Path
from typing import Any

from torch import nn

from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.types import Objective
from firth.corpus.format import Corpus
from firth.corpus.pairs import PairsCorpus
from firth.models.shared.bleu import score_translations
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_pretraining import EncoderPretraining, specials_of
from firth.models.unilm.config import MaskedTargetsConfig, UnifiedMasksConfig
from firth.models.unilm.model import load_unilm
from firth.models.unilm.objective import UnifiedMasks
from firth.models.unilm.targets import MaskedTargets


class UnilmPretraining(EncoderPretraining):
    """An encoder that predicts hidden tokens from both sides, from one, and as in a target."""

    objective: UnifiedMasks

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderConfig)
        assert isinstance(config.objective, UnifiedMasksConfig)
        specials = specials_of(corpus.pieces, corpus.folder)
        return Encoder(config.model), UnifiedMasks(config.objective, config.model, specials)


_SCORED = 200  # held-out sources for which targets are written at the end
_NUM_SEGMENTS = 6


class UnilmWriting(EncoderPretraining):
    """Pairs in, a model that writes out; best begun with the weights of a UniLM run."""

    objective: MaskedTargets
    uses = ('translate {name} "A text."', "translate {name} texts.txt --beams 5")
    reads_pairs = True
    corpus: Any

    @classmethod
    def open_corpus(cls, path: Path) -> Any:
        return PairsCorpus.open(path)

    def build(self, config: RunConfig, corpus: Any) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderConfig)
        assert isinstance(config.objective, MaskedTargetsConfig)
        if corpus.info.separate:
            raise FirthError(f"{corpus.folder}: each side has its own vocabulary; prepare it without --separate")
        if config.model.num_segments < _NUM_SEGMENTS or config.model.positions == "relative":
            raise FirthError(
                f"a model that writes needs {_NUM_SEGMENTS} segments and learned or rotary positions: begin with a run of unilm-tiny or unilm-mini"
            )
        specials = specials_of(corpus.pieces, corpus.folder)
        return Encoder(config.model), MaskedTargets(config.objective, config.model, specials)

    def final_scores(self, folder: Path) -> dict[str, Any]:
        """BLEU and chrF of what is written for held-out sources, with their signatures."""
        heldout = self.corpus.heldout
        if not heldout.num_pairs:
            return {}
        if self.score_pairs is not None:
            return self.score_pairs(folder, heldout, _SCORED)
        sources, references = (heldout.texts(side)[:_SCORED] for side in ("source", "target"))
        longest = min(int(heldout.lens("target").max()) + 8, self.model.config.max_positions // 2)
        found = load_unilm(folder).translate(sources, max_tokens=longest)
        return score_translations(found, references, self.corpus.info.languages[1])

    def extra_scores(self, folder: Path, num_texts: int) -> dict[str, Any]:
        return self.final_scores(folder)
