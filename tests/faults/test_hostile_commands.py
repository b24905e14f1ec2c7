"""Command lines, homes and addresses that nobody should type: a clear error, never a traceback."""

import itertools
import os
from pathlib import Path

import pytest

from tests.faults.conftest import Faults
from tests.orchestrator.cli.typed_commands import Run
from tests.orchestrator.sample_sweeps import finished, fresh_home
from tests.orchestrator.storage.tracking.recording import record

NAMES = (
    *("sw#²", "#", "##1", "quickstart#-1", "quickstart#99", "a#1#2", "", " ", "..", "../../etc"),
    *("/", "a" * 5_000, "%s%n", "名前", "\x1b[31mred", "\udcff", "*", "quickstart\n", "-"),
)
ADDRESSES = (
    *("a..b:1", "127.0.0.1:²", "http://[::1", "http://a..b:8265", "ray://", ":", "[::1]:99999"),
    *("127.0.0.1:1", "http://127.0.0.1:1", "http://user:pw@127.0.0.1:1/x?y", "auto:auto", "", "\n"),
)
HOMES = ("file", "loop", "~nosuchuser/x", "a" * 5_000, "/proc/1/root/x", "\udcff", "/dev/null")
NAMED = ("report", "query", "best", "predict", "compare quickstart", "status", "logs", "stop")
VALUES = ("=", "a", "=1", "units=", "units=[", "name=\x00", "limits.trial_s=1e999", "search=7")
COMMANDS = (
    *([*command.split(), name] for command, name in itertools.product(NAMED, NAMES)),
    *(
        [*command.split(), "--address", address]
        for command, address in itertools.product(
            ("hardware", "status", "logs a", "stop a", "submit mine.yaml", "run mine.yaml"),
            ADDRESSES,
        )
    ),
    *([command, name] for command, name in itertools.product(("run", "plan"), NAMES)),
    *([command, "mine.yaml", "--set", value] for command in ("run", "plan") for value in VALUES),
    *(
        ["query", "quickstart", "--sql", value]
        for value in (*VALUES, "SELECT * FROM read_csv('/x')")
    ),
    *(
        ["query", "quickstart", value]
        for value in (*VALUES, "1) OR (1", "x'", "arm LIKE '%\udcff'")
    ),
    *(
        ["report", "quickstart", "-o", value]
        for value in ("", "/", "x.html/y", "no/x.html", "\udcff.md")
    ),
)


def expect_clean(run: Run, command: list[str]) -> None:
    if any("\x00" in word for word in command):
        return  # no shell can type it
    code, out, err = run(*command)
    assert code in (0, 1, 2, 3), (command, code, err)
    assert "Traceback" not in out + err, command
    assert "\x1b" not in err, command
    assert len(err) < 20_000, command


@pytest.fixture
def sweep(home: Path) -> Path:
    record(fresh_home(home.parent), finished(0), finished(1))
    return home


def test_hostile_command_lines(run: Run, sweep: Path, faults: Faults) -> None:
    draw, number = faults(120)
    for command in draw.sample(COMMANDS, min(number, len(COMMANDS))):
        expect_clean(run, command)


@pytest.mark.parametrize("name", HOMES)
def test_hostile_homes(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setitem(os.environ, "RNNSWEEP_HOME", name)
    for command in ("report", "list", "status", "run mine.yaml", "plan mine.yaml", "ui", "stop a"):
        expect_clean(run, command.split())
