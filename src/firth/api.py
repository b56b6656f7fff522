"""What Firth does, in a few functions: ``prepare``, ``pretrain``, ``load``. Torch is loaded when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.core.configs import RunConfig, TokensConfig
from firth.core.errors import FirthError
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo
    from firth.representations.encoder import EncoderRepresentation

AnyPath = str | Path


def prepare(
    inputs: AnyPath | Sequence[AnyPath],
    out: AnyPath,
    *,
    tokens: str = "wordpiece",
    vocab_size: int = 8000,
    lowercase: bool = True,
    byte_fallback: bool = False,
    word_split: str = "words",
    tokenizer: AnyPath | None = None,
    format: str = "auto",
    layout: str = "auto",
    column: str = "text",
    encoding: str = "utf-8",
    heldout: float | None = None,
    deduplicate: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> CorpusInfo:
    """Raw text to a corpus folder; see ``firth prepare --help`` for what the settings mean."""
    from firth.corpus.prepare import prepare as run
    from firth.text.readers import ReadingConfig

    chosen = TokensConfig.build(
        {
            "kind": tokens,
            "vocab_size": vocab_size,
            "lowercase": lowercase,
            "byte_fallback": byte_fallback,
            "word_split": word_split,
        },
        "tokens",
    )
    return run(
        [str(word) for word in ([inputs] if isinstance(inputs, str | Path) else inputs)],
        Path(out),
        chosen,
        ReadingConfig.build({"format": format, "layout": layout, "column": column, "encoding": encoding}, "reading"),
        Path(tokenizer) if tokenizer is not None else None,
        heldout,
        deduplicate,
        workers,
        overwrite,
        progress,
    )


def corpus_info(path: AnyPath, verify: bool = True) -> CorpusInfo:
    """What a corpus is; ``verify`` compares every file with its checksum."""
    from firth.corpus.format import Corpus

    return Corpus.open(path, verify).info


def read_texts(path: AnyPath, column: str = "text") -> Iterator[str]:
    """The texts of a file of any format that ``prepare`` reads: one a line, or one a row of a table."""
    from firth.text.readers import ReadingConfig, read_documents
    from firth.text.sources import find_sources

    reading = ReadingConfig(layout="line", column=column)
    return (document.text for document in read_documents(find_sources([str(path)]), reading))


def pretrain(
    recipe: str | RunConfig | None = None,
    *,
    corpus: AnyPath | None = None,
    out: AnyPath | None = None,
    settings: Sequence[str] = (),
    base: AnyPath | None = None,
    resume: AnyPath | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **training: Any,
) -> EncoderRepresentation:
    """Trains a recipe on a corpus; ``budget="20m"``, ``steps=``, ``epochs=``, ``seed=`` and the like
    are settings of training, ``settings=["model.num_layers=3"]`` reaches everything else. ``base`` goes
    on with the weights of a model (a run or a Hugging Face BERT directory)."""
    from firth.assembly.pretrain import resume_run, start_run
    from firth.recipes.registry import find_recipe

    if resume is not None:
        given = (recipe, corpus, out, base, *training.values())
        if any(value is not None for value in given) or settings or overwrite:
            raise FirthError(
                f"{resume}: a resumed run keeps all its settings; leave out everything but --resume, or start a new run"
            )
        return load(resume_run(Path(resume), progress).folder)
    if recipe is None or corpus is None or out is None:
        raise FirthError("pretrain needs a recipe, a corpus and a place to put the run (out); or resume=RUN")
    config = find_recipe(recipe) if isinstance(recipe, str) else recipe
    config = config.override(
        [f"training.{name}={value}" for name, value in training.items() if value is not None] + list(settings)
    )
    return load(
        start_run(config, Path(corpus), Path(out), Path(base) if base is not None else None, overwrite, progress).folder
    )


def evaluate(run: AnyPath, corpus: AnyPath | None = None, num_texts: int = 50) -> dict[str, float]:
    """How well a pre-trained run does on the held-out part of a corpus (by default its own)."""
    from firth.assembly.evaluate import evaluate_run

    return evaluate_run(Path(run), Path(corpus) if corpus is not None else None, num_texts)


def plan(recipe: str | RunConfig, *, corpus: AnyPath, budget: str, settings: Sequence[str] = ()) -> dict[str, float]:
    """What a pre-training run would need and reach on this machine; a few steps are timed."""
    from firth.assembly.plan import plan_run
    from firth.recipes.registry import find_recipe

    config = find_recipe(recipe) if isinstance(recipe, str) else recipe
    return plan_run(config.override(list(settings)), Path(corpus), budget)


def load(path: AnyPath) -> EncoderRepresentation:
    """A trained representation: a run of Firth or a Hugging Face BERT directory."""
    folder = Path(path)
    if not folder.exists():
        raise FirthError(f"{folder}: no such run or model; check the path")
    if not (folder / "config.json").is_file():
        if (folder / "firth.json").is_file():
            raise FirthError(f"{folder}: this run is not finished; go on with: firth pretrain --resume {folder}")
        raise FirthError(f"{folder}: no model here (no config.json); name a run of Firth or a Hugging Face directory")
    from firth.interop.encoders import load_encoder
    from firth.representations.encoder import EncoderRepresentation
    from firth.text.pieces import Pieces

    config, weights, heads = load_encoder(folder)
    return EncoderRepresentation.from_weights(config, weights, heads, Pieces.load(folder), folder)
