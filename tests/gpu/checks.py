"""The list of checks, cheap ones first, and the code that runs them."""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.gpu import proofs, times
from tests.gpu.lab import Lab, NoTimeLeft
from tests.gpu.outcomes import Outcome, Record
from workloads.eligibility import is_installed
from workloads.implementations import BACKENDS

Check = Callable[[Lab, str], Iterator[Outcome]]
"""A function of a lab and a backend; its name is the name in `--only`."""

CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        *(proofs.refusals, proofs.evidence, proofs.fall_backs, proofs.numbers),
        *(proofs.precisions, proofs.fit, times.memory, times.telemetry),
        *(times.roofline, times.predict, times.speed, proofs.parity),
    )
}
TIMED = (times.telemetry, times.roofline, times.predict, times.speed)
"""These run alone; the others run for all backends at once."""
ONCE = (times.telemetry, proofs.parity)


def run_checks(checks: Sequence[Check], lab: Lab, record: Record) -> None:
    """Run checks on the available backends; an error in one check does not stop the others."""
    with ThreadPoolExecutor(len(lab.backends), "check") as pool:
        absences = pool.map(lambda backend: _absence(lab, backend, record), lab.backends)
        reasons = dict(zip(lab.backends, absences, strict=True))
        present = [backend for backend, reason in reasons.items() if reason is None]
        for backend, reason in reasons.items():
            for check in checks if reason else ():
                unavailable = f"{backend} is not available: {reason}"
                record.add(Outcome(check.__name__, "all", "skipped", backend, reason=unavailable))
        for check in checks:
            chosen = present[:1] if check in ONCE else present
            if check in TIMED:
                for backend in chosen:
                    _run(check, backend, lab, record)
            else:
                list(pool.map(lambda backend, it=check: _run(it, backend, lab, record), chosen))


def _run(check: Check, backend: str, lab: Lab, record: Record) -> None:
    name = check.__name__
    try:
        for outcome in check(lab, backend):
            record.add(outcome)
            print(outcome.line, file=sys.stderr, flush=True)
    except NoTimeLeft:
        reason = f"the time limit was reached: run again with --only {name}"
        record.add(Outcome(name, "the rest", "skipped", backend, reason=reason))
    except Exception as error:  # noqa: BLE001 - an error in a check is an outcome
        package = str(getattr(error, "name", "")).partition(".")[0]
        is_ours = package in ("orchestrator", "tests", "workloads")
        if isinstance(error, ModuleNotFoundError) and not is_ours:
            reason = f"it needs {error.name}"
            record.add(Outcome(name, "all", "skipped", backend, reason=reason))
        else:
            reason = traceback.format_exc(limit=-3)
            record.add(Outcome(name, "the rest", "failed", backend, reason=reason))


def _absence(lab: Lab, backend: str, record: Record) -> str | None:
    """Return the reason why a backend cannot use the device, and record its versions."""
    if not is_installed(backend):
        return BACKENDS[backend]
    answer = lab.ask("probes:presence", f"{backend}/portable")
    record.versions[backend] = answer.facts
    return answer.reason
