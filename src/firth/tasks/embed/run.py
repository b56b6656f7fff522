"""A run of ``firth finetune embed``: a directory that sentence-transformers opens."""

from pathlib import Path

import torch
from torch import nn

from firth.core.errors import SAME_COMMAND, FirthError
from firth.core.registry import TrainingConfig, choose_precision
from firth.core.run import CorpusRecord, Run, RunRecord, versions
from firth.core.types import Progress, TextReader
from firth.data.labelled import Columns
from firth.data.sentences import NLI, SentenceData, read_sentence_data
from firth.models.shared.model import Model, load_model
from firth.models.shared.sentences import SentenceConfig, SentenceModules
from firth.nn.sentences import Normalize
from firth.reports.page import write_report
from firth.tasks.data import Reading
from firth.tasks.embed.config import FORMS, EmbedConfig
from firth.tasks.embed.scoring import prompts_of
from firth.tasks.embed.training import (
    EmbedTraining,
    SentenceDecoder,
    SentenceNetwork,
    mine_negatives,
    training_examples,
)
from firth.tasks.run import Source, model_checksums
from firth.training.checkpoints import learning
from firth.training.loop import Loop
from firth.training.ranks import Ranks, code_hash, rank_folder

_RATES = ((192, 5e-4), (256, 2e-4), (383, 1e-4))  # up to a width; the published rate above
_RATE = 3e-5
_READ = 30_000  # examples that a training reads at least, in at most five epochs
_USUAL = {"pairs": "ranking", "triplets": "ranking", "scores": "cosent", "nli": "ranking"}


def read_data(path: Path, config: EmbedConfig, reading: Reading, learning: bool = True) -> SentenceData:
    """The examples of a file; a dev file may have another form than the training file."""
    columns = Columns(reading.text, reading.second, reading.label)
    form = config.form if learning else None
    return read_sentence_data(path, columns, config.negative, reading.encoding or "utf-8", form)


def describe_data(path: Path, config: EmbedConfig, reading: Reading, dev: Path | None) -> list[str]:
    """What is in the files, as lines for a terminal."""
    data = read_data(path, config, reading)
    tested = None if dev is None else read_data(dev, config, reading, learning=False)
    first = data.examples[0]
    lines = [
        f"examples   {len(data.examples):,} ({data.form})"
        + ("" if tested is None else f"   dev {len(tested.examples):,}")
    ]
    return [*lines, f"first      {first.text[:80]}" + ("" if first.second is None else f" | {first.second[:80]}")]


def choose_loss(config: EmbedConfig, data: SentenceData, base: Model) -> str:
    """The loss that was asked for, or the usual one of what there is to learn from."""
    if config.loss == "auto":
        return base.text_loss if data.form == "text" else _USUAL[data.form]
    if data.form not in FORMS[config.loss]:
        raise FirthError(f"loss={config.loss} learns from {' or '.join(FORMS[config.loss])}, and these are {data.form}")
    return config.loss


def all_texts(data: SentenceData) -> list[str]:
    found = (text for one in data.examples for text in (one.text, one.second, *one.negatives) if text)
    return list(dict.fromkeys(found))


def build_base(config: EmbedConfig, base: Model, data: SentenceData, loss: str) -> Model:
    """What learns: the base, or the table that word vectors become, which is weighted by SIF."""
    learner = base.sentence_base(lambda: all_texts(data), config.normalize)
    if loss == "sif" or learner is not base:
        learner.weigh_words(all_texts(data), config.sif_a, config.sif_components)
    return learner


def build_modules(config: EmbedConfig, base: Model) -> SentenceModules:
    """The base's own modules, or pooling and length 1, with what the settings say."""
    if base.sentence is not None and config.pool == "auto":
        known = base.sentence.modules
        prompts = {**known.config.prompts, **config.prompts}
        return SentenceModules(
            known.config.replace(prompts=prompts, network="", **_length(known.config, config, base)), known.tail
        )
    pool = ("mean",) if config.pool == "auto" else (config.pool,)
    tail = nn.Sequential(*([Normalize()] if config.normalize else []))
    return SentenceModules(SentenceConfig(pool=pool, max_len=_fitting(config, base), prompts=config.prompts), tail)


def _fitting(config: EmbedConfig, base: Model) -> int:
    """Tokens of a text, no more than the base has positions for."""
    most = base.reader().max_len
    return config.max_len if most is None else min(config.max_len, most)


def _length(known: SentenceConfig, config: EmbedConfig, base: Model) -> dict[str, object]:
    return {} if known.static else {"max_len": known.max_len or _fitting(config, base)}


def set_dropout(module: nn.Module, prob: float) -> bool:
    """Sets the dropout of a network's blocks; false where it has none."""
    found = False
    for part in module.modules():
        if isinstance(getattr(part, "dropout_prob", None), float):
            vars(part)["dropout_prob"] = prob
            found = True
    return found


