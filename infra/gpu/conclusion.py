"""What a run of the checks means as a whole, and its exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from infra.gpu.checks import PRESENCE_CHECK, Check
from infra.gpu.outcomes import Outcome, Record


class ExitCode(IntEnum):
    """The exit codes of `python -m infra.gpu`; 2 is a wrong argument."""

    IN_ORDER = 0
    FAILED = 1
    INCOMPLETE = 3
    MISSED = 4


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The exit code, and the sentence that explains it."""

    code: ExitCode
    text: str


def conclude(record: Record, checks: Sequence[Check], present: Mapping[str, bool]) -> Conclusion:
    """Judge the chosen checks of the requested backends; `present` tells which see a GPU.

    Only a run whose every chosen check was done on every requested backend can be in order.
    """
    names = [PRESENCE_CHECK, *(check.name for check in checks)]
    outcomes = record.counted(present, names)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    if failed:
        return Conclusion(ExitCode.FAILED, f"{len(failed)} failed: {_checks_of(failed)}")
    if not any(present.values()):
        return Conclusion(ExitCode.FAILED, "no framework sees a GPU")
    open_checks = [
        f"{check.name} {backend}"
        for check in checks
        for backend in present
        if not record.is_done(check.name, backend)
    ]
    open_checks += [f"presence {backend}" for backend, here in present.items() if not here]
    if open_checks:
        return Conclusion(
            ExitCode.INCOMPLETE,
            f"incomplete: {', '.join(open_checks)}. Run the same command again to continue",
        )
    if any(check.proves_kernel for check in checks):
        ran = [str(one.measured.get("ran")) for one in outcomes if one.status == "passed"]
        if not any(kernel.startswith(("cudnn", "fused")) for kernel in ran):
            return Conclusion(ExitCode.FAILED, "no library's kernel was proven")
    missed = [outcome for outcome in outcomes if outcome.status == "missed"]
    if missed:
        return Conclusion(
            ExitCode.MISSED,
            f"{len(missed)} not as docs/gpu.md expects: {_checks_of(missed)}",
        )
    return Conclusion(ExitCode.IN_ORDER, "all as expected")


def _checks_of(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(dict.fromkeys(f"{one.name} {one.backend}" for one in outcomes))
