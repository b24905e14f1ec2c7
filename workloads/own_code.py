"""The code of a user's own workload: its files, and the packages that they import.

It is the top-level package of the workload's module, or its file alone, with the modules and
packages next to it that it imports. Nothing of it is imported here.
"""

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path

PACKAGES = ("orchestrator", "workloads", "rnnsweep")
"""Our own packages, whose names no package of a user may have."""

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)
_SHOWN_LINES, _SHOWN_CALLS = 6, 3
_NO_CODE = ("__pycache__", "node_modules")  # neither is copied to nodes
_SHOWN_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """The files of a workload's code, and the names of the top-level modules that they import.

    `digests` has the first 16 hexadecimal digits of each file's SHA-256, by path in `folder`. Where
    it is in `sys.meta_path`, `changed` gets the files that differ when they are imported.
    """

    folder: Path
    digests: Mapping[str, str]
    imports: frozenset[str]
    changed: set[str] = field(default_factory=set)

    def find_spec(self, name: str, *_: object) -> None:
        """Compare the file of a module or package; finding it is left to the others."""
        place = name.replace(".", "/")
        for file in {f"{place}.py", f"{place}/__init__.py"} & self.digests.keys():
            path = self.folder / file
            if not path.is_file() or _digest(path.read_bytes()) != self.digests[file]:
                self.changed.add(file)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def packages_of(workload: str) -> tuple[str, ...]:
    """Return the top-level packages of a workload's code: one for each function that it names."""
    entries = [part for part in workload.split(" with ") if ":" in part]
    return tuple(dict.fromkeys(re.split(r"[.:]", entry)[0] for entry in entries))


def find_package(package: str) -> Path | None:
    """Return the file of a top-level module, or the folder of a package; None without one here."""
    spec = importlib.util.find_spec(package) or PathFinder.find_spec(package, [str(Path.cwd())])
    if spec is None:
        return None
    return Path(next(iter(spec.submodule_search_locations or [str(spec.origin)])))


def read_code(workload: str) -> CodeFiles | None:
    """Read the code of `package.module:function`; None if it is ours, or is not found here.

    The code of an own model is the code of both of its functions, from the folder of the first.
    """
    packages = packages_of(workload)
    if not packages or packages[0] in PACKAGES:
        return None
    sources = [source for source in map(find_package, packages) if source is not None]
    if len(sources) < len(packages):
        return None
    folder, digests, imports = sources[0].parent, dict[str, str](), {*packages, *PACKAGES}
    sources = [source for source in sources if source.parent == folder]
    while sources:
        for file in _python_files(sources.pop()):
            content = file.read_bytes()
            digests[file.relative_to(folder).as_posix()] = _digest(content)
            matches = _IMPORT.finditer(content.decode(errors="replace"))
            clauses = [clause for match in matches for clause in (match[1] or match[2]).split(",")]
            names = {re.split(r"[.\s]", clause.strip())[0] for clause in clauses} - imports
            imports |= names
            if folder.name not in ("site-packages", "dist-packages"):
                in_packages = (folder / name / "__init__.py" for name in names)
                sources += [file.parent for file in in_packages if file.is_file()]
                sources += filter(Path.is_file, (folder / f"{name}.py" for name in names))
    return CodeFiles(folder, dict(sorted(digests.items())), frozenset(imports))


def _python_files(source: Path) -> Iterator[Path]:
    """Yield a module's file, or the files of a package and of its folders of modules."""
    if source.is_file():
        yield source
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name.isidentifier() and name not in _NO_CODE]
        files = (Path(folder, name) for name in names if name.endswith(".py"))
        yield from (file for file in files if os.access(file, os.R_OK))


def versions_in_use(imports: frozenset[str]) -> str:
    """Return the installed packages of which modules were imported: `keras 3.15.1, numpy 2.4.6`."""
    names = imports & sys.modules.keys() - sys.stdlib_module_names - {*PACKAGES}
    return ", ".join(sorted({text for name in names for text in _installed(name)}))


@functools.cache
def _installed(module: str) -> tuple[str, ...]:
    """Return the packages that have a top-level module, each with its version."""
    try:
        return (f"{module} {importlib.metadata.version(module)}",)
    except importlib.metadata.PackageNotFoundError:  # its package has another name, or none
        names = importlib.metadata.packages_distributions().get(module, ())
        return tuple(f"{name} {importlib.metadata.version(name)}" for name in names)


def describe_error(error: BaseException, code: CodeFiles | None) -> str:
    """Return an error in a line, equal for equal errors; then its text and calls there."""
    first, *more = [line for line in str(error).splitlines() if line.strip()] or [""]
    rest = [first] if len(first) > _SHOWN_CHARACTERS else []
    first = f"{first[:_SHOWN_CHARACTERS]}…" if rest else first
    line = f"{type(error).__name__}: {first.strip()}" if first else type(error).__name__
    names = {str(code.folder / name): name for name in code.digests} if code else {}
    calls = [call for call in traceback.extract_tb(error.__traceback__) if call.filename in names]
    if calls:
        line += f", at {names[calls[-1].filename]}:{calls[-1].lineno}"
    shown = (text.rstrip() for text in traceback.format_list(calls[-_SHOWN_CALLS:]))
    return "\n".join([line, *more[:_SHOWN_LINES], *shown, *rest])
