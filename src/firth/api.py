"""What Firth does, in a few functions: ``prepare``, ``pretrain``, ``load``. Torch is loaded when needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.core.configs import RunConfig, TokensConfig
from firth.core.errors import FirthError
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.core.run import Run
    from firth.corpus.format import CorpusInfo
    from firth.corpus.pairs import PairsInfo
    from firth.evaluation.occurrences import Occurrence
    from firth.models.gpt.prompting import PromptedLabel
    from firth.models.shared.generation import Continuation
    from firth.models.shared.model import Model
    from firth.vectors.configs import AnyVectorsConfig

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
    from firth.data.readers import ReadingConfig

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


def prepare_pairs(
    inputs: Sequence[AnyPath],
    out: AnyPath,
    *,
    dev: Sequence[AnyPath] = (),
    tokens: str = "bpe",
    vocab_size: int = 8000,
    lowercase: bool = False,
    byte_fallback: bool = False,
    separate: bool = False,
    tokenizer: AnyPath | None = None,
    source: str | None = None,
    target: str | None = None,
    encoding: str = "utf-8",
    heldout: float | None = None,
    max_len: int = 250,
    max_ratio: float = 5.0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PairsInfo:
    """Parallel text to a corpus of sentence pairs; see ``firth prepare-pairs --help`` for what the settings mean."""
    from firth.corpus.prepare_pairs import PairFilters
    from firth.corpus.prepare_pairs import prepare_pairs as run
    from firth.data.parallel import PairsReadingConfig

    chosen = {"kind": tokens, "vocab_size": vocab_size, "lowercase": lowercase, "byte_fallback": byte_fallback}
    return run(
        [str(path) for path in inputs],
        Path(out),
        TokensConfig.build(chosen, "tokens"),
        PairsReadingConfig.build({"source": source, "target": target, "encoding": encoding}, "reading"),
        [str(path) for path in dev],
        Path(tokenizer) if tokenizer is not None else None,
        separate,
        heldout,
        PairFilters.build({"max_len": max_len, "max_ratio": max_ratio}, "filters"),
        overwrite,
        progress,
    )


def evaluate_translations(
    run: AnyPath, source: AnyPath, reference: AnyPath, beams: int = 5, tokenize: str | None = None
) -> dict[str, Any]:
    """BLEU and chrF (sacrebleu, with their signatures) of a translator on two line-aligned files."""
    from firth.data.parallel import PairsReadingConfig, find_pair_sources, read_pairs
    from firth.models.shared.bleu import score_translations
    from firth.models.shared.translator import Translator

    model = load(run)
    if not isinstance(model, Translator):
        raise FirthError(f"{run}: source and reference files are for translators; this is an {model.kind}")
    pairs = list(read_pairs(find_pair_sources([str(source), str(reference)]), PairsReadingConfig()))
    found = model.translate([pair.source for pair in pairs], beams)
    return {
        "sentences": len(pairs),
        **score_translations(found, [pair.target for pair in pairs], model.languages[1], tokenize),
    }


def corpus_info(path: AnyPath, verify: bool = True) -> CorpusInfo | PairsInfo:
    """What a corpus is; ``verify`` compares every file with its checksum."""
    from firth.corpus.format import Corpus
    from firth.corpus.pairs import PairsCorpus, is_pairs

    if is_pairs(Path(path)):
        return PairsCorpus.open(path, verify).info
    return Corpus.open(path, verify).info


def read_texts(path: AnyPath, column: str = "text") -> Iterator[str]:
    """The texts of a file: every line of a text file, also an empty one, so that results stay beside their
    lines; of a table or jsonl, the rows of the column that hold something."""
    from firth.data.readers import ReadingConfig, read_documents
    from firth.data.sources import find_sources, numbered_lines

    for source in find_sources([str(path)]):
        if source.format == "txt":
            yield from (line for _, line in numbered_lines(source, "utf-8"))
        else:
            yield from (document.text for document in read_documents([source], ReadingConfig(column=column)))


def pretrain(
    recipe: str | RunConfig | AnyVectorsConfig | None = None,
    *,
    corpus: AnyPath | None = None,
    out: AnyPath | None = None,
    settings: Sequence[str] = (),
    base: AnyPath | None = None,
    resume: AnyPath | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **training: Any,
) -> Model:
    """Trains a recipe on a corpus; ``budget="20m"``, ``steps=``, ``epochs=``, ``seed=`` and the like
    are settings of training, ``settings=["model.num_layers=3"]`` reaches everything else. ``base`` goes
    on with the weights of a model (a run or a Hugging Face BERT directory)."""
    from firth.core.run import Run

    given = {name: value for name, value in training.items() if value is not None}
    if resume is not None:
        if any(value is not None for value in (recipe, corpus, out, base)) or given or settings or overwrite:
            raise FirthError(
                f"{resume}: a resumed run keeps all its settings; leave out everything but --resume, or start a new run"
            )
        run = Run.open(Path(resume))
        return load(_resume(run, progress).folder)
    if recipe is None or corpus is None or out is None:
        raise FirthError("pretrain needs a recipe, a corpus and a place to put the run (out); or resume=RUN")
    start = Path(base) if base is not None else None
    words = [f"{name}={value}" for name, value in given.items()] + list(settings)
    return load(_start(recipe, Path(corpus), Path(out), words, start, overwrite, progress).folder)


def _start(
    recipe: str | RunConfig | AnyVectorsConfig,
    corpus: Path,
    out: Path,
    settings: list[str],
    base: Path | None,
    overwrite: bool,
    progress: Progress | None,
) -> Run:
    """A new run of either kind."""
    from firth.core.registry import find_recipe

    name = recipe if isinstance(recipe, str) else ""
    config = find_recipe(recipe) if isinstance(recipe, str) else recipe
    if isinstance(config, RunConfig):
        from firth.models.pretrain import start_run

        return start_run(config.override(settings), corpus, out, base, overwrite, progress)
    from firth.vectors.configs import FastTextConfig, GloveConfig, Word2VecConfig
    from firth.vectors.run import start_vectors

    assert isinstance(config, Word2VecConfig | FastTextConfig | GloveConfig)
    return start_vectors(name or config.kind, config.override(settings), corpus, out, base, overwrite, progress)


def _resume(run: Run, progress: Progress | None) -> Run:
    if run.facts.get("kind") == "vectors":
        from firth.vectors.run import resume_vectors

        return resume_vectors(run, progress)
    if (run.folder / "write.json").is_file():
        from firth.tasks.write.run import resume_writing

        return resume_writing(run.folder, progress)
    from firth.models.pretrain import resume_run

    return resume_run(run.folder, progress)


def evaluate_words(
    model: AnyPath, similarity: Sequence[AnyPath] = (), analogies: Sequence[AnyPath] = (), limit: int | None = None
) -> dict[str, Any]:
    """Word-similarity files (Spearman) and analogy files (accuracy by section) for static vectors."""
    from dataclasses import asdict

    from firth.evaluation.words import score_analogies, score_similarity
    from firth.models.shared.static import StaticModel

    loaded = load(model)
    if not isinstance(loaded, StaticModel):
        raise FirthError(f"{model}: similarity and analogy files are for static vectors; this is an {loaded.kind}")
    pairs = [score_similarity(loaded.vectors, path) for path in similarity]
    questions = [score_analogies(loaded.vectors, path, limit=limit) for path in analogies]
    return {
        "similarity": [{**asdict(found), "coverage": found.coverage} for found in pairs],
        "analogies": [
            {
                "file": found.file,
                "sections": [
                    {**asdict(section), "accuracy": section.accuracy, "coverage": section.coverage}
                    for section in (*found.sections, found.total)
                ],
            }
            for found in questions
        ],
    }


def convert(
    model: AnyPath,
    out: AnyPath,
    format: str | None = None,
    int8: bool = False,
    verify: bool = False,
    data: AnyPath | None = None,
) -> dict[str, Any]:
    """Static vectors in another format, by the ending of ``out`` or by name; encoders and tasks on them as ``onnx``,
    translators as ``ctranslate2``, with ``verify`` compared with the original (on ``data``, a labelled file or one of
    sentences). Returns what is known of the result."""
    from firth.models.shared.static import StaticModel
    from firth.vectors.formats import save_vectors

    if format == "onnx":
        from firth.export.onnx import export_onnx

        return export_onnx(Path(model), Path(out), int8, verify, Path(data) if data is not None else None).facts
    if format == "ctranslate2":
        from firth.export.ctranslate2 import export_ctranslate2

        return export_ctranslate2(Path(model), Path(out), int8, verify, Path(data) if data is not None else None).facts
    if verify or data is not None:
        raise FirthError(
            "only exported models are verified: add --to onnx or --to ctranslate2, or leave out --verify and --data"
        )
    loaded = load(model)
    if not isinstance(loaded, StaticModel):
        raise FirthError(
            f"{model}: an {loaded.kind}, which is no static vectors; write it with --to onnx or --to ctranslate2"
        )
    if Path(out).exists():
        raise FirthError(f"{out}: exists already; choose another name")
    save_vectors(loaded.vectors.quantized() if int8 else loaded.vectors, out, format)
    return {"bytes": Path(out).stat().st_size}


def evaluate(run: AnyPath, corpus: AnyPath | None = None, num_texts: int = 50) -> dict[str, Any]:
    """How well a pre-trained run does on the held-out part of a corpus (by default its own)."""
    from firth.models.pretrain import evaluate_run
    from firth.tasks.write.model import SETTINGS, score_heldout

    score_pairs = score_heldout if (Path(run) / SETTINGS).is_file() else None
    return evaluate_run(Path(run), Path(corpus) if corpus is not None else None, num_texts, score_pairs)


def generate(
    model: AnyPath | Model, texts: Sequence[str], *, trace: AnyPath | None = None, **settings: Any
) -> list[list[Continuation]]:
    """Texts continued by a language model; ``trace`` is a JSON file for the tree of the beam search."""
    from firth.core.files import write_json
    from firth.decoding.steps import Trace
    from firth.models.shared.generation import spell_trace

    loaded: Any = load(model) if isinstance(model, str | Path) else model
    if trace is None:
        return list(loaded.generate_many(texts, **settings))
    if not settings.get("beams"):
        raise FirthError(f"{trace}: a trace shows a beam search; say how wide with beams=4")
    kept = Trace()
    found = list(loaded.generate_many(texts, trace=kept, **settings))
    write_json(Path(trace), spell_trace(kept, loaded.tokens, texts))
    return found


def prompt_classify(
    model: AnyPath | Model,
    examples: AnyPath | Sequence[tuple[str, str]],
    texts: Sequence[str],
    template: str | None = None,
) -> list[PromptedLabel]:
    """Labels for texts by showing a decoder a few examples (a file of texts and labels, or pairs); nothing is trained."""
    from firth.tasks.evaluate import label_by_prompt

    loaded = load(model) if isinstance(model, str | Path) else model
    shown = Path(examples) if isinstance(examples, str | Path) else examples
    return label_by_prompt(loaded, shown, texts, template)


def plan(recipe: str | RunConfig, *, corpus: AnyPath, budget: str, settings: Sequence[str] = ()) -> dict[str, float]:
    """What a pre-training run would need and reach on this machine; a few steps are timed."""
    from firth.core.registry import find_recipe
    from firth.models.pretrain import plan_run

    config = find_recipe(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(config, RunConfig):
        raise FirthError(
            f"{recipe}: static vectors are trained in passes over the text, not in a budget; leave out plan"
        )
    return plan_run(config.override(list(settings)), Path(corpus), budget)


def occurrences(
    model: AnyPath | Model,
    corpus: AnyPath,
    sentence: str,
    word: str,
    *,
    top: int = 10,
    layer: int = -1,
    num_sentences: int = 2000,
    same_word: bool = False,
) -> list[Occurrence]:
    """Where a corpus (or a file of text) uses words most like ``word`` in this sentence."""
    from firth.evaluation.occurrences import find_occurrences

    loaded = load(model) if isinstance(model, str | Path) else model
    return find_occurrences(loaded, Path(corpus), sentence, word, top, layer, num_sentences, same_word)


def probe(
    model: AnyPath | Model, *, out: AnyPath | None = None, progress: Progress | None = None, **settings: Any
) -> dict[str, Any]:
    """What each layer of a model knows, beside baselines: ``pos="train.conllu"``, ``senses=["train.xml"]`` and the like
    are the options of ``firth probe``. Files are written to ``out``, by default ``probe`` inside a run of Firth."""
    from firth.evaluation.probe import probe_run
    from firth.evaluation.probe_config import ProbeConfig

    config = ProbeConfig.from_arguments(settings)
    if not isinstance(model, str | Path):
        return probe_run(model, model.kind, config, None if out is None else Path(out), progress)
    folder = Path(model) / "probe" if out is None and (Path(model) / "firth.json").is_file() else out
    return probe_run(load(model), Path(model).name, config, None if folder is None else Path(folder), progress)


def probe_table(found: dict[str, Any]) -> list[str]:
    """The result of ``probe`` in lines of text."""
    from firth.reports.probe import table_lines

    return table_lines(found)


def load(path: AnyPath) -> Model:
    """A trained representation: a run of Firth, a Hugging Face BERT directory, or a file of vectors."""
    from firth.export.loading import load_any

    return load_any(Path(path))
