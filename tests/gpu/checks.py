"""The checks by name, cheap proofs first, and how they are run."""

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

    `timed` ones run alone; the others run for all backends at once. `once` ones need one backend,
    whichever is there.
    """

    function: Function
    timed: bool = False
    once: bool = False

    @property
    def name(self) -> str:
        """As `--only` takes it."""
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
    """Run them on the backends that are there; whatever happens to one, the others go on."""
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
    """One check on one backend."""
    began_s = time.monotonic()
    try:
        for outcome in check.function(lab, backend):
            record.add(outcome)
            print(line(outcome), file=sys.stderr, flush=True)
    except NoTimeLeft:
        reason = f"no time was left: run again with --only {check.name}"
        record.add(Outcome(check.name, "the rest", "skipped", backend, reason=reason))
    except Exception as error:  # noqa: BLE001 - a check that breaks is an outcome
        if isinstance(error, ModuleNotFoundError) and not _is_ours(error.name):
            why = f"it needs {error.name}"
            record.add(Outcome(check.name, "all", "skipped", backend, reason=why))
        else:
            why = traceback.format_exc(limit=-3)
            record.add(Outcome(check.name, "the rest", "failed", backend, reason=why))
    record.took(check.name, backend, time.monotonic() - began_s)


def _is_ours(module: str | None) -> bool:
    return str(module).partition(".")[0] in ("orchestrator", "tests", "workloads")


def _present(lab: Lab, checks: Sequence[Check], record: Record) -> list[str]:
    """The backends whose framework is installed and sees the device; why others are not."""
    installed = [backend for backend in lab.backends if is_installed(backend)]
    reasons = {each: BACKENDS[each] for each in lab.backends if each not in installed}
    with ThreadPoolExecutor(max(1, len(installed)), "presence") as pool:
        answers = list(
            pool.map(
                lambda backend: lab.ask(lab.request("probes:presence", f"{backend}/portable")),
                installed,
            )
        )
    for backend, answer in zip(installed, answers, strict=True):
        record.versions[backend] = dict(answer.facts)
        if answer.why:
            reasons[backend] = answer.why
    for backend, reason in reasons.items():
        for check in checks:
            why = f"{backend} is not there: {reason}"
            record.add(Outcome(check.name, "all", "skipped", backend, reason=why))
    return [backend for backend in lab.backends if backend not in reasons]
