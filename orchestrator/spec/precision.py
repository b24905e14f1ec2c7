"""Precision of a sweep: interleaved timing, automatic blocks, disturbed rounds, margins.

    measure: timing                      # or {mode: timing, interval: 0.01, slices: [12, 96]}
    blocks: auto                         # or {interval: 0.01, at_least: 6, at_most: 60}
    disturbed: mark                      # or limits: {others_cpu_pct: 15, canary: 1.25}
    margins: {speed: 0.02, accuracy: 0.005}
    published:
      - source: who published it, and where
        implementation: tensorflow/cudnn      # by the names used here, or in their own words
        hardware: Tesla P100
        config: {units: 128}                  # the sizes at which it was measured
        metrics: {fit_s: 39.82, val_accuracy: 0.985}
        note: its conditions, if they are known

The models here check what people write; `orchestrator.core.criteria` has the plain values and the
defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    MeasureMode,
    Timing,
)
from orchestrator.spec.errors import nearest, shown
from orchestrator.spec.fields import (
    Choice,
    MetricName,
    ParameterName,
    Strict,
    Text,
    as_tuple,
    refusal,
)

_TIMING, _BLOCKS, _DISTURBED, _MARGINS = Timing(), AutoBlocks(), DisturbanceLimits(), Margins()

FEWEST_BLOCKS = 6
"""The smallest number of blocks for a verdict (see the report's statistics)."""

Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]
Blocks: TypeAlias = Annotated[int, Field(ge=FEWEST_BLOCKS)]


class _Section(Strict):
    """A section for which one of some `words` may stand; `word_key` is the key that it sets."""

    words: ClassVar[tuple[str, ...]]
    word_key: ClassVar[str] = ""
    number_hint: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, str) and data in cls.words:
            return {cls.word_key: data} if cls.word_key else {}
        if isinstance(data, dict | Strict):
            return data
        hint = cls.number_hint if isinstance(data, int) else nearest(data, cls.words)
        raise refusal(f"{' or '.join(cls.words)}, or a mapping", shown(data), hint=hint)


class MeasureSpec(_Section):
    """The `measure` section: the default measure of arms, and how they are timed.

    `interval` is the half-width, as a share, that ends the slices of a round; `slices` are the
    fewest and the most of each arm; `slice_s` is the intended length of one.
    """

    words, word_key = ("full", "timing"), "mode"

    mode: MeasureMode = "full"
    interval: Share = _TIMING.interval
    slices: Annotated[tuple[Blocks, Blocks], BeforeValidator(as_tuple)] = (
        _TIMING.least,
        _TIMING.most,
    )
    slice_s: Annotated[float, Field(gt=0, le=60)] = _TIMING.slice_s

    @model_validator(mode="after")
    def _rising(self) -> MeasureSpec:
        if self.slices[0] > self.slices[1]:
            expected = "the fewest slices first, then the most"
            raise refusal(expected, shown(list(self.slices)), key="slices")
        return self


class BlocksSpec(_Section):
    """The `blocks` section: add blocks until each speed-up's interval has this half-width."""

    words, number_hint = ("auto",), "a number of blocks is search.configs"

    interval: Share = _BLOCKS.interval
    at_least: Blocks = _BLOCKS.least
    at_most: Blocks = _BLOCKS.most

    @model_validator(mode="after")
    def _rising(self) -> BlocksSpec:
        if self.at_least > self.at_most:
            expected = f"at least at_least ({self.at_least})"
            raise refusal(expected, str(self.at_most), key="at_most")
        return self


_NO_RERUN = "disturbed rounds are not run again; blocks: auto adds blocks until enough are quiet"


class DisturbedSpec(_Section):
    """The `disturbed` section: the limits beyond which a trial is marked as disturbed."""

    words, word_key = ("mark",), "action"

    action: Literal["mark"] = "mark"
    others_cpu_pct: Percent = _DISTURBED.others_cpu_pct
    steal_pct: Percent = _DISTURBED.steal_pct
    throttled_pct: Percent = _DISTURBED.throttled_pct
    clock_drop_pct: Percent = _DISTURBED.clock_drop_pct
    canary: Annotated[float, Field(gt=1)] = _DISTURBED.canary

    @model_validator(mode="before")
    @classmethod
    def _no_rerun(cls, data: Any) -> Any:
        if data == "rerun" or (isinstance(data, dict) and data.get("action") == "rerun"):
            raise refusal("mark", "rerun", hint=_NO_RERUN)
        return data


class MarginsSpec(Strict):
    """The `margins` section: differences that do not matter."""

    speed: Share = _MARGINS.speed
    accuracy: Share = _MARGINS.accuracy


class Published(Strict):
    """One row of `published`: a result to show with ours, by our names and in our units."""

    source: Text
    implementation: Text
    hardware: Text
    config: Mapping[ParameterName, Choice] = Field(default_factory=dict)
    metrics: Annotated[Mapping[MetricName, float], Field(min_length=1)]
    note: str = ""


PublishedRows: TypeAlias = Annotated[tuple[Published, ...], BeforeValidator(as_tuple)]

SHORT_FORMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    key: (section.word_key, section.words)
    for key, section in (
        ("measure", MeasureSpec),
        ("blocks", BlocksSpec),
        ("disturbed", DisturbedSpec),
    )
}
"""Short forms: for each key the key inside that a word sets, and the words that it may be."""
