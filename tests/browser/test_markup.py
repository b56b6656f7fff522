"""Names, labels, texts and ids with mark-up that would run are shown as they are: in the page, in every report, in the topics
map and in the model card. The policy of the server is switched off, so that nothing but the escaping protects."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import markdown
import pytest
from browser_reader import Reader
from markdown_it import MarkdownIt

import firth
from firth.core.config import parse_settings
from firth.core.run import Run
from firth.data.labelled import TextExample
from firth.evaluation.compare.ranking import Outcome, Row, write_compare_report
from firth.evaluation.probe_report import ProbeResult, write_probe_report
from firth.reports.card import write_card

EVIL = "<img src=x onerror=alert(1)>\"'></script><script>alert(2)</script>"
WORD = '<img/src=x/onerror="alert(3)">'  # without a space
NAME = "<img src=x onerror=alert(4)>"  # without a slash
LINK = "[here](javascript:alert(5)) ![x](x) <javascript:alert(6)>"
INJECTED = "img[src='x'], [onerror], a[href^='javascript'], body script:not([src])"


@pytest.fixture(scope="session")
def hostile_runs(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("markup")
    pick = random.Random(1)
    rows = [f"{pick.choice(['good', 'bad'])} {EVIL} {number}\t{EVIL} {number % 2}" for number in range(40)]
    (folder / f"{NAME}.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    data, task = folder / f"{NAME}.tsv", folder / f"task {NAME}"
    firth.finetune("classify", base=run_folder, train=data, dev=data, out=task, epochs=1)
    words = folder / "words.txt"
    words.write_text("".join(f"{WORD} the old {WORD}{number % 5} dog\n" for number in range(200)), encoding="utf-8")
    firth.prepare(words, folder / "corpus", tokens="words", word_split="whitespace", layout="line", workers=1)
    vectors = folder / f"vectors {NAME}"
    settings = parse_settings(["dim=8", "min_count=1", "epochs=2", "threads=1"])
    firth.pretrain("word2vec", corpus=folder / "corpus", out=vectors, settings=settings)
    stories = [{"text": f"the dog {EVIL} {number}", "id": f"{EVIL} {number}", WORD: EVIL} for number in range(8)]
    (folder / "stories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in stories), encoding="utf-8")
    index = folder / f"index {NAME}"
    firth.index(folder / "stories.jsonl", index, model=vectors, id="id")
    return [vectors, task, index]


@pytest.fixture(scope="session")
def hostile_address(hostile_runs: list[Path], serve_runs: Callable[..., Any]) -> Iterator[str]:
    with serve_runs(hostile_runs) as found:
        yield found


Unguarded = Callable[[str], Reader]


@pytest.fixture
def unguarded(chromium: Any, tmp_path: Path) -> Iterator[Unguarded]:
    """Opens an address without its policy; nothing may run in it, and no element may come of a text."""
    opened: list[Reader] = []

    def visit(address: str) -> Reader:
        context = chromium.new_context(bypass_csp=True)
        context.set_default_timeout(20_000)
        page = context.new_page()
        opened.append(Reader(page, address, tmp_path))
        page.goto(address)
        return opened[-1]

    yield visit
    for reader in opened:
        assert reader.page.locator(INJECTED).count() == 0
        reader.page.context.close()
        assert reader.problems == []


def test_a_payload_would_run_here(chromium: Any, tmp_path: Path) -> None:
    """Otherwise the other tests would say nothing."""
    (tmp_path / "page.html").write_text(f"<!doctype html><title>x</title><p>{EVIL}", encoding="utf-8")
    page = chromium.new_context(bypass_csp=True).new_page()
    seen: list[str] = []
    page.on("dialog", lambda dialog: (seen.append(dialog.message), dialog.dismiss()))
    page.goto(f"file://{tmp_path}/page.html")
    page.wait_for_timeout(200)
    assert set(seen) == {"1", "2"}
    assert page.locator(INJECTED).count() >= 2
    page.context.close()


def test_the_page_shows_it_as_text(unguarded: Unguarded, hostile_address: str) -> None:
    reader = unguarded(hostile_address)
    seen = 0
    for name in reader.tabs:
        panel = reader.tab(name)
        reader.wait()
        for field in panel.locator(".tool:visible textarea, .tool:visible input[type=text]").all():
            if field.is_visible():
                field.fill(EVIL if name not in ("words", "similar") else WORD)
        for tool in panel.locator(".tool:visible:has(form.question)").all():
            answer = reader.ask(tool.get_attribute("id").removeprefix("tool-"))
            seen += "onerror" in answer.inner_text()
        assert reader.page.locator(INJECTED).count() == 0, name
    assert seen >= 4
    assert "onerror" in reader.tab("runs").inner_text()
    assert "onerror" in reader.page.locator("body").inner_text()


def test_routes_and_reports_of_the_server(unguarded: Unguarded, hostile_address: str, hostile_runs: list[Path]) -> None:
    reader = unguarded(hostile_address)
    reader.open("docs")
    models = reader.page.request.get(f"{hostile_address}/models")
    assert models.headers["content-type"].startswith("application/json")
    assert models.headers["x-content-type-options"] == "nosniff"
    for run in hostile_runs[:2]:
        reader.page.goto(f"{hostile_address}/runs/{run.name.replace('<', '%3C').replace('>', '%3E')}/report")
        assert reader.page.locator("h1").inner_text() == run.name
        assert reader.page.locator(INJECTED).count() == 0
    reader.page.goto(f"{hostile_address}/runs/%3Cimg%20src=x%20onerror=alert(1)%3E/report")
    assert "no report" in reader.page.locator("body").inner_text()


def _comparison(folder: Path) -> Path:
    rows = tuple(
        Row(f"{EVIL} {number}", "trained", (0.5 + number / 10,), 0.1, 0.9, layer_weights=(0.5, 0.5), folder=NAME)
        for number in range(2)
    )
    examples = [TextExample(f"{EVIL} {number}", None, EVIL) for number in range(3)]
    guesses: Any = {row.name: [{"text": EVIL, "label": f"{EVIL}!", "probabilities": {EVIL: 0.6}}] * 3 for row in rows}
    outcome = Outcome("classify", "accuracy", "dev", 3, 3, EVIL, 1, rows)
    folder.mkdir()
    write_compare_report(folder, outcome, examples, guesses)
    return folder / "report.html"


def _probe(folder: Path) -> Path:
    found: ProbeResult = {
        "kind": EVIL,
        "rows": [{"name": EVIL, "layers": [0.1, 0.2], "reference": {EVIL: 0.3}}],
        "notes": [EVIL],
    }
    folder.mkdir()
    return write_probe_report(folder, EVIL, found)


def test_reports_as_files(unguarded: Unguarded, hostile_runs: list[Path], tmp_path: Path) -> None:
    """Of runs, comparisons, probes and topics; opened from the disk there is no policy at all."""
    topics = tmp_path / "map.html"
    firth.topics(hostile_runs[1].parent / f"{NAME}.tsv", hostile_runs[0], out=topics)
    pages = [run / "report.html" for run in hostile_runs[:2]]
    pages += [topics, _comparison(tmp_path / NAME), _probe(tmp_path / "probe")]
    reader = unguarded(pages[0].as_uri())
    reader.address = "file://"
    for path in pages:
        reader.page.goto(path.as_uri())
        assert "onerror" in reader.page.locator("body").text_content(), path
        assert reader.page.locator(INJECTED).count() == 0, path


@pytest.mark.parametrize("name", [NAME, LINK, f"`{NAME}`", f"{NAME}\n\n```\n{NAME}\n", f"| {NAME} |"])
def test_model_cards(name: str, unguarded: Unguarded, hostile_runs: list[Path], tmp_path: Path) -> None:
    """As pages by two renderers that let HTML pass."""
    record = Run.open(hostile_runs[0]).record
    assert record.corpus is not None
    record = record.replace(
        base=name,
        recipe=name,
        metrics={name: 1.0},
        corpus=record.corpus.replace(path=f"x/{name}"),
        uses=("fill {name}",),
    )
    folder = tmp_path / name
    folder.mkdir()
    write_card(Run(folder, record))
    card = (folder / "README.md").read_text(encoding="utf-8")
    pages = [
        MarkdownIt("commonmark", {"html": True}).enable("table").render(card),
        markdown.markdown(card, extensions=["fenced_code", "tables"]),
    ]
    for number, page in enumerate(pages):
        path = tmp_path / f"card-{number}.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><title>card</title>{page}", encoding="utf-8")
        reader = unguarded(path.as_uri())
        assert "alert(" in reader.page.locator("body").inner_text()
