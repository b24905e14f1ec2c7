"""The code of a user's own workload: its files, and the packages that they import.

It is the top-level package of the workload's module, or its file alone, with the modules and
packages next to it that it imports. Nothing of it is imported here.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeGuard

PACKAGES = ("orchestrator", "workloads", "rnnsweep")
"""Our own packages, whose names no package of a user may have."""

_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)
_TRAINING = ("fit", "train_on_batch", "backward")
_SHOWN_LINES, _SHOWN_CALLS = 6, 3
_NO_CODE = ("__pycache__", "node_modules")  # neither is copied to nodes
_SHOWN_CHARACTERS = 2_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_WRAPPED_BY_KERAS = "Exception encountered when calling"
"""The beginning of an error of Keras around a layer's error, which follows in the next line."""

_OF_CALLS = "(most recent call last):"
"""The end of a line that calls follow, in lines that begin with a blank."""

_before_current, _after_current = list[str](), list[str]()

session_files = dict[str, str]()
"""Names to show for the files of functions that were sent here from a notebook or a script."""


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
        stem = name.replace(".", "/")
        for file in {f"{stem}.py", f"{stem}/__init__.py"} & self.digests.keys():
            path = self.folder / file
            if not path.is_file() or _digest(path.read_bytes()) != self.digests[file]:
                self.changed.add(file)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def file_state(path: str) -> str | None:
    """Return size and time of change of a file, as one text; None if it is not there."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return f"{found.st_size} {found.st_mtime_ns}"


def packages_of(workload: str) -> tuple[str, ...]:
    """Return the top-level packages of a workload's code: one for each function that it names."""
    entries = [part for part in workload.split(" with ") if ":" in part]
    return tuple(dict.fromkeys(re.split(r"[.:]", entry)[0] for entry in entries))


def entry_of_file(text: str, function: str = "") -> str | None:
    """Return the entry that the name of a Python file stands for: `models.mine:build`.

    The text is `models/mine.py:build`, or `models/mine.py` where `function` says which one is
    meant. None for another text, and for a file that no module name reaches from the current
    folder.
    """
    file, _, name = text.partition(":")
    path = Path(file)
    if path.suffix != ".py":
        return None
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    parts, name = path.with_suffix("").parts, name or function
    return f"{'.'.join(parts)}:{name}" if all(map(str.isidentifier, (*parts, name))) else None


@contextmanager
def code_in(folder: Path, *, before_current: bool = False) -> Iterator[None]:
    """Let the code of workloads be found in this folder too, such as the folder of a spec file.

    Modules that are installed or in the current folder come first; `before_current` puts
    the folder before the current one.
    """
    folders, text = _before_current if before_current else _after_current, str(folder.resolve())
    folders.append(text)
    try:
        yield
    finally:
        folders.remove(text)


def code_folders() -> tuple[str, ...]:
    """Return the folders where a workload's code is looked for besides Python's own path."""
    return tuple(dict.fromkeys([*_before_current, str(Path.cwd()), *_after_current]))


def find_package(package: str) -> Path | None:
    """Return the file of a top-level module, or the folder of a package; None without one here."""
    if package == "__main__":
        return None
    spec = importlib.util.find_spec(package) or PathFinder.find_spec(package, code_folders())
    if spec is None:
        return None
    return Path(next(iter(spec.submodule_search_locations or [str(spec.origin)])))


