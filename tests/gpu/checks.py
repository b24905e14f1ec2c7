"""The list of checks, cheap ones first, and the code that runs them."""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.gpu import proofs
from tests.gpu.lab import Lab, NoTimeLeft
from tests.gpu.outcomes import Outcome, Record, judged
from workloads.backends.registry import backends
from workloads.eligibility import is_installed

Check = Callable[[Lab, str], Iterator[Outcome]]
"""A function of a lab and a backend; its name is the name in `--only`."""

TIMED = (
    proofs.memory,
    proofs.telemetry,
    proofs.clocks,
    proofs.roofline,
    proofs.predict,
    proofs.speed,
)
"""These run alone; the others run for all backends at once."""

_KERNELS = (proofs.refusals, proofs.evidence, proofs.fall_backs)
_NUMBERS = (proofs.numbers, proofs.precisions, proofs.fit)
CHECKS: dict[str, Check] = {check.__name__: check for check in (*_KERNELS, *_NUMBERS, *TIMED)}


def run_checks(checks: Sequence[Check], lab: Lab, record: Record, gpus: Sequence[str] = ()) -> None:
    """Run checks on the present backends; an error in one check does not stop the others."""
    # A check that a backend has passed before is not repeated. `gpus` are those that NVML shows.
    with ThreadPoolExecutor(len(lab.backends), "check") as pool:
        present = list(
            pool.map(lambda backend: _is_present(lab, backend, record, gpus), lab.backends)
        )
        chosen = [backend for backend, here in zip(lab.backends, present, strict=True) if here]
        if gpus and len(chosen) < sum(map(is_installed, lab.backends)):
            return  # one is blind: the reason comes first
        for number, check in enumerate(checks, 1):
            todo = [one for one in chosen if f"{check.__name__} {one}" not in record.done]
            title = f"[{number}/{len(checks)}] {check.__name__}"
            print(f"{title}: {', '.join(todo) or 'done before'}", file=sys.stderr, flush=True)
            if check in TIMED:
                for backend in todo:
                    _run(check, backend, lab, record)
            else:
                list(pool.map(lambda backend, it=check: _run(it, backend, lab, record), todo))


def _run(check: Check, backend: str, lab: Lab, record: Record) -> None:
    name, counts = check.__name__, Counter[str]()
    record.begin(name, backend)

    def add(outcome: Outcome) -> None:
        record.add(outcome)
        counts[outcome.status] += 1
        print(outcome.line, file=sys.stderr, flush=True)

    try:
        for outcome in check(lab, backend):
            add(outcome)
    except NoTimeLeft:
        reason = "the time limit was reached: the same command continues here"
        add(Outcome(name, "the rest", "skipped", backend, reason=reason))
        return
    except Exception:  # noqa: BLE001 - an error in a check is an outcome
        add(Outcome(name, "the rest", "failed", backend, reason=traceback.format_exc(limit=-3)))
    verdict = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    print(f"{name} {backend}: {verdict}", file=sys.stderr, flush=True)
    if not counts["failed"]:
        record.finish(name, backend)


def _is_present(lab: Lab, backend: str, record: Record, gpus: Sequence[str]) -> bool:
    """Return whether a backend sees the device; record its versions, or why it does not."""
    record.begin("presence", backend)
    if not is_installed(backend):
        reason = f"not installed: {backends()[backend].install}"
        record.add(Outcome("presence", "", "skipped", backend, reason=reason))
        return False
    answer = lab.ask(proofs.PRESENCE, f"{backend}/portable")
    record.versions[backend] = {**answer.facts, **record.machine}
    if answer.reason and not gpus:
        record.add(Outcome("presence", "", "skipped", backend, reason=answer.reason))
    else:
        blind = f"blind, while NVML shows {', '.join(gpus)}: {answer.reason}"
        cause = blind if answer.reason else None
        names = (backend, "devices", "cuda_build", "cudnn_build")
        seen = {name: answer.facts[name] for name in names if name in answer.facts}
        record.add(judged("presence", "", f"{backend}/portable", cause, seen))
    return answer.reason is None
