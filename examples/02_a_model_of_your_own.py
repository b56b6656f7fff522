"""From raw text and a few labels to a small private model: prepare, pre-train, fine-tune, predict.

    python examples/02_a_model_of_your_own.py [--steps 400] [--out DIR]

The text is made: people say what they think of rooms. Only some of it has labels; pre-training reads all of it.
"""

import argparse
import random
import tempfile
from pathlib import Path

import firth

GOOD = ["bright", "quiet", "spotless", "lovely", "warm"]
BAD = ["dark", "noisy", "filthy", "awful", "cold"]


def opinion(pick: random.Random) -> tuple[str, str]:
    label = pick.choice(["good", "bad"])
    first, second = pick.sample(GOOD if label == "good" else BAD, 2)
    thing = pick.choice(["room", "kitchen", "lobby", "bath"])
    return f"The {thing} was {first} and {second}, and we {'will' if label == 'good' else 'will not'} be back.", label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of pre-training")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    folder = arguments.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    pick = random.Random(0)

    lines = [" ".join(opinion(pick)[0] for _ in range(3)) for _ in range(1000)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, count in (("train", 40), ("dev", 40)):
        rows = [f"{text}\t{label}\n" for text, label in (opinion(pick) for _ in range(count))]
        (folder / f"{name}.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")

    firth.prepare(folder / "text.txt", folder / "corpus", layout="line", vocab_size=300, overwrite=True)
    firth.pretrain(
        "bert-tiny-modern", corpus=folder / "corpus", out=folder / "bert", steps=arguments.steps, overwrite=True
    )
    for guess in firth.load(folder / "bert").fill("The room was [MASK] and quiet, and we will be back.", top=3)[0]:
        print(f"{guess.token:<10} {guess.probability:.2f}")

    firth.finetune(
        "classify",
        base=folder / "bert",
        train=folder / "train.tsv",
        dev=folder / "dev.tsv",
        out=folder / "mood",
        overwrite=True,
    )
    mood = firth.load(folder / "mood")
    for text in ["A spotless kitchen.", "The lobby was awful."]:
        print(f"{text:<24} {mood.predict([text])[0]['label']}")


if __name__ == "__main__":
    main()