def read_code(workload: str) -> CodeFiles | None:
    """Read the code of `package.module:function`; None if it is ours, or is not found here.

    The code of an own model is the code of all of its functions, from the folder of the first.
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
            names = imported_names(content.decode(errors="replace")) - imports
            imports |= names
            if folder.name not in ("site-packages", "dist-packages"):
                in_packages = (folder / name / "__init__.py" for name in names)
                sources += [file.parent for file in in_packages if file.is_file()]
                sources += filter(Path.is_file, (folder / f"{name}.py" for name in names))
    return CodeFiles(folder, dict(sorted(digests.items())), frozenset(imports))


def training_on_import(workload: str) -> Iterator[str]:
    """Yield the places where the import of a workload's modules trains, it seems: `own.py:31`.

    They call `fit`, `train_on_batch`, or `backward` of a loss.

    Only the modules that the workload names are read, and nothing is imported. A call under
    `if __name__ == "__main__":` is not made by an import.
    """
    code = read_code(workload)
    entries = [part for part in workload.split(" with ") if ":" in part] if code else []
    for name in dict.fromkeys(entry.partition(":")[0] for entry in entries):
        assert code is not None  # there are entries
        file = f"{name.replace('.', '/')}.py"
        module = _parsed(code, file)
        if module is not None:
            nodes = _nodes_that_import_runs(module)
            yield from (f"{file}:{node.lineno}" for node in nodes if _trains(node))


def line_with(code: CodeFiles, modules: Iterable[str], words: Collection[str]) -> str:
    """Return the place of the first line that has one of the names: `own.py:3`; "" for none.

    Only these modules of the code are read. A line that an import runs comes first, else any line.
    """
    paths = [name.replace(".", "/") for name in modules]
    files = (file for path in paths for file in (f"{path}.py", f"{path}/__init__.py"))
    trees = [
        (file, tree)
        for file in files
        if file in code.digests and (tree := _parsed(code, file)) is not None
    ]
    for nodes_of in (_nodes_that_import_runs, ast.walk):
        for file, tree in trees:
            lines = [
                node.lineno
                for node in nodes_of(tree)
                if isinstance(node, ast.expr | ast.keyword) and _names(node) & {*words}
            ]
            if lines:
                return f"{file}:{min(lines)}"
    return ""


def _parsed(code: CodeFiles, file: str) -> ast.Module | None:
    """Return the syntax of a file; None for one that cannot be read."""
    try:
        return ast.parse((code.folder / file).read_bytes())
    except (OSError, SyntaxError, ValueError):  # the import tells of it
        return None


def _names(node: ast.AST) -> set[str]:
    """Return the names and the text in a node itself."""
    own = (getattr(node, name, None) for name in ("attr", "id", "arg", "value"))
    return {name for name in own if isinstance(name, str)}


def _nodes_that_import_runs(module: ast.Module) -> Iterator[ast.AST]:
    for part in module.body:
        yield from _nodes_that_run(part)


def _nodes_that_run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that run when its module is imported."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return
    if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _nodes_that_run(child)


def _trains(node: ast.AST) -> TypeGuard[ast.Call]:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _TRAINING


def imported_names(text: str) -> set[str]:
    """Return the names of the top-level modules that source text imports."""
    matches = _IMPORT.finditer(text)
    clauses = [clause for match in matches for clause in (match[1] or match[2]).split(",")]
    return {re.split(r"[.\s]", clause.strip())[0] for clause in clauses}


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


def without_colours(text: str) -> str:
    """Return a text without the terminal's codes for colours, which Keras puts into errors."""
    return _COLOURS.sub("", text)


def _without_calls(text: str) -> list[str]:
    """Return the lines of an error's text, without empty ones and the calls that TensorFlow adds.

    A heading, such as "Graph execution error:", is followed by its reason then.
    """
    lines, is_call = list[str](), False
    for line in filter(str.strip, text.splitlines()):
        is_heading = line.rstrip().endswith(_OF_CALLS)
        is_call = is_heading or (is_call and line[0].isspace())
        if not is_call:
            lines.append(line)
    return lines


def describe_error(error: BaseException, code: CodeFiles | None) -> str:
    """Return an error in a line, equal for equal errors; then its text and calls there."""
    text = without_colours(str(error))
    first, *more = _without_calls(text) or [""]
    if more and (first.startswith(_WRAPPED_BY_KERAS) or first.rstrip().endswith(":")):
        first = f"{first.rstrip('.: ')}: {more.pop(0).strip()}"
    rest = [first] if len(first) > _SHOWN_CHARACTERS else []
    first = f"{first[:_SHOWN_CHARACTERS]}…" if rest else first
    line = f"{type(error).__name__}: {first.strip()}" if first else type(error).__name__
    names = {str(code.folder / name): name for name in code.digests} if code else {}
    names |= session_files
    calls = [call for call in traceback.extract_tb(error.__traceback__) if call.filename in names]
    if calls:
        line += f", at {names[calls[-1].filename]}:{calls[-1].lineno}"
    shown = (text.rstrip() for text in traceback.format_list(calls[-_SHOWN_CALLS:]))
    return "\n".join([line, *more[:_SHOWN_LINES], *shown, *rest])
