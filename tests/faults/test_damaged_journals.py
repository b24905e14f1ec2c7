"""Journals with a changed byte: the line is named, and repaired, and all others are kept."""

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
            with pytest.raises(journal.JournalError, match=f"line {line + 1}: expected a journal"):
                journal.read(tmp_path)
        path.write_bytes(damaged := whole[:begin] + b"\0" + whole[begin + 1 :])
        repaired = journal.repair_journal(tmp_path)
        assert repaired is not None and repaired[1] == 1
        assert repaired[0].read_bytes() == damaged
        kept = (*RECORDS[:line], *RECORDS[line + 1 :]) if line else ()
        assert journal.read(tmp_path) == journal.replay(kept)
        assert not line or journal.repair_journal(tmp_path) is None
