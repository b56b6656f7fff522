"""``README.md`` of a run or an export, its model card: what it is, from what text, what it reaches, and how to use it."""

import html
import re
import shlex
from pathlib import Path

from firth.core.config import show_count, show_duration
from firth.core.files import write_text
from firth.core.registry import specs
from firth.core.run import LearningCurve, Run, RunRecord, TranslationCheck

CARD = "README.md"
_KINDS = {
    "pretrain": "a pre-trained model",
    "write": "a model that writes its answers",
    "vectors": "static word vectors",
    "task": "a model for a task",
    "embed": "a model for sentence vectors",
    "onnx": "a model exported to ONNX",
    "ctranslate2": "a translator exported to CTranslate2",
}
_LIBRARY = {
    "pretrain": "transformers.AutoModel.from_pretrained({folder!r})  # where transformers knows this model",
    "embed": "sentence_transformers.SentenceTransformer({folder!r})",
    "vectors": 'gensim.models.KeyedVectors.load_word2vec_format({folder!r} + "/vectors.bin", binary=True)',
    "onnx": 'onnxruntime.InferenceSession({folder!r} + "/model.onnx")',
    "ctranslate2": "ctranslate2.Translator({folder!r})",
    "static": "sentence_transformers.SentenceTransformer({folder!r})",
}
_LIMITS = (
    "Limits: it knows what its text says, with the errors and prejudices of that text. Scores are measured on held-out "
    "examples of the same source and may be lower on other text."
)
_FILES = {"firth.json": "settings", "metrics.jsonl": "curves", "report.html": "the report"}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def show_fact(value: object) -> str:
    """A fact as people write it: 1,000; 0.6880; yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}" if isinstance(value, float) else str(value)


_HELPS, _HELPS_LITTLE = 0.02, 0.005  # of a score, at twice the labels


def show_curve(curve: LearningCurve) -> str:
    """Whether more labels would help, for people."""
    gain = curve.predicted - curve.fitted
    helps = "would help" if gain >= _HELPS else "would help a little" if gain >= _HELPS_LITTLE else "would hardly help"
    values = f"{curve.metric} {curve.predicted:.3f} where it is {curve.fitted:.3f} now"
    return f"{helps}: with {2 * curve.examples:,} about {values} ({curve.name})"


def write_card(run: Run, name: str | None = None) -> None:
    """Writes the card of a run or an export; ``name`` is that of its folder, where it is not there yet. Paths of this machine
    are named by their last part only."""
    record, name = run.record, name or run.folder.name
    kind = _sentence(_KINDS.get(record.kind, record.kind))
    made = "trained" if record.export is None else "written"
    version = f" {record.versions['firth']}" if "firth" in record.versions else ""
    facts = [("What it is", _facts(record)), ("Scores", _scores(record))]
    _write(
        run.folder,
        name,
        f"{kind}, {made} with Firth{version} (recipe {_inert(record.recipe)}).",
        facts,
        _uses(record, name),
        _library(record),
    )


def write_static_card(folder: Path, facts: dict[str, str], scores: dict[str, str]) -> None:
    """The card of a table of token vectors that was distilled from an encoder."""
    shown = shlex.quote(" ".join(folder.name.split()))
    uses = [f"firth encode {shown} texts.txt --out vectors.npy", f"firth serve {shown}"]
    about = "Static token vectors, distilled from an encoder with Firth."
    _write(folder, folder.name, about, [("What it is", facts), ("Scores", scores)], uses, _LIBRARY["static"])


def _write(
    folder: Path, name: str, about: str, facts: list[tuple[str, dict[str, str]]], uses: list[str], library: str | None
) -> None:
    there = [f"{what} in `{file}`" for file, what in _FILES.items() if (folder / file).is_file()]
    parts = [
        f"# {_inert(name)}",
        about,
        *(_table(title, values) for title, values in facts),
        "## Use\n\n```bash\n" + "\n".join(uses) + "\n```",
        "```python\nimport firth\n\n" + f"model = firth.load({name!r})\nprint(model)\n```",
        *_elsewhere(library, name),
        _LIMITS,
        f"{_sentence(', '.join(there))}." if there else "",
    ]
    write_text(folder / CARD, "\n\n".join(part for part in parts if part) + "\n")


def _facts(record: RunRecord) -> dict[str, str]:
    found = {"kind": record.kind, "model": record.model}
    if record.export is not None:
        found |= {
            "exported from": Path(record.export.source).name,
            "weights": "int8" if record.export.int8 else "float32",
        }
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
    checked = None if record.export is None else record.export.verified
    if isinstance(checked, TranslationCheck):
        found["the same translations as the original"] = f"{checked.equal:,} of {checked.translations:,}"
    elif checked is not None:
        found["largest difference from the original"] = f"{checked.largest_difference:.3g}"
        found["smallest cosine with the original"] = f"{checked.smallest_cosine:.6f}"
        for part, scores in (("original", checked.before), ("export", checked.after)):
            found |= {f"{name.replace('_', ' ')}, {part}": f"{value:.4g}" for name, value in scores.items()}
    return found


def _uses(record: RunRecord, name: str) -> list[str]:
    shown = shlex.quote(" ".join(name.split()))
    if record.uses:
        return [f"firth {use.replace('{name}', shown)}" for use in record.uses]
    if record.kind == "vectors":
        return [f"firth nearest {shown} WORD"]
    if record.kind == "ctranslate2":
        return [f'firth translate {shown} "A sentence."']
    if record.export is not None and record.export.task is None:
        return [f"firth encode {shown} texts.txt --out vectors.npy", f"firth serve {shown}"]
    return [f"firth predict {shown} texts.txt", f"firth serve {shown}"]


def _library(record: RunRecord) -> str | None:
    """How another library reads the run; none does where its model is one of Firth alone."""
    spec = specs().get(record.model)
    known = record.kind != "pretrain" or (spec is not None and spec.in_transformers)
    return _LIBRARY.get(record.kind) if known else None


def _elsewhere(line: str | None, name: str) -> list[str]:
    """The same in the library of its ecosystem."""
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
