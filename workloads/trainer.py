"""The inside of a trainer process: its two pipes, and the trials that it runs on request.

A workload may print, and C libraries may write to file descriptor 1. The real pipes are therefore
moved to other descriptors; 1 becomes standard error, and 0 becomes empty. Every failure of a trial
becomes an event, and the process continues.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from workloads import protocol
from workloads.backends.registry import parse_known_implementation
from workloads.context import (
    Context,
    expect_data,
    expect_distinct,
    expect_few,
    expect_finite,
    expect_possible,
)
from workloads.eligibility import ineligibility_reason
from workloads.entry import Entry, explain_other_package, load_entry
from workloads.failures import BadRequest, NotPossible, TrialError
from workloads.implementations import Implementation, ImplementationError, parse_implementation
from workloads.layer_traits import LayerTraits
from workloads.model_facts import ANSWER_ADAPTER, REQUEST_ADAPTER, InspectionAnswer
from workloads.own_code import CodeFiles, describe_error, read_code, versions_in_use
from workloads.process import BackendClaim
from workloads.registry import UnknownWorkload, Workload, explain_invalid_settings, find_workload
from workloads.resources import peak_rss_mib, reset_peak
from workloads.settings import TaskSettings, check_settings
from workloads.tasks.task import Task
from workloads.turns import Turns

Emit = Callable[[protocol.Event], None]

_DETAIL_CHARACTERS = 6_000
_NAMED = 5
_EXPECTED = (
    'a trial in turns: expected a line such as {"command": "slice"} or {"command": "finish"} on'
    " standard input"
)

UNUSABLE, LACKING = 3, 4
"""Exit statuses of `check_import`: the workload fails, or a package is not installed here."""


class Channel:
    """Exclusive use of standard input and output, which the rest of the process loses."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._requests, self._events = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        self._writing = threading.Lock()  # a workload may report from threads of its own

    def emit(self, event: protocol.Event) -> None:
        """Write one complete event line; a forked child writes none."""
        if os.getpid() != self._owner:
            print(f"dropped, a child process reports it: {event}", file=sys.stderr)  # noqa: T201
            return
        line = memoryview((protocol.encode_message(event) + "\n").encode())
        with self._writing:
            try:
                while line:
                    line = line[os.write(self._events, line) :]
            except BrokenPipeError:
                os._exit(1)  # the reader is gone

    def lines(self, *, exit_at_end: bool) -> Lines:
        """Return the received lines, which a thread reads to detect their end."""
        # The process then exits, even in a trial, or finishes the requests that it has read.
        lines = Lines()

        def read() -> None:
            with os.fdopen(self._requests, encoding="utf-8", errors="replace") as source:
                for line in source:
                    if line.strip():
                        lines.received.put(line)
            if exit_at_end:
                os._exit(0)  # nobody waits for a running trial any more
            lines.received.put(None)

        threading.Thread(target=read, name="requests", daemon=True).start()
        return lines


