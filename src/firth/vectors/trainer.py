"""Training static vectors: from a corpus of words to a run folder.

    train_vectors(corpus, config, out)                  a new run
    train_vectors(corpus, config, out, resume=True)     continues after a kill (same corpus and config)
    train_vectors(corpus, config, out, start=old_run)   continues from a finished run, on other text
    load_run(folder)                                    the WordVectors of a finished run

``config`` is a ``Word2VecConfig``, ``FastTextConfig``, ``GloveConfig`` or that of another ``ModelSpec`` with a learner. The run folder holds
``vectors.bin`` (word2vec format), for fastText ``model.bin`` (fastText's own format), both readable by
gensim and the originals, ``state.safetensors`` (all matrices, to continue from) and ``firth.json``.

**Threads.** With ``reproducible`` (the default) every thread works on a copy of its own and the copies
are merged after every few thousand words in a fixed order: the same seed and number of threads
give the same bytes, also across a kill and a resume, at some cost in speed and in memory (one
copy per thread). Without it all threads write into one matrix without locks (Hogwild, Niu et al. 2011),
which is what word2vec.c, gensim and fastText do: the fastest, and not reproducible. One thread
is reproducible either way, and GloVe always is (threads get disjoint rows). Reproducible is the
default because results that cannot be repeated cannot be compared, and it is still several times
faster than the other programs (see the benchmarks).

**A grown vocabulary.** With ``start`` the new vocabulary is all old words and all words of the new text
that occur ``min_count`` times; old words keep their vectors, counts add up (they decide the
noise), subsampling uses the counts of the new text alone.
"""

import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np

from firth.core.config import usable_cores
from firth.core.errors import FirthError, Interrupted
from firth.core.registry import find_spec
from firth.core.run import CorpusRecord, Run, RunRecord, versions
from firth.core.types import Progress
from firth.corpus.format import Corpus
from firth.tokenizers.segmentation import Segmentation
from firth.training.checkpoints import learning, list_checkpoints, prune, read_state, stop_signals, write_checkpoint
from firth.vectors.binary_formats import map_arrays, save_arrays, write_word2vec
from firth.vectors.configs import MAX_EPOCHS, VectorsConfig
from firth.vectors.formats import load_vectors
from firth.vectors.learners import Learner
from firth.vectors.vocabulary import Vocabulary, grow_vocabulary, view_vocabulary
from firth.vectors.word_vectors import WordVectors

_REPORT_S = 0.5
_MEASURED = 0.1  # of a budget
_STATE = "state.safetensors"


def train_vectors(
    corpus: Corpus,
    config: VectorsConfig,
    out: Path,
    progress: Progress | None = None,
    resume: bool = False,
    start: Path | None = None,
    recipe: str | None = None,
    overwrite: bool = False,
    budget_s: float | None = None,
) -> WordVectors:
    """Trains and writes the run ``out``; ``progress`` gets a ``train`` event twice a second. With ``budget_s`` the number of
    epochs is what fits into that time, measured on the first steps."""
    threads = config.threads or usable_cores()
    config = config.replace(threads=threads)
    if budget_s is not None:
        Run.keep_apart(out, (corpus.folder, *([start] if start else [])), overwrite)
        config = config.replace(epochs=_fitting_epochs(corpus, config, start, out, budget_s))
    record = RunRecord(
        kind="vectors",
        model=config.kind,
        recipe=recipe or config.kind,
        versions=versions() | {"numba": version("numba")},
        config=config.model_dump(mode="json"),
        corpus=CorpusRecord(path=str(corpus.folder.absolute()), fingerprint=corpus.fingerprint),
        base=None if start is None else str(start.absolute()),
        word_split=corpus.info.tokens.word_split,
    )
    Run.keep_apart(out, (corpus.folder, *([start] if start else [])), overwrite and not resume)
    vocabulary, learner = _begin(corpus, config, threads, start, out)
    run = _reopen(out, record) if resume else Run.create(out, record, overwrite)
    begun = lambda: resume or run.record.finished or bool(list_checkpoints(out / "checkpoints"))  # noqa: E731
    with run.lock(), learning(out, resume_advice(out), begun):
        training = _Training(run, learner, config, progress or (lambda event: None))
        loss = training.run_steps()
        run.change(
            metrics={} if loss is None else {"loss": loss},
            seconds=training.seconds,
            tokens=learner.num_tokens,
            epochs=config.epochs,
            words=len(vocabulary),
        )
        if corpus.info.tokens.kind != "words":
            corpus.pieces.save(out)  # texts are cut into the same pieces when the vectors are used
        else:
            Segmentation.load(corpus.folder / "tokenizer").save(out)
        return _finish(run, vocabulary, learner)


