"""The page that `rnnsweep report --serve` serves, in a browser, while its sweep runs."""

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS
from tests.commands import wait_for
from tests.integration.sweeping import Home

pytestmark = pytest.mark.full

WORKLOAD = """
import time
from pathlib import Path

def run(trial):
    slow_s = {"fast": 4.0, "slow": 8.0}[trial.implementation.kernel]
    with trial.phase("train"):
        time.sleep(0.01 if Path(trial.settings["hurry"]).exists() else slow_s)
    return {"loss": 1 / trial.settings["units"]}
"""
SPEC = """
name: live
workload: waiting:run
settings: {{hurry: {hurry}}}
search:
  configs: [{{units: 8}}, {{units: 16}}, {{units: 24}}, {{units: 32}}, {{units: 40}}, {{units: 48}}]
  objectives: {{loss: minimize}}
arms: {{implementations: [python/fast, python/slow], hardware: [cpu]}}
repeats: 2
"""


def version(page: Page) -> int:
    return int(page.locator("#live").get_attribute("data-version") or 0)


def test_the_page_follows_a_running_sweep_and_keeps_the_filters(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "waiting.py").write_text(WORKLOAD)
    spec = tmp_path / "live.yaml"
    hurry = tmp_path / "hurry"  # until it exists, the sweep takes more than a minute
    spec.write_text(SPEC.format(hurry=hurry))
    home, messages = Home(tmp_path / "home"), list[str]()
    with home.running("run", spec) as sweep:
        sweep.until("1/24")
        with home.running("report", "live", "--serve") as server:
            wait_for(lambda: "http" in server.printed() or not server.running)
            (address,) = re.findall(r"http://\S+", server.printed(1))
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(PATIENCE_MS)
            page.on("console", lambda message: messages.append(message.text))
            page.on("pageerror", lambda error: messages.append(str(error)))
            page.goto(address)
            expect(page.locator("#live-running li")).to_contain_text("block")
            expect(page.locator("#live-state")).to_contain_text("running")
            first = version(page)
            wait_for(lambda: version(page) > first, every_s=0.2)

            # while a filter is typed, the page waits; afterwards it has the filter again
            page.get_by_label("units from").fill("12")
            expect(page.locator("#live-new")).to_be_visible()
            kept = version(page)
            page.locator("#live-new").click()
            wait_for(lambda: version(page) > kept, every_s=0.2)
            expect(page.get_by_label("units from")).to_have_value("12")
            expect(page.locator("#filter-count")).to_contain_text(" of ")

            hurry.touch()
            sweep.done().expect(0)
            expect(page.locator(".state")).to_have_text("complete")
            expect(page.locator("#live-state")).to_contain_text("24 of 24 trials ended")
            expect(page.locator("#live-running li")).to_have_count(0)
            assert messages == []

            server.send_signal(signal.SIGINT)
            server.done().expect(0)
        expect(page.locator("#live-state")).to_contain_text("has ended")
        page.close()