class Lines:
    """A blocking iterator over received lines: requests, and the commands to a running trial.

    A line that is not a command is the next request: the trial that waits for a command fails, and
    the request stays queued. A command whose trial has already failed is dropped.
    """

    def __init__(self) -> None:
        self.received: queue.Queue[str | None] = queue.Queue()
        self._returned: list[str | None] = []
        self._had_commands = self.is_finishing = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Wait for the next line."""
        line = self._returned.pop() if self._returned else self.received.get()
        if line is None:
            self._returned.append(None)  # a later wait ends, too
            raise StopIteration
        return line

    def expect_commands(self) -> None:
        """Note that a trial takes commands: late ones may follow its end."""
        self._had_commands, self.is_finishing = True, False

    def next_command(self) -> protocol.RoundCommand:
        """Wait for the next command; raise `BadRequest` for another line, or for the end."""
        line = next(self, None)
        if line is None:
            raise BadRequest(f"{_EXPECTED}; it ended: send at least one slice, and finish")
        if not protocol.is_command(line):
            self._returned.append(line)
            raise BadRequest(f"{_EXPECTED}; received {line[:200]!r}")
        try:
            return protocol.decode_command(line)
        except protocol.ProtocolError as error:
            raise BadRequest(f"a trial in turns: {error}") from None

    def should_finish(self) -> bool:
        """Return True if the trial was sent `Finish`; wait for no line, and take no request."""
        with self.received.mutex:
            line = self.received.queue[0] if self.received.queue else None
        if line is not None and protocol.is_command(line):
            self.is_finishing = isinstance(self.next_command(), protocol.Finish)
        return self.is_finishing

    def drop_late_command(self, line: str) -> bool:
        """Return True for a command to a trial that has ended; report it on standard error."""
        is_late = self._had_commands and protocol.is_command(line)
        if is_late:
            print(f"dropped, its trial is over: {line.strip()}", file=sys.stderr)  # noqa: T201
        return is_late


def answer_request(line: str, emit: Emit, claim: BackendClaim, lines: Lines) -> int:
    """Run the trial of a request line; a trial that takes turns also reads commands.

    Events of a thread that a workload leaves running go to standard error after its trial. Return 0
    if it ended in a result, 1 if it failed, 2 if the line was no request. A forked child ends here.
    """
    if lines.drop_late_command(line):
        return 0
    try:
        request = protocol.decode_request(line)
    except protocol.ProtocolError as error:
        emit(protocol.Failure("bad_request", str(error)))
        return 2
    owner, is_over, phases = os.getpid(), False, list[str]()

    def emit_during_trial(event: protocol.Event) -> None:
        if is_over:
            print(f"dropped, its trial is over: {event}", file=sys.stderr)  # noqa: T201
            return
        if isinstance(event, protocol.PhaseBegan):
            phases.append(event.phase)
        elif isinstance(event, protocol.PhaseEnded) and event.phase in phases:
            phases.remove(event.phase)
        emit(event)

    def emit_failure(kind: protocol.FailureKind, message: str, detail: str) -> None:
        place = f"{phases[-1]}: " if phases else ""  # the phase that has not ended
        emit(protocol.Failure(kind, f"{place}{message}", detail))

    try:
        emit(_run(request, emit_during_trial, claim, lines))
    except TrialError as error:
        emit_failure(error.kind, str(error), _detail(error) if error.__cause__ else "")
    except KeyboardInterrupt as error:
        emit_failure("error", "interrupted", _detail(error))
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a failure is a result
        emit_failure("error", describe_error(error, _own_code(request.workload)), _detail(error))
    else:
        return 0
    finally:
        is_over = True
        if os.getpid() != owner:
            os._exit(1)
    return 1


def _run(
    request: protocol.TrialRequest, emit: Emit, claim: BackendClaim, lines: Lines
) -> protocol.Result:
    """Check a request from the outside in, run its trial, and return the end of a good one."""
    is_timing = request.measure == "timing"
    if request.timed_work == "predict" and not is_timing:
        raise BadRequest("timed_work predict needs measure timing")
    lines.expect_commands()
    workload, implementation = _named(request)
    checked = _check_request(workload.settings_model, request) if workload.settings_model else None
    claim.claim(implementation, request.device)
    if request.data_digest is not None and not workload.is_own_model:
        digest = checked.data_digest() if checked is not None else None
        expect_data(workload.name, digest, request.data_digest)
    if request.code:
        _expect_code(workload, request.code)
    reset_peak()
    turns = Turns(
        emit,
        lines.next_command if is_timing or request.in_turns else None,
        lines.should_finish,
        measure=request.measure,
        slice_s=request.slice_s,
        timed_work=request.timed_work,
        rests_when_imported=request.rests_when_imported,
    )
    trial = Context(
        settings=dict(request.settings) if checked is None else checked.model_dump(),
        implementation=implementation,
        device=request.device,
        seed=request.seed,
        emit=emit,
        turns=turns,
        should_prune=turns.should_prune,
        model_path=request.model_path,
        expected_data=request.data_digest if workload.is_own_model else None,
        wants_fingerprint=request.fingerprint,
    )
    try:
        entry: Entry
        if workload.is_own_model:
            from workloads.own_import import load_own_model  # noqa: PLC0415 - imports NumPy

            entry, trial = load_own_model(workload, trial)
        else:
            entry = load_entry(workload)
        if isinstance(entry, Task):
            returned = _run_task(entry, checked, request, trial)
        else:
            returned = entry(trial)
    finally:
        code = _own_code(workload.name)
        if code is not None and (versions := versions_in_use(code.imports)):
            trial.environment(packages=versions)
    if request.code:
        _expect_code(workload, request.code)  # a module may have been imported late
    return protocol.Result(_metrics(returned, trial), turns.is_pruned)


def _run_task(
    task: Task[Any, Any],
    checked: TaskSettings | None,
    request: protocol.TrialRequest,
    trial: Context,
) -> Mapping[str, float]:
    """Measure a task; a user's own is checked here, as it has just been imported."""
    from workloads.measuring.measurement import measure  # noqa: PLC0415 - imports NumPy

    if checked is None:
        checked = _check_request(task.settings_model, request)
        trial = dataclasses.replace(trial, settings=checked.model_dump())
    return measure(task, checked, trial)


