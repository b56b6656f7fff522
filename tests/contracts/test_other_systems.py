"""The main road without what only POSIX systems have: modules, signals, forks, the system as a library."""

import subprocess
import sys
from pathlib import Path

import pytest

from task_text import files

MODULES = """
import sys

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
"""
# Other packages ask for the system when they are imported, so they are there before; pathlib asks at every path.
WINDOWS = """
import ctypes, importlib, os, pathlib, signal, sys, types

for name in (
    "filelock multiprocessing.spawn multiprocessing.popen_spawn_posix multiprocessing.synchronize concurrent.futures.process "
    "multiprocessing.connection multiprocessing.shared_memory multiprocessing.resource_tracker multiprocessing.managers "
    "numpy pandas pyarrow pyarrow.parquet pydantic regex safetensors.torch scipy.sparse scipy.optimize scipy.special sklearn.linear_model "
    "tokenizers torch torch.distributed torch.optim torch.utils.checkpoint typer rich.progress rich.console asyncio tempfile uuid logging.handlers"
).split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
pathlib.os = types.SimpleNamespace(**vars(os))
for name in ("SIGHUP", "SIGBUS", "SIGKILL", "SIGXCPU", "SIGUSR1", "SIGALRM", "SIGCHLD"):
    delattr(signal, name)
for name in ("O_NOFOLLOW", "O_DIRECTORY", "sysconf", "register_at_fork", "fork"):
    delattr(os, name)

library = ctypes.CDLL


def opened(name, *given, **named):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return library(name, *given, **named)


ctypes.CDLL = opened
sys.platform, os.name = "win32", "nt"
"""
ROAD = """
import firth

if __name__ == "__main__":
    text, train, dev = sys.argv[1:]
    firth.prepare(text, "corpus", vocab_size=300, layout="line", heldout=0.1, workers=2)
    firth.pretrain("bert-tiny", corpus="corpus", out="run", steps=2, seq_len=32, num_layers=1, hidden_dim=16, num_heads=2, ffn_dim=16)
    firth.plan("bert-tiny", corpus="corpus", budget="1s")
    firth.finetune("classify", base="run", train=train, dev=dev, out="task", epochs=1)
    assert "label" in firth.load("task").predict(["a text"])[0]
    print("arrived")
"""
COMMANDS = """
from firth.cli.main import main

if __name__ == "__main__":
    text, train, dev = sys.argv[1:]
    main(["prepare", text, "--out", "corpus", "--vocab-size", "300", "--workers", "1"])
    main(["info", "corpus"])
    print("arrived")
"""


@pytest.mark.parametrize("road", [MODULES + ROAD, MODULES + WINDOWS + ROAD, MODULES + WINDOWS + COMMANDS])
def test_the_main_road(road: str, tmp_path: Path) -> None:
    found = files(tmp_path, "classify")
    (tmp_path / "text.txt").write_text("the old doctor found a clock near the river\n" * 200, encoding="utf-8")
    (tmp_path / "road.py").write_text(road, encoding="utf-8")
    words = [sys.executable, "road.py", "text.txt", str(found["train"]), str(found["dev"])]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("arrived\n"), done.stderr[-2000:]
