"""Command lines, homes and addresses that nobody should type: a clear error, never a traceback."""

import os
from pathlib import Path

import pytest

from tests.commands import Command
from tests.faults.conftest import Faults
from tests.faults.hostile_inputs import HOMES, HOSTILE_WORDS
from tests.integration.sweeping import COMMAND, new_home
from tests.orchestrator.cli.typed_commands import Run

COMMANDS = [
    [*command.split(), word]
    for hostile in HOSTILE_WORDS
    for command in hostile.commands
    for word in hostile.words
]


def expect_clean(run: Run, command: list[str], *after: str) -> None:
    """Expect an answer or a refusal; `after` is what was damaged before."""
    code, out, err = run(*command)
    assert code in (0, 1, 2, 3), (command, code, err, after)
    assert "Traceback" not in out + err, (command, after)
    assert "\x1b" not in err, (command, after)
    assert len(err) < 20_000, (command, after)


@pytest.mark.parametrize("part", range(2))  # for two processes
def test_hostile_command_lines(run: Run, store: Path, faults: Faults, part: int) -> None:
    draw, number = faults(50, 250)
    commands = COMMANDS[part::2]
    for command in draw.sample(commands, min(number, len(commands))):
        expect_clean(run, command)


@pytest.mark.parametrize("name", HOMES)
def test_hostile_homes(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setitem(os.environ, "RNNSWEEP_HOME", name)
    for command in ("report", "status", "run mine.yaml", "plan mine.yaml", "ui", "stop a"):
        expect_clean(run, command.split())


@pytest.mark.full
def test_a_run_with_too_little_address_space_ends_with_a_clear_error(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    limited = ["bash", "-c", 'ulimit -v 2000000; exec "$@"', "bash"]
    words = [*limited, COMMAND, "run", home.spec("limited")]
    Command(words, home.environ()).done().refused("(ulimit -v)", "Ray needs 3,072 MiB")
    home.expect_nothing_running()
