"""fastText's classifier: Firth beside the original on the same lines: seconds, accuracy, autotune, texts per second.

    python benchmarks/fasttext_classifier.py news=train.tsv,test.tsv reviews=all.jsonl          everything
    python benchmarks/fasttext_classifier.py news=train.tsv,test.tsv --parts speed --threads 1,2 --repeats 5

A set is a name with a labelled file to learn from and one to be tested on; of a single file a quarter is the test. Lines are
shuffled once. Texts are cut into words once, by Firth, and both programs read the same lines, words with spaces between. Seconds are those of the whole
training from lines to model, the programs take turns, and the median is shown; processor seconds stand beside them, because they
tell more on a machine that is busy. The package fasttext must be installed; its Python ``predict`` breaks with NumPy 2, so the object
below it is asked.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import fasttext
import numpy as np

from firth.models.fasttext.classifier import FastTextClassifierConfig, find_split
from firth.models.fasttext.training import Examples, Tuning, fit
from firth.models.shared.static import words_of
from firth.tasks.data import Reading, read_examples, take_share
from firth.vectors.classifier import Classifier, ClassifierConfig, Loss, scan_texts
from firth.vectors.classifier_training import label_texts, train_classifier

LOSSES: dict[Loss, str] = {"softmax": "softmax", "hierarchical": "hs", "negative": "ns", "one_vs_all": "ova"}
Rows = list[tuple[str, str]]  # text, label
SHAPES: dict[str, dict[str, Any]] = {
    "words": {"word_ngrams": 1},
    "words, bigrams": {"word_ngrams": 2},
    "words, characters 2-4": {"word_ngrams": 1, "min_n": 2, "max_n": 4},
}


@dataclass(frozen=True)
class Set:
    name: str
    train: Rows
    test: Rows
    chinese: bool


def read_set(word: str) -> Set:
    name, _, paths = word.partition("=")
    found = [read_examples("classify", Path(path), Reading()) for path in paths.split(",")]
    if len(found) == 1:
        test = take_share(found[0], 0.25, seed=0)
        chosen = {id(example) for example in test}
        found = [[example for example in found[0] if id(example) not in chosen], test]
    texts = [example.text for example in found[0]]
    chinese = find_split(texts) == "words"
    train, test = (
        [(" ".join(words_of(example.text)[0]), str(example.label).replace(" ", "_")) for example in some]
        for some in found
    )
    order = np.random.default_rng(0).permutation(len(train))  # the original learns badly from lines sorted by label
    return Set(name, [train[place] for place in order.tolist()], test, chinese)


class Run(NamedTuple):
    seconds: float
    cpu: float
    model: Any


def timed(job: Callable[[], Any]) -> Run:
    started, cpu = time.perf_counter(), time.process_time()
    found = job()
    return Run(time.perf_counter() - started, time.process_time() - cpu, found)


_ORIGINAL = """
import fasttext, json, sys, time
started, cpu = time.perf_counter(), time.process_time()
model = fasttext.train_supervised(**json.loads(sys.argv[1]))
print(time.perf_counter() - started, time.process_time() - cpu)
model.save_model(sys.argv[2])
"""


def train_original(file: Path, **settings: Any) -> Run:
    """In a process of its own: with fewer than ten threads the original reads memory that nobody has set, which is zero there
    and may be NaN elsewhere."""
    out = file.with_suffix(".bin")
    given = json.dumps({"input": str(file), "verbose": 0, **settings})
    done = subprocess.run(
        [sys.executable, "-c", _ORIGINAL, given, str(out)], capture_output=True, text=True, check=True
    )
    seconds, cpu = map(float, done.stdout.split()[-2:])
    return Run(seconds, cpu, fasttext.load_model(str(out)))


class Programs:
    """Both programs on the lines of one set."""

    def __init__(self, data: Set, folder: Path) -> None:
        self.data, self.file = data, folder / f"{data.name}.txt"
        lines = [f"__label__{label} {text}\n" for text, label in data.train]
        self.file.write_text("".join(lines), encoding="utf-8")

    def firth(self, **settings: Any) -> Classifier:
        rows = [line.split(" ", 1) for line in self.file.read_text(encoding="utf-8").splitlines()]
        scan = scan_texts([row[1] if len(row) > 1 else "" for row in rows])
        texts = label_texts(scan, [[row[0].removeprefix("__label__")] for row in rows])
        return train_classifier(texts, ClassifierConfig(**settings))[0]

    def original(self, **settings: Any) -> Run:
        names = {
            "word_ngrams": "wordNgrams",
            "min_n": "minn",
            "max_n": "maxn",
            "epochs": "epoch",
            "learning_rate": "lr",
            "threads": "thread",
        }
        given = {names.get(name, name): value for name, value in settings.items()}
        if "loss" in given:
            given["loss"] = LOSSES[given["loss"]]
        return train_original(self.file, **given)

    def score(self, guessed: list[str]) -> float:
        return float(np.mean([one == label for one, (_, label) in zip(guessed, self.data.test, strict=True)]))

    def ask_firth(self, model: Classifier) -> list[str]:
        places = model.probabilities([text for text, _ in self.data.test]).argmax(1)
        return [model.labels[place] for place in places.tolist()]

    def ask_original(self, model: Any) -> list[str]:
        found = [model.f.predict(text + "\n", 1, 0.0, "strict") for text, _ in self.data.test]
        return [one[0][1].removeprefix("__label__") if one else "" for one in found]


def speed(programs: Programs, threads: list[int], repeats: int, losses: list[Loss]) -> None:
    print("\n| settings | threads | Firth s | original s | ratio | Firth cpu s | original cpu s | accuracy |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    cases = [(name, shape, "softmax") for name, shape in SHAPES.items()]
    cases += [("words, bigrams", SHAPES["words, bigrams"], loss) for loss in losses if loss != "softmax"]
    programs.firth(epochs=1, threads=1)  # compiled
    for name, shape, loss in cases:
        for count in threads:
            settings = {"epochs": 25, "learning_rate": 0.5, "loss": loss, "threads": count, **shape}
            ours, theirs = [], []
            for _ in range(repeats):
                ours.append(timed(lambda given=settings: programs.firth(**given)))
                theirs.append(programs.original(**settings))
            wall, cpu = ([statistics.median(run[part] for run in side) for side in (ours, theirs)] for part in (0, 1))
            scores = (
                programs.score(programs.ask_firth(ours[-1].model)),
                programs.score(programs.ask_original(theirs[-1].model)),
            )
            print(
                f"| {name}, {loss} | {count} | {wall[0]:.2f} | {wall[1]:.2f} | {wall[1] / wall[0]:.1f}× "
                f"| {cpu[0]:.2f} | {cpu[1]:.2f} | {scores[0]:.4f} / {scores[1]:.4f} |",
                flush=True,
            )


def predict(programs: Programs, repeats: int) -> None:
    settings = {"epochs": 5, "learning_rate": 0.5, "word_ngrams": 2, "threads": 1}
    ours, theirs = programs.firth(**settings), programs.original(**settings).model
    programs.ask_firth(ours)
    times: dict[str, list[float]] = {"Firth": [], "original": []}
    for _ in range(repeats):
        times["Firth"].append(timed(lambda: programs.ask_firth(ours)).cpu)
        times["original"].append(timed(lambda: programs.ask_original(theirs)).cpu)
    rates = {name: len(programs.data.test) / statistics.median(some) for name, some in times.items()}
    shown = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    print(f"\npredict, {len(programs.data.test):,} texts, one thread, texts per processor second: {shown}", flush=True)


def tune(programs: Programs, budget_s: int, threads: int, folder: Path) -> None:
    """Both search on the same held-out fifth of the training lines and are scored on the test."""
    rows = programs.data.train
    random = np.random.default_rng(0).permutation(len(rows))
    held = {int(one) for one in random[: len(rows) // 5]}
    parts = [[row for number, row in enumerate(rows) if (number in held) == side] for side in (False, True)]
    files = [folder / f"{programs.data.name}-{part}.txt" for part in ("search", "dev")]
    for file, part in zip(files, parts, strict=True):
        file.write_text("".join(f"__label__{label} {text}\n" for text, label in part), encoding="utf-8")
    train, dev = (Examples([text for text, _ in part], [label for _, label in part]) for part in parts)
    config = FastTextClassifierConfig(word_split="whitespace", threads=threads).fitted(train.texts, set())
    if programs.data.chinese:
        config = config.replace(min_n=1, max_n=3)
    saved = folder / f"{programs.data.name}-trials.json"
    saved.unlink(missing_ok=True)
    stop = threading.Event()
    tuning = Tuning(train, dev, lambda a, b: float(np.mean(np.asarray(a) == np.asarray(b))), budget_s, saved, stop)
    started = time.perf_counter()
    best, trials = tuning.run(config, {"threads", "word_split"})
    model, _ = fit(train.scanned(best), best, stop)
    ours_s, usual = time.perf_counter() - started, fit(train.scanned(config), config, stop)[0]
    scores = [programs.score(programs.ask_firth(one.classifier)) for one in (usual, model)]
    search = {"autotuneValidationFile": str(files[1]), "autotuneDuration": budget_s}
    found = train_original(files[0], thread=threads, **search)
    plain = train_original(files[0], thread=threads)
    theirs = [programs.score(programs.ask_original(one.model)) for one in (plain, found)]
    print(f"\nautotune {budget_s} s, {threads} threads: accuracy on the test with the defaults, and after the search")
    print(f"Firth    {scores[0]:.4f} → {scores[1]:.4f} ({len(trials)} trials, {ours_s:.0f} s with the last training)")
    print(f"         {best.model_dump(include={'dim', 'word_ngrams', 'min_n', 'max_n', 'epochs', 'learning_rate'})}")
    print(f"original {theirs[0]:.4f} → {theirs[1]:.4f} ({found.seconds:.0f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", help="name=train,test or name=file")
    parser.add_argument("--parts", default="speed,predict,autotune")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--losses", default="hierarchical,negative,one_vs_all")
    parser.add_argument("--budget", type=int, default=60, help="seconds of autotune")
    given = parser.parse_args()
    fasttext.FastText.eprint = lambda *words: None
    threads = [int(one) for one in given.threads.split(",")]
    losses: list[Loss] = [loss for loss in LOSSES if loss in given.losses.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for word in given.sets:
            data = read_set(word)
            labels = len({label for _, label in data.train})
            print(
                f"\n## {data.name}: {len(data.train):,} texts to learn from, {len(data.test):,} to test, {labels} labels"
            )
            programs = Programs(data, Path(folder))
            for part in given.parts.split(","):
                if part == "speed":
                    speed(programs, threads, given.repeats, losses)
                elif part == "predict":
                    predict(programs, given.repeats)
                else:
                    tune(programs, given.budget, max(threads), Path(folder))


if __name__ == "__main__":
    main()
