"""Whether a tsv file uses quotation, as pandas and spreadsheets write it, or has quotation marks that belong to its texts.

It does where every mark opens a cell at its start, closes it at its end, or is doubled inside, and where the marks are needed:
cells without a mark, a tab or a line break are written plainly (or, in a file that quotes all words, none are).
"""

import re
from dataclasses import dataclass, replace

from firth.data.sources import Meter, Source, numbered_lines

_INSIDE = r'([^"]*(?:""[^"]*)*)'
_WHOLE = re.compile(rf'"{_INSIDE}"(?=\t|$)')  # a cell that ends in its line
_OPENED = re.compile(rf'"{_INSIDE}$')  # one that goes on in the next
_CLOSED = re.compile(rf'{_INSIDE}"(?=\t|$)')  # its end
_GOING_ON = re.compile(rf"{_INSIDE}$")
_PLAIN = re.compile(r'[^"\t]*(?=\t|$)')
_MOST = 0.9  # of the lines: so many with the tabs of the first one are rows, whatever their marks


def uses_quotation(source: Source, encoding: str) -> bool:
    """By the whole file: a mark that fits nowhere decides at once."""
    if not source.path.is_file():  # cannot be read twice
        return False
    seen = _Seen()
    for _, line in numbered_lines(replace(source, meter=Meter()), encoding):
        if not seen.add(line):
            return False
    return seen.is_quotation()


@dataclass
class _Seen:
    """What the lines have shown so far."""

    open: bool = False  # within a cell that began in a line before
    has_tab: bool = False  # it, up to here
    needed: bool = False  # some cell could not be written without quotation
    unneeded: bool = False
    only_comma: bool = False  # spreadsheets quote for a comma, too
    bare_comma: bool = False
    bare_word: bool = False
    quoted: bool = False
    over_lines: bool = False  # a cell with a line break and a tab, or the only one: perhaps marks of several rows
    lines: int = 0
    like_first: int = 0  # lines with as many tabs as the first
    tabs: int = -1

    def add(self, line: str) -> bool:
        """False where a mark stands at a place where quotation has none."""
        if line.strip():
            self.tabs = line.count("\t") if self.tabs < 0 else self.tabs
            self.lines += 1
            self.like_first += line.count("\t") == self.tabs
        if not self.open and '"' not in line:
            self._bare(line)
            return True
        place = 0
        if self.open:
            match = _CLOSED.match(line)
            self.has_tab = self.has_tab or "\t" in (line if match is None else match[1])
            if match is None:
                return _GOING_ON.match(line) is not None
            self._cell("\n\t" if self.has_tab else "\n")
            self.open, place = False, match.end() + 1
        while place < len(line):
            if line[place] != '"':
                match = _PLAIN.match(line, place)
                if match is None:
                    return False
                self._bare(match[0])
            elif (match := _WHOLE.match(line, place)) is not None:
                self._cell(match[1])
            elif (match := _OPENED.match(line, place)) is not None:
                self.open, self.has_tab = True, "\t" in match[1]
                return True
            else:
                return False
            place = match.end() + 1
        return True

    def _bare(self, text: str) -> None:
        self.bare_comma = self.bare_comma or "," in text
        self.bare_word = self.bare_word or not all(_is_number(cell) for cell in text.split("\t"))

    def _cell(self, content: str) -> None:
        needed = any(mark in content for mark in '"\t\n')
        self.quoted = True
        self.needed = self.needed or needed
        self.only_comma = self.only_comma or (not needed and "," in content)
        self.unneeded = self.unneeded or not (needed or "," in content)
        self.over_lines = self.over_lines or ("\n" in content and ("\t" in content or not self.tabs))

    def is_quotation(self) -> bool:
        if self.open or not self.quoted or (self.over_lines and self.like_first >= _MOST * self.lines):
            return False
        as_needed = self.needed and not self.unneeded and not (self.only_comma and self.bare_comma)
        return as_needed or (not self.bare_word and (self.needed or self.tabs > 0))


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True
