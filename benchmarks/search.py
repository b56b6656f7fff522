"""Search over documents: Firth's index against what people use, on the same documents and questions.

    python benchmarks/search.py quality --model NAME=PATH ... [--cranfield FOLDER] [--squad NAME=FILE ...] [--questions 500]
    python benchmarks/search.py large [--rows 1000000] [--dim 64] [--questions 200]
    python benchmarks/search.py real --texts PATH [--column text] --model PATH [--passage-size 96] [--shares 0.1 1]

quality  nDCG@10, MRR@10 and recall@10 of documents. Firth by words, by vectors (each model) and by both, with the weight that
         it chose by itself; bm25s (Lucene's BM25) and rank_bm25 (Okapi) on whole documents, English words in lower case,
         Chinese by jieba. Cranfield: judgements 1 to 4 count. squad: a question should find its passage.
large    made-up vectors in clusters, added as documents of one word each: processor seconds to build, memory, milliseconds a
         question (p50, p99) and recall@10 against exact search; usearch through Firth, hnswlib and faiss with the same M and ef.
real     documents of a file end to end, a share of them and all: seconds, passages, peak memory, milliseconds a question.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def measures(found: Sequence[Sequence[str]], right: Sequence[set[str]]) -> str:
    from firth.evaluation.words import retrieval_scores

    names = {name: number for number, name in enumerate({one for some in (*found, *right) for one in some})}
    scores = retrieval_scores(
        [[names[one] for one in some] for some in found], [{names[one] for one in some} for some in right]
    )
    return f"{scores['ndcg_at_10']:.4f}   {scores['mrr_at_10']:.4f}   {scores['recall_at_10']:.4f}"


def read_lines(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def cranfield(folder: Path) -> tuple[dict[str, str], list[tuple[str, set[str]]]]:
    documents, questions, judged = (read_lines(next(folder.glob(f"*{kind}*"))) for kind in ("docs", "queries", "qrels"))
    right: dict[str, set[str]] = {}
    for row in judged:
        if 1 <= int(row["position"]) <= 4:
            right.setdefault(str(row["query_num"]), set()).add(str(row["id"]))
    texts = {str(row["id"]): row["body"] for row in documents if row["body"].strip()}
    asked = [(row["query"], right.get(str(row["query number"]), set()) & set(texts)) for row in questions]
    return texts, [(question, some) for question, some in asked if some]


def squad(path: Path, most: int) -> tuple[dict[str, str], list[tuple[str, set[str]]]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as handle:
        data = json.load(handle)["data"]
    texts: dict[str, str] = {}
    asked = []
    for paragraph in (one for article in data for one in article["paragraphs"]):
        name = f"p{len(texts)}"
        texts[name] = paragraph["context"]
        asked += [(one["question"], {name}) for one in paragraph["qas"]]
    stride = max(1, len(asked) // most)
    return texts, asked[::stride]


def peers(texts: dict[str, str], questions: Sequence[str], chinese: bool) -> dict[str, list[list[str]]]:
    """Rankings by bm25s and rank_bm25."""
    import bm25s
    import jieba
    from rank_bm25 import BM25Okapi

    def cut(text: str) -> list[str]:
        words = jieba.lcut(text.lower()) if chinese else text.lower().split()
        return [word for word in words if any(char.isalnum() for char in word)]

    names, cuts = list(texts), [cut(text) for text in texts.values()]
    lucene = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    lucene.index(cuts, show_progress=False)
    okapi = BM25Okapi(cuts)
    found: dict[str, list[list[str]]] = {"bm25s": [], "rank_bm25": []}
    for question in questions:
        places, _ = lucene.retrieve([cut(question)], k=10, show_progress=False)
        found["bm25s"].append([names[int(place)] for place in places[0]])
        scores = okapi.get_scores(cut(question))
        found["rank_bm25"].append([names[place] for place in np.argsort(-scores, kind="stable")[:10].tolist()])
    return found


def quality(arguments: argparse.Namespace) -> None:
    import firth
    from firth.retrieval.search import SearchIndex

    sets = {"cranfield": cranfield(arguments.cranfield)} if arguments.cranfield else {}
    for word in arguments.squad or ():
        name, _, path = word.partition("=")
        sets[name] = squad(Path(path), arguments.questions)
    for name, (texts, asked) in sets.items():
        questions, right = [one for one, _ in asked], [some for _, some in asked]
        chinese = sum("一" <= char <= "鿿" for text in questions for char in text) > len(questions)
        print(f"\n{name}: {len(texts):,} documents, {len(questions):,} questions\n{'':26}nDCG@10  MRR@10   recall@10")
        for peer, found in peers(texts, questions, chinese).items():
            print(f"{peer:<26}{measures(found, right)}")
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.jsonl"
            with open(rows, "w", encoding="utf-8") as handle:
                for key, text in texts.items():
                    handle.write(json.dumps({"key": key, "text": text}) + "\n")
            firth.index(rows, Path(folder) / "words", id="key")
            index = SearchIndex(Path(folder) / "words", firth.load)
            print(f"{'Firth, words':<26}{measures(index.rank(questions), right)}")
            for word in arguments.model:
                model, _, path = word.partition("=")
                firth.index(rows, Path(folder) / model, id="key", model=path)
                index = SearchIndex(Path(folder) / model, firth.load)
                rows_QD = index.encode(questions)
                known = dict(zip(questions, rows_QD, strict=True))
                index._encode = lambda some, known=known: np.stack([known[one] for one in some])
                print(f"{f'Firth, vectors of {model}':<26}{measures(index.rank(questions, mode='vectors'), right)}")
                weight = index.record.weight
                print(
                    f"{f'Firth, both ({weight:.1f})':<26}{measures(index.rank(questions, mode='both'), right)}",
                    flush=True,
                )


# -- many made-up vectors


def made_up(rows: int, dim: int, questions: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around 1,000 centres; questions are drawn alike."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((1000, dim)).astype(np.float32)
    found = centres[random.integers(0, 1000, rows + questions)]
    found += 0.7 * random.standard_normal(found.shape, np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found[:rows], found[rows:]


class MadeUpModel:
    """Vectors by number, as a model of the texts ``p0``, ``p1``, ..., ``q0``, ..."""

    sentence = None

    def __init__(self, rows: np.ndarray, questions: np.ndarray) -> None:
        self.rows, self.questions = rows, questions

    def vector_dim(self) -> int:
        return int(self.rows.shape[1])

    def describe(self) -> dict[str, Any]:
        return {"images": False}

    def encode(self, texts: Sequence[str], prompt: str | None = None) -> np.ndarray:
        return np.stack([(self.rows if text[0] == "p" else self.questions)[int(text[1:])] for text in texts])


def memory_mb(kind: str = "VmHWM") -> float:
    """The largest memory since ``forget_peak`` (Linux), or with VmRSS that of now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) / 1024
    raise SystemExit("memory is read from /proc: run this on Linux")


