"""From a path to the trained thing in it.

A folder with ``config.json`` is told by its ``model_type``; to add one, enter its loader in ``LOADERS``.
"""

from importlib import import_module
from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import read_json
from firth.models.shared.model import Model

LOADERS: dict[str, str] = {
    "bert": "firth.models.loading:load_encoder_model",
    "electra": "firth.models.loading:load_encoder_model",
    "ernie": "firth.models.loading:load_encoder_model",
    "xlnet": "firth.models.loading:load_two_stream_model",
    "firth-encoder": "firth.models.loading:load_encoder_model",
    "gpt2": "firth.models.loading:load_decoder_model",
    "firth-recurrent": "firth.models.loading:load_recurrent_model",
    "marian": "firth.models.shared.translation:load_translation",
    "t5": "firth.models.t5.pretraining:load_text_to_text",
    "firth-encoder-decoder": "firth.models.shared.translation:load_translation",
    "firth-seq2seq": "firth.models.shared.translation:load_translation",
}
"""``model_type`` of config.json to the function that loads such a folder."""


def load_model(path: Path) -> Model:
    """A run of Firth, a Hugging Face directory, or a file of vectors."""
    if not path.exists():
        raise FirthError(f"{path}: no such run or model; check the path")
    if path.suffix in (".hdf5", ".h5") or (not (path / "config.json").is_file() and any(path.glob("*options.json"))):
        from firth.models.elmo.pretraining import load_elmo_model

        return load_elmo_model(path)
    if path.is_file():
        return load_vectors_file(path)
    if (path / "model.bin").is_file() and _exported_as(path, "ctranslate2"):
        from firth.export.ctranslate2 import load_ctranslate2

        return load_ctranslate2(path)
    if (path / "model.onnx").is_file() and (path / "firth.json").is_file():
        from firth.export.onnx_model import load_onnx

        return load_onnx(path)
    if (path / "task.json").is_file():
        from firth.tasks.model import TaskModel

        return TaskModel.load(path)
    if (path / "config.json").is_file():
        if (path / "write.json").is_file():
            from firth.tasks.write.model import WritingModel

            return WritingModel.load(path)
        return load_folder(path)
    if not (path / "firth.json").is_file():
        raise FirthError(f"{path}: no model here (no config.json); name a run of Firth or a Hugging Face directory")
    return load_run(path)


def _exported_as(path: Path, kind: str) -> bool:
    """Whether a folder is such an export; fastText's files have the same names as CTranslate2's."""
    facts = read_json(path / "firth.json") if (path / "firth.json").is_file() else None
    return isinstance(facts, dict) and facts.get("kind") == kind


def load_folder(folder: Path) -> Model:
    """By the ``model_type`` of its config.json."""
    data = read_json(folder / "config.json")
    if not isinstance(data, dict):
        raise FirthError(f"{folder / 'config.json'}: not the description of a model; copy it again")
    kind = str(data.get("model_type"))
    if kind not in LOADERS:
        raise FirthError(
            f"{folder / 'config.json'}: a model of type '{kind}', which Firth does not read; it reads {', '.join(LOADERS)}"
        )
    place, _, name = LOADERS[kind].partition(":")
    found: Model = getattr(import_module(place), name)(folder)
    return found


def load_run(folder: Path) -> Model:
    """A run without config.json: one that is not finished, or static vectors."""
    from firth.core.run import Run
    from firth.models.shared.static import StaticModel
    from firth.vectors.trainer import load_run as load_vectors_run

    facts = Run.open(folder).facts
    if facts["status"] != "finished":
        raise FirthError(f"{folder}: this run is not finished; go on with: firth pretrain --resume {folder}")
    return StaticModel(load_vectors_run(folder), facts.get("word_split") == "whitespace")


def load_vectors_file(path: Path) -> Model:
    from firth.models.shared.static import StaticModel
    from firth.vectors.formats import load_vectors

    return StaticModel(load_vectors(path))


def load_encoder_model(folder: Path) -> Model:
    from firth.models.shared.encoder_format import load_encoder
    from firth.models.shared.encoder_model import EncoderModel
    from firth.models.unilm.model import NUM_SEGMENTS, UnilmModel
    from firth.tokenizers.pieces import Pieces

    config, weights, heads = load_encoder(folder)
    if "classifier" in heads or "spans" in heads:
        from firth.tasks.model import load_published

        return load_published(folder)
    pieces = Pieces.load(folder)
    if config.num_segments != NUM_SEGMENTS:
        return EncoderModel.from_weights(config, weights, heads, pieces, folder)
    found = UnilmModel.from_weights(config, weights, heads, pieces, folder)
    assert isinstance(found, UnilmModel)
    facts = read_json(folder / "firth.json") if (folder / "firth.json").is_file() else {}
    objective = facts.get("config", {}).get("objective", {})
    if objective.get("kind") == "masked_targets":
        found.seq_len = int(objective["seq_len"])
    return found


def load_recurrent_model(folder: Path) -> Model:
    from firth.models.recurrent.format import load_recurrent
    from firth.models.recurrent.model import RecurrentModel
    from firth.tokenizers.word_tokens import load_tokens

    config, model, head = load_recurrent(folder)
    tokens = load_tokens(folder)
    return RecurrentModel.from_weights(config.model, config.output, model, head, tokens, folder)


def load_two_stream_model(folder: Path) -> Model:
    from firth.models.xlnet.format import load_xlnet
    from firth.models.xlnet.model import XlnetModel
    from firth.tokenizers.pieces import Pieces

    return XlnetModel(*load_xlnet(folder), Pieces.load(folder), folder)


def load_decoder_model(folder: Path) -> Model:
    from firth.models.gpt.format import load_gpt2
    from firth.models.gpt.model import DecoderModel
    from firth.tokenizers.pieces import Pieces

    return DecoderModel.from_weights(*load_gpt2(folder), Pieces.load(folder), folder)
