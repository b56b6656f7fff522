"""Every tab as a person uses it, in a real browser."""

import csv
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
    return [float(text.rstrip("%").lstrip("<")) for text in texts(answer.locator(".bar-value"))]


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

    panel.get_by_label("Words, separated by spaces or commas").fill("king, queen dog cat、zzzz")
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
    assert panel.locator("select").first.input_value() == "bert"
    panel.get_by_label("Sentence").fill("She sat on the bank of the river and read.")
    panel.get_by_label("Word").fill("bank")
    answer = reader.ask("near")
    assert texts(answer.locator(".layer h3")) == ["Tokens (0)", "Layer 1", "Layer 2"]
    first = texts(answer.locator(".layer").first.locator(".near-word"))
    assert len(first) == len(set(first)) == 5
    answer.locator(".layer summary").first.click()
    assert answer.locator(".layer mark").first.is_visible()
    mixes = panel.locator(".card")
    assert texts(mixes.locator("h3")) == ["mood"]
    assert texts(mixes.locator(".bar-name")) == ["Tokens (0)", "Layer 1", "Layer 2"]
    assert sum(shares(mixes)) == pytest.approx(100, abs=0.3)
    reader.picture("layers")


def test_runs_are_sorted_filtered_and_compared(visit: Visit, runs: list[Path]) -> None:
    reader = visit()
    panel = reader.tab("runs")
    panel.locator("tbody tr").first.wait_for()
    named = panel.locator("table.runs tbody strong")
    assert texts(named) == sorted(run.name for run in runs)
    panel.get_by_role("button", name="On disk").click()
    order = texts(named)
    assert panel.locator("th[aria-sort=descending]").inner_text().startswith("On disk")
    panel.get_by_role("button", name="On disk").click()
    assert texts(named) == order[::-1]
    panel.get_by_label("Filter").fill("gpt")
    assert texts(named) == ["gpt"]
    panel.get_by_label("Filter").fill("")
    while panel.locator("input[type=checkbox]:checked").count():
        panel.locator("input[type=checkbox]:checked").first.click()
    assert "Select runs in the table" in panel.inner_text()
    panel.get_by_label("Compare bert", exact=True).check()
    panel.get_by_label("Compare gpt", exact=True).check()
    drawn = panel.get_by_role("img", name="Curves of the chosen runs")
    drawn.locator("polyline").nth(1).wait_for(state="attached")
    assert drawn.locator("polyline").count() == 2
    drawn.hover()
    assert ":" in drawn.locator(".readout").text_content()
    differ = panel.locator(".below table").first
    assert "model.hidden_dim" not in differ.inner_text()  # the same in both
    assert "recipe" in texts(differ.locator("tbody th"))
    panel.get_by_label("Quantity").select_option("learning_rate")
    assert panel.get_by_role("img", name="learning rate").count() == 1
    reader.picture("runs")
    with reader.page.context.expect_page() as opened:
        panel.locator("tr", has_text="gpt").get_by_role("link", name="Report").first.click()
    assert opened.value.locator("h1").inner_text() == "gpt"
    opened.value.get_by_role("link", name="中文").click()
    assert opened.value.locator("h2").first.inner_text() == "损失"


def test_a_training_is_watched(visit: Visit) -> None:
    """What the page shows of a run that is under way; the server's answer is made up here, so that nothing has to be timed."""
    reader = visit()
    steps = [4]

    def training(route: Any) -> None:
        found = route.fetch()
        rows = found.json()["runs"]
        curve = [{"step": step, "loss": 9.0 - step / 9, "learning_rate": 0.001} for step in range(1, steps[0] + 1)]
        row = next(dict(row) for row in rows if row["name"] == "bert")
        row |= {"name": "new", "status": "training", "step": steps[0], "steps": 50, "curve": curve}
        row["samples"] = [f"the [dog] barked at step {steps[0]}"]
        steps[0] += 10
        route.fulfill(response=found, json={"runs": [*rows, row]})

    reader.page.route("**/runs", training)
    panel = reader.tab("runs")
    panel.get_by_text("step 4 of 50").wait_for()
    assert panel.get_by_role("img", name="Learning curve of new").locator("polyline").count() == 1
    assert "the [dog] barked at step 4" in panel.inner_text()
    panel.get_by_text("step 14 of 50").wait_for()  # asked again by itself
    reader.picture("training")


def test_errors_of_a_classifier(visit: Visit) -> None:
    reader = visit()
    panel = reader.tab("classify")
    cells = panel.locator("#tool-confusion button.cell")
    cells.first.wait_for()
    assert sum(int(text) for text in texts(cells)) == 8
    assert "of 8 examples" in panel.locator("#tool-confusion").inner_text()
    assert "Only 8 examples" in panel.locator("#tool-confusion").inner_text()
    cells.and_(panel.locator(":enabled")).first.click()
    text = panel.locator("#tool-confusion .occurrences button").first
    said = text.inner_text()
    text.click()
    reader.wait()
    assert panel.get_by_label("Text", exact=True).input_value() == said
    marked = panel.locator("#tool-classify mark.adds")
    assert marked.count() >= 6  # every word of the text
    assert "What speaks for" in panel.locator("#tool-classify").inner_text()


