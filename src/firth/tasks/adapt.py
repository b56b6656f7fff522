"""A base trained further on a task's own text before the task itself (Peters et al. 2018, §3.4; Howard & Ruder 2018).

Labels are not looked at. The base goes on with the objective that it was trained with, on a corpus of the training examples
cut by its own tokenizer; how well it knows text of that kind is measured before and after on documents held out of it.
"""

import json
from pathlib import Path

from firth.core.configs import RunConfig, TokensConfig, find_run_recipe
from firth.core.errors import FirthError
from firth.core.files import read_json, write_json, write_text
from firth.core.records import TunedBase
from firth.core.run import Run, is_run
from firth.core.types import Progress
from firth.corpus.prepare import prepare
from firth.data.readers import ReadingConfig
from firth.models.elmo.model import ElmoModel
from firth.models.loading import find_model, load_model
from firth.models.pretrain import configure, resume_run, start_run
from firth.models.recurrent.model import RecurrentModel
from firth.models.shared.pretraining import find_pretraining
from firth.tasks.config import TaskConfig
from firth.tasks.data import TaskData, texts_of
from firth.tasks.loading import is_task
from firth.tokenizers.word_tokens import WordTokens

_SLOWER = 0.1  # than the base's own training, if no rate is given
_HELDOUT = 0.1


def plan_adaptation(base: str, config: TaskConfig) -> RunConfig:
    """The pre-training that a base goes on with; an error if it has none."""
    folder = Path(base)
    found = _pretraining_of(folder) if folder.exists() else None
    if found is None:
        raise FirthError(
            f"{base}: no pre-training is known that it could go on with; choose a run of firth pretrain, or leave out adapt_epochs"
        )
    training = found.training
    rate = config.adapt_learning_rate if config.adapt_learning_rate is not None else _SLOWER * training.learning_rate
    changes = {
        "steps": None,
        "budget": None,
        "epochs": config.adapt_epochs,
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
    recipe = None if is_task(folder) else find_model(folder).continues
    return None if recipe is None else find_run_recipe(recipe)


def adapt_base(
    base: Path, data: TaskData, config: TaskConfig, folder: Path, progress: Progress | None
) -> tuple[Path, TunedBase]:
    """The run of the tuned base in ``folder`` (gone on with if it was interrupted), and its scores before and after."""
    corpus, out, noted = folder / "text", folder / "run", folder / "before.json"
    folder.mkdir(parents=True, exist_ok=True)
    if is_run(out):
        run = resume_run(out, progress)
    else:
        _prepare_text(base, data, corpus, progress)
        plan = plan_adaptation(str(base), config)
        write_json(noted, _scores_before(base, plan, corpus))
        run = start_run(plan, corpus, out, base, progress=progress)
    return out, TunedBase(epochs=config.adapt_epochs, before=read_json(noted), after=run.record.metrics)


def _prepare_text(base: Path, data: TaskData, corpus: Path, progress: Progress | None) -> None:
    if (corpus / "corpus.json").is_file():
        return
    model = load_model(base)
    tokens, tokenizer = TokensConfig(), base
    if isinstance(model, ElmoModel):
        tokens = model.rules
    elif isinstance(model, RecurrentModel) and isinstance(model.tokens, WordTokens):
        split = "whitespace" if model.tokens.whitespace_only else "words"
        tokens = TokensConfig.build({"kind": "words", "lowercase": model.tokens.lowercase, "word_split": split}, base)
    text = corpus.with_suffix(".jsonl")
    texts = dict.fromkeys(text for example in data.train for text in texts_of(example))
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    write_text(text, "".join(f"{line}\n" for line in lines))
    words = tokens.kind == "words"
    reading = ReadingConfig.build({"format": "jsonl"}, "reading")
    prepare([str(text)], corpus, tokens, reading, None if words else tokenizer, _HELDOUT, workers=1, progress=progress)
    text.unlink()


def _scores_before(base: Path, plan: RunConfig, corpus_path: Path) -> dict[str, float]:
    pretraining = find_pretraining(plan)
    corpus = pretraining.open_corpus(corpus_path)
    fitted = configure(plan.replace(model=pretraining.base_config(base, corpus).model_dump()), corpus, True)
    trainable = pretraining(fitted, corpus)
    trainable.start_from(base)
    return trainable.evaluate()
