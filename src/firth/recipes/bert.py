"""BERT in its sizes (Devlin et al. 2018; Turc et al. 2019)."""

from firth.core.configs import EncoderConfig, MaskedTokensConfig, RunConfig, TrainingConfig


def _bert(name: str, num_layers: int, hidden_dim: int, learning_rate: float, dropout_prob: float) -> RunConfig:
    model = EncoderConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        ffn_dim=4 * hidden_dim,
        dropout_prob=dropout_prob,
        attention_dropout_prob=dropout_prob,
    )
    return RunConfig(
        recipe=name, model=model, objective=MaskedTokensConfig(), training=TrainingConfig(learning_rate=learning_rate)
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
