"""Names that a tagger finds become the list of entities that ERNIE hides."""

from pathlib import Path

import pytest

import firth
from firth.cli.main import main
from task_text import tagged, write

Told = pytest.CaptureFixture[str]


def test_names_for_ernie(corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Told) -> None:
    monkeypatch.chdir(tmp_path)
    train = write(tmp_path / "train", tagged(60))
    firth.finetune("tag", base="scratch", train=train, dev=train, out="tagger", epochs=20)
    lines = [" ".join(example.words) for example in tagged(12, seed=5)]
    Path("news.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    main(["predict", "tagger", "news.txt", "--names", "names.txt"])
    names = Path("names.txt").read_text(encoding="utf-8").splitlines()
    assert "names.txt:" in capsys.readouterr().out
    wanted = {" ".join(line.split()[1:3]) for line in lines} | {line.split()[-1] for line in lines}
    assert set(names) == wanted
    counts = [sum(line.count(name) for line in lines) for name in names]
    assert counts == sorted(counts, reverse=True)
    firth.pretrain("ernie-tiny", corpus=corpus_folder, out="ernie", steps=2, entities="names.txt")
