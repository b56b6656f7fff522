"""Pre-training: recipe, corpus, model, objective and loop put together into a run."""

import html
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from firth.core.config import named, parse_duration, show_count, show_duration
from firth.core.errors import FirthError, going_on
from firth.core.files import checksum, fingerprint, write_text
from firth.core.registry import RunConfig, choose_precision, find_spec
from firth.core.run import CorpusRecord, EmbeddingsRecord, MadeFrom, Run, RunRecord, versions
from firth.core.types import Event, Progress
from firth.corpus.format import Corpus
from firth.models.shared.embeddings import AUTO, NONE, check_start, start_table
from firth.models.shared.pretraining import PairScorer, Pretraining, find_pretraining
from firth.nn.attention import repeat_positions
from firth.reports.card import write_card
from firth.reports.page import cards, line_figure, page, principal_plane, settings_table, write_report
from firth.tokenizers.words import has_han
from firth.training.checkpoints import History, learning, list_checkpoints, read_history
from firth.training.loop import Loop
from firth.training.optimizer import load_average
from firth.training.ranks import process_count, restarted
from firth.vectors.configs import VectorsConfig
from firth.vectors.trainer import load_run, resume_advice, train_vectors
from firth.vectors.word_vectors import WordVectors

_BY_LOOP = ("pretrain", "write")  # kinds of runs that it trains


def configure(config: RunConfig, corpus: Corpus, from_base: bool = False) -> RunConfig:
    """The recipe fitted to the corpus and the machine: its vocabulary, a length of training if none was named, the precision."""
    config = find_pretraining(config).configure(config, corpus, from_base)
    training = config.training
    training = training.replace(precision=choose_precision(training.precision, training.device))
    if training.steps is None and training.epochs is None and training.budget is None:
        training = training.replace(epochs=1.0)
    return config.replace(training=training.model_dump())


def start_run(
    config: RunConfig,
    corpus_path: Path,
    out: Path,
    base: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    prepared: tuple[str, ...] = (),
    made_from: MadeFrom | None = None,
    score_pairs: PairScorer | None = None,
    kind: Literal["pretrain", "write"] = "pretrain",
) -> Run:
    """A new run, trained to its end; with ``base`` it begins with the weights of that model. ``prepared`` are names
    that stand in ``out`` already, ``made_from`` is what the same result needs besides."""
    if restarted() and Run.find(out) is not None:  # a process was lost, torchrun has started all of them again
        return resume_run(out, progress, score_pairs)
    Run.keep_apart(out, (corpus_path, *([base] if base else [])), overwrite)
    corpus = find_pretraining(config).open_corpus(corpus_path)
    if base is not None:
        config = config.replace(model=find_pretraining(config).base_config(base, corpus).model_dump())
    config = configure(config, corpus, base is not None)
    trainable = find_pretraining(config)(config, corpus)
    trainable.score_pairs = score_pairs
    trainable.base = base
    if base is not None:
        trainable.start_from(base)
    if base is None and config.training.embeddings != NONE:
        check_start(trainable)
    loop = Loop(trainable, config.training, out, progress)  # refuses what cannot be before anything is written
    loop.samples = trainable.samples
    loop.require_same(_facts(corpus, base))
    record = RunRecord(
        kind=kind,
        model=config.spec,
        recipe=config.recipe,
        versions=versions(),
        config=config.model_dump(mode="json"),
        corpus=CorpusRecord(path=named(corpus_path), fingerprint=corpus.fingerprint, tokenizer=corpus.info.tokenizer),
        base=None if base is None else str(base.absolute()),
        made_from=made_from,
        processes=loop.ranks.size,
    )
    run = Run.create(out, record, overwrite, prepared) if loop.ranks.first else Run(out, record)
    return _train(run, trainable, loop, lambda: bool(list_checkpoints(loop.checkpoints)), prepared)


