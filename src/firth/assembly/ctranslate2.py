"""Translators as folders of CTranslate2: written, opened, and looked at beside the original.

The folder holds CTranslate2's own files, the tokenizer's (``target/`` where the target has one of its own) and
``firth.json``: what it came from, its settings, and what was found when it was compared with the original.
"""

from pathlib import Path
from typing import Any

from firth.core.errors import FirthError
from firth.core.files import atomic_folder, checksum, read_json, write_json
from firth.core.model_configs import EncoderDecoderConfig
from firth.core.runs import FORMAT, Run, versions
from firth.corpus.pairs import PairsCorpus
from firth.interop.ctranslate2 import KIND, misfit, num_positions, open_engine, save_ctranslate2, token_names
from firth.interop.translators import load_translator
from firth.representations.ctranslate2 import CTranslate2Representation
from firth.representations.translation import TranslationRepresentation
from firth.text.lines import numbered_lines
from firth.text.pieces import Pieces
from firth.text.sources import find_sources

_TRANSLATORS = ("marian", "t5", "firth-encoder-decoder", "firth-seq2seq")
_COMPARED = 200  # held-out sentences


def export_ctranslate2(
    source: Path, out: Path, int8: bool = False, verify: bool = False, data: Path | None = None
) -> Run:
    """A folder that CTranslate2 translates with; written whole or not at all. ``verify`` translates held-out sentences,
    or the lines of ``data``, with both."""
    if out.exists():
        raise FirthError(f"{out}: exists already; choose another name")
    kind = read_json(source / "config.json").get("model_type") if (source / "config.json").is_file() else None
    if kind not in _TRANSLATORS:
        raise FirthError(f"{source}: no translator, and CTranslate2 is for translators: name a run of transformer-tiny")
    if (source / "write.json").is_file():
        raise FirthError(
            f"{source}: a task that is done by writing, whose prefix and limits CTranslate2 cannot hold; it takes runs of firth pretrain"
        )
    config, weights, ids, pieces, target_pieces, languages = load_translator(source)
    reason = misfit(config)
    if reason is not None:
        raise FirthError(f"{source}: {reason}")
    assert isinstance(config, EncoderDecoderConfig)
    texts = _texts(source, data) if verify or data is not None else []
    with atomic_folder(out) as folder:
        save_ctranslate2(folder, config, weights, (pieces, target_pieces), ids, int8)
        pieces.save(folder)
        if target_pieces is not pieces:
            (folder / "target").mkdir()
            target_pieces.save(folder / "target")
        settings = {"model": config.model_dump(), "ids": ids, "languages": languages, "int8": int8}
        facts = _facts(source, settings, sum(tensor.numel() for tensor in weights.values()))
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        facts["checksums"] = {str(path.relative_to(folder)): checksum(path) for path in files}
        write_json(folder / "firth.json", facts)
        if texts:
            original = TranslationRepresentation(
                config, weights, ids, pieces, target_pieces, languages, source
            ).translate(texts)
            found = load_ctranslate2(folder).translate(texts)
            equal = sum(one == two for one, two in zip(original, found, strict=True))
            write_json(folder / "firth.json", {**facts, "verified": {"translations": len(texts), "equal": equal}})
    return Run.open(out)


def _texts(source: Path, data: Path | None) -> list[str]:
    """What both translate: the lines of a file, or held-out sentences of the corpus of the run."""
    if data is not None:
        lines = [line.strip() for one in find_sources([str(data)]) for _, line in numbered_lines(one, "utf-8")]
        return [line for line in lines if line]
    facts = read_json(source / "firth.json") if (source / "firth.json").is_file() else {}
    corpus = (facts.get("corpus") or {}).get("path")
    if corpus is None or not Path(corpus).is_dir():
        raise FirthError(f"{source}: its corpus is not there, so no held-out sentences are: name some with --data")
    found = PairsCorpus.open(Path(corpus), verify=False).heldout.texts("source")[:_COMPARED]
    if not found:
        raise FirthError(f"{corpus}: nothing was held out; name sentences with --data")
    return found


def _facts(source: Path, settings: dict[str, Any], num_parameters: int) -> dict[str, Any]:
    known = read_json(source / "firth.json") if (source / "firth.json").is_file() else {}
    return {
        "format": FORMAT,
        "kind": KIND,
        "recipe": known.get("recipe", "translator"),
        "status": "finished",
        "versions": versions(),
        "source": str(source.absolute()),
        "corpus": known.get("corpus"),
        "parameters": num_parameters,
        "config": settings,
    }


def load_ctranslate2(folder: Path) -> CTranslate2Representation:
    """An exported translator; the settings in firth.json are what its files were made of."""
    where = folder / "firth.json"
    facts = read_json(where)
    settings = facts.get("config")
    if not isinstance(settings, dict) or not {"model", "ids", "languages"} <= set(settings):
        raise FirthError(f"{where}: does not describe an exported translator; export it again")
    config = EncoderDecoderConfig.build(settings["model"], where)
    pieces = Pieces.load(folder)
    target_pieces = Pieces.load(folder / "target") if (folder / "target").is_dir() else pieces
    return CTranslate2Representation(
        open_engine(folder),
        config,
        settings["ids"],
        pieces,
        target_pieces,
        settings["languages"],
        token_names(config, pieces, target_pieces),
        num_positions(config),
        int(facts.get("parameters", 0)),
    )
