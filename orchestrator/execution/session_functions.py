"""Functions of a notebook or a script as workloads: sent by value, to where they are imported.

Trainers import the code of a workload by name. A function of `__main__`, or one that was defined in
another function, has no such name. It is pickled by value with cloudpickle, into a package that is
found like any other code of a user's: its digest is part of the sweep's identity, and the code
bundle of a cluster has it.

The digest is of source text, in the file `code.py` of the package: the functions, and what they
read of the session (other functions, classes, values, imports). A pickle would differ after a
restart of the notebook, where the code has not changed. The folder `parts` has the same text in a
file for each function, class or value, which tells what has changed. Nothing imports these files.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import io
import linecache
import operator
import re
import sys
import textwrap
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.core.errors import Refusal
from workloads.own_code import PACKAGES, code_in, find_package, imported_names
from workloads.session_functions import (
    PICKLE,
    SESSION_PACKAGE,
    SESSION_PARTS,
    WHOLE_CODE,
    with_cache,
)

_INIT = '''"""Functions of the notebook or the script that started this sweep."""

from workloads.session_functions import load_functions

globals().update(load_functions(__file__))
'''

_READS, _IMPORTS = ("LOAD_GLOBAL", "LOAD_NAME"), ("IMPORT_NAME",)
"""Instructions of Python's machine that read a global, and that import a module."""

_PLAIN = (str, int, float, complex, bytes, bool, type(None))
_SHOWN = 200
"""The most characters of a value in the source text; of a longer one it has the digest."""


class FunctionUnusable(Refusal):
    """A function that was given as a workload cannot be sent to trainer processes."""

    __module__ = "rnnsweep"