@functools.cache
def _own_code(workload: str) -> CodeFiles | None:
    code = read_code(workload)
    if code is not None:
        sys.meta_path.insert(0, code)  # an edited file may be imported later
    return code


def _named(request: protocol.TrialRequest) -> tuple[Workload, Implementation]:
    """Return the workload and the implementation that a request names."""
    try:
        workload = find_workload(request.workload)
    except UnknownWorkload as error:
        raise BadRequest(str(error)) from None
    try:
        implementation = parse_implementation(request.implementation)  # the names may be its own
    except ImplementationError as error:
        raise BadRequest(f"implementation: {error}") from None
    return workload, implementation


def _check_request(model: type[TaskSettings], request: protocol.TrialRequest) -> TaskSettings:
    """Return the settings of a task, if the implementation can run them on the device."""
    try:
        implementation = parse_known_implementation(request.implementation)
        settings = check_settings(model, request.settings)
    except ImplementationError as error:
        raise BadRequest(f"implementation: {error}") from None
    except ValidationError as error:
        raise BadRequest(explain_invalid_settings(error)) from None
    traits = settings.traits()
    reason = ineligibility_reason(
        implementation,
        traits or LayerTraits(),
        request.device,
        written_in="keras" if traits else "unknown",
        timed_work=request.timed_work,
    )
    if reason is not None:
        raise NotPossible(f"{implementation} on {request.device}: {reason}")
    return settings


def _expect_code(workload: Workload, expected: Mapping[str, str]) -> None:
    code = _own_code(workload.name)
    digests = code.digests if code else {}
    late = code.changed if code else ()
    changed = sorted({*late, *(name for name, _ in expected.items() ^ digests.items())})
    if changed:
        names = ", ".join(changed[:_NAMED]) + (", …" if len(changed) > _NAMED else "")
        raise BadRequest(
            f"workload {workload.name!r}: its code has changed since the start of the sweep"
            f" ({names}): stop, and resume with --same-code --retry-failed (in Python:"
            " same_code=True, retry_failed=True), or start a new generation with --fresh"
            " (fresh=True)"
        )


def check_import(name: str) -> int:
    """Import a workload; return the exit status; stdout has the reason alone."""
    reasons = os.dup(1)
    os.dup2(2, 1)
    try:
        load_entry(find_workload(name))
    except BadRequest as error:
        status, reason = UNUSABLE, str(error).removeprefix(f"workload {name!r}: ")
    except BaseException as error:  # noqa: BLE001  (an import may also end the process)
        advice = explain_other_package(error)
        is_lacking = isinstance(error, ImportError) and not advice
        status = LACKING if is_lacking else UNUSABLE
        reason = describe_error(error, read_code(name)) + (f"\n{advice}" if advice else "")
    else:
        return 0
    os.write(reasons, reason.encode(errors="replace"))
    return status


def answer_inspection() -> int:
    """Answer the inspection request on standard input, by one line on standard output."""
    from workloads.diagnostics.model_inspection import inspect_own_model  # noqa: PLC0415
    from workloads.diagnostics.opened_files import OpenedFiles  # noqa: PLC0415

    answers = os.dup(1)
    os.dup2(2, 1)  # the code of a user may print
    request = REQUEST_ADAPTER.validate_json(sys.stdin.read())
    opened = OpenedFiles()
    answer = InspectionAnswer(inspect_own_model(request), opened.states())
    os.write(answers, ANSWER_ADAPTER.dump_json(answer))
    return 0


def _number(name: str, value: Any) -> float:
    """Return the value of a metric: of Python, or of an array or tensor that has one element."""
    reason = f"workload: the metric {name!r} is not a number but {str(value)[:80]!r}"
    if isinstance(value, str | bytes):
        raise TypeError(reason)
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{reason} ({error})") from error


def _metrics(returned: Any, trial: Context) -> dict[str, float]:
    """Return the workload's metrics, added to the seconds of the phases and the peak memory."""
    if not isinstance(returned, Mapping):
        raise TypeError(
            f"workload: it must return a mapping of metric names to numbers, not {returned!r}"
        )
    metrics = {str(name): _number(str(name), value) for name, value in returned.items()}
    expect_few(metrics)
    expect_distinct(metrics)
    expect_finite(metrics, "result")
    expect_possible(metrics, "result")
    measured = {f"{phase}_s": seconds for phase, seconds in trial.seconds.items()}
    if trial.measure == "timing":
        measured |= trial.turns.metrics()
        measured.pop(f"{trial.turns.timed_work}_s", None)  # `timed_s` has the slices' seconds
    if (peak := peak_rss_mib()) is not None:
        measured["peak_rss_mib"] = peak
    return {**measured, **metrics}


def _detail(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-_DETAIL_CHARACTERS:]
