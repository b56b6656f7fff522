"""Static vectors: recipe and corpus put together into a run, with a picture of its words."""

import html
from pathlib import Path

import numpy as np

from firth.core.errors import FirthError
from firth.core.files import checksum, write_text
from firth.core.registry import find_spec
from firth.core.run import Run
from firth.core.types import Progress
from firth.core.units import show_count, show_duration
from firth.corpus.format import Corpus
from firth.reports.charts import principal_plane
from firth.reports.page import cards, page, settings_table
from firth.vectors.configs import AnyVectorsConfig, FastTextConfig, GloveConfig, Word2VecConfig
from firth.vectors.trainer import load_run, train_vectors
from firth.vectors.word_vectors import WordVectors

_SHOWN = 120
_PUBLISHED = ("vectors.bin", "model.bin", "state.safetensors")


def start_vectors(
    name: str,
    config: AnyVectorsConfig,
    corpus: Path,
    out: Path,
    base: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Run:
    """A new run; with ``base`` it goes on from an older run of the same kind, with a grown vocabulary."""
    opened = Corpus.open(corpus)
    if opened.info.tokens.kind != "words":
        raise FirthError(f"{corpus}: a corpus of {opened.info.tokens.kind}; static vectors need --tokens words")
    train_vectors(opened, config, out, progress, start=base, recipe=name, overwrite=overwrite)
    return _finish(out)


def resume_vectors(run: Run, progress: Progress | None = None) -> Run:
    """Goes on with a run that was stopped."""
    record = run.record
    if record.finished:
        return run if record.checksums else _finish(run.folder)  # stopped before its report
    settings = find_spec(record.model).vectors
    assert settings is not None
    assert record.corpus is not None
    config = settings.build(record.config, run.path)
    assert isinstance(config, Word2VecConfig | FastTextConfig | GloveConfig)
    start = None if record.base is None else Path(record.base)
    train_vectors(Corpus.open(record.corpus.path), config, run.folder, progress, True, start, record.recipe)
    return _finish(run.folder)


def _finish(folder: Path) -> Run:
    run = Run.open(folder)
    vectors = load_run(folder)
    chosen = list(vectors.words[: 4 * _SHOWN])
    words = [word for word in chosen if word.isalpha()][:_SHOWN] or chosen[:_SHOWN]
    write_text(folder / "report.html", _report(run, vectors, words))
    run.save(checksums={path.name: checksum(path) for name in _PUBLISHED if (path := folder / name).is_file()})
    return run


def word_map(vectors: WordVectors, words: list[str]) -> str:
    """Words in the plane of the two directions in which they differ most, as SVG."""
    rows = vectors.vectors(words)
    places = principal_plane(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
    low, high = places.min(0), places.max(0)
    scaled = (places - low) / np.maximum(high - low, 1e-12) * [640, 400] + [40, 20]
    texts = [
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{html.escape(word)}</text>'
        for word, (x, y) in zip(words, scaled.tolist(), strict=True)
    ]
    return f'<svg viewBox="0 0 720 440" role="img" aria-label="words near each other">{"".join(texts)}</svg>'


def _neighbours(vectors: WordVectors, words: list[str]) -> str:
    found = vectors.nearest(words, 6) if words else []
    rows = [
        f"<tr><td><b>{html.escape(word)}</b></td><td>{html.escape(', '.join(other for other, _ in near))}</td></tr>"
        for word, near in zip(words, found, strict=True)
    ]
    return f"<table>{''.join(rows)}</table>"


def _report(run: Run, vectors: WordVectors, words: list[str]) -> str:
    record = run.record
    shown = {
        "words": f"{len(vectors):,}",
        "dimensions": str(vectors.dim),
        "time": show_duration(record.seconds),
        "words/s": show_count(record.tokens / max(record.seconds, 1e-9)),
    }
    body = (
        f'<p class="soft">Firth run</p><h1>{html.escape(run.folder.name)}</h1>'
        f'<p class="soft">recipe {html.escape(record.recipe)}</p>{cards(shown)}'
        f"<h2>Frequent words, near what they resemble</h2><figure>{word_map(vectors, words)}</figure>"
        f'<h2>Neighbours</h2><div class="wide">{_neighbours(vectors, words[20:32] or words)}</div>'
        f"{settings_table(record)}"
    )
    return page(f"{run.folder.name} · Firth", body)
