"""Answers to request lines: every failure becomes an event, and the process continues."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from workloads.backend import BackendClaim
from workloads.context import Context, expect_finite
from workloads.eligibility import ineligibility_reason
from workloads.failures import BadRequest, DataError, NotPossible, TrialError
from workloads.implementations import Implementation, ImplementationError, parse_implementation
from workloads.protocol import (
    Event,
    Failure,
    ProtocolError,
    Result,
    TrialRequest,
    decode_request,
)
from workloads.registry import UnknownWorkload, Workload, explain_invalid_settings, find_workload
from workloads.resources import peak_rss_mib, reset_peak
from workloads.slicing import Slicing
from workloads.trainer.channel import Lines

Emit = Callable[[Event], None]
_DETAIL_CHARACTERS = 6_000


def answer_request(line: str, emit: Emit, claim: BackendClaim, lines: Lines) -> int:
    """Run the trial of a request line; a trial that is timed in slices also reads commands.

    A thread that a workload leaves running must not report in the name of the next trial: its
    events are reported on standard error.

    Returns:
        0 if it ended in a result, 1 if it failed, 2 if the line was not a request.
    """
    if lines.drop_late_command(line):
        return 0
    try:
        request = decode_request(line)
    except ProtocolError as error:
        emit(Failure("bad_request", str(error)))
        return 2
    is_over = False

    def emit_during_trial(event: Event) -> None:
        if is_over:
            print(f"dropped, its trial is over: {event}", file=sys.stderr)  # noqa: T201
        else:
            emit(event)

    try:
        emit(Result(_run(request, emit_during_trial, claim, lines)))
    except TrialError as error:
        emit(Failure(error.kind, str(error), _detail(error) if error.__cause__ else ""))
    except KeyboardInterrupt as error:
        emit(Failure("error", "interrupted", _detail(error)))
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is a result
        summary = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        emit(Failure("error", summary, _detail(error)))
    else:
        return 0
    finally:
        is_over = True
    return 1


def _run(request: TrialRequest, emit: Emit, claim: BackendClaim, lines: Lines) -> dict[str, float]:
    is_timing = request.measure == "timing"
    if is_timing:
        lines.expect_commands()
    workload, implementation, settings = _checked(request)
    claim.take(implementation, request.device)
    if request.data_digest is not None:
        _expect_data(workload, settings, request.data_digest)
    reset_peak()
    slicing = Slicing(lines.next_command, request.slice_s) if is_timing else None
    trial = Context(settings, implementation, request.device, request.seed, emit, slicing)
    returned = entry_function(workload)(trial)
    return _metrics(returned, trial)


def _checked(request: TrialRequest) -> tuple[Workload, Implementation, dict[str, Any]]:
    """Return what a request names, if this process can run it."""
    try:
        workload = find_workload(request.workload)
        implementation = parse_implementation(
            request.implementation, known_only=workload.is_built_in
        )
        settings = workload.resolve(request.settings)
    except UnknownWorkload as error:
        raise BadRequest(str(error)) from None
    except ImplementationError as error:
        raise BadRequest(f"implementation: {error}") from None
    except ValidationError as error:
        raise BadRequest(explain_invalid_settings(error, workload.settings_model)) from None
    if workload.is_built_in:
        reason = ineligibility_reason(implementation, workload.traits(settings), request.device)
        if reason is not None:
            raise NotPossible(f"{implementation} on {request.device}: {reason}")
    return workload, implementation, settings


def _expect_data(workload: Workload, settings: Mapping[str, Any], expected: str) -> None:
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


def _detail(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_DETAIL_CHARACTERS:]
