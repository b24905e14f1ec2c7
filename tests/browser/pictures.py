"""Renew docs/images: a sweep's page, and its trials in MLflow's own UI, in a real browser.

python -m tests.browser.pictures --home FOLDER SWEEP
"""

import argparse
import io
import shutil
import signal
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tests.browser.conftest import NAMES, PATIENCE_MS, printed_link
from tests.commands import wait_for
from tests.integration.sweeping import Home, free_port

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"
PAGE, MLFLOW = (1440, 900), (1800, 1000)
"""Width and height in pixels."""


def photograph_page(browser: Browser, home: Home, sweep: str) -> None:
    """Write the first screen of the sweep's page."""
    file = home.path / f"{sweep}.html"
    home.run("report", sweep, "-o", file).expect(0)
    page = _open(browser, PAGE)
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    _save(page, "report")


def photograph_mlflow(browser: Browser, home: Home, sweep: str) -> None:
    """Write the trials, their charts, a trial's run and the sweep's run, as MLflow shows them."""
    with home.running("ui", "--port", free_port()) as command:
        link = wait_for(lambda: printed_link(command, sweep), describe=command.printed)
        page = _open(browser, MLFLOW)
        page.goto(f"{link}&compareRunsMode=CHART")
        page.locator(".scatterlayer .point").first.wait_for(state="attached")
        page.get_by_role("button", name="Close", exact=True).click()  # MLflow's assistant
        _save(page, "mlflow-charts")
        page.goto(link)
        trial = page.locator("[role=gridcell] a[href*='/runs/']").first
        trial.wait_for()
        _save(page, "mlflow-trials")
        _open_run(page, trial)
        _save(page, "mlflow-trial")
        _open_run(page, page.get_by_role("link", name=sweep, exact=True).last)
        page.get_by_text("Show more", exact=True).first.click()
        page.get_by_role("columnheader", name="speed-up").wait_for()
        _save(page, "mlflow-sweep")
        command.send_signal(signal.SIGHUP)
        command.done().expect(0)


def _open_run(page: Page, link: Locator) -> None:
    """Open a run's page among those of model training; MLflow would take it for an evaluation."""
    page.goto(f"{link.evaluate('element => element.href')}?workflowType=machine_learning")
    page.get_by_text("About this run", exact=True).wait_for()


def _open(browser: Browser, size: tuple[int, int]) -> Page:
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    page.set_default_timeout(PATIENCE_MS)
    return page


def _save(page: Page, name: str) -> None:
    page.wait_for_timeout(3_000)  # animations and late parts; MLflow never stops asking
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="where the sweep was run")
    parser.add_argument("sweep", help="its name")
    asked = parser.parse_args()
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        parser.error(f"none of {', '.join(NAMES)} is installed here: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        home = Home(asked.home.resolve())
        photograph_page(browser, home, asked.sweep)
        photograph_mlflow(browser, home, asked.sweep)
        browser.close()


if __name__ == "__main__":
    main()
