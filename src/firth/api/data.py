"""Raw text or images to a prepared corpus: ``prepare``, ``prepare_pairs`` and ``prepare_images``; ``tokens`` shows what a text becomes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, TypedDict, cast

from firth.api.using import load
from firth.core.config import AnyPath, as_paths, cluster_for, made_at, optional_path
from firth.core.errors import FirthError
from firth.core.types import Progress

if TYPE_CHECKING:
    from firth.corpus.format import CorpusInfo
    from firth.corpus.images import ImagesInfo
    from firth.corpus.loss import RoundTrip
    from firth.corpus.pairs import PairsInfo
    from firth.models.shared.model import Model
    from firth.tokenizers.new_words import NewWord
    from firth.tokenizers.word_tokens import AnyTokens

_WITHOUT_EFFECT = ("out", "workers", "overwrite", "progress", "engine", "address")  # on what a corpus holds


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
    dictionary: AnyPath | None = None,
    segmenter: str = "auto",
    format: str = "auto",
    layout: str = "auto",
    column: str = "text",
    encoding: str = "utf-8",
    heldout: float | None = None,
    deduplicate: bool = False,
    near_duplicates: float | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
) -> CorpusInfo:
    """Tokenizes raw text into a corpus for pre-training.

    Args:
        inputs: Files, folders or globs: txt, jsonl, csv, tsv, parquet, arrow (folders of ``datasets``), docx, pdf, tar; also compressed.
        out: The new corpus folder.
        tokens: ``wordpiece``, ``bpe``, ``unigram``, ``words`` or ``characters``.
        vocab_size: The number of subwords to learn; with ``words`` every word is kept.
        lowercase: Whether to fold case.
        strip_accents: For ``wordpiece``: whether to strip accents and other marks, as uncased BERT does (über becomes uber).
        byte_fallback: Whether to encode unknown words as bytes.
        word_split: For ``words``: ``words`` segments the text, ``whitespace`` splits at white space only.
        tokenizer: A tokenizer to use instead of learning one.
        dictionary: A file with a word per line that the Chinese segmenter keeps whole. It is stored with the corpus and its models.
        segmenter: For scripts without spaces: ``auto`` takes what is installed (Sudachi, ICU), ``icu`` only ICU, ``none`` none.
        format: ``txt``, ``jsonl``, ``csv``, ``tsv``, ``parquet``, ``arrow``, ``docx``, ``pdf`` or ``tar``; ``auto`` decides by the file name.
        layout: Of txt: ``file`` (one document), ``blank`` (blank lines between documents), ``line`` (a document per line).
        column: The column or key that holds the text.
        encoding: The encoding of the files.
        heldout: The share of documents that is held out; by default 0.01, or 0.05 below 20 MB.
        deduplicate: Whether to drop repeated documents.
        near_duplicates: Drop documents that are at least so similar to an earlier one (0.8, say), by MinHash over sequences
            of nine characters.
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
    given = locals().copy()
    from firth.core.registry import TokensConfig
    from firth.corpus.format import Corpus
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

    def make(folder: Path) -> CorpusInfo:
        return run(
            as_paths(inputs),
            folder,
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
            near_duplicates,
            optional_path(dictionary),
            segmenter,
        )

    return made_at(Path(out), overwrite, lambda: _settings(given), make, lambda folder: Corpus.open(folder).info)