def forget_peak() -> float:
    """Begins to measure memory anew; what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory_mb("VmRSS")


def timed(ask: Callable[[int], Sequence[int]], num: int) -> tuple[list[Sequence[int]], str]:
    found, times, busy = [], [], time.process_time()
    for number in range(num):
        begun = time.perf_counter()
        found.append(ask(number))
        times.append(1000 * (time.perf_counter() - begun))
    mean = 1000 * (time.process_time() - busy) / num
    shown = f"p50 {np.percentile(times, 50):7.2f} ms   p99 {np.percentile(times, 99):7.2f} ms"
    return found, f"{shown} ({mean:.2f} ms of processor time)"


def large_one(system: str, rows: int, dim: int, num: int) -> None:
    """One system in this process."""
    data, questions = made_up(rows, dim, num)
    exact = np.empty((num, 10), np.int64)
    for start in range(0, num, 20):
        exact[start : start + 20] = np.argpartition(-(questions[start : start + 20] @ data.T), 10, axis=1)[:, :10]
    before, begun = forget_peak(), time.process_time()
    if system.startswith("firth"):
        found, seconds, shown, peak = _large_firth(system, data, questions, begun)
    elif system == "hnswlib":
        import hnswlib

        graph = hnswlib.Index("ip", dim)
        graph.init_index(rows, ef_construction=128, M=16)
        graph.set_num_threads(1)
        graph.add_items(data)
        seconds, peak = time.process_time() - begun, memory_mb()
        graph.set_ef(64)
        found, shown = timed(lambda number: graph.knn_query(questions[number], 10)[0][0].tolist(), num)
    else:
        import faiss

        faiss.omp_set_num_threads(1)
        graph = faiss.IndexHNSWFlat(dim, 16, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = 128
        graph.add(data)
        seconds, peak = time.process_time() - begun, memory_mb()
        graph.hnsw.efSearch = 64
        found, shown = timed(lambda number: graph.search(questions[number : number + 1], 10)[1][0].tolist(), num)
    recall = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(found, exact.tolist(), strict=True)])
    print(
        f"{system:<14} build {seconds:7.1f} s of processor time   peak {peak - before:6.0f} MB more   {shown}   recall@10 {recall:.4f}"
    )


def _large_firth(
    system: str, data: np.ndarray, questions: np.ndarray, begun: float
) -> tuple[list[Sequence[int]], float, str, float]:
    from firth.data.readers import ReadingConfig
    from firth.retrieval.build import index_documents
    from firth.retrieval.search import SearchIndex
    from firth.retrieval.store import IndexConfig

    folder = Path(tempfile.mkdtemp())
    try:
        with open(folder / "texts.txt", "w", encoding="utf-8") as handle:
            handle.writelines(f"p{number}\n" for number in range(len(data)))
        (folder / "model").write_text("made up")
        model: Any = MadeUpModel(data, questions)
        limit = 1 << 40 if system == "firth-exact" else 200_000
        index_documents(
            [str(folder / "texts.txt")],
            folder / "index",
            IndexConfig(exact_up_to=limit),
            ReadingConfig(layout="line"),
            (folder / "model", model),
        )
        seconds, peak = time.process_time() - begun, memory_mb()
        index = SearchIndex(folder / "index", lambda path: model)
        index.encode(["q0"])

        def ask(number: int) -> list[int]:
            (some,) = index.rank([f"q{number}"], 10, "vectors")
            return [int(one.rpartition(":")[2]) - 1 for one in some]

        found, shown = timed(ask, len(questions))
        size = sum(path.stat().st_size for path in (folder / "index").iterdir())
        print(f"{system}: {len(index.state.parts)} parts, {size / 1e6:,.0f} MB on disk")
        return found, seconds, shown, peak
    finally:
        shutil.rmtree(folder)


def large(arguments: argparse.Namespace) -> None:
    print(f"{arguments.rows:,} vectors of {arguments.dim} dimensions, one thread", flush=True)
    for system in arguments.systems:
        _apart("_large", system, str(arguments.rows), str(arguments.dim), str(arguments.questions))


# -- real documents


def real_one(texts: str, column: str, model: str, size: int, share: float) -> None:
    import firth
    from firth.data.readers import read_texts
    from firth.retrieval.search import SearchIndex

    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        with open(rows, "w", encoding="utf-8") as handle:
            for number, text in enumerate(read_texts(texts, column)):
                if (number * 0.6180339887) % 1 < share:
                    handle.write(json.dumps({"text": text}) + "\n")
        model = model or None  # type: ignore[assignment]
        before, begun, busy = forget_peak(), time.perf_counter(), time.process_time()
        done = firth.index(rows, Path(folder) / "index", model=model, passage_size=size)
        seconds, busy, peak = time.perf_counter() - begun, time.process_time() - busy, memory_mb()
        index = SearchIndex(Path(folder) / "index", firth.load)
        parts = index.state.parts
        some = [parts[number % len(parts)] for number in range(100)]
        asked = [part.passage(number * 7919 % part.num_passages)[2][:60] for number, part in enumerate(some)]
        index.search(asked[0])
        _, shown = timed(lambda number: [hash(hit.id) for hit in index.search(asked[number])], 100)
        disk = sum(path.stat().st_size for path in (Path(folder) / "index").iterdir()) / 1e6
        print(
            f"{done.documents:>7,} documents  {done.passages:>8,} passages  {seconds:7.1f} s "
            f"({busy:.1f} of processor time)  peak {peak:5.0f} MB "
            f"(before: {before:.0f})  {disk:5.0f} MB on disk  {shown}"
        )


def real(arguments: argparse.Namespace) -> None:
    for share in arguments.shares:
        given = [
            str(arguments.texts),
            arguments.column,
            str(arguments.model or ""),
            str(arguments.passage_size),
            str(share),
        ]
        _apart("_real", *given)


def _apart(*words: str) -> None:
    """A fresh process each, so that memory is its own."""
    subprocess.run([sys.executable, __file__, *words], check=True)


def main() -> None:
    if sys.argv[1:2] == ["_large"]:
        large_one(sys.argv[2], *map(int, sys.argv[3:6]))
        return
    if sys.argv[1:2] == ["_real"]:
        real_one(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), float(sys.argv[6]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("quality")
    one.add_argument("--model", action="append", default=[])
    one.add_argument("--cranfield", type=Path)
    one.add_argument("--squad", action="append")
    one.add_argument("--questions", type=int, default=500)
    two = parts.add_parser("large")
    two.add_argument("--rows", type=int, default=1_000_000)
    two.add_argument("--dim", type=int, default=64)
    two.add_argument("--questions", type=int, default=200)
    two.add_argument("--systems", nargs="+", default=["firth", "firth-exact", "hnswlib", "faiss"])
    three = parts.add_parser("real")
    three.add_argument("--texts", type=Path, required=True)
    three.add_argument("--column", default="text")
    three.add_argument("--model", type=Path)
    three.add_argument("--passage-size", type=int, default=96)
    three.add_argument("--shares", type=float, nargs="+", default=[0.1, 1.0])
    arguments = parser.parse_args()
    {"quality": quality, "large": large, "real": real}[arguments.part](arguments)


if __name__ == "__main__":
    main()
