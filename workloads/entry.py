"""The code of a workload, by its name: a task, a function of a `Context`, or an own model.

Called in trainer processes only: a task may import a framework.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from workloads.autologging import switch_off_autologging
from workloads.context import Context
from workloads.failures import BadRequest
from workloads.own_code import PACKAGES
from workloads.registry import Workload
from workloads.session_functions import SESSION_PACKAGE
from workloads.tasks.task import Task

if TYPE_CHECKING:
    from workloads.tasks.own_model.task import OwnFunctions

Function: TypeAlias = Callable[[Context], Mapping[str, float]]
Entry: TypeAlias = Task[Any, Any] | Function


def load_entry(workload: Workload) -> Entry:
    """Import the code of a workload: its task, or its function.

    The functions of an own model become a task. Raise `BadRequest` if there is no such code.
    """
    if workload.model_entry is not None:
        return load_own_functions(workload).as_task()
    entry = _import(workload, workload.entry)
    if isinstance(entry, Task) or callable(entry):
        return entry
    raise _no_function(workload, workload.entry, entry)


def load_own_functions(workload: Workload) -> OwnFunctions:
    """Import the functions of an own model; raise `BadRequest` if one does not exist."""
    from workloads.tasks.own_model.task import OwnFunctions  # noqa: PLC0415 - imports NumPy

    assert workload.model_entry is not None  # it is an own model
    functions = {entry: _import(workload, entry) for entry in workload.entries}
    for entry, function in functions.items():
        if not callable(function):
            raise _no_function(workload, entry, function)
    return OwnFunctions(
        functions[workload.model_entry],
        workload.data_entry,
        functions.get(workload.data_entry or ""),
        functions.get(workload.callbacks_entry or ""),
    )


def _import(workload: Workload, entry: str) -> Any:
    """Return what a module has under the name of an entry, None if it has nothing."""
    module = import_module_of(workload, entry)
    switch_off_autologging()
    return getattr(module, entry.partition(":")[2], None)


def import_module_of(workload: Workload, entry: str) -> ModuleType:
    """Import the module of an entry; raise `BadRequest` if there is none."""
    module_name = entry.partition(":")[0]
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists; an import inside it is missing
        advice = (
            "put it next to the spec or into the current folder, or install its package on every"
            " node"
        )
        if error.name == SESSION_PACKAGE:
            keys = {
                workload.model_entry: "model",
                workload.data_entry: "data",
                workload.callbacks_entry: "callbacks",
            }
            given = f'"{keys.get(entry, "workload")}": {entry.partition(":")[2]}'
            advice = (
                "its functions are in a notebook or a script: call run_sweep there, with the"
                f" function instead of its name ({{**spec, {given}}})"
            )
        raise BadRequest(
            f"workload {workload.name!r}: no module {error.name!r} on this machine:"
            f" {explain_other_package(error) or advice}"
        ) from None


def _no_function(workload: Workload, entry: str, found: object) -> BadRequest:
    module_name, _, name = entry.partition(":")
    file = sys.modules[module_name].__file__
    fault = f"no function {name!r} in {file}"
    if found is not None:
        fault = f"{name!r} in {file} is not a function: {found!r:.80}"
    return BadRequest(f"workload {workload.name!r}: {fault}")


def explain_other_package(error: BaseException) -> str:
    """Return advice if a module is missing because another package has the name of its package."""
    name = (getattr(error, "name", None) or "") if isinstance(error, ImportError) else ""
    package = name.partition(".")[0]
    if package not in sys.modules or (package == name and package not in PACKAGES):
        return ""
    return f"Python imports {sys.modules[package]}: if that is not your package, rename yours"