def resume_advice(folder: Path) -> str:
    return f"go on with: firth pretrain --resume {folder}"


def load_run(folder: Path) -> WordVectors:
    """The vectors of a finished run (with n-grams where it has them)."""
    run = Run.open(folder)
    if run.record.kind != "vectors":
        raise FirthError(f"{folder}: a run of kind '{run.record.kind}', not one of static vectors")
    if not run.record.finished:
        raise FirthError(f"{folder}: its training did not finish; go on with resume first")
    model = folder / "model.bin"
    return load_vectors(model if model.is_file() else folder / "vectors.bin")


def _begin(
    corpus: Corpus, config: VectorsConfig, threads: int, start: Path | None, out: Path
) -> tuple[Vocabulary, Learner]:
    """The learner before its first step; refuses impossible settings before anything is written."""
    build_learner = find_spec(config.kind).learner()
    if start is None:
        vocabulary = view_vocabulary(corpus, config.min_count, config.max_vocab)
        return vocabulary, build_learner(corpus, vocabulary, config, threads, out)
    if config.counts_first:
        raise FirthError(
            f"{config.kind} learns from counts of the whole text, so it cannot go on from a run: count both texts together"
        )
    old = Run.open(start).record
    if not old.finished or old.kind != "vectors" or old.model != config.kind:
        raise FirthError(f"{start}: not a finished run of {config.kind}, so training cannot go on from it")
    if old.config["dim"] != config.dim:
        raise FirthError(
            f"{start}: its vectors have {old.config['dim']} dimensions, dim says {config.dim}; make them equal"
        )
    words = list(load_vectors(start / "vectors.bin").words)
    arrays, _ = map_arrays(start / _STATE)
    vocabulary, remap = grow_vocabulary(corpus, config.min_count, config.max_vocab, words, np.asarray(arrays["counts"]))
    learner = build_learner(corpus, vocabulary, config, threads, out, remap)
    learner.inherit(words, arrays)
    return vocabulary, learner


