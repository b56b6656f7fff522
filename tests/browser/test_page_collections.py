"""Collections and images: an index of images, topics and near-duplicates, errors of a classifier of images and of a tagger."""

from collections.abc import Callable
from pathlib import Path

import pytest
from browser_reader import Reader
from more_runs import MoreRuns

Visit = Callable[..., Reader]


def test_images_near_an_image(visit: Visit, indexes_address: str, more_runs: MoreRuns) -> None:
    """One of the indexed images at once; then one of my own."""
    reader = visit("#tab=search&model=photos", at=indexes_address)
    panel = reader.page.locator("#panel-search")
    found = panel.locator("#tool-search .images li")
    found.first.wait_for()
    assert panel.locator(".error").count() == 0
    assert found.count() == 5
    assert panel.get_by_text("One of the indexed images.").count() == 1
    assert panel.get_by_label("Question").is_hidden()
    for picture in panel.locator("#tool-search img").all():
        assert picture.evaluate("one => one.complete && one.naturalWidth > 0")
    path = sorted((more_runs.indexes[0].parent.parent / "images").rglob("*.png"))[7]
    panel.locator("#tool-search input[type=file]").set_input_files(path)
    panel.locator(".more summary").first.click()
    panel.get_by_label("How many").first.fill("3")
    answer = reader.ask("search")
    assert found.count() == 3
    assert found.first.inner_text().replace("\n", "").startswith(f"{path.parent.name}/{path.name}")
    assert "1.000" in found.first.inner_text()
    answer.locator("footer.copy").get_by_role("button", name="curl", exact=True).click()
    assert "/search?top=3&where=&model=photos" in answer.locator("pre.code").inner_text()
    panel.locator("#tool-search input[type=file]").set_input_files(
        {"name": "a.png", "mimeType": "image/png", "buffer": b"none"}
    )
    assert "not a whole png" in reader.ask("search").locator(".error").inner_text()
    assert reader.audit() == []


def test_topics_and_near_duplicates(visit: Visit, indexes_address: str) -> None:
    reader = visit("#tab=search&model=stories", at=indexes_address)
    panel = reader.page.locator("#panel-search")
    groups = panel.locator("#tool-topics .topic")
    groups.first.wait_for()
    reader.wait()
    assert groups.count() >= 2
    assert panel.locator("#tool-topics circle.dot").count() == 60
    assert panel.locator("#tool-topics .cluster-name").count() >= 1
    groups.first.click()
    listed = panel.locator("#tool-topics .sources li")
    assert 1 <= listed.count() <= 8
    assert panel.locator("#tool-topics circle.faint").count() > 0
    panel.locator("#tool-duplicates").get_by_label("Least cosine").fill("0.5")
    answer = reader.ask("duplicates")
    cosines = [float(text) for text in answer.locator("td.number").all_inner_texts()]
    assert cosines == sorted(cosines, reverse=True)
    assert min(cosines) >= 0.5
    assert reader.audit() == []
    reader.picture("topics")
    panel.locator("select").first.select_option("plain")
    panel.get_by_text("This index was made without a model").wait_for()
    assert panel.locator("#tool-topics").is_hidden()


def test_errors_of_a_classifier_of_images(visit: Visit, indexes_address: str) -> None:
    """An example at once, the confusions, and each dev image with what the model says about it."""
    reader = visit("#tab=image&model=kinds", at=indexes_address)
    panel = reader.page.locator("#panel-image")
    panel.locator("canvas.photo").wait_for()
    assert panel.locator(".error").count() == 0
    assert panel.locator(".legend-tick").count() == 3
    cells = panel.locator("#tool-image-confusion button.cell")
    cells.first.wait_for()
    assert sum(int(text) for text in cells.all_inner_texts()) == 20
    cells.and_(panel.locator(":enabled")).first.click()
    one = panel.locator("#tool-image-confusion .occurrences button").first
    name = one.inner_text()
    one.click()
    panel.get_by_text(f"{name}, a dev image. Its label: {name.split('/')[0]}.").wait_for()
    reader.wait()
    assert name in panel.locator(".file-box").inner_text()
    assert panel.locator(".error").count() == 0
    reader.picture("image-errors")


@pytest.mark.parametrize("lang", ["en-GB", "zh-CN"])
def test_entities_and_errors_of_a_tagger(visit: Visit, runs: list[Path], lang: str) -> None:
    reader = visit(lang=lang)
    panel = reader.tab("tag")
    rows = panel.locator("#tool-entities tbody tr")
    rows.first.wait_for()
    assert sorted(row.locator("td").first.inner_text() for row in rows.all()) == ["LOC", "PER"]
    kinds = panel.locator("#tool-entities .bars button")
    assert 1 <= kinds.count() <= 4
    kinds.last.click()
    assert panel.locator("#tool-entities h3").last.inner_text() == kinds.last.inner_text()
    assert panel.locator("#tool-entities .sources li").count() >= 1
    assert any("一" <= letter <= "鿿" for letter in kinds.last.inner_text()) == (lang == "zh-CN")
    assert reader.audit() == []
