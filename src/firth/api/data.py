"""From raw text to a corpus: ``prepare`` and ``prepare_pairs``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import AnyPath, as_paths, optional_path
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo
    from firth.corpus.pairs import PairsInfo


def prepare(
    inputs: AnyPath | Sequence[AnyPath],
    out: AnyPath,
    *,
    tokens: str = "wordpiece",
    vocab_size: int = 8000,
    lowercase: bool = True,
    strip_accents: bool = False,
    byte_fallback: bool = False,
    word_split: str = "words",
    tokenizer: AnyPath | None = None,
    format: str = "auto",
    layout: str = "auto",
    column: str = "text",
    encoding: str = "utf-8",
    heldout: float | None = None,
    deduplicate: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> CorpusInfo:
    """Turns raw text into a corpus that every model trains on.

    Args:
        inputs: Files, folders or globs: txt, jsonl, csv, tsv, parquet, also compressed.
        out: The corpus folder to make.
        tokens: ``wordpiece``, ``bpe``, ``unigram``, ``words`` or ``characters``.
        vocab_size: Pieces to learn; of words all are kept.
        lowercase: Whether case is folded.
        strip_accents: For wordpiece: whether marks are taken off letters, as BERT does (über becomes uber). Changes words.
        byte_fallback: Whether unknown words are spelled in bytes.
        word_split: For words: ``words`` finds them, ``whitespace`` takes the text as split already.
        tokenizer: A tokenizer to use instead of learning one.
        format: ``txt``, ``jsonl``, ``csv``, ``tsv`` or ``parquet``; ``auto`` goes by the name.
        layout: Of txt: ``file`` (one document), ``blank`` (blank lines between documents), ``line`` (a document per line).
        column: The column or key that holds the text.
        encoding: The encoding of the files.
        heldout: The share of documents kept for testing; by default 0.01, or 0.05 below 20 MB.
        deduplicate: Whether documents that were there before are left out.
        workers: Processes; by default one per core. The result does not depend on it.
        overwrite: Whether a corpus that exists is replaced.
        progress: Called with events on the way.

    Example::

        firth.prepare("news.txt", "corpora/news", vocab_size=8000)
    """
    from firth.core.registry import TokensConfig
    from firth.corpus.prepare import prepare as run
    from firth.data.readers import ReadingConfig

    chosen = TokensConfig.build(
        {
            "kind": tokens,
            "vocab_size": vocab_size,
            "lowercase": lowercase,
            "strip_accents": strip_accents,
            "byte_fallback": byte_fallback,
            "word_split": word_split,
        },
        "tokens",
    )
    reading = {"format": format, "layout": layout, "column": column, "encoding": encoding}
    return run(
        as_paths(inputs),
        Path(out),
        chosen,
        ReadingConfig.build(reading, "reading"),
        optional_path(tokenizer),
        heldout,
        deduplicate,
        workers,
        overwrite,
        progress,
    )


def prepare_pairs(
    inputs: AnyPath | Sequence[AnyPath],
    out: AnyPath,
    *,
    dev: AnyPath | Sequence[AnyPath] = (),
    tokens: str = "bpe",
    vocab_size: int = 8000,
    lowercase: bool = False,
    byte_fallback: bool = False,
    separate: bool = False,
    tokenizer: AnyPath | None = None,
    source: str | None = None,
    target: str | None = None,
    encoding: str = "utf-8",
    heldout: float | None = None,
    max_len: int = 250,
    max_ratio: float = 5.0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PairsInfo:
    """Turns parallel text into a corpus of sentence pairs that translators train on.

    Args:
        inputs: Two files whose lines belong together, or tsv, jsonl or tmx files.
        out: The corpus folder to make.
        dev: Files for testing, in the same form.
        tokens: ``bpe``, ``unigram`` or ``wordpiece``.
        vocab_size: Pieces to learn.
        lowercase: Whether case is folded.
        byte_fallback: For unigram: whether unknown characters are spelled in bytes.
        separate: Whether each side has a vocabulary of its own.
        tokenizer: A tokenizer to use instead of learning one.
        source: The column, key or language of the source.
        target: The column, key or language of the target.
        encoding: The encoding of the files.
        heldout: The share of pairs kept for testing; 0.02 without ``dev``.
        max_len: Longer sentences (in tokens) are left out.
        max_ratio: Pairs whose lengths differ more are left out.
        overwrite: Whether a corpus that exists is replaced.
        progress: Called with events on the way.

    Example::

        firth.prepare_pairs(["train.en", "train.de"], "corpora/ende")
    """
    from firth.core.registry import TokensConfig
    from firth.corpus.prepare_pairs import PairFilters
    from firth.corpus.prepare_pairs import prepare_pairs as run
    from firth.data.parallel import PairsReadingConfig

    chosen = {"kind": tokens, "vocab_size": vocab_size, "lowercase": lowercase, "byte_fallback": byte_fallback}
    return run(
        as_paths(inputs),
        Path(out),
        TokensConfig.build(chosen, "tokens"),
        PairsReadingConfig.build({"source": source, "target": target, "encoding": encoding}, "reading"),
        as_paths(dev),
        optional_path(tokenizer),
        separate,
        heldout,
        PairFilters.build({"max_len": max_len, "max_ratio": max_ratio}, "filters"),
        overwrite,
        progress,
    )
