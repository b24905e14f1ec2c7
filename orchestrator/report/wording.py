"""Names and phrases that several sections share, and prose from Jinja templates.

The templates lie next to their sections. Each paragraph of a template begins with `- ` on a line of
its own. White space does not matter, and names are shown on one line.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.pairing.complete_rounds import ParamRange
from orchestrator.analysis.statistics import formatting
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import ABSENT, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm, RequestedArm
from orchestrator.core.disturbance import disturbance_text
from orchestrator.core.text import counted
from orchestrator.core.trial import Config
from orchestrator.report.document import Section, plain, visible

if TYPE_CHECKING:
    from jinja2 import Environment

_UNWANTED_SPACE = re.compile(r" (?=[,;:)]|\.(?: |$))|(?<=\() ")
"""Around punctuation, where a template has a line break."""

Bullet = tuple[str, str]
"""A kind, which decides the colour, and a sentence."""


def paragraphs(template: str, **values: Any) -> tuple[str, ...]:
    """Return the paragraphs of a template, a path in this package; empty ones are left out."""
    text = _environment().get_template(template).render(values)
    parts = (" ".join(part.split()) for part in re.split(r"(?m)^\s*- ", text))
    return tuple(_UNWANTED_SPACE.sub("", part) for part in parts if part)


def sentence(template: str, **values: Any) -> str:
    """Return the only paragraph of a template; empty if there is none."""
    return " ".join(paragraphs(template, **values))


def bullets(template: str, **values: Any) -> tuple[Bullet, ...]:
    """Return the bullets of a template whose paragraphs begin with their kind and a `|`."""
    split = (paragraph.partition("|") for paragraph in paragraphs(template, **values))
    return tuple((kind.strip(), text.strip()) for kind, _, text in split)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  (50 ms)

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        finalize=lambda value: visible(str(value)),
    )
    for name in (
        *("difference", "difference_interval", "joined", "number"),
        *("quartiles", "ratio", "ratio_interval", "share", "speed", "speed_ratio"),
    ):
        environment.filters[name] = getattr(formatting, name)
    environment.filters["counted"] = counted
    environment.filters |= {"about": _about, "causes": disturbance_text, "run": run_text}
    return environment


def run_text(run_id: str) -> str:
    """Return the start of a run id, which is enough to find it; JSON and CSV have the whole id."""
    return run_id[:8]


def _about(value: float) -> str:
    return number(float(f"{value:.2g}"))


Key = TypeVar("Key")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ArmNames:
    """Names of arms; without their hardware if the whole sweep ran on one class.

    `places` has short names of hardware classes: without the host's CPU if only that class has such
    a GPU.
    """

    hardware: str | None
    places: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, arm: Arm | RequestedArm) -> str:
        """Return `tensorflow/cudnn`, or `gru: tensorflow/cudnn on NVIDIA H200`."""
        own = str(arm.hardware)
        return arm.short_name if own == self.hardware else f"{arm.short_name} on {self.place(own)}"

    def place(self, hardware: object) -> str:
        """Return the short name of a hardware class."""
        return self.places.get(str(hardware), str(hardware))

    @property
    def where(self) -> str:
        """The one hardware class of the sweep: ` on AMD EPYC, 2 CPUs`; else empty."""
        return f" on {self.hardware}" if self.hardware else ""


Maker: TypeAlias = Callable[[ReportSummary, ArmNames], Section | None]
"""A function that makes a section of a report, or None if it has nothing to show."""


def arm_names(summary: ReportSummary) -> ArmNames:
    """Return the names of this sweep's arms."""
    used = dict.fromkeys(row.arm.hardware for row in summary.arms)
    hardware = {*map(str, used)} or {impossible.arm.hardware for impossible in summary.impossible}
    if len(hardware) == 1:
        return ArmNames(hardware.pop())
    gpus = Counter((own.hardware_class.gpu, str(own.usage)) for own in used)
    return ArmNames(
        None,
        {
            str(own): str(own).replace(str(own.hardware_class), own.hardware_class.gpu)
            for own in used
            if own.hardware_class.gpu and gpus[own.hardware_class.gpu, str(own.usage)] == 1
        },
    )


def verdict_sentence(comparison: Comparison, name: ArmNames) -> str:
    """Write the verdict of one arm against its baseline, with interval and number of blocks."""
    needed = comparison.blocks_needed
    width = math.expm1(needed.half_width) if needed else 0.0
    return sentence("sections/comparison.j2", c=comparison, name=name, width=width)


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items by their keys, in their order."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def energy_kinds(summary: ReportSummary) -> list[str]:
    """Return the scopes of the energies on the front; unlike scopes are not comparable."""
    return sorted({point.scope or ABSENT for point in summary.front.points})


def kernel_text(asked: str, ran: str) -> str:
    """Write `portable`, or `portable, requested cudnn`."""
    return ran if ran == asked else f"{ran}, requested {asked}"


def config_text(config: Config) -> str:
    """Write a config: `batch_size 32, units 96`."""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{key} {plain(value)}" for key, value in values)


def ranges_text(configs: Iterable[ParamRange]) -> str:
    """Write `batch_size 32–64, units 16–128, cell gru or lstm`."""
    return ", ".join(f"{param.name} {_range_text(param)}" for param in configs)


def _range_text(param: ParamRange) -> str:
    if param.low is None or param.high is None:
        return " or ".join(param.values)
    if param.low == param.high:
        return number(param.low)
    return f"{number(param.low)}–{number(param.high)}"


def deciding_interval(comparison: Comparison) -> Estimate | None:
    """Return the interval that decides the verdict: the corrected one, if there is one."""
    return comparison.corrected or comparison.speedup


def gain(comparison: Comparison) -> Estimate | None:
    """Return the difference of accuracies with the interval that decides its verdict."""
    accuracy = comparison.accuracy
    return (accuracy.corrected or accuracy.difference) if accuracy else None
