"""The frozen model of a spec. `load` and `parse` check more than its types (`checks.py`)."""

import copy
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    PublishedRow,
    ReportCriteria,
    Timing,
)
from orchestrator.spec import sections
from orchestrator.spec.fields import ArmText, Count, Strict, Text
from orchestrator.spec.space import MOST_REPEATS, Search
from workloads.metrics import FRESH_ONLY


class SweepSpec(Strict):
    """The spec of one sweep, as its file has it."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    workload: Text
    settings: Mapping[str, Any] = Field(default_factory=dict)
    search: Search
    arms: sections.Arms
    repeats: Annotated[Count, Field(le=MOST_REPEATS)] = 1
    seed: Annotated[int, Field(ge=0)] = 0
    baseline: ArmText | None = None
    trainer: Literal["warm", "fresh"] | None = None
    limits: sections.Limits = sections.Limits()
    prices: sections.Prices = ()
    measure: sections.MeasureSpec = sections.MeasureSpec()
    blocks: sections.BlocksSpec | None = None
    disturbed: sections.DisturbedSpec = sections.DisturbedSpec()
    margins: sections.MarginsSpec = sections.MarginsSpec()
    published: sections.PublishedRows = ()

    @property
    def timing(self) -> Timing:
        """How arms are timed in slices, if some are."""
        return Timing(self.measure.interval, *self.measure.slices, self.measure.slice_s)

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """The limits of other load on a node during a trial."""
        limits = self.disturbed.model_dump(exclude={"action", "accept_provisional"})
        return DisturbanceLimits(**limits)

    @property
    def auto_blocks(self) -> AutoBlocks | None:
        """The rule that ends automatic blocks; None if `search.configs` decides their number."""
        rule = self.blocks
        return AutoBlocks(rule.interval, rule.at_least, rule.at_most) if rule else None

    @property
    def hardware(self) -> tuple[sections.HardwareEntry, ...]:
        """The entries of `arms.hardware`, each with its measure."""
        return tuple(entry.measured(self.measure.mode) for entry in self.arms.hardware)

    @property
    def may_wait(self) -> bool:
        """True if the sweep waits for hardware (`wait_s`), as a cluster may have no node yet."""
        return any(entry.wait_s is not None for entry in self.arms.hardware)

    @property
    def most_blocks(self) -> int:
        """The largest number of blocks that the sweep may have."""
        if self.auto_blocks is None:
            return self.search.count()
        size = self.search.size()
        return self.auto_blocks.most if size is None else min(size, self.auto_blocks.most)

    def criteria(self) -> ReportCriteria:
        """Return what a report needs: baseline, margins, automatic blocks, published rows."""
        published = tuple(PublishedRow(**row.model_dump()) for row in self.published)
        margins = Margins(self.margins.speed, self.margins.accuracy)
        return ReportCriteria(self.baseline, margins, self.auto_blocks, published)

    @property
    def fresh_trainer_reason(self) -> str | None:
        """Return why each trial has a trainer process of its own; None if trainers stay warm."""
        if self.trainer is not None:
            return "the spec has trainer: fresh" if self.trainer == "fresh" else None
        memory = [name for name in self.search.objectives if name in FRESH_ONLY]
        return f"{memory[0]} is an objective" if memory else None

    def comparable_search(self) -> dict[str, Any]:
        """Return the part of the search that no restart may change, as plain JSON data.

        `configs` and `open_blocks` are left out: more configs extend a sweep. So is `pruner`: it
        decides which blocks end early, and what it ended stays ended.
        """
        return self.search.model_dump(mode="json", include={"sampler", "space", "objectives"})

    def written_settings(self) -> dict[str, Any]:
        """Return the fixed settings as they were written, without the workload's defaults."""
        return copy.deepcopy(dict(self.settings))
