"""The frozen model of a spec. `load_spec` and `parse_spec` check more than types (`checks.py`)."""

import copy
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    HardwarePrice,
    PublishedRow,
    ReportCriteria,
    Timing,
)
from orchestrator.core.records import Direction
from orchestrator.spec import sections
from orchestrator.spec.fields import (
    ArmText,
    Json,
    PositiveInt,
    Strict,
    Text,
    entry_name,
    missing,
    statement,
)
from orchestrator.spec.space import MOST_REPEATS, Search
from workloads.metrics import FRESH_ONLY
from workloads.model_facts import Inspection, ModelFacts
from workloads.own_code import entry_of_file
from workloads.registry import BUILT_IN, ENTRY_PATTERN, own_model_name

WorkloadName: TypeAlias = Annotated[
    Text,
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [workload.name for workload in BUILT_IN]},
                {"type": "string", "pattern": ":"},
            ]
        }
    ),
]


EntryName: TypeAlias = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": rf"^({ENTRY_PATTERN}|.+\.py(:\w+)?)$"})
]
"""The entry of a user's function: `package.module:NAME`, or `file.py:NAME`."""


def _or_file_name(schema: Json) -> None:
    """Change the schema of a list to the schema of a list or the name of a file."""
    rows = {"type": schema.pop("type"), "items": schema.pop("items")}
    schema["anyOf"] = [{"type": "string"}, rows]
    del schema["default"]


