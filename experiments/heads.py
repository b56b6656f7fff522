"""One head or many, at equal width?

    python experiments/heads.py [--folder quickstart/en] [--steps 300] [--seeds 3] [--out heads.svg]

The same encoder (2 layers of 64) is pre-trained with 1, 2, 4 and 8 heads on the same text; width, parameters and steps are equal. Judged by
the loss on held-out masked tokens. The text is what ``firth quickstart`` writes; ``--lines`` takes the first of it.
"""

import tempfile
from pathlib import Path
from statistics import mean, stdev

import firth
from picture import draw, options, shown

HEADS = (1, 2, 4, 8)
SIZE = {
    "hidden_dim": 64,
    "ffn_dim": 256,
    "num_layers": 2,
    "seq_len": 64,
    "batch_size": 16,
    "evaluations": 1,
    "checkpoints": 1,
}


def prepared(folder: Path, lines: int, work: Path) -> Path:
    """A corpus of the first lines of the text."""
    text = work / "text.txt"
    with open(folder / "text.txt", encoding="utf-8") as source:
        text.write_text("".join(line for line, _ in zip(source, range(lines), strict=False)), encoding="utf-8")
    firth.prepare(text, work / "corpus", layout="line", vocab_size=4000)
    return work / "corpus"


def heldout(corpus: Path, out: Path, heads: int, steps: int, seed: int) -> tuple[float, float]:
    """Loss and accuracy on held-out masked tokens."""
    firth.pretrain("bert-tiny-modern", corpus=corpus, out=out, steps=steps, seed=seed, num_heads=heads, **SIZE)
    found = firth.evaluate(out)
    return found["loss"], found["masked_accuracy"]


def main() -> None:
    parser = options(__doc__, steps=300)
    parser.add_argument("--folder", type=Path, default=Path("quickstart/en"))
    parser.add_argument("--lines", type=int, default=4000)
    arguments = parser.parse_args()
    print(f"2 layers of 64, {arguments.steps} steps, {arguments.seeds} seeds")
    print("heads    width of a head    held-out loss      masked tokens right")
    points, spread = [], []
    with tempfile.TemporaryDirectory() as work:
        corpus = prepared(arguments.folder, arguments.lines, Path(work))
        for heads in HEADS:
            found = [
                heldout(corpus, Path(work) / f"{heads}-{seed}", heads, arguments.steps, seed)
                for seed in range(arguments.seeds)
            ]
            losses, right = [one[0] for one in found], [one[1] for one in found]
            print(f"  {heads:<14} {64 // heads:<12} {shown(losses):<18} {shown(right)}")
            points.append((heads, mean(losses)))
            spread.append(stdev(losses) if len(losses) > 1 else 0.0)
    draw(arguments.out, {"held-out loss": points}, "heads", "loss", {"held-out loss": spread}, log_x=True)


if __name__ == "__main__":
    main()