def test_a_table_is_scored_and_given_back(visit: Visit, tmp_path: Path) -> None:
    reader = visit()
    panel = reader.tab("classify")
    table = tmp_path / "films.csv"
    rows = ["id,text", '1,"A wonderful film, ""great"" fun."', "2,A terrible film.", "3,Best."]
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    section = panel.locator("#tool-table")
    section.locator("input[type=file]").set_input_files(table)
    section.get_by_text("3 rows", exact=True).wait_for()
    with reader.page.expect_download() as saved:
        section.get_by_role("button", name="Save the scored table").click()
    assert saved.value.suggested_filename == "films-scored.csv"
    with open(saved.value.path(), encoding="utf-8", newline="") as handle:
        found = list(csv.reader(handle))
    assert found[0] == ["id", "text", "predicted", "probability"]
    assert found[1][1] == 'A wonderful film, "great" fun.'
    assert {row[2] for row in found[1:]} <= {"good", "bad"}
    assert all(0.5 <= float(row[3]) <= 1 for row in found[1:])
    reader.picture("table")


def test_labelling(visit: Visit, tmp_path: Path) -> None:
    reader = visit()
    panel = reader.tab("label")
    panel.get_by_text("of 4 ·").wait_for()  # the distinct dev examples
    pool = tmp_path / "pool.txt"
    pool.write_text("A wonderful film.\nA terrible film.\nA film.\n", encoding="utf-8")
    panel.locator("input[type=file]").set_input_files(pool)
    panel.get_by_text("1 of 3 ·").wait_for()
    first = panel.locator(".reading").inner_text()
    panel.locator("button.label").nth(1).click()
    panel.get_by_text("2 of 3 ·").wait_for()
    reader.page.keyboard.press("1")
    panel.get_by_text("3 of 3 ·").wait_for()
    reader.page.keyboard.press("u")
    reader.page.keyboard.press("2")
    with reader.page.expect_download() as saved:
        panel.get_by_role("button", name="Save labelled.tsv").click()
    lines = Path(saved.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "text\tlabel"
    assert lines[1] == f"{first}\tgood"
    assert len(lines) == 3
    assert lines[2].endswith("\tgood")
    reader.picture("label")


def test_labels_go_to_the_table_of_the_server(
    visit: Visit, runs: list[Path], serve_runs: Callable[..., Any], tmp_path: Path
) -> None:
    """Appended, and no longer kept in the browser."""
    table, pool = tmp_path / "mine.tsv", tmp_path / "pool.txt"
    pool.write_text("A wonderful film.\nA terrible film.\n", encoding="utf-8")
    served = [run for run in runs if (run / "dev.jsonl").is_file()]
    with serve_runs(served, "--labels", str(table)) as address:
        panel = visit(at=address).tab("label")
        panel.locator("input[type=file]").set_input_files(pool)
        panel.get_by_text("1 of 2 ·").wait_for()
        panel.locator("button.label").nth(1).click()
        panel.get_by_role("button", name="Append to mine.tsv").click()
        panel.get_by_text("Appended to mine.tsv: 1.").wait_for()
        panel.get_by_text("0 labelled").wait_for()
    lines = table.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "text\tlabel"
    assert lines[1].endswith("film.\tgood")
    assert len(lines) == 2


def test_image(visit: Visit, runs: list[Path]) -> None:
    """One of the corpus at once; then an image is chosen: its labels, and the class token's attention over it: rolled out, then
    of one head."""
    reader = visit()
    panel = reader.tab("image")
    panel.locator("canvas.photo").wait_for()
    assert "From the corpus of the run." in panel.locator(".answer").inner_text()
    assert panel.locator("footer.copy").count() == 0  # there is no such file
    assert "none chosen" in panel.inner_text()
    path = sorted((runs[0].parent.parent / "images").rglob("*.png"))[0]
    panel.locator("input[type=file]").set_input_files(path)
    assert path.name in panel.inner_text()
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

    def sure(route: Any) -> None:  # the answer tagger is too small to be sure; less probable answers are not marked
        found = route.fetch()
        predictions = found.json()["predictions"]
        for one in predictions:
            one |= {"answer": "born", "start": 13, "end": 17, "best": [{"answer": "born", "probability": 0.9}]}
        route.fulfill(response=found, json={"predictions": predictions})

    reader.page.route("**/predict", sure)
    panel = reader.tab("search")
    panel.get_by_label("Question").fill("Where was the king born?")
    answer = reader.ask("search")
    found = texts(answer.locator(".passages li"))
    assert len(found) == 5
    assert all("words " in text and "cosine " in text for text in found)
    assert "king" in {text.lower() for text in texts(answer.locator("mark.word"))}
    assert answer.locator(".best").count() >= 5
    answer.locator("mark.said").first.wait_for()  # by the served answer tagger
    assert "Answer:" in answer.inner_text()
    reader.picture("search")
    panel.locator("#tool-search .more summary").click()
    panel.get_by_label("Conditions").fill("year=1993")
    answer = reader.ask("search")
    assert texts(answer.locator(".passages strong"))[0] == "story 3"
    assert answer.locator(".passages > li").count() == 1
    panel.get_by_label("Conditions").fill("colour=red")
    reader.refused += 1
    answer = reader.ask("search")
    assert "no column 'colour'" in answer.inner_text()
