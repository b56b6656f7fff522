"""Which representation is worth its cost, on real sets, within half an hour and within two hours?

    python benchmarks/compare.py --data NAME=TASK:CORPUS:TRAIN:DEV[:TEST] ... [--budgets 30m 120m] [--out DIR] [--seeds 3]
        [--recipes word2vec,...] [--shares 0.1,0.25,1] [--cased]

CORPUS may be several paths with + between them; texts that are tested on must not stand in it. Prints firth's own table for
each set and budget, with the floors in it, and how near the wall time came to the budget. Sets with the same CORPUS share
what is pre-trained on it; each keeps its own report, NAME-BUDGET.html. What is finished below --out is not trained again, so the command can be stopped and started at will. Run it on a machine that does nothing else.
"""

import argparse
import shutil
import time
from pathlib import Path

import firth
from firth.core.config import parse_duration, show_duration

PARTS = ("task", "corpus", "train", "dev", "test")


def parse(word: str) -> tuple[str, dict[str, str]]:
    name, equals, rest = word.partition("=")
    parts = rest.split(":")
    if not equals or not 4 <= len(parts) <= 5:
        raise SystemExit(f"{word}: write it as NAME=TASK:CORPUS:TRAIN:DEV[:TEST]")
    return name, dict(zip(PARTS, parts, strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=TASK:CORPUS:TRAIN:DEV[:TEST]")
    parser.add_argument("--budgets", nargs="+", default=["30m", "120m"])
    parser.add_argument("--out", type=Path, default=Path("compared"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipes")
    parser.add_argument("--shares", default="")
    parser.add_argument("--cased", action="store_true")
    given = parser.parse_args()
    sets = [parse(word) for word in given.data]
    for budget in given.budgets:
        for name, parts in sets:
            out = given.out / f"{Path(parts['corpus'].split('+')[0]).stem}-{budget}"
            started = time.perf_counter()
            found = firth.compare(
                parts["task"],
                corpus=parts["corpus"].split("+"),
                train=parts["train"],
                dev=parts["dev"],
                test=parts.get("test"),
                out=out,
                budget=budget,
                recipes=given.recipes,
                seeds=given.seeds,
                shares=[float(share) for share in given.shares.split(",") if share],
                skip_bad=True,
                cased=given.cased or None,
                note=lambda line: print(f"  {line}", flush=True),
            )
            wall = time.perf_counter() - started
            report = shutil.copyfile(out / "report.html", given.out / f"{name}-{budget}.html")
            spent = sum(row["pretrain_s"] + row["finetune_s"] * len(row["scores"]) for row in found["rows"])
            print(
                f"\n{name}, {budget}: {found['num_train']:,} labels, scored on {found['num_scored']:,} ({found['scored_on']})"
            )
            print(found)
            wanted = parse_duration(budget)
            print(
                f"training {show_duration(spent)} ({spent / wanted:.2f} of the budget), "
                f"wall {show_duration(wall)}{' (cached)' if found['cached'] else ''}, report {report}\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
