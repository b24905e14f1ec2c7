"""The code bundle: one folder with all the code that a node needs to run trials.

A cluster's nodes need rnnsweep's dependencies but not rnnsweep itself: Ray copies this folder to
each of them. It holds `orchestrator`, `workloads`, and the code of a user's own workload.
"""

import importlib.util
import shutil
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.core.version import COMMIT, WORKLOAD_COMMIT, commit, workload_commit
from workloads.own_code import PACKAGES, read_code
from workloads.registry import find_workload

_LIMIT_BYTES = 100 * 2**20
_EXCLUDED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*", "node_modules", "rnnsweep-data")


def pack(into: Path, workload: str | None = None) -> None:
    """Copy the code that trials need into an empty folder; refuse a workload that is not found.

    A user's own `workload` (`package.module:function`) is copied with the modules and packages next
    to it that it imports. Packages of more than code are refused.
    """
    for name in PACKAGES:
        package = importlib.util.find_spec(name)
        assert package is not None and package.origin is not None
        _copy(Path(package.origin).parent, into)
    if workload is None or find_workload(workload).is_built_in:
        return
    code = read_code(workload)
    if code is None:
        raise Refusal(
            f"workload: no module for {workload} in {Path.cwd()}, in PYTHONPATH or installed. Run "
            "the command in the folder of the module: the code is copied to the nodes"
        )
    for top in dict.fromkeys(name.partition("/")[0] for name in code.digests):
        _copy(code.folder / top, into)
    sizes = {path: path.stat().st_size for path in into.rglob("*") if path.is_file()}
    if sum(sizes.values()) > _LIMIT_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise Refusal(
            f"{code.folder}: the code to copy to the nodes exceeds {_LIMIT_BYTES >> 20} MiB; the "
            f"largest file is {code.folder / largest.relative_to(into)} with "
            f"{sizes[largest] / 2**20:.0f} MiB. Keep data outside of the packages, at a path that "
            "every node has"
        )


def environ(workload: str | None) -> dict[str, str]:
    """Return the environment variables of processes that run the bundle."""
    own, commits = read_code(workload or ""), {COMMIT: commit()}
    if own is not None:
        commits[WORKLOAD_COMMIT] = workload_commit(own.folder, own.digests)
    return {name: text for name, text in commits.items() if text}


def _copy(source: Path, into: Path) -> None:
    """Copy a module or a whole package; follow links, since their targets are not copied."""
    if source.is_dir():
        shutil.copytree(source, into / source.name, ignore=_EXCLUDED, ignore_dangling_symlinks=True)
    else:
        shutil.copyfile(source, into / source.name)
