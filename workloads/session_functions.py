"""Functions of a notebook or a script, in the processes that run them.

`orchestrator.execution.session_package` writes them as the package `python_session`, whose
`__init__.py` calls `load_functions`.
"""

import linecache
import pickle
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from workloads.own_code import session_files

SESSION_PACKAGE = "python_session"
"""The package of these functions: the workload `python_session:train` is the function `train`."""

PICKLE = "functions.pickle"


def load_functions(init_file: str) -> dict[str, Any]:
    """Return the functions by their names; a traceback shows their lines as they were sent."""
    content = pickle.loads(Path(init_file).with_name(PICKLE).read_bytes())
    for file, (shown, text) in content["files"].items():
        session_files[file] = shown
        # without a time it is never looked for on the disk: a notebook's cell is no file
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    functions: dict[str, Any] = pickle.loads(content["functions"])
    return functions


def with_cache(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function with an empty `functools.lru_cache`, to which pickles refer."""
    return lru_cache(**parameters)(function)
