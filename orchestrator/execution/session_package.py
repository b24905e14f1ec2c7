"""Functions of a notebook or a script as workloads: sent by value, to where they are imported.

Trainers import the code of a workload by name. A function of `__main__`, or one that was defined in
another function, has no such name. It is pickled by value with cloudpickle, into a package that is
found like any other code of a user's: its digest is part of the sweep's identity, and the code
bundle of a cluster has it.

A pickle differs after a restart of the notebook, so the digest is of source text: a file for each
function that was given and for each function of the session that these name, and the names of the
modules that they use, so that the user's own modules belong to the code as well. Values of the
session are in the pickle alone. Nothing imports these files.
"""

from __future__ import annotations

import functools
import inspect
import io
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.core.errors import Refusal
from workloads.own_code import PACKAGES, code_in, find_package, imported_names
from workloads.session_functions import PICKLE, SESSION_PACKAGE, with_cache

_INIT = '''"""Functions of the notebook or the script that started this sweep."""

from workloads.session_functions import load_functions

globals().update(load_functions(__file__))
'''

_SHOWN = 200
"""The most characters of a wrong value in a message."""

_ADVICE = "write the function into a file, such as mine.py, and name it as text: mine:function"


class FunctionUnusable(Refusal):
    """A function in a spec that cannot be sent to the trainer processes."""

    __module__ = "rnnsweep"


