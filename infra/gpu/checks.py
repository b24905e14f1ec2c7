"""The list of checks, cheap ones first, and the code that runs them."""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from infra.gpu import proofs
from infra.gpu.expectations import expect
from infra.gpu.lab import Lab, NoTimeLeft
from infra.gpu.outcomes import Outcome, Record, judged
from workloads.backends.registry import backends
from workloads.eligibility import is_installed

PRESENCE_CHECK = "presence"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a backend."""

    run: Callable[[Lab, str], Iterator[Outcome]]
    runs_alone: bool = False
    """It measures times or memory; the other checks run for all backends at once."""

    proves_kernel: bool = True
    """Its outcomes tell which kernel ran."""

    @property
    def name(self) -> str:
        """The name in `--only`."""
        return self.run.__name__


_CHECKS = (
    Check(proofs.refusals, proves_kernel=False),
    Check(proofs.evidence),
    Check(proofs.fall_backs, proves_kernel=False),
    Check(proofs.numbers),
    Check(proofs.masks),
    Check(proofs.precisions),
    Check(proofs.fit),
    Check(proofs.speed, runs_alone=True),
    Check(proofs.memory, runs_alone=True),
    Check(proofs.telemetry, runs_alone=True),
    Check(proofs.clocks, runs_alone=True, proves_kernel=False),
    Check(proofs.predict, runs_alone=True),
)
CHECKS = {check.name: check for check in _CHECKS}


def run_checks(
    checks: Sequence[Check], lab: Lab, record: Record, gpus: Sequence[str] = ()
) -> dict[str, bool]:
    """Run checks on the present backends; return which of the lab's backends are present.

    An error in one check does not stop the others. A check that a backend has passed before is not
    repeated. `gpus` are those that NVML shows.
    """
    with ThreadPoolExecutor(len(lab.backends), "check") as pool:
        found = pool.map(lambda backend: _is_present(lab, backend, record, gpus), lab.backends)
        present = dict(zip(lab.backends, found, strict=True))
        chosen = [backend for backend, here in present.items() if here]
        if gpus and len(chosen) < sum(map(is_installed, lab.backends)):
            return present  # one is blind: the reason comes first
        for number, check in enumerate(checks, 1):
            todo = [backend for backend in chosen if not record.is_done(check.name, backend)]
            title = f"[{number}/{len(checks)}] {check.name}"
            print(f"{title}: {', '.join(todo) or 'done before'}", file=sys.stderr, flush=True)
            if check.runs_alone:
                for backend in todo:
                    _run(check, backend, lab, record)
            else:
                list(pool.map(lambda backend, it=check: _run(it, backend, lab, record), todo))
        return present


def _run(check: Check, backend: str, lab: Lab, record: Record) -> None:
    name, counts = check.name, Counter[str]()
    record.begin(name, backend)

    def add(outcome: Outcome) -> None:
        record.add(outcome)
        counts[outcome.status] += 1
        print(outcome.line, file=sys.stderr, flush=True)

    try:
        for outcome in check.run(lab, backend):
            add(outcome)
        if lab.device == "gpu":
            for outcome in expect(name, record.counted(lab.backends, [name])):
                add(outcome)
    except NoTimeLeft:
        reason = "time limit reached: run the same command again to continue"
        add(Outcome(name, "the rest", "skipped", backend, reason=reason))
        return
    except Exception:  # noqa: BLE001 - an error in a check is an outcome
        add(Outcome(name, "the rest", "failed", backend, reason=traceback.format_exc(limit=-3)))
    verdict = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    print(f"{name} {backend}: {verdict}", file=sys.stderr, flush=True)
    if not counts["failed"]:
        record.finish(name, backend)


def _is_present(lab: Lab, backend: str, record: Record, gpus: Sequence[str]) -> bool:
    """Return whether a backend sees the device; record it, or why it does not."""
    record.begin(PRESENCE_CHECK, backend)

    def add_skipped(reason: str | None) -> bool:
        record.add(Outcome(PRESENCE_CHECK, "", "skipped", backend, reason=reason or ""))
        return False

    if not is_installed(backend):
        return add_skipped(f"not installed: {backends()[backend].install}")
    try:
        answer = lab.ask(proofs.PRESENCE, f"{backend}/portable")
    except NoTimeLeft:
        return add_skipped("time limit reached: run the same command again to continue")
    if answer.reason and not gpus:
        return add_skipped(answer.reason)
    blind = f"sees no GPU, although NVML shows {', '.join(gpus)}: {answer.reason}"
    cause = blind if answer.reason else None
    names = (backend, "devices", "cuda_build", "cudnn_build")
    seen = {name: answer.facts[name] for name in names if name in answer.facts}
    record.add(judged(PRESENCE_CHECK, "", f"{backend}/portable", cause, seen))
    return answer.reason is None
