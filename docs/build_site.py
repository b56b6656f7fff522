"""The pages of the site, put together for mkdocs (a hook: see mkdocs.yml).

``docs/`` reads well on its own, with links to files of the project. Here it is copied to ``build/docs``; what only the code
knows is added (commands, settings, the API), pages of the project outside of ``docs/`` join, links follow them, and
pictures are written into their pages, so that they change with light and dark.
"""

import html
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LANGUAGES = ("en", "zh")
OUTSIDE = {  # files and folders of the project that have a page on the site
    "README.md": "start.md",
    "README.zh-CN.md": "start.md",
    "ARCHITECTURE.md": "reference/architecture.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "CHANGELOG.md": "reference/changelog.md",
    "benchmarks/RESULTS.md": "figures.md",
    "examples": "reference/examples.md",
}
COPIED = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md")
TASKS = ("classify", "score", "tag", "answer", "embed", "write")
LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
PICTURE = re.compile(r"^!\[([^\]\n]*)\]\(([^)\s]+\.svg)\)$", re.MULTILINE)
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
GENERATED_NOTE = {
    "en": "",
    "zh": "> 本页由程序从英文源文件生成，内容为英文。\n\n",
}


def on_config(config: Any) -> Any:
    """Builds from the copy instead of from docs/."""
    target = Path(os.environ.get("FIRTH_DOCS_STAGE", ROOT / "build" / "docs"))
    stage(target)
    config["docs_dir"] = str(target)
    return config


def on_page_content(content: str, **_: Any) -> str:
    """Examples in docstrings have a title like those of parameters and results."""
    return content.replace("<p>Example::</p>", "<p><strong>Example:</strong></p>")


def stage(target: Path) -> None:
    """Writes every page and file of the site below ``target``."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in COPIED:
        text = (ROOT / name).read_text(encoding="utf-8")
        for lang in LANGUAGES:
            write(target, OUTSIDE[name], lang, _with_note(text, lang), source=ROOT / name)
    for name, pages in generated().items():
        for lang, text in pages.items():
            write(target, name, lang, text, source=None)
    for page in sorted(DOCS.rglob("*.md")):
        place = target / page.relative_to(DOCS)
        place.write_text(finished(page.read_text(encoding="utf-8"), page, page.relative_to(DOCS)), encoding="utf-8")


def write(target: Path, name: str, lang: str, text: str, source: Path | None) -> None:
    place = Path(name) if lang == "en" else Path(name).with_suffix(f".{lang}.md")
    (target / place).parent.mkdir(parents=True, exist_ok=True)
    (target / place).write_text(text if source is None else finished(text, source, place), encoding="utf-8")


def finished(text: str, source: Path, place: Path) -> str:
    """The text with links that lead to pages of the site, and with pictures in place of their names."""
    parts = FENCE.split(text)
    for number in range(0, len(parts), 2):
        parts[number] = PICTURE.sub(lambda found: _figure(found, source), parts[number])
        parts[number] = LINK.sub(lambda found: _link(found, source, place), parts[number])
    return "".join(parts).replace("<!-- run -->\n", "")


def _link(found: re.Match[str], source: Path, place: Path) -> str:
    label, target, anchor = found[1], found[2], found[3] or ""
    if not target or ":" in target:
        return found[0]
    goal = (source.parent / target).resolve()
    if goal.is_relative_to(DOCS):
        inside = goal.relative_to(DOCS).as_posix()
    else:
        inside = OUTSIDE.get(goal.relative_to(ROOT).as_posix(), "")
        if not inside:  # a file of the project without a page: its name stays readable
            return label
    if inside.endswith(".zh.md") and not place.name.endswith(".zh.md"):
        return ""  # the other language: the site has a switch for it
    inside = inside.replace(".zh.md", ".md")
    return f"[{label}]({Path(os.path.relpath(inside, place.parent)).as_posix()}{anchor})"


def _figure(found: re.Match[str], source: Path) -> str:
    """The drawing itself; its own style stays outside, since the site's style sheet has the same classes."""
    drawing = (source.parent / found[2]).read_text(encoding="utf-8")
    drawing = re.sub(r"<style>.*?</style>", "", drawing, flags=re.DOTALL).replace("\n", "")
    return f'<figure class="picture" markdown="0">{drawing}</figure>\n'


def _with_note(text: str, lang: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first}\n\n{GENERATED_NOTE[lang]}{rest}"


def generated() -> dict[str, dict[str, str]]:
    """Pages that only the code can write, by name and language."""
    makers = {
        "reference/cli.md": commands_page,
        "reference/settings.md": settings_page,
        "reference/api.md": api_page,
        "reference/examples.md": examples_page,
    }
    return {name: {lang: maker(lang) for lang in LANGUAGES} for name, maker in makers.items()}


