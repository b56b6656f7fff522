"""``info`` notices a damaged file of a run by name; ``encode`` keeps a vector beside every line."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from firth.cli.main import main


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_flipped_byte_in_a_run_is_named(
    name: str, run_folder: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run_folder, "run")
    main(["info", "run"])
    assert "files whole" in capsys.readouterr().out
    data = bytearray(Path("run", name).read_bytes())
    data[len(data) // 2] ^= 1
    Path("run", name).write_bytes(data)
    with pytest.raises(SystemExit) as left:
        main(["info", "run"])
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert f"run/{name}: damaged" in told


def test_blank_lines_keep_their_place(run_folder: Path, work: Path) -> None:
    Path("texts.txt").write_text("the old doctor\n\nthe map\n", encoding="utf-8")
    main(["encode", str(run_folder), "texts.txt", "--out", "all.npy"])
    Path("one.txt").write_text("the map\n", encoding="utf-8")
    main(["encode", str(run_folder), "one.txt", "--out", "one.npy"])
    found = np.load("all.npy")
    assert found.shape[0] == 3
    np.testing.assert_allclose(found[2], np.load("one.npy")[0], atol=1e-6)
    assert np.abs(found[1] - found[2]).max() > 1e-3
