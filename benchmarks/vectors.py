"""Static vectors: Firth beside gensim, fastText and word2vec.c on the same text, and how good each is.

    python benchmarks/vectors.py TEXT                      speed, quality and limits
    python benchmarks/vectors.py TEXT --parts speed --dims 100 --samples 1e-4

TEXT has a document a line, words separated by spaces, best 20 to 60 MB. Speed is raw words of the
text read per second of training alone (reading the text, counting words and making tables are left
out for everybody); the programs take turns, and the median of the repeats is shown with its ratio
to the fastest peer. Quality is measured after the same number of epochs with the same settings.
Peers that are not installed are left out with a word: gensim, fasttext, word2vec (PyPI builds word2vec.c
from it), and Stanford's GloVe, which no package has: name the folder of its programs with --glove.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from firth.core.registry import TokensConfig
from firth.corpus.format import Corpus
from firth.corpus.prepare import prepare
from firth.evaluation.words import score_analogies, score_similarity
from firth.vectors.configs import FastTextConfig, GloveConfig, Word2VecConfig
from firth.vectors.formats import load_vectors
from firth.vectors.glove import GloveLearner
from firth.vectors.learners import WordLearner
from firth.vectors.trainer import train_vectors
from firth.vectors.vocabulary import keep_probabilities, view_vocabulary
from firth.vectors.word_vectors import WordVectors

Job = dict[str, Any]  # architecture, dim, sample, epochs, subwords, seed
Result = tuple[float, WordVectors]  # seconds of training, what came out


PEERS = ["gensim", "fasttext", "word2vec.c"]
_NOTHING = WordVectors([], np.zeros((0, 1), np.float32))
_FASTTEXT = """
import fasttext, json, sys, time
started = time.perf_counter()
model = fasttext.train_unsupervised(**json.loads(sys.argv[1]))
print(time.perf_counter() - started)
if sys.argv[2]:
    words = [word for word in model.get_words() if word != "</s>"]
    with open(sys.argv[2], "w") as out:
        out.write(f"{len(words)} {model.get_dimension()}\\n")
        for word in words:
            out.write(word + " " + " ".join("%.6g" % x for x in model.get_word_vector(word)) + "\\n")
