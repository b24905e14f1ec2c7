"""A second run under the same name: it extends the sweep, or starts a generation."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.sweeping import COMMAND, ROOT, Home, new_home

pytestmark = pytest.mark.full

NAME = "growing"


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, address: str) -> Home:
    """A home with a finished sweep, in which the arm `python/flaky` has failed."""
    home = new_home(tmp_path_factory.mktemp("growing"), address)
    done = home.run("run", spec_of(home)).expect(1)
    assert "2 complete of 4 expected; 2 failed" in done.out
    home.expect_exactly_once(NAME, 4)
    return home


def spec_of(home: Home) -> Path:
    return home.spec(NAME, arms={"implementations": ["python/a", "python/flaky"]})


def test_retried_trials_keep_their_runs_and_new_arms_join(grown: Home) -> None:
    before = {run.data.tags["trial_key"]: run for run in grown.children(NAME)}
    journal = grown.journal(NAME)
    assert "2 failed" in grown.run("run", spec_of(grown)).expect(1).out
    assert grown.journal(NAME) == journal, "failed trials stay failed"
    grown.gate.touch()
    spec = grown.spec(NAME, arms={"implementations": ["python/a", "python/flaky", "python/c"]})
    done = grown.run("run", spec, "--retry-failed").expect(0)
    assert "6 complete of 6 expected" in done.out
    after = {run.data.tags["trial_key"]: run for run in grown.children(NAME)}
    assert len(after) == 6
    assert len(grown.finished(NAME)) == 4 + 2 + 2
    for key, run in before.items():
        assert after[key].info.run_id == run.info.run_id
        assert after[key].info.status == "FINISHED"
        assert after[key].data.tags["outcome"] == "complete"
        assert "failure" not in after[key].data.tags
        if run.data.tags["outcome"] == "complete":
            assert after[key].data.to_dictionary() == run.data.to_dictionary()


def test_a_fresh_generation_keeps_the_old_one_and_draws_a_live_view(
    grown: Home, address: str
) -> None:
    spec = spec_of(grown)
    old = {run.info.run_id: run.data.to_dictionary() for run in grown.children(NAME)}
    (parent,) = grown.parents(NAME)
    code, screen, out = on_a_terminal(grown, "run", str(spec), "--fresh", "--address", address)
    assert code == 0, screen
    assert "of 4 trials · " in screen  # the live view's head
    assert "\x1b[" in screen
    assert "authentication" not in screen  # Ray's log messages
    assert str(grown.sweep(NAME) / "run.log") in screen.replace("\r\n", "")
    assert f"{NAME}#2" in out
    assert len(grown.parents(NAME)) == 2
    assert grown.parents(NAME)[0].data.to_dictionary() == parent.data.to_dictionary()
    now = {run.info.run_id: run.data.to_dictionary() for run in grown.children(NAME)}
    assert {run_id: now[run_id] for run_id in old} == old
    assert len(now) == len(old) + 4
    new = grown.report(NAME)
    first = grown.report(NAME, "--generation", 1)
    assert new["sweep"]["generation"] == 2
    assert first["sweep"]["generation"] == 1
    assert {trial["trial_key"] for trial in first["trials"]}.isdisjoint(
        trial["trial_key"] for trial in new["trials"]
    )


def on_a_terminal(home: Home, *arguments: str) -> tuple[int, str, str]:
    """Run a command with a terminal as stderr; return exit code, screen and stdout."""
    terminal, their_end = pty.openpty()
    command = subprocess.Popen(
        [COMMAND, *arguments],
        stdin=their_end,
        stdout=subprocess.PIPE,
        stderr=their_end,
        env={**home.environ(), "TERM": "xterm-256color"},
        cwd=ROOT,
    )
    os.close(their_end)
    screen = b""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                screen += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
    os.close(terminal)
    assert command.stdout is not None
    out = command.stdout.read().decode()
    return command.wait(10), screen.decode(), out
