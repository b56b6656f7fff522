"""Task-adaptive pre-training (Gururangan et al. 2020): before it is tuned, a base goes on with its own objective on the texts of the
task, and on unlabelled text of the same kind if there is any."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from firth.core.config import parse_duration
from firth.core.errors import FirthError
from firth.core.files import atomic_file, read_json, write_json
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run, TunedBase, is_run
from firth.core.types import Progress
from firth.corpus.prepare import prepare
from firth.data.readers import ReadingConfig, read_documents
from firth.data.sources import find_sources, numbered_lines
from firth.models.pretrain import configure, resume_run, start_run
from firth.models.shared.model import find_model, load_model
from firth.models.shared.pretraining import EncoderPretraining, find_pretraining
from firth.models.shared.published import load_encoder
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData, texts_of
from firth.tasks.predict import has_task

_SLOWER = 0.1  # than the base's own training, if no rate is given
_HELDOUT = 0.1
_SHARE = 1 / 3  # of the budget, where no number of epochs is given
_HEADS = {"token_head", "replaced_head"}  # by which an encoder guesses tokens, or which of them are not the text's own


def plan_adaptation(base: str, config: TaskConfig) -> RunConfig:
    """The pre-training that a base goes on with, for a number of epochs or for a third of the budget; an error if it has
    none."""
    folder = Path(base)
    found = _pretraining_of(folder) if folder.exists() else None
    if found is None:
        raise FirthError(
            f"{base}: no pre-training is known that it could go on with; choose a run of firth pretrain, or leave out adapt_epochs and --unlabelled"
        )
    training = found.training
    rate = config.adapt_learning_rate if config.adapt_learning_rate is not None else _SLOWER * training.learning_rate
    changes = {
        "steps": None,
        "budget": None if config.adapt_epochs else f"{max(1.0, _SHARE * parse_duration(config.budget)):.0f}s",
        "epochs": config.adapt_epochs or None,
        "learning_rate": rate,
        "average": 1,
        "seed": config.seed,
        "device": config.device,
    }
    return found.replace(training=training.replace(**changes).model_dump())


def _pretraining_of(folder: Path) -> RunConfig | None:
    """The settings that a run was trained with; for a published directory, those that its model goes on with."""
    run = Run.find(folder)
    if run is not None:
        return RunConfig.build(run.record.config, run.path) if run.record.kind == "pretrain" else None
    recipe = None if has_task(folder) else find_model(folder).continues
    if recipe is None:
        return None
    found = find_run_recipe(recipe)
    if issubclass(find_pretraining(found), EncoderPretraining) and not _HEADS & load_encoder(folder)[2].keys():
        raise FirthError(
            f"{folder}: has no head that guesses masked tokens (it is a sentence encoder or an encoder alone), so it cannot go on with its pre-training; choose a base that has one, or leave out adapt_epochs and --unlabelled"
        )
    return found


@dataclass(frozen=True)
class Unlabelled:
    """A file of texts without labels: a text per line, or a column of a table."""

    path: Path
    column: str = "text"
    encoding: str = "utf-8"

    @classmethod
    def of(cls, path: Path, column: str | None, encoding: str | None) -> "Unlabelled":
        """The column is that of the labelled files, where it has a name."""
        named = column if column and not column.isdecimal() else "text"
        return cls(path, named, encoding or "utf-8")

    def texts(self) -> Iterator[str]:
        for source in find_sources([str(self.path)]):
            if source.format == "txt":
                yield from (line for _, line in numbered_lines(source, self.encoding))
            else:
                reading = ReadingConfig(column=self.column, encoding=self.encoding)
                yield from (
                    document.text for document in read_documents([source], reading, "name it as in the labelled file")
                )

    def check(self) -> None:
        """An error if there is no text in the file."""
        if not any(text.strip() for text in self.texts()):
            raise FirthError(
                f"{self.path}: no text in it; name a file with a text per line, or a table with a column '{self.column}'"
            )


def left_of_budget(config: TaskConfig, found: TunedBase) -> TaskConfig:
    """The settings with the time that is left for the candidates; epochs that were asked for are not part of it."""
    if config.adapt_epochs:
        return config
    whole = parse_duration(config.budget)
    return config.replace(budget=f"{max(whole - found.seconds, whole * _SHARE):.1f}s")


def adapt_base(
    base: Path,
    data: TaskData,
    config: TaskConfig,
    folder: Path,
    progress: Progress | None,
    unlabelled: Unlabelled | None = None,
) -> tuple[Path, TunedBase]:
    """The run of the tuned base in ``folder`` (gone on with if it was interrupted), and its scores before and after."""
    corpus, out, noted = folder / "text", folder / "run", folder / "before.json"
    folder.mkdir(parents=True, exist_ok=True)
    if is_run(out):
        run = resume_run(out, progress)
    else:
        _prepare_text(base, data, unlabelled, corpus, progress)
        plan = plan_adaptation(str(base), config)
        write_json(noted, _scores_before(base, plan, corpus))
        run = start_run(plan, corpus, out, base, progress=progress)
    record = run.record
    epochs = config.adapt_epochs or round(record.epochs, 2)
    return out, TunedBase(epochs=epochs, before=read_json(noted), after=record.metrics, seconds=record.seconds)


def _prepare_text(
    base: Path, data: TaskData, unlabelled: Unlabelled | None, corpus: Path, progress: Progress | None
) -> None:
    if (corpus / "corpus.json").is_file():
        return
    model = load_model(base)
    tokens = model.text_rules
    text = corpus.with_suffix(".jsonl")
    with atomic_file(text) as file:
        for one in _distinct_texts(data, unlabelled):
            file.write(json.dumps({"text": one}, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    reading = ReadingConfig.build({"format": "jsonl"}, "reading")
    tokenizer, how = None if tokens.kind == "words" else base, model.segmentation
    prepare([str(text)], corpus, tokens, reading, tokenizer, _HELDOUT, workers=1, progress=progress, segmentation=how)
    text.unlink()


def _distinct_texts(data: TaskData, unlabelled: Unlabelled | None) -> Iterator[str]:
    """The texts of the training examples, then those without labels; each once, in memory for a number per text."""
    own = (text for example in data.train for text in texts_of(example))
    seen: set[int] = set()
    for text in chain(own, () if unlabelled is None else unlabelled.texts()):
        if text.strip() and hash(text) not in seen:
            seen.add(hash(text))
            yield text


def _scores_before(base: Path, plan: RunConfig, corpus_path: Path) -> dict[str, float]:
    pretraining = find_pretraining(plan)
    corpus = pretraining.open_corpus(corpus_path)
    fitted = configure(plan.replace(model=pretraining.base_config(base, corpus).model_dump()), corpus, True)
    trainable = pretraining(fitted, corpus)
    trainable.start_from(base)
    return trainable.evaluate()