def build_network(config: EmbedConfig, loss: str, base: Model, reader: TextReader) -> SentenceNetwork:
    """The network with the head that its loss needs, seeded."""
    torch.manual_seed(config.seed % 2**63)
    modules = build_modules(config, base)
    width = modules.width(base.dim)
    if config.widths and max(config.widths) > width:
        raise FirthError(
            f"widths: {max(config.widths)} is more than the {width} dimensions of the vectors; leave it out"
        )
    prob = config.dropout_prob
    if prob is None and loss == "simcse":
        prob = max(0.1, float(getattr(getattr(base, "config", None), "dropout_prob", 0.0)))
    own = prob is not None and isinstance(reader.module, nn.Module) and set_dropout(reader.module, prob)
    network = SentenceNetwork(reader, modules, 0.0 if own or prob is None else prob)
    if base.spec.tuned_whole:
        network.precision = choose_precision(config.precision, config.device)
    network.device = config.device
    if loss == "softmax":
        network.head = nn.Linear(3 * width, len(NLI))
    if loss == "tsdae":
        network.head = SentenceDecoder(base.token_embedding(), width, config.decoder_layers, config.max_len)
    return network


def usual_settings(config: EmbedConfig, base: Model, num_examples: int) -> EmbedConfig:
    """A rate by the width of the base, and epochs by the number of examples."""
    rate = next((rate for dim, rate in _RATES if base.dim <= dim), _RATE)
    changes: dict[str, object] = {}
    if config.learning_rate is None:
        changes["learning_rate"] = base.sentence_rate or rate
    if config.epochs is None:
        changes["epochs"] = max(1, min(5, round(_READ / max(num_examples, 1))))
    return config.replace(**changes)


def start_embed(
    config: EmbedConfig, source: Source, out: Path, overwrite: bool = False, progress: Progress | None = None
) -> Run:
    """A new run; the same command begins one again that was interrupted. Everything is looked at before a run is removed.
    Of several processes each takes batches of its own, with their own negatives."""
    with rank_folder(out) as folder:
        run = _start_embed(config, source, folder, overwrite, progress)
        Ranks().wait()
    return run if folder == out else Run(out, run.record)


def _start_embed(config: EmbedConfig, source: Source, out: Path, overwrite: bool, progress: Progress | None) -> Run:
    if not Path(source.base).exists():
        raise FirthError(
            f"embed needs a base that has learned from text: name a run or a model with --base, not {source.base}"
        )
    data = read_data(source.train, config, source.reading)
    dev = None if source.dev is None else read_data(source.dev, config, source.reading, learning=False)
    if dev is not None and dev.form == "text":
        raise FirthError(f"{source.dev}: texts alone measure nothing; give scored pairs or pairs with --dev")
    Run.keep_apart(out, source.paths(), overwrite)
    loaded = load_model(Path(source.base))
    loss = choose_loss(config, data, loaded)
    config = usual_settings(config.replace(form=data.form, loss=loss), loaded, len(training_examples(data, loss)))
    base = build_base(config, loaded, data, loss)
    record = RunRecord(
        kind="embed",
        model=base.spec_name,
        recipe="embed",
        versions=versions(),
        config=config.model_dump(mode="json"),
        corpus=CorpusRecord(
            path=str(source.train.absolute()), dev=None if source.dev is None else str(source.dev.absolute())
        ),
        base=str(Path(source.base).absolute()),
        made_from=source.fingerprints(),
    )
    facts = {"settings": config.model_dump_json(), "data": source.fingerprints().model_dump_json()}
    Ranks().require_same({"code": code_hash(), **facts})
    network = build_network(config, loss, base, base.reader())
    run = None if overwrite else Run.find(out)
    if run is None or run.record.replace(versions=record.versions) != record:
        run = Run.create(out, record, overwrite)
    with run.lock(), learning(run.folder, SAME_COMMAND, lambda: False):
        return _train(run, config, loss, base, network, data, dev, progress)


def _train(
    run: Run,
    config: EmbedConfig,
    loss: str,
    base: Model,
    network: SentenceNetwork,
    data: SentenceData,
    dev: SentenceData | None,
    progress: Progress | None,
) -> Run:
    if config.negatives != "none":
        prompts = prompts_of(data.form, network.modules_read.config)
        found = mine_negatives(
            training_examples(data, loss), config.negatives, config.num_negatives, config.margin, base.encode, prompts
        )
        data = SentenceData("triplets", found)
    if loss == "sif":
        trainable = EmbedTraining(config.replace(epochs=1), "simcse", network, data, dev)
        scores, seconds, steps, tokens = trainable.evaluate(), 0.0, 0, 0
        network.eval()
    else:
        trainable = EmbedTraining(config, loss, network, data, dev)
        loop = Loop(trainable, _training(config, trainable.steps), run.folder, progress, saves=False)
        loop.run(trainable.steps, "the same command")
        trainable.take_best()
        scores, seconds, steps, tokens = trainable.best or {}, loop.seconds, loop.step, loop.tokens
    base.save_sentences(run.folder, network.modules_read)
    size = sum(parameter.numel() for part in (network.reader_module, network.tail) for parameter in part.parameters())
    changes = {"metrics": scores, "seconds": seconds, "steps": steps, "tokens": tokens, "parameters": size}
    run.change(uses=["encode {name} texts.txt --out vectors.npy", "evaluate {name} --data pairs.tsv"], **changes)
    write_report(run)
    run.save(status="finished", checksums=model_checksums(run.folder))
    return run


def _training(config: EmbedConfig, steps: int) -> TrainingConfig:
    assert config.learning_rate is not None
    assert config.epochs is not None
    return TrainingConfig(
        batch_size=config.batch_size,
        steps=steps,
        learning_rate=config.learning_rate,
        warmup_ratio=config.warmup_ratio,
        weight_decay=config.weight_decay,
        beta2=0.999,
        adam_eps=1e-8,
        evaluations=max(config.epochs, 2),
        checkpoints=0,
        seed=config.seed,
        device=config.device,
    )
