"""What a tokenizer does not know is counted, and said by commands and predictions."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

import firth
from firth.cli.main import main
from firth.tokenizers.pieces import READ, UNKNOWN_PIECES, Tally, unknown_warning
from firth.tokenizers.word_tokens import WordTokens
from piece_samples import build_pieces, hard_text

PIECES = build_pieces()


@settings(deadline=None)
@given(hard_text)
def test_the_quick_look_is_right(text: str) -> None:
    """Of one text: unknown only if there are unknown tokens, and then their share."""
    ids = PIECES.encode(text, add_special=False, read_special=False).ids
    unknown = int((ids == PIECES.unk_id).sum())
    share = PIECES.unknown_share([text])
    assert share == pytest.approx(unknown / max(len(ids), 1))


def test_by_hand() -> None:
    assert PIECES.unknown_share(["the dogs"]) == 0
    assert PIECES.unknown_share(["the 饕"]) == 0.5
    assert build_pieces(byte_fallback=True).unknown_share(["the 饕"]) == 0
    words = WordTokens(["the", "dog"], True, False)
    assert words.unknown_share(["the cat", "dog dog"]) == 0.25
    tally = Tally()
    tally.add([1, 1, 5, 6], 1)
    tally.add([5, 5, 5], None)
    assert (tally.tokens, tally.unknown) == (7, 2)
    assert tally.warning is not None
    assert tally.warning.startswith("29% of the tokens are unknown to the model, more than 10%")
    assert unknown_warning(UNKNOWN_PIECES) is None


@pytest.fixture
def task(tmp_path: Path) -> Path:
    lines = [f"{word} {number}\t{label}" for word, label in (("good", "yes"), ("bad", "no")) for number in range(12)]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "\n".join(lines), encoding="utf-8")
    firth.finetune("classify", base="counts", train=tmp_path / "train.tsv", out=tmp_path / "task")
    return tmp_path / "task"


def test_a_classifier_of_counts(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["predict", str(task), "这部电影非常感人"])
    found = capsys.readouterr()
    assert json.loads(found.out)["unknown"] == 1
    assert "firth: warning: 100% of the tokens are unknown to the model, more than 90%" in found.err
    main(["predict", str(task), "good 3"])
    found = capsys.readouterr()
    assert json.loads(found.out)["unknown"] == 0
    assert "unknown" not in found.err


def test_commands_say_it(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("饕餮魑魅\n魍魉饕餮\n", encoding="utf-8")
    for command in (
        ["encode", str(run_folder), str(tmp_path / "texts.txt"), "--out", str(tmp_path / "v.npy")],
        ["fill", str(run_folder), "饕餮魑魅 [MASK] 饕餮魑魅"],
    ):
        main(command)
        assert "of the tokens are unknown to the model, more than 10%" in capsys.readouterr().err
    main(["fill", str(run_folder), "The old [MASK] found a clock."])
    assert "unknown" not in capsys.readouterr().err
    READ.clear()


def test_columns_of_a_table(task: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\ngood 1\n这部电影\n", encoding="utf-8")
    found = firth.predict(task, file=tmp_path / "texts.csv", out=tmp_path / "scored.csv")
    assert found.columns[-1] == "unknown_share"
    rows = (tmp_path / "scored.csv").read_text(encoding="utf-8").splitlines()
    assert [row.rpartition(",")[2] for row in rows] == ["unknown_share", "0.0", "1.0"]
