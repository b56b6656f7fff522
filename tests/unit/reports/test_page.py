"""Charts that do not mislead, both languages in one page, tables for narrow screens, the model card."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from firth.core.run import CorpusRecord, Run, RunRecord
from firth.reports.card import write_card
from firth.reports.page import Dot, heat_map, line_chart, line_figure, page, scatter_chart
from firth.reports.words import chinese, in_both_languages, reflowing


def labels(svg: str, anchor: str) -> list[str]:
    return re.findall(rf'text-anchor="{anchor}">([^<]+)</text>', svg)


@pytest.mark.parametrize("points", [[(59, 5.0), (60, 5.0)], [(1, 0.1), (3, 0.1001)], [(100, 2e-5), (9000, 3e-4)]])
def test_ticks_are_distinct(points: list[tuple[float, float]]) -> None:
    drawn = line_chart({"loss": points}, "step", "loss")
    for anchor in ("middle", "end"):
        found = labels(drawn, anchor)
        assert len(found) == len(set(found)) > 0


def test_a_single_measurement_is_no_curve() -> None:
    assert "<svg" not in line_figure({"loss": [(59, 5.25)]}, "step", "loss")
    assert "5.25" in line_figure({"loss": [(59, 5.25)]}, "step", "loss")
    assert line_figure({"loss": []}, "step", "loss") == ""


def test_no_share_is_drawn_above_one() -> None:
    drawn = line_chart({"accuracy": [(1, 1.0), (2, 1.0)]}, "step", "accuracy")
    assert max(float(text) for text in labels(drawn, "end") if text != "step") <= 1


def test_names_of_dots_do_not_overlap() -> None:
    dots = [Dot(f"model {number}", 10.0, 0.5 + number / 1000, 0.4, 0.6) for number in range(5)]
    drawn = scatter_chart(dots, "seconds", "accuracy")
    heights = sorted(float(y) for y in re.findall(r'y="([\d.]+)">model', drawn))
    assert all(later - earlier >= 11.9 for earlier, later in pairwise(heights))


def test_attention_has_one_scale() -> None:
    """An even weight has the same colour, whatever else is in the map, and the legend says which."""
    even = heat_map(np.full((4, 4), 0.25), list("abcd"), list("abcd"))
    sharp = heat_map(np.asarray([[0.25, 0.75]]), ["a"], ["b", "c"])
    shades = [re.findall(r'fill-opacity="([\d.]+)"><title>', drawn) for drawn in (even, sharp)]
    assert set(shades[0]) == {"0.500"}
    assert shades[1] == ["0.500", "0.866"]
    assert labels(even, "middle") == ["0", "0.05", "0.25", "0.5", "1"]


def test_both_languages_stand_in_a_page() -> None:
    body = "<h2>Training loss</h2><td>loss</td><pre>loss</pre><svg><text x='1'>held-out</text></svg><h2>mine</h2>"
    found = in_both_languages(body)
    assert '<h2><span class="en">Training loss</span><span class="zh" lang="zh">训练损失</span></h2>' in found
    assert '<tspan class="zh" lang="zh">留出部分</tspan>' in found
    assert "<td>loss</td><pre>loss</pre>" in found  # what is the user's stays
    assert "<h2>mine</h2>" in found
    assert chinese("Dev macro_f1") == "开发集宏平均 F1"
    assert chinese("accuracy, 95 %") == "准确率，95 % 区间"


def test_cells_name_their_columns() -> None:
    table = "<table><tr><th>seed</th><th>time</th><th>f1</th></tr><tr><td>0</td><td>1 s</td><td>0.5</td></tr></table>"
    found = reflowing(table)
    assert '<td data-label="time" data-zh="时间">1 s</td>' in found
    assert '<table class="stacks"><thead>' in found


def test_a_page_is_whole_without_anything_else() -> None:
    found = page("a <b>", "<h1>x</h1>")
    assert "<title>a &lt;b&gt;</title>" in found
    assert "--accent" in found
    assert not re.search(r"<script|src=|@import|url\(", found)


def test_the_design_of_the_documentation_is_the_same() -> None:
    """The site has colours of its own names; they are those of the page."""
    design = Path("src/firth/reports/design.css").read_text(encoding="utf-8")
    site = Path("docs/style/site.css").read_text(encoding="utf-8")
    light, dark = design.split("@media", 1)
    parts = site.split('[data-md-color-scheme="slate"]')
    for style, part in ((light, parts[0]), (dark, parts[1])):
        for number in range(8):
            colour = re.search(rf"--c{number}: (#\w+)", style)
            assert colour is not None
            assert f"--d-c{number}: {colour.group(1)}" in part
        accent = re.search(r"--accent: (#\w+)", style)
        assert accent is not None
        assert f"--md-typeset-a-color: {accent.group(1)}" in part


def test_a_card_says_what_how_and_from_what(tmp_path: Path) -> None:
    record = RunRecord(
        kind="pretrain",
        model="bert",
        recipe="bert-tiny",
        versions={"firth": "1"},
        config={},
        corpus=CorpusRecord(path="/home/me/corpora/news"),
        metrics={"masked_accuracy": 0.25},
        parameters=1_200_000,
        uses=("fill {name} x",),
    )
    write_card(Run.create(tmp_path / "mine", record))
    card = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# mine\n")
    assert "| masked accuracy | 0.25 |" in card
    assert "| text | news |" in card
    assert "/home" not in card
    assert "firth fill mine x" in card
    assert "AutoModel.from_pretrained('mine')" in card
    write_card(Run.create(tmp_path / "elmo", record.replace(model="elmo", recipe="elmo-tiny")))
    assert "AutoModel" not in (tmp_path / "elmo" / "README.md").read_text(encoding="utf-8")  # no model of transformers'


def test_charts_are_named_in_both_languages() -> None:
    """A label has one language, so a paragraph that is heard and not seen names the picture."""
    shown = page("x", line_figure({"loss": [(1, 2.0), (2, 1.0)]}, "step", "loss"))
    assert "aria-label=" not in shown
    assert (
        '<p class="unseen"><span class="en">loss by step</span><span class="zh" lang="zh">各步的损失</span></p>'
        in shown
    )
    names = [
        f"{up} by {across}" for up, across in [("learning rate", "step"), ("tokens/s", "step"), ("perplexity", "step")]
    ]
    assert all(
        chinese(name) for name in [*names, "accuracy by labelled examples", "attention", "7 topics of 1,200 documents"]
    )
