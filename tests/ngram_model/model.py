"""The trained model with its tokenizer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from firth.core.files import load_tensors, read_json, save_tensors, write_json
from firth.core.types import Encoding, Frame, Inputs, TextReader
from firth.models.shared.model import Model, TextLayers, loading, require_layer
from firth.models.shared.sentences import SentenceModules
from firth.tokenizers.pieces import Pieces
from ngram_model.config import NgramConfig
from ngram_model.network import NgramNetwork


class NgramModel(Model):
    kind = "n-gram model"
    spec_name = "ngram"

    def __init__(self, network: NgramNetwork, pieces: Pieces) -> None:
        self.network, self.pieces, self.dim = network.eval(), pieces, network.config.hidden_dim

    @classmethod
    def load(cls, folder: Path) -> "NgramModel":
        config = NgramConfig.build(read_json(folder / "config.json")["network"], folder / "config.json")
        network = NgramNetwork(config)
        with loading(folder):
            network.load_state_dict(load_tensors(folder / "model.safetensors"))
        return cls(network, Pieces.load(folder))

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters())

    def _tokenize(self, text: str | list[str]) -> Encoding:
        return self.pieces.encode(text, add_special=False, read_special=False)

    def layers(self, text: str | list[str]) -> TextLayers:
        found = self._tokenize(text)
        with torch.inference_mode():
            hidden = self.network(Inputs(torch.from_numpy(found.ids)[None])).hidden[:, 0].numpy()
        return TextLayers(found.tokens, found.offsets, found.words, hidden)

    def _encode_texts(self, texts: list[str], layer: int, pool: str) -> NDArray[np.float32]:
        require_layer(layer, 2)
        rows = [self.layers(text).hidden[layer] for text in texts]
        return np.stack([row.mean(0) if len(row) else np.zeros(self.dim, np.float32) for row in rows])

    def save(self, folder: Path) -> None:
        write_json(folder / "config.json", {"model_type": "ngram", "network": self.network.config.model_dump()})
        save_tensors(folder / "model.safetensors", dict(self.network.state_dict()))
        self.pieces.save(folder)

    def sentence_base(self, texts: Callable[[], list[str]], normalize: bool) -> "NgramModel":
        return self

    def save_sentences(self, folder: Path, modules: SentenceModules) -> None:
        self.save(folder)
        modules.save(folder, self.dim)

    def reader(self) -> TextReader:
        return TextReader(
            self.kind, self.network, self._tokenize, self.dim, num_layers=2, max_len=None, frame=Frame(), pad_id=0
        )
