"""The recipes of the Transformer as a translator (Vaswani et al. 2017).

The network is the shared encoder-decoder (``EncoderDecoderConfig``), the objective the shared ``TranslationConfig``.
"""

from collections.abc import Callable

from firth.core.registry import RunConfig
from firth.models.shared.configs import EncoderDecoderConfig, TranslationConfig, translation_training


def transformer_tiny() -> RunConfig:
    """4 + 4 layers of 128 with much dropout: for some ten thousand pairs (Wu et al. 2021). Norms come first:
    with the norm after each sub-layer a short training stays at word frequencies for long. Small batches, since in a
    short training it is steps that count."""
    model = EncoderDecoderConfig(
        hidden_dim=128,
        num_layers=4,
        num_decoder_layers=4,
        num_heads=4,
        ffn_dim=256,
        dropout_prob=0.3,
        norm_first=True,
    )
    return RunConfig(
        recipe="transformer-tiny",
        spec="transformer",
        model=model,
        objective=TranslationConfig(batch_tokens=1024),
        training=translation_training(2e-3, average=3),
    )


def transformer_base() -> RunConfig:
    """6 + 6 layers of 512, the published base size: for millions of pairs."""
    return RunConfig(
        recipe="transformer-base",
        spec="transformer",
        model=EncoderDecoderConfig(activation_dropout_prob=0.1),
        objective=TranslationConfig(batch_tokens=8192),
        training=translation_training(7e-4, "inverse_sqrt", average=5),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "transformer-tiny": transformer_tiny,
    "transformer-base": transformer_base,
}
