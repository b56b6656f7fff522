"""Models to be looked at, in a few functions: what one can do, its attention, maps of words, the curves of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.api import AnyPath, load
from firth.core.errors import FirthError

if TYPE_CHECKING:
    from firth.evaluation.maps import ContextMap, WordMap
    from firth.models.shared.generation import Continuation
    from firth.models.shared.model import Attention, Model
    from firth.models.shared.translation_model import AttentionMaps


def _loaded(model: AnyPath | Model) -> Model:
    return load(model) if isinstance(model, str | Path) else model


def describe_model(model: AnyPath | Model) -> dict[str, Any]:
    """Kind, sizes, abilities, labels and so on, as plain data."""
    from firth.evaluation.abilities import describe_model as describe

    return describe(_loaded(model))


def count_tokens(model: AnyPath | Model, text: str) -> int:
    """Tokens of a text as the model reads it."""
    from firth.evaluation.abilities import count_tokens as count

    return count(_loaded(model), text)


def attention(model: AnyPath | Model, text: str, second: str | None = None) -> Attention:
    """What each token of a text, or of two, looks at in every layer and head; a task shows that of its base."""
    from firth.evaluation.abilities import looked_at

    return looked_at(_loaded(model)).attention(text, second)


def alignment(model: AnyPath | Model, text: str, target: str | None = None) -> AttentionMaps:
    """What a translator looks at while a text becomes its target (by default its own translation)."""
    from firth.models.shared.translation_model import TranslationModel

    loaded = _loaded(model)
    if not isinstance(loaded, TranslationModel):
        raise FirthError(f"this model ({loaded.kind}) cannot align two texts: use a translator")
    return loaded.attention(text, target)


def map_words(model: AnyPath | Model, words: Sequence[str]) -> WordMap:
    """Words in a plane, by the principal components of their vectors."""
    from firth.evaluation.maps import map_words as find

    return find(_loaded(model), words)


def map_context(model: AnyPath | Model, sentences: Sequence[tuple[str, str]], layer: int = -1) -> ContextMap:
    """A word in each sentence, given as (text, word), in a plane."""
    from firth.evaluation.maps import map_context as find

    return find(_loaded(model), sentences, layer)


def traced_generate(model: AnyPath | Model, text: str, **settings: Any) -> tuple[list[Continuation], dict[str, Any]]:
    """A text continued by beam search, and the tree that was grown."""
    from firth.decoding.steps import Trace
    from firth.models.shared.generation import spell_trace

    if not settings.get("beams"):
        raise FirthError("a trace shows a beam search: say how wide with beams=4")
    loaded: Any = _loaded(model)
    kept = Trace()
    found = list(loaded.generate(text, trace=kept, **settings))
    return found, spell_trace(kept, getattr(loaded, "tokens", None) or loaded.pieces, [text])[0]


def run_summary(folder: AnyPath) -> dict[str, Any]:
    """Recipe, kind, corpus, scores and curve of a run."""
    from firth.evaluation.maps import run_summary as read

    return read(Path(folder))
