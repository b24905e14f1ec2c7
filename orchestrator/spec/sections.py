"""Sections of a spec below its top level; `schema_overlay.yaml` describes their keys.

The models here check what people write; `orchestrator.core.criteria` has the plain values and the
defaults.
"""

import datetime
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import pydantic

from orchestrator.core.arms import Usage, Variant
from orchestrator.core.criteria import AutoBlocks, DisturbanceLimits, Margins, MeasureMode, Timing
from orchestrator.core.names import CONDITION_SHAPE, KEY_SHAPE, is_condition, is_key, labels_text
from orchestrator.spec import fields
from orchestrator.spec.errors import nearest, shown


def _key(text: str) -> str:
    if not is_key(text):
        raise fields.refusal(KEY_SHAPE)
    return text


def _condition(value: Any) -> Any:
    if not isinstance(value, str) or not is_condition(value):
        hint = "" if isinstance(value, str) else "labels are text: put it in quotes"
        raise fields.refusal(CONDITION_SHAPE, shown(value), hint=hint)
    return value


LabelKey: TypeAlias = Annotated[str, pydantic.AfterValidator(_key)]
Condition: TypeAlias = Annotated[str, pydantic.BeforeValidator(_condition)]


class HardwareEntry(fields.Strict):
    """Hardware classes, the nodes of them to use, and how a trial uses these.

    Without `class` it is the GPUs of the nodes with these `labels`, and the CPU of those that have
    none. `cpus`, `threads`, `settings` and `measure` make another arm: `AMD EPYC [4 threads]`.
    """

    model_config = pydantic.ConfigDict(populate_by_name=True, serialize_by_alias=True)

    selector: fields.Text | None = pydantic.Field(None, alias="class")
    labels: Mapping[LabelKey, Condition] = pydantic.Field(default_factory=dict)
    cpus: fields.Count | None = None
    threads: fields.Count | None = None
    settings: Mapping[fields.ParameterName, fields.Number] = pydantic.Field(default_factory=dict)
    measure: MeasureMode | None = None
    wait_s: fields.Positive | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"class": data}
        if not isinstance(data, dict | HardwareEntry):
            raise fields.refusal("text (cpu, gpu, a class or pattern), or {class: …, threads: …}")
        return data

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.selector is None and not self.labels:
            raise fields.refusal("class, labels or both", "neither")
        if self.threads is not None and self.cpus is not None and self.threads > self.cpus:
            raise fields.refusal(f"at most cpus ({self.cpus})", str(self.threads), key="threads")
        if self.cpus is not None and (self.selector or "").lower() == "cpu":
            hint = "a CPU arm takes its whole node: set threads to limit what the trainer uses"
            raise fields.refusal("no cpus with class: cpu", str(self.cpus), key="cpus", hint=hint)
        return self

    @pydantic.model_serializer(mode="wrap")
    def _as_written(self, handler: pydantic.SerializerFunctionWrapHandler) -> Any:
        """Dump a class without options as its text, the short form."""
        short = self.selector is not None and self == HardwareEntry(selector=self.selector)
        return self.selector if short else handler(self)

    @property
    def usage(self) -> Usage:
        """How a trial uses the hardware, where not in the usual way."""
        work = dict(sorted(self.settings.items()))
        return Usage(self.cpus, self.threads, work, self.measure or "full")

    def measured(self, usual: MeasureMode) -> Self:
        """Return the entry with the sweep's measure, unless it has its own."""
        return self if self.measure else self.model_copy(update={"measure": usual})

    def __str__(self) -> str:
        """Return the entry for a message, before its class is known."""
        chosen = [self.selector] if self.selector is not None else []
        chosen += [f"nodes with {labels_text(self.labels)}"] if self.labels else []
        usage = f" [{self.usage}]" if str(self.usage) else ""
        return f"{' on '.join(chosen)}{usage}"


HardwareEntries: TypeAlias = Annotated[
    tuple[HardwareEntry, ...],
    pydantic.BeforeValidator(fields.as_tuple),
    pydantic.Field(min_length=1),
]
USUAL = (HardwareEntry(selector="cpu"), HardwareEntry(selector="gpu"))
"""The hardware of a spec that names none."""


