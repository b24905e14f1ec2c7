"""Blocks that restore the process."""

from __future__ import annotations

import os
import signal

import pytest

from orchestrator.core.process_state import restored_process


def test_environment_and_handlers_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("CHANGED", "1")
    before = dict(os.environ), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="inside"), restored_process():
        os.environ |= {"CHANGED": "2", "ADDED": "1"}
        del os.environ["KEPT"]
        signal.signal(signal.SIGTERM, lambda *_: None)
        raise ValueError("inside")
    assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == before
