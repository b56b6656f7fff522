"""``README.md`` of a run, its model card: what it is, from what text, what it reaches, and how to use it."""

import html
import re
import shlex
from pathlib import Path

from firth.core.config import show_count, show_duration
from firth.core.files import write_text
from firth.core.run import Run, RunRecord

CARD = "README.md"
_KINDS = {
    "pretrain": "a pre-trained model",
    "vectors": "static word vectors",
    "task": "a model for a task",
    "embed": "a model for sentence vectors",
}
_LIBRARY = {
    "pretrain": "transformers.AutoModel.from_pretrained({folder!r})  # where transformers knows this model",
    "embed": "sentence_transformers.SentenceTransformer({folder!r})",
    "vectors": 'gensim.models.KeyedVectors.load_word2vec_format({folder!r} + "/vectors.bin", binary=True)',
}


def write_card(run: Run) -> None:
    """Writes the card of a run; paths of this machine are named by their last part only."""
    record, name = run.record, run.folder.name
    parts = [
        f"# {_inert(name)}",
        f"{_KINDS.get(record.kind, record.kind).capitalize()}, trained with Firth "
        f"{record.versions.get('firth', '')} (recipe {_inert(record.recipe)}).".replace("  ", " "),
        _table("What it is", _facts(record)),
        _table("Scores", _scores(record)),
        "## Use\n\n```bash\n" + "\n".join(_uses(run)) + "\n```",
        "```python\nimport firth\n\n" + f"model = firth.load({name!r})\nprint(model)\n```",
        *_elsewhere(record, name),
        "Limits: it knows what its text says, with the errors and prejudices of that text. Scores are measured on held-out "
        "examples of the same source and may be lower on other text.",
        "Settings are in `firth.json`, curves in `metrics.jsonl`, the report is `report.html`.",
    ]
    write_text(run.folder / CARD, "\n\n".join(part for part in parts if part) + "\n")


def _facts(record: RunRecord) -> dict[str, str]:
    found = {"kind": record.kind, "model": record.model}
    if record.base is not None:
        found["made from"] = Path(record.base).name
    if record.corpus is not None:
        found["text"] = Path(record.corpus.path).name
    if record.parameters:
        found["parameters"] = show_count(record.parameters)
    if record.words:
        found["words"] = f"{record.words:,} of {record.config.get('dim')} dimensions"
    if record.tokens:
        found["tokens read"] = show_count(record.tokens)
    if record.seconds:
        found["training"] = show_duration(record.seconds)
    return found


def _scores(record: RunRecord) -> dict[str, str]:
    found = {name.replace("_", " "): f"{value:.4g}" for name, value in record.metrics.items()}
    interval = None if record.task is None else record.task.interval
    if interval is not None:
        found[f"{interval.metric}, 95 % interval"] = f"{interval.low:.3f} to {interval.high:.3f}"
    return found


def _uses(run: Run) -> list[str]:
    record, name = run.record, run.folder.name
    shown = shlex.quote(" ".join(name.split()))
    if record.uses:
        return [f"firth {use.replace('{name}', shown)}" for use in record.uses]
    if record.kind == "vectors":
        return [f"firth nearest {shown} WORD"]
    return [f"firth predict {shown} texts.txt", f"firth serve {shown}"]


def _elsewhere(record: RunRecord, name: str) -> list[str]:
    """The same in the library of its ecosystem."""
    line = _LIBRARY.get(record.kind)
    if line is None:
        return []
    package = line.split(".")[0]
    return [f"```python\nimport {package}\n\nmodel = {line.format(folder=name)}\n```"]


def _inert(text: str) -> str:
    """In one line and without any mark-up: names are of other people's making, and cards are shown as pages."""
    line = re.sub(r"([\\`*\[\]|~])", r"\\\1", " ".join(text.split()))
    return html.escape(line, quote=False)


def _table(title: str, values: dict[str, str]) -> str:
    rows = "\n".join(f"| {_inert(name)} | {_inert(value)} |" for name, value in values.items())
    return f"## {title}\n\n| | |\n| --- | --- |\n{rows}" if values else ""