def _settings(given: Mapping[str, object]) -> str:
    """What decides a corpus: the arguments, and size and time of the files that they name."""
    from firth.core.files import fingerprint
    from firth.data.sources import find_sources, stamps

    kept = {name: value for name, value in given.items() if name not in _WITHOUT_EFFECT}
    files: list[object] = []
    for name in ("inputs", "dev", "dictionary"):
        words = as_paths(cast("AnyPath | Sequence[AnyPath]", kept.get(name) or ()))
        if "-" in words:
            return f"standard input at {time_ns()}"  # what comes is not known before
        sources = find_sources(words) if words else []
        files += [[str(one.path.absolute()), stamp] for one, stamp in zip(sources, stamps(sources), strict=True)]
    tokenizer = optional_path(cast("AnyPath | None", kept.get("tokenizer")))
    files.append(None if tokenizer is None else fingerprint(tokenizer))
    return json.dumps([{name: str(value) for name, value in kept.items()}, files], sort_keys=True)


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
    engine: str = "local",
    address: str | None = None,
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
        engine: ``local``, or ``ray`` for a cluster; the result is the same.
        address: Of the Ray cluster; without it one is started on this machine.
        progress: Called with progress events.

    Returns:
        The description of the corpus: languages, tokens, splits and their sizes.

    Example::

        firth.prepare_pairs(["train.en", "train.de"], "corpora/ende")
    """
    given = locals().copy()
    from firth.core.registry import TokensConfig
    from firth.corpus.pairs import PairsCorpus
    from firth.corpus.prepare_pairs import PairFilters
    from firth.corpus.prepare_pairs import prepare_pairs as run
    from firth.data.parallel import PairsReadingConfig

    chosen = {"kind": tokens, "vocab_size": vocab_size, "lowercase": lowercase, "byte_fallback": byte_fallback}

    def make(folder: Path) -> PairsInfo:
        return run(
            as_paths(inputs),
            folder,
            TokensConfig.build(chosen, "tokens"),
            PairsReadingConfig.build({"source": source, "target": target, "encoding": encoding}, "reading"),
            as_paths(dev),
            optional_path(tokenizer),
            separate,
            heldout,
            PairFilters.build({"max_len": max_len, "max_ratio": max_ratio}, "filters"),
            overwrite,
            progress,
            cluster_for(engine, address),
        )

    return made_at(Path(out), overwrite, lambda: _settings(given), make, lambda folder: PairsCorpus.open(folder).info)


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


def new_words(
    source: AnyPath | Sequence[AnyPath],
    *,
    min_count: int = 5,
    max_len: int = 4,
    column: str = "text",
    encoding: str = "utf-8",
) -> list[NewWord]:
    """Proposes words that a Chinese text has and the segmenter does not know, the best first; for ``prepare(dictionary=)``.

    Args:
        source: A corpus, or text files as for ``prepare``.
        min_count: How often a word must occur.
        max_len: The most characters of a word.
        column: The column or key that holds the text of tables.
        encoding: The encoding of the files.

    Example::

        [found.word for found in firth.new_words("corpora/news")[:20]]
    """
    from firth.corpus.format import Corpus
    from firth.data.readers import ReadingConfig, read_documents
    from firth.data.sources import find_sources
    from firth.tokenizers.new_words import propose_words
    from firth.tokenizers.segmentation import PLAIN, Segmentation
    from firth.tokenizers.words import has_han

    if min_count < 2 or not 2 <= max_len <= 8:
        raise FirthError("min_count is at least 2, max_len from 2 to 8: choose others")
    paths = as_paths(source)
    how, seen = PLAIN, False
    if len(paths) == 1 and (Path(paths[0]) / "corpus.json").is_file():
        corpus = Corpus.open(Path(paths[0]))
        how = Segmentation.load(corpus.folder / "tokenizer")
        texts = corpus.texts()
    else:
        reading = ReadingConfig(column=column, encoding=encoding)
        texts = (one.text for one in read_documents(find_sources(paths), reading))

    def noted() -> Iterator[str]:
        nonlocal seen
        for text in texts:
            seen = seen or has_han(text)
            yield text

    found = propose_words(noted(), how, min_count, max_len)
    if not seen:
        raise FirthError(f"{paths[0]}: no Chinese in it, so there are no words to find; name a Chinese text or corpus")
    return found


class Token(TypedDict):
    """A token; ``start`` and ``end`` are its characters in the text. Unknown words of a corpus of words have no id."""

    token: str
    id: int | None
    text: str
    start: int
    end: int
    word: int
    unknown: bool


class TextTokens(TypedDict):
    """A text as a model reads it; ``back`` is what the tokens spell, ``lost`` counts characters that are not in it."""

    text: str
    kind: str
    vocab_size: int
    tokens: list[Token]
    words: list[str]
    unknown: int
    back: str
    lost: int
    examples: list[dict[str, str]]


def tokens(model: AnyPath, text: str) -> TextTokens:
    """Shows the tokens of a text: their ids, places and words, what is unknown and what is lost.

    Args:
        model: A corpus, a run, a model directory, a tokenizer or a file of word vectors.
        text: The text.

    Example::

        firth.tokens("corpora/news", "The café was full.")["tokens"][0]["id"]
    """
    if not text.strip():
        raise FirthError("the text is empty: write some words")
    found, marks = _tokenizer(Path(model))
    return _described(found, text, marks)


def _tokenizer(path: Path) -> tuple[AnyTokens, int]:
    """The tokenizer, and how many marks stand before the words that its owner numbers from 0."""
    from firth.tokenizers.pieces import Pieces
    from firth.tokenizers.segmentation import Segmentation
    from firth.tokenizers.word_tokens import MARKS, WordTokens, load_tokens

    if not path.exists():
        raise FirthError(f"{path}: no such corpus, run or model; check the path")
    if (path / "corpus.json").is_file():
        from firth.corpus.pairs import corpus_info

        rules = corpus_info(path, verify=False).tokens
        if rules.kind != "words":
            return Pieces.load(path / "tokenizer"), 0
        words = (path / "tokenizer" / "words.txt").read_text(encoding="utf-8").split("\n")[:-1]
        how = Segmentation.load(path / "tokenizer")
        return WordTokens(words, rules.lowercase, rules.word_split == "whitespace", how), len(MARKS)
    for folder in (path, path / "base"):
        names = ("words.txt", "tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
        has_vocabulary = (folder / "vocab.txt").is_file() and not (
            folder / "options.json"
        ).is_file()  # ELMo's is of words
        if has_vocabulary or any((folder / name).is_file() for name in names):
            return load_tokens(folder), 0
    if path.name in ("tokenizer.json", "vocab.txt"):
        return Pieces.load(path), 0
    loaded = load(path)
    if "tokens" not in loaded.abilities:
        raise FirthError(
            f"{path}: it reads words letter by letter and has no tokens ({loaded.kind}); name another model"
        )
    return model_tokens(loaded)


def tokens_of(model: Model, text: str) -> TextTokens:
    """The same for a loaded model that has tokens (``tokens`` is among its abilities)."""
    found, marks = model_tokens(model)
    return _described(found, text, marks)


def model_tokens(model: Model) -> tuple[AnyTokens, int]:
    """What cuts texts for a loaded model, and how many marks stand before the words that it numbers from 0."""
    from firth.models.shared.static import StaticModel
    from firth.tokenizers.word_tokens import MARKS

    found = model.tokenizer
    assert found is not None
    base = getattr(model, "base", model)
    return found, len(MARKS) if isinstance(base, StaticModel) and base.pieces is None else 0


def _described(found: AnyTokens, text: str, marks: int) -> TextTokens:
    from firth.corpus.loss import measure_loss, pieces_round_trip
    from firth.tokenizers.pieces import Pieces
    from firth.tokenizers.word_tokens import white_spans

    round_trip: RoundTrip
    if isinstance(found, Pieces):
        encoding, round_trip = found.encode(text, add_special=False, read_special=False), pieces_round_trip(found)
        spans, folded = found.segmentation.split(text), found.lowercase
    else:
        known = found

        def back(parts: list[str]) -> list[str]:
            ids = [known.encode(part).ids.tolist() for part in parts]
            return [known.decode([number for number in one if number != known.unk_id]) for one in ids]

        encoding, round_trip = found.encode(text), back
        spans, folded = white_spans(text) if found.whitespace_only else found.segmentation.split(text), found.lowercase
    rows = [
        Token(
            token=token,
            id=None if marks and number == found.unk_id else number - marks,
            text=text[start:end],
            start=start,
            end=end,
            word=word,
            unknown=number == found.unk_id,
        )
        for token, number, (start, end), word in zip(
            encoding.tokens, encoding.ids.tolist(), encoding.offsets.tolist(), encoding.words.tolist(), strict=True
        )
    ]
    loss = measure_loss([text], round_trip, folded)
    return TextTokens(
        text=text,
        kind=found.kind,
        vocab_size=found.vocab_size - marks,
        tokens=rows,
        words=[text[start:end] for start, end in spans],
        unknown=sum(row["unknown"] for row in rows),
        back=round_trip([text])[0],
        lost=loss.lost,
        examples=[example.model_dump() for example in loss.examples],
    )
