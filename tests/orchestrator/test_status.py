"""How far sweeps are, read from journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.home import SweepFolder
from orchestrator.journal import (
    BlockSuggested,
    Journal,
    JournalError,
    SessionEnded,
    SessionStarted,
    SweepOpened,
    TrialFinished,
)
from orchestrator.status import describe_sweeps
from tests.orchestrator.recorded import IDENTITY, PORTABLE, XLA, failed, finished


def started(home: Path, name: str, *, blocks: int = 2) -> Path:
    """A sweep of which one arm and the third block were dropped; its journal's path."""
    with Journal.open(SweepFolder(home, name).generation(1)) as journal:
        journal.append(SweepOpened(IDENTITY, {}))
        for block in range(3):
            for each in (finished(block), failed(block, XLA), finished(block, repeat=1)):
                if each.trial.arm == PORTABLE and each.trial.repeat == 0:
                    journal.append(BlockSuggested(block, each.trial.config, 0.0))
                journal.append(TrialFinished(each))
        journal.append(SessionStarted(0.0, 1, "here", "0", blocks, 1, [PORTABLE]))
        journal.append(SessionEnded(1.0, "complete"))
        return journal.path


def test_only_trials_of_the_latest_plan_count(tmp_path: Path) -> None:
    started(tmp_path, "quickstart")
    told = describe_sweeps(tmp_path, None)
    assert "2 of 2 trials ended (2 complete), 2 of 2 blocks suggested" in told
    assert "failed" not in told


def test_a_stray_file_and_a_corrupt_journal_hide_nothing(tmp_path: Path) -> None:
    started(tmp_path, "good")
    corrupt = started(tmp_path, "corrupt")
    corrupt.write_bytes(b"nonsense\n" + corrupt.read_bytes())
    (tmp_path / "sweeps" / ".DS_Store").touch()
    told = describe_sweeps(tmp_path, None)
    assert "2 of 2 trials ended" in told
    assert f"corrupt: cannot be read: {corrupt}, line 1" in told
    assert "DS_Store" not in told
    with pytest.raises(JournalError, match="line 1"):
        describe_sweeps(tmp_path, "corrupt")
