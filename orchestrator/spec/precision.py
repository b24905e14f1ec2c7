"""Precision of a sweep: interleaved timing, automatic blocks, disturbed rounds.

    measure: timing                      # or {mode: timing, interval: 0.01, slices: [12, 96]}
    blocks: auto                         # or {interval: 0.01, at_least: 6, at_most: 60}
    disturbed: mark                      # or limits: {others_cpu_pct: 15, canary: 1.25}
    margins: {speed: 0.02, accuracy: 0.005}

The models here check what people write; `orchestrator.core.criteria` has the plain values and the
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from orchestrator.core import criteria
from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    MeasureMode,
    Timing,
)
from orchestrator.spec.errors import nearest, shown
from orchestrator.spec.fields import Strict, as_tuple, refusal

_TIMING, _BLOCKS, _DISTURBED, _MARGINS = Timing(), AutoBlocks(), DisturbanceLimits(), Margins()

_NO_RERUN = "disturbed rounds are not run again; blocks: auto adds blocks until enough are quiet"

FEWEST_BLOCKS = 6
"""The smallest number of blocks for a verdict (see the report's statistics)."""

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]
Slices: TypeAlias = Annotated[int, Field(ge=FEWEST_BLOCKS)]


class MeasureSpec(Strict):
    """The `measure` section: the default measure of arms, and how they are timed.

    `interval` is the half-width, as a share, that ends the slices of a round; `slices` are the
    fewest and the most of each arm; `slice_s` is the intended length of one.
    """

    mode: MeasureMode = "full"
    interval: Share = _TIMING.interval
    slices: Annotated[tuple[Slices, Slices], BeforeValidator(as_tuple)] = (
        _TIMING.least,
        _TIMING.most,
    )
    slice_s: Annotated[float, Field(gt=0, le=60)] = _TIMING.slice_s

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        return expanded("measure", data)

    @model_validator(mode="after")
    def _rising(self) -> MeasureSpec:
        least, most = self.slices
        if least > most:
            expected = "the fewest slices first, then the most"
            raise refusal(expected, shown(list(self.slices)), key="slices")
        return self

    @property
    def timing(self) -> Timing:
        """The same as plain data."""
        return Timing(self.interval, *self.slices, self.slice_s)


class BlocksSpec(Strict):
    """The `blocks` section: add blocks until each speed-up's interval has this half-width."""

    interval: Share = _BLOCKS.interval
    at_least: Annotated[int, Field(ge=FEWEST_BLOCKS)] = _BLOCKS.least
    at_most: Annotated[int, Field(ge=FEWEST_BLOCKS)] = _BLOCKS.most

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if isinstance(data, int) and not isinstance(data, bool):
            hint = "a number of blocks is search.configs"
            raise refusal("auto, or {interval: …, at_most: …}", str(data), hint=hint)
        return expanded("blocks", data)

    @model_validator(mode="after")
    def _rising(self) -> BlocksSpec:
        if self.at_least > self.at_most:
            expected = f"at least at_least ({self.at_least})"
            raise refusal(expected, str(self.at_most), key="at_most")
        return self

    @property
    def auto_blocks(self) -> AutoBlocks:
        """The same as plain data."""
        return AutoBlocks(self.interval, self.at_least, self.at_most)


class DisturbedSpec(Strict):
    """The `disturbed` section: the limits beyond which a trial is marked as disturbed."""

    action: Literal["mark"] = "mark"
    others_cpu_pct: Percent = _DISTURBED.others_cpu_pct
    steal_pct: Percent = _DISTURBED.steal_pct
    throttled_pct: Percent = _DISTURBED.throttled_pct
    clock_drop_pct: Percent = _DISTURBED.clock_drop_pct
    canary: Annotated[float, Field(gt=1)] = _DISTURBED.canary

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        action = data.get("action") if isinstance(data, dict) else data
        if action == "rerun":
            raise refusal("mark", "rerun", hint=_NO_RERUN)
        return expanded("disturbed", data)

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """The same as plain data."""
        return DisturbanceLimits(**self.model_dump(exclude={"action"}))


class MarginsSpec(Strict):
    """The `margins` section: differences that do not matter."""

    speed: Share = _MARGINS.speed
    accuracy: Share = _MARGINS.accuracy

    @property
    def margins(self) -> Margins:
        """The same as plain data."""
        return criteria.Margins(self.speed, self.accuracy)


SHORT_FORMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "measure": ("mode", ("full", "timing")),
    "disturbed": ("action", ("mark",)),
    "blocks": ("", ("auto",)),
}
"""Short forms: for each key the words that it may be, and the key inside that a word sets."""


def expanded(key: str, value: Any) -> Any:
    """Expand a short form to its mapping: `timing` to `{mode: timing}`.

    Raises:
        PydanticCustomError: it is another word, or not a mapping.
    """
    inside, words = SHORT_FORMS[key]
    if isinstance(value, str) and value in words:
        return {inside: value} if inside else {}
    if isinstance(value, dict | Strict):
        return value
    raise refusal(f"{' or '.join(words)}, or a mapping", shown(value), hint=nearest(value, words))
