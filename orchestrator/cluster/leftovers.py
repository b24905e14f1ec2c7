"""Temporary folders of local sweeps, and their removal after a driver that was killed."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from orchestrator.storage.lock import Owner, parse_owner, write_owner

_MARK = ".rnnsweep-owner"
_PLACES = ("rnnsweep-tune-*", "ray/session_*")
"""Where drivers make folders, in the folder of temporary files."""


def mark(folder: Path) -> None:
    """Note this process as the owner of a temporary folder."""
    with contextlib.suppress(OSError):
        write_owner(folder / _MARK, Owner.here())


def remove(temporary: Path | None = None) -> None:
    """Remove the folders whose marked owner has ended; others, and other users', stay."""
    temporary = temporary or Path(tempfile.gettempdir())
    for place in _PLACES:
        for mark_file in temporary.glob(f"{place}/{_MARK}"):
            with contextlib.suppress(OSError):
                if parse_owner(mark_file.read_bytes()).is_gone():
                    shutil.rmtree(mark_file.parent)
