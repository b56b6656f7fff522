"""ELMo's forward pass in plain NumPy and double precision, straight from the published files.

Nothing of Firth is used: characters, convolutions, highways, projection, cells, borders, layers.
"""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class Twin:
    def __init__(self, options: Path, weights: Path) -> None:
        self.options: dict[str, Any] = json.loads(options.read_text())
        self.part: dict[str, Array] = {}
        with h5py.File(weights, "r") as file:
            file.visititems(
                lambda name, item: (
                    self.part.__setitem__(name, np.asarray(item[...], np.float64))
                    if isinstance(item, h5py.Dataset)
                    else None
                )
            )

    def characters(self, word: str | int) -> list[int]:
        """Before the shift by one: a word, or 256 and 257 for the borders of a sentence."""
        size = self.options["char_cnn"]["max_characters_per_token"]
        inner = [word] if isinstance(word, int) else list(word.encode()[: size - 2])
        ids = [258, *inner, 259]
        return ids + [260] * (size - len(ids))

    def token(self, word: str | int) -> Array:
        chars = self.part["char_embed"][self.characters(word)]
        found = []
        for number, (width, _) in enumerate(self.options["char_cnn"]["filters"]):
            kernel = self.part[f"CNN/W_cnn_{number}"][0]
            scores = [
                np.einsum("we,wef->f", chars[at : at + width], kernel) + self.part[f"CNN/b_cnn_{number}"]
                for at in range(len(chars) - width + 1)
            ]
            found.append(np.max(scores, axis=0))
        hidden = np.maximum(np.concatenate(found), 0)
        for number in range(self.options["char_cnn"]["n_highway"]):
            layer = f"CNN_high_{number}"
            carry = sigmoid(hidden @ self.part[f"{layer}/W_carry"] + self.part[f"{layer}/b_carry"])
            new = np.maximum(hidden @ self.part[f"{layer}/W_transform"] + self.part[f"{layer}/b_transform"], 0)
            hidden = carry * new + (1 - carry) * hidden
        return hidden @ self.part["CNN_proj/W_proj"] + self.part["CNN_proj/b_proj"]

    def cells(self, inputs: Array, direction: int, layer: int) -> Array:
        settings = self.options["lstm"]
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        weight, bias, projection = (self.part[f"{cell}/{name}"] for name in ("W_0", "B", "W_P_0"))
        memory, hidden = np.zeros(len(projection)), np.zeros(projection.shape[1])
        outputs = []
        for vector in inputs:
            i, g, f, o = np.split(np.concatenate((vector, hidden)) @ weight + bias, 4)
            memory = sigmoid(f + 1) * memory + sigmoid(i) * np.tanh(g)
            memory = np.clip(memory, -settings["cell_clip"], settings["cell_clip"])
            hidden = np.clip((sigmoid(o) * np.tanh(memory)) @ projection, -settings["proj_clip"], settings["proj_clip"])
            outputs.append(hidden)
        return np.stack(outputs)

    def layers(self, words: list[str]) -> Array:
        """[L+1, T, 2P] of a sentence, without its borders."""
        tokens = np.stack([self.token(word) for word in (256, *words, 257)])
        layers = [np.concatenate((tokens, tokens), axis=1)]
        forward, backward = tokens, tokens[::-1]
        for layer in range(self.options["lstm"]["n_layers"]):
            outputs = [self.cells(inputs, way, layer) for way, inputs in enumerate((forward, backward))]
            if layer and self.options["lstm"]["use_skip_connections"]:
                outputs = [outputs[0] + forward, outputs[1] + backward]
            forward, backward = outputs
            layers.append(np.concatenate((forward, backward[::-1]), axis=1))
        return np.stack(layers)[:, 1:-1]
