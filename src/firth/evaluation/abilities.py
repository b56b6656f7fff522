"""What a trained representation can do, and what there is to know about it, as plain data."""

from typing import Any

from firth.core.errors import FirthError
from firth.models.shared.encoder_decoder import EncoderDecoder
from firth.models.shared.encoder_model import EncoderModel
from firth.models.shared.model import Model
from firth.models.shared.translation_model import AttentionMaps, TranslationModel
from firth.models.unilm.model import UnilmModel
from firth.tasks.model import TaskModel
from firth.tasks.write.model import WritingModel

_BY_METHOD = {  # ability: the methods of which a representation has its own
    "encode": ("encode",),
    "nearest": ("nearest",),
    "analogy": ("analogy",),
    "fill": ("fill",),
    "follows": ("follows",),
    "generate": ("generate", "generate_many"),
    "translate": ("translations",),
    "predict": ("predict",),
    "layers": ("layers", "layers_of"),
}


def abilities_of(model: Model) -> list[str]:
    """Names of what can be asked of a model, in a fixed order."""
    found = [
        ability
        for ability, methods in _BY_METHOD.items()
        if any(getattr(type(model), method) is not getattr(Model, method) for method in methods)
    ]
    lacking = {
        "fill": not getattr(model, "can_guess", True),
        "follows": isinstance(model, EncoderModel) and model.pair_head is None,
        "generate": _cannot_write(model),
        "translate": isinstance(model, UnilmModel) and _cannot_write(model),
        "nearest": not getattr(model, "known", True),
        "predict": isinstance(model, WritingModel) and model.config.form == "text",  # what it writes is its translation
    }
    found = [ability for ability in found if not lacking.get(ability)]
    if "encode" in found:
        found.append("map")
    if "layers" in found:
        found.append("context")
    if isinstance(model, TranslationModel):
        found += ["attention"] if isinstance(model.model, EncoderDecoder) else []
        found += ["alignment"] if getattr(model.config, "attention", "dot") != "none" else []
    elif type(looked_at(model)).attention is not Model.attention:
        found.append("attention")
    return found


def _cannot_write(model: Model) -> bool:
    if isinstance(model, UnilmModel):
        try:
            model._check_writes()
        except FirthError:
            return True
        return False
    return bool(getattr(getattr(model, "config", None), "bidirectional", False))


def looked_at(model: Model) -> Model:
    """The part of a model whose attention can be looked at: of a task, its base."""
    return model.base if isinstance(model, TaskModel) else model


def alignment(model: Model, text: str, target: str | None = None) -> AttentionMaps:
    """What a translator looks at while a text becomes its target (by default its own translation)."""
    if not isinstance(model, TranslationModel):
        raise FirthError(f"this model ({model.kind}) cannot align two texts: use a translator")
    return model.attention(text, target)


def describe_model(model: Model) -> dict[str, Any]:
    """Kind, sizes, abilities; of a task its labels and mix of layers, of a masked model its mask."""
    if isinstance(model, WritingModel):
        return _describe_writer(model)
    task = model if isinstance(model, TaskModel) else None
    mixes = [
        {"place": place, "weights": mix["weights"], "scale": mix["gamma"]}
        for place, mix in (task.network.learned_mixes() if task is not None else {}).items()
    ]
    abilities = abilities_of(model)
    return {
        "kind": model.kind if task is None else f"{task.config.task} on {task.base.kind}",
        "abilities": abilities,
        "dim": model.dim,
        "parameters": model.num_parameters,
        "task": None if task is None else task.config.task,
        "pair": task is not None and task.pairs,
        "labels": [] if task is None else list(task.config.labels or ()),
        "layer_weights": mixes[0] if mixes else None,
        "mixes": mixes,
        "mask": _mask(model) if "fill" in abilities else None,
        "languages": list(getattr(model, "languages", [])),
    }


def _describe_writer(model: WritingModel) -> dict[str, Any]:
    """A task that is done by writing: like its base, with what it was taught."""
    form = None if model.config.form == "text" else model.config.form
    abilities = abilities_of(model)
    return {
        **describe_model(model.base),
        "kind": f"{model.kind} on {model.base.kind}",
        "abilities": abilities,
        "task": form,
        "pair": model.config.pairs,
        "labels": list(model.config.labels),
        "mask": _mask(model) if "fill" in abilities else None,
    }


def _mask(model: Model) -> str:
    pieces = getattr(model, "pieces", None)
    number = getattr(pieces, "mask_id", None)
    return "[MASK]" if pieces is None or number is None else str(pieces.token(number))
