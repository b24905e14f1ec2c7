"""The files that a user's code reads, as Python's audit events report them."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.own_code import file_state

_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")


class OpenedFiles:
    """Notes each file that Python opens to read, or folder that it lists, from now on.

    Code in C may open more.
    """

    def __init__(self) -> None:
        self._paths = set[str]()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, _ = arguments
            if mode is not None and set("wax+") & set(str(mode)):
                return
        elif event in ("os.listdir", "os.scandir"):
            path = arguments[0] or "."
        else:
            return
        if isinstance(path, str | bytes | os.PathLike):
            self._paths.add(str(Path(os.fsdecode(path)).absolute()))

    def states(self) -> Mapping[str, str]:
        """Return size and time of change of each that is there, but of code and of the system."""
        installed = {str(Path(folder).resolve()) for folder in (sys.prefix, sys.base_prefix)}
        outside = (*_SYSTEM, *(f"{folder}/" for folder in installed))
        states = {}
        for path in sorted(self._paths):
            is_code = path.endswith((".py", ".pyc", ".so"))
            if not is_code and not path.startswith(outside) and (state := file_state(path)):
                states[path] = state
        return states