@contextmanager
def functions_as_entries(given: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """Return the entry of each function, `module:name`, where trainers import it in this block.

    `given` has the functions by the keys of the spec that name them: workload, model, data and
    callbacks. They keep their entries if all are functions of modules. Raise `FunctionUnusable`
    with the reason and the cure.
    """
    functions = {key: _expect_function(key, value) for key, value in given.items()}
    with ExitStack() as stack:
        if all(map(_is_importable, functions.values())):
            for function in functions.values():
                stack.enter_context(code_in(_folder_of(function)))
            yield {key: f"{f.__module__}:{f.__name__}" for key, f in functions.items()}
            return
        for key, function in functions.items():
            if not _source_of(function):
                raise FunctionUnusable(
                    f"{key}: the source of {function.__name__} cannot be read, because it was typed"
                    f" at a prompt or piped into Python: {_ADVICE}"
                )
        by_name = {function.__name__: function for function in functions.values()}
        if len(by_name) < len(functions):
            raise FunctionUnusable(
                f"{' and '.join(functions)}: two functions have the name {next(iter(by_name))!r}:"
                " rename one"
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
    module = _importable_module(value.__module__)
    return module is not None and getattr(module, value.__qualname__, None) is value


def _importable_module(name: str | None) -> types.ModuleType | None:
    """Return a module that other processes can import too; None for a notebook or a script."""
    module = sys.modules.get(name or "")
    if module is None or name == "__main__" or module.__spec__ is None:
        return None
    return module


def _folder_of(function: types.FunctionType) -> Path:
    """Return the folder from which the top-level package of a function is imported."""
    top = find_package(function.__module__.partition(".")[0])
    return Path.cwd() if top is None else top.parent


def _write_package(folder: Path, functions: Mapping[str, types.FunctionType]) -> None:
    """Write the functions as a package, next to links to the user's modules that they use."""
    code = _SessionCode()
    for function in functions.values():
        code.add(function)
    package = folder / SESSION_PACKAGE
    (package / "functions").mkdir(parents=True)
    (package / "__init__.py").write_text(_INIT, encoding="utf-8")
    modules = sorted(code.modules - {*PACKAGES} - sys.stdlib_module_names)
    imports = "".join(f"import {name}\n" for name in modules)
    (package / "imports.py").write_text(imports, encoding="utf-8")
    for name, text in code.sources.items():
        file = re.sub(r"[^\w.]", "_", name)[:100]
        (package / "functions" / f"{file}.py").write_text(text, encoding="utf-8")
    (package / PICKLE).write_bytes(_pickled(functions, code.files()))
    for name in modules:
        found = find_package(name)
        if found is not None and found.parent.name not in ("site-packages", "dist-packages"):
            (folder / found.name).symlink_to(found.resolve())


class _SessionCode:
    """The source text of functions of a session, and the modules that they use.

    `sources` has the text of each function by its qualified name, `modules` the names of top-level
    modules.
    """

    def __init__(self) -> None:
        self.sources, self.modules = dict[str, str](), set[str]()
        self._files, self._seen = set[str](), set[int]()

    def add(self, value: Any) -> None:
        """Add a function or class of the session with all that it names; of others, the module."""
        value = _without_cache(value)
        if isinstance(value, types.ModuleType):
            self._add_module(value.__name__)
        elif not isinstance(value, types.FunctionType | type):
            self.add(type(value))
        elif _is_importable(value):
            self._add_module(value.__module__)
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            if isinstance(value, types.FunctionType):
                self._add_function(value)
            else:
                for part in (*value.__bases__, *_functions_of(value)):
                    self.add(part)

    def files(self) -> dict[str, tuple[str, str]]:
        """Return the name to show and the text of each file or cell that has a function."""
        texts = {file: "".join(linecache.getlines(file)) for file in self._files}
        return {
            file: (Path(file).name if Path(file).is_file() else "notebook cell", text)
            for file, text in texts.items()
        }

    def _add_module(self, name: str) -> None:
        self.modules.add(name.partition(".")[0])

    def _add_function(self, function: types.FunctionType) -> None:
        if (module := _importable_module(function.__globals__.get("__name__"))) is not None:
            self._add_module(module.__name__)  # whose files belong to the code as a whole
        elif text := _source_of(function):
            name = function.__qualname__
            self.sources[name] = self.sources.get(name, "") + text
            self._files.add(function.__code__.co_filename)
            self.modules |= imported_names(text)
        for value in _named_by(function):
            self.add(value)


def _source_of(function: types.FunctionType) -> str:
    """Return the source text of a function; empty if Python does not know it."""
    try:
        return textwrap.dedent(inspect.getsource(function.__code__)).rstrip() + "\n"
    except OSError:
        return ""


def _without_cache(value: Any) -> Any:
    """Return the function of the session that `functools.lru_cache` wraps; another value as is."""
    if isinstance(value, functools._lru_cache_wrapper) and not _is_importable(value):
        return value.__wrapped__
    return value


def _functions_of(value: type) -> Iterator[types.FunctionType]:
    """Yield the methods of a class, its static ones and its properties too."""
    for member in vars(value).values():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(_without_cache(function), types.FunctionType):
            yield function


def _named_by(function: types.FunctionType) -> Iterator[object]:
    """Yield the values of the globals and the enclosing functions that a function names."""
    for name in sorted(_names_in(function.__code__) & function.__globals__.keys()):
        yield function.__globals__[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names of globals and attributes in a function and in its inner functions."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {*code.co_names}.union(*map(_names_in, inner))


def _pickled(
    functions: Mapping[str, types.FunctionType], files: Mapping[str, tuple[str, str]]
) -> bytes:
    """Return a pickle of files and functions; the functions are in it by value, cached ones too."""
    import cloudpickle  # noqa: PLC0415  (a tenth of a second)

    class Pickler(cloudpickle.CloudPickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, functools._lru_cache_wrapper) and not _is_importable(value):
                return with_cache, (value.__wrapped__, value.cache_parameters())
            return super().reducer_override(value)

    file = io.BytesIO()
    try:
        Pickler(file).dump(dict(functions))
    except Exception as error:  # noqa: BLE001  (whatever a value raises when it is pickled)
        raise FunctionUnusable(
            f"workload: {' and '.join(functions)} cannot be sent to trainer processes, because of a"
            f" value of this session ({type(error).__name__}: {error}): create the value inside the"
            f" function, or {_ADVICE}"
        ) from None
    # Files first: they are registered before a function is restored.
    return bytes(cloudpickle.dumps({"files": dict(files), "functions": file.getvalue()}))
