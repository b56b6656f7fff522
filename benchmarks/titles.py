"""Titles from abstracts: UniLM and T5 within the same time, on the same texts, beside the beginning of the abstract.

    python benchmarks/titles.py --data FOLDER [--minutes 20] [--recipes unilm-mini t5-mini] [--text more.txt ...]
        [--settings batch_rows=8 ...] [--copy 0.5] [--writing learning_rate=1e-3 ...]

FOLDER holds ``train``, ``dev`` and ``test`` files (.tsv, also .gz) of lines ``source<TAB>target``, or of three columns of
which the first is a prefix; without ``train`` the dev file is learned from. Each recipe gets the same wall-clock time:
a share of it (``--share``) to pre-train on the sources and targets to be learned from (and on further texts), the rest
to learn to write. With ``--copy`` a part of that (this share of the whole) goes first into writing clauses of a text, drawn at
random from the texts of pre-training: titles repeat what the abstract says, and 1,000 of them do not teach to copy. Scores are on the test file: ROUGE by characters for Chinese, BLEU by sacrebleu, in percent.
"""

import argparse
import gzip
import random
import re
import tempfile
from pathlib import Path

import firth
from firth import api
from firth.assembly.bleu import score_translations
from firth.assembly.writing_model import WritingModel
from firth.core.runs import Run
from firth.core.task_configs import WritingConfig
from firth.tasks.as_text import score_written

Pairs = list[tuple[str, str]]
_NEAR = 160  # characters of a text of which clauses are copied
_CLAUSES = 3  # of a text at the most


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


def clauses(text: str) -> list[str]:
    """What stands between two signs near the beginning of a text, as long as a title may be."""
    return [part.strip() for part in re.split("[。；，：？！;,:?!]", text[:_NEAR]) if 6 <= len(part.strip()) <= 40]


def copies(texts: list[str]) -> Pairs:
    """Texts with some of their own clauses to be written, in random order."""
    draw = random.Random(0)
    pairs = []
    for text in texts:
        found = [clause for clause in clauses(text) if len(text) > 3 * len(clause)]
        pairs += [(text, clause) for clause in draw.sample(found, min(_CLAUSES, len(found)))]
    draw.shuffle(pairs)
    return pairs


def write_pairs(path: Path, pairs: Pairs) -> None:
    rows = [f"{' '.join(source.split())}\t{' '.join(target.split())}\n" for source, target in pairs]
    path.write_text("source\ttarget\n" + "".join(rows), encoding="utf-8")


def teach(recipe: str, folder: Path, arguments: argparse.Namespace) -> WritingModel:
    """Pre-training, copying, titles: each goes on from the one before."""

    def seconds(share: float) -> str:
        return f"{60 * arguments.minutes * share:.0f}s"

    def write(name: str, base: Path, share: float) -> Path:
        out = folder / f"{recipe}-{name}"
        settings = [f"max_source_len={arguments.source_len}", f"max_target_len={arguments.target_len}"]
        firth.finetune(
            "write",
            base=base,
            train=folder / f"{name}.tsv",
            dev=folder / f"{name}-dev.tsv",
            out=out,
            budget=seconds(share),
            settings=[*settings, *arguments.writing],
        )
        return report(out)

    base = folder / recipe
    corpus = folder / "corpus"
    api.pretrain(recipe, corpus=corpus, out=base, budget=seconds(arguments.share), settings=arguments.settings)
    report(base)
    if arguments.copy:
        base = write("copy", base, arguments.copy)
    model = firth.load(write("titles", base, 1 - arguments.share - arguments.copy))
    assert isinstance(model, WritingModel)
    return model


def report(run: Path) -> Path:
    facts = Run.open(run).facts
    loss = facts["metrics"].get("loss")
    print(f"  {run.name}: {facts['steps']:,} steps, {facts['seconds']:.0f} s, held-out loss {loss:.3f}", flush=True)
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
        train, dev = dev, dev[:100]
    test = test[: arguments.limit]
    print(f"{len(train):,} pairs to learn from, {len(test):,} to test on, {arguments.minutes:g} minutes a recipe")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [f"{source} {target}\n" for source, target in train]
        (folder / "text.txt").write_text("".join(lines), encoding="utf-8")
        texts = [folder / "text.txt", *arguments.text]
        made = copies([line for path in texts for line in path.read_text(encoding="utf-8").splitlines()])
        for name, pairs in {"titles": train, "titles-dev": dev, "copy": made[100:], "copy-dev": made[:100]}.items():
            write_pairs(folder / f"{name}.tsv", pairs)
        api.prepare(texts, folder / "corpus", vocab_size=arguments.vocab_size, layout="line")
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
