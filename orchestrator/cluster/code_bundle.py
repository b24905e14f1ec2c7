"""The code bundle: one folder with all the code that a node needs to run trials.

A cluster's nodes need rnnsweep's dependencies but not rnnsweep itself: Ray copies this folder to
each of them. It holds `orchestrator`, `workloads`, and the code of a user's own workload.
"""

import fnmatch
import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from orchestrator.core.errors import Refusal
from orchestrator.core.version import COMMIT, WORKLOAD_COMMIT, commit, workload_commit
from workloads.own_code import PACKAGES, CodeFiles, code_folders, read_code
from workloads.registry import find_workload

_INSTALLED = ("optuna.", "optuna:")  # which the nodes have, as rnnsweep needs it
_LIMIT_BYTES = 100 * 2**20
_EXCLUDED = ("__pycache__", "*.pyc", ".*", "node_modules", "rnnsweep-data")


def manifest(workload: str | None = None, classes: Sequence[str] = ()) -> dict[str, Path]:
    """Return the files that trials need, by their names in the bundle; nothing is copied.

    A user's own `workload` (`package.module:function`) comes with the modules and packages next to
    it that it imports. So do `classes` (`package.module:Class`): a sampler or a pruner of the
    user's, which a driver on the cluster needs. Raise `Refusal` if the workload is not found, or if
    code is too large, or has files that are no regular ones or are outside of their package.
    """
    files = dict[str, Path]()
    for name in PACKAGES:
        package = importlib.util.find_spec(name)
        assert package is not None and package.origin is not None
        files |= _files(Path(package.origin).parent)
    for name in classes:
        code = read_code(name)
        if code is not None and not name.startswith(_INSTALLED):
            files |= _code_files(code)
    if workload is None or find_workload(workload).is_built_in:
        return files
    code = read_code(workload)
    if code is None:
        raise Refusal(
            f"workload: no module of {workload} is installed, in PYTHONPATH, or in "
            f"{', '.join(code_folders())}. Put it next to the spec: it is copied to the nodes"
        )
    return files | _code_files(code)


def _code_files(code: CodeFiles) -> dict[str, Path]:
    """Return the files of a user's code; raise `Refusal` if they are too large."""
    files = dict[str, Path]()
    for top in dict.fromkeys(name.partition("/")[0] for name in code.digests):
        files |= _files(code.folder / top)
    sizes = {path: path.stat().st_size for path in files.values()}
    if sum(sizes.values()) > _LIMIT_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise Refusal(
            f"{code.folder}: the code for the nodes is larger than {_LIMIT_BYTES >> 20} MiB; the "
            f"largest file is {largest} ({sizes[largest] / 2**20:.0f} MiB). Move data out of the "
            "packages, to a path that every node has"
        )
    return files


def pack(into: Path, workload: str | None = None, classes: Sequence[str] = ()) -> None:
    """Copy the code that trials need into an empty folder; raise as `manifest`."""
    for name, path in manifest(workload, classes).items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, into / name)


def environ(workload: str | None) -> dict[str, str]:
    """Return the environment variables of processes that run the bundle."""
    variables = {"RAY_kill_child_processes_on_worker_exit": "0"}  # a trainer's reaper does that
    workload_code, commits = read_code(workload or ""), {COMMIT: commit()}
    if workload_code is not None:
        commits[WORKLOAD_COMMIT] = workload_commit(workload_code.folder, workload_code.digests)
    return variables | {name: text for name, text in commits.items() if text}


def _files(top: Path) -> dict[str, Path]:
    """Return the files of a module or package by name; links within it are followed."""
    files, pending, root = dict[str, Path](), [top], os.path.realpath(top)
    while pending:
        path = pending.pop()
        if path != top and any(fnmatch.fnmatch(path.name, pattern) for pattern in _EXCLUDED):
            continue
        target = Path(os.path.realpath(path))
        if path.is_symlink() and not target.exists():
            continue
        if not target.is_relative_to(root):
            raise _not_copied(path, f"a link to {target}, outside of the package")
        if path.is_symlink() and Path(os.path.realpath(path.parent)).is_relative_to(target):
            raise _not_copied(path, "a link to a folder that contains it")
        if path.is_dir():
            pending += path.iterdir()
        elif path.is_file():
            files[str(path.relative_to(top.parent))] = path
        else:
            raise _not_copied(path, "not a regular file")
    return files


def _not_copied(path: Path, kind: str) -> Refusal:
    return Refusal(
        f"{path} cannot be copied to the nodes, because it is {kind}. Remove it, or move it out of"
        " the package"
    )
