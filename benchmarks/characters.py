"""A character-level GPT on one text, as nanoGPT's example for a CPU trains it.

    python benchmarks/characters.py TEXT [--minutes 3] [key=value ...]

The first nine tenths of the text are learned from, the last tenth is the test: the mean loss of a character (nats) in blocks of
as many characters as the model sees, at all places of a block, as nanoGPT estimates it. nanoGPT's own figure for
tiny Shakespeare is 1.88, after some three minutes of a model of this size (4 layers of 128, blocks of 64, batches of 12).
"""

import argparse
import gzip
import tempfile
from pathlib import Path

import torch
from torch.nn import functional

import firth
from firth.core.config import parse_settings
from firth.core.run import Run
from firth.core.types import Inputs
from firth.models.gpt.model import DecoderModel


@torch.inference_mode()
def mean_loss(model: DecoderModel, text: str) -> tuple[float, int]:
    size = model.config.max_positions
    ids = torch.from_numpy(model.ids(text))
    blocks = ids[: (len(ids) - 1) // size * size].view(-1, size)
    goals = ids[1 : blocks.numel() + 1].view(-1, size)
    total = 0.0
    for inputs, wanted in zip(blocks.split(64), goals.split(64), strict=True):
        hidden = model.decoder.last(Inputs(inputs, torch.ones_like(inputs)))
        scores = functional.linear(hidden, model.decoder.tokens.weight)
        total += float(functional.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="sum"))
    return total / goals.numel(), goals.numel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("settings", nargs="*", help="key=value for gpt-char")
    given = parser.parse_args()
    data = given.text.read_bytes()
    text = (gzip.decompress(data) if given.text.suffix == ".gz" else data).decode()
    cut = len(text) * 9 // 10
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.txt").write_text(text[:cut], encoding="utf-8")
        firth.prepare(folder / "train.txt", folder / "corpus", tokens="characters", lowercase=False, layout="file", heldout=0.0)  # fmt: skip
        firth.pretrain("gpt-char", corpus=folder / "corpus", out=folder / "run", budget=f"{given.minutes * 60:.0f}s", settings=parse_settings(given.settings))  # fmt: skip
        record, model = Run.open(folder / "run").record, firth.load(folder / "run")
        assert isinstance(model, DecoderModel)
        loss, count = mean_loss(model, text[cut:])
        print(f"{record.parameters:,} parameters, {record.seconds:.0f} s, {record.tokens:,} characters learned from, {record.tokens / record.seconds:,.0f} a second")  # fmt: skip
        print(f"loss {loss:.4f} a character on {count:,} characters of the last tenth")


if __name__ == "__main__":
    main()
