"""ELECTRA directories as Hugging Face writes them: a BERT with its own names, and embeddings that may be narrower.

A run holds the discriminator; its generator is a directory of the same format in ``generator/``.
"""

from firth.models.bert.format import Format
from firth.models.shared.configs import EncoderConfig

ELECTRA = Format(
    model_type="electra",
    title="ELECTRA",
    heads={
        "token_head": {
            "dense.weight": "generator_predictions.dense.weight",
            "dense.bias": "generator_predictions.dense.bias",
            "norm.weight": "generator_predictions.LayerNorm.weight",
            "norm.bias": "generator_predictions.LayerNorm.bias",
            "bias": "generator_lm_head.bias",
        },
        "replaced_head": {
            "dense.weight": "discriminator_predictions.dense.weight",
            "dense.bias": "discriminator_predictions.dense.bias",
            "out.weight": "discriminator_predictions.dense_prediction.weight",
            "out.bias": "discriminator_predictions.dense_prediction.bias",
        },
    },
    architectures=(
        ("replaced_head", "ElectraForPreTraining"),
        ("token_head", "ElectraForMaskedLM"),
        ("", "ElectraModel"),
    ),
    output="generator_lm_head.weight",
    outside={"project.weight": "embeddings_project.weight", "project.bias": "embeddings_project.bias"},
    settings={"embedding_dim": "embedding_size"},
    defaults={
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
)


def fits_electra(config: EncoderConfig, heads: set[str]) -> bool:
    """Whether a plain model needs ELECTRA's classes and they can hold it (their generator knows one activation)."""
    needs = config.embedding_dim is not None or "replaced_head" in heads
    return needs and heads <= set(ELECTRA.heads) and ("token_head" not in heads or config.activation == "gelu")
