"""Raw text or images to a prepared corpus: ``prepare``, ``prepare_pairs`` and ``prepare_images``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firth.api.using import AnyPath, as_paths, optional_path
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo
    from firth.corpus.images import ImagesInfo
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
    engine: str = "local",
    address: str | None = None,
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
        engine: ``local``, or ``ray`` for a cluster (``pip install 'firth[cluster]'``); the result is the same.
        address: Of the Ray cluster; without it one is started on this machine.

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
        engine,
        address,
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


def prepare_images(
    images: AnyPath,
    out: AnyPath,
    *,
    dev: AnyPath | None = None,
    image_size: int = 32,
    num_channels: int = 3,
    heldout: float | None = None,
    max_pixels: int = 50_000_000,
    skip_bad: bool = False,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ImagesInfo:
    """Decodes images into a corpus for ``vit`` and ``swin``.

    Args:
        images: A folder with a folder per class, a folder of images without labels, a table (columns ``path`` and ``label``),
            or an npz (``images``, ``labels``).
        out: The new corpus folder.
        dev: Held-out images, given in the same way.
        image_size: The edge to which every image is resized, in pixels.
        num_channels: 3 for colour, 1 for grey.
        heldout: The share of images that is held out; by default 0.05, without ``dev``.
        max_pixels: Larger images are refused before they are decoded.
        skip_bad: Whether to skip images that cannot be read; they are named in ``corpus.json``.
        workers: Threads; by default one per core. The result does not depend on it.
        overwrite: Whether to replace an existing corpus.
        progress: Called with progress events.

    Returns:
        The description of the corpus: size, labels and splits.

    Example::

        firth.prepare_images("photos", "corpora/photos", image_size=64)
    """
    from firth.corpus.images import prepare_images as run

    return run(
        Path(images),
        Path(out),
        image_size,
        num_channels,
        optional_path(dev),
        heldout,
        max_pixels,
        skip_bad,
        workers,
        overwrite,
        progress,
    )
