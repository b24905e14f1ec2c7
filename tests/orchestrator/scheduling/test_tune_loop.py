"""Tune's loop, next to the thread that waits for it. Ray is never started."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.core.stop_signal import Stopped
from orchestrator.scheduling import tune_loop


def test_a_loop_that_was_left_behind_goes_on_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head was given up, and came back while the sweep was recording what is done."""
    is_back, ended = threading.Event(), threading.Event()
    raised: list[Stopped] = []

    def tuner(search: Any, folder: Path, recovery: Any, check: Callable[[], None]) -> Any:
        def fit() -> None:
            check()
            is_back.wait(60)
            try:
                check()
            except Stopped as error:
                raised.append(error)
            ended.set()

        return SimpleNamespace(fit=fit)

    def head_is_gone() -> None:
        raise Stopped("the head is gone")

    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "1")  # it is set, for the process
    monkeypatch.setattr(tune_loop, "_tuner", tuner)
    session: Any = SimpleNamespace(blocks=SimpleNamespace(done=False))
    recovery: Any = SimpleNamespace(expect_head=head_is_gone)
    with pytest.raises(Stopped, match="the head is gone"):
        tune_loop.run_trials(session, recovery, folder=tmp_path, python_path=(), check=lambda: None)
    is_back.set()
    assert ended.wait(60)
    assert len(raised) == 1
