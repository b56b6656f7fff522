"""Models for other programs: ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firth.api.common import AnyPath, load, optional_path
from firth.core.errors import FirthError


def export(
    model: AnyPath,
    out: AnyPath,
    *,
    to: str | None = None,
    int8: bool = False,
    verify: bool = False,
    data: AnyPath | None = None,
) -> dict[str, Any]:
    """Writes a model for other programs: ONNX, CTranslate2, or a format of word vectors.

    Args:
        model: A run or file of static vectors, an encoder, a task on one, or a translator.
        out: The file to write (.bin, .vec, .txt, .tsv, .safetensors), or for onnx and ctranslate2 the folder.
        to: ``onnx``, ``ctranslate2``, or a vector format where the ending of ``out`` does not say it.
        int8: Whether weights are stored as bytes.
        verify: Whether the exported model is compared with the original.
        data: Labelled examples on which both are scored, or sentences to translate.

    Returns:
        What is known of the result: the record of the exported model, with ``export.verified`` if it was.

    Example::

        firth.export("runs/bert", "exported", to="onnx", int8=True, verify=True)
    """
    if to == "onnx":
        from firth.exporters.onnx import export_onnx

        return export_onnx(Path(model), Path(out), int8, verify, optional_path(data)).record.model_dump(mode="json")
    if to == "ctranslate2":
        from firth.exporters.ctranslate2 import export_ctranslate2

        run = export_ctranslate2(Path(model), Path(out), int8, verify, optional_path(data))
        return run.record.model_dump(mode="json")
    if verify or data is not None:
        raise FirthError(
            "only exported models are verified: add --to onnx or --to ctranslate2, or leave out --verify and --data"
        )
    return _export_vectors(model, Path(out), to, int8)


def _export_vectors(model: AnyPath, out: Path, to: str | None, int8: bool) -> dict[str, Any]:
    from firth.models.shared.static import StaticModel
    from firth.vectors.formats import save_vectors

    loaded = load(model)
    if not isinstance(loaded, StaticModel):
        raise FirthError(
            f"{model}: an {loaded.kind}, which is no static vectors; write it with --to onnx or --to ctranslate2"
        )
    if out.exists():
        raise FirthError(f"{out}: exists already; choose another name")
    save_vectors(loaded.vectors.quantized() if int8 else loaded.vectors, out, to)
    return {"bytes": out.stat().st_size}
