"""The sign of life of a sweep's driver, for machines: a small file.

`heartbeat.json` in the folder of a sweep is replaced some times a minute while its driver lives.
`docs/cluster.md` has a condition for an alarm for each of its facts. Nothing reads it to decide
anything: the journal, the store and the lock are the truth.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.formats import Format
from orchestrator.storage.private_files import open_private, read_private

HEARTBEAT_FILE = "heartbeat.json"
HEARTBEAT = Format("a heartbeat", 1, id="rnnsweep-heartbeat")
PULSE_S = 10.0
_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a driver did last and waits for. Times are seconds since the epoch.

    Attributes:
        sweep: The label of the sweep's generation.
        pid: The driver's process on `host`.
        at_s: When this was written. An older one is of a driver that has ended, or hangs.
        has_ended: Whether the driver wrote it at its regular end.
        waits_for: What the driver does or waits for now, since `waits_since_s`.
        trials_ended: Trials with an outcome, in all starts; `trials_failed` of them failed.
        last_trial_s: When the last one ended; None before there is one.
        not_in_store: Trials of the journal that the store does not have yet.
        store_trouble: Why the store takes none now; empty if it does.
        lease_age_s: Seconds since the lease was renewed; None while the driver holds none.
        lost_attempts: Attempts of this start that were lost with their worker, and were retried.
        disk_free_bytes: Free bytes on the disk of the home.
    """

    sweep: str
    host: str
    pid: int
    at_s: float
    has_ended: bool
    waits_for: str
    waits_since_s: float
    trials_ended: int
    trials_failed: int
    last_trial_s: float | None
    not_in_store: int
    store_trouble: str
    lease_age_s: float | None
    lost_attempts: int
    disk_free_bytes: int


_adapter = TypeAdapter(Heartbeat)


def write_heartbeat(folder: Path, heartbeat: Heartbeat) -> None:
    """Replace the heartbeat in the folder of a sweep; raise `OSError` if that cannot be done."""
    text = _adapter.dump_json(heartbeat, indent=1)
    head = _HEAD.dump_json(HEARTBEAT.head(), indent=1)
    _replace(folder / HEARTBEAT_FILE, head[:-2] + b",\n" + text[2:] + b"\n", mode=0o600)


_HEAD = TypeAdapter(dict[str, Any])


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """Return the heartbeat in the folder of a sweep; None without one that can be read."""
    with contextlib.suppress(OSError, ValidationError):
        content = _HEAD.validate_json(read_private(folder / HEARTBEAT_FILE, _MOST_BYTES))
        if content.get("version") == HEARTBEAT.number:
            return _adapter.validate_python(content)
    return None


def _replace(path: Path, content: bytes, mode: int) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    with os.fdopen(open_private(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
    new.replace(path)