_VARIANT = re.compile(r"(?!(cpu|gpu|mean|min|max)$)(?!.* on )[^\s/:*]([^/:*\n]{0,78}[^\s/:*])?")


class VariantEntry(fields.Strict):
    """A variant of the workload: its own settings, which replace those of the sweep.

    Settings alone are the short form: `{cell: lstm}`. They name the variant: by its value if it is
    one text (`lstm`), else by names and values (`cell gru, layers 2`).
    """

    name: str
    settings: Mapping[fields.ParameterName, fields.Choice] = pydantic.Field(default_factory=dict)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if isinstance(data, VariantEntry) or (isinstance(data, dict) and "name" in data):
            return data
        if not isinstance(data, dict) or not data:
            raise fields.refusal("settings, such as {cell: gru}, or {name: …, settings: {…}}")
        inner = data.get("settings")
        own = inner if len(data) == 1 and isinstance(inner, dict) and inner else data
        texts = {key: v if isinstance(v, str) else json.dumps(v) for key, v in own.items()}
        parts = texts.values() if len(own) == 1 and own == texts else map(" ".join, texts.items())
        return {"name": ", ".join(sorted(parts)), "settings": own}

    @pydantic.field_validator("name")
    @classmethod
    def _readable(cls, name: str) -> str:
        if not _VARIANT.fullmatch(name):
            expected = "a name without / : * and ' on ', which is no word for hardware or a mean"
            hint = "a variant is {name: …, settings: {…}}; without a name, its settings name it"
            raise fields.refusal(expected, repr(name), hint=hint)
        return name

    @property
    def variant(self) -> Variant:
        """The variant that arms have."""
        return Variant(self.name, dict(sorted(self.settings.items())))


class Arms(fields.Strict):
    """The arms to compare: every implementation on every hardware class, in every variant."""

    implementations: Annotated[
        tuple[fields.ImplementationText, ...],
        pydantic.BeforeValidator(fields.as_tuple),
        pydantic.Field(min_length=1),
    ]
    hardware: HardwareEntries = USUAL
    variants: Annotated[tuple[VariantEntry, ...], pydantic.BeforeValidator(fields.as_tuple)] = ()

    @property
    def per_hardware(self) -> tuple[tuple[str, Variant | None], ...]:
        """Each implementation with each variant; with None if there are no variants."""
        variants = tuple(entry.variant for entry in self.variants) or (None,)
        return tuple((name, variant) for name in self.implementations for variant in variants)


class Limits(fields.Strict):
    """Limits of trials, of failures, and of waiting for hardware."""

    trial_s: fields.Positive = 86_400.0
    idle_s: fields.Positive = 300.0
    memory_mib: fields.Count | None = None
    attempts: fields.Count = 3
    failures: fields.Count | None = 3
    preemptions: Annotated[int, pydantic.Field(ge=0)] = 10
    node_wait_s: Annotated[float, pydantic.Field(ge=0)] = 600.0


_TIMING, _BLOCKS, _DISTURBED, _MARGINS = Timing(), AutoBlocks(), DisturbanceLimits(), Margins()

FEWEST_BLOCKS = 6
"""The smallest number of blocks for a verdict (see the report's statistics)."""

Share: TypeAlias = Annotated[float, pydantic.Field(gt=0, lt=1)]
Percent: TypeAlias = Annotated[float, pydantic.Field(ge=0, le=100)]
Words: TypeAlias = Mapping[str, Mapping[str, Any]]
Hints: TypeAlias = Mapping[object, str]
Blocks: TypeAlias = Annotated[int, pydantic.Field(ge=FEWEST_BLOCKS)]
Natural: TypeAlias = Annotated[int, pydantic.Field(ge=0)]


