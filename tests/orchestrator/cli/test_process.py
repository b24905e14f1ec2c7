"""Commands that leave the process as it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli.main import main
from orchestrator.core.errors import Refusal


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("orchestrator.diagnostics.peaks.measure", ["hardware", "--measure"]),
        ("orchestrator.diagnostics.parity.check", ["parity"]),
    ],
)
def test_sigterm_interrupts_a_command_only_while_it_has_trainers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: str, arguments: list[str]
) -> None:
    handlers: list[Any] = []

    def refuse(*_: Any, **__: Any) -> None:
        handlers.append(signal.getsignal(signal.SIGTERM))
        raise Refusal("enough")

    monkeypatch.setenv("RNNSWEEP_HOME", str(tmp_path))
    monkeypatch.setattr(function, refuse)
    before = dict(os.environ), signal.getsignal(signal.SIGTERM)
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, handlers) == (2, [signal.default_int_handler])
    assert "enough" in result.output
    assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == before
