"""Runs, plans, corpora and models as short tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from firth.core.config import show_bytes, show_count, show_duration
from firth.core.errors import FirthError
from firth.core.files import check_files
from firth.core.run import ExportRecord, LabelScore, Run, RunRecord, TaskRecord
from firth.reports.card import show_curve

if TYPE_CHECKING:
    from firth.api.data import TextTokens
    from firth.api.using import PlainData
    from firth.corpus.format import CorpusInfo
    from firth.corpus.images import ImagesInfo
    from firth.corpus.loss import LossInfo
    from firth.corpus.pairs import PairsInfo


Rows = list[tuple[str, str]]


def token_rows(found: TextTokens) -> Rows:
    """A line for each token, then what is unknown and what is lost."""
    rows = []
    for token in found["tokens"]:
        place = f"{token['start']}-{token['end']}"
        word = found["words"][token["word"]] if 0 <= token["word"] < len(found["words"]) else ""
        number = "" if token["id"] is None else str(token["id"])
        note = f"unknown: {token['text']}" if token["unknown"] else f"in {word}"
        rows.append((token["token"], f"{number:>7}  {place:>9}  {note}"))
    rows.append(("unknown", f"{found['unknown']:,} of {len(found['tokens']):,} tokens"))
    examples = ", ".join(f"{one['text']} → {one['back'] or '(nothing)'}" for one in found["examples"])
    rows.append(("lost", f"{found['lost']:,} characters{f': {examples}' if examples else ''}"))
    return rows


def word_rows(scores: PlainData) -> Rows:
    """One row per similarity file and per section of an analogy file."""
    rows = [
        (
            Path(found["file"]).name,
            f"Spearman {found['spearman']:.3f}  ({found['known']} of {found['pairs']} pairs known)",
        )
        for found in scores["similarity"]
    ]
    for found in scores["analogies"]:
        for section in found["sections"]:
            name = Path(found["file"]).name if section["name"] == "total" else f"  {section['name']}"
            rows.append(
                (name, f"{section['accuracy']:.1%} right  ({section['known']} of {section['questions']} known)")
            )
    return rows


def pair_lines(found: PlainData) -> list[str]:
    """Minimal pairs: one line per set, phenomenon and field, the mean, and what must be known to read them."""
    parts = [("set", found["sets"]), ("phenomenon", found["phenomena"]), ("field", found["fields"])]
    parts = [*((title, rows) for title, rows in parts if rows), ("", [found["mean"]])]
    width = max(len(row["name"]) for _, rows in parts for row in rows)
    lines = []
    for title, rows in parts:
        lines.append(f"  {title:<{width}}   pairs  right  unigram  fewer tokens  fewer characters")
        for row in rows:
            floors = f"{row['unigram']:>7.3f}  {row['fewer_tokens']:>12.3f}  {row['fewer_characters']:>16.3f}"
            lines.append(f"  {row['name']:<{width}}  {row['pairs']:>6,}  {row['accuracy']:.3f}  {floors}")
    share = found["unknown_tokens"] / max(1, found["tokens"])
    return [
        *lines,
        f"scored by {found['method']}; ties count one half: {found['ties']:,} of {found['mean']['pairs']:,} pairs",
        f"unknown: {found['unknown_tokens']:,} of {found['tokens']:,} tokens ({share:.2%})",
        f"unigram: by the counts of {found['unigram_from']}",
    ]


def run_rows(record: RunRecord) -> Rows:
    """A run in a few lines."""
    if record.export is not None:
        return export_rows(record, record.export)
    if record.task is not None:
        return task_rows(record, record.task)
    rows = [("recipe", record.recipe), ("status", record.status)]
    if record.steps is not None:
        rows.append(("steps", f"{record.steps:,}"))
    if not record.finished:
        return rows
    if record.kind == "vectors":
        rows.append(("words", f"{record.words:,} of {record.config.get('dim')} dimensions"))
    else:
        rows.append(("parameters", show_count(record.parameters)))
    speed = show_count(record.tokens / max(record.seconds, 1e-9))
    rows += [
        ("tokens seen", show_count(record.tokens) + (f" ({record.epochs:.2f} epochs)" if record.epochs else "")),
        ("time", f"{show_duration(record.seconds)} ({speed} tokens/s)"),
    ]
    rows += _budget_rows(record)
    part = "" if record.kind == "vectors" else "held-out "
    rows += [(f"{part}{name.replace('_', ' ')}", f"{value:.4f}") for name, value in record.metrics.items()]
    rows += [(name.replace("_", " "), value) for name, value in record.notes.items()]
    return rows + _sweep_rows(record)


def _budget_rows(record: RunRecord) -> Rows:
    """Of a run with a budget: what else it was spent on than on steps."""
    training = record.config.get("training")
    budget = training.get("budget") if isinstance(training, dict) else None
    if not budget:
        return []
    vectors = f"{show_duration(record.embeddings.seconds)} for word vectors, " if record.embeddings else ""
    return [
        ("budget", f"{budget}: {show_duration(record.seconds)} for steps, {vectors}the rest for timing and evaluations")
    ]


def _sweep_rows(record: RunRecord) -> Rows:
    """Every combination of settings that was tried, the best first."""
    rows = [("tried", "held-out loss")] if record.sweep else []
    for one in sorted(record.sweep, key=lambda one: (not one.chosen, one.loss)):
        shown = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in one.settings.items()
        )
        chosen = "  chosen" if one.chosen else ""
        rows.append((f"  {shown}", f"{one.loss:.4f}  {one.steps:,} steps  {show_duration(one.seconds)}{chosen}"))
    return rows


def task_rows(record: RunRecord, task: TaskRecord) -> Rows:
    """A fine-tuned run; of several trainings one row each."""
    rows = [("task", record.recipe), ("base", str(record.base)), ("status", record.status)]
    if task.teacher is not None:
        rows.append(("teacher", task.teacher))
    if not record.finished:
        return rows
    rows += [(f"dev {name.replace('_', ' ')}", f"{value:.4f}") for name, value in record.metrics.items()]
    if task.interval is not None:
        rows.append(
            (f"{task.interval.metric.replace('_', ' ')}, 95 %", f"{task.interval.low:.4f} to {task.interval.high:.4f}")
        )
    rows += _candidate_rows(task)
    if task.chosen is not None and task.chosen.curve is not None:
        rows.append(("more labels", show_curve(task.chosen.curve)))
    rows += [] if task.chosen is None else label_rows(task.chosen.by_label, *judged_part(task))
    rows += _training_rows(task)
    if task.tuned_base is not None:
        before, after = (side.get("loss") for side in (task.tuned_base.before, task.tuned_base.after))
        if before is not None and after is not None:
            rows.append(("base on the task's text", f"held-out loss {before:.4f} before, {after:.4f} after"))
    rows += [
        (f"layers at the {place}", f"{' '.join(f'{weight:.3f}' for weight in mix.weights)}, γ {mix.gamma:.3f}")
        for place, mix in task.mixes.items()
    ]
    rows += [(name.replace("_", " "), value) for name, value in record.notes.items()]
    rows += [("parameters", show_count(record.parameters)), ("training", show_duration(record.seconds))]
    return rows


def _candidate_rows(task: TaskRecord) -> Rows:
    """What was tried: score, seconds, what was chosen, what was left out and why."""
    if task.chosen is None or not task.chosen.candidates:
        return []
    rows = [
        ("tried", f"{task.metric.replace('_', ' ')} {'on dev' if task.interval is not None else 'in cross-validation'}")
    ]
    for one in task.chosen.candidates:
        spread = "" if one.deviation is None else f" ± {one.deviation:.4f}"
        judged = "" if one.examples in (None, task.chosen.examples) else f" on {one.examples:,} examples"
        shown = "" if one.score is None else f"{one.score:.4f}{spread}{judged}  {show_duration(one.seconds)}"
        said = [part for part in (shown, "chosen" if one.chosen else "", one.note) if part]
        rows.append((f"  {one.name}", "  ".join(said)))
    return rows


_MOST_LABELS, _LABEL_WIDTH = 30, 32  # columns of a name


def judged_part(task: TaskRecord) -> tuple[int, int]:
    """How many of the examples have judged what was chosen, where these are not all; else nothing of nothing."""
    chosen = task.chosen
    kept = next((one for one in chosen.candidates if one.chosen), None) if chosen is not None else None
    if chosen is None or kept is None or kept.examples in (None, chosen.examples):
        return 0, 0
    return kept.examples or 0, chosen.examples


def label_rows(by_label: Mapping[str, LabelScore], judged: int = 0, total: int = 0) -> Rows:
    """Precision, recall and F1 of each class or type of entity, the rarest first; of the ``judged`` examples of ``total``."""
    if not by_label:
        return []
    from firth.tasks.checking import fit_width

    rows = [("by label", "precision  recall  F1      true  guessed")]
    for label, one in sorted(by_label.items(), key=lambda item: (item[1].true, item[0]))[:_MOST_LABELS]:
        scores = f"{one.precision:<9.3f}  {one.recall:<6.3f}  {one.f1:<6.3f}"
        rows.append((f"  {fit_width(label, _LABEL_WIDTH).rstrip()}", f"{scores}  {one.true:>4,}  {one.guessed:>7,}"))
    if len(by_label) > _MOST_LABELS:
        rows.append(("  …", f"{len(by_label) - _MOST_LABELS} more"))
    if total:
        rows.append(("", f"on {judged:,} of {total:,} examples: there was no time for more"))
    return rows


_MEANINGFUL = 20  # examples that are judged


def label_warnings(
    by_label: Mapping[str, LabelScore], learned: bool = False, judged: int = 0, total: int = 0, dev: bool = False
) -> list[str]:
    """Classes that are never predicted; ``learned``: and scores of so few examples that they mean little. ``judged``: not more
    of all examples; ``dev``: they are from a file of their own."""
    num, warnings = sum(one.true for one in by_label.values()), []
    if learned and 0 < num < _MEANINGFUL:
        of_all = f" of {total:,}" if total else ""
        remedy = "label at least 10 of each label"
        if total >= _MEANINGFUL:
            remedy = "name a longer --budget, or --folds to judge all of them"
        elif dev:
            remedy = "label more for --dev, at least 10 of each label"
        warnings.append(f"warning: only {num}{of_all} examples were judged, so the scores mean little: {remedy}")
    for label, one in by_label.items():
        if one.true and not one.guessed:
            have = "1 example has" if one.true == 1 else f"{one.true:,} examples have"
            where = f" among the {judged:,} of {total:,} examples that were judged" if total else ""
            remedy = (
                "a longer --budget or --folds judges more" if total else "label more of it, or join it with another"
            )
            warnings.append(f"warning: '{label}' is never predicted{where}, but {have} it: {remedy}")
    return warnings


def _training_rows(task: TaskRecord) -> Rows:
    """Trainings with different seeds or settings, and the mean for each share of the examples."""
    rows: Rows = []
    if task.spread is not None and task.chosen is not None:
        found = task.spread
        rows.append(("over trainings", f"{found.mean:.4f} ± {found.deviation:.4f} ({found.count})"))
        for result in task.results:
            if result.share == task.chosen.share:
                settings = result.settings.model_dump() | result.point
                if task.grid and not result.point:
                    kept = next((one.name for one in result.candidates if one.chosen), "")
                    rows.append(("  not tuned", f"{result.score:.4f}  {kept}"))
                    continue
                shown = ", ".join(
                    f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
                    for name, value in settings.items()
                )
                rows.append((f"  seed {result.seed}", f"{result.score:.4f}  {shown}"))
    return rows + [
        (f"  {100 * point.share:g} % ({point.examples:,})", f"{point.mean:.4f} ± {point.deviation:.4f}")
        for point in task.efficiency
    ]


def export_rows(record: RunRecord, export: ExportRecord) -> Rows:
    """An exported model and its comparison with the original."""
    rows = [
        ("exported from", export.source),
        ("weights", "int8" if export.int8 else "float32"),
        ("parameters", show_count(record.parameters)),
    ]
    found = {} if export.verified is None else export.verified.model_dump(exclude_none=True)
    before, after = found.pop("before", {}), found.pop("after", {})
    rows += [
        (name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else str(value))
        for name, value in found.items()
    ]
    return rows + [
        (name.replace("_", " "), f"{value:.4f} before, {after[name]:.4f} after")
        for name, value in before.items()
        if name in after
    ]


def plan_rows(found: dict[str, float]) -> Rows:
    return [
        ("parameters", show_count(found["parameters"])),
        ("speed", f"{show_count(found['tokens_per_s'])} tokens/s, {found['step_s']:.3f} s per step"),
        ("steps", f"{found['steps']:,.0f}"),
        ("tokens", f"{show_count(found['tokens'])} ({found['epochs']:.2f} epochs of the corpus)"),
        ("memory", show_bytes(found["memory_bytes"])),
        ("disk", f"{show_bytes(found['disk_bytes'])} with checkpoints"),
    ]


def describe(path: Path) -> tuple[str, Rows, PlainData]:
    """(kind, rows of the table, data for JSON)."""
    if not path.exists():
        raise FirthError(f"{path}: no such corpus, run or model; check the path")
    if (path / "corpus.json").is_file():
        from firth.corpus.images import ImageCorpus, is_image_corpus
        from firth.corpus.pairs import corpus_info

        if is_image_corpus(path):
            images = ImageCorpus.open(path).info
            return "a corpus of images, files whole", images_rows(images), images.model_dump()
        info = corpus_info(path)
        if info.kind == "pairs":
            return "a corpus of sentence pairs, files whole", pairs_rows(info), info.model_dump()
        return f"a corpus of {info.tokens.kind}, files whole", corpus_rows(info), info.model_dump()
    if (path / "index.json").is_file():
        from firth.api.searching import index_facts

        facts = index_facts(path)
        rows = [(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts.items()]
        return "a search index, files whole", rows, facts
    run = Run.find(path)
    if run is not None:
        record = run.record
        check_files(path, record.checksums, "train it again, or copy it again from where it was whole")
        whole = ", files whole" if record.checksums else ""
        return f"a run{whole}", run_rows(record), record.model_dump(mode="json")
    from firth.api.using import model_facts
    from firth.reports.card import show_fact

    found = model_facts(path)
    if found is not None:
        name, facts = found
        rows = [(key.replace("_", " "), show_fact(value)) for key, value in facts.items()]
        return f"a model: {name}", rows, {"model": name, **facts}
    raise FirthError(
        f"{path}: neither a corpus (corpus.json) nor a run (firth.json) nor a model (config.json); check the path"
    )


def corpus_rows(info: CorpusInfo) -> Rows:
    tokens = info.train.tokens + info.heldout.tokens
    size = info.train.bytes + info.heldout.bytes
    rows = [
        ("text", f"{show_bytes(size)} from {len(info.sources)} file{'s' if len(info.sources) > 1 else ''}"),
        *_layout_rows(info),
        ("documents", f"{info.train.documents:,} for training, {info.heldout.documents:,} held out"),
        ("sentences", f"{info.train.sentences + info.heldout.sentences:,}"),
        ("tokens", f"{show_count(tokens)} ({size / max(tokens, 1):.2f} bytes per token)"),
        ("types", f"{info.vocab_size:,} {info.tokens.kind}"),
    ]
    if info.tokens.kind != "words":
        rows.append(("unknown", f"{(info.train.unknown + info.heldout.unknown) / max(tokens, 1):.3%} of tokens"))
    rows += _normal_rows(info)
    if info.duplicates_removed is not None:
        rows.append(("duplicates", f"{info.duplicates_removed:,} documents dropped"))
    return rows


def _layout_rows(info: CorpusInfo) -> Rows:
    """What was taken for a document in text files, and how to say it."""
    named = {
        "line": "a document a line",
        "file": "a document a file",
        "blank": "a sentence a line, documents between empty lines",
    }
    several = len(info.layouts) > 1
    found = [
        f"{named.get(layout, layout)}{f' ({count:,} files)' if several else ''}"
        for layout, count in info.layouts.items()
    ]
    choice = " (--layout line, file or blank chooses)" if info.reading.layout == "auto" else ""
    return [("layout", f"{', '.join(found)}{choice}")] if found else []


def _normal_rows(info: CorpusInfo) -> Rows:
    """What was done to letters and words, and what of the text is lost by it."""
    case = "case folded" if info.tokens.lowercase else "case kept"
    rows = [("letters", f"{case}, marks {'stripped as in BERT' if info.tokens.strip_accents else 'kept'}")]
    if info.unsegmented:
        ways = ", ".join(f"{script} by {way}" for script, way in info.unsegmented.items())
        rows.append(("words", f"{ways}; spaces elsewhere"))
    if info.dictionary:
        rows.append(("dictionary", f"{info.dictionary:,} words of yours, kept whole in Chinese"))
    if info.simplified:
        rows.append(("traditional", "Chinese words are looked up by simplified characters"))
    if info.loss is not None:
        rows.append(("lost", _lost(info.loss)))
    return rows + [("warning", warning) for warning in info.warnings]


def _lost(loss: LossInfo) -> str:
    sample = f"of {loss.characters:,} characters compared"
    if not loss.lost:
        return f"nothing {sample}"
    form = " (only their form)" if loss.lost == loss.form_only else ""
    return f"{loss.share:.3%} {sample}{form}: {loss.shown()}"


def pairs_rows(info: PairsInfo) -> Rows:
    left = sum(info.left_out.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in info.left_out.items() if count)
    tokens = (info.train.source_tokens, info.train.target_tokens)
    sizes = f"{info.vocab_size:,} and {info.target_vocab_size:,}" if info.separate else f"{info.vocab_size:,} shared"
    unknown = (info.train.unknown + info.heldout.unknown) / max(
        sum(tokens) + info.heldout.source_tokens + info.heldout.target_tokens, 1
    )
    return [
        ("pairs", f"{info.train.pairs:,} for training, {info.heldout.pairs:,} held out"),
        ("left out", f"{left:,}{f' ({reasons})' if left else ''}"),
        ("tokens", f"{show_count(tokens[0])} and {show_count(tokens[1])}"),
        ("types", f"{sizes} {info.tokens.kind}"),
        ("unknown", f"{unknown:.3%} of tokens"),
        *((f"{side} lost", _lost(loss)) for side, loss in info.loss.items()),
        *(("warning", warning) for warning in info.warnings),
    ]


def images_rows(info: ImagesInfo) -> Rows:
    rows = [
        ("images", f"{info.train.images:,} for training, {info.heldout.images:,} held out"),
        ("size", f"{info.image_size} x {info.image_size}, {info.num_channels} channels"),
        ("labels", f"{len(info.labels)}"),
    ]
    return rows + ([("skipped", f"{len(info.skipped):,} that could not be read")] if info.skipped else [])
