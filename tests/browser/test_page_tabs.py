"""Every tab as a person uses it, in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_reader import Reader

Visit = Callable[..., Reader]


def texts(places: Any) -> list[str]:
    """What is read; letters in pictures have no inner text."""
    found: list[str] = places.evaluate_all("all => all.map(one => (one.innerText ?? one.textContent).trim())")
    return found


def shares(answer: Any) -> list[float]:
    """The numbers beside bars that are percentages."""
    return [float(text.rstrip(" %").lstrip("<")) for text in texts(answer.locator(".bar-value"))]


def ink(canvas: Any) -> float:
    """How much of a canvas is painted."""
    found: float = canvas.evaluate(
        """canvas => {
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let sum = 0;
            for (let place = 3; place < data.length; place += 4) sum += data[place];
            return sum / (255 * data.length / 4);
        }"""
    )
    return found


def test_words(visit: Visit) -> None:
    reader = visit()
    panel = reader.page.locator("#panel-words")
    answer = reader.ask("nearest")
    words = texts(answer.locator(".bars button"))
    assert len(words) == 10
    assert {"queen", "prince"} & set(words[:3])
    scores = [float(text.replace("−", "-")) for text in texts(answer.locator(".bar-value"))]
    assert scores == sorted(scores, reverse=True)
    answer.get_by_role("button", name=words[0], exact=True).click()  # go on from there
    reader.wait()
    assert panel.locator("#tool-nearest input[type=text]").input_value() == words[0]
    assert words[0] not in texts(answer.locator(".bars button"))

    answer = reader.ask("analogy")
    solved = answer.locator(".statement strong").inner_text()
    assert solved in ("queen", "prince")
    picture = answer.get_by_role("img", name=f"man is to king as woman is to {solved}")
    assert picture.locator("line.step").count() == 2
    assert texts(picture.locator(".point text")) == ["man", "king", "woman", solved]

    panel.get_by_label("Words, with spaces or commas between").fill("king, queen dog cat、zzzz")
    answer = reader.ask("map")
    assert answer.locator("svg .point").count() == 4
    assert "Not in the vocabulary: zzzz" in answer.inner_text()
    reader.picture("words")


def test_tokens(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("tokens")
    answer = reader.ask("tokens")
    rows = answer.locator("tbody tr").count()
    assert rows >= 13
    assert answer.locator("mark").count() == rows
    assert f"{rows} tokens of" in answer.inner_text()
    reader.picture("tokens")
    panel.get_by_label("Text", exact=True).fill("饕餮 the dog")
    answer = reader.ask("tokens")
    if answer.locator("mark.unknown").count():
        assert "饕" in answer.locator("mark.unknown").first.inner_text()


def test_text_that_a_model_does_not_know_is_said(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("fill")
    panel.get_by_label("Text with a blank").fill("饕餮魑魅魍魉 [MASK] 饕餮魑魅魍魉")
    answer = reader.ask("guess")
    assert "% of the tokens are unknown to the model" in answer.locator(".warning").inner_text()


def test_fill(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("fill")
    answer = reader.ask("guess")
    assert len(shares(answer)) == 8
    assert 0 < sum(shares(answer)) <= 100.5
    written = panel.get_by_label("Text with a blank")
    panel.get_by_role("button", name="cat", exact=True).click()  # hidden by a click
    reader.wait()
    assert written.input_value() == "The [MASK] barked at the [MASK] in the garden."
    assert texts(answer.locator("h3")) == ["Blank 1", "Blank 2"]
    panel.locator("button.masked").nth(1).click()  # and had back
    assert written.input_value() == "The [MASK] barked at the cat in the garden."
    reader.picture("fill")
    best = answer.locator(".bars button").first
    word = best.inner_text()
    best.click()
    assert written.input_value().startswith(f"The {word} barked")


def test_context(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("context")
    assert panel.locator("select").first.input_value() == "bert"  # static vectors come last here
    answer = reader.ask("compare")
    assert answer.locator(".point").count() == 5
    assert texts(answer.locator(".sentences mark")) == ["bank"] * 5
    numbers = [float(text) for text in texts(answer.locator(".cell-number"))]
    assert len(numbers) == 25
    assert numbers[0] == numbers[6] == 1  # each is like itself
    assert numbers[1] == numbers[5]
    answer.locator(".point").nth(2).hover()
    assert "He took money" in answer.locator(".sentences li.linked").inner_text()
    answer.get_by_role("button", name="Similar in the corpus").first.click()
    answer.locator(".occurrences li").first.wait_for()
    assert answer.locator(".occurrences li mark").count() == answer.locator(".occurrences li").count() == 10
    reader.picture("context")
    panel.locator("select").first.select_option("word2vec")  # asked again with the other model
    reader.wait()
    assert set(texts(answer.locator(".cell-number"))) == {"1.00"}


def test_attention(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("attention")
    panel.get_by_label("Text", exact=True).fill("The king loves his crown.")
    answer = reader.ask("look")
    heads = answer.locator(".head-button")
    assert heads.count() == 4
    assert all(ink(canvas) > 0.01 for canvas in answer.locator("canvas").all())
    heads.nth(1).click()
    assert answer.locator("h3").inner_text() == "Layer 1, head 2"
    answer.locator(".links .link-word[role=button] text").first.wait_for()
    assert heads.nth(1).get_attribute("aria-pressed") == "true"
    words = texts(answer.locator(".links .link-word[role=button] text"))
    assert [word for word in words if len(word) > 1][:3] == ["[CLS]", "The", "king"]
    answer.locator(".links .link-word[role=button]").nth(2).hover()
    lines = answer.locator(".threads path:visible")
    assert 0 < lines.count() <= len(words)
    assert "%" in answer.locator(".links .link-word[role=button]").nth(2).get_attribute("aria-label")
    answer.locator(".heat-map svg").hover()
    assert "→" in answer.locator(".readout").inner_text()
    reader.picture("attention")


def test_generate(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("generate")
    answer = reader.ask("continue")
    found = texts(answer.locator(".texts p"))
    assert len(found) == 3
    assert all(text.startswith("Once upon a time") for text in found)
    assert answer.locator(".tree .node.best").count() > 1
    kept = answer.locator(".tree .node").count()
    answer.get_by_label("Show what was dropped").check()
    assert answer.locator(".tree .node").count() > kept
    reader.picture("generate")
    panel.get_by_label("Beams (0: off)").fill("0")
    panel.get_by_label("How many").fill("2")
    answer = reader.ask("continue")
    assert answer.locator(".texts li").count() == 2
    assert answer.locator(".tree").count() == 0


def test_translate(visit: Visit) -> None:
    reader = visit()
    reader.tab("translate")
    answer = reader.ask("translate")
    found = texts(answer.locator(".candidate-text"))
    assert found[0] == "Ein kleiner Hund läuft durch den Garten."
    assert len(set(found)) == 3
    answer.locator(".heat-map").wait_for()
    names = texts(answer.locator(".heat-map text"))
    assert names[:7] == ["Ein", "kleiner", "Hund", "läuft", "durch", "den", "Garten"]  # pieces joined to words
    assert ink(answer.locator(".heat-map canvas")) > 0.02
    reader.picture("translate")
    with reader.page.expect_response("**/alignment"):
        answer.locator(".candidate").nth(1).click()
    assert answer.locator(".candidate").nth(1).get_attribute("aria-pressed") == "true"


def test_classify_one_text_or_two(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("classify")
    assert panel.get_by_label("Second text").is_hidden()
    answer = reader.ask("classify")
    assert {"good", "bad"} == set(texts(answer.locator(".bar-name")))
    assert sum(shares(answer)) == pytest.approx(100, abs=0.2)
    assert answer.locator(".statement").inner_text() == texts(answer.locator(".bar-name"))[0]
    reader.picture("classify")
    panel.locator("select").first.select_option("same")
    reader.wait()
    assert panel.get_by_label("Second text").is_visible()
    assert {"same", "other"} == set(texts(answer.locator(".bar-name")))


def test_tag(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("tag")
    text = "😀 Marie Curie was born in Paris ."
    panel.get_by_label("Text", exact=True).fill(text)
    answer = reader.ask("tag")
    rows = [texts(row.locator("td")) for row in answer.locator("tbody tr").all()]
    assert ["Marie Curie", "PER"] in [row[:2] for row in rows]
    for found, kind, place, _ in rows:  # characters are counted as Python counts them, also after an emoji
        start, end = map(int, place.split("–"))
        assert text[start:end] == found
        assert f"{found}{kind}" in [mark.replace("\n", "") for mark in texts(answer.locator("mark.kind"))]
    reader.picture("tag")


def test_answer(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("answer")
    panel.get_by_label("Question").fill("Where was the king born?")
    panel.get_by_label("Passage").fill("The king was born in Rome and loves his crown.")
    answer = reader.ask("answer")
    said = answer.locator(".statement").inner_text()
    assert texts(answer.locator(".reading mark")) == [said]
    second = answer.locator(".bars button").nth(1)
    second.click()
    assert texts(answer.locator(".reading mark")) == [second.inner_text().strip()]
    reader.picture("answer")


def test_layers(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("layers")
    assert texts(panel.locator("h2")) == ["mood"]
    assert texts(panel.locator(".bar-name")) == ["Tokens (0)", "Layer 1", "Layer 2"]
    assert sum(shares(panel)) == pytest.approx(100, abs=0.3)
    reader.picture("layers")


def test_runs_and_their_reports(visit: Visit, runs: list[Path]) -> None:
    reader = visit()
    panel = reader.tab("runs")
    panel.locator(".card").first.wait_for()
    assert texts(panel.locator("h2")) == [run.name for run in runs]
    curve = panel.get_by_role("img", name="Learning curve of bert")
    assert curve.locator("polyline").count() == 2
    curve.hover()
    assert ":" in curve.locator(".readout").text_content()
    assert "accuracy" in panel.inner_text()
    reader.picture("runs")
    with reader.page.context.expect_page() as opened:
        panel.get_by_role("link", name="Open the report").nth(1).click()
    assert opened.value.locator("h1").inner_text() == runs[1].name


def test_image(visit: Visit, runs: list[Path]) -> None:
    """An image is chosen; its labels, and the class token's attention over it: rolled out, then of one head."""
    reader = visit()
    panel = reader.tab("image")
    panel.locator("button.main").click()
    assert panel.locator(".error").inner_text() == "Choose a file first."
    path = sorted((runs[0].parent.parent / "images").rglob("*.png"))[0]
    panel.locator("input[type=file]").set_input_files(path)
    answer = reader.ask("image")
    answer.locator("canvas.photo").wait_for()
    assert shares(answer) == sorted(shares(answer), reverse=True)
    assert 99 < sum(shares(answer)) < 101
    assert answer.locator(".statement strong").inner_text() in ("rows", "columns")
    title = answer.locator("h3")
    assert title.inner_text() == "Rolled out over all layers"
    assert answer.locator(".head-button").count() == 4
    before = answer.locator("canvas.photo").evaluate("one => one.toDataURL()")
    answer.locator(".head-button").nth(1).click()
    assert title.inner_text() == "Layer 1, head 2"
    assert answer.locator("canvas.photo").evaluate("one => one.toDataURL()") != before
    answer.locator("footer.copy").get_by_role("button", name="curl", exact=True).click()
    assert f"--data-binary '@{path.name}'" in answer.locator("pre.code").inner_text()
    assert "/predict?model=bars" in answer.locator("pre.code").inner_text()
    reader.picture("image")
    panel.locator("input[type=file]").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": b"none"})
    assert "not a whole png" in reader.ask("image").locator(".error").inner_text()


def test_similar(visit: Visit) -> None:
    reader = visit()
    reader.tab("similar")
    answer = reader.ask("similar")
    assert ink(answer.locator("canvas").first) > 0.1
    assert len(texts(answer.locator(".sentences li"))) == 4
    reader.picture("similar")


def test_search(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("search")
    answer = reader.ask("search")
    found = texts(answer.locator(".passages li"))
    assert len(found) == 5
    assert all("words " in text and "cosine " in text for text in found)
    assert "king" in {text.lower() for text in texts(answer.locator("mark.word"))}
    assert answer.locator(".best").count() >= 5
    answer.locator("mark.said").first.wait_for()  # by the served answer tagger
    assert "Answer:" in answer.inner_text()
    reader.picture("search")
    panel.locator("summary").click()
    panel.get_by_label("Conditions").fill("year=1993")
    answer = reader.ask("search")
    assert texts(answer.locator(".passages strong"))[0] == "story 3"
    assert answer.locator(".passages > li").count() == 1
    panel.get_by_label("Conditions").fill("colour=red")
    reader.refused += 1
    answer = reader.ask("search")
    assert "no column 'colour'" in answer.inner_text()
