"""The standing attack: hostile models, vectors, texts, settings and requests, case after case, with a summary.

    python tests/faults/attack.py FOLDER [--kinds model,vectors,text,document,request] [--cases 300] [--minutes 60] [--runtime]

With ``--runtime`` the commands are those of firth-runtime, which cannot import torch; what it loads is attacked, too.
A case is (kind, number) and always the same. What was done is noted in FOLDER/results.jsonl; the same command goes on
behind it. Findings are printed with the name that makes them again (``--only model:17``).
"""

import argparse
import collections
import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import attack_files
import attack_models
import attack_named
import attack_native
import attack_requests
import attack_runner
import attack_runtime
import attack_seeds
import attack_text
from attack_runner import Case, Outcome

Maker = Callable[[Path, int, Path], Case]
KINDS: dict[str, Maker] = {
    "model": attack_models.model_case,
    "vectors": attack_models.vectors_case,
    "named-model": attack_named.model_case,
    "named-vectors": attack_named.vectors_case,
    "text": attack_text.text_case,
    "named-text": attack_text.named_case,
    **attack_files.MAKERS,
    **attack_native.MAKERS,
}

REQUEST = "request"  # to a server, which lives as long as this process


class Attack(NamedTuple):
    """What is attacked."""

    folder: Path
    runtime: bool = False

    @property
    def seeds(self) -> Path:
        return self.folder / "seeds"

    @property
    def notes(self) -> Path:
        return self.folder / ("results-runtime.jsonl" if self.runtime else "results.jsonl")

    @property
    def makers(self) -> dict[str, Maker]:
        return {**KINDS, **attack_runtime.MAKERS} if self.runtime else KINDS

    def begin(self) -> None:
        """The honest models, and everything that a command imports."""
        if self.runtime:  # made where torch may be imported
            script = Path(attack_runtime.__file__)
            subprocess.run([sys.executable, str(script), str(self.seeds)], check=True, stdout=subprocess.DEVNULL)
            attack_runtime.block()
            attack_runtime.warm_up()
        else:
            attack_seeds.build(self.seeds)
            attack_runner.warm_up()
        gc.collect()
        gc.freeze()

    def one(self, kind: str, number: int) -> Outcome | None:
        """Makes the case in the folder, runs it, and removes it again."""
        if kind == REQUEST:
            whole = attack_requests.Target(self.seeds, self.seeds / "runs")
            target = attack_runtime.target(self.seeds) if self.runtime else whole
            return attack_requests.attack_server(target, number)
        place = self.folder / f"case-{os.getpid()}"  # several attacks may go on in one folder
        shutil.rmtree(place, ignore_errors=True)
        try:
            case = self.makers[kind](self.seeds, number, place)
        except IndexError:  # no more of them
            return None
        outcome = attack_runner.run_case(case, attack_runtime.run if self.runtime else attack_runner.run_command)
        shutil.rmtree(place, ignore_errors=True)
        return outcome

    def run(self, kinds: list[str], cases: int, minutes: float, first: int = 0, step: int = 1) -> list[Outcome]:
        """Runs ``cases`` of each kind that were not run before, or as many as the time allows; returns all outcomes."""
        self.begin()
        lines = self.notes.read_text().splitlines() if self.notes.is_file() else []
        found = [Outcome(**json.loads(line)) for line in lines]
        done = {outcome.name.partition(" ")[0] for outcome in found}
        deadline = time.monotonic() + 60 * minutes
        with open(self.notes, "a") as handle:
            for number in range(first, first + cases, step):
                for kind in kinds:
                    if f"{kind}:{number}" in done:
                        continue
                    if time.monotonic() > deadline:
                        return found
                    outcome = self.one(kind, number)
                    if outcome is None:
                        continue
                    found.append(outcome)
                    handle.write(json.dumps(outcome._asdict()) + "\n")
                    handle.flush()
        return found


def summary(found: list[Outcome]) -> str:
    """Counts by kind and verdict, the slowest and the largest, and every finding."""
    lines = []
    for kind in sorted({outcome.name.partition(":")[0] for outcome in found}):
        own = [outcome for outcome in found if outcome.name.startswith(f"{kind}:")]
        counts = collections.Counter(outcome.verdict.partition(" ")[0] for outcome in own)
        lines.append(
            f"{kind}: {len(own)} cases, {', '.join(f'{count} {name}' for name, count in counts.most_common())}; "
            f"slowest {max(one.seconds for one in own):.1f} s, most memory {max(one.megabytes for one in own):.0f} MB"
        )
    bad = [outcome for outcome in found if outcome.bad]
    lines += [f"  {one.name}: {one.verdict}: {' '.join(one.told.split())[-160:]}" for one in bad]
    return "\n".join([*lines, f"{len(bad)} findings in {len(found)} cases"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kinds", help="separated by commas; all, if not said")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1, help="every so manyth case only")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runtime", action="store_true", help="without torch, as firth-runtime is")
    parser.add_argument("--only", help="one case, such as model:17; it is not noted")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    work = Attack(folder, given.runtime)
    if given.only:
        kind, _, number = given.only.partition(":")
        work.begin()
        outcome = work.one(kind, int(number))
        assert outcome is not None, "there is no such case"
        sys.stdout.write(f"{outcome.name}: {outcome.verdict} in {outcome.seconds:.1f} s\n{outcome.told}\n")
        sys.exit(int(outcome.bad))
    kinds = given.kinds.split(",") if given.kinds else [*work.makers, REQUEST]
    found = work.run(kinds, given.cases, given.minutes, given.first, given.step)
    sys.stdout.write(summary(found) + "\n")
    sys.exit(int(any(outcome.bad for outcome in found)))


if __name__ == "__main__":
    main()
