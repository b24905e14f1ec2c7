"""The criteria of a sweep, with their defaults: a spec sets them, a run and a report apply them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from workloads.protocol import TimedWork

MeasureMode: TypeAlias = Literal["full", "timing"]
"""A whole training, or slices of one until the ratios of the block's arms are known."""


@dataclass(frozen=True, slots=True)
class ResultMargin:
    """A difference of a result that does not matter: absolute, or a share of the baseline's."""

    value: float
    is_share: bool = False

    def against(self, baseline: float) -> float:
        """Return the margin in the metric's own unit, given the baseline's value of it."""
        return self.value * abs(baseline) if self.is_share else self.value

    def __str__(self) -> str:
        return f"{100 * self.value:g} %" if self.is_share else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Margins:
    """Differences that do not matter: of speed (a share), and of what training achieves.

    `accuracy` is the margin of every accuracy (absolute); None is `USUAL_ACCURACY_MARGIN`, or the
    noise of the validation set where that is wider. `results` has margins of metrics by name.
    """

    speed: float = 0.02
    accuracy: float | None = None
    results: Mapping[str, ResultMargin] = field(default_factory=dict)

    def of_result(self, metric: str) -> ResultMargin:
        """Return the margin of a metric: its own, the margin of accuracies, or else 1 percent."""
        if metric in self.results:
            return self.results[metric]
        if not metric.endswith("accuracy"):
            return USUAL_MARGIN
        return USUAL_ACCURACY_MARGIN if self.accuracy is None else ResultMargin(self.accuracy)

    def is_given(self, metric: str) -> bool:
        """Return whether the spec sets the margin of a metric."""
        is_of_accuracies = metric.endswith("accuracy") and self.accuracy is not None
        return metric in self.results or is_of_accuracies


USUAL_ACCURACY_MARGIN = ResultMargin(0.005)
"""The margin of an accuracy, unless the noise of the validation set is wider."""

USUAL_MARGIN = ResultMargin(0.01, is_share=True)
"""The margin of a result that is no accuracy: its unit and its scale are unknown."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the slices of a round are, and when a round of timing arms ends.

    A slice is to take `slice_s`. For timing arms, `interval` is the half-width that the interval of
    each paired ratio is to have, as a share; `least` and `most` bound the slices of each arm, which
    train or predict (`timed_work`).
    """

    interval: float = 0.01
    least: int = 24
    most: int = 192
    slice_s: float = 0.05
    timed_work: TimedWork = "train"


@dataclass(frozen=True, slots=True)
class AutoBlocks:
    """`least` to `most` blocks, until each speed-up's interval has this half-width (a share)."""

    interval: float = 0.01
    least: int = 6
    most: int = 60


@dataclass(frozen=True, slots=True)
class DisturbanceLimits:
    """Limits beyond which a trial is disturbed, in percent of the CPUs that its trainer may use.

    `others_cpu_pct` is of other processes, `steal_pct` of the host of a virtual machine.
    """

    others_cpu_pct: float = 15.0
    steal_pct: float = 5.0


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A result published elsewhere, on other hardware and software, for comparison.

    `config` has the sizes at which it was measured. `metrics` has rnnsweep's names and units.
    """

    source: str
    implementation: str
    hardware: str
    config: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class HardwarePrice:
    """The price of one kind of hardware, as the spec's `prices` has it."""

    hardware: str
    source: str
    date: str
    usd_per_hour: float | None = None
    gpus: int = 1
    usd_per_kwh: float | None = None


@dataclass(frozen=True, slots=True)
class ReportCriteria:
    """The criteria of a report. `baseline` is the choice of the spec.

    `prices` are the prices of the last start: costs of earlier trials follow from their recorded
    times.
    """

    baseline: str | None = None
    margins: Margins = Margins()
    auto_blocks: AutoBlocks | None = None
    published: tuple[PublishedRow, ...] = ()
    prices: tuple[HardwarePrice, ...] = ()
