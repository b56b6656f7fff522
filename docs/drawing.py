"""A picture as SVG: boxes, arrows and words, with its colours for light and dark; words are English or Chinese."""

import html
import re
from collections.abc import Sequence

from picture_words import NAMES, QUESTIONS, STORY

_LIGHT = "--d-text:#1a2226;--d-soft:#55636a;--d-card:#ffffff;--d-rule:#e2e0d9;--d-c0:#0d6e70;--d-c1:#b35c10;--d-c2:#6a51b8;--d-c3:#b0386a;--d-c4:#3d7a2d;--d-c5:#2f66b0;--d-c6:#86700d;--d-c7:#66737b"
_DARK = "--d-text:#e4e9ea;--d-soft:#9caab0;--d-card:#161d20;--d-rule:#2a3438;--d-c0:#5fc4bb;--d-c1:#f0a35c;--d-c2:#b3a0ee;--d-c3:#ec8fb5;--d-c4:#8cc97a;--d-c5:#86b4f2;--d-c6:#d6c057;--d-c7:#9fb0b8"
_CLASSES = "".join(
    f".line.c{n}{{stroke:var(--d-c{n})}}.fill.c{n},.dot.c{n}{{fill:var(--d-c{n})}}.tint.c{n}{{fill:var(--d-c{n});stroke:var(--d-c{n})}}"
    for n in range(8)
)
STYLE = (
    f"svg{{{_LIGHT}}}@media(prefers-color-scheme:dark){{svg{{{_DARK}}}}}"
    "text{font:12px system-ui,'Noto Sans CJK SC','PingFang SC','Microsoft YaHei',sans-serif;fill:var(--d-text)}"
    "text.soft,svg.chart text{fill:var(--d-soft)}text.strong{font-weight:600}text.mono{font-family:ui-monospace,monospace}"
    ".box{fill:var(--d-card);stroke:var(--d-rule)}.arrow{stroke:var(--d-soft);fill:none;stroke-width:1.4}.head{fill:var(--d-soft)}"
    ".rule,.grid{stroke:var(--d-rule)}.line{fill:none;stroke-width:2}.tint{fill-opacity:.16;stroke-width:1.3}.cell{fill:var(--d-c0)}"
    + _CLASSES
)


def in_chinese(svg: str) -> str:
    """The chart of a question with Chinese words: numbers and names stay, a word that has no translation is an error."""

    def translated(words: str) -> str:
        plain = html.unescape(words)
        if not re.search(r"[^\W\d_]{2}", plain) or plain in NAMES:
            return words
        if plain not in QUESTIONS:
            raise KeyError(f"docs/picture_words.py has no Chinese for {plain!r}")
        return html.escape(QUESTIONS[plain])

    svg = re.sub(r"(<text[^>]*>)([^<]*)(</text>)", lambda found: found[1] + translated(found[2]) + found[3], svg)
    return re.sub(r'(aria-label=")([^"]*)"', lambda found: f'{found[1]}{translated(found[2])}"', svg)


class Drawing:
    """A picture of ``width`` x ``height``; words are translated where there is a translation."""

    def __init__(self, width: int, height: int, lang: str) -> None:
        self.width, self.height, self.lang, self.parts = width, height, lang, list[str]()

    def say(self, x: float, y: float, words: str, look: str = "", anchor: str = "middle") -> None:
        words = STORY.get(words, words) if self.lang == "zh" else words
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{look}">{html.escape(words)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, words: str = "", look: str = "box", height: float = 26, text: str = ""
    ) -> None:
        """A box with its left upper corner at x, y; a tinted one covers what is behind it, too."""
        if look.startswith("tint"):
            self.parts.append(f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        self.parts.append(f'<rect class="{look}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        if words:
            self.say(x + width / 2, y + height / 2 + 4, words, text)

    def arrow(self, x: float, y: float, to_x: float, to_y: float, look: str = "arrow", bend: float = 0) -> None:
        """An arrow; ``bend`` moves the middle of its path to the side."""
        length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
        across, down = (to_x - x) / length, (to_y - y) / length
        if bend:
            middle_x, middle_y = (x + to_x) / 2 - down * bend, (y + to_y) / 2 + across * bend
            size = max(((to_x - middle_x) ** 2 + (to_y - middle_y) ** 2) ** 0.5, 1e-9)
            across, down = (to_x - middle_x) / size, (to_y - middle_y) / size
            path = f"M{x:g} {y:g}Q{middle_x:.1f} {middle_y:.1f} {to_x - 5 * across:.1f} {to_y - 5 * down:.1f}"
        else:
            path = f"M{x:g} {y:g}L{to_x - 5 * across:.1f} {to_y - 5 * down:.1f}"
        left = f"{to_x - 7 * across - 3.5 * down:.1f},{to_y - 7 * down + 3.5 * across:.1f}"
        right = f"{to_x - 7 * across + 3.5 * down:.1f},{to_y - 7 * down - 3.5 * across:.1f}"
        self.parts.append(
            f'<path class="{look}" d="{path}"/><polygon class="head" points="{to_x:g},{to_y:g} {left} {right}"/>'
        )

    def row(
        self,
        x: float,
        y: float,
        words: Sequence[str],
        size: float = 64,
        gap: float = 10,
        look: str = "box",
        special: dict[int, str] | None = None,
    ) -> list[float]:
        """Boxes side by side; the middles of the boxes."""
        for number, word in enumerate(words):
            self.box(
                x + number * (size + gap),
                y,
                size,
                word,
                (special or {}).get(number, look),
                text="mono" if word.startswith(("[", "<")) else "",
            )
        return [x + number * (size + gap) + size / 2 for number in range(len(words))]

    def squares(self, x: float, y: float, seen: Sequence[str], size: float = 18, look: str = "fill c0") -> None:
        """A mask: '#' for what is seen."""
        for down, line in enumerate(seen):
            for across, sign in enumerate(line):
                shown = f'class="{look}" fill-opacity=".75"' if sign == "#" else 'class="box"'
                self.parts.append(
                    f'<rect {shown} x="{x + across * size:g}" y="{y + down * size:g}" width="{size - 2:g}" height="{size - 2:g}" rx="2"/>'
                )

    def svg(self, name: str) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="firth" viewBox="0 0 {self.width} {self.height}" style="max-width:{self.width}px" role="img" '
            f'aria-label="{html.escape(name)}"><style>{STYLE}</style>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )
