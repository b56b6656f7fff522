"""What holds for the whole page: keys, addresses, errors, tokens, languages, colours, widths, what is copied."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_reader import Reader
from more_runs import MoreRuns

Visit = Callable[..., Reader]
TABS = "words fill context similar search attention generate translate classify label tag answer image tokens layers runs".split()
TOKEN = "a-long-secret"
SLIPS = re.compile(r"\b(false|true|null|undefined|NaN|\[object)\b")  # of a script that shows what it should not


def copied(reader: Reader, answer: Any, way: str) -> str:
    answer.locator("footer.copy").last.get_by_role("button", name=way, exact=True).click()
    answer.get_by_text("Copied.").wait_for()
    text: str = reader.page.evaluate("navigator.clipboard.readText()")
    assert text == answer.locator("pre.code").inner_text()
    return text


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "copied", "exec"), {})
    return out.getvalue()


def test_what_is_copied_runs(visit: Visit, runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    reader = visit()
    panel = reader.tab("fill")
    panel.get_by_label("Text with a blank").fill('It\'s the [MASK] of the "king" \\ 国王')
    answer = reader.ask("guess")
    best = answer.locator(".bar-name").first.inner_text()
    monkeypatch.chdir(runs[0].parent)
    assert f"token='{best}'" in printed(copied(reader, answer, "Python"))
    assert f"'token': '{best}'" in printed(copied(reader, answer, "Python, HTTP"))
    command = copied(reader, answer, "curl")
    if shutil.which("curl"):
        found = subprocess.run(["bash", "-c", command], capture_output=True, check=True, timeout=60).stdout
        assert json.loads(found)["masks"][0][0]["token"] == best


def test_library_code_of_every_tab_runs(visit: Visit, runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    reader = visit()
    monkeypatch.chdir(runs[0].parent)
    seen = 0
    for name in (*TABS[:9], "tokens"):
        panel = reader.tab(name)
        for tool in panel.locator(".tool:visible:has(form.question)").all():
            answer = reader.ask(tool.get_attribute("id").removeprefix("tool-"))
            if tool.get_attribute("id") in ("tool-topics", "tool-duplicates"):  # of an index only over HTTP
                continue
            button = answer.locator("footer.copy").first.get_by_role("button", name="Python", exact=True)
            button.click()
            assert printed(answer.locator("pre.code").first.inner_text()).strip()
            seen += 1
    assert seen == 12


def test_tabs_by_keys(visit: Visit) -> None:
    reader = visit()
    assert reader.tabs == TABS
    keys = reader.page.keyboard
    reader.page.locator("#tab-words").focus()
    for key, wanted in [
        ("ArrowDown", "fill"),
        ("ArrowRight", "context"),
        ("ArrowUp", "fill"),
        ("End", "runs"),
        ("ArrowDown", "words"),
        ("ArrowLeft", "runs"),
        ("Home", "words"),
    ]:
        keys.press(key)
        focused = reader.page.evaluate("document.activeElement.id")
        assert focused == f"tab-{wanted}"
        assert reader.page.locator(f"#panel-{wanted}").is_visible()
        assert reader.page.locator("[role=tab][tabindex='0']").count() == 1
    outline = reader.page.locator("#tab-words").evaluate("tab => getComputedStyle(tab).outlineStyle")
    assert outline == "solid"
    reader.page.locator("#tool-nearest input[type=text]").press("Enter")
    reader.page.locator("#tool-nearest .bars").wait_for()
    reader.page.locator("#tool-map textarea").press("Control+Enter")
    reader.page.locator("#tool-map svg").wait_for()


def settled(answer: Any) -> str:
    """What an answer says once its parts have come."""
    answer.get_by_text("One moment").first.wait_for(state="detached")
    return str(answer.inner_text())


def test_the_address_holds_the_view(visit: Visit) -> None:
    reader = visit()
    reader.tab("classify")
    panel = reader.page.locator("#panel-classify")
    panel.locator("select").first.select_option("same")
    panel.get_by_label("Text", exact=True).fill("The dog barked & ran #1 + 国王")
    panel.get_by_label("Second text").fill("A dog runs.")
    wanted = settled(reader.ask("classify"))
    other = visit(reader.page.url.removeprefix(reader.address).lstrip("/"))
    answer = other.page.locator("#tool-classify .answer")
    answer.locator(".bars").wait_for()
    assert settled(answer) == wanted
    panel = other.page.locator("#panel-classify")
    assert panel.locator("select").first.input_value() == "same"
    assert panel.get_by_label("Text", exact=True).input_value() == "The dog barked & ran #1 + 国王"
    other.tab("runs")
    other.page.go_back()
    panel.wait_for()
    assert panel.is_visible()


def test_errors_stand_in_their_place(visit: Visit) -> None:
    reader = visit()
    evil = "<img src=x onerror=alert(1)>"
    reader.page.locator("#tool-nearest input[type=text]").fill(evil)
    error = reader.ask("nearest").get_by_role("alert")
    assert evil in error.inner_text()  # as text
    assert reader.page.locator("main img").count() == 0
    assert reader.refused >= 1  # what is typed is asked, too
    reader.page.locator("#tool-nearest input[type=text]").fill("king")
    assert reader.ask("nearest").get_by_role("alert").count() == 0
    reader.page.context.set_offline(True)
    reader.page.locator("#tool-nearest button.main").click()
    reader.page.get_by_text("The server does not answer").wait_for()


def test_a_token_is_asked_for_and_kept(visit: Visit, guarded_address: str) -> None:
    reader = visit(at=guarded_address)
    field = reader.page.locator(".token input")
    field.fill("wrong")
    field.press("Enter")
    reader.page.get_by_text("did not accept this token").wait_for()
    reader.page.locator(".token input").fill(TOKEN)
    reader.page.get_by_role("button", name="Use it").click()
    answer = reader.ask("nearest")
    code = copied(reader, answer, "Python, HTTP")
    assert TOKEN not in code
    assert "FIRTH_TOKEN" in code
    with reader.page.expect_download() as saved:
        reader.tab("runs").get_by_role("link", name="Report").click()
    assert "<h1>word2vec</h1>" in Path(saved.value.path()).read_text(encoding="utf-8")
    reader.page.reload()
    assert reader.tabs[0] == "words"  # not asked again


@pytest.mark.parametrize("task", ["classify", "tag", "answer"])
def test_a_run_for_a_task_is_met_at_its_task(visit: Visit, task: str) -> None:
    reader = visit()

    def task_first(route: Any) -> None:
        found = route.fetch()
        models = sorted(found.json()["models"], key=lambda model: model["task"] != task)
        route.fulfill(response=found, json={"models": models})

    assert reader.page.locator("[role=tab][aria-selected=true]").get_attribute("id") == "tab-words"
    reader.page.route("**/models", task_first)
    reader.page.goto(f"{reader.address}/?again")
    assert reader.page.locator("[role=tab][aria-selected=true]").get_attribute("id") == f"tab-{task}"


LOOKS = [(width, dark) for width in (1400, 800, 400) for dark in (False, True)]
KEPT = {(1400, False, "en"), (800, True, "en"), (400, True, "zh")}  # as pictures


def test_every_tab_shows_an_example_at_once(visit: Visit) -> None:
    """In both languages, at three widths and in both themes: there is something to see without a click, nothing slips, nothing is
    wider than the window, and the audit finds nothing."""
    reader = visit(width=1400)
    for lang in ("en", "zh"):
        if lang == "zh":
            reader.page.get_by_role("button", name="中文").click()
            reader.page.goto(f"{reader.address}/?again")
        for name in reader.tabs:
            panel = reader.tab(name)
            reader.wait()
            panel.locator(".answer > *:not(.hint), tbody tr, .card").first.wait_for()
            assert panel.locator(".error").count() == 0, name
            assert any("一" <= letter <= "鿿" for letter in panel.locator("h1").inner_text()) == (lang == "zh")
            for width, dark in LOOKS:
                where = f"{name}-{width}-{'dark' if dark else 'light'}-{lang}"
                reader.page.set_viewport_size({"width": width, "height": 900})
                reader.page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
                reader.page.locator(f"#tab-{name}").click()  # brings it into view
                reader.wait()
                assert not SLIPS.search(panel.inner_text()), where
                assert reader.overflow == 0, where
                assert reader.audit() == [], where
                box = reader.page.locator(f"#tab-{name}").bounding_box()
                assert box["x"] >= 0, where
                assert box["x"] + box["width"] <= width, where
                ground = reader.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
                assert (max(int(part) for part in ground[4:-1].split(",")) < 60) == dark
                if (width, dark, lang) in KEPT:
                    reader.picture(where)


@pytest.mark.parametrize(("lang", "which"), [("zh-CN", "english"), ("en-GB", "chinese")])
def test_examples_are_in_the_language_of_the_model(
    visit: Visit, more_runs: MoreRuns, serve_runs: Callable[..., Any], lang: str, which: str
) -> None:
    """A page in one language with models that read only the other one: every tab opens with an example that they know."""
    with serve_runs(getattr(more_runs, which)) as address:
        reader = visit(at=address, lang=lang)
        assert len(reader.tabs) >= 10
        for name in reader.tabs:
            panel = reader.tab(name)
            reader.wait()
            panel.locator(".answer > *:not(.hint), tbody tr, .card").first.wait_for()
            assert panel.locator(".error").count() == 0, name
            assert not SLIPS.search(panel.inner_text()), name
            for field in panel.locator(".tool textarea:visible, .tool input[type=text]:visible").all():
                said = field.input_value()
                if said:  # a second text may stay empty
                    assert any("一" <= letter <= "鿿" for letter in said) == (which == "chinese"), (name, said)
        first = reader.tab("fill").locator("textarea").first.input_value()
        assert "[MASK]" in first


def test_reports_are_legible_everywhere(visit: Visit, runs: list[Path]) -> None:
    """Reports of all kinds, in turn on a desk in English and on a phone in Chinese, with the same design and no script."""
    wide, narrow = visit(width=1400), visit(width=400, dark=True)
    found = [run for run in runs if (run / "report.html").is_file()]
    assert len(found) >= 8
    for number, run in enumerate(found):
        reader, place = (narrow, "#zh") if number % 2 else (wide, "")
        reader.open(f"runs/{run.name}/report{place}")
        assert reader.page.locator("h1").inner_text() == run.name
        assert reader.overflow == 0, run.name
        assert reader.audit() == [], run.name
        first = reader.page.locator("h2").first.inner_text()
        assert any("一" <= letter <= "鿿" for letter in first) == bool(place), first
        reader.picture(f"report-{run.name}")


def test_reports_of_other_kinds(visit: Visit, more_runs: MoreRuns) -> None:
    """Of a comparison, a probe, ELMo and GloVe, opened from the disk in both languages and at two widths."""
    wide, narrow = visit(width=1400), visit(width=400, dark=True)
    for path in more_runs.reports:
        for reader, place in ((wide, ""), (narrow, "#zh"), (narrow, ""), (wide, "#zh")):
            reader.address = "file://"
            reader.page.goto("about:blank")
            reader.page.goto(f"{path.as_uri()}{place}")
            assert reader.page.locator("h1").count() == 1
            assert reader.overflow == 0, path
            assert reader.audit() == [], path
            first = reader.page.locator("h2").first.inner_text()
            assert any("一" <= letter <= "鿿" for letter in first) == bool(place), (path, first)
            reader.picture(
                f"report-{path.parent.name}-{'wide' if reader is wide else 'narrow'}-{'zh' if place else 'en'}"
            )


def test_the_page_is_light_and_strict(visit: Visit) -> None:
    """All files together, without fonts from elsewhere, and no script or style but the server's own."""
    reader = visit()
    sizes: list[int] = []
    reader.page.on(
        "response", lambda response: sizes.append(len(response.body())) if "/static/" in response.url else None
    )
    reader.page.reload()
    reader.wait()
    assert 0 < sum(sizes) < 400_000
    policy = reader.page.request.get(f"{reader.address}/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert all(
        part.split()[1:] == ["'self'"] for part in policy.split("; ") if part.startswith(("script", "style", "font"))
    )


