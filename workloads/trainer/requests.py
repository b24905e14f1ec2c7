"""Answers to request lines: every failure becomes an event, and the process continues."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from workloads.backend import BackendClaim
from workloads.context import Context, expect_finite
from workloads.eligibility import ineligibility_reason
from workloads.failures import BadRequest, DataError, NotPossible, TrialError
from workloads.implementations import Implementation, ImplementationError, parse_implementation
from workloads.memory import peak_rss_mib, reset_peak
from workloads.protocol import (
    Event,
    Failure,
    ProtocolError,
    Result,
    TrialRequest,
    decode_request,
)
from workloads.registry import UnknownWorkload, Workload, explain_invalid_settings, find_workload
from workloads.slicing import Slicing
from workloads.trainer.commands import CommandReader

Emit = Callable[[Event], None]
_DETAIL_CHARACTERS = 6_000


@dataclass(slots=True)
class TrialEmitter:
    """An emitter for the events of one trial, closed when the trial ends.

    A thread that a workload leaves running must not report in the name of the next trial.
    """

    emit: Emit
    is_over: bool = False

    def __call__(self, event: Event) -> None:
        """Emit the event; after the end of the trial, report it on standard error instead."""
        if self.is_over:
            print(f"dropped, its trial is over: {event}", file=sys.stderr)  # noqa: T201
        else:
            self.emit(event)


def answer_request(line: str, emit: Emit, claim: BackendClaim, commands: CommandReader) -> int:
    """Run the trial of a request line; a trial that is timed in slices also reads commands.

    Returns:
        0 if it ended in a result, 1 if it failed, 2 if the line was not a request.
    """
    if commands.drop_late_command(line):
        return 0
    try:
        request = decode_request(line)
    except ProtocolError as error:
        emit(Failure("bad_request", str(error)))
        return 2
    trial_emitter = TrialEmitter(emit)
    try:
        emit(Result(_run(request, trial_emitter, claim, commands)))
    except TrialError as error:
        emit(Failure(error.kind, str(error), _detail(error) if error.__cause__ else ""))
    except KeyboardInterrupt as error:
        emit(Failure("error", "interrupted", _detail(error)))
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is a result
        emit(Failure("error", _summary(error), _detail(error)))
    else:
        return 0
    finally:
        trial_emitter.is_over = True
    return 1


def _run(
    request: TrialRequest, emit: Emit, claim: BackendClaim, commands: CommandReader
) -> dict[str, float]:
    if request.measure == "timing":
        commands.expect_commands()
    if request.seed < 0:
        raise BadRequest(f"seed: expected a number from 0; received {request.seed}")
    workload = _workload(request)
    implementation = _implementation(request, workload)
    settings = _settings(request, workload)
    _expect_eligible(workload, implementation, settings, request)
    claim.take(implementation, request.device)
    _expect_data(workload, settings, request.data_digest)
    reset_peak()
    slicing = Slicing(commands.next, request.slice_s) if request.measure == "timing" else None
    trial = Context(settings, implementation, request.device, request.seed, emit, slicing)
    returned = entry_function(workload)(trial)
    return _metrics(returned, trial)


def _workload(request: TrialRequest) -> Workload:
    try:
        return find_workload(request.workload)
    except UnknownWorkload as error:
        raise BadRequest(str(error)) from None


def _implementation(request: TrialRequest, workload: Workload) -> Implementation:
    try:
        return parse_implementation(request.implementation, known_only=workload.is_built_in)
    except ImplementationError as error:
        raise BadRequest(f"implementation: {error}") from None


def _settings(request: TrialRequest, workload: Workload) -> dict[str, Any]:
    try:
        return workload.resolve(request.settings)
    except ValidationError as error:
        raise BadRequest(explain_invalid_settings(error, workload.settings_model)) from None


def _expect_eligible(
    workload: Workload,
    implementation: Implementation,
    settings: Mapping[str, Any],
    request: TrialRequest,
) -> None:
    if not workload.is_built_in:
        return
    reason = ineligibility_reason(implementation, workload.traits(settings), request.device)
    if reason is not None:
        raise NotPossible(f"{implementation} on {request.device}: {reason}")


def _expect_data(workload: Workload, settings: Mapping[str, Any], expected: str | None) -> None:
    if expected is None:
        return
    digest = workload.data_digest(settings)
    if digest != expected:
        raise DataError(
            f"data of {workload.name}: expected digest {expected}, as at the start of the sweep;"
            f" the data on this machine has {digest}: give every node the same data, or start a"
            " new generation (--fresh)"
        )


def entry_function(workload: Workload) -> Callable[[Context], Mapping[str, float]]:
    """Import the function of a workload.

    Raises:
        BadRequest: there is no such module or function.
    """
    module_name, _, function_name = workload.entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists; an import inside it is missing
        raise BadRequest(
            f"workload {workload.name!r}: no module {error.name!r} on this machine: install it on"
            " every node, or make its package importable (PYTHONPATH)"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadRequest(
            f"workload {workload.name!r}: expected a function {function_name!r} in"
            f" {module.__file__}; received {function!r}"
        )
    return function


def _metrics(returned: Any, trial: Context) -> dict[str, float]:
    """Return the workload's metrics, added to the seconds of the phases and the peak memory."""
    if not isinstance(returned, Mapping):
        raise TypeError(
            f"workload: expected a mapping of metric names to numbers; received {returned!r}"
        )
    try:
        metrics = {str(name): float(value) for name, value in returned.items()}
    except (TypeError, ValueError) as error:
        raise TypeError(f"workload: expected metrics that are numbers; {error}") from error
    expect_finite(metrics, "result")
    measured = {f"{phase}_s": seconds for phase, seconds in trial.seconds.items()}
    if trial.slicing is not None:
        measured |= trial.slicing.metrics()
        measured.pop("train_s", None)  # `timed_s` has the seconds of the slices
    peak = peak_rss_mib()
    if peak is not None:
        measured["peak_rss_mib"] = peak
    return {**measured, **metrics}


def _summary(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _detail(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_DETAIL_CHARACTERS:]
