"""What every model answers to a question it cannot answer, and to files that do not belong together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from firth.core.errors import FirthError


@contextmanager
def loading(where: Path) -> Iterator[None]:
    """Around ``load_state_dict``: weights of other shapes or names are said in a sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise FirthError(f"{where}: weights and config do not fit ({reason}); are the files of one model?") from None


def require_room(num_tokens: int, vocab_size: int, where: Path) -> None:
    """For every token of the tokenizer the model has a row."""
    if num_tokens > vocab_size:
        raise FirthError(
            f"{where}: the tokenizer has {num_tokens} tokens but the model only {vocab_size}; the files belong to different models"
        )


def require_layer(layer: int, num_layers: int) -> None:
    if not -num_layers <= layer < num_layers:
        raise FirthError(
            f"layer {layer} does not exist: this model has layers 0 to {num_layers - 1} (0 is the token layer)"
        )


def require_pool(pool: str, pools: Sequence[str]) -> None:
    if pool not in pools:
        raise FirthError(f"unknown pool '{pool}' for this model: choose {', '.join(pools[:-1])} or {pools[-1]}")