def test_what_is_typed_is_answered(visit: Visit) -> None:
    reader = visit()
    field = reader.page.locator("#tool-nearest input[type=text]")
    reader.page.locator("#tool-nearest .bars").wait_for()
    before = reader.page.locator("#tool-nearest .bar-name").first.inner_text()
    field.fill("dog")
    reader.page.wait_for_url("**word=dog**")
    reader.wait()
    assert reader.page.locator("#tool-nearest .bar-name").first.inner_text() != before
    field.fill("")
    reader.page.wait_for_timeout(400)
    assert reader.page.locator("#tool-nearest .error").count() == 0  # nothing is asked of an empty field


@pytest.mark.parametrize("lang", ["en-GB", "zh-CN"])
def test_tabs_lead_to_the_manual(visit: Visit, lang: str) -> None:
    """Every link of every tab leads to a page of the manual in the page's language, which needs no network and no script."""
    reader = visit(lang=lang)
    links = []
    for name in reader.tabs:
        panel = reader.tab(name)
        panel.locator("details.how summary").click()
        found = panel.locator("details.how a")
        assert found.count() >= 1, name
        links += [link.get_attribute("href") for link in found.all()]
    for link in sorted(set(links)):
        assert link.endswith(".zh") == (lang == "zh-CN")
        reader.open(link)
        assert reader.page.locator("h1").count() == 1, link
        assert reader.overflow == 0, link
        for picture in reader.page.locator("img").all():
            assert picture.evaluate("one => one.complete && one.naturalWidth > 0"), link
    reader.open("manual/story/08-bert")
    reader.page.get_by_role("link", name="中文").click()
    assert reader.page.url.endswith("/manual/story/08-bert.zh")
    reader.page.wait_for_load_state()
    assert reader.audit() == []


