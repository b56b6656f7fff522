"""Fine-tuning a text-to-text model (T5, UniLM): examples become pairs of texts, and these a run."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from firth.core.errors import FirthError, going_on
from firth.core.files import behind_link, move_aside, read_json, write_json, write_text
from firth.core.registry import RunConfig, TokensConfig
from firth.core.run import MadeFrom, Run, is_run
from firth.core.types import Progress
from firth.corpus.prepare_pairs import PairFilters, prepare_pairs
from firth.data.parallel import PairsReadingConfig
from firth.models.pretrain import resume_run, start_run
from firth.models.shared.model import load_model
from firth.tasks.config import WritingConfig
from firth.tasks.data import Reading
from firth.tasks.run import Source
from firth.tasks.write.data import WritingData, read_writing, source_text, target_text
from firth.tasks.write.model import SETTINGS, score_heldout
from firth.training.checkpoints import learning, same_command

CORPUS = "corpus"
_NO_LIMIT = 1_000_000_000
_EPOCHS = 3.0  # where nothing else is said


def start_writing(
    config: WritingConfig,
    settings: Mapping[str, object],
    base: Path,
    train: Path,
    dev: Path | None,
    out: Path,
    reading: Reading,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """A new run; the same command goes on with one that was interrupted. ``settings`` are those of training."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise FirthError(
            "write is trained in one process: for more, use prepare-pairs and pretrain t5-write --base RUN"
        )
    data = read_writing(config, train, dev, reading)
    limits = data.config.max_source_len, data.config.max_target_len
    recipe = load_model(base).writing_recipe(*limits).update(settings)
    training = recipe.training
    if training.steps is None and training.epochs is None and training.budget is None:
        recipe = recipe.replace(training=training.replace(epochs=_EPOCHS).model_dump())
    source = Source(str(base), train, dev, reading)
    made_from = source.fingerprints()
    if not overwrite and _begun(out, data.config, recipe, made_from):
        with going_on(same_command(False)):
            return resume_writing(out, progress)
    Run.keep_apart(out, source.paths(), overwrite)
    Run.clear(out, overwrite, move_aside)
    with learning(out, same_command(overwrite), lambda: is_run(out)):
        behind_link(out).mkdir(parents=True, exist_ok=True)
        _prepare(data, base, out, progress)
        write_json(out / SETTINGS, data.config.model_dump())
        prepared = (CORPUS, SETTINGS)
        return start_run(
            recipe, out / CORPUS, out, base, False, progress, prepared, made_from, score_heldout, kind="write"
        )


def resume_writing(folder: Path, progress: Progress | None = None) -> Run:
    """Goes on with a run that was interrupted."""
    return resume_run(folder, progress, score_heldout)


def _begun(out: Path, config: WritingConfig, recipe: RunConfig, made_from: MadeFrom) -> bool:
    """Whether this very task was begun here, with these settings and files, and not finished."""
    run = Run.find(out)
    if run is None or run.record.finished or run.record.kind != "write":
        return False
    known = (read_json(out / SETTINGS), run.record.config.get("training"), run.record.config.get("objective"))
    wanted = tuple(some.model_dump(mode="json") for some in (config, recipe.training, recipe.objective))
    return known == wanted and run.record.made_from == made_from


def _prepare(data: WritingData, base: Path, out: Path, progress: Progress | None) -> None:
    """The pairs as a corpus of the run; nothing is left out, long texts are cut when they are read."""
    paths = []
    for name, examples in (("train", data.train), ("dev", data.dev)):
        rows = [
            {"source": source_text(data.config, example), "target": target_text(data.config, example)}
            for example in examples
        ]
        if rows:
            paths.append(out / f"{name}.jsonl")
            write_text(paths[-1], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    prepare_pairs(
        [str(paths[0])],
        out / CORPUS,
        TokensConfig(),
        PairsReadingConfig(source="source", target="target"),
        [str(path) for path in paths[1:]],
        tokenizer=base,
        filters=PairFilters(max_len=_NO_LIMIT, max_ratio=_NO_LIMIT),
        progress=progress,
    )
    for path in paths:
        path.unlink()