def _fitting_epochs(corpus: Corpus, config: VectorsConfig, start: Path | None, out: Path, budget_s: float) -> int:
    """As many as fit into a budget, measured with a learner that is thrown away."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        began = time.perf_counter()
        learner = _begin(corpus, config, config.threads or 1, start, Path(folder))[1]
        again_s = time.perf_counter() - began  # the real one takes as long to begin
        return epochs_within(budget_s - 2 * again_s, learner, config)


def epochs_within(budget_s: float, learner: Learner, config: VectorsConfig) -> int:
    """How many epochs fit into a time, at least one. The first step compiles the kernels and is not counted as usual."""
    begun = time.perf_counter()
    step = 1
    with ThreadPoolExecutor(config.threads) as pool:
        learner.run_step(0, pool)
        started = time.perf_counter()
        while step < learner.num_steps and time.perf_counter() - started < _MEASURED * budget_s:
            learner.run_step(step, pool)
            step += 1
    now = time.perf_counter()
    first, since = (0, begun) if step == 1 else (1, started)
    tokens_per_s = (learner.tokens_before(step) - learner.tokens_before(first)) / max(now - since, 1e-9)
    again_s = started - begun if config.counts_first else 0.0  # it counts once more
    fitting = (budget_s - (now - begun) - again_s) * tokens_per_s * config.epochs / max(learner.num_tokens, 1)
    return max(1, min(int(fitting), MAX_EPOCHS))


def _reopen(out: Path, wanted: RunRecord) -> Run:
    run = Run.open(out)
    known, given = run.record.corpus, wanted.corpus
    if run.record.finished:
        raise FirthError(f"{out}: finished already; nothing to resume")
    if run.record.kind != "vectors" or known is None or given is None:
        raise FirthError(f"{out}: a run of kind '{run.record.kind}', not one of static vectors")
    if known.fingerprint != given.fingerprint:
        raise FirthError(f"{out}: was started on another corpus ({known.path}); resume with that one")
    changed = [name for name, value in wanted.config.items() if run.record.config.get(name) != value]
    if changed:
        raise FirthError(f"{out}: was started with other settings ({', '.join(changed)}); resume with the same ones")
    return run


class _Training:
    """The loop over steps: reports, checkpoints, resuming, stopping."""

    def __init__(self, run: Run, learner: Learner, config: VectorsConfig, progress: Progress) -> None:
        self.run, self.learner, self.config, self.progress = run, learner, config, progress
        self.step, self.seconds = 0, 0.0
        self.checkpoints = run.folder / "checkpoints"
        found = list_checkpoints(self.checkpoints)
        if found:
            self.step, newest = found[-1]
            self.seconds = read_state(newest)["seconds"]
            learner.restore(map_arrays(newest / _STATE)[0])

    def run_steps(self) -> float | None:
        """Trains to the end; the last loss, or none where there was too little text to see one."""
        learner = self.learner
        started = reported = saved = time.perf_counter() - self.seconds
        first_tokens, before = learner.tokens_before(self.step), self.seconds
        loss, count, last = 0.0, 0, float("nan")
        with stop_signals() as stop, ThreadPoolExecutor(self.config.threads) as pool:
            reported = saved = time.perf_counter()
            while self.step < learner.num_steps:
                some_loss, some_count = learner.run_step(self.step, pool)
                self.step += 1
                loss, count = loss + some_loss, count + some_count
                now = time.perf_counter()
                self.seconds = now - started
                done = self.step == learner.num_steps
                if now - reported > _REPORT_S or done:
                    last = loss / count if count else last
                    if not np.isfinite(loss):
                        raise FirthError(
                            f"{self.run.folder}: the loss became NaN or infinite; train with a smaller learning_rate"
                        )
                    tokens = learner.tokens_before(self.step)
                    self.progress(
                        {
                            "event": "train",
                            "step": self.step,
                            "steps": learner.num_steps,
                            "loss": last,
                            "learning_rate": learner.learning_rate(self.step - 1),
                            "tokens": tokens,
                            "tokens_per_s": (tokens - first_tokens) / max(self.seconds - before, 1e-9),
                            "seconds": self.seconds,
                        }
                    )
                    loss, count, reported = 0.0, 0, now
                if not done and (stop or now - saved >= self.config.checkpoint_s):
                    self._save()
                    saved = time.perf_counter()
                if stop and not done:
                    raise Interrupted(f"{self.run.folder}: stopped on request", resume_advice(self.run.folder))
        return last if np.isfinite(last) else None

    def _save(self) -> None:
        """A checkpoint of all matrices; only the newest is kept."""
        arrays = self.learner.arrays()
        write_checkpoint(
            self.checkpoints,
            self.step,
            {"seconds": self.seconds},
            lambda folder: save_arrays(folder / _STATE, arrays),
        )
        prune(self.checkpoints, keep=1)


def _finish(run: Run, vocabulary: Vocabulary, learner: Learner) -> WordVectors:
    """Writes the vectors, then ``firth.json`` as finished, then removes the checkpoints."""
    arrays = learner.arrays()
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise FirthError(f"{run.folder}: the vectors hold NaN or infinity; train with a smaller learning_rate")
    vectors = WordVectors(vocabulary.words, learner.result(), None, None, vocabulary.counts)
    write_word2vec(vectors, run.folder / "vectors.bin")
    save_arrays(run.folder / _STATE, arrays)
    learner.save(run.folder)
    run.save(status="finished")
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
    learner.close()
    return load_run(run.folder)
