"""BERT's settings: masked tokens with or without pairs of segments, and its recipes from tiny to the published sizes.

The network is the shared encoder (``EncoderConfig``). Two recipes use what came later (rotary positions, norms first);
``bert-continue`` trains a finished model further on other text.
"""

from collections.abc import Callable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from firth.core.registry import RunConfig, TrainingConfig
from firth.models.shared.configs import MaskingConfig, sized_encoder


class MaskedTokensConfig(MaskingConfig):
    """Masked-token prediction (Devlin et al. 2019), and the pairs that go with it."""

    kind: Literal["masked_tokens"] = "masked_tokens"  # what is learned
    pairs: Literal["none", "next_sentence", "sentence_order"] = "none"  # what is asked of two segments
    short_prob: Annotated[float, Field(ge=0, le=1)] = 0.1  # share of pairs that are shorter than a row
    mask_weight: Annotated[float, Field(ge=0)] = 1.0  # of the loss of hidden tokens
    pair_weight: Annotated[float, Field(ge=0)] = 1.0  # of the loss of pairs
    half_weight: Annotated[float, Field(ge=0)] = (
        0.0  # of the loss of finding the other half of a passage in the batch; 0: passages stay whole
    )

    @model_validator(mode="after")
    def _pairs_or_halves(self) -> Self:
        if self.half_weight and self.pairs != "none":
            raise ValueError(f"half_weight cannot go with pairs={self.pairs}: set pairs=none or half_weight=0")
        return self


def _bert(name: str, num_layers: int, hidden_dim: int, learning_rate: float, dropout_prob: float) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="bert",
        model=sized_encoder(num_layers, hidden_dim, dropout_prob),
        objective=MaskedTokensConfig(pairs="next_sentence"),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def bert_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _bert("bert-tiny", 2, 128, 2e-3, 0.0)


def bert_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _bert("bert-mini", 4, 256, 1e-3, 0.0)


def bert_small() -> RunConfig:
    """4 layers of 512."""
    return _bert("bert-small", 4, 512, 5e-4, 0.0)


def bert_base() -> RunConfig:
    """12 layers of 768, the published base size."""
    return _bert("bert-base", 12, 768, 1e-4, 0.1)


def bert_large() -> RunConfig:
    """24 layers of 1024, the published large size."""
    return _bert("bert-large", 24, 1024, 1e-4, 0.1)


def bert_tiny_modern() -> RunConfig:
    """bert-tiny that learns fastest in a few minutes: rotary positions need not be learned, norms come
    first, more tokens are masked, and there are no pairs."""
    tiny = bert_tiny()
    return tiny.replace(
        recipe="bert-tiny-modern",
        model=tiny.model.replace(positions="rotary", norm_first=True),
        objective=MaskedTokensConfig(mask_prob=0.3, seq_len=64),
    )


def bert_mini_modern() -> RunConfig:
    """bert-mini with what came later: rotary positions, RMS norm first, gated feed-forward, no biases,
    and masked tokens alone; in small batches, since in an hour on a laptop it is steps that count."""
    mini = bert_mini()
    later = {
        "positions": "rotary",
        "norm": "rms",
        "norm_eps": 1e-6,
        "norm_first": True,
        "gated": True,
        "bias": False,
        "ffn_dim": 688,
    }
    return mini.replace(
        recipe="bert-mini-modern",
        model=mini.model.replace(**later),
        objective=MaskedTokensConfig(),
        training=TrainingConfig(batch_size=8, learning_rate=7e-4),
    )


def _modernbert(name: str, num_layers: int, hidden_dim: int, rows: tuple[int, int], learning_rate: float) -> RunConfig:
    """What teaches a small encoder most in a given time: a token table that begins with skip-gram vectors, large enough that training
    changes them little (the norm behind the table makes its scale free), heads that begin by
    looking at neighbours, Muon, small batches (``rows`` and their length), many masks, and halves of passages that find each other, for
    the sake of text vectors. In the shape of ModernBERT (Warner et al. 2024), so that transformers
    reads the run.

    Sizes: the largest whose blocks read about three tokens for each of their weights within the time, on two cores; larger ones
    learn too little of the text (benchmarks/RESULTS.md). Muon's own work grows with the width and not with the batch,
    so wider models have larger batches."""
    shape = {
        "ffn_dim": -(-8 * hidden_dim // 3 // 32) * 32,
        "positions": "rotary",
        "norm_first": True,
        "first_norm": False,
        "norm_eps": 1e-5,
        "gated": True,
        "bias": False,
        "num_segments": 0,
        "local_start": True,
        "table_std": 0.08,
    }
    return RunConfig(
        recipe=name,
        spec="bert",
        model=sized_encoder(num_layers, hidden_dim).replace(**shape),
        objective=MaskedTokensConfig(mask_prob=0.3, seq_len=rows[1], half_weight=0.5),
        training=TrainingConfig(
            batch_size=rows[0], learning_rate=learning_rate, optimizer="muon", embeddings="auto", precision="auto"
        ),
    )


def modernbert_1m() -> RunConfig:
    """2 layers of 128, for about a minute on a laptop."""
    return _modernbert("modernbert-1m", 2, 128, (16, 128), 2e-3)


def modernbert_10m() -> RunConfig:
    """4 layers of 192, for about 10 minutes on a laptop."""
    return _modernbert("modernbert-10m", 4, 192, (16, 128), 1.5e-3)


def modernbert_1h() -> RunConfig:
    """6 layers of 256, for about an hour on a laptop."""
    return _modernbert("modernbert-1h", 6, 256, (16, 256), 1.5e-3)


def modernbert_10h() -> RunConfig:
    """8 layers of 384, for about 10 hours on a laptop."""
    return _modernbert("modernbert-10h", 8, 384, (24, 256), 1e-3)


def bert_continue() -> RunConfig:
    """Masked tokens on your own text for a model that is already trained (--base)."""
    config = bert_mini()
    return config.replace(
        recipe="bert-continue",
        needs_base=True,
        objective=MaskedTokensConfig(),
        training=TrainingConfig(learning_rate=1e-4),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "bert-tiny": bert_tiny,
    "bert-mini": bert_mini,
    "bert-small": bert_small,
    "bert-base": bert_base,
    "bert-large": bert_large,
    "bert-tiny-modern": bert_tiny_modern,
    "bert-mini-modern": bert_mini_modern,
    "modernbert-1m": modernbert_1m,
    "modernbert-10m": modernbert_10m,
    "modernbert-1h": modernbert_1h,
    "modernbert-10h": modernbert_10h,
    "bert-continue": bert_continue,
}
