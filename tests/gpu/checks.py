"""The list of checks, cheap ones first, and the code that runs them."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from tests.gpu import proofs, times
from tests.gpu.lab import Lab, NoTimeLeft
from tests.gpu.outcomes import Outcome, Record, line
from workloads.eligibility import is_installed
from workloads.implementations import BACKENDS

Function: TypeAlias = Callable[[Lab, str], Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Check:
    """A function of a lab and a backend that yields outcomes.

    A `timed` check runs alone; other checks run for all backends at once. A `once` check needs only
    one backend.
    """

    function: Function
    timed: bool = False
    once: bool = False

    @property
    def name(self) -> str:
        """The name in `--only`."""
        return self.function.__name__


CHECKS: tuple[Check, ...] = (
    Check(proofs.refusals),
    Check(proofs.evidence),
    Check(proofs.options),
    Check(proofs.fall_backs),
    Check(proofs.layout),
    Check(proofs.numbers),
    Check(proofs.precisions),
    Check(proofs.fit),
    Check(times.memory),
    Check(times.telemetry, timed=True, once=True),
    Check(times.hand_written, timed=True),
    Check(times.roofline, timed=True),
    Check(times.predict, timed=True),
    Check(times.speed, timed=True),
    Check(proofs.parity, once=True),
)


def run_checks(checks: Sequence[Check], lab: Lab, record: Record) -> None:
    """Run checks on the available backends; an error in one check does not stop the others."""
    backends = _present(lab, checks, record)
    if not backends:
        return
    with ThreadPoolExecutor(len(backends), "check") as pool:
        for check in checks:
            chosen = backends[:1] if check.once else backends
            if check.timed:
                for backend in chosen:
                    _run(check, backend, lab, record)
            else:
                list(pool.map(lambda backend, it=check: _run(it, backend, lab, record), chosen))


def _run(check: Check, backend: str, lab: Lab, record: Record) -> None:
    """Run one check on one backend."""
    began_s = time.monotonic()
    try:
        for outcome in check.function(lab, backend):
            record.add(outcome)
            print(line(outcome), file=sys.stderr, flush=True)
    except NoTimeLeft:
        reason = f"the time limit was reached: run again with --only {check.name}"
        record.add(Outcome(check.name, "the rest", "skipped", backend, reason=reason))
    except Exception as error:  # noqa: BLE001 - an error in a check is an outcome
        if isinstance(error, ModuleNotFoundError) and not _is_ours(error.name):
            reason = f"it needs {error.name}"
            record.add(Outcome(check.name, "all", "skipped", backend, reason=reason))
        else:
            reason = traceback.format_exc(limit=-3)
            record.add(Outcome(check.name, "the rest", "failed", backend, reason=reason))
    record.took(check.name, backend, time.monotonic() - began_s)


def _is_ours(module: str | None) -> bool:
    return str(module).partition(".")[0] in ("orchestrator", "tests", "workloads")


def _present(lab: Lab, checks: Sequence[Check], record: Record) -> list[str]:
    """Return the backends that can use the device; record the others as skipped, with reasons."""
    installed = [backend for backend in lab.backends if is_installed(backend)]
    reasons = {backend: BACKENDS[backend] for backend in lab.backends if backend not in installed}
    with ThreadPoolExecutor(max(1, len(installed)), "presence") as pool:
        answers = list(
            pool.map(
                lambda backend: lab.ask("probes:presence", f"{backend}/portable"),
                installed,
            )
        )
    for backend, answer in zip(installed, answers, strict=True):
        record.versions[backend] = dict(answer.facts)
        if answer.why:
            reasons[backend] = answer.why
    for backend, reason in reasons.items():
        for check in checks:
            unavailable = f"{backend} is not available: {reason}"
            record.add(Outcome(check.name, "all", "skipped", backend, reason=unavailable))
    return [backend for backend in lab.backends if backend not in reasons]
