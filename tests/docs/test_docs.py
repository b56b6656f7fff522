"""Every command and script behind ``<!-- run -->`` in the docs is run, at small size, in order."""

import multiprocessing
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"<!-- run -->\n```(\w*)\n(.*?)```", re.DOTALL)
SMALLER = [(r"--budget \S+", "--budget 3s"), (r"--vocab-size 8000", "--vocab-size 300")]


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def differs(page: Path) -> bool:
    """Whether a Chinese page has commands that its English one has not; the same ones are run once."""
    english = page.with_name(page.name.replace(".zh.md", ".md"))
    return english == page or blocks(page) != blocks(english)


def write_samples(folder: Path) -> None:
    """The files that the docs talk about."""
    random.seed(3)
    nouns, verbs = ["dog", "cat", "bird", "child", "river"], ["barked at", "saw", "found", "followed", "slept near"]
    english = [
        " ".join(f"The {random.choice(nouns)} {random.choice(verbs)} the {random.choice(nouns)}." for _ in range(5))
        + " They play here."
        for _ in range(300)
    ]
    (folder / "news.txt").write_text("\n".join(english) + "\n", encoding="utf-8")
    (folder / "texts.txt").write_text("A sentence.\nAnother one.\n", encoding="utf-8")
    german = {"dog": "Hund", "cat": "Katze", "bird": "Vogel", "child": "Kind", "sees": "sieht", "hears": "hört"}
    pairs = [random.choices(list(german), k=random.randint(2, 6)) for _ in range(400)]
    for name, some in (("pairs", pairs), ("check", pairs[:9])):
        lines = [" ".join(words) for words in some]
        (folder / f"{name}.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
        lines = [" ".join(german[word] for word in words) for words in some]
        (folder / f"{name}.de").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"The {noun} {verb} it.\t{'good' if noun in nouns[:2] else 'bad'}" for noun in nouns for verb in verbs]
    (folder / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (folder / "dev.tsv").write_text("text\tlabel\n" + "\n".join(rows[::3]) + "\n", encoding="utf-8")
    tagged = "".join(
        f"{number}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_\n" + ("\n" if tag == "PUNCT" else "")
        for noun in nouns * 3
        for number, (word, tag) in enumerate((("The", "DET"), (noun, "NOUN"), ("slept", "VERB"), (".", "PUNCT")), 1)
    )
    (folder / "tags.conllu").write_text(tagged, encoding="utf-8")
    minimal = [f"The {noun} {verb} it.\tThe {verb} {noun} it." for noun in nouns for verb in verbs]
    (folder / "pairs.tsv").write_text("\n".join(minimal) + "\n", encoding="utf-8")
    marked = "".join(
        f'<instance id="{number}"><answer senseid="{number % 2}"/><context>{"A" if number % 2 else "The"} <head>bank</head></context></instance>'
        for number in range(15)
    )
    (folder / "senses.xml").write_text(f'<corpus><lexelt item="bank.n">{marked}</lexelt></corpus>', encoding="utf-8")
    places, acts = ["北京", "上海", "图书馆", "学校", "公园"], ["住了三天", "看书", "睡觉", "见到老师", "学习中文"]
    chinese = ["".join(f"我们在{random.choice(places)}{random.choice(acts)}。" for _ in range(5)) for _ in range(300)]
    (folder / "xinwen.txt").write_text("\n".join(chinese) + "\n", encoding="utf-8")
    before, behind = ("看见", "喜欢", "找到", "想起"), ("很好", "真大", "来了", "很贵")
    ends = [f"{who}{one}蓝蜓{two}。" for who in ("老师", "学生", "大家") for one in before for two in behind]
    new = [line + random.choice(ends) for line in chinese]  # 蓝蜓 is a word that no dictionary has
    for lang, text, labels in (("en", english, ("good", "bad")), ("zh", new, ("好", "差"))):
        write_quickstart(folder / "quickstart" / lang, text, labels)
    for number in range(12):
        image = folder / "photos" / f"kind{number % 2}" / f"{number}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (20 * number, 200 * (number % 2), 90)).save(image)
    Image.new("RGB", (32, 32), (10, 200, 90)).save(folder / "photo.png")


def write_quickstart(folder: Path, text: list[str], labels: tuple[str, str]) -> None:
    """The files of ``firth quickstart`` by their names, with less in them."""
    folder.mkdir(parents=True)
    (folder / "text.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    for name, first in (("train", 0), ("dev", 40), ("test", 60)):
        rows = [
            f"{line[:60]}\t{labels[number % 2]}"
            for number, line in enumerate(text[first : first + 20 + 20 * (not first)])
        ]
        (folder / f"{name}.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")


def words_of(line: str) -> list[str]:
    for pattern, replacement in SMALLER:
        line = re.sub(pattern, replacement, line)
    words = shlex.split(line)
    assert words[0] == "firth", f"only firth commands are run: {line}"
    return words


# A process that has imported what takes long, and computed nothing, forks one for each command; without, imports take most of the time.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["torch", "numba", "sklearn.linear_model", "firth.api.training", "firth.api.tasks", "firth.tasks.run"]
)


def run_here(words: list[str], folder: Path, output: str) -> None:
    """As ``python -m firth`` would, in a process of its own."""
    from firth.__main__ import run

    os.chdir(folder)
    with open(output, "wb") as handle:
        for place in (1, 2):
            os.dup2(handle.fileno(), place)
    sys.argv = list(words)
    sys.stdout, sys.stderr = (os.fdopen(place, "w", encoding="utf-8", closefd=False) for place in (1, 2))
    try:
        run()
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def run_command(words: list[str], folder: Path) -> tuple[int | None, str]:
    """The exit code and what was printed."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as output:
        process = FORKS.Process(target=run_here, args=(words, folder, output.name))
        process.start()
        process.join(300)
        if process.exitcode is None:
            process.kill()
        return process.exitcode, Path(output.name).read_text(encoding="utf-8", errors="replace")


def run_alone(command: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and differs(page)], ids=lambda page: page.name)
def test_the_page_says_what_works(page: Path, tmp_path: Path) -> None:
    write_samples(tmp_path)
    for language, text in blocks(page):
        if language == "python":
            code, said = run_alone([sys.executable, "-c", text], tmp_path)
            assert code == 0, f"{page.name}: {text}\n{said}"
            continue
        for words in (words_of(line) for line in text.splitlines() if line.strip()):
            if page.name == "README.md":  # as users do
                code, said = run_alone([sys.executable, "-m", *words], tmp_path)
            else:
                code, said = run_command(words, tmp_path)
            assert code == 0, f"{page.name}: {' '.join(words)}\n{said}"


def test_readme_is_short_and_names_the_translation() -> None:
    for name, other in (("README.md", "README.zh-CN.md"), ("README.zh-CN.md", "README.md")):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 120
        assert other in text


def test_the_citation_names_the_version() -> None:
    from firth import __version__

    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_architecture_is_two_pages() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split()) <= 1200


def test_links_inside_the_project_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_is_in_the_readme() -> None:
    from firth.cli.main import application

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in application().registered_commands:
        assert command.callback is not None
        name = (command.name or command.callback.__name__).replace("_", "-")
        assert f"firth {name}" in text or f"make {name}" in text, f"firth {name} is not mentioned"