@contextmanager
def functions_as_entries(given: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """Return the place of each function, `module:name`, where trainers import it in this block.

    `given` has the functions by the keys of the spec that name them: workload, model and data. They
    keep their places if all are functions of modules. Raise `FunctionUnusable` with the reason and
    the cure.
    """
    functions = {key: _expect_function(key, value) for key, value in given.items()}
    with ExitStack() as stack:
        if all(map(_is_importable, functions.values())):
            for function in functions.values():
                stack.enter_context(code_in(_folder_of(function)))
            yield {key: f"{f.__module__}:{f.__name__}" for key, f in functions.items()}
            return
        by_name = {function.__name__: function for function in functions.values()}
        if len(by_name) < len(functions):
            raise FunctionUnusable(
                f"{' and '.join(functions)}: expected functions with different names; received two"
                f" of the name {next(iter(by_name))!r}: rename one"
            )
        folder = stack.enter_context(TemporaryDirectory(prefix="rnnsweep-functions-"))
        _write_package(Path(folder), by_name)
        stack.enter_context(code_in(Path(folder), before_current=True))
        yield {key: f"{SESSION_PACKAGE}:{f.__name__}" for key, f in functions.items()}


def _expect_function(key: str, function: object) -> types.FunctionType:
    """Return a function with a name; refuse anything else."""
    name = getattr(function, "__name__", "")
    if isinstance(function, types.FunctionType) and name.isidentifier():
        return function
    kind = "a function without a name (lambda)" if name == "<lambda>" else repr(function)[:_SHOWN]
    raise FunctionUnusable(
        f"{key}: expected a function with a name (def train(trial): ...), or the text"
        f" package.module:function; received {kind}"
    )


def _is_importable(value: Any) -> bool:
    """Return whether a function or class is found in its module, which others can import."""
    module = sys.modules.get(value.__module__ or "")
    if module is None or value.__module__ == "__main__" or module.__spec__ is None:
        return False
    return getattr(module, value.__qualname__, None) is value


def _folder_of(function: types.FunctionType) -> Path:
    """Return the folder from which the top-level package of a function is imported."""
    top = find_package(function.__module__.partition(".")[0])
    return Path.cwd() if top is None else top.parent


def _write_package(folder: Path, functions: Mapping[str, types.FunctionType]) -> None:
    """Write the functions as a package, next to links to the user's modules that they import."""
    source = _Source()
    for name, function in functions.items():
        source.add(name, function)
    package = folder / SESSION_PACKAGE
    (folder / SESSION_PARTS).mkdir(parents=True)
    (package / "__init__.py").write_text(_INIT, encoding="utf-8")
    (folder / WHOLE_CODE).write_text(source.text(), encoding="utf-8")
    for name, text in source.parts().items():
        file = re.sub(r"[^\w.]", "_", name)[:100]
        (folder / SESSION_PARTS / f"{file}.py").write_text(text, encoding="utf-8")
    (package / PICKLE).write_bytes(_pickled(functions, source.files()))
    for name in imported_names(source.text()) - {*PACKAGES} - sys.stdlib_module_names:
        place = find_package(name)
        if place is not None and place.parent.name not in ("site-packages", "dist-packages"):
            (folder / place.name).symlink_to(place.resolve())


def _pickled(
    functions: Mapping[str, types.FunctionType], files: Mapping[str, tuple[str, str]]
) -> bytes:
    import cloudpickle  # noqa: PLC0415  (a tenth of a second)

    # Files first: they are registered before a function is restored.
    return bytes(cloudpickle.dumps({"files": dict(files), "functions": _by_value(functions)}))


def _by_value(functions: Mapping[str, types.FunctionType]) -> bytes:
    try:
        return _dumps(dict(functions))
    except Exception as error:  # noqa: BLE001  (whatever a value raises when it is pickled)
        name, value = _unpicklable(functions)
        reads = f" reads {name}, {type(value).__name__}, which" if name else ""
        raise FunctionUnusable(
            f"workload: {', '.join(functions)}{reads} cannot be sent to trainer processes"
            f" ({type(error).__name__}: {error}). Make it inside the function, or write the"
            " function into a module next to the notebook and name it as package.module:function"
        ) from None


def _dumps(value: object) -> bytes:
    """Return a pickle of a value; functions of the session are in it by value, cached ones too."""
    import cloudpickle  # noqa: PLC0415

    class Pickler(cloudpickle.CloudPickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, functools._lru_cache_wrapper) and not _is_importable(value):
                return with_cache, (value.__wrapped__, value.cache_parameters())
            return super().reducer_override(value)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def _without_cache(value: object) -> object:
    """Return the function of the session that `functools.lru_cache` wraps; another value as is."""
    if isinstance(value, functools._lru_cache_wrapper) and not _is_importable(value):
        wrapped: object = value.__wrapped__
        return wrapped
    return value


def _unpicklable(functions: Mapping[str, types.FunctionType]) -> tuple[str, object]:
    """Return the first value that the functions read and that cannot be pickled."""
    seen, pending = set[int](), list[object](functions.values())
    while pending:
        function = pending.pop()
        for name, read in _read_by(function):
            value = _without_cache(read)
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, types.FunctionType):
                pending.append(value)
                continue
            try:
                _dumps(value)
            except Exception:  # noqa: BLE001
                return name, value
    return "", None


class _Source:
    """The source text of functions of a session, with all that they read of it."""

    def __init__(self) -> None:
        self._parts, self._imports, self._seen = dict[str, str](), set[str](), set[int]()
        self._files = set[str]()

    def add(self, name: str, value: Any) -> None:
        """Add a function, a class, a module or a value, and what it reads."""
        value = _without_cache(value)
        if not _is_plain(value):  # equal numbers are one object
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
        while name in self._parts:  # another function's
            name += "_"
        if isinstance(value, types.ModuleType):
            self._imports.add(f"import {value.__name__} as {name}")
        elif isinstance(value, types.FunctionType | type):
            if _is_importable(value) or value.__module__ == "builtins":
                self._imports.add(f"from {value.__module__} import {value.__qualname__}")
                return
            self._parts[name] = _text_of(value)
            for read, other in _read_by(value):
                self.add(read, other)
        else:
            self._parts[name] = f"{name} = {_value_text(value)}"
            self.add(type(value).__name__, type(value))
        if isinstance(value, types.FunctionType):
            self._files.add(value.__code__.co_filename)
            self._imports |= {f"import {name}" for name in _names(value.__code__, _IMPORTS)}

    def text(self) -> str:
        """Return the whole text, in an order that does not depend on the session."""
        parts = [self._parts[name] for name in sorted(self._parts)]
        return "\n\n".join([self._import_lines(), *parts]).strip() + "\n"

    def parts(self) -> dict[str, str]:
        """Return the text of each function, class and value by its name, and that of imports."""
        return {"its imports": self._import_lines(), **self._parts}

    def _import_lines(self) -> str:
        return "\n".join(
            sorted(text for text in self._imports if not text.startswith("from builtins"))
        )

    def files(self) -> dict[str, tuple[str, str]]:
        """Return the name to show and the text of each file or cell that has a function."""
        texts = {file: "".join(linecache.getlines(file)) for file in self._files}
        return {
            file: (Path(file).name if Path(file).is_file() else "notebook cell", text)
            for file, text in texts.items()
            if text
        }