class SweepSpec(Strict):
    """The spec of one sweep, as its file has it."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")] = Field(
        description=(
            "The name of the sweep and of its MLflow experiment. Run the same name again to resume."
        )
    )
    model: EntryName | None = Field(
        None,
        description=(
            "A model of your own: module:build, a function that takes the settings and returns"
            " the model."
        ),
    )
    data: EntryName | None = Field(
        None,
        description=(
            "The data of your own model: module:load, a function that takes the settings and"
            " returns the data. Without it the data are random, and only times are measured."
        ),
    )
    callbacks: EntryName | None = Field(
        None,
        description=(
            "Keras callbacks for your own model: module:callbacks, a function that takes the"
            " settings and returns a list of them. They are called between the epochs of each"
            " whole training, and never at a batch."
        ),
    )
    workload: WorkloadName | None = Field(
        None,
        description=(
            "Instead of model: a built-in workload, or your own function, package.module:function."
        ),
        validate_default=True,
    )
    settings: Mapping[str, Any] = Field(
        default_factory=dict, description="Settings of the workload that are equal in all trials."
    )
    search: Search = Field(description="How configs are chosen.")
    arms: sections.Arms = Field(
        description="The implementations, hardware and variants to compare."
    )
    repeats: Annotated[PositiveInt, Field(le=MOST_REPEATS)] = Field(
        1, description="How often every config runs on every arm."
    )
    seed: Annotated[int, Field(ge=0)] = Field(
        0, description="The seed of the sampler, of initial weights and of batch orders."
    )
    baseline: ArmText | None = Field(
        None,
        description=(
            "The arm that every other arm is compared with: IMPLEMENTATION, VARIANT:"
            " IMPLEMENTATION, or one of these with ' on HARDWARE'. The default is the first"
            " arm."
        ),
    )
    trainer: Literal["warm", "fresh"] | None = Field(
        None,
        description=(
            "warm: a trainer process runs many trials. fresh: each trial has its own process."
            " The default is warm, or fresh if memory is an objective."
        ),
    )
    limits: sections.Limits = Field(
        sections.Limits(), description="Limits of trials, failures and waiting."
    )
    prices: sections.Prices = Field(
        (),
        description=(
            "Prices of hardware, for costs: a list, or the name of a file next to the spec."
        ),
        json_schema_extra=_or_file_name,
    )
    measure: sections.MeasureSpec = Field(
        sections.MeasureSpec(),
        description=(
            "full: train to the end. timing: train until the speed-ups are precise. Or a mapping"
            " with mode and the options of timing."
        ),
    )
    disturbed: sections.DisturbedSpec = Field(
        sections.DisturbedSpec(),
        description="How busy the machine may be before a trial is marked as disturbed.",
    )
    margins: sections.MarginsSpec = Field(
        sections.MarginsSpec(), description="Differences that are too small to matter."
    )
    published: sections.PublishedRows = Field(
        (), description="Published results, shown next to yours."
    )

    @field_validator("model")
    @classmethod
    def _builds(cls, model: str | None) -> str | None:
        return None if model is None else entry_name(model, "build")

    @field_validator("data")
    @classmethod
    def _loads(cls, data: str | None) -> str | None:
        return None if data is None else entry_name(data, "load")

    @field_validator("callbacks")
    @classmethod
    def _returns_callbacks(cls, callbacks: str | None) -> str | None:
        return None if callbacks is None else entry_name(callbacks, "callbacks")

    @field_validator("workload")
    @classmethod
    def _is_given_unless_a_model_is(
        cls, workload: str | None, values: ValidationInfo
    ) -> str | None:
        if "model" not in values.data:  # it is refused already
            return workload
        model, of_model = values.data["model"], [values.data.get(k) for k in ("data", "callbacks")]
        workload = workload and (entry_of_file(workload) or workload)
        if model is not None and workload is not None:
            hint = "remove workload, or model with data and callbacks"
            raise statement("a sweep has a workload or a model, not both", hint=hint)
        if model is None and any(of_model):
            hint = "add model: module:build, the function that builds the model"
            raise statement("data and callbacks need a model", hint=hint)
        if model is None and workload is None:
            raise missing("a workload, or a model of your own (model: module:build)")
        return workload

    @property
    def workload_name(self) -> str:
        """The name of the workload, or the name that an own model and its data have together."""
        if self.model is not None:
            return own_model_name(self.model, self.data, self.callbacks)
        assert self.workload is not None  # one of them is given
        return self.workload

    _inspections: Mapping[str, Inspection] = PrivateAttr(default_factory=dict)

    @property
    def inspections(self) -> Mapping[str, Inspection]:
        """What is known of the own model, by backend; empty if it has not been built."""
        return self._inspections

    def with_inspections(self, inspections: Mapping[str, Inspection]) -> Self:
        """Return this spec with what is known of its own model."""
        checked = self.model_copy()
        checked._inspections = dict(inspections)
        return checked

    @property
    def model_facts(self) -> ModelFacts | None:
        """The facts of the own model on the first backend that can build it; None without any."""
        facts = (found for found in self._inspections.values() if isinstance(found, ModelFacts))
        return next(facts, None)

    @property
    def learning_metrics(self) -> tuple[str, ...] | None:
        """What trials of the own model report after each epoch; None if that is not known."""
        if self.model_facts is None:
            return None
        names, of_validation = self.model_facts.metrics, self.model_facts.validation_metrics
        return (*names, *(f"val_{name}" for name in names), *of_validation)

    @property
    def timing(self) -> Timing:
        """How long slices are, and when rounds of timing arms end."""
        measure = self.measure
        return Timing(measure.interval, *measure.slices, measure.slice_s, measure.of)

    @property
    def disturbance_limits(self) -> DisturbanceLimits:
        """The limits of other load on a node during a trial."""
        return DisturbanceLimits(**self.disturbed.model_dump())

    @property
    def auto_blocks(self) -> AutoBlocks | None:
        """The rule that ends the sweep early; None if `search.configs` is not automatic."""
        rule = self.search.auto
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

    def directions(self) -> dict[str, Direction]:
        """Return the objectives, each with its better direction."""
        return {name: objective.direction for name, objective in self.search.objectives.items()}

    def criteria(self) -> ReportCriteria:
        """Return what a report needs: baseline, margins, automatic blocks, rows, prices."""
        return ReportCriteria(
            self.baseline,
            self.margins.values(),
            self.auto_blocks,
            tuple(PublishedRow(**row.model_dump()) for row in self.published),
            tuple(HardwarePrice(**price.model_dump()) for price in self.prices),
        )

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
