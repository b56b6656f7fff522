"""Corpora of text, of sentence pairs and of images as short tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firth.core.config import show_bytes, show_count

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo
    from firth.corpus.images import ImagesInfo
    from firth.corpus.loss import LossInfo
    from firth.corpus.pairs import PairsInfo


Rows = list[tuple[str, str]]


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
