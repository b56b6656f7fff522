"""The settings of recurrent translators (cell, layers, kind of attention), and their recipes without and with attention.

The objective is the shared ``TranslationConfig``.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, model_validator

from firth.core.config import Layers, Probability, Width
from firth.core.registry import RunConfig
from firth.models.shared.configs import TranslationConfig, TranslatorConfig, translation_training


class Seq2SeqConfig(TranslatorConfig):
    """A recurrent encoder and decoder (Sutskever et al. 2014), with attention (Luong et al. 2015).

    A bidirectional encoder has half of ``hidden_dim`` in each direction.
    """

    cell: Literal["lstm", "gru"] = "lstm"  # kind of recurrent cell
    hidden_dim: Width = 512  # units of a layer
    num_layers: Layers = 2  # number of layers
    bidirectional: bool = True  # the encoder reads in both directions
    attention: Literal["none", "dot", "general", "additive"] = "none"  # how the decoder scores the source
    input_feeding: bool = False  # the decoder also reads what it attended to last
    dropout_prob: Probability = 0.2  # dropout of layers
    tied_output: bool = True  # the target table is the output layer, too
    init_range: Annotated[float, Field(gt=0)] = 0.08  # initial weights are uniform within ± this

    @model_validator(mode="after")
    def _shapes_fit(self) -> "Seq2SeqConfig":
        if self.bidirectional and self.hidden_dim % 2:
            raise ValueError(
                f"hidden_dim ({self.hidden_dim}) is odd, but a bidirectional encoder halves it: make it even"
            )
        if self.input_feeding and self.attention == "none":
            raise ValueError("input_feeding feeds what attention found: choose attention=dot, general or additive too")
        return self


def seq2seq() -> RunConfig:
    """Two LSTM layers of 256 on each side; all that the decoder knows of the source is its last state."""
    return RunConfig(
        recipe="seq2seq",
        spec="seq2seq",
        model=Seq2SeqConfig(hidden_dim=256, dropout_prob=0.3),
        objective=TranslationConfig(batch_tokens=1024),
        training=translation_training(3e-3),
    )


def seq2seq_attention() -> RunConfig:
    """The same with attention (general, Luong et al. 2015)."""
    return seq2seq().replace(
        recipe="seq2seq-attention",
        model=Seq2SeqConfig(hidden_dim=256, dropout_prob=0.3, attention="general"),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "seq2seq": seq2seq,
    "seq2seq-attention": seq2seq_attention,
}
