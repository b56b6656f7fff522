"""Corpora and runs in a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.core.errors import FirthError
from firth.core.files import check_files
from firth.core.units import show_bytes, show_count, show_duration

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo
    from firth.corpus.pairs import PairsInfo

Rows = list[tuple[str, str]]


def corpus_rows(info: CorpusInfo) -> Rows:
    tokens = info.train.tokens + info.heldout.tokens
    size = info.train.bytes + info.heldout.bytes
    rows = [
        ("text", f"{show_bytes(size)} from {len(info.sources)} file{'s' if len(info.sources) > 1 else ''}"),
        ("documents", f"{info.train.documents:,} for training, {info.heldout.documents:,} held out"),
        ("sentences", f"{info.train.sentences + info.heldout.sentences:,}"),
        ("tokens", f"{show_count(tokens)} ({size / max(tokens, 1):.2f} bytes a token)"),
        ("types", f"{info.vocab_size:,} {info.tokens.kind}"),
    ]
    if info.tokens.kind != "words":
        rows.append(("unknown", f"{(info.train.unknown + info.heldout.unknown) / max(tokens, 1):.3%} of tokens"))
    if info.duplicates_removed is not None:
        rows.append(("duplicates", f"{info.duplicates_removed:,} documents left out"))
    return rows


def pairs_rows(info: PairsInfo) -> Rows:
    left = sum(info.left_out.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in info.left_out.items() if count)
    tokens = (info.train.source_tokens, info.train.target_tokens)
    sizes = f"{info.vocab_size:,} and {info.target_vocab_size:,}" if info.separate else f"{info.vocab_size:,} shared"
    return [
        ("pairs", f"{info.train.pairs:,} for training, {info.heldout.pairs:,} held out"),
        ("left out", f"{left:,}{f' ({reasons})' if left else ''}"),
        ("tokens", f"{show_count(tokens[0])} and {show_count(tokens[1])}"),
        ("types", f"{sizes} {info.tokens.kind}"),
    ]


def word_rows(scores: dict[str, Any]) -> Rows:
    """Similarity and analogy files, a line each; sections of analogies below."""
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


def _vector_rows(facts: dict[str, Any]) -> Rows:
    rows = [("recipe", facts["recipe"]), ("status", facts["status"])]
    if facts["status"] == "finished":
        rows.append(("words", f"{facts['words']:,} of {facts['config']['dim']} dimensions"))
        rows += [(name.replace("_", " "), f"{value:,.4g}") for name, value in facts["metrics"].items()]
    return rows


def task_rows(facts: dict[str, Any]) -> Rows:
    """A fine-tuned run in a few lines; several trainings a line each."""
    rows = [("task", facts["recipe"]), ("base", str(facts["base"])), ("status", facts["status"])]
    if facts.get("teacher"):
        rows.append(("teacher", facts["teacher"]))
    if facts["status"] != "finished":
        return rows
    metric = facts.get("metric", "")
    rows += [(f"dev {name.replace('_', ' ')}", f"{value:.4f}") for name, value in facts["metrics"].items()]
    if "interval" in facts:
        found = facts["interval"]
        rows.append((f"{found['metric']}, 95 %", f"{found['low']:.4f} to {found['high']:.4f}"))
    if "spread" in facts:
        found = facts["spread"]
        rows.append(("over trainings", f"{found['mean']:.4f} ± {found['deviation']:.4f} ({found['count']})"))
        rows += [
            (
                f"  seed {result['seed']}",
                f"{result['scores'][metric]:.4f}  "
                + ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in result["settings"].items()),
            )
            for result in facts["results"]
            if result["share"] == facts["results"][facts["best"]]["share"]
        ]
    rows += [
        (f"  {100 * point['share']:g} % ({point['examples']:,})", f"{point['mean']:.4f} ± {point['deviation']:.4f}")
        for point in facts.get("efficiency", ())
    ]
    if "tuned_base" in facts:
        both = [facts["tuned_base"][side].get("loss") for side in ("before", "after")]
        if None not in both:
            rows.append(("base on the task's text", f"held-out loss {both[0]:.4f} before, {both[1]:.4f} after"))
    rows += [
        (f"layers at the {place}", f"{' '.join(f'{weight:.3f}' for weight in mix['weights'])}, γ {mix['gamma']:.3f}")
        for place, mix in (facts.get("mixes") or {}).items()
    ]
    rows += [("parameters", show_count(facts["parameters"])), ("training", show_duration(facts["seconds"]))]
    return rows


def export_rows(facts: dict[str, Any]) -> Rows:
    """An exported model, and what was found beside its original."""
    rows = [
        ("exported from", facts["source"]),
        ("numbers", "int8" if facts["config"]["int8"] else "float32"),
        ("parameters", show_count(facts["parameters"])),
    ]
    found = dict(facts.get("verified", {}))
    before, after = found.pop("before", {}), found.pop("after", {})
    rows += [
        (name.replace("_", " "), f"{value:.6g}" if isinstance(value, float) else str(value))
        for name, value in found.items()
    ]
    rows += [
        (name.replace("_", " "), f"{value:.4f} before, {after[name]:.4f} after")
        for name, value in before.items()
        if isinstance(value, float)
    ]
    return rows


def run_rows(facts: dict[str, Any]) -> Rows:
    if facts.get("kind") in ("onnx", "ctranslate2"):
        return export_rows(facts)
    if facts.get("kind") == "task":
        return task_rows(facts)
    if facts.get("kind") == "vectors":
        return _vector_rows(facts)
    rows = [("recipe", facts["recipe"]), ("status", facts["status"])]
    if "steps" in facts:
        rows.append(("steps", f"{facts['steps']:,}"))
    if facts["status"] == "finished":
        rows += [
            ("parameters", show_count(facts["parameters"])),
            ("tokens seen", f"{show_count(facts['tokens'])} ({facts['epochs']:.2f} epochs)"),
            (
                "time",
                f"{show_duration(facts['seconds'])} ({show_count(facts['tokens'] / max(facts['seconds'], 1e-9))} tokens/s)",
            ),
        ]
        rows += [(f"held-out {name.replace('_', ' ')}", f"{value:.4f}") for name, value in facts["metrics"].items()]
        rows += [(name.replace("_", " "), value) for name, value in facts.get("notes", {}).items()]
    return rows


def plan_rows(found: dict[str, float]) -> Rows:
    return [
        ("parameters", show_count(found["parameters"])),
        ("speed", f"{show_count(found['tokens_per_s'])} tokens/s, {found['step_s']:.3f} s a step"),
        ("steps", f"{found['steps']:,.0f}"),
        ("tokens", f"{show_count(found['tokens'])} ({found['epochs']:.2f} epochs of the corpus)"),
        ("memory", show_bytes(found["memory_bytes"])),
        ("disk", f"{show_bytes(found['disk_bytes'])} with checkpoints"),
    ]


def describe(path: Path) -> tuple[str, Rows, dict[str, Any]]:
    """(kind, rows for people, facts for programs)."""
    if not path.exists():
        raise FirthError(f"{path}: no such corpus, run or model; check the path")
    if (path / "corpus.json").is_file():
        from firth.corpus.info import corpus_info

        info = corpus_info(path)
        if info.kind == "pairs":
            return "a corpus of sentence pairs, files whole", pairs_rows(info), info.model_dump()
        return f"a corpus of {info.tokens.kind}, files whole", corpus_rows(info), info.model_dump()
    if (path / "firth.json").is_file():
        from firth.core.run import Run

        facts = Run.open(path).facts
        check_files(path, facts.get("checksums", {}), "train it again, or copy it again from where it was whole")
        return f"a run{', files whole' if 'checksums' in facts else ''}", run_rows(facts), facts
    if (path / "options.json").is_file():
        from firth.core.files import read_json

        data = read_json(path / "options.json")
        if not isinstance(data, dict) or not isinstance(data.get("lstm"), dict):
            raise FirthError(f"{path / 'options.json'}: not the options of an ELMo; check the path")
        return "an ELMo", [(name, str(value)) for name, value in data["lstm"].items()], data
    if (path / "config.json").is_file():
        from firth.core.files import read_json

        data = read_json(path / "config.json")
        if not isinstance(data, dict):
            raise FirthError(f"{path / 'config.json'}: not the config of a model; check the path")
        rows = [
            (name, str(data[name]))
            for name in ("model_type", "vocab_size", "hidden_size", "num_hidden_layers")
            if name in data
        ]
        return "a Hugging Face directory", rows or [("config", "empty")], data
    raise FirthError(
        f"{path}: neither a corpus (corpus.json) nor a run (firth.json) nor a model (config.json); check the path"
    )
