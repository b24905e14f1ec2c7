"""Journals with a changed byte: the line is named, and all others are kept once it is deleted."""

from pathlib import Path

import pytest

from orchestrator.storage import journal
from tests.faults.conftest import Faults
from tests.orchestrator.storage.test_journal import RECORDS, write


def test_every_byte_of_a_line_flipped_in_turn(tmp_path: Path, faults: Faults) -> None:
    draw, number = faults(1, 2)
    whole = write(tmp_path)
    path, lines = tmp_path / journal.JOURNAL_FILE, whole.splitlines(keepends=True)
    for _ in range(number):
        line = draw.randrange(len(lines) - 1)  # a damaged last one is the trace of a crash
        begin = sum(map(len, lines[:line]))
        for place in range(begin, begin + len(lines[line]) - 1):
            flipped = whole[place] ^ (1 << draw.randrange(8))
            path.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
            with pytest.raises(journal.JournalError, match=f"line {line + 1} is damaged"):
                journal.read(tmp_path)


@pytest.mark.parametrize("line", range(2, len(RECORDS)))
def test_a_journal_without_a_damaged_line_has_all_other_records(tmp_path: Path, line: int) -> None:
    lines = write(tmp_path).splitlines(keepends=True)
    del lines[line - 1]
    (tmp_path / journal.JOURNAL_FILE).write_bytes(b"".join(lines))
    kept = (*RECORDS[: line - 1], *RECORDS[line:])
    with journal.Journal(tmp_path) as opened:
        assert opened.state == journal.replay(kept)


def test_a_block_whose_line_was_deleted_comes_back_with_its_first_trial() -> None:
    """A sweep whose trials had no block waited for ever."""
    kept = [record for record in RECORDS if getattr(record, "block", None) != 1]
    whole, state = journal.replay(RECORDS), journal.replay(kept)
    assert len(kept) == len(RECORDS) - 1 and whole is not None and state is not None
    assert state.blocks == whole.blocks
    order = list(state.order)
    assert all(order.index(1) < order.index(t.key) for t in state.finished.values() if t.block == 1)
