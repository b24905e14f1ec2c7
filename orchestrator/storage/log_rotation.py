"""Logs that grow for as long as a sweep runs: they are rotated while others write to them."""

import os
import shutil
from pathlib import Path

from orchestrator.storage.private_files import open_private

LOG_LIMIT = 20 * 1024 * 1024
_KEPT = 3


def rotate_log(path: Path, limit: int = LOG_LIMIT, kept: int = _KEPT) -> bool:
    """Move the content of a log beyond a size to `NAME.1`, what that had to `NAME.2`, and so on.

    The log is copied and cut, not renamed: processes of Ray keep it open, at its end. So a line
    that is written in the moment of the cut can be lost; a log is for people. Return whether it was
    cut. Raise `OSError` if that cannot be done.
    """
    try:
        log = open_private(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    with os.fdopen(log, "r+b") as source:
        if os.fstat(log).st_size <= limit:
            return False
        for number in range(kept - 1, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number + 1}"))
        copy = open_private(path.with_name(f"{path.name}.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(copy, "wb") as target:
            shutil.copyfileobj(source, target, 1024 * 1024)
        os.ftruncate(log, 0)
    return True
