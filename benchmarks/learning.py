"""What makes a small encoder learn more in the same time? One change at a time, against the recipe as it is.

    python benchmarks/learning.py --data NAME=TEXT[:TASK] ... [--recipe modernbert-10m] [--budget 10m] [--seeds 2] [--out DIR]
        [--variants as-is,adamw,...] [--layout auto|line] [--column text] [--minimal-pairs FILE --num 50]

TEXT is raw text or a prepared corpus of pieces; TASK is a folder with train.tsv, dev.tsv and test.tsv (columns text and label). Every
variant gets the same wall-clock time, in which vectors for the token table are counted. Printed for each text: the held-out loss in
bits per byte (masked-token loss at one masking probability for all, times tokens per byte, so that vocabularies can be compared), the
masked tokens that are right, and the accuracy on the task: of a logistic regression over frozen vectors (the mean of all tokens and layers),
and fine-tuned; with --minimal-pairs the share of pairs whose right sentence is likelier (masked tokens in turn). Means over the seeds, with half of their spread. What is finished below --out is not done again, so the command can be
stopped and started at will. Run it on a machine that does nothing else.
"""

import argparse
import json
import math
import shutil
from pathlib import Path
from statistics import mean

import numpy as np

import firth
from firth.core.registry import RunConfig, find_run_recipe
from firth.core.run import Run
from firth.corpus.format import Corpus
from firth.models.pretrain import resume_run, start_run
from firth.models.shared.pretraining import find_pretraining

AS_IS = "as-is"
VARIANTS: dict[str, list[str]] = {
    AS_IS: [],
    "adamw": ["optimizer=adamw"],
    "muon_rate=2": ["muon_rate=2"],
    "muon_rate=8": ["muon_rate=8"],
    "random table": ["embeddings=none"],
    "no local start": ["local_start=false"],
    "adamw, random table, no local start": ["optimizer=adamw", "embeddings=none", "local_start=false"],
    "batch x 2": ["batch_size=*2"],
    "batch / 2": ["batch_size=*0.5"],
    "rate x 2": ["learning_rate=*2"],
    "rate / 2": ["learning_rate=*0.5"],
    "mask 0.15": ["mask_prob=0.15"],
    "mask 0.4": ["mask_prob=0.4"],
    "cosine": ["schedule=cosine"],
    "whole passages": ["half_weight=0", "seq_len=64", "batch_size=32"],
    "half_weight=0.2": ["half_weight=0.2"],
    "half_weight=1": ["half_weight=1"],
    "average of the last 3": ["average=3", "checkpoints=20"],
    "vocabulary 4k": ["vocab_size=4000"],
    "layers + 2": ["num_layers=+2"],
    "width 128": ["hidden_dim=128", "num_heads=2", "ffn_dim=352"],
    "width 256": ["hidden_dim=256", "num_heads=4", "ffn_dim=704"],
}
_JUDGED = ["mask_prob=0.15", "evaluation_batches=64"]  # the same test for all


def changed(recipe: str, settings: list[str]) -> tuple[RunConfig, int]:
    """The recipe with a variant's settings, and the size of its vocabulary. ``*2`` multiplies and ``+2`` adds."""
    config, vocab_size = find_run_recipe(recipe), 8000
    words: list[str] = []  # set together: a width and its heads
    for word in settings:
        name, _, value = word.partition("=")
        if name == "vocab_size":
            vocab_size = int(value)
            continue
        if value[0] in "*+":
            before = getattr(config.training, name, None) or getattr(config.model, name)
            after = before * float(value[1:]) if value[0] == "*" else before + int(value[1:])
            value = str(round(after) if isinstance(before, int) else after)
        words.append(f"{name}={value}")
    return config.override(words), vocab_size


def corpus_of(text: Path, vocab_size: int, out: Path, layout: str, column: str) -> Path:
    if (text / "corpus.json").is_file():
        return text
    folder = out / "corpora" / f"{text.parent.name}-{text.name}-{vocab_size}"
    if not (folder / "corpus.json").is_file():
        firth.prepare(text, folder, vocab_size=vocab_size, layout=layout, column=column)
    return folder


def judge(folder: Path, corpus: Corpus) -> dict[str, float]:
    """The held-out loss of a finished run, at one masking probability."""
    config = RunConfig.build(Run.open(folder).record.config, folder).override(_JUDGED)
    trainable = find_pretraining(config)(config, corpus)
    trainable.restore(folder)
    found, size = trainable.evaluate(), corpus.info.heldout
    return {
        "bits": found.get("masked", found["loss"]) / math.log(2) * size.tokens / size.bytes,
        "hits": found["masked_accuracy"],
    }


def read_labelled(path: Path) -> tuple[list[str], list[str]]:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [row[0] for row in rows], [row[1] for row in rows]


