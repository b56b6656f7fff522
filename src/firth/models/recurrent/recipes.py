"""Recurrent language models, on a corpus of words or of pieces (Chinese: words, pieces or characters as pieces)."""

from collections.abc import Callable

from firth.core.configs import RunConfig, TrainingConfig
from firth.models.recurrent.config import NextTokenStreamsConfig, RecurrentConfig

_TRAINING = TrainingConfig(
    batch_size=32, learning_rate=5e-3, schedule="cosine", warmup_ratio=0.02, weight_decay=0.0, clip_norm=0.5
)


def _language_model(name: str, model: RecurrentConfig, objective: NextTokenStreamsConfig | None = None) -> RunConfig:
    return RunConfig(
        recipe=name,
        spec="recurrent",
        model=model,
        objective=objective or NextTokenStreamsConfig(seq_len=35),
        training=_TRAINING,
    )


def rnn_lm() -> RunConfig:
    """The simple recurrent network, for comparison: see its gradients vanish."""
    return _language_model("rnn-lm", RecurrentConfig(cell="rnn_tanh"))


def lstm_lm() -> RunConfig:
    """Two layers of LSTM, 256 units, tied weights."""
    return _language_model("lstm-lm", RecurrentConfig(cell="lstm", dropout_prob=0.1, output_dropout_prob=0.1))


def gru_lm() -> RunConfig:
    """The same with gated recurrent units."""
    return _language_model("gru-lm", RecurrentConfig(cell="gru", dropout_prob=0.1, output_dropout_prob=0.1))


def lstm_lm_nce() -> RunConfig:
    """lstm-lm that never adds up its vocabulary while training."""
    objective = NextTokenStreamsConfig(seq_len=35, output="nce")
    model = RecurrentConfig(cell="lstm", dropout_prob=0.1, output_dropout_prob=0.1)
    return _language_model("lstm-lm-nce", model, objective)


def lstm_lm_regularised() -> RunConfig:
    """The regularisers of AWD-LSTM (Merity et al. 2018): weight drop, one mask for all steps, dropped words,
    penalties on outputs; with Adam instead of averaged SGD. Size, shares and a sampled softmax are those of a few
    epochs on a laptop; as published it is lstm-lm-awd."""
    model = RecurrentConfig(
        cell="lstm",
        embed_dim=256,
        hidden_dim=512,
        num_layers=2,
        dropout_prob=0.1,
        input_dropout_prob=0.1,
        output_dropout_prob=0.1,
        embedding_dropout_prob=0.05,
        weight_drop_prob=0.2,
        variational=True,
    )
    objective = NextTokenStreamsConfig(
        seq_len=35, output="sampled", num_noise=2048, activation_penalty=2.0, temporal_activation_penalty=1.0
    )
    return _language_model("lstm-lm-regularised", model, objective)


def lstm_lm_awd() -> RunConfig:
    """AWD-LSTM as published for WikiText-2 (Merity et al. 2018): SGD at a rate of 30, averaged once it stops to improve,
    windows of random length; for hundreds of epochs, with a test after each (epochs=750 evaluations=750)."""
    model = RecurrentConfig(
        cell="lstm",
        embed_dim=400,
        hidden_dim=1150,
        num_layers=3,
        dropout_prob=0.2,
        input_dropout_prob=0.65,
        output_dropout_prob=0.4,
        embedding_dropout_prob=0.1,
        weight_drop_prob=0.5,
        variational=True,
    )
    objective = NextTokenStreamsConfig(
        seq_len=70, random_windows=True, activation_penalty=2.0, temporal_activation_penalty=1.0
    )
    training = TrainingConfig(
        batch_size=80,
        optimizer="averaged_sgd",
        learning_rate=30.0,
        schedule="constant",
        warmup_ratio=0.0,
        weight_decay=1.2e-6,
        clip_norm=0.25,
        evaluations=100,
    )
    return RunConfig(recipe="lstm-lm-awd", spec="recurrent", model=model, objective=objective, training=training)


RECIPES: dict[str, Callable[[], RunConfig]] = {
    "rnn-lm": rnn_lm,
    "lstm-lm": lstm_lm,
    "gru-lm": gru_lm,
    "lstm-lm-nce": lstm_lm_nce,
    "lstm-lm-regularised": lstm_lm_regularised,
    "lstm-lm-awd": lstm_lm_awd,
}
