"""Few labels: what Firth gives by default, against what people use, on the same labelled texts.

    python benchmarks/labels.py --data NAME:TRAIN:TEST ... --out cells.json [--labels 50 200 1000] [--seeds 5] [--test 1000]
        [--systems firth tfidf minilm setfit transformers fasttext] [--setfit-python PYTHON] [--again firth] [--minutes 14]

TRAIN and TEST are files that ``firth finetune classify`` reads, of texts or of pairs. A cell is one system on one set with so
many labels, drawn with one seed; it runs in a process of its own, and is kept in the file ``--out``, so that the same command
goes on where it was stopped, and prints the table of all cells that are there. ``--minutes`` begins no cell after so long (exit
code 75 while some are left), so that a machine can be shared. ``--again firth`` measures the cells of one system anew, once:
those of another version of Firth; the cells of the others stay.

firth         firth finetune classify --base MINILM, nothing else said
frozen        the same with candidates=counts,linear: only what takes seconds
tfidf         scikit-learn: TF-IDF of words and pairs of words (Chinese: 1 to 3 characters), logistic regression, C by 5 folds
minilm        the mean of MiniLM's last layer, of length 1, and logistic regression, C by 5 folds
setfit        SetFit's own defaults on the same MiniLM, one epoch of pairs, at most 250 batches of 16 (its default has no limit: 200
              labels would give 1,250); texts only. It needs ``pip install setfit``, perhaps in an environment of its own
transformers  AutoModelForSequenceClassification, AdamW 5e-5, 10 epochs, batches of 16, warm-up of a tenth, linear decay
fasttext      supervised, word n-grams of 2, 25 epochs, rate 0.5; Chinese by rjieba's words; pairs as one text

    python benchmarks/labels.py --planted 0.05 0.1 --data NAME:TRAIN ... [--labels 1000] [--seeds 3]

plants that share of wrong labels (another label at random) in texts drawn from TRAIN, and prints the share of them that is found, at
the longest beginning of each ranked list in which so many are planted ones (precision). Mistakes that were in the file before
count against all. Firth: ``--check``, by counts, and with ``--base``. Confidence: the examples whose own label has the lowest
cross-validated probability by scikit-learn, over tfidf and over minilm as below. cleanlab on the same probabilities if it is there.

Two texts are compared as |u - v| and u * v by tfidf and minilm. Seconds (and those of the processor alone) are those of training
with its imports; predicting is not in them.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MOST_PAIRS = 4000
SYSTEMS = ("firth", "frozen", "tfidf", "minilm", "setfit", "transformers", "fasttext")
Rows = list[dict[str, str]]
Predict = Callable[[Rows], list[str]]


# -- one cell in this process: train on rows, give a function that predicts


def run_frozen(train: Rows, base: str, seed: int) -> tuple[Predict, str]:
    return run_firth(train, base, seed, candidates=("counts", "linear"))


def run_firth(train: Rows, base: str, seed: int, **settings: object) -> tuple[Predict, str]:
    import firth
    from firth.core.run import Run

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in train), encoding="utf-8")
        model = firth.finetune("classify", base=base, train=path, out=Path(folder) / "run", seed=seed, **settings)
        task = Run.open(Path(folder) / "run").record.task
    assert task is not None
    assert task.chosen is not None
    tried = [f"{one.name} {one.score:.3f}" if one.score is not None else one.note for one in task.chosen.candidates]
    chosen = next((one.name for one in task.chosen.candidates if one.chosen), "")

    def predict(rows: Rows) -> list[str]:
        texts = [(row["text"], row["second"]) if "second" in row else row["text"] for row in rows]
        return [found["label"] for found in model.predict(texts)]

    return predict, f"{chosen} ({', '.join(tried)})"


def compared(vectors: Callable[[list[str]], Any], rows: Rows) -> Any:
    """Features of texts, or of pairs."""
    first = vectors([row["text"] for row in rows])
    if "second" not in rows[0]:
        return first
    second = vectors([row["second"] for row in rows])
    if isinstance(first, np.ndarray):
        return np.concatenate((abs(first - second), first * second), 1)
    from scipy.sparse import hstack

    return hstack((abs(first - second), first.multiply(second))).tocsr()


def regression(features: Any, train: Rows) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    strengths = {"C": [0.1, 1.0, 10.0, 100.0]}
    return GridSearchCV(LogisticRegression(max_iter=2000), strengths, cv=5).fit(
        features, [row["label"] for row in train]
    )


def is_chinese(rows: Rows) -> bool:
    return sum("\u4e00" <= char <= "\u9fff" for row in rows[:50] for char in row["text"]) > 100


def run_tfidf(train: Rows, base: str, seed: int) -> tuple[Predict, str]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    kind = {"analyzer": "char", "ngram_range": (1, 3)} if is_chinese(train) else {"ngram_range": (1, 2)}
    vectorizer = TfidfVectorizer(sublinear_tf=True, **kind)
    vectorizer.fit([row[name] for row in train for name in ("text", "second") if name in row])
    model = regression(compared(vectorizer.transform, train), train)
    return lambda rows: list(model.predict(compared(vectorizer.transform, rows))), f"C {model.best_params_['C']:g}"


def run_minilm(train: Rows, base: str, seed: int) -> tuple[Predict, str]:
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    encoder = transformers.AutoModel.from_pretrained(base).eval()

    def vectors(texts: list[str]) -> Any:
        found = np.zeros((len(texts), encoder.config.hidden_size))
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        with torch.inference_mode():
            for start in range(0, len(order), 32):
                some = order[start : start + 32]
                batch = tokenizer(
                    [texts[number] for number in some],
                    padding=True,
                    truncation=True,
                    max_length=512,
                    return_tensors="pt",
                )
                mask = batch["attention_mask"][:, :, None].float()
                hidden = (encoder(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
                found[some] = torch.nn.functional.normalize(hidden).numpy()
        return found

    model = regression(compared(vectors, train), train)
    return lambda rows: list(model.predict(compared(vectors, rows))), f"C {model.best_params_['C']:g}"


def num_pairs(labels: list[str]) -> int:
    """That SetFit learns from in one epoch by default: the kind with fewer pairs is repeated until both are equal."""
    same = sum(first == second for place, first in enumerate(labels) for second in labels[:place])
    return 2 * max(same, len(labels) * (len(labels) - 1) // 2 - same)


def run_setfit(train: Rows, base: str, seed: int) -> tuple[Predict, str]:
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    labels = sorted({row["label"] for row in train})
    data = Dataset.from_dict(
        {"text": [row["text"] for row in train], "label": [labels.index(row["label"]) for row in train]}
    )
    model = SetFitModel.from_pretrained(base)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_epochs=1,
            max_steps=min(MOST_PAIRS, num_pairs([row["label"] for row in train])) // 16,
            seed=seed,
            report_to="none",
            save_strategy="no",
        )
        Trainer(model=model, args=arguments, train_dataset=data).train()
    return lambda rows: [labels[int(one)] for one in model.predict([row["text"] for row in rows])], ""


def run_transformers(train: Rows, base: str, seed: int) -> tuple[Predict, str]:
    import torch
    import transformers

    torch.manual_seed(seed)
    labels = sorted({row["label"] for row in train})
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=len(labels))

    def batch(rows: Rows) -> Any:
        second = [row["second"] for row in rows] if "second" in rows[0] else None
        return tokenizer(
            [row["text"] for row in rows], second, padding=True, truncation=True, max_length=512, return_tensors="pt"
        )

    optimizer = torch.optim.AdamW(model.parameters(), 5e-5, weight_decay=0.01)
    steps = 10 * -(-len(train) // 16)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    model.train()
    for _ in range(10):
        order = torch.randperm(len(train)).tolist()
        for start in range(0, len(order), 16):
            some = [train[number] for number in order[start : start + 16]]
            targets = torch.tensor([labels.index(row["label"]) for row in some])
            model(**batch(some), labels=targets).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()

    def predict(rows: Rows) -> list[str]:
        with torch.inference_mode():
            parts = [model(**batch(rows[start : start + 32])).logits for start in range(0, len(rows), 32)]
        return [labels[number] for number in torch.cat(parts).argmax(1).tolist()]

    return predict, ""


def run_fasttext(train: Rows, base: str, seed: int) -> tuple[Predict, str]:
    import fasttext

    chinese = is_chinese(train)

    def line(row: dict[str, str]) -> str:
        text = f"{row['text']} {row.get('second', '')}".lower()
        if chinese:
            import rjieba

            text = " ".join(rjieba.cut(text))
        return " ".join(text.split())

    labels = sorted({row["label"] for row in train})
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"__label__{labels.index(row['label'])} {line(row)}\n" for row in train)
        file.flush()
        model = fasttext.train_supervised(file.name, lr=0.5, epoch=25, wordNgrams=2, seed=seed, thread=1, verbose=0)
    # its own predict breaks with NumPy 2
    return lambda rows: [labels[int(model.f.predict(line(row) + "\n", 1, 0.0, "strict")[0][1][9:])] for row in rows], ""


def run_cell(job: dict[str, Any]) -> dict[str, Any]:
    from firth.core.types import generator
    from firth.tasks.data import Reading, nested_order, read_examples, strata

    def rows(path: str) -> list[Any]:
        return read_examples("classify", Path(path), Reading())

    pool = rows(job["train"])
    train = [pool[number] for number in nested_order(strata(pool), job["seed"])[: job["labels"]].tolist()]
    scored = rows(job["test"])
    scored = [scored[number] for number in generator(0, 0x7E57).permutation(len(scored))[: job["num_test"]].tolist()]
    known, asked = (
        [{"text": one.text, "label": str(one.label)} | ({"second": one.second} if one.second else {}) for one in some]
        for some in (train, scored)
    )
    started, cpu = time.perf_counter(), time.process_time()
    predict, note = globals()[f"run_{job['system']}"](known, job["base"], job["seed"])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    found = predict(asked)
    from sklearn.metrics import accuracy_score, f1_score

    true = [row["label"] for row in asked]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    scores = {"accuracy": accuracy_score(true, found), "macro_f1": f1_score(true, found, average="macro")}
    return {**scores, "seconds": seconds, "cpu_s": cpu, "peak_mb": peak, "note": note}


# -- planted errors

PRECISIONS = (0.7, 0.5)


def plant(labels: list[str], share: float, seed: int) -> tuple[list[str], set[int]]:
    """Labels with that share of wrong ones, and where they are."""
    from firth.core.types import generator

    random, kinds, found = generator(seed, 0xBAD), sorted(set(labels)), list(labels)
    chosen = random.permutation(len(labels))[: round(share * len(labels))].tolist()
    for number in chosen:
        found[number] = str(random.choice([kind for kind in kinds if kind != labels[number]]))
    return found, set(chosen)


def found_at(ranked: list[int], planted: set[int], precision: float) -> float:
    """The share of planted ones in the longest beginning of the list with that precision."""
    right = np.cumsum([number in planted for number in ranked]) if ranked else np.zeros(0)
    good = np.flatnonzero(right >= precision * np.arange(1, len(right) + 1))
    return float(right[good[-1]] / len(planted)) if len(good) else 0.0


def by_confidence(features: Any, labels: list[str]) -> dict[str, list[int]]:
    """The lowest cross-validated probability of its own label first; by cleanlab as well where it is installed."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import cross_val_predict

    kinds = sorted(set(labels))
    targets = np.asarray([kinds.index(label) for label in labels])
    model = LogisticRegressionCV(
        Cs=[0.1, 1.0, 10.0, 100.0], cv=5, max_iter=2000, l1_ratios=(0.0,), use_legacy_attributes=False
    )
    chances = cross_val_predict(model, features, targets, cv=5, method="predict_proba")
    found = {"confidence": np.argsort(chances[np.arange(len(targets)), targets], kind="stable").tolist()}
    try:
        from cleanlab.filter import find_label_issues
    except ImportError:
        return found
    issues = find_label_issues(targets, chances, return_indices_ranked_by="self_confidence")
    return found | {"cleanlab": list(map(int, issues))}


