"""Firth: language-representation models, from word2vec to BERT and beyond.

"You shall know a word by the company it keeps." (J. R. Firth, 1957)

    firth.prepare("news.txt", "corpora/news")
    model = firth.pretrain("bert-tiny", corpus="corpora/news", out="runs/bert", budget="5m")
    model.fill("The film was [MASK].")
    firth.finetune("classify", base="runs/bert", train="train.tsv", dev="dev.tsv", out="runs/mood")
    firth.predict("runs/mood", ["A lovely film."])
"""

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firth.api.data import new_words as new_words
    from firth.api.data import prepare as prepare
    from firth.api.data import prepare_images as prepare_images
    from firth.api.data import prepare_pairs as prepare_pairs
    from firth.api.data import tokens as tokens
    from firth.api.encoding import encode as encode
    from firth.api.estimators import Classifier as Classifier
    from firth.api.estimators import Tagger as Tagger
    from firth.api.evaluating import compare as compare
    from firth.api.evaluating import evaluate as evaluate
    from firth.api.evaluating import probe as probe
    from firth.api.exporting import export as export
    from firth.api.searching import duplicates as duplicates
    from firth.api.searching import index as index
    from firth.api.searching import search as search
    from firth.api.searching import topics as topics
    from firth.api.tasks import finetune as finetune
    from firth.api.tasks import predict as predict
    from firth.api.tasks import suggest as suggest
    from firth.api.training import plan as plan
    from firth.api.training import pretrain as pretrain
    from firth.api.training import recipes as recipes
    from firth.api.using import explain as explain
    from firth.api.using import generate as generate
    from firth.api.using import load as load
    from firth.api.using import occurrences as occurrences
    from firth.core.errors import FirthError as FirthError
    from firth.core.registry import register as register
    from firth.models.shared.model import Model as Model

__version__ = "0.2.0"
_MODULES = {  # where each public name is defined; it is loaded when it is asked for
    "api.data": ("new_words", "prepare", "prepare_images", "prepare_pairs", "tokens"),
    "api.encoding": ("encode",),
    "api.estimators": ("Classifier", "Tagger"),
    "api.evaluating": ("compare", "evaluate", "probe"),
    "api.exporting": ("export",),
    "api.searching": ("duplicates", "index", "search", "topics"),
    "api.tasks": ("finetune", "predict", "suggest"),
    "api.training": ("plan", "pretrain", "recipes"),
    "api.using": ("explain", "generate", "load", "occurrences"),
    "core.errors": ("FirthError",),
    "core.registry": ("register",),
    "models.shared.model": ("Model",),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_WHERE)


if not TYPE_CHECKING:  # type checkers know the names above, and no others

    def __getattr__(name: str) -> object:
        """Loads what is asked for, so that ``import firth`` loads neither torch nor numpy."""
        if name not in _WHERE:
            raise AttributeError(f"module 'firth' has no attribute '{name}'")
        from firth.core.errors import in_a_sentence, is_installed

        found = getattr(import_module(f"firth.{_WHERE[name]}"), name)
        if _WHERE[name].startswith("api.") and isinstance(found, FunctionType) and not is_installed("torch"):
            found = in_a_sentence(found)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return list(__all__)
