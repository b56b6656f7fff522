"""Titles from abstracts: UniLM and T5 within the same time, on the same texts, beside the beginning of the abstract.

    python benchmarks/titles.py --data FOLDER [--minutes 20] [--recipes unilm-mini t5-mini] [--text more.txt ...]
        [--settings batch_size=8 ...] [--copy 0.5] [--writing learning_rate=1e-3 ...]

FOLDER holds ``train``, ``dev`` and ``test`` files (.tsv, also .gz) of lines ``source<TAB>target``, or of three columns of
which the first is a prefix; without ``train`` the dev file is learned from, but for 100 pairs. Each recipe gets the same wall-clock time:
a share of it (``--share``) to pre-train on the sources and targets to be learned from (and on further texts), the rest
to learn to write. With ``--copy`` a part of that (this share of the whole) goes first into repeating clauses of the texts of
pre-training (``firth finetune write form=copy``): titles repeat what the abstract says, and 1,000 of them do not teach to copy.
Scores are on the test file: ROUGE by characters for Chinese, BLEU by sacrebleu, in percent.
"""

import argparse
import gzip
import tempfile
from pathlib import Path

import firth
from firth.core.config import parse_settings
from firth.core.run import Run
from firth.models.shared.translation_model import score_translations
from firth.tasks.config import WritingConfig
from firth.tasks.write.data import score_written
from firth.tasks.write.model import WritingModel

Pairs = list[tuple[str, str]]


def read_part(folder: Path, name: str) -> Pairs:
    """The pairs of ``train``, ``dev`` or ``test``; none where there is no such file."""
    found = sorted([*folder.glob(f"{name}*.tsv"), *folder.glob(f"{name}*.tsv.gz")])
    pairs = []
    for path in found:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        pairs += [(row[-2].strip(), row[-1].strip()) for row in rows if len(row) >= 2]
    return [pair for pair in pairs if all(pair)]


def show(name: str, written: list[str], pairs: Pairs) -> None:
    references = [target for _, target in pairs]
    scores, _, (low, high) = score_written(WritingConfig(), written, references)
    scores["bleu"] = score_translations(written, references)["bleu"]
    shown = "  ".join(
        f"{key.replace('_', '-').upper()} {scores[key]:5.2f}" for key in ("rouge_1", "rouge_2", "rouge_l", "bleu")
    )
    print(f"{name:<24} {shown}   (ROUGE-L 95 %: {low:.2f} to {high:.2f})", flush=True)


def beginning(source: str, size: int) -> str:
    """As many characters of the source as titles have."""
    return source[:size]


def write_pairs(path: Path, pairs: Pairs) -> None:
    rows = [f"{' '.join(source.split())}\t{' '.join(target.split())}\n" for source, target in pairs]
    path.write_text("source\ttarget\n" + "".join(rows), encoding="utf-8")


def teach(recipe: str, folder: Path, arguments: argparse.Namespace) -> WritingModel:
    """Pre-training, copying, titles: each goes on from the one before."""

    def seconds(share: float) -> str:
        return f"{60 * arguments.minutes * share:.0f}s"

    def write(train: Path, dev: Path | None, base: Path, share: float, *form: str) -> Path:
        out = folder / f"{recipe}-{train.stem}"
        settings = [f"max_source_len={arguments.source_len}", f"max_target_len={arguments.target_len}", *form]
        settings += arguments.writing
        firth.finetune(
            "write", base=base, train=train, dev=dev, out=out, budget=seconds(share), settings=parse_settings(settings)
        )
        return report(out)

    base = folder / recipe
    corpus = folder / "corpus"
    firth.pretrain(
        recipe, corpus=corpus, out=base, budget=seconds(arguments.share), settings=parse_settings(arguments.settings)
    )
    report(base)
    if arguments.copy:
        base = write(folder / "text.txt", None, base, arguments.copy, "form=copy")
    share = 1 - arguments.share - arguments.copy
    model = firth.load(write(folder / "titles.tsv", folder / "titles-dev.tsv", base, share))
    assert isinstance(model, WritingModel)
    return model


def report(run: Path) -> Path:
    record = Run.open(run).record
    loss = record.metrics.get("loss")
    print(f"  {run.name}: {record.steps:,} steps, {record.seconds:.0f} s, held-out loss {loss:.3f}", flush=True)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20, help="of each recipe")
    parser.add_argument("--share", type=float, default=0.5, help="of the time for pre-training")
    parser.add_argument("--copy", type=float, default=0.0, help="share of the time for copying clauses")
    parser.add_argument("--recipes", nargs="+", default=["unilm-mini", "t5-mini"])
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="more text to pre-train on, a document a line")
    parser.add_argument("--settings", nargs="*", default=[], help="of pre-training")
    parser.add_argument("--writing", nargs="*", default=[], help="settings of learning to write")
    parser.add_argument("--vocab-size", type=int, default=6000)
    parser.add_argument("--source-len", type=int, default=256)
    parser.add_argument("--target-len", type=int, default=48)
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--limit", type=int, help="so many pairs of the test file only")
    arguments = parser.parse_args()
    train, dev, test = (read_part(arguments.data, name) for name in ("train", "dev", "test"))
    if not train:
        train, dev = dev[100:], dev[:100]
    test = test[: arguments.limit]
    print(f"{len(train):,} pairs to learn from, {len(test):,} to test on, {arguments.minutes:g} minutes a recipe")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = [f"{source} {target}\n" for source, target in train]
        texts += [path.read_text(encoding="utf-8") for path in arguments.text]
        (folder / "text.txt").write_text("".join(texts), encoding="utf-8")
        for name, pairs in {"titles": train, "titles-dev": dev}.items():
            write_pairs(folder / f"{name}.tsv", pairs)
        firth.prepare(folder / "text.txt", folder / "corpus", vocab_size=arguments.vocab_size, layout="line")
        size = round(sum(len(target) for _, target in train) / len(train))
        written = {"(its beginning)": [beginning(source, size) for source, _ in test]}
        for recipe in arguments.recipes:
            written[recipe] = teach(recipe, folder, arguments).write([source for source, _ in test])
        for recipe, found in written.items():
            show(recipe, found, test)
        for number, (source, target) in enumerate(test[: arguments.examples]):
            print(f"\n{source[:160]}\n  title: {target}")
            for recipe in arguments.recipes:
                print(f"  {recipe}: {written[recipe][number]}")


if __name__ == "__main__":
    main()
