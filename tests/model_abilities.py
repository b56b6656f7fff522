"""What a model says that it can do, against what its spec says and what it has methods for."""

from firth.models.shared.model import Model

EVERY = {"encode", "layers", "map", "context", "tokens", "predict"}  # of every model, or of every task
METHODS = {
    "translate": "translations",
    "encode": "_encode_texts",
    "map": "_encode_texts",
    "context": "layers",
    "alignment": "align",
    "generate": "generate_many",
}


def check_abilities(model: Model) -> None:
    """The spec names all of them; a model may lack one that it was not trained for, but it has the method."""
    assert set(model.abilities) - EVERY <= set(model.spec.abilities)
    for ability in model.spec.abilities:
        name = METHODS.get(ability, ability)
        assert getattr(type(model), name) is not getattr(Model, name, None), (model.kind, ability)
