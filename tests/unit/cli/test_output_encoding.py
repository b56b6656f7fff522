"""What the command writes and how it ends, whatever the system is set to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}


def firth(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "firth", *words], cwd=cwd, capture_output=True, env=ENVIRONMENT, check=False
    )


def test_output_is_utf_8(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("老师看见了一本书。\n" * 60, encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"x")
    words = ["prepare", ".", "--out", "corpus", "--tokens", "characters", "--layout", "line", "--workers", "1"]
    made = firth(*words, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert b"firth: warning: .: passed over 1 file (.png 1)" in made.stderr
    done = firth("tokens", "corpus", "老师", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "老" in json.dumps(json.loads(done.stdout.decode("utf-8")), ensure_ascii=False)
    refused = firth("prepare", "没有.txt", "--out", "x", cwd=tmp_path)
    assert "没有.txt: no such file" in refused.stderr.decode("utf-8")


def test_a_stop_before_the_command_line_is_there(tmp_path: Path) -> None:
    program = (
        "import runpy, sys\n"
        "class Stops:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'firth.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stops())\n"
        "runpy.run_module('firth', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "firth: stopped; run the same command again\n")
