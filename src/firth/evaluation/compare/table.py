"""What a comparison gives: plain data that shows itself as a table."""

from typing import Any

from firth.evaluation.compare.ranking import Row, table_lines


class ComparisonTable(dict[str, Any]):
    """``rows`` with scores, intervals and costs, ``metric``, ``best``, ``cheapest`` and more, as in compare.json."""

    def lines(self, names: dict[str, str] | None = None) -> list[str]:
        """The table for a terminal; ``names`` translate its words."""
        return table_lines([Row.of(row) for row in self["rows"]], self["metric"], names)

    def __repr__(self) -> str:
        return "\n".join(self.lines())
