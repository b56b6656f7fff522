"""Raw text to a prepared corpus: ``prepare`` and ``prepare_pairs``."""

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
    """Tokenizes raw text into a corpus for pre-training.

    Args:
        inputs: Files, folders or globs: txt, jsonl, csv, tsv, parquet, also compressed.
        out: The new corpus folder.
        tokens: ``wordpiece``, ``bpe``, ``unigram``, ``words`` or ``characters``.
        vocab_size: The number of subwords to learn; with ``words`` every word is kept.
        lowercase: Whether to fold case.
        strip_accents: For ``wordpiece``: whether to strip accents and other marks, as uncased BERT does (über becomes uber).
        byte_fallback: Whether to encode unknown words as bytes.
        word_split: For ``words``: ``words`` segments the text, ``whitespace`` splits at white space only.
        tokenizer: A tokenizer to use instead of learning one.
        format: ``txt``, ``jsonl``, ``csv``, ``tsv`` or ``parquet``; ``auto`` decides by the file name.
        layout: Of txt: ``file`` (one document), ``blank`` (blank lines between documents), ``line`` (a document per line).
        column: The column or key that holds the text.
        encoding: The encoding of the files.
        heldout: The share of documents that is held out; by default 0.01, or 0.05 below 20 MB.
        deduplicate: Whether to drop repeated documents.
        workers: Processes; by default one per core. The result does not depend on it.
        overwrite: Whether to replace an existing corpus.
        progress: Called with progress events.

    Returns:
        The description of the corpus: tokens, splits and their sizes.

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
    """Tokenizes parallel text into a corpus of sentence pairs for translation models.

    Args:
        inputs: Two files whose lines belong together, or tsv, jsonl or tmx files.
        out: The new corpus folder.
        dev: Files of held-out pairs, in the same format.
        tokens: ``bpe``, ``unigram`` or ``wordpiece``.
        vocab_size: The number of subwords to learn.
        lowercase: Whether to fold case.
        byte_fallback: For unigram: whether to encode unknown characters as bytes.
        separate: Whether each language has its own vocabulary.
        tokenizer: A tokenizer to use instead of learning one.
        source: The column, key or language of the source.
        target: The column, key or language of the target.
        encoding: The encoding of the files.
        heldout: The share of pairs that is held out; 0.02 without ``dev``.
        max_len: Drop longer sentences (in tokens).
        max_ratio: Drop pairs whose lengths differ by more than this factor.
        overwrite: Whether to replace an existing corpus.
        progress: Called with progress events.

    Returns:
        The description of the corpus: languages, tokens, splits and their sizes.

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