def run_planted(given: argparse.Namespace) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    import firth
    from firth.data.labelled import TextExample
    from firth.tasks.data import Reading, nested_order, read_examples, strata
    from firth.tasks.suspects import find_suspects

    base = firth.load(given.base)
    heads = "".join(f"  at precision {precision:g}" for precision in PRECISIONS)
    print(f"{'set':10} {'labels':>6} {'planted':>7} {'system':24}{heads}  own list: precision, found")
    for word in given.data:
        name, train, *_ = word.split(":")
        pool = read_examples("classify", Path(train), Reading())
        for size in given.labels:
            for share in given.planted:
                cells: dict[str, list[list[float]]] = {}
                for seed in range(given.seeds):
                    drawn = [pool[number] for number in nested_order(strata(pool), seed)[:size].tolist()]
                    texts = [one.text for one in drawn]
                    labels, planted = plant([str(one.label) for one in drawn], share, seed)
                    examples = [TextExample(text, None, label) for text, label in zip(texts, labels, strict=True)]
                    kind = {"analyzer": "char", "ngram_range": (1, 3)}
                    kind = kind if is_chinese([{"text": text} for text in texts]) else {"ngram_range": (1, 2)}
                    peers = {
                        "tfidf": TfidfVectorizer(sublinear_tf=True, **kind).fit_transform(texts),
                        "minilm": base.encode(texts),
                    }
                    ranked = {
                        "firth, counts": [one.number for one in find_suspects(examples)],
                        "firth, with base": [one.number for one in find_suspects(examples, base)],
                    }
                    for peer, features in peers.items():
                        ranked |= {f"{rule}, {peer}": some for rule, some in by_confidence(features, labels).items()}
                    for system, some in ranked.items():
                        right = len(planted & set(some))
                        own = [right / max(len(some), 1), right / len(planted)]
                        row = [*(found_at(some, planted, precision) for precision in PRECISIONS), *own]
                        cells.setdefault(system, []).append(row)
                for system, rows in cells.items():
                    mean = np.mean(rows, 0)
                    at = "".join(f"{value:18.3f}" for value in mean[: len(PRECISIONS)])
                    own_list = "" if "confidence" in system else f"  {mean[-2]:.3f}, {mean[-1]:.3f}"
                    print(f"{name:10} {size:6} {share:7.0%} {system:24}{at}{own_list}", flush=True)


