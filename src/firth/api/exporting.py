"""Writing a model for other programs: ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import PlainData, load
from firth.core.config import AnyPath, optional_path
from firth.core.errors import FirthError, is_installed, with_article
from firth.core.files import lock_folder
from firth.reports.card import show_fact, write_card, write_static_card

if TYPE_CHECKING:
    from firth.models.shared.model import Model


def export(
    model: AnyPath,
    out: AnyPath,
    *,
    to: str | None = None,
    int8: bool = False,
    verify: bool = False,
    data: AnyPath | None = None,
    dim: int = 256,
) -> PlainData:
    """Writes a model for other programs: ONNX, CTranslate2, a table of token vectors, fastText, or a format of word vectors.

    Args:
        model: A run or file of static vectors, a fastText classifier, an encoder, a task on one, or a translator.
        out: The file to write (.bin, .vec, .txt, .tsv, .safetensors), or for onnx, ctranslate2 and static the folder.
        to: ``onnx``, ``ctranslate2``, ``static`` (an encoder distilled into a table, as model2vec does), or a vector format
            where the suffix of ``out`` does not name it.
        int8: Whether to store 8-bit weights.
        verify: Whether to compare the exported model with the original.
        data: Labelled examples on which to score both, or sentences to translate. For ``static``: text whose word
            frequencies count, and on which both are compared.
        dim: The width of a static table.

    Returns:
        The record of the exported model (``export.verified`` has the comparison); for word vectors the size in bytes.

    Example::

        firth.export("runs/bert", "exported", to="onnx", int8=True, verify=True)
    """
    with lock_folder(Path(out), "another process is writing it now; wait for it or choose another name"):
        return _export(model, out, to, int8, verify, data, dim)


def _export(
    model: AnyPath, out: AnyPath, to: str | None, int8: bool, verify: bool, data: AnyPath | None, dim: int
) -> PlainData:
    if to == "onnx":
        from firth.exporters.onnx import export_onnx

        run = export_onnx(load(model), Path(model), Path(out), int8, verify, optional_path(data))
        write_card(run)
        return run.record.model_dump(mode="json")
    if to == "ctranslate2":
        from firth.exporters.ctranslate2 import export_ctranslate2

        run = export_ctranslate2(Path(model), Path(out), int8, verify, optional_path(data))
        write_card(run)
        return run.record.model_dump(mode="json")
    if to == "static":
        from firth.exporters.static import export_static

        if int8 or verify:
            raise FirthError("a static table is always compared with its model, and has no int8: leave these out")
        found = export_static(load(model), Path(model), Path(out), optional_path(data), dim)
        quality = found["quality"]
        facts = {name.replace("_", " "): show_fact(value) for name, value in found.items() if name != "quality"}
        write_static_card(
            Path(out),
            facts,
            {name.replace("_", " "): show_fact(value) for name, value in quality.items()}
            if isinstance(quality, dict)
            else {},
        )
        return found
    if verify or data is not None:
        raise FirthError(
            "only ONNX and CTranslate2 exports are verified: add --to onnx or --to ctranslate2, or leave out --verify and --data"
        )
    return _export_vectors(model, Path(out), to, int8)


def graph_of(model: Model, path: Path) -> Model | str | None:
    """What a server answers with in the place of a model: its exported graph, made and compared when it is first wanted; a
    sentence where there is none, None where there is nothing to say."""
    if not all(map(is_installed, ("torch", "onnx", "onnxruntime"))):
        return None
    from firth.exporters.onnx import served_graph

    return served_graph(model, path)


def _export_vectors(model: AnyPath, out: Path, to: str | None, int8: bool) -> PlainData:
    from firth.models.shared.static import StaticModel
    from firth.models.shared.token_table import TokenTableModel
    from firth.tasks.fasttext import FastTextTask
    from firth.vectors.formats import save_vectors

    loaded: Model = load(model)
    if isinstance(loaded, TokenTableModel):
        loaded = StaticModel(loaded.word_vectors())
    if not isinstance(loaded, StaticModel | FastTextTask):
        raise FirthError(f"{model}: {with_article(loaded.kind)}, not static vectors; {_way_out(loaded)}")
    if isinstance(loaded, FastTextTask) and (int8 or (to or out.suffix) not in ("fasttext", ".bin")):
        raise FirthError(f"{out}: a fastText classifier is written as a whole .bin; choose such a name, without --int8")
    if out.exists():
        raise FirthError(f"{out}: exists already; choose another name")
    if isinstance(loaded, FastTextTask):
        out.parent.mkdir(parents=True, exist_ok=True)
        loaded.base.write(out)
        return {"bytes": out.stat().st_size}
    save_vectors(loaded.vectors.quantized() if int8 else loaded.vectors, out, to)
    return {"bytes": out.stat().st_size}


def _way_out(model: Model) -> str:
    """How a model is exported that has no static vectors."""
    from firth.tasks.counts import CountsTask
    from firth.tasks.tag_linear import CountsTagger

    if isinstance(model, CountsTask | CountsTagger):
        return "its word counts need no export: copy its folder, which firth-runtime reads as it is"
    return "write it with --to onnx, ctranslate2 or static"