def test_text_streams(visit: Visit) -> None:
    """A long answer is there in parts before it is whole."""
    reader = visit()
    found = reader.page.request.post(
        f"{reader.address}/generate", data={"text": "The king", "max_tokens": 40, "num": 2, "seed": 1, "stream": True}
    )
    lines = [json.loads(line) for line in found.text().splitlines()]
    assert lines[-1]["done"]
    assert len(lines) > 1
    assert set(lines[0]["partial"]) <= {"0", "1"}
    whole = reader.page.request.post(
        f"{reader.address}/generate", data={"text": "The king", "max_tokens": 40, "num": 2, "seed": 1}
    )
    assert whole.json()["continuations"] == lines[-1]["continuations"]


def test_switches(visit: Visit) -> None:
    reader = visit()
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = reader.page.evaluate(colour)
    reader.page.get_by_role("button", name="Dark").click()
    assert reader.page.evaluate(colour) != light
    field = reader.page.locator("#tool-nearest input[type=text]")
    assert field.input_value() == "king"
    reader.page.locator("#tool-analogy input[type=text]").first.fill("boy")
    reader.page.get_by_role("button", name="中文").click()
    assert reader.page.locator("h1").first.inner_text() == "词语"
    assert field.input_value() == "国王"  # an example that nobody changed
    assert reader.page.locator("#tool-analogy input[type=text]").first.input_value() == "boy"
    reader.page.reload()
    assert reader.page.locator("h1").first.inner_text() == "词语"  # both are kept
    assert reader.page.evaluate(colour) != light


def test_both_languages_have_the_same_words(visit: Visit) -> None:
    reader = visit()
    keys = reader.page.evaluate(
        """Promise.all([import("/static/words/en.js"), import("/static/words/zh.js")]).then(
            ([one, other]) => [Object.keys(one.en), Object.keys(other.zh)])"""
    )
    assert keys[0] == keys[1]
