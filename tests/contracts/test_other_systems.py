"""The main road without the modules that only POSIX systems have."""

import subprocess
import sys
from pathlib import Path

from task_text import files

ROAD = """
import sys

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None

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


def test_the_main_road(tmp_path: Path) -> None:
    found = files(tmp_path, "classify")
    (tmp_path / "text.txt").write_text("the old doctor found a clock near the river\n" * 200, encoding="utf-8")
    (tmp_path / "road.py").write_text(ROAD, encoding="utf-8")
    words = [sys.executable, "road.py", "text.txt", str(found["train"]), str(found["dev"])]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("arrived\n"), done.stderr[-2000:]
