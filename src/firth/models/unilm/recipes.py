"""UniLM: BERT's encoder that also learned to write (Dong et al. 2019)."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.shared.recipes import sized_encoder
from firth.models.unilm.config import MaskedTargetsConfig, UnifiedMasksConfig


def _unilm(name: str, num_layers: int, hidden_dim: int, learning_rate: float) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="unilm",
        model=sized_encoder(num_layers, hidden_dim).replace(num_segments=6),
        objective=UnifiedMasksConfig(),
        training=TrainingConfig(learning_rate=learning_rate),
    )


def unilm_tiny() -> RunConfig:
    """2 layers of 128: minutes on a laptop."""
    return _unilm("unilm-tiny", 2, 128, 2e-3)


def unilm_mini() -> RunConfig:
    """4 layers of 256: an hour on a laptop."""
    return _unilm("unilm-mini", 4, 256, 1e-3)


def unilm_seq2seq() -> RunConfig:
    """Targets written after their sources, on a corpus of pairs; best with the weights of a UniLM run (--base)."""
    mini = unilm_mini()
    return mini.replace(
        recipe="unilm-seq2seq",
        objective=MaskedTargetsConfig(),
        training=mini.training.replace(learning_rate=5e-4),
    )


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "unilm-tiny": unilm_tiny,
    "unilm-mini": unilm_mini,
    "unilm-seq2seq": unilm_seq2seq,
}
