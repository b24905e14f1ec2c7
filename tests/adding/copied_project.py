"""A copy of the project's packages, to which a test adds something as the documents say."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.commands import python
from tests.documents import ROOT

_PACKAGES = ("orchestrator", "workloads", "rnnsweep")


@dataclass(frozen=True, slots=True)
class CopiedProject:
    """A copy of the packages in a folder of its own."""

    folder: Path

    def insert_after(self, file: str, line: str, added: str) -> None:
        """Insert lines after a line that the file has once."""
        path = self.folder / file
        before, found, after = path.read_text(encoding="utf-8").partition(f"{line}\n")
        assert found and f"{line}\n" not in after, f"{file}: expected this line once: {line}"
        path.write_text(f"{before}{line}\n{added}{after}", encoding="utf-8")

    def replace_line(self, file: str, line: str, new_line: str) -> None:
        """Replace a line that the file has once."""
        path = self.folder / file
        lines = path.read_text(encoding="utf-8").split("\n")
        assert lines.count(line) == 1, f"{file}: expected this line once: {line}"
        replaced = [new_line if kept == line else kept for kept in lines]
        path.write_text("\n".join(replaced), encoding="utf-8")

    def observe(self, module: str, *arguments: str) -> Any:
        """Return the JSON that a module of the tests prints when it uses the copied packages."""
        search_path = os.pathsep.join(map(os.fspath, (self.folder, ROOT)))
        environ = {**os.environ, "PYTHONPATH": search_path}
        done = python("-m", module, *arguments, cwd=self.folder, environ=environ).expect()
        return json.loads(done.out)


def copy_project(folder: Path) -> CopiedProject:
    """Copy the packages to a folder, with their compiled modules: to compile takes seconds."""
    for package in _PACKAGES:
        ignored = shutil.ignore_patterns("*.pyc.*")  # another process is writing it
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    return CopiedProject(folder)