"""


class Bench:
    """The text, the corpus made of it, and one method a program."""

    def __init__(self, text: Path, folder: Path, threads: int, glove: Path | None, peers: list[str]) -> None:
        self.text, self.folder, self.threads, self.glove, self.peers = text, folder, threads, glove, peers
        started = time.perf_counter()
        tokens = TokensConfig(kind="words", word_split="whitespace", lowercase=False)
        prepare([str(text)], folder / "corpus", tokens, heldout=0.0)
        self.prepare_s = time.perf_counter() - started
        self.corpus = Corpus.open(folder / "corpus", verify=False)
        self.words = self.corpus.info.train.tokens
        self.setup_s: dict[Any, float] = {}

    # -- Firth

    def firth(self, job: Job, reproducible: bool = False) -> Result:
        common: dict[str, Any] = {
            "dim": job["dim"], "sample": job["sample"], "epochs": job["epochs"], "architecture": job["architecture"],
            "seed": job["seed"], "threads": self.threads, "reproducible": reproducible,
        }  # fmt: skip
        config = (
            FastTextConfig(**common, learning_rate=job["rate"])
            if job["subwords"]
            else Word2VecConfig(**common, learning_rate=job["rate"])
        )
        vocabulary = view_vocabulary(self.corpus, config.min_count, None)
        learner = WordLearner(self.corpus.train, vocabulary, config, self.threads)
        with ThreadPoolExecutor(self.threads) as pool:
            if (job["subwords"], reproducible) not in self.setup_s:
                spare = WordLearner(self.corpus.train, vocabulary, config.replace(dim=8), self.threads)
                spare.run_step(0, pool)  # compiles
                self.setup_s[job["subwords"], reproducible] = 0.0
            started = time.perf_counter()
            for step in range(learner.num_steps):
                learner.run_step(step, pool)
            seconds = time.perf_counter() - started
        matrix = learner.inputs[:, : config.dim]
        if learner.bags:
            bags = learner.bags
            sums = np.add.reduceat(matrix[bags.rows], bags.starts[:-1], axis=0)
            matrix = sums / np.diff(bags.starts)[:, None].astype(np.float32)
        return seconds, WordVectors(vocabulary.words, np.ascontiguousarray(matrix))

    def firth_reproducible(self, job: Job) -> Result:
        return self.firth(job, reproducible=True)

    # -- peers

    def gensim(self, job: Job) -> Result:
        from gensim.models import FastText, Word2Vec

        make = FastText if job["subwords"] else Word2Vec
        model = make(
            vector_size=job["dim"], window=5, min_count=5, negative=5, sample=job["sample"], alpha=job["rate"],
            sg=int(job["architecture"] == "skipgram"), workers=self.threads, seed=job["seed"] + 1,
        )  # fmt: skip
        model.build_vocab(corpus_file=str(self.text))
        started = time.perf_counter()
        model.train(
            corpus_file=str(self.text),
            total_words=model.corpus_total_words,
            total_examples=model.corpus_count,
            epochs=job["epochs"],
        )
        return time.perf_counter() - started, WordVectors(list(model.wv.index_to_key), model.wv.vectors)

    def fasttext(self, job: Job) -> Result:
        """Its reading cannot be timed apart, so a run of no epochs is subtracted. Each run has a process
        of its own, since one of no epochs spoils the next within the same."""

        def run(epochs: int) -> float:
            settings = {
                "input": str(self.text), "model": "cbow" if job["architecture"] == "cbow" else "skipgram",
                "dim": job["dim"], "ws": 5, "minCount": 5, "neg": 5, "t": job["sample"], "lr": job["rate"],
                "epoch": epochs, "thread": self.threads, "verbose": 0, "maxn": 6 if job["subwords"] else 0,
            }  # fmt: skip
            out = str(self.folder / "fasttext.vec") if job.get("keep") and epochs else ""
            done = subprocess.run(
                [sys.executable, "-c", _FASTTEXT, json.dumps(settings), out], check=True, capture_output=True, text=True
            )
            return float(done.stdout)

        key = ("fasttext", job["dim"], job["subwords"])
        if key not in self.setup_s:
            self.setup_s[key] = run(0)
        seconds = run(job["epochs"]) - self.setup_s[key]
        return seconds, load_vectors(self.folder / "fasttext.vec") if job.get("keep") else _NOTHING

    def word2vec_c(self, job: Job) -> Result:
        """Words are counted once; what is left of its start is timed on a text of one line."""
        program = _program("word2vec")
        vocabulary, out = self.folder / "vocab.txt", self.folder / "c.bin"
        tiny = self.folder / "tiny.txt"
        if not vocabulary.exists():
            tiny.write_text("a b c\n")
            self._c(program, self.text, out, job | {"epochs": 1, "dim": 8}, ["-save-vocab", str(vocabulary)])
        key = ("word2vec_c", job["dim"])
        if key not in self.setup_s:
            self.setup_s[key] = self._c(program, tiny, out, job | {"epochs": 1}, ["-read-vocab", str(vocabulary)])
        seconds = self._c(program, self.text, out, job, ["-read-vocab", str(vocabulary)])
        vectors = load_vectors(out)
        return seconds - self.setup_s[key], vectors

    def _c(self, program: str, text: Path, out: Path, job: Job, more: list[str]) -> float:
        settings = {
            "-train": text, "-output": out, "-size": job["dim"], "-window": 5, "-sample": job["sample"], "-negative": 5,
            "-hs": 0, "-binary": 1, "-cbow": int(job["architecture"] == "cbow"), "-iter": job["epochs"],
            "-threads": self.threads, "-min-count": 5, "-alpha": job["rate"],
        }  # fmt: skip
        started = time.perf_counter()
        subprocess.run(
            [program, *(str(part) for pair in settings.items() for part in pair), *more],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return time.perf_counter() - started

    # -- whole ways

    def whole_firth(self, job: Job) -> float:
        folder = self.folder / "whole"
        shutil.rmtree(folder, ignore_errors=True)
        started = time.perf_counter()
        tokens = TokensConfig(kind="words", word_split="whitespace", lowercase=False)
        prepare([str(self.text)], folder / "corpus", tokens, heldout=0.0)
        config = Word2VecConfig(
            dim=job["dim"], sample=job["sample"], epochs=job["epochs"], architecture=job["architecture"], threads=self.threads
        )  # fmt: skip
        train_vectors(Corpus.open(folder / "corpus"), config, folder / "run")
        return time.perf_counter() - started

    def whole_gensim(self, job: Job) -> float:
        started = time.perf_counter()
        self.gensim(job)
        return time.perf_counter() - started

    def glove_firth(self, dim: int, epochs: int) -> tuple[float, float]:
        """Seconds of counting (with shuffling) and of training."""
        config = GloveConfig(dim=dim, epochs=epochs, threads=self.threads)
        out = self.folder / "glove"
        shutil.rmtree(out, ignore_errors=True)
        learner = GloveLearner(self.corpus, view_vocabulary(self.corpus, 5, None), config, self.threads, out)
        started = time.perf_counter()
        count = len(learner.buckets)
        counted = time.perf_counter()
        with ThreadPoolExecutor(self.threads) as pool:
            for step in range(learner.num_steps):
                learner.run_step(step, pool)
        assert count
        self.cells = learner.num_cells
        return counted - started, time.perf_counter() - counted

    def glove_stanford(self, dim: int, epochs: int) -> tuple[float, float]:
        assert self.glove is not None
        vocabulary, pairs, mixed = (self.folder / name for name in ("g-vocab", "g-pairs", "g-mixed"))
        _piped([str(self.glove / "vocab_count"), "-min-count", "5", "-verbose", "0"], self.text, vocabulary)
        started = time.perf_counter()
        count = [str(self.glove / "cooccur"), "-vocab-file", str(vocabulary), "-window-size", "15", "-verbose", "0"]
        _piped(count, self.text, pairs)
        _piped([str(self.glove / "shuffle"), "-verbose", "0"], pairs, mixed)
        counted = time.perf_counter()
        train = [
            str(self.glove / "glove"), "-input-file", str(mixed), "-vocab-file", str(vocabulary), "-save-file",
            str(self.folder / "g-out"), "-vector-size", str(dim), "-iter", str(epochs), "-threads", str(self.threads),
            "-verbose", "0",
        ]  # fmt: skip
        subprocess.run(train, check=True)
        return counted - started, time.perf_counter() - counted


def _piped(command: list[str], source: Path, goal: Path) -> None:
    with open(source, "rb") as given, open(goal, "wb") as made:
        subprocess.run(command, check=True, stdin=given, stdout=made)


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else str(shutil.which(name))


def find_peers(bench: Bench, subwords: bool) -> dict[str, Callable[[Job], Result]]:
    """The peers that are wanted and here."""
    found: dict[str, Callable[[Job], Result]] = {}
    for name, method in (("gensim", bench.gensim), ("fasttext", bench.fasttext)):
        if importlib.util.find_spec(name):
            found[name] = method
        else:
            print(f"{name} left out: not installed")
    if not subwords:
        if os.path.exists(_program("word2vec")):
            found["word2vec.c"] = bench.word2vec_c
        else:
            print("word2vec.c left out: pip install word2vec builds it")
    return {name: run for name, run in found.items() if name in bench.peers}


def measure_speed(bench: Bench, job: Job, repeats: int) -> dict[str, float]:
    """Words per second by program; the programs take turns."""
    programs = {
        "firth": bench.firth,
        "firth reproducible": bench.firth_reproducible,
        **find_peers(bench, job["subwords"]),
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(repeats):
        for name, run in programs.items():
            times[name].append(run(job)[0])
    rates = {name: bench.words * job["epochs"] / statistics.median(some) for name, some in times.items()}
    best = max((rate for name, rate in rates.items() if not name.startswith("firth")), default=float("nan"))
    kind = "fastText" if job["subwords"] else "word2vec"
    print(f"\n{kind} {job['architecture']} {job['dim']}, sample {job['sample']:g}")
    for name, rate in rates.items():
        note = f"  {rate / rates['firth']:.2f} of the free mode" if name == "firth reproducible" else ""
        spread = f"{min(times[name]):.1f}-{max(times[name]):.1f} s"
        print(f"  {name:20s} {rate / 1e6:7.3f} M words/s  {rate / best:6.2f} x the fastest peer  ({spread}){note}")
    return rates


def measure_quality(bench: Bench, job: Job, similarity: list[Path], analogies: Path, seeds: int) -> None:
    """Scores after equal epochs; Firth's spread over seeds shows what is noise."""
    print(f"\nquality: {job['architecture']} {job['dim']}, {job['epochs']} epochs, sample {job['sample']:g}")
    for name, run in {
        "firth": bench.firth,
        "firth reproducible": bench.firth_reproducible,
        **find_peers(bench, job["subwords"]),
    }.items():
        rows = []
        for seed in range(seeds if name.startswith("firth") else 1):
            vectors = run(job | {"seed": seed, "keep": True})[1]
            scores = [score_similarity(vectors, path).spearman for path in similarity]
            rows.append([*scores, score_analogies(vectors, analogies, limit=30_000).total.accuracy])
        table = np.asarray(rows)
        names = [*(path.stem for path in similarity), analogies.stem]
        shown = "  ".join(
            f"{label} {table[:, place].mean():.3f}"
            + (f" ({table[:, place].min():.3f}-{table[:, place].max():.3f})" if len(table) > 1 else "")
            for place, label in enumerate(names)
        )
        print(f"  {name:20s} {shown}")