# -- all cells


def cells_of(given: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for word in given.data:
        name, train, test = word.split(":")
        pairs = (
            "second" in json.loads(Path(train).open(encoding="utf-8").readline()) if train.endswith("jsonl") else False
        )
        for labels in given.labels:
            for seed in range(given.seeds):
                for system in given.systems:
                    if not (system == "setfit" and pairs):
                        job = {"set": name, "labels": labels, "seed": seed, "system": system, "num_test": given.test}
                        found.append(job | {"train": train, "test": test})
    return found


def measure(job: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    python = given.setfit_python if job["system"] == "setfit" else sys.executable
    words = [python, __file__, "--cell", json.dumps(job | {"base": given.base})]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ})
    if done.returncode:
        raise SystemExit(f"{job}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def show(cells: dict[str, dict[str, Any]]) -> None:
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for key, cell in cells.items():
        name, labels, system, _ = key.split("/")
        groups.setdefault((name, int(labels), system), []).append(cell)
    print(
        f"{'set':12} {'labels':>6} {'system':12} {'accuracy':>15} {'macro F1':>8} {'seconds':>8} {'cpu s':>7} {'MB':>6}  seeds"
    )
    for (name, labels, system), some in sorted(
        groups.items(), key=lambda one: (one[0][0], one[0][1], SYSTEMS.index(one[0][2]))
    ):
        scores = [cell["accuracy"] for cell in some]
        error = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
        means = {
            key: statistics.mean(cell[key] for cell in some) for key in ("macro_f1", "seconds", "cpu_s", "peak_mb")
        }
        notes = ", ".join(cell["note"].partition(" (")[0] for cell in some) if system in ("firth", "frozen") else ""
        print(
            f"{name:12} {labels:6} {system:12} {statistics.mean(scores):7.3f} ± {error:.3f} {means['macro_f1']:8.3f} "
            f"{means['seconds']:8.1f} {means['cpu_s']:7.1f} {means['peak_mb']:6.0f}  {len(some)}  {notes}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=Path("labels.json"))
    parser.add_argument("--labels", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=[one for one in SYSTEMS if one != "frozen"])
    parser.add_argument("--setfit-python", default=sys.executable)
    parser.add_argument("--base", default="")
    parser.add_argument("--again", choices=SYSTEMS)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--planted", nargs="+", type=float, default=[])
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        print(json.dumps(run_cell(json.loads(given.cell))))
        return
    if not given.base:
        from packages import minilm

        given.base = str(minilm())
    if given.planted:
        run_planted(given)
        return
    cells: dict[str, dict[str, Any]] = json.loads(given.out.read_text()) if given.out.is_file() else {}
    jobs = {f"{job['set']}/{job['labels']}/{job['system']}/{job['seed']}": job for job in cells_of(given)}
    if given.again:
        cells = {key: cell for key, cell in cells.items() if key not in jobs or jobs[key]["system"] != given.again}
    until = time.monotonic() + 60 * given.minutes
    for key, job in jobs.items():
        if key not in cells and time.monotonic() < until:
            cells[key] = measure(job, given)
            given.out.write_text(json.dumps(cells, indent=1))
            print(key, cells[key], flush=True)
    show(cells)
    if any(key not in cells for key in jobs):
        sys.exit(75)


if __name__ == "__main__":
    main()
