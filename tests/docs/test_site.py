"""The site: every page is in the navigation and in both languages, links lead somewhere, and it builds strictly."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGLISH = sorted(page for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
sys.path.insert(0, str(DOCS))  # the parts of docs/pictures.py


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def code(page: Path) -> list[str]:
    """The commands of a page; comments may be in the language of the page."""
    text = page.read_text(encoding="utf-8")
    lines = [line for kind, block in FENCE.findall(text) if kind in {"sh", "python"} for line in block.splitlines()]
    return [re.sub(r"\s*#.*$", "", line) for line in lines]


def shape(page: Path) -> dict[str, int]:
    """How many rows of tables, bullets and pictures a page has outside of its commands."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    signs = {"rows of tables": r"^\|", "bullets": r"^\s*(?:[-*]|\d+\.) ", "pictures": r"^!\["}
    return {name: len(re.findall(sign, text, re.MULTILINE)) for name, sign in signs.items()}


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_chinese_page_is_as_complete(page: Path) -> None:
    assert shape(page.with_suffix(".zh.md")) == shape(page)


@pytest.mark.parametrize("page", ENGLISH, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_page_has_its_chinese_one_with_the_same_commands(page: Path) -> None:
    chinese = page.with_suffix(".zh.md")
    assert chinese.is_file(), f"{chinese.relative_to(ROOT)} is missing"
    text = chinese.read_text(encoding="utf-8")
    assert len(re.findall(r"[\u4e00-\u9fff]", text)) > 60
    assert code(chinese) == code(page)
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(
        re.findall(r"^## ", page.read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_the_navigation_names_every_page() -> None:
    site = module("build_site")
    named = set(re.findall(r"^\s+- ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    written = {page.relative_to(DOCS).as_posix() for page in ENGLISH}
    made = {"reference/cli.md", "reference/settings.md", "reference/api.md", "reference/examples.md"}
    made |= {site.OUTSIDE[name] for name in site.COPIED}
    assert named == written | made


def test_links_between_pages_lead_to_files_and_stay_in_the_language() -> None:
    for page in sorted(DOCS.rglob("*.md")):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in LINK.findall(text):
            goal = (page.parent / target).resolve()
            assert goal.exists(), f"{page.name}: {target}"
            if page.name.endswith(".zh.md") and goal.is_relative_to(DOCS) and goal.suffix == ".md":
                assert goal.name.endswith(".zh.md"), f"{page.name} leads to the English {target}"


def test_files_of_the_code_that_pages_name_exist() -> None:
    for page in sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")]):
        for name in re.findall(r"`((?:[\w-]+/)+[\w-]+\.py)`", page.read_text(encoding="utf-8")):
            places = [ROOT / name, ROOT / "src" / "firth" / name]
            assert any(place.is_file() for place in places), f"{page.name} names {name}"


def test_pages_show_pictures_in_their_language() -> None:
    for page in sorted(DOCS.rglob("*.md")):
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+\.svg)\)", page.read_text(encoding="utf-8")):
            assert target.endswith(".zh.svg") == page.name.endswith(".zh.md"), f"{page.name}: {target}"


def test_the_pictures_are_those_that_the_code_draws() -> None:
    drawn = module("pictures").drawn()
    for name, text in drawn.items():
        assert (DOCS / "pictures" / name).read_text(encoding="utf-8") == text, "run: python docs/pictures.py"


def test_pictures_are_small_and_have_the_same_colours_in_both_languages() -> None:
    style = module("drawing").STYLE
    for picture in sorted((DOCS / "pictures").glob("*.svg")):
        text = picture.read_text(encoding="utf-8")
        assert f"<style>{style}</style>" in text, picture.name
        assert len(text) < 20_000, picture.name
        other = picture.name.replace(".zh.svg", ".svg") if ".zh." in picture.name else f"{picture.stem}.zh.svg"
        assert picture.with_name(other).is_file(), f"{other} is missing"


def test_the_reference_knows_every_command_setting_and_name() -> None:
    import firth
    from firth.cli.main import application

    pages = module("build_site").generated()
    for command in application().registered_commands:
        assert command.callback is not None
        name = (command.name or command.callback.__name__).replace("_", "-")
        assert f"\n## firth {name}\n" in pages["reference/cli.md"]["en"]
    for recipe in firth.recipes():
        assert recipe in pages["reference/settings.md"]["zh"]
    for name in firth.__all__:
        assert f".{name}\n" in pages["reference/api.md"]["en"]


@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_nobody(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs_static_i18n")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    build = {**os.environ, "FIRTH_DOCS_STAGE": str(tmp_path / "pages"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=build)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index.html", "zh/index.html", "reference/cli.html", "zh/story/08-bert.html"):
        text = (tmp_path / "site" / page).read_text(encoding="utf-8")
        loaded = re.findall(
            r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+(?:stylesheet|preconnect)[^>]+href="(https?:[^"]+)',
            text,
        )
        assert not loaded, f"{page} loads {loaded}"
    assert "掩码" in (tmp_path / "site" / "zh" / "story" / "08-bert.html").read_text(encoding="utf-8")