def resume_run(folder: Path, progress: Progress | None = None, score_pairs: PairScorer | None = None) -> Run:
    """Goes on with a run from its latest checkpoint; a finished one is left as it is."""
    run = Run.open(folder)
    record = run.record
    if record.kind not in _BY_LOOP or record.corpus is None:
        raise FirthError(f"{folder}: not a pre-training run; name a folder that firth pretrain made")
    if record.finished:
        return run
    config = _shared_out(RunConfig.build(record.config, run.path), record.processes, folder)
    corpus = find_pretraining(config).open_corpus(Path(record.corpus.path))
    if corpus.fingerprint != record.corpus.fingerprint:
        raise FirthError(
            f"{record.corpus.path}: not the corpus this run was started with (its content has changed); put the old one back or start a new run"
        )
    trainable = find_pretraining(config)(config, corpus)
    trainable.score_pairs = score_pairs
    if record.base is not None:
        trainable.base = Path(record.base)
        begun = list_checkpoints(folder / "checkpoints")  # stopped before the first one it begins with its base again
        (trainable.resume_from if begun else trainable.start_from)(Path(record.base))
    loop = Loop(trainable, trainable.config.training, folder, progress)
    loop.samples = trainable.samples
    loop.require_same(_facts(corpus, None if record.base is None else Path(record.base)))
    return _train(run, trainable, loop, lambda: True)


def _facts(corpus: Corpus, base: Path | None) -> dict[str, str]:
    """What must be the same on all ranks."""
    return {"corpus": corpus.fingerprint, "base": "" if base is None or process_count() == 1 else fingerprint(base)}


