"""`rnnsweep report --serve`: what it answers, to whom, and when the page is drawn again."""

import http.client
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orchestrator import api
from orchestrator.cli.serve import LiveReport
from orchestrator.core.records import SweepRecord
from orchestrator.storage import journal
from orchestrator.storage.home import SweepFolder
from orchestrator.storage.tracking.errors import SweepNotFound
from tests.building.arms import PORTABLE
from tests.building.stores import build_home
from tests.building.trials import IDENTITY, build_full_trial
from tests.commands import Command, wait_for
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.storage.tracking.recording import record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = build_home(tmp_path)
    monkeypatch.setenv("RNNSWEEP_HOME", str(place))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    record(place, build_full_trial(0))
    return place


@pytest.fixture
def address(home: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "rnnsweep", "report", "quickstart", "--serve"]
    with Command(words, os.environ) as command:
        try:
            wait_for(lambda: "http" in command.printed() or not command.running, 120)
            (found,) = re.findall(r"http://127\.0\.0\.1:\d+/[-\w]{12}/", command.printed(1))
            yield found
            command.send_signal(signal.SIGINT)
            command.done().expect(0)
        finally:
            command.kill()


def test_it_answers_its_own_address_alone_and_changes_nothing(address: str) -> None:
    place = urlsplit(address)
    assert place.hostname is not None and place.port is not None
    own = {"Host": place.netloc}

    def ask(path: str, headers: dict[str, str], method: str = "GET") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    status, page = ask(place.path, own)
    assert status == 200 and b"quickstart" in page
    assert ask(place.path, {"Host": f"localhost:{place.port}"})[0] == 200
    assert ask(place.path, own, "HEAD") == (200, b"")
    status, state = ask(f"{place.path}live.json", own)
    assert status == 200 and json.loads(state)["trials_done"] == 1
    for host in ("evil.example", f"evil.example:{place.port}", "127.0.0.1"):
        assert ask(place.path, {"Host": host})[0] == 403
    assert ask(place.path, {})[0] == 403
    for path in ("/", "/live.json", f"{place.path}../", f"{place.path}live.json?x", "/etc/passwd"):
        assert ask(path, own)[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(place.path, own, method)[0] == 501


def test_the_page_is_drawn_again_when_the_store_has_more(home: Path) -> None:
    live = LiveReport(home, "quickstart")
    first = live.page
    assert (live.version, live.renew()) == (1, False)
    record(home, build_full_trial(0), build_full_trial(1))
    assert (live.renew(), live.version) == (True, 2)
    assert live.page != first and live.state()["trials_done"] == 2
    with pytest.raises(SweepNotFound):
        LiveReport(home, "no-such-sweep")


@contextmanager
def journal_of_a_running_sweep(home: Path) -> Iterator[journal.Journal]:
    """Yield the open journal of a sweep of which one trial has ended."""
    done = build_full_trial(0)
    with journal.Journal(SweepFolder(home, "quickstart").generation(1)) as opened:
        opened.append(journal.SweepOpened(IDENTITY, {}))
        opened.append(journal.BlockSuggested(0, done.trial.config, 0.0))
        opened.append(journal.SessionStarted(0.0, 1, "here", "0", 1, 1, [PORTABLE]))
        opened.append(journal.TrialFinished(done))
        yield opened


def test_the_store_is_asked_only_for_what_the_journal_says_is_new(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = api.read_sweep
    asked = list[str]()

    def counted(sweep: str, *, generation: int | None) -> object:
        asked.append(sweep)
        return read(sweep, generation=generation)

    monkeypatch.setattr(api, "read_sweep", counted)
    with journal_of_a_running_sweep(home) as opened:
        live = LiveReport(home, "quickstart")
        assert [live.renew() for _ in range(3)] == [False] * 3 and len(asked) == 1
        opened.append(journal.TrialFinished(build_full_trial(0, repeat=1)))
        for _ in range(3):
            live.renew()
    assert len(asked) > 1


def test_the_store_is_asked_until_it_says_that_the_sweep_is_complete(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, states = api.read_sweep, ["running", "running", "complete"]

    def told_late(sweep: str, *, generation: int | None) -> SweepRecord:
        return replace(read(sweep, generation=generation), state=states.pop(0))  # type: ignore[arg-type]

    monkeypatch.setattr(api, "read_sweep", told_late)
    with journal_of_a_running_sweep(home):
        live = LiveReport(home, "quickstart")
        assert live.state()["text"].startswith("quickstart")
        assert [live.renew() for _ in range(4)] == [False, True, False, False]
    assert states == []


def test_a_sweep_that_has_just_begun_is_shown_without_trials(home: Path) -> None:
    with journal.Journal(SweepFolder(home, "new").generation(1)) as opened:
        opened.append(journal.SweepOpened(IDENTITY, {}))
        live = LiveReport(home, "new")
    assert live.version == 1 and b"No trial has ended yet" in live.page


@pytest.mark.usefixtures("home")
def test_the_page_counts_with_the_prices_that_are_given(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = list[bytes]()

    def draw_once(live: LiveReport, _: int | None) -> int:
        pages.append(live.page)
        return 0

    monkeypatch.setattr("orchestrator.cli.serve.serve", draw_once)
    price = "{hardware: cpu, usd_per_hour: 3.6, source: a bill, date: 2026-11-21}"
    assert run("report", "quickstart", "--serve")[0] == 0
    assert run("report", "quickstart", "--serve", "--set", f"prices=[{price}]")[0] == 0
    assert [b"a bill" in page for page in pages] == [False, True]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "words", [["-o", "page.html"], ["--format", "text"], ["--section", "speed"], ["--full"]]
)
def test_serving_excludes_other_outputs(run: Run, words: list[str]) -> None:
    code, _, err = run("report", "quickstart", "--serve", *words)
    assert code == 2 and "--serve: expected without" in err
    assert run("report", "quickstart", "--port", "8765")[0] == 2
