"""YAML to a frozen, checked SweepSpec; all errors of a file are reported together, with places.

Make a SweepSpec with `parse` or `load`. They check more than types, such as bounds that the
workload does not allow (`orchestrator.spec.checks`).
"""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError

from orchestrator.core.criteria import AutoBlocks, DisturbanceLimits, ReportCriteria, Timing
from orchestrator.spec import checks, prices, pydantic_errors, yaml_locations
from orchestrator.spec.dimensions import CHOICES_KEYS, RANGE_KEYS
from orchestrator.spec.errors import Path, SpecError
from orchestrator.spec.fields import ArmText, ImplementationText, Strict, as_tuple
from orchestrator.spec.hardware import HARDWARE_KEYS, USUAL, HardwareEntries, HardwareEntry
from orchestrator.spec.precision import (
    SHORT_FORMS,
    BlocksSpec,
    DisturbedSpec,
    MarginsSpec,
    MeasureSpec,
)
from orchestrator.spec.prices import PRICE_KEYS, Prices
from orchestrator.spec.published import PUBLISHED_KEYS, PublishedRows
from orchestrator.spec.space import MEMORY_METRICS, Objective, Search

Text = Annotated[str, StringConstraints(pattern=r"\S")]
Positive = Annotated[float, Field(gt=0)]


class Arms(Strict):
    """The arms to compare: every implementation on every hardware class."""

    implementations: Annotated[
        tuple[ImplementationText, ...],
        BeforeValidator(as_tuple),
        Field(min_length=1),
    ]
    hardware: HardwareEntries = USUAL


class Limits(Strict):
    """Limits of a trial: seconds in all, seconds without progress, memory, attempts.

    An attempt that is lost with its node counts as a preemption. `node_wait_s` is how long a sweep
    with nothing else to do waits for hardware whose last node has left.
    """

    trial_s: Positive = 86_400.0
    idle_s: Positive = 300.0
    memory_mib: Annotated[int, Field(gt=0)] | None = None
    attempts: Annotated[int, Field(ge=1)] = 3
    preemptions: Annotated[int, Field(ge=0)] = 10
    node_wait_s: Annotated[float, Field(ge=0)] = 600.0


class SweepSpec(Strict):
    """The spec of one sweep, as its file has it."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    workload: Text
    settings: Mapping[str, Any] = Field(default_factory=dict)
    search: Search
    arms: Arms
    repeats: Annotated[int, Field(ge=1)] = 1
    seed: Annotated[int, Field(ge=0)] = 0
    baseline: ArmText | None = None
    trainer: Literal["warm", "fresh"] | None = None
    limits: Limits = Limits()
    prices: Prices = ()
    measure: MeasureSpec = MeasureSpec()
    blocks: BlocksSpec | None = None
    disturbed: DisturbedSpec = DisturbedSpec()
    margins: MarginsSpec = MarginsSpec()
    published: PublishedRows = ()

    @property
    def timing(self) -> Timing:
        """How arms are timed in slices, if some are."""
        return self.measure.timing

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """The other load that a node may have during a trial, and the action beyond it."""
        return self.disturbed.disturbance_limits

    @property
    def auto_blocks(self) -> AutoBlocks | None:
        """The rule that ends automatic blocks; None if `search.configs` decides their number."""
        return self.blocks.auto_blocks if self.blocks else None

    @property
    def hardware(self) -> tuple[HardwareEntry, ...]:
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
        published = tuple(entry.row for entry in self.published)
        return ReportCriteria(self.baseline, self.margins.margins, self.auto_blocks, published)

    @property
    def fresh_trainer_reason(self) -> str | None:
        """Return why each trial has a trainer process of its own; None if trainers stay warm."""
        if self.trainer is not None:
            return "the spec has trainer: fresh" if self.trainer == "fresh" else None
        memory = [name for name in self.search.objectives if name in MEMORY_METRICS]
        return f"{memory[0]} is an objective" if memory else None

    def comparable_search(self) -> dict[str, Any]:
        """Return the part of the search that no restart may change, as plain JSON data.

        `configs` and `open_blocks` are left out: more configs extend a sweep.
        """
        return self.search.model_dump(mode="json", include={"sampler", "space", "objectives"})

    def written_settings(self) -> dict[str, Any]:
        """Return the fixed settings as they were written, without the workload's defaults."""
        return copy.deepcopy(dict(self.settings))


_KEYS: Mapping[Path, Sequence[str]] = {
    (): tuple(SweepSpec.model_fields),
    ("search",): tuple(Search.model_fields),
    ("search", "space", "*", "choices"): CHOICES_KEYS,
    ("search", "space", "*", "range"): RANGE_KEYS,
    ("search", "objectives", "*"): tuple(Objective.model_fields),
    ("arms",): tuple(Arms.model_fields),
    ("arms", "hardware", "*"): HARDWARE_KEYS,
    ("limits",): tuple(Limits.model_fields),
    ("prices", "*"): PRICE_KEYS,
    ("measure",): tuple(MeasureSpec.model_fields),
    ("blocks",): tuple(BlocksSpec.model_fields),
    ("disturbed",): tuple(DisturbedSpec.model_fields),
    ("margins",): tuple(MarginsSpec.model_fields),
    ("published", "*"): PUBLISHED_KEYS,
}


def load(path: pathlib.Path, overrides: Sequence[str] = ()) -> SweepSpec:
    """Read and check a spec file.

    Args:
        path: a YAML file in UTF-8.
        overrides: `dotted.key=YAML`, set over the values of the file and checked with them.

    Raises:
        SpecError: the file cannot be read or is wrong; it has all problems.
    """
    text = yaml_locations.read_text(path, "a spec file")
    return parse(text, source=str(path), overrides=overrides, folder=path.parent)


def parse(
    text: str,
    *,
    source: str,
    overrides: Sequence[str] = (),
    folder: pathlib.Path | None = None,
) -> SweepSpec:
    """Check a spec that is given as text; `source` names it in messages.

    Files that it names are looked up in `folder`.

    Raises:
        SpecError: the text is wrong; it has all problems.
    """
    document = yaml_locations.read(
        text, source=source, overrides=overrides, short_forms=SHORT_FORMS
    )
    table = prices.find_table(document.data, folder)
    findings = [*table.findings]
    spec = None
    try:
        asked = {"prices": table.data} if "prices" in document.data else {}
        spec = SweepSpec.model_validate({**document.data, **asked})
    except ValidationError as error:
        findings += map(table.placed, pydantic_errors.from_pydantic(error, _KEYS))
    findings += checks.inconsistencies(document.data)
    if problems := document.problems(findings):
        raise SpecError(source, problems)
    assert spec is not None  # a validation error is a finding, and every finding is a problem
    return spec
