"""The manual next to the page: the Markdown files of ``docs/`` as HTML, so that links from the page need no network.

In a checkout it is read from ``docs/``, in an installation from ``share/doc/firth``. What is served is listed when the server
starts; a page is converted when it is first asked for.
"""

import html
import posixpath
import re
import sysconfig
from collections.abc import Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

_STYLE = (
    "body{max-width:50rem;margin:0 auto;padding:1rem 1.25rem 4rem}nav{display:flex;justify-content:space-between}"
    "h2{margin:2.2rem 0 .5rem}h3{margin:1.6rem 0 .4rem}p,ul,ol,blockquote{margin:.7rem 0}ul,ol{padding-left:1.3rem}"
    "ol{list-style:decimal}code,pre{font-family:var(--mono);font-size:.85rem}"
    "pre{margin:.8rem 0;padding:.8rem .9rem;overflow-x:auto;border-radius:.5rem;background:var(--track);overflow-wrap:normal}"
    "blockquote{padding-left:1rem;border-left:3px solid var(--rule);color:var(--soft)}"
    ".wide{overflow-x:auto}img{max-width:100%;width:100%}"
)
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_OTHER = {"en": ("zh", "中文"), "zh": ("en", "English")}


def manual_folder() -> Path | None:
    """Where the manual is; None where the package was installed without it."""
    for folder in (Path(__file__).parents[3] / "docs", Path(sysconfig.get_path("data")) / "share/doc/firth"):
        if (folder / "story").is_dir():
            return folder
    return None


class Manual:
    """All pages and pictures by name: ``story/08-bert``, ``story/08-bert.zh``, ``pictures/08-bert.svg``."""

    def __init__(self, folder: Path | None) -> None:
        found = [] if folder is None else sorted((*folder.rglob("*.md"), *folder.glob("pictures/*.svg")))
        self.paths = {path.relative_to(folder).as_posix().removesuffix(".md"): path for path in found if folder}
        self.made: dict[str, tuple[bytes, str]] = {}

    def __bool__(self) -> bool:
        return bool(self.paths)

    def read(self, name: str) -> tuple[bytes, str] | None:
        """The content and its MIME type."""
        if name not in self.made:
            path = self.paths.get(name)
            if path is None or not path.is_file():
                return None
            text = path.read_text(encoding="utf-8")
            picture = path.suffix == ".svg"
            self.made[name] = (
                (text if picture else self._page(name, text)).encode(),
                ("image/svg+xml" if picture else "text/html; charset=utf-8"),
            )
        return self.made[name]

    @cached_property
    def _reader(self) -> MarkdownIt:
        return MarkdownIt("commonmark", {"html": False}).enable("table")

    @cached_property
    def _design(self) -> str:
        return (files("firth.reports") / "design.css").read_text(encoding="utf-8")

    def _page(self, name: str, text: str) -> str:
        lang = "zh" if name.endswith(".zh") else "en"
        tokens = self._reader.parse(_COMMENT.sub("", text))
        title = next((token.content for token in tokens if token.type == "inline"), name)
        self._prepare(tokens, name)
        body = self._reader.renderer.render(tokens, self._reader.options, {})
        body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
        other, label = _OTHER[lang]
        twin = name.removesuffix(".zh") + (".zh" if other == "zh" else "")
        switch = f'<a href="/manual/{twin}" lang="{other}">{label}</a>' if twin in self.paths else ""
        return (
            f'<!doctype html><html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<link rel="icon" href="/static/icon.svg"><title>{html.escape(title)}</title>'
            f"<style>{self._design}{_STYLE}</style></head>"
            f'<body><nav><a href="/">Firth</a>{switch}</nav><main>{body}</main></body></html>'
        )

    def _prepare(self, tokens: Sequence[Token], name: str) -> None:
        """Links lead to the manual's own pages, elsewhere, or nowhere; headings can be linked to; code is moved by keys."""
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", anchor(tokens[place + 1].content))
            elif token.type in ("fence", "code_block"):
                token.attrSet("tabindex", "0")
            for number, child in enumerate(token.children or ()):
                if child.type == "image":
                    child.attrSet("src", self._address(name, str(child.attrGet("src"))) or "")
                elif child.type == "link_open":
                    self._link(token.children or [], number, self._address(name, str(child.attrGet("href"))))

    def _link(self, children: Sequence[Token], number: int, address: str | None) -> None:
        if address is not None:
            children[number].attrSet("href", address)
            return
        end = next(place for place in range(number, len(children)) if children[place].type == "link_close")
        children[number].attrs, children[number].tag, children[end].tag = {}, "span", "span"

    def _address(self, name: str, target: str) -> str | None:
        """Where a link of a page leads; None for files that are not in the manual."""
        found = urlsplit(target)
        if found.scheme:
            return target
        if not found.path:
            return target
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), found.path)).removesuffix(".md")
        place = path if path in self.paths else None
        return None if place is None else f"/manual/{place}" + (f"#{found.fragment}" if found.fragment else "")


def anchor(heading: str) -> str:
    """The name by which a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