@njit(nogil=True)
def triad(x: Any, y: Any, z: Any, first: int, last: int) -> None:
    """STREAM's: two numbers read, one written."""
    for place in range(first, last):
        x[place] = y[place] + np.float32(3.0) * z[place]


def measure_limits(bench: Bench, job: Job, rate: float) -> None:
    """What the kernel reaches of the machine: multiplications against SGEMM, bytes against a triad."""
    size = 2048
    a, b = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    flops = max(2 * size**3 / _timed(lambda: a @ b) for _ in range(5))
    x, y, z = (np.ones(1 << 25, np.float32) for _ in range(3))
    parts = np.linspace(0, len(x), bench.threads + 1).astype(int)

    def both() -> None:
        with ThreadPoolExecutor(bench.threads) as pool:
            list(pool.map(lambda one: triad(x, y, z, parts[one], parts[one + 1]), range(bench.threads)))

    both()  # compiles
    bandwidth = max(3 * x.nbytes / _timed(both) for _ in range(5))
    vocabulary = view_vocabulary(bench.corpus, 5, None)
    kept = (keep_probabilities(vocabulary.counts, job["sample"]) * vocabulary.counts).sum() / bench.words
    centres, neighbours = rate * kept, 6.0  # a window of 5 shrunk at random has 6 places on average
    rows = neighbours + 6
    work = (neighbours if job["architecture"] == "skipgram" else 1) * 6 * job["dim"] * 6
    moved = rows * job["dim"] * 4 * 2
    print(
        f"\nlimits, {job['architecture']} {job['dim']}: {centres * work / 1e9:.1f} GFLOP/s of {flops / 1e9:.0f} (SGEMM): "
        f"{centres * work / flops:.0%}; rows read and written {centres * moved / 1e9:.1f} GB/s of {bandwidth / 1e9:.0f} (triad): "
        f"{centres * moved / bandwidth:.0%}"
    )


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure_glove(bench: Bench, dim: int, epochs: int, repeats: int) -> None:
    ours = [bench.glove_firth(dim, epochs) for _ in range(repeats)]
    count, train = (statistics.median(some) for some in zip(*ours, strict=True))
    cells = bench.cells * epochs / train / 1e6
    print(f"\nGloVe {dim}, window 15, {epochs} iterations, {bench.cells / 1e6:.1f} M cells")
    print(f"  firth     counting {count:.1f} s, training {train:.1f} s ({cells:.2f} M cells/s)")
    if bench.glove is None:
        print("  Stanford's C left out: no package has it; build it and name its folder with --glove")
        return
    theirs = [bench.glove_stanford(dim, epochs) for _ in range(repeats)]
    their_count, their_train = (statistics.median(some) for some in zip(*theirs, strict=True))
    print(
        f"  Stanford  counting {their_count:.1f} s, training {their_train:.1f} s: {(their_count + their_train) / (count + train):.2f} x"
    )


