"""One request line to its events: every failure becomes an event, and the process goes on."""

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
    """Passes a trial's events on until the trial is over.

    A thread that a workload leaves behind must not speak in the next trial's name.
    """

    emit: Emit
    over: bool = False

    def __call__(self, event: Event) -> None:
        """Emit the event, or say on standard error that it came too late."""
        if self.over:
            print(f"dropped, its trial is over: {event}", file=sys.stderr)  # noqa: T201
        else:
            self.emit(event)


def answer_request(line: str, emit: Emit, claim: BackendClaim, commands: CommandReader) -> int:
    """Run the trial that a line asks for; one that is timed in slices takes commands meanwhile.

    Returns:
        0 when it ended in a result, 1 when it failed, 2 when the line was no request.
    """
    if commands.are_late(line):
        return 0
    try:
        request = decode_request(line)
    except ProtocolError as error:
        emit(Failure("bad_request", str(error)))
        return 2
    turn = TrialEmitter(emit)
    try:
        emit(Result(_run(request, turn, claim, commands)))
    except TrialError as error:
        emit(Failure(error.kind, str(error), _detail(error) if error.__cause__ else ""))
    except KeyboardInterrupt as error:
        emit(Failure("error", "interrupted", _detail(error)))
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is a result
        emit(Failure("error", _sentence(error), _detail(error)))
    else:
        return 0
    finally:
        turn.over = True
    return 1


def _run(
    request: TrialRequest, emit: Emit, claim: BackendClaim, commands: CommandReader
) -> dict[str, float]:
    if request.measure == "timing":
        commands.expect()
    if request.seed < 0:
        raise BadRequest(f"seed: expected a number from 0; received {request.seed}")
    workload = _workload(request)
    implementation = _implementation(request, workload)
    settings = _settings(request, workload)
    _expect_eligible(workload, implementation, settings, request)
    claim.take(implementation, request.device)
    _expect_data(workload, settings, request.data_digest)
    reset_peak()
    turns = Slicing(commands.next, request.slice_s) if request.measure == "timing" else None
    trial = Context(settings, implementation, request.device, request.seed, emit, turns)
    returned = _entry(workload)(trial)
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


def _expect_data(workload: Workload, settings: Mapping[str, Any], wanted: str | None) -> None:
    if wanted is None:
        return
    here = workload.data_digest(settings)
    if here != wanted:
        raise DataError(
            f"data of {workload.name}: expected digest {wanted}, as the sweep began with; the data"
            f" here has {here}: give every node the same data, or start the sweep anew (--fresh)"
        )


def _entry(workload: Workload) -> Callable[[Context], Mapping[str, float]]:
    module_name, _, function_name = workload.entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks something that it imports itself
        raise BadRequest(
            f"workload {workload.name!r}: no module {error.name!r} here: install it on every node,"
            " or run where its package can be imported (PYTHONPATH)"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadRequest(
            f"workload {workload.name!r}: expected a function {function_name!r} in"
            f" {module.__file__}; received {function!r}"
        )
    return function


def _metrics(returned: Any, trial: Context) -> dict[str, float]:
    """What the workload returned, with the phases' seconds and the peak memory beneath it."""
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
    if trial.turns is not None:
        measured |= trial.turns.metrics()
        measured.pop("train_s", None)  # of a few slices: `timed_s` tells it
    peak = peak_rss_mib()
    if peak is not None:
        measured["peak_rss_mib"] = peak
    return {**measured, **metrics}


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _detail(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_DETAIL_CHARACTERS:]
