"""Exit codes of commands, reports of bugs, and signals."""

import errno
import os
from pathlib import Path
from unittest import mock

import pytest

from orchestrator.cli.exit_codes import internal_error
from orchestrator.cli.main import main
from orchestrator.storage.tracking.recorder import RecorderDied
from tests.orchestrator.cli.typed_commands import Run

CALLED_BY: dict[str, str] = {
    "run mine.yaml": "orchestrator.execution.workload_check.check_spec_file",
    "plan mine.yaml": "orchestrator.execution.workload_check.check_spec_file",
    "submit mine.yaml --address http://127.0.0.1:9": "orchestrator.spec.load_spec",
    "logs mine --address http://127.0.0.1:9": "orchestrator.cluster.jobs.Cluster",
    "stop mine": "orchestrator.cli.stop.sweep_home",
    "status": "orchestrator.cli.status.sweep_home",
    "report mine": "orchestrator.api.read_sweep",
    "best mine": "orchestrator.api.read_sweep",
    "bench torch/fused": "orchestrator.diagnostics.bench.make_bench",
    "query mine": "orchestrator.storage.tracking.reader.read_rows",
    "compare mine other": "orchestrator.api.read_sweep",
    "hardware": "orchestrator.hardware.classify",
    "ui": "orchestrator.cli.ui.sweep_home",
    "init": "orchestrator.cli.init.sweeps_folder",
    "doctor": "orchestrator.diagnostics.doctor.check_machine",
}
"""Each command as it is typed, and a function that it calls."""


@pytest.mark.parametrize("command", CALLED_BY)
def test_an_internal_error_of_any_command_is_exit_code_70(
    run: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise KeyError("a\nbug")

    assert {command.split()[0] for command in CALLED_BY} == set(main.commands)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(CALLED_BY[command], broken)
    code, out, err = run(*command.split())
    assert (code, out) == (70, "")
    (line,) = err.splitlines()
    (file,) = tmp_path.glob("rnnsweep-error-*.txt")
    assert "KeyError" in line and line.endswith(str(file))
    assert "Traceback" in file.read_text()
    monkeypatch.setattr("orchestrator.cli.command.CommandGroup.invoke", broken)
    assert run("ui")[0] == 70, "also before a command begins"


def test_a_traceback_that_no_file_takes_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert internal_error(ValueError("odd"), tmp_path / "no folder" / "log") == 70
    assert capfd.readouterr().err.endswith("ValueError: odd\n")


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, 3), (errno.EACCES, 2)],
)
def test_a_limit_of_the_machine_is_no_bug(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int, expected: int
) -> None:
    error = OSError(number, os.strerror(number), "/some/file")
    monkeypatch.setattr(CALLED_BY["hardware"], mock.Mock(side_effect=error))
    code, out, err = run("hardware")
    assert (code, out) == (expected, "")
    assert "/some/file" in err and os.strerror(number).lower() in err


def test_a_machine_without_free_memory_is_no_bug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CALLED_BY["hardware"], mock.Mock(side_effect=MemoryError))
    assert run("hardware")[:2] == (3, "")


def test_a_deep_json_file_is_refused(run: Run, tmp_path: Path) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000 + "]" * 100_000)
    for command in ("compare {file} {file}", "plan {file}"):
        code, _, err = run(*command.format(file=deep).split())
        assert code == 2 and "Traceback" not in err, command


def test_a_recorder_that_was_killed_may_do_better_next_time(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RecorderDied("recorder process 1", "exit status -9", "Run it again")
    monkeypatch.setattr(CALLED_BY["run mine.yaml"], mock.Mock(side_effect=error))
    assert run("run", "mine.yaml")[0] == 3
