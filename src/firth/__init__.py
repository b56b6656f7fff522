"""Firth: language-representation models, from word2vec to BERT and beyond.

"You shall know a word by the company it keeps." (J. R. Firth, 1957)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.api import evaluate, load, occurrences, plan, prepare, prepare_pairs, pretrain, probe
    from firth.core.errors import FirthError
    from firth.estimators import Classifier, Tagger
    from firth.task_api import compare, finetune

__version__ = "0.1.0"
__all__ = [
    "Classifier",
    "FirthError",
    "Tagger",
    "compare",
    "evaluate",
    "finetune",
    "load",
    "occurrences",
    "plan",
    "prepare",
    "prepare_pairs",
    "pretrain",
    "probe",
]


def __getattr__(name: str) -> Any:
    """Loads what is asked for, when it is asked for: ``import firth`` costs nothing."""
    if name == "FirthError":
        from firth.core.errors import FirthError

        return FirthError
    if name in ("Classifier", "Tagger"):
        from firth import estimators

        return getattr(estimators, name)
    if name in ("compare", "finetune"):
        from firth import task_api

        return getattr(task_api, name)
    if name in __all__:
        from firth import api

        return getattr(api, name)
    raise AttributeError(f"module 'firth' has no attribute '{name}'")