def _shared_out(config: RunConfig, begun: int, folder: Path) -> RunConfig:
    """The settings for as many processes as there are now, of a run that was begun with another number: all of them
    together read the same rows in each step."""
    training, size, kind = config.training, process_count(), find_pretraining(config)
    if begun == size:
        return config
    batches, rows = begun * training.gradient_accumulation, begun * training.batch_size
    divided = kind.divides_lanes(config)
    if not divided and batches % size == 0:
        changed = training.replace(gradient_accumulation=batches // size)
    elif divided and rows % size == 0:
        changed = training.replace(batch_size=rows // size)
    elif not kind.batch_is_fixed and (batches * training.batch_size) % size == 0:
        changed = training.replace(batch_size=batches * training.batch_size // size, gradient_accumulation=1)
    else:
        most = rows if divided else batches if kind.batch_is_fixed else batches * training.batch_size
        raise FirthError(
            f"{folder}: started with {begun} processes, and its batches cannot be shared out among {size}: go on with a number of processes that divides {most}"
        )
    return config.replace(training=changed.model_dump())


def _train(
    run: Run, trainable: Pretraining, loop: Loop, learned: Callable[[], bool], prepared: tuple[str, ...] = ()
) -> Run:
    again = f"firth pretrain --resume {run.folder}"
    ended = learning(run.folder, f"go on with: {again}", learned, prepared) if loop.ranks.first else nullcontext()
    with run.lock() if loop.ranks.first else nullcontext(), ended:
        loop.ranks.wait()
        begins = not loop.resume() and run.record.base is None
        if begins and trainable.config.training.embeddings != NONE:
            start_table(run, trainable, loop)
        if run.record.steps is None:
            steps, evaluations = _length(trainable, loop, run.record.embeddings)
            (run.save if loop.ranks.first else run.change)(steps=steps, evaluations=evaluations)
        assert run.record.steps is not None
        metrics = loop.run(run.record.steps, again, run.record.evaluations)
        if loop.sharded:
            loop.take_average()
            trainable = _gathered(trainable, loop)
        if loop.ranks.first:
            _finish(run, trainable, loop, metrics)
        loop.ranks.wait()
    return run


def _gathered(trainable: Pretraining, loop: Loop) -> Pretraining:
    """The model of a run in shards, whole again; the weights are for the first rank only, which writes it."""
    state = loop.whole_state()
    if not loop.ranks.first:
        return trainable
    found = type(trainable)(trainable.config, trainable.corpus)
    found.score_pairs = trainable.score_pairs
    if trainable.base is not None:
        found.resume_from(trainable.base)
    found.module.load_state_dict(state)
    return found


def _length(trainable: Pretraining, loop: Loop, embeddings: EmbeddingsRecord | None) -> tuple[int, int]:
    """How many steps, and how many evaluations on held-out text."""
    config = trainable.config.training
    if config.budget is not None:
        return loop.measure(parse_duration(config.budget) - (embeddings.seconds if embeddings else 0.0))
    if config.epochs is not None:
        per_step = trainable.rows_per_step * loop.ranks.size
        return max(1, round(config.epochs * len(trainable.rows) / per_step)), config.evaluations
    assert config.steps is not None
    return config.steps, config.evaluations


_IN_CHINESE = {"A sentence with a [MASK] in it.": "句子里有一个[MASK]。", "How a text begins": "文章的开头"}
_LOOKED_AT = 20  # documents


def next_commands(uses: Iterable[str], corpus: object) -> Iterator[str]:
    """The next commands, with an example in the script of the corpus."""
    texts = list(islice(corpus.texts(), _LOOKED_AT)) if isinstance(corpus, Corpus) else []
    chinese = 2 * sum(map(has_han, texts)) > len(texts)
    for use in uses:
        for english, other in _IN_CHINESE.items() if chinese else ():
            use = use.replace(english, other)
        yield use


def _finish(run: Run, trainable: Pretraining, loop: Loop, metrics: dict[str, float]) -> None:
    averaged = loop.averaged_steps(loop.step)
    if averaged:
        load_average(loop.checkpoints, averaged, trainable.module)
        metrics = trainable.evaluate()
    elif trainable.config.training.finish == "best" and loop.best and loop.best["step"] != loop.step:
        load_average(loop.checkpoints, [int(loop.best["step"])], trainable.module)
        metrics = {name: value for name, value in loop.best.items() if name != "step"}
    if not loop.sharded:
        loop.take_average()
    seq_len = getattr(trainable.config.objective, "seq_len", None)
    if seq_len is not None and run.record.base is None:
        repeat_positions(trainable.module, seq_len)
    trainable.export(run.folder)
    scores = trainable.final_scores(run.folder)
    rows = loop.step * trainable.rows_per_step * loop.ranks.size
    run.change(
        metrics={**metrics, **scores.metrics},
        notes=dict(scores.notes),
        parameters=sum(parameter.numel() for parameter in trainable.module.parameters()),
        seconds=loop.seconds + (run.record.embeddings.seconds if run.record.embeddings else 0.0),
        tokens=loop.tokens,
        epochs=rows / len(trainable.rows),
        charts=trainable.charts(),
        uses=list(next_commands(trainable.uses, trainable.corpus)),
        checksums={name: checksum(path) for name in trainable.published if (path := run.folder / name).is_file()},
    )
    write_report(run, trainable.report_parts(run.folder))
    run.save(status="finished")


def peak_memory() -> int:
    """The most bytes that this process has had in memory; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


_TIMED_S = 20.0


def plan_run(config: RunConfig, corpus_path: Path, budget: str) -> dict[str, float]:
    """Builds everything and times a few steps; nothing is kept."""
    seconds = parse_duration(budget)
    corpus = find_pretraining(config).open_corpus(corpus_path)
    config = configure(config, corpus)
    trainable = find_pretraining(config)(config, corpus)
    parameters = sum(parameter.numel() for parameter in trainable.module.parameters())
    batch = trainable.batch(0)
    with tempfile.TemporaryDirectory() as folder:
        timing = Loop(trainable, config.training, Path(folder)).time_steps(_TIMED_S)
    if config.training.embeddings == AUTO:
        seconds *= 1 - config.training.embeddings_ratio
    steps, _ = timing.fit(seconds, config.training.evaluations)
    rows = steps * trainable.rows_per_step
    weights = 4 * parameters
    return {
        "parameters": parameters,
        "step_s": timing.step_s,
        "tokens_per_s": batch.num_tokens * config.training.gradient_accumulation / timing.step_s,
        "steps": steps,
        "epochs": rows / len(trainable.rows),
        "tokens": steps * batch.num_tokens * config.training.gradient_accumulation,
        "memory_bytes": peak_memory(),
        "disk_bytes": weights + 3 * weights * (config.training.keep + 1),
    }


def evaluate_run(
    folder: Path,
    corpus_path: Path | None,
    num_texts: int,
    score_pairs: PairScorer | None = None,
    cache: int | None = None,
) -> dict[str, Any]:
    """What the objective measures on held-out text, and what the model adds (pseudo-perplexity, say); with a ``cache`` of so many
    tokens what it gains by that."""
    run = Run.open(folder)
    if run.record.kind == "task":
        raise FirthError(f"{folder}: a task, which is measured on labelled examples; name their file with --data FILE")
    if run.record.kind == "vectors":
        raise FirthError(
            f"{folder}: word vectors, which are measured on words; name a file with --similarity or --analogies"
        )
    if run.record.kind not in _BY_LOOP or run.record.corpus is None:
        raise FirthError(f"{folder}: not a pre-training run; name a folder that firth pretrain made")
    if not run.record.finished:
        raise FirthError(f"{folder}: this run is not finished; go on with: firth pretrain --resume {folder}")
    config = RunConfig.build(run.record.config, run.path)
    pretraining = find_pretraining(config)
    corpus = pretraining.open_corpus(corpus_path or Path(run.record.corpus.path))
    if not corpus.info.heldout.documents:
        raise FirthError(f"{corpus.folder}: no held-out text in it; prepare it with a larger --heldout")
    if corpus_path is not None:
        pretraining.base_config(folder, corpus)  # refuses a corpus of other tokens
    trainable = pretraining(config, corpus)
    trainable.score_pairs = score_pairs
    trainable.restore(folder)
    cached = {} if cache is None else trainable.cached_scores(cache)
    return {**trainable.evaluate(), **trainable.extra_scores(folder, num_texts).together(), **cached}


_SHOWN = 120
_PUBLISHED = ("vectors.bin", "model.bin", "state.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


def start_vectors(
    name: str,
    config: VectorsConfig,
    corpus: Path,
    out: Path,
    base: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    budget: str | None = None,
) -> Run:
    """A new run; with ``base`` it goes on from an older run of the same kind, with a grown vocabulary. With a budget as many
    epochs as fit."""
    kept, seconds = _recorded(out, progress), None if budget is None else parse_duration(budget)
    train_vectors(
        Corpus.open(corpus), config, out, kept, start=base, recipe=name, overwrite=overwrite, budget_s=seconds
    )
    with going_on(resume_advice(out)):
        return _finish_vectors(out)


def resume_vectors(run: Run, progress: Progress | None = None) -> Run:
    """Goes on with a run that was stopped."""
    record = run.record
    if record.finished:
        return run if record.checksums else _finish_vectors(run.folder)  # stopped before its report
    settings = find_spec(record.model).vectors
    assert settings is not None
    assert record.corpus is not None
    config = settings.build(record.config, run.path)
    start = None if record.base is None else Path(record.base)
    kept = _recorded(run.folder, progress)
    train_vectors(Corpus.open(record.corpus.path), config, run.folder, kept, True, start, record.recipe)
    with going_on(resume_advice(run.folder)):
        return _finish_vectors(run.folder)


def _recorded(folder: Path, progress: Progress | None) -> Progress:
    """Progress that is also kept in ``metrics.jsonl``."""
    kept: list[History] = []

    def show(event: Event) -> None:
        if event["event"] == "train" and folder.is_dir():
            if not kept:
                kept.append(History(folder / "metrics.jsonl", event["step"] - 1))
            kept[0].add(event)
        if progress is not None:
            progress(event)

    return show


def _finish_vectors(folder: Path) -> Run:
    run = Run.open(folder)
    vectors = load_run(folder)
    chosen = list(vectors.words[: 4 * _SHOWN])
    words = [word for word in chosen if word.isalpha()][:_SHOWN] or chosen[:_SHOWN]
    write_text(folder / "report.html", _report(run, vectors, words))
    write_card(run)
    run.save(checksums={path.name: checksum(path) for name in _PUBLISHED if (path := folder / name).is_file()})
    return run


def word_map(vectors: WordVectors, words: list[str]) -> str:
    """Words in the plane of the two directions in which they differ most, as SVG."""
    rows = vectors.vectors(words)
    places = principal_plane(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
    low, high = places.min(0), places.max(0)
    scaled = ((places - low) / np.maximum(high - low, 1e-12) * [640, 400] + [40, 20]).tolist()
    taken: list[tuple[float, float, float]] = []  # left, right and height of names
    names, dots = [], []  # names lie over dots
    for word, (x, y) in zip(words, scaled, strict=True):  # frequent words first; a name that finds no room is a dot
        half = sum(3.6 * (1 + (ord(char) >= 0x2E80)) for char in word)
        free = all(abs(y - height) >= 12 or x + half < left or right < x - half for left, right, height in taken)
        if free:
            taken.append((x - half, x + half, y))
            names.append(f'<text class="over" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{html.escape(word)}</text>')
        else:
            dots.append(
                f'<circle class="dot c7" opacity="0.5" cx="{x:.1f}" cy="{y - 4:.1f}" r="2"><title>{html.escape(word)}</title></circle>'
            )
    return f'<svg viewBox="0 0 720 440" role="img" aria-label="words near each other">{"".join(dots + names)}</svg>'


def _neighbours(vectors: WordVectors, words: list[str]) -> str:
    found = vectors.nearest(words, 6) if words else []
    rows = [
        f"<tr><td><b>{html.escape(word)}</b></td><td>{html.escape(', '.join(other for other, _ in near))}</td></tr>"
        for word, near in zip(words, found, strict=True)
    ]
    return f"<table><tr><th>word</th><th>neighbours</th></tr>{''.join(rows)}</table>"


def _report(run: Run, vectors: WordVectors, words: list[str]) -> str:
    record = run.record
    shown = {
        "words": f"{len(vectors):,}",
        "dimensions": str(vectors.dim),
        "time": show_duration(record.seconds),
        "words/s": show_count(record.tokens / max(record.seconds, 1e-9)),
    }
    lines = [line for line in read_history(run.folder / "metrics.jsonl") if line["event"] == "train"]
    curve = line_figure({"training": [(line["step"], line["loss"]) for line in lines]}, "step", "loss")
    name = shlex.quote(run.folder.name)
    uses = (
        f"firth nearest {name} {shlex.quote((words or ['WORD'])[0])}\nfirth encode {name} texts.txt --out vectors.npy"
    )
    body = (
        f'<p class="soft">Firth run</p><h1>{html.escape(run.folder.name)}</h1>'
        f'<p class="soft">recipe {html.escape(record.recipe)}</p>{cards(shown)}'
        f"{f'<h2>Loss</h2>{curve}' if curve else ''}"
        "<h2>Frequent words, near what they resemble</h2>"
        f'<figure class="fixed">{word_map(vectors, words)}</figure>'
        f'<h2>Neighbours</h2><div class="wide">{_neighbours(vectors, words[20:32] or words)}</div>'
        f"<h2>Use it</h2><pre>{html.escape(uses)}</pre>{settings_table(record)}"
    )
    return page(f"{run.folder.name} · Firth", body)
