"""A real headless Chromium, and pages opened in it under watch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from orchestrator.core.records import SweepRecord
from orchestrator.report.formats.html import to_html
from tests.browser import samples
from tests.lacking import skip_here

NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Opened:
    """A page that is open, and what it said and asked for meanwhile."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Gone with the module: while Playwright is open, no other test may run an event loop."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        skip_here(f"none of {', '.join(NAMES)} is installed here: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=sandbox)
        yield running
        running.close()


def refuse(opened: Opened, box: Dialog) -> None:
    """Keep what an alert said, and close it."""
    opened.alerts.append(box.message)
    box.dismiss()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a record's report; keywords are those of a browser's context."""
    contexts = []

    def opened(record: SweepRecord, **settings: Any) -> Opened:
        file = tmp_path / "report.html"
        file.write_text(to_html(samples.summary(record)), encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.on("dialog", lambda box: refuse(found, box))
        found.page.goto(file.as_uri())
        if settings.get("java_script_enabled", True):
            found.page.wait_for_selector("html[data-drawn]", state="attached", timeout=120_000)
        return found

    yield opened
    for context in contexts:
        context.close()
