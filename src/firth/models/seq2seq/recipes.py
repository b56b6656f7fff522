"""Recurrent translators (Sutskever et al. 2014; Luong et al. 2015)."""

from collections.abc import Callable

from firth.core.configs import RunConfig
from firth.models.seq2seq.config import Seq2SeqConfig
from firth.models.shared.configs import TranslationConfig
from firth.models.shared.recipes import translation_training


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
