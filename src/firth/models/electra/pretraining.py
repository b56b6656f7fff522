"""ELECTRA: an encoder that tells replaced tokens from original ones (Clark et al. 2020)."""

from pathlib import Path

from torch import nn

from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.core.types import Objective
from firth.corpus.format import Corpus
from firth.models.electra.config import ReplacedTokensConfig
from firth.models.electra.objective import ReplacedTokens, generator_config
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_format import load_encoder, save_encoder
from firth.models.shared.encoder_pretraining import EncoderPretraining, specials_of
from firth.models.shared.pretraining import Pretraining

_GENERATOR = "generator"


class ElectraPretraining(EncoderPretraining):
    """The discriminator is the model; the generator belongs to the objective and lies beside it in the run."""

    published = (*Pretraining.published, f"{_GENERATOR}/config.json", f"{_GENERATOR}/model.safetensors")
    objective: ReplacedTokens

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, Objective]:
        assert isinstance(config.model, EncoderConfig)
        assert isinstance(config.objective, ReplacedTokensConfig)
        model = Encoder(config.model)
        generator = Encoder(generator_config(config.model, config.objective.generator_ratio), model.embeddings)
        specials = specials_of(corpus.pieces, corpus.folder)
        return model, ReplacedTokens(config.objective, config.model, generator, specials)

    def start_from(self, base: Path) -> None:
        """The discriminator of a directory and, where one lies in ``generator/``, its generator."""
        super().start_from(base)
        if not (base / _GENERATOR / "config.json").is_file():
            return
        theirs, encoder, heads = load_encoder(base / _GENERATOR)
        if theirs.hidden_dim != self.objective.generator.config.hidden_dim:
            raise FirthError(
                f"{base / _GENERATOR}: a generator {theirs.hidden_dim} wide where generator_ratio asks for {self.objective.generator.config.hidden_dim}: use the share that the base was trained with"
            )
        own = {name: tensor for name, tensor in encoder.items() if not name.startswith("embeddings.")}
        self.objective.generator.load_state_dict(own)
        if "token_head" in heads:
            self.objective.head.load_state_dict(heads["token_head"])

    def export(self, folder: Path) -> None:
        """A directory of the discriminator, and one of the generator with a copy of the shared tables."""
        super().export(folder)
        shared = {name: tensor for name, tensor in self.model.state_dict().items() if name.startswith("embeddings.")}
        generator = {**shared, **self.objective.generator.state_dict()}
        token_head = {"token_head": dict(self.objective.head.state_dict())}
        (folder / _GENERATOR).mkdir(exist_ok=True)
        pad_id = self.objective.specials.pad_id
        save_encoder(folder / _GENERATOR, self.objective.generator.config, generator, token_head, pad_id)
        self.corpus.pieces.save(folder / _GENERATOR)

    def extra_scores(self, folder: Path, num_texts: int) -> dict[str, float]:
        """None: a discriminator gives tokens no probabilities."""
        return {}
