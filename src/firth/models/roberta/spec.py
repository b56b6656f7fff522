"""RoBERTa (Liu et al. 2019), and XLM-R and CamemBERT, which are built alike: directories of theirs."""

from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.registry import ModelSpec

if TYPE_CHECKING:
    from firth.models.shared.encoder_format import EncoderFormat
    from firth.models.shared.model import Model


def _load(folder: Path) -> "Model":
    from firth.models.shared.encoder_model import EncoderModel

    return EncoderModel.load(folder)


def _format() -> "EncoderFormat":
    from firth.models.roberta.format import ROBERTA

    return ROBERTA


SPEC = ModelSpec(
    name="roberta",
    load=_load,
    encoder_format=_format,
    tokens=("wordpiece", "unigram"),
    model_types=("roberta", "xlm-roberta", "camembert"),
    continues="bert-mini",
    is_transformer=True,
    has_task_heads=True,
    can_fill=True,
)
