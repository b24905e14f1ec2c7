"""The code bundle: one folder with all the code that a node needs to run trials.

A cluster's nodes need rnnsweep's dependencies but not rnnsweep itself: Ray copies this folder to
each of them. It holds `orchestrator`, `workloads`, and the user's own workload with the
modules next to it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.core.version import COMMIT, commit
from workloads.registry import find_workload

PACKAGES = ("orchestrator", "workloads", "rnnsweep")
_LIMIT_BYTES = 100 * 2**20
_EXCLUDED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "node_modules", "rnnsweep-data")


def pack(into: Path, workload: str | None = None) -> None:
    """Copy the code that trials need into an empty folder.

    Args:
        into: the folder.
        workload: as in a spec. A user's own one (`package.module:function`) is copied with the
            modules and packages next to it.

    Raises:
        Refusal: a user's own workload is neither in the current folder nor in PYTHONPATH, or the
            files next to it are more than code.
    """
    for name in PACKAGES:
        package = importlib.util.find_spec(name)
        assert package is not None and package.origin is not None
        _copy(Path(package.origin).parent, into)
    if workload is None or find_workload(workload).is_built_in:
        return
    top = workload.partition(":")[0].partition(".")[0]
    if top in PACKAGES:
        return
    places = search_path()
    home = next((folder for folder in places if _source(folder, top)), None)
    if home is None:
        raise Refusal(
            f"workload: no module for {workload} in {', '.join(map(str, places))}. Run the command "
            "in the folder of the module, or add that folder to PYTHONPATH: the code is copied to "
            "the nodes"
        )
    sources = [_source(home, top), *_importable(home)]
    for source in dict.fromkeys(filter(None, sources)):
        if source.stem not in PACKAGES:
            _copy(source, into)
    sizes = {path: path.stat().st_size for path in into.rglob("*") if path.is_file()}
    if sum(sizes.values()) > _LIMIT_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise Refusal(
            f"{home}: the code to copy to the nodes exceeds {_LIMIT_BYTES >> 20} MiB; the largest "
            f"file is {home / largest.relative_to(into)} with {sizes[largest] / 2**20:.0f} MiB. "
            "Keep data outside of the packages, at a path that every node has"
        )


def search_path() -> tuple[Path, ...]:
    """Return the folders of users' own workloads, as `python -m`: this one, then PYTHONPATH."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path.cwd(), *(Path(entry).resolve() for entry in entries if entry)]
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def environ() -> dict[str, str]:
    """Return the environment variables of processes that run the bundle."""
    git_commit = commit()
    return {COMMIT: git_commit} if git_commit else {}


def _source(home: Path, name: str) -> Path | None:
    """Return a module's file or a package's folder, as Python would import it from `home`."""
    folder, file = home / name, home / f"{name}.py"
    if (folder / "__init__.py").is_file() or (folder.is_dir() and not file.is_file()):
        return folder
    return file if file.is_file() else None


def _importable(home: Path) -> Iterator[Path]:
    """Yield the modules and packages of a folder, which a workload there may import."""
    for path in sorted(home.iterdir()):
        is_package = (path / "__init__.py").is_file()
        is_module = path.is_file() and path.suffix == ".py"
        if path.stem.isidentifier() and (is_package or is_module):
            yield path


def _copy(source: Path, into: Path) -> None:
    """Copy a module or a whole package; follow links, since their targets are not copied."""
    if source.is_dir():
        shutil.copytree(source, into / source.name, ignore=_EXCLUDED, ignore_dangling_symlinks=True)
    else:
        shutil.copyfile(source, into / source.name)
