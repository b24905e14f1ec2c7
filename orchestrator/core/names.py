"""What names of hardware and arms mean: one rule for specs, plans, tracking and reports.

A hardware class has a name that says all there is to it: `AMD EPYC, 16 CPUs`, and for a GPU, with
its host, `NVIDIA H200 (AMD EPYC, 16 CPUs)`. An arm that uses a class in a way of its own adds
that in brackets: `AMD EPYC, 16 CPUs [4 threads, epochs 1]`. Outcomes and arms hold nothing but
that name, so what a selector means, and how a trial uses its hardware, is read from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from orchestrator.core.criteria import MeasureMode
from orchestrator.core.trial import Arm, canonical
from workloads.implementations import Implementation, ImplementationError, parse_implementation
from workloads.protocol import Device

_GPU_CLASS = re.compile(r"(?P<gpu>.+?) \(.+, \d+ CPUs?\)")
_USED = re.compile(r"(?P<hardware>.*) \[(?P<usage>[^\[\]]*)\]", re.DOTALL)
_ENDS_WITH_A_USE = re.compile(r"\[(?:timing|[^\[\]]+ [^\[\]]+)\]$")
_COUNT = re.compile(r"(?P<number>\d+) (?P<what>CPU|thread)s?")

ANY_IMPLEMENTATION = "*"
"""`* on gpu`: every arm on such hardware."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How a trial uses its hardware, where that is not the usual way.

    `cpus` are reserved for a GPU's trial instead of its share of the node's; the trainer may keep
    `threads` of its CPUs busy; `settings`, all numbers, are the arm's own amount of work; what is
    only timed, in slices, learns nothing to speak of.
    """

    cpus: int | None = None
    threads: int | None = None
    settings: Mapping[str, float] = field(default_factory=dict, hash=False)
    measure: MeasureMode = "full"

    def __str__(self) -> str:
        words = [
            f"{number} {what}" if number == 1 else f"{number} {what}s"
            for number, what in ((self.cpus, "CPU"), (self.threads, "thread"))
            if number is not None
        ]
        words += ["timing"] if self.measure == "timing" else []
        return ", ".join([*words, *filter(None, [self.work])])

    @property
    def work(self) -> str:
        """The arm's own amount of work (`epochs 1`); empty where it does all of the sweep's."""
        return ", ".join(f"{name} {canonical(self.settings[name])}" for name in self.settings)


def used(hardware: str, usage: Usage) -> str:
    """The name of a hardware class as an arm uses it."""
    return f"{hardware} [{usage}]" if str(usage) else hardware


def class_of(name: str) -> str:
    """`AMD EPYC, 16 CPUs` of `AMD EPYC, 16 CPUs [4 threads]`."""
    found = _USED.fullmatch(name)
    return found["hardware"] if found else name


def usage_of(name: str) -> Usage:
    """How an arm on hardware of that name uses it."""
    found = _USED.fullmatch(name)
    cpus: int | None = None
    threads: int | None = None
    settings: dict[str, float] = {}
    measure: MeasureMode = "full"
    for part in found["usage"].split(", ") if found else ():
        if part == "timing":
            measure = "timing"
        elif count := _COUNT.fullmatch(part):
            if count["what"] == "CPU":
                cpus = int(count["number"])
            else:
                threads = int(count["number"])
        else:
            setting, _, number = part.rpartition(" ")
            settings[setting] = float(number) if set(number) & set(".e") else int(number)
    return Usage(cpus, threads, settings, measure)


def work_of(arm: Arm) -> str:
    """How much less (or more) work the arm's trials do than the sweep's settings say (`epochs 1`).

    What arms learned is compared only where this is equal; empty for all of the work.
    """
    return usage_of(arm.hardware).work


def measure_of(arm: Arm) -> MeasureMode:
    """Whether the arm's trials are whole trainings, or timed in slices."""
    return usage_of(arm.hardware).measure


def gpu_class(gpu: str, host: str) -> str:
    """The name of the class of these GPUs in these hosts; `host` is the host's CPU class."""
    return f"{gpu} ({host})"


def gpu_of(name: str) -> str | None:
    """`NVIDIA H200` of `NVIDIA H200 (AMD EPYC, 16 CPUs)`; None for a CPU's class.

    Only a GPU's class ends with its host's class in parentheses: a CPU's ends with its number of
    CPUs, whatever parentheses its model has (`Intel(R) Xeon(R), 8 CPUs`).
    """
    found = _GPU_CLASS.fullmatch(class_of(name))
    return found["gpu"] if found else None


def device_of(name: str) -> Device:
    """Which device a hardware class of that name is."""
    return "cpu" if gpu_of(name) is None else "gpu"


def selects(selector: str, name: str) -> bool:
    """Whether a selector means the hardware class of that name; upper and lower case are one.

    It may be the class's whole name, its device (`cpu`, `gpu`), its GPU's own name (`NVIDIA
    H200`), or a pattern of one of these names (`*H200*`). Names go first, as brackets in a name
    would mean something else in a pattern (but for a use at its end: `*[4 threads]`).

    A whole name means the class used as it says; devices, GPUs and patterns any use of it.
    """
    wanted = selector.lower()
    names = [each.lower() for each in (name, class_of(name), gpu_of(name)) if each]
    if wanted in ("cpu", "gpu"):
        return wanted == device_of(name)
    if wanted in (names[0], *names[2:]):
        return True
    pattern = wanted.replace("[", "[[]") if _ENDS_WITH_A_USE.search(wanted) else wanted
    return _is_pattern(wanted) and any(fnmatchcase(each, pattern) for each in names)


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def names_arm(text: str, arm: Arm) -> bool:
    """Whether `implementation`, or `implementation on hardware`, means this arm.

    The implementation may be `*`: any of them.
    """
    if text == str(arm):
        return True
    implementation, on, hardware = text.partition(" on ")
    return implementation in (arm.implementation, ANY_IMPLEMENTATION) and (
        not on or selects(hardware, arm.hardware)
    )


def known_implementation(arm: Arm) -> Implementation | None:
    """The arm's implementation; None for a name of a user's own, whose parts say nothing to us."""
    try:
        return parse_implementation(arm.implementation)
    except ImplementationError:
        return None


def mathematics_of(arm: Arm) -> str:
    """How what the arm computes differs from what the settings say; empty where it does not.

    Arms are a fair pair only where this is equal.
    """
    known = known_implementation(arm)
    return known.mathematics if known else ""
