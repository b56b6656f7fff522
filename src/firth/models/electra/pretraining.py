"""Encoders that tell replaced tokens from original ones: the family of ELECTRA."""

from pathlib import Path

from torch import nn

from firth.core.configs import RunConfig
from firth.core.errors import FirthError
from firth.corpus.format import Corpus, require_same_tokens
from firth.models.bert.pretraining import specials_of
from firth.models.electra.config import ReplacedTokensConfig
from firth.models.electra.objective import ReplacedTokens, generator_config
from firth.models.shared.configs import EncoderConfig
from firth.models.shared.encoder import Encoder
from firth.models.shared.encoder_format import load_encoder, save_encoder
from firth.models.shared.pretraining import Pretraining
from firth.tokenizers.pieces import Pieces

_GENERATOR = "generator"


class ElectraPretraining(Pretraining):
    """The discriminator is the model; the generator belongs to the objective and lies beside it in the run."""

    published = (
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
        f"{_GENERATOR}/config.json",
        f"{_GENERATOR}/model.safetensors",
    )
    model: Encoder
    objective: ReplacedTokens

    def build(self, config: RunConfig, corpus: Corpus) -> tuple[nn.Module, nn.Module]:
        assert isinstance(config.model, EncoderConfig)
        assert isinstance(config.objective, ReplacedTokensConfig)
        model = Encoder(config.model)
        generator = Encoder(generator_config(config.model, config.objective.generator_ratio), model.embeddings)
        specials = specials_of(corpus.pieces, corpus.folder)
        return model, ReplacedTokens(config.objective, config.model, generator, specials)

    @classmethod
    def base_config(cls, base: Path, corpus: Corpus) -> EncoderConfig:
        config, _, _ = load_encoder(base)
        require_same_tokens(Pieces.load(base), corpus, base)
        return config

    def start_from(self, base: Path) -> None:
        """The discriminator of a directory and, where one lies in ``generator/``, its generator."""
        _, encoder, heads = load_encoder(base)
        self.model.load_state_dict(encoder)
        if "replaced_head" in heads:
            self.objective.replaced_head.load_state_dict(heads["replaced_head"])
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
        pad_id = self.objective.specials.pad_id
        encoder = dict(self.model.state_dict())
        heads = {"replaced_head": dict(self.objective.replaced_head.state_dict())}
        shared = {name: tensor for name, tensor in encoder.items() if name.startswith("embeddings.")}
        generator = {**shared, **self.objective.generator.state_dict()}
        token_head = {"token_head": dict(self.objective.head.state_dict())}
        (folder / _GENERATOR).mkdir(exist_ok=True)
        save_encoder(folder / _GENERATOR, self.objective.generator.config, generator, token_head, pad_id)
        self.corpus.pieces.save(folder / _GENERATOR)
        save_encoder(folder, self.model.config, encoder, heads, pad_id)
        self.corpus.pieces.save(folder)