def measure_whole(bench: Bench, job: Job, repeats: int) -> None:
    """From raw text to a file of vectors."""
    ours = statistics.median(bench.whole_firth(job) for _ in range(repeats))
    print(f"\nraw text to vectors, {job['architecture']} {job['dim']}, {job['epochs']} epochs")
    print(f"  firth (prepare, train reproducibly, write) {ours:.1f} s")
    if importlib.util.find_spec("gensim"):
        theirs = statistics.median(bench.whole_gensim(job) for _ in range(repeats))
        print(f"  gensim (count, train) {theirs:.1f} s: {theirs / ours:.2f} x")


def default_file(name: str) -> Path:
    """A file of gensim's test data."""
    found = importlib.util.find_spec("gensim")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "test" / "test_data" / name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--parts", nargs="+", default=["speed", "subwords", "glove", "whole", "quality"])
    parser.add_argument("--architectures", nargs="+", default=["skipgram", "cbow"])
    parser.add_argument("--dims", nargs="+", type=int, default=[100, 300])
    parser.add_argument("--samples", nargs="+", type=float, default=[1e-3, 1e-4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--quality-epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--similarity", nargs="+", type=Path)
    parser.add_argument("--analogies", type=Path)
    parser.add_argument("--peers", nargs="*", default=PEERS, help="none: Firth's two modes alone")
    parser.add_argument("--glove", type=Path, help="folder of Stanford's programs")
    parser.add_argument("--json", type=Path, help="also write the rates here")
    options = parser.parse_args()
    similarity = options.similarity or [default_file("wordsim353.tsv")]
    analogies = options.analogies or default_file("questions-words.txt")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.text, Path(folder), options.threads, options.glove, options.peers)
        print(f"{bench.words / 1e6:.2f} M words, {options.threads} threads, prepared in {bench.prepare_s:.1f} s")
        jobs = [
            {"architecture": architecture, "dim": dim, "sample": sample, "epochs": options.epochs, "subwords": False,
             "seed": 0, "rate": 0.05 if architecture == "cbow" else 0.025}
            for architecture in options.architectures for dim in options.dims for sample in options.samples
        ]  # fmt: skip
        rates = []
        if "speed" in options.parts:
            for job in jobs:
                found = measure_speed(bench, job, options.repeats)
                rates.append({**job, "rates": found})
                measure_limits(bench, job, found["firth"])
        if "subwords" in options.parts:
            for dim in options.dims:
                job = jobs[0] | {"subwords": True, "dim": dim, "architecture": "skipgram", "sample": 1e-4, "rate": 0.05}
                rates.append({**job, "rates": measure_speed(bench, job, options.repeats)})
        if "glove" in options.parts:
            measure_glove(bench, options.dims[0], 15, min(options.repeats, 3))
        if "whole" in options.parts:
            measure_whole(bench, jobs[0] | {"epochs": options.quality_epochs}, 1)
        if "quality" in options.parts:
            for job in (job for job in jobs if job["dim"] == options.dims[0]):
                measure_quality(bench, job | {"epochs": options.quality_epochs}, similarity, analogies, options.seeds)
        if options.json:
            options.json.write_text(json.dumps(rates, indent=2))


if __name__ == "__main__":
    main()
