"""Writes the source tree of the distribution ``firth-runtime``: ``python packaging/runtime.py OUT``, then ``python -m build OUT``.

An extra can add dependencies but not take one away, and ``pip install firth`` has to bring all. So there are two
distributions of one tree: the same package under the name ``firth-runtime``, with the dependencies of ``[tool.firth.runtime]``
in pyproject.toml. Both hold the package ``firth``, so an environment takes one of them.
"""

import json
import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("src", "docs", "README.md", "LICENSE")


def runtime_project() -> str:
    """pyproject.toml with the name, the dependencies and the extras of the runtime."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    project, runtime = data["project"], data["tool"]["firth"]["runtime"]
    extras = {name: project["optional-dependencies"][name] for name in runtime["extras"]}
    for old, new in (
        (f'name = "{project["name"]}"', 'name = "firth-runtime"'),
        (_line(text, "description"), f"description = {json.dumps(runtime['description'])}"),
        (_block(text, "dependencies = ["), f"dependencies = {json.dumps(runtime['dependencies'])}"),
    ):
        text = _replaced(text, old, new)
    start, end = text.index("[project.optional-dependencies]"), text.index("[tool.firth.runtime]")
    listed = "\n".join(f"{name} = {json.dumps(needed)}" for name, needed in extras.items())
    text = f"{text[:start]}[project.optional-dependencies]\n{listed}\n\n{text[end:]}"
    found = tomllib.loads(text)["project"]
    assert (found["name"], found["dependencies"]) == ("firth-runtime", runtime["dependencies"])
    assert found["optional-dependencies"] == extras
    return text


def _line(text: str, key: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{key} = "))


def _block(text: str, start: str) -> str:
    """The first list that begins so, to its end."""
    begin = text.index(start)
    return text[begin : text.index("\n]\n", begin) + 2]


def _replaced(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new, 1)


def main(out: Path) -> None:
    """A folder from which ``python -m build`` makes the wheel and the source package."""
    out.mkdir(parents=True)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, out / name, ignore=leave)
        else:
            shutil.copy2(ROOT / name, out / name)
    (out / "pyproject.toml").write_text(runtime_project(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
