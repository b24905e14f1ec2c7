"""Names of arms, configs and runs as all parts of a report write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from orchestrator.analysis.pairing.complete_rounds import ParamRange
from orchestrator.analysis.statistics.formatting import number, share
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm, HardwareUse, RequestedArm, Usage
from orchestrator.core.text import counted
from orchestrator.core.trial import Config, is_number, value_text
from orchestrator.report.document import Section
from workloads.implementations import is_kernel_as_asked

_FEWEST_CUT = 5
"""A text that is longer than the limit by at most this many characters is not cut."""


def run_text(run_id: str) -> str:
    """Return the start of a run id, enough to find it; the JSON format has the whole id."""
    return run_id[:8]


def about(value: float) -> str:
    """Write a number with two significant figures: `1,200`."""
    return number(float(f"{value:.2g}"))


def shortened(text: str, longest: int) -> str:
    """Cut a long text after a word; `...` shows that it goes on."""
    if len(text) <= longest + _FEWEST_CUT:
        return text
    return text[: longest - len("...")].rsplit(" ", 1)[0] + "..."


def step_noun(summary: ReportSummary) -> str:
    """Return what the times of this sweep are of: a training step, or a prediction."""
    return "prediction" if (summary.time_metric or "").startswith("predict_") else "step"


Key = TypeVar("Key")
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ArmNames:
    """Names of arms; without their hardware if the whole sweep ran on one class.

    `hardware_names` are short: without the host's CPU if only that class has such a GPU.
    """

    hardware: str | None
    hardware_names: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, arm: Arm | RequestedArm) -> str:
        """Return `tensorflow/cudnn`, or `gru: tensorflow/cudnn on NVIDIA H200`."""
        hardware = str(arm.hardware)
        return (
            arm.short_name
            if hardware == self.hardware
            else f"{arm.short_name} on {self.hardware_name(hardware)}"
        )

    def hardware_name(self, hardware: object) -> str:
        """Return the short name of a hardware class."""
        return self.hardware_names.get(str(hardware), str(hardware))

    @property
    def where(self) -> str:
        """The one hardware class of the sweep: ` on AMD EPYC, 2 CPUs`; else empty."""
        return f" on {self.hardware}" if self.hardware else ""


PartBuilder: TypeAlias = Callable[[ReportSummary, ArmNames], Section | None]
"""A function that returns a part of a report, or None if the sweep has no figures for it."""


def arm_names(summary: ReportSummary) -> ArmNames:
    """Return the names of this sweep's arms."""
    used = dict.fromkeys(row.arm.hardware for row in summary.arms)
    hardware = {*map(str, used)} or {impossible.arm.hardware for impossible in summary.impossible}
    if len(hardware) == 1:
        return ArmNames(hardware.pop())
    gpus = Counter(
        (used_hardware.hardware_class.gpu, str(used_hardware.usage)) for used_hardware in used
    )
    if len({used_hardware.hardware_class for used_hardware in used}) == 1 and _differ_in_cpus(used):
        counts = {str(hardware): _cpus_text(hardware.usage) for hardware in used}
        return ArmNames(None, counts)
    only_such_gpus = [
        (used_hardware, used_hardware.hardware_class.gpu)
        for used_hardware in used
        if used_hardware.hardware_class.gpu
        and gpus[used_hardware.hardware_class.gpu, str(used_hardware.usage)] == 1
    ]
    return ArmNames(
        None,
        {str(hardware): hardware.written_with(gpu) for hardware, gpu in only_such_gpus},
    )


def _differ_in_cpus(used: Iterable[HardwareUse]) -> bool:
    """Return whether these uses of one hardware class differ in threads or CPUs alone."""
    return len({(hardware.usage.measure, hardware.usage.work) for hardware in used}) == 1


def _cpus_text(usage: Usage) -> str:
    """Write `2 threads`, `4 CPUs, 2 threads`, or `default threads`."""
    counts = ((usage.cpus, "CPU"), (usage.threads, "thread"))
    texts = [counted(count, noun) for count, noun in counts if count is not None]
    return ", ".join(texts) or "default threads"


def grouped(pairs: Iterable[tuple[Key, _Item]]) -> dict[Key, list[_Item]]:
    """Return the items by their keys, in their order."""
    groups: dict[Key, list[_Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def kernel_text(asked: str, ran: str) -> str:
    """Write `portable`; `auto (portable+xla)`; or `portable, requested cudnn`."""
    if ran == asked:
        return ran
    return f"{asked} ({ran})" if is_kernel_as_asked(asked, ran) else f"{ran}, requested {asked}"


def config_phrase(config: Config) -> str:
    """Write a config: `batch_size 32, units 96`."""
    return ", ".join(f"{key} {_setting_text(config[key])}" for key in sorted(config))


def _setting_text(value: object) -> str:
    return number(value) if is_number(value) else value_text(value)


def ranges_text(configs: Iterable[ParamRange]) -> str:
    """Write `batch_size 32–64, units 16–128, cell gru or lstm`."""
    return ", ".join(f"{param.name} {_range_text(param)}" for param in configs)


def _range_text(param: ParamRange) -> str:
    if param.low is None or param.high is None:
        return " or ".join(param.values)
    if param.low == param.high:
        return number(param.low)
    return f"{number(param.low)}–{number(param.high)}"


def result_name(metric: str) -> str:
    """Return how a sentence names a result: `accuracy` for those on which a model is judged."""
    return "accuracy" if metric in ("val_accuracy", "accuracy") else metric


def margin_with_origin(margin: float, given_share: float | None, samples: int | None) -> str:
    """Write a margin with the share that it was given as, or with the samples that it is of.

    `1 % (0.0023)`, `0.005 (1.8 of 359 validation samples)`, or `0.005` without either.
    """
    text = number(float(f"{margin:.2g}"))
    if given_share is not None:
        return f"{share(given_share)} ({text})"
    if samples is None:
        return text
    return f"{text} ({number(float(f'{margin * samples:.2g}'))} of {samples:,} validation samples)"
