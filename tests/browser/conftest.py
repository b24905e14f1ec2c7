"""A headless Chromium, and pages in it whose messages and requests are recorded."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from orchestrator.analysis.summary import summarise
from orchestrator.core.records import SweepRecord
from orchestrator.report.render import render
from tests.commands import Command
from tests.lacking import skip_here

PATIENCE_MS = 120_000
"""What a busy machine may take for a step."""

NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class WatchedPage:
    """An open page with its console messages, requests and alerts."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)


Open = Callable[..., WatchedPage]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser per module, since no other test may run an event loop while Playwright is open."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        skip_here(f"none of {', '.join(NAMES)} is installed here: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=sandbox, timeout=PATIENCE_MS)
        yield running
        running.close()


def refuse(watched: WatchedPage, box: Dialog) -> None:
    watched.alerts.append(box.message)
    box.dismiss()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a record's report; keywords configure the browser's context."""
    contexts = []

    def opened(record: SweepRecord, **settings: Any) -> WatchedPage:
        file = tmp_path / "report.html"
        file.write_text(render(summarise(record), "html"), encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        watched = WatchedPage(context.new_page())
        watched.page.on("console", lambda message: watched.messages.append(message.text))
        watched.page.on("pageerror", lambda error: watched.messages.append(str(error)))
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("dialog", lambda box: refuse(watched, box))
        watched.page.goto(file.as_uri())
        watched.page.wait_for_selector("html[data-drawn]", state="attached")
        return watched

    yield opened
    for context in contexts:
        context.close()


def printed_link(ui: Command, sweep: str) -> str:
    """Return the link to the sweep's trials that `rnnsweep ui` has printed, or ""."""
    lines = [line for line in ui.printed(1).splitlines() if "viewStateShareKey" in line]
    assert ui.running, ui.printed()
    return next((line.split()[1] for line in lines if line.split()[0] == sweep), "")
