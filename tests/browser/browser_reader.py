"""Somebody who reads the page: opens tabs, types, presses, looks. Keeps what went wrong meanwhile."""

from pathlib import Path
from typing import Any


class Reader:
    """``problems`` are errors in the console, errors of scripts, dialogs, and requests to other places."""

    def __init__(self, page: Any, address: str, screenshots: Path) -> None:
        self.page, self.address, self.screenshots = page, address, screenshots
        self.problems: list[str] = []
        self.refused = 0  # answers with an error that the test asked for; browsers tell the console of each
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", self._see)

    def _hear(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        if message.text.startswith("Failed to load resource"):
            self.refused += 1
            return
        self.problems.append(f"console: {message.text}")

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.address, "blob:")):
            self.problems.append(f"a request elsewhere: {request.url}")

    def open(self, place: str = "") -> None:
        self.page.goto(f"{self.address}/{place}")

    @property
    def tabs(self) -> list[str]:
        """Their ids."""
        self.page.locator("[role=tab]").first.wait_for()
        return [tab.get_attribute("id").removeprefix("tab-") for tab in self.page.locator("[role=tab]").all()]

    def tab(self, name: str) -> Any:
        """Clicks on a tab; its panel."""
        self.page.locator(f"#tab-{name}").click()
        return self.page.locator(f"#panel-{name}")

    def ask(self, tool: str) -> Any:
        """Presses the button of a question; the place of its answer, when it is there."""
        place = self.page.locator(f"#tool-{tool}")
        place.locator("button.main").click()
        answer = place.locator(".answer")
        answer.locator("footer.copy, .error").first.wait_for()
        self.wait()
        return answer

    def wait(self) -> None:
        """Until nothing is under way and everything is drawn: charts wait to hear how wide they are."""
        self.page.locator(".busy, .waiting").first.wait_for(state="detached")
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def ask_everything(self, panel: Any) -> None:
        for tool in panel.locator(".tool:visible:has(form.question)").all():
            self.ask(tool.get_attribute("id").removeprefix("tool-"))

    @property
    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return width

    def audit(self) -> list[str]:
        """What is amiss for those who hear the page, use keys or see little."""
        found: list[str] = self.page.evaluate((Path(__file__).parent / "audit.js").read_text(encoding="utf-8"))
        return found

    def picture(self, name: str) -> None:
        self.page.evaluate("scrollTo(0, 0)")
        self.page.screenshot(path=self.screenshots / f"{name}.png", full_page=True)