def _cell(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def commands_page(lang: str) -> str:
    """Every command of the command line with its arguments and options."""
    from firth.cli.main import command

    chinese = lang == "zh"
    out = ["# 命令行" if chinese else "# Command line", ""]
    out.append(
        "下面是 `firth` 的全部命令，由程序生成，与 `firth COMMAND --help` 的内容一致（命令行帮助为英文）。"
        if chinese
        else "Every command of `firth`. This page is generated from the program and says what `firth COMMAND --help` says."
    )
    for name, one in command().commands.items():  # type: ignore[attr-defined]
        about, _, example = (one.help or "").partition("Example:")
        out += ["", f"## firth {name}", "", _cell(about), ""]
        if example.strip():
            out += ["```sh", " ".join(example.split()), "```", ""]
        head = ("选项", "默认值", "说明") if chinese else ("option", "default", "meaning")
        rows = list(_options(one))
        if rows:
            out += [f"| {' | '.join(head)} |", "| --- | --- | --- |", *rows]
    return "\n".join(out) + "\n"


def _options(command: Any) -> Iterator[str]:
    for one in command.params:
        argument = one.param_type_name == "argument"
        name = (
            f"`{one.name.upper()}`" if argument else ", ".join(f"`{text}`" for text in (*one.opts, *one.secondary_opts))
        )
        if one.name == "help":
            continue
        default = one.default
        shown = "" if default in (None, False, True, ()) or callable(default) else f"`{default}`"
        yield f"| {name} | {shown} | {_cell(getattr(one, 'help', '') or '')} |"


def settings_page(lang: str) -> str:
    """Every setting: of each task, and of the first recipe of each model with what its other recipes change."""
    from firth.cli.train_commands import list_settings
    from firth.core.registry import specs

    chinese = lang == "zh"
    out = ["# 设置" if chinese else "# Settings", ""]
    out.append(
        "每个设置都可以在命令行写成 `键=值`，在 Python 中写成关键字参数；点号前的部分可以省略。本页由 `firth settings` 生成：每个模型列出第一个配方的全部设置，其他配方只列出不同的值。"
        if chinese
        else "Every setting is overridden by `key=value` on the command line and by a keyword in Python; what stands before the dot may be left out. "
        "This page is generated by `firth settings`: each model has all settings of its first recipe, and for its other recipes the values that differ."
    )
    head = "| 设置 | 默认值 | 说明 |" if chinese else "| setting | default | meaning |"
    groups = [list(spec.recipes) for spec in specs().values() if spec.recipes]
    for names in [*groups, *([task] for task in (*TASKS, "fasttext-classifier"))]:
        first = list_settings(names[0])
        kept = {row.name: str(row.value) for row in first}
        out += ["", f"## {names[0]}", "", head, "| --- | --- | --- |"]
        out += [f"| `{row.name}` | `{_cell(row.text.partition('=')[2])}` | {_cell(row.about)} |" for row in first]
        for other in names[1:]:
            changed = [
                row for row in list_settings(other) if kept.get(row.name) != str(row.value) and row.name != "recipe"
            ]
            values = ", ".join(f"`{_cell(row.text)}`" for row in changed)
            out += ["", f"**{other}**: {values or ('相同' if chinese else 'the same')}"]
    return "\n".join(out) + "\n"


def api_page(lang: str) -> str:
    """The names of ``import firth``, by their docstrings."""
    import firth

    out = ["# Python API", ""]
    out.append(
        "`import firth` 提供的全部公开名称，由源代码中的 docstring 生成（英文）。"
        if lang == "zh"
        else "Every public name of `import firth`, from the docstrings in the source."
    )
    for module, names in firth._MODULES.items():
        for name in names:
            out += ["", f"::: firth.{module}.{name}"]
    return "\n".join(out) + "\n"


def examples_page(lang: str) -> str:
    """The scripts and notebooks of examples/ as they are."""
    out = ["# 示例" if lang == "zh" else "# Examples", ""]
    out.append(
        "`examples/` 中的脚本和 notebook（英文），测试会运行它们。"
        if lang == "zh"
        else "The scripts and notebooks in `examples/`; the tests run them."
    )
    for script in sorted((ROOT / "examples").glob("*.py")):
        out += ["", f"## {script.name}", "", "```python", script.read_text(encoding="utf-8").rstrip(), "```"]
    for notebook in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        out += ["", f"## {notebook.name}"]
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            markdown = re.sub(r"^#+ (.*)$", r"**\1**", text, flags=re.MULTILINE)
            out += ["", markdown] if cell["cell_type"] == "markdown" else ["", "```python", text, "```"]
    return "\n".join(out) + "\n"
