"""Directories of translators: a published one (Marian, T5) wherever the model is one, else Firth's own names.

A model says with a ``TranslatorFormat`` how its published directory is written and read
(``ModelSpec.translator_format``). The tokenizer's files lie next to the weights; where the target has a tokenizer of its
own it is in ``target/``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import foreign_errors, load_tensors, read_json, save_tensors, write_json
from firth.core.registry import ModelSpec, spec_of_model_type, specs
from firth.models.shared.configs import EncoderDecoderConfig, TranslatorConfig
from firth.models.shared.encoder_decoder import EncoderDecoder, TranslationNetwork
from firth.models.shared.model import require_room
from firth.models.shared.published import Weights, read_config, require_fit
from firth.tokenizers.pieces import Pieces

Ids = dict[str, int]
"""Those of pad, eos and start."""


@dataclass(frozen=True)
class TranslatorFormat:
    """The published directory of an encoder-decoder with one tokenizer."""

    model_type: str
    holds: Callable[[EncoderDecoderConfig], bool]
    save: Callable[[Path, EncoderDecoderConfig, Weights, Ids], None]
    load: Callable[[Path], tuple[EncoderDecoderConfig, Weights, Ids]]


def build_translator(config: TranslatorConfig) -> TranslationNetwork:
    """The network of these settings, before its weights are set: the shared encoder-decoder, or a model's own."""
    if isinstance(config, EncoderDecoderConfig):
        return EncoderDecoder(config)
    build = _spec_of(config).translator
    assert build is not None
    return build(config)


def _spec_of(config: TranslatorConfig) -> ModelSpec:
    """The first model that has such settings."""
    return next(spec for spec in specs().values() if spec.network is type(config))


def _own_type(spec: ModelSpec) -> str:
    """The ``model_type`` of its directories with Firth's own names."""
    published = None if spec.translator_format is None else spec.translator_format().model_type
    return next(kind for kind in spec.model_types if kind != published)


def save_translator(
    folder: Path,
    config: TranslatorConfig,
    weights: Weights,
    pieces: Pieces,
    target_pieces: Pieces | None,
    languages: list[str],
) -> None:
    """Weights, config and tokenizers; ``target_pieces`` None: one tokenizer for both sides."""
    target = target_pieces or pieces
    assert target.pad_id is not None
    assert target.eos_id is not None
    ids = {"pad_id": target.pad_id, "eos_id": target.eos_id, "start_id": target.pad_id}
    if target_pieces is not None or not _save_published(folder, config, weights, ids):
        save_tensors(folder / "model.safetensors", weights)
        own = {"model_type": _own_type(_spec_of(config)), "ids": ids, "model": config.model_dump()}
        write_json(folder / "config.json", own)
    write_json(folder / "languages.json", languages)
    pieces.save(folder)
    if target_pieces is not None:
        (folder / "target").mkdir(exist_ok=True)
        target_pieces.save(folder / "target")


def _save_published(folder: Path, config: TranslatorConfig, weights: Weights, ids: Ids) -> bool:
    """The directory of the first model that can hold this one; whether there is such a model."""
    for spec in specs().values():
        kind = None if spec.translator_format is None else spec.translator_format()
        if kind is not None and isinstance(config, EncoderDecoderConfig) and kind.holds(config):
            kind.save(folder, config, weights, ids)
            return True
    return False


def load_translator(folder: Path) -> tuple[TranslatorConfig, Weights, Ids, Pieces, Pieces, list[str]]:
    """Config, weights, ids of pad, eos and start, the tokenizers of both sides, the languages."""
    with foreign_errors(folder, "a translator that can be read"):
        config, weights, ids = _load_network(folder)
        require_fit(lambda: build_translator(config), weights, folder)
    pieces = Pieces.load(folder)
    target_pieces = Pieces.load(folder / "target") if (folder / "target").is_dir() else pieces
    languages = _load_languages(folder / "languages.json")
    require_room(pieces.vocab_size, config.vocab_size, folder)
    require_room(target_pieces.vocab_size, config.target_vocab_size or config.vocab_size, folder)
    size = config.target_vocab_size or config.vocab_size
    outside = [name for name, number in ids.items() if type(number) is not int or not 0 <= number < size]
    if outside:
        raise FirthError(
            f"{folder / 'config.json'}: '{outside[0]}' is {str(ids[outside[0]])[:20]}, but the tokens are 0 to {size - 1}; copy it again"
        )
    return config, weights, ids, pieces, target_pieces, languages


def _load_languages(path: Path) -> list[str]:
    found = read_json(path) if path.is_file() else ["", ""]
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(name, str) for name in found):
        raise FirthError(f"{path}: not the names of two languages; copy it again")
    return found


def _load_network(folder: Path) -> tuple[TranslatorConfig, Weights, Ids]:
    where = folder / "config.json"
    data = read_config(folder)
    model_type = str(data.get("model_type"))
    spec = spec_of_model_type(model_type)
    if spec is None or spec.network is None or not issubclass(spec.network, TranslatorConfig):
        raise FirthError(f"{where}: a model of type '{model_type}', which is no translator; name a run of one")
    kind = None if spec.translator_format is None else spec.translator_format()
    if kind is not None and kind.model_type == model_type:
        return kind.load(folder)
    config = spec.network.build(data.get("model"), where)
    ids = data.get("ids")
    if not isinstance(ids, dict) or not all(isinstance(ids.get(name), int) for name in ("eos_id", "start_id")):
        raise FirthError(f"{where}: damaged (ids missing); copy it again")
    return config, load_tensors(folder / "model.safetensors"), ids