class WordedSection(fields.Strict):
    """A section for which one of some `words` may stand."""

    words: ClassVar[Words]
    hints: ClassVar[Hints] = {}
    """Hints for other words, and for numbers (by the type `int`)."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, dict | fields.Strict):
            return data
        if isinstance(data, str) and data in cls.words:
            return cls.words[data]
        key = data if isinstance(data, str) else type(data)
        hint = cls.hints.get(key) or nearest(data, cls.words)
        raise fields.refusal(f"{' or '.join(cls.words)}, or a mapping", shown(data), hint=hint)


class MeasureSpec(WordedSection):
    """The `measure` section: the default measure of arms, and how they are timed in slices."""

    words: ClassVar[Words] = {"full": {"mode": "full"}, "timing": {"mode": "timing"}}

    mode: MeasureMode = "full"
    interval: Share = _TIMING.interval
    slices: Annotated[tuple[Blocks, Blocks], pydantic.BeforeValidator(fields.as_tuple)] = (
        _TIMING.least,
        _TIMING.most,
    )
    slice_s: Annotated[float, pydantic.Field(gt=0, le=60)] = _TIMING.slice_s

    @pydantic.model_validator(mode="after")
    def _rising(self) -> Self:
        if self.slices[0] > self.slices[1]:
            expected = "the fewest slices first, then the most"
            raise fields.refusal(expected, shown(list(self.slices)), key="slices")
        return self


class BlocksSpec(WordedSection):
    """The `blocks` section: add blocks until each speed-up is precise."""

    words: ClassVar[Words] = {"auto": {}}
    hints: ClassVar[Hints] = {int: "a number of blocks is search.configs"}

    interval: Share = _BLOCKS.interval
    at_least: Blocks = _BLOCKS.least
    at_most: Blocks = _BLOCKS.most

    @pydantic.model_validator(mode="after")
    def _rising(self) -> Self:
        if self.at_least > self.at_most:
            expected = f"at least at_least ({self.at_least})"
            raise fields.refusal(expected, str(self.at_most), key="at_most")
        return self


class DisturbedSpec(WordedSection):
    """The `disturbed` section: the limits beyond which a trial is marked as disturbed."""

    words: ClassVar[Words] = {"mark": {}}
    hints: ClassVar[Hints] = {
        "rerun": "no round is run again; blocks: auto adds blocks until enough are quiet"
    }

    action: Literal["mark"] = "mark"
    others_cpu_pct: Percent = _DISTURBED.others_cpu_pct
    steal_pct: Percent = _DISTURBED.steal_pct
    throttled_pct: Percent = _DISTURBED.throttled_pct
    clock_drop_pct: Percent = _DISTURBED.clock_drop_pct
    canary: Annotated[float, pydantic.Field(gt=1)] = _DISTURBED.canary
    accept_provisional: bool = False


class MarginsSpec(fields.Strict):
    """The `margins` section: differences that do not matter."""

    speed: Share = _MARGINS.speed
    accuracy: Share = _MARGINS.accuracy


class Published(fields.Strict):
    """One row of `published`: a result to show with ours, by our names and in our units."""

    source: fields.Text
    implementation: fields.Text
    hardware: fields.Text
    config: Mapping[fields.ParameterName, fields.Choice] = pydantic.Field(default_factory=dict)
    metrics: Annotated[Mapping[fields.MetricName, float], pydantic.Field(min_length=1)]
    note: str = ""


PublishedRows: TypeAlias = Annotated[
    tuple[Published, ...], pydantic.BeforeValidator(fields.as_tuple)
]


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise fields.refusal("the day of the price, such as 2026-11-21", shown(text)) from error


class Price(fields.Strict):
    """The price of one kind of hardware, with its source and date; both prices add up."""

    hardware: fields.Text
    usd_per_hour: fields.Positive | None = None
    gpus: fields.Count = 1
    usd_per_kwh: fields.Positive | None = None
    source: fields.Text
    date: Annotated[str, pydantic.AfterValidator(_date)]

    @pydantic.model_validator(mode="after")
    def _expect_price(self) -> Self:
        if self.usd_per_hour is None and self.usd_per_kwh is None:
            raise fields.refusal("usd_per_hour, usd_per_kwh, or both", "neither")
        return self


Prices: TypeAlias = Annotated[tuple[Price, ...], pydantic.BeforeValidator(fields.as_tuple)]

SHORT_FORMS: Mapping[str, Words] = {
    "measure": MeasureSpec.words,
    "blocks": BlocksSpec.words,
    "disturbed": DisturbedSpec.words,
}
"""Short forms: for each key the words that may replace its section, and their meanings."""
