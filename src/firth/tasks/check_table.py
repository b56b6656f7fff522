"""What a check found, as lines for a terminal of 80 columns."""

import unicodedata

from firth.tasks.checking import QUANTILES, Check

WIDTH = 80
_MAX_LABELS = 30


def check_lines(check: Check) -> list[str]:
    """Counts and labels, lengths, problems."""
    parts = list(check.num_examples)
    rows = [["examples", *(f"{check.num_examples[part]:,}" for part in parts)]]
    names = list(check.labels)
    rows += [[f"  {name}", *(f"{check.labels[name][part]:,}" for part in parts)] for name in names[:_MAX_LABELS]]
    if len(names) > _MAX_LABELS:
        rows.append([f"  … {len(names) - _MAX_LABELS} more labels", *("" for _ in parts)])
    lines = [*_table([[check.kind, *parts], *rows]), ""]
    header = ["lengths", *("min" if q == 0 else "max" if q == 1 else f"{q:.0%}" for q in QUANTILES)]
    for unit, found in (("characters", check.num_chars), ("words", check.num_words)):
        lines += _table(
            [header] + [[f"  {part}, {unit}", *(f"{n:,.0f}" for n in found[part])] for part in parts if found[part]]
        )
        header = []
    if check.scheme:
        lines += ["", f"tags are {check.scheme.upper()}"]
    lines += ["", "no problems found" if not check.problems else "problems"]
    for problem in check.problems:
        lines += _wrapped(
            f"{'✗' if problem.grave else '!'} {problem.count:,} × {problem.what}, first at {problem.first}"
        )
    return lines


def _table(rows: list[list[str]]) -> list[str]:
    """The first column to the left and cut, the others to the right."""
    rows = [row for row in rows if row]
    if not rows:
        return []
    width = 11 if max(map(len, rows)) <= 6 else 9
    first = max(24, min(40, WIDTH - width * (max(map(len, rows)) - 1)))
    return [(_fit(row[0], first) + "".join(cell.rjust(width) for cell in row[1:])).rstrip() for row in rows]


def _fit(text: str, width: int) -> str:
    """Cut or filled to a width on the screen, where Chinese characters are two columns wide."""
    text = " ".join(text.split(" ")).replace("\n", " ").replace("\t", " ")
    if _screen_width(text) <= width:
        return text + " " * (width - _screen_width(text))
    while text and _screen_width(text) >= width:
        text = text[:-1]
    return text + "…" + " " * (width - _screen_width(text) - 1)


def _screen_width(text: str) -> int:
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _wrapped(text: str) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and _screen_width(line) + 1 + _screen_width(word) > WIDTH - 2:
            lines.append(line)
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    return [f"  {part}" for part in [*lines, line]]
