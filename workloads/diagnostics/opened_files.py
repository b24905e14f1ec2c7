"""The files that a user's code reads, as Python's audit events report them."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.own_code import file_state

_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")

_PACKAGES = {"site-packages", "dist-packages"}


class OpenedFiles:
    """Notes each file that Python opens to read, from now on; code in C may open more."""

    def __init__(self) -> None:
        self._paths = set[Path]()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, mode, _ = arguments
        is_read = mode is None or not set("wax+") & set(str(mode))
        if is_read and isinstance(path, str | bytes | os.PathLike):
            self._paths.add(Path(os.fsdecode(path)).absolute())

    def states(self) -> Mapping[str, str]:
        """Return size and time of change of each file that is there, as one text.

        Code, and files of packages, of the system and of hidden folders are left out: packages keep
        caches of their own there.
        """
        return {
            str(path): state
            for path in sorted(self._paths)
            if not _is_of_packages(path) and (state := file_state(str(path)))
        }


def _is_of_packages(path: Path) -> bool:
    is_hidden = any(part.startswith(".") or part in _PACKAGES for part in path.parts)
    is_code = path.suffix in (".py", ".pyc", ".so")
    is_installed = path.is_relative_to(sys.prefix) or path.is_relative_to(sys.base_prefix)
    return is_hidden or is_code or is_installed or str(path).startswith(_SYSTEM)