def frozen_score(folder: Path, task: Path) -> float:
    """Logistic regression over the mean of all tokens and layers, its penalty chosen on dev."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    model = firth.load(folder)
    parts = {name: read_labelled(task / f"{name}.tsv") for name in ("train", "dev", "test")}
    layers = range(model.num_layers + 1)
    vectors = {
        name: np.mean([model.encode(texts, layer) for layer in layers], axis=0) for name, (texts, _) in parts.items()
    }
    scaler = StandardScaler().fit(vectors["train"])
    scaled = {name: scaler.transform(found) for name, found in vectors.items()}
    heads = [
        LogisticRegression(C=penalty, max_iter=1000).fit(scaled["train"], parts["train"][1])
        for penalty in (0.003, 0.01, 0.03, 0.1, 0.3)
    ]
    best = max(heads, key=lambda head: head.score(scaled["dev"], parts["dev"][1]))
    return float(best.score(scaled["test"], parts["test"][1]))


def tuned_score(folder: Path, task: Path, out: Path, seed: int) -> float:
    shutil.rmtree(out, ignore_errors=True)
    firth.finetune("classify", base=folder, train=task / "train.tsv", dev=task / "dev.tsv", out=out, seed=seed)
    found = firth.evaluate(out, data=task / "test.tsv")
    shutil.rmtree(out)
    return float(found["accuracy"])


def measure(
    cell: Path,
    config: RunConfig,
    corpus: Path,
    task: Path | None,
    seed: int,
    budget: str,
    pairs: tuple[Path, int] | None = None,
) -> dict[str, float]:
    """One training and its scores; what is there already is read."""
    result = cell / "result.json"
    if result.is_file():
        return dict(json.loads(result.read_text()))
    run = cell / "run"
    if Run.find(run) is None:
        start_run(config.override([f"budget={budget}", f"seed={seed}"]), corpus, run)
    else:
        resume_run(run)
    record = Run.open(run).record
    found = judge(run, Corpus.open(corpus)) | {"seconds": record.seconds, "steps": float(record.steps or 0)}
    if task is not None:
        found |= {"frozen": frozen_score(run, task), "tuned": tuned_score(run, task, cell / "task", seed)}
    if pairs is not None:
        found["pairs"] = float(firth.evaluate(run, minimal_pairs=pairs[0], num=pairs[1])["mean"]["accuracy"])
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
    result.write_text(json.dumps(found))
    return found


def shown(values: list[float], digits: int) -> str:
    half = (max(values) - min(values)) / 2
    return f"{mean(values):.{digits}f} ± {half:.{digits}f}" if len(values) > 1 else f"{values[0]:.{digits}f}"


def print_table(name: str, table: dict[str, list[dict[str, float]]]) -> None:
    columns = {
        "bits": ("bits per byte", 4),
        "hits": ("right", 4),
        "frozen": ("frozen", 4),
        "tuned": ("tuned", 4),
        "pairs": ("pairs", 4),
    }
    there = [key for key in columns if all(key in found for some in table.values() for found in some)]
    head = ["change", "steps", "seconds", *(columns[key][0] for key in there)]
    print(f"\n{name}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for variant, some in table.items():
        cells = [shown([found[key] for found in some], columns[key][1]) for key in there]
        numbers = [f"{mean(found[key] for found in some):,.0f}" for key in ("steps", "seconds")]
        print(f"| {' | '.join([variant, *numbers, *cells])} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=TEXT[:TASK]")
    parser.add_argument("--recipe", default="modernbert-10m")
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--variants", default=",".join(VARIANTS), help="names with , or, where they hold one, ; between"
    )
    parser.add_argument("--layout", default="auto")
    parser.add_argument("--column", default="text")
    parser.add_argument("--minimal-pairs", type=Path)
    parser.add_argument("--num", type=int, default=50, help="of each set of minimal pairs")
    parser.add_argument("--out", type=Path, default=Path("learning"))
    given = parser.parse_args()
    names = (
        list(VARIANTS)
        if given.variants == ",".join(VARIANTS)
        else given.variants.split(";" if ";" in given.variants else ",")
    )
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise SystemExit(f"unknown variant '{unknown[0]}': choose from {'; '.join(VARIANTS)}")
    for word in given.data:
        name, _, rest = word.partition("=")
        text, _, task = rest.partition(":")
        table: dict[str, list[dict[str, float]]] = {}
        for variant in names:
            config, vocab_size = changed(given.recipe, VARIANTS[variant])
            corpus = corpus_of(Path(text), vocab_size, given.out, given.layout, given.column)
            for seed in range(given.seeds):
                cell = (
                    given.out
                    / f"{name}-{given.recipe}-{given.budget}"
                    / variant.replace(" ", "_").replace("/", "by")
                    / str(seed)
                )
                pairs = (given.minimal_pairs, given.num) if given.minimal_pairs else None
                found = measure(cell, config, corpus, Path(task) if task else None, seed, given.budget, pairs)
                table.setdefault(variant, []).append(found)
                print(f"{name}, {variant}, seed {seed}: {json.dumps(found)}", flush=True)
        print_table(f"{name}, {given.recipe}, {given.budget}", table)


if __name__ == "__main__":
    main()
