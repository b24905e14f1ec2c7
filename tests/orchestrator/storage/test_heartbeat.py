"""The sign of life for machines, and the rotation of logs that are being written."""

import dataclasses
import os
from pathlib import Path

import pytest

from orchestrator.core.formats import this_rnnsweep
from orchestrator.storage.heartbeat import (
    HEARTBEAT_FILE,
    Heartbeat,
    read_heartbeat,
    write_heartbeat,
)
from orchestrator.storage.log_rotation import rotate_log

BEAT = Heartbeat(
    sweep="quickstart#2",
    host="node-1",
    pid=42,
    at_s=1.7e9,
    has_ended=False,
    waits_for="Opening MLflow",
    waits_since_s=1.7e9 - 5,
    trials_ended=3,
    trials_failed=1,
    last_trial_s=None,
    not_in_store=2,
    store_trouble="it does not answer",
    lease_age_s=12.5,
    lost_attempts=1,
    disk_free_bytes=123_456_789_012,
)


def test_a_heartbeat_is_read_back_and_private(tmp_path: Path) -> None:
    assert read_heartbeat(tmp_path) is None
    for beat in (BEAT, dataclasses.replace(BEAT, has_ended=True, last_trial_s=1.7e9)):
        write_heartbeat(tmp_path, beat)
        assert read_heartbeat(tmp_path) == beat
    path = tmp_path / HEARTBEAT_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert this_rnnsweep().version in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == [HEARTBEAT_FILE]


@pytest.mark.parametrize("content", ["[]", '{"version": 99}', '{"version": 1}'])
def test_what_is_no_heartbeat_reads_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / HEARTBEAT_FILE).write_text(content)
    assert read_heartbeat(tmp_path) is None


def test_a_log_is_rotated_while_others_append_to_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    assert not rotate_log(path, limit=10)
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(writer, b"0123456789")
        assert not rotate_log(path, limit=10)
        for number in range(5):
            os.write(writer, b"line %d\n" % number)
            assert rotate_log(path, limit=5, kept=3)
            assert path.read_bytes() == b""
        os.write(writer, b"last\n")
    finally:
        os.close(writer)
    contents = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert contents == {
        "run.log": b"last\n",
        "run.log.1": b"line 4\n",
        "run.log.2": b"line 3\n",
        "run.log.3": b"line 2\n",
    }
