"""The import of a user's own model, in a process whose framework is set up before it.

A line of the user's file may compute something when it is imported: a constant, an optimizer, a
model at the end of the file. That fixes threads and devices. So the framework comes first, and what
the import changes is found, set back where an arm decides it, and named by its line.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workloads.backends.loading import import_framework
from workloads.backends.process_settings import environment_settings, set_back
from workloads.context import Context
from workloads.data.samples import DataSet
from workloads.entry import import_module_of, load_own_functions
from workloads.failures import NotPossible
from workloads.hidden_packages import visible_packages
from workloads.implementations import AUTO, Implementation
from workloads.number_format import OwnNumberFormat
from workloads.own_code import line_with, read_code
from workloads.protocol import Device
from workloads.registry import Workload
from workloads.tasks.own_model.loaded import seed_loading
from workloads.tasks.own_model.settings import OwnModelSettings
from workloads.tasks.own_model.task import OwnFunctions
from workloads.tasks.task import Task

if TYPE_CHECKING:
    from workloads.backends.framework import Framework

_FORMAT_WORDS = ("set_dtype_policy", "set_global_policy", "set_policy", "set_floatx")


@dataclass(frozen=True, slots=True)
class OwnModelImport:
    """The functions of an own model, and what the import of their modules changed in its process.

    `notes` are sentences on the switches that were set back. `refusal` says why this process cannot
    run the model: a switch that could not be set back.
    """

    functions: OwnFunctions
    number_format: OwnNumberFormat | None
    notes: tuple[str, ...]
    refusal: str | None


@dataclass(frozen=True, slots=True)
class _Effects:
    """What the import of a module changed in its process."""

    notes: tuple[str, ...] = ()
    refusal: str | None = None
    number_format: OwnNumberFormat | None = None


_effects: dict[str, _Effects] = {}
"""By module; each is imported once in a process."""


def load_own_model(
    workload: Workload, trial: Context
) -> tuple[Task[OwnModelSettings, DataSet], Context]:
    """Import the code of an own model; return its task, and the trial with its number format.

    Raise `BadRequest` if there is no such code, and `NotPossible` if it changes what the arm is.
    """
    imported = import_own_model(workload, import_framework(trial), trial.device)
    own_format = imported.number_format
    reason = imported.refusal
    if reason is None and own_format is not None:
        reason = own_format.refusal_reason(trial.implementation)
    if reason is not None:
        raise NotPossible(f"{trial.implementation}: {reason}")
    return imported.functions.as_task(), replace(trial, number_format=own_format)


def import_own_model(workload: Workload, framework: Framework, device: Device) -> OwnModelImport:
    """Import the functions of an own model; raise `BadRequest` if one does not exist."""
    framework.configure(Implementation(framework.backend.name, AUTO), device)
    entries = {entry.partition(":")[0]: entry for entry in workload.entries}
    for module, entry in entries.items():
        if module not in _effects:
            _effects[module] = _import(workload, entry, framework)
    effects = [_effects[module] for module in entries]
    return OwnModelImport(
        load_own_functions(workload),
        next((effect.number_format for effect in effects if effect.number_format), None),
        tuple(note for effect in effects for note in effect.notes),
        next((effect.refusal for effect in effects if effect.refusal), None),
    )


def _import(workload: Workload, entry: str, framework: Framework) -> _Effects:
    """Import the module of an entry, and set back what it changes in the process."""
    import keras  # noqa: PLC0415 - the framework of this process

    floatx, policy, known = keras.config.floatx(), keras.config.dtype_policy(), {*sys.modules}
    seed_loading()  # what the module draws at random is the same in each process
    settings = [*framework.process_settings(), *environment_settings()]
    with visible_packages(), set_back(settings) as changes:
        import_module_of(workload, entry)
    code = read_code(workload.name)
    modules = [entry.partition(":")[0], *sorted({*sys.modules} - known)]

    def place(words: Collection[str]) -> str:
        return (code and line_with(code, modules, words)) or "the code of the model"

    refusals = [
        f"{place(change.words)} sets {change.name} to {change.after}, and"
        f" {framework.backend.title} cannot set it back to {change.before}: remove that line"
        for change in changes
        if change.is_fixed
    ]
    notes = [
        f"{place(change.words)} sets {change.name} to {change.after}; trials use their own value,"
        f" here {change.before}"
        for change in changes
        if not change.is_fixed
    ]
    own_floatx, own_policy = keras.config.floatx(), keras.config.dtype_policy()
    # After `clear_session` Keras makes a new object of the default.
    has_policy = own_policy is not policy and own_policy.name != own_floatx
    number_format = None
    if has_policy or own_floatx != floatx:
        number_format = OwnNumberFormat(
            own_policy.name if has_policy else None,
            own_floatx if own_floatx != floatx else None,
            place(_FORMAT_WORDS),
        )
    return _Effects(tuple(notes), next(iter(refusals), None), number_format)