def _text_of(value: Any) -> str:
    """Return the source text of a function or a class; its instructions where it has none."""
    try:
        return textwrap.dedent(inspect.getsource(value)).rstrip()
    except (OSError, TypeError):
        if isinstance(value, type):  # of a notebook; its functions are added one by one
            return f"class {value.__name__}: ..."
        return f"# {value.__name__}: {_digest(_instructions(value.__code__))}"


def _instructions(code: types.CodeType) -> str:
    constants = [
        _instructions(c) if isinstance(c, types.CodeType) else _with_sorted_sets(c)
        for c in code.co_consts
    ]
    return repr((code.co_code, constants, code.co_names, code.co_varnames))


def _value_text(value: object) -> str:
    """Return a short value as it is written, and the digest of any other one."""
    value = _with_sorted_sets(value)
    text = repr(value)
    if _is_plain(value) and len(text) <= _SHOWN:
        return text
    try:
        import cloudpickle  # noqa: PLC0415

        content = cloudpickle.dumps(value)
    except Exception:  # noqa: BLE001  (sending it names what cannot be pickled)
        content = b""
    return f"...  # {type(value).__name__}, {hashlib.sha256(content).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, repr=False)
class _SortedSet:
    """A set in the order of its elements' texts: its own changes with each start of Python."""

    kind: str
    elements: tuple[str, ...]

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(self.elements)})"


def _with_sorted_sets(value: Any) -> Any:
    """Return a value with a `_SortedSet` for each set in it; itself if there is none."""
    if isinstance(value, set | frozenset):
        return _SortedSet(type(value).__name__, tuple(sorted(map(_value_text, value))))
    if isinstance(value, dict):
        items = [*value.items()]
        ordered = [*map(_with_sorted_sets, items)]
        return value if all(map(operator.is_, ordered, items)) else dict(ordered)
    if isinstance(value, list | tuple):
        parts = [*map(_with_sorted_sets, value)]
        if all(map(operator.is_, parts, value)):
            return value
        return parts if isinstance(value, list) else tuple(parts)
    return value


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, (*_PLAIN, _SortedSet))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_by(value: object) -> Iterator[tuple[str, object]]:
    """Yield the globals, closures and defaults that a function, or a class's functions, read."""
    if isinstance(value, type):
        for base in value.__bases__:
            yield base.__name__, base
        for name, member in vars(value).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            function = _without_cache(function)
            if isinstance(function, types.FunctionType):
                yield f"{value.__name__}.{name}", function
            elif _is_plain(_with_sorted_sets(member)) and not re.fullmatch(r"__\w+__", name):
                yield f"{value.__name__}.{name}", member
        return
    if not isinstance(value, types.FunctionType):
        return
    for name in sorted(_names(value.__code__, _READS)):
        if name in value.__globals__:
            yield name, value.__globals__[name]
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    for index, default in enumerate(defaults):
        if default is not None:
            yield f"{value.__name__}.default_{index}", default


def _names(code: types.CodeType, instructions: Collection[str]) -> set[str]:
    """Return the names that such instructions have, also in inner functions and classes."""
    names = {
        str(instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in instructions and instruction.argval
    }
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return names.union(*(_names(function, instructions) for function in inner))
