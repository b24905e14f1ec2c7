"""Code that travels: what a node needs to run trials, put into one folder.

A cluster's nodes need rnnsweep's dependencies, and not rnnsweep itself: Ray brings this folder to
each of them. It holds `orchestrator`, `workloads`, and the user's own workload with what lies
beside it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.core.version import COMMIT, commit
from workloads.registry import find_workload

PACKAGES = ("orchestrator", "workloads", "rnnsweep")
_LIMIT_BYTES = 100 * 2**20
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "node_modules", "rnnsweep-data")


class TooLarge(Refusal):
    """The user's code cannot travel as it is."""

    def __init__(self, folder: Path, largest: Path, size_bytes: int) -> None:
        super().__init__(
            f"{folder}: expected at most {_LIMIT_BYTES >> 20} MiB of code to take to the nodes, "
            f"received more; the largest file is {largest} with {size_bytes / 2**20:.0f} MiB. Keep "
            "data outside of the packages, at a path that every node has"
        )


class NoSuchModule(Refusal):
    """The user's own workload is not where it is looked for."""

    def __init__(self, workload: str, looked_in: Sequence[Path]) -> None:
        places = ", ".join(map(str, looked_in))
        super().__init__(
            f"workload: expected {workload} in a module found from here, received none in {places}."
            " Run the command in the folder of the module, or name that in PYTHONPATH: the code has"
            " to travel to the nodes"
        )


def pack(into: Path, workload: str | None = None) -> None:
    """Put the code that trials need into an empty folder.

    Args:
        into: the folder.
        workload: as in a spec; a user's own one (`package.module:function`) travels with
            the modules and packages that lie beside it.

    Raises:
        NoSuchModule: a user's own workload is neither in the current folder nor in PYTHONPATH.
        TooLarge: what lies beside it is more than code.
    """
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        assert found is not None and found.origin is not None
        _copy(Path(found.origin).parent, into)
    if workload is None or find_workload(workload).is_built_in:
        return
    top = workload.partition(":")[0].partition(".")[0]
    if top in PACKAGES:
        return
    places = search_path()
    home = next((each for each in places if _source(each, top)), None)
    if home is None:
        raise NoSuchModule(workload, places)
    sources = [_source(home, top), *_importable(home)]
    for source in dict.fromkeys(each for each in sources if each is not None):
        if source.stem not in PACKAGES:
            _copy(source, into)
    _expect_small(into, home)


def search_path() -> tuple[Path, ...]:
    """Where users' own workloads are looked for, as in `python -m`: here, then PYTHONPATH."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path.cwd(), *(Path(entry).resolve() for entry in entries if entry)]
    return tuple(dict.fromkeys(each for each in folders if each.is_dir()))


def environ() -> dict[str, str]:
    """What goes into the environment of processes that run the code elsewhere."""
    known = commit()
    return {COMMIT: known} if known else {}


def _source(home: Path, name: str) -> Path | None:
    """A module's file or a package's folder, as Python would import it from `home`."""
    folder, file = home / name, home / f"{name}.py"
    if (folder / "__init__.py").is_file() or (folder.is_dir() and not file.is_file()):
        return folder
    return file if file.is_file() else None


def _importable(home: Path) -> Iterator[Path]:
    """The modules and packages of a folder: what a workload there may import."""
    for each in sorted(home.iterdir()):
        package = (each / "__init__.py").is_file()
        if each.stem.isidentifier() and (package or (each.is_file() and each.suffix == ".py")):
            yield each


def _copy(source: Path, into: Path) -> None:
    """A module or a whole package; links are followed, since their targets stay behind."""
    if source.is_dir():
        shutil.copytree(source, into / source.name, ignore=_LEFT_OUT, ignore_dangling_symlinks=True)
    else:
        shutil.copyfile(source, into / source.name)


def _expect_small(folder: Path, home: Path) -> None:
    sizes = {each: each.stat().st_size for each in folder.rglob("*") if each.is_file()}
    if sum(sizes.values()) > _LIMIT_BYTES:
        largest = max(sizes, key=lambda each: sizes[each])
        raise TooLarge(home, home / largest.relative_to(folder), sizes[largest])
