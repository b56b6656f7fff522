"""DistilBERT (Sanh et al. 2019): a BERT without segments, and names of its own."""

from typing import TYPE_CHECKING

from firth.models.shared.specs import published_encoder

if TYPE_CHECKING:
    from firth.models.shared.published import EncoderFormat


def _format() -> "EncoderFormat":
    """Directories as Hugging Face writes them."""
    from firth.models.shared.published import MASKED_CLASSES, TASK_HEADS, EncoderFormat

    return EncoderFormat(
        classes={"distilbert": "DistilBert"},
        title="DistilBERT",
        heads={
            "token_head": {
                "dense.weight": "vocab_transform.weight",
                "dense.bias": "vocab_transform.bias",
                "norm.weight": "vocab_layer_norm.weight",
                "norm.bias": "vocab_layer_norm.bias",
                "bias": "vocab_projector.bias",
            },
            "pooler": {"dense.weight": "pre_classifier.weight", "dense.bias": "pre_classifier.bias"},
            **TASK_HEADS,
        },
        architectures=MASKED_CLASSES,
        output="vocab_projector.weight",
        layer="transformer.layer.{}",
        block={
            "attention.qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "attention.out": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "ffn.inner": "ffn.lin1",
            "ffn.outer": "ffn.lin2",
            "ffn_norm": "output_layer_norm",
        },
        settings={
            "vocab_size": "vocab_size",
            "hidden_dim": "dim",
            "num_layers": "n_layers",
            "num_heads": "n_heads",
            "ffn_dim": "hidden_dim",
            "max_positions": "max_position_embeddings",
            "dropout_prob": "dropout",
            "attention_dropout_prob": "attention_dropout",
            "init_std": "initializer_range",
        },
        activation="activation",
        defaults={"n_layers": 6},
        shape={"positions": "learned", "num_segments": 0, "norm_eps": 1e-12, "pooler_activation": "relu"},
    )


SPEC = published_encoder("distilbert", _format, ("distilbert",))
