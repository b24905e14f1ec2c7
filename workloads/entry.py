"""The code of a workload, by its name: a task, or a user's function of a `Context`.

Called in trainer processes only: a task may import a framework.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from workloads.context import Context
from workloads.failures import BadRequest
from workloads.own_code import PACKAGES
from workloads.registry import Workload, find_workload
from workloads.tasks.task import Task

Function: TypeAlias = Callable[[Context], Mapping[str, float]]
Entry: TypeAlias = Task[Any, Any] | Function


def load_entry(workload: Workload) -> Entry:
    """Import the task or the function of a workload; raise `BadRequest` if there is none."""
    module_name, _, name = workload.entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists; an import inside it is missing
        advice = "install it on every node, or make its package importable (PYTHONPATH)"
        raise BadRequest(
            f"workload {workload.name!r}: no module {error.name!r} on this machine:"
            f" {explain_other_package(error) or advice}"
        ) from None
    entry = getattr(module, name, None)
    if isinstance(entry, Task) or callable(entry):
        return entry
    raise BadRequest(
        f"workload {workload.name!r}: expected a function {name!r} in {module.__file__};"
        f" received {entry!r}"
    )


def find_task(name: str) -> Task[Any, Any]:
    """Import the task of this name, or raise `BadRequest` if it is a function of a `Context`."""
    entry = load_entry(find_workload(name))
    if isinstance(entry, Task):
        return entry
    raise BadRequest(f"workload {name!r}: expected a task; received {entry!r}")


def explain_other_package(error: BaseException) -> str:
    """Return advice if a module is missing because another package has the name of its package."""
    name = (getattr(error, "name", None) or "") if isinstance(error, ImportError) else ""
    package = name.partition(".")[0]
    if package not in sys.modules or (package == name and package not in PACKAGES):
        return ""
    return f"Python imports {sys.modules[package]}; if yours is another package, rename it"
