"""Exit codes of commands, reports of bugs, and colours."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from orchestrator.cli import exit_codes
from orchestrator.cli.exit_codes import internal_error, interrupted_by
from orchestrator.cli.main import main
from orchestrator.cli.output import wants_colour
from tests.orchestrator.cli.typed_commands import typed

ARGUMENTS = {
    "run": ["spec.yaml"],
    "plan": ["spec.yaml"],
    "submit": ["spec.yaml", "--address", "http://127.0.0.1:9"],
    "logs": ["mine", "--address", "http://127.0.0.1:9"],
    "stop": ["mine"],
    "report": ["mine"],
    "query": ["mine"],
    "compare": ["mine", "other"],
}
BROKEN = {
    "run": "orchestrator.spec.load",
    "plan": "orchestrator.spec.load",
    "submit": "orchestrator.spec.load",
    "logs": "orchestrator.cluster.jobs.Cluster",
    "stop": "orchestrator.cli.jobs.sweep_home",
    "status": "orchestrator.cli.main.sweep_home",
    "report": "orchestrator.api.read_sweep",
    "query": "orchestrator.api.read_sweep",
    "compare": "orchestrator.api.read_sweep",
    "hardware": "orchestrator.hardware.classify",
    "workloads": "orchestrator.hardware.classify",
    "parity": "orchestrator.diagnostics.parity.check",
    "ui": "orchestrator.cli.main.sweep_home",
}


@pytest.mark.parametrize("command", sorted(main.commands))
def test_an_internal_error_of_any_command_is_exit_code_70(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise KeyError("a\nbug")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(BROKEN[command], broken)
    code, out, err = typed(capfd, command, *ARGUMENTS.get(command, []))
    assert (code, out) == (70, "")
    (line,) = err.splitlines()
    assert "KeyError" in line and "report this bug" in line
    (file,) = tmp_path.glob("rnnsweep-error-*.txt")
    assert line.endswith(str(file))
    assert "Traceback" in file.read_text()


def test_an_error_before_any_command_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("early")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("orchestrator.cli.exit_codes.CommandGroup.invoke", broken)
    assert typed(capfd, "ui")[0] == 70


def test_a_traceback_that_no_file_takes_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert internal_error(ValueError("odd"), tmp_path / "no folder" / "log") == 70
    err = capfd.readouterr().err
    assert "Please report this bug, with this traceback:\n" in err
    assert err.endswith("ValueError: odd\n")


def test_help_lists_the_exit_codes(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(capfd, "--help")
    assert code == 0
    codes = {
        value for name, value in vars(exit_codes).items() if name.isupper() and type(value) is int
    }
    listed = out.partition("Exit codes:")[2].split("\n")
    assert {int(line.split()[0]) for line in listed if line.strip()} == codes


def test_signals_are_handled_as_before_after_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupted_by(signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("is_terminal", "environ", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, environ: dict[str, str], expected: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    assert wants_colour(environ) is expected
