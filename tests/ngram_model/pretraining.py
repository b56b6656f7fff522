"""How network and objective are built, saved and loaded."""

from pathlib import Path

from torch import nn

from firth.core.files import save_tensors, write_json
from firth.core.registry import RunConfig
from firth.corpus.format import Corpus
from firth.models.shared.pretraining import Pretraining
from ngram_model.config import NgramConfig, NgramObjectiveConfig
from ngram_model.model import NgramModel
from ngram_model.network import NgramNetwork
from ngram_model.objective import NgramObjective


class NgramPretraining(Pretraining):
    uses = ("encode {name} texts.txt --out vectors.npy",)

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, nn.Module]:
        assert isinstance(config.model, NgramConfig)
        assert isinstance(config.objective, NgramObjectiveConfig)
        end_id = corpus.pieces.sep_id or 0
        return NgramNetwork(config.model), NgramObjective(config.objective, end_id)

    def export(self, folder: Path) -> None:
        write_json(folder / "config.json", {"model_type": "ngram", "network": self.config.model.model_dump()})
        save_tensors(folder / "model.safetensors", self.model.state_dict())
        self.corpus.pieces.save(folder)

    def start_from(self, base: Path) -> None:
        self.model.load_state_dict(NgramModel.load(base).network.state_dict())
