"""Sections of a spec below its top level, with the descriptions of their keys.

The models here check what people write; `orchestrator.core.criteria` has the plain values and the
defaults.
"""

import datetime
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import pydantic

from orchestrator.core.arms import Usage, Variant
from orchestrator.core.criteria import (
    AutoBlocks,
    DisturbanceLimits,
    Margins,
    MeasureMode,
    ResultMargin,
    Timing,
)
from orchestrator.core.selectors import (
    CONDITION_SHAPE,
    KEY_SHAPE,
    is_condition,
    is_key,
    labels_text,
)
from orchestrator.core.trial import is_number
from orchestrator.spec import fields
from orchestrator.spec.spec_errors import nearest, shown_value
from workloads.protocol import TimedWork


def _key(text: str) -> str:
    if not is_key(text):
        raise fields.refusal(KEY_SHAPE)
    return text


def _condition(value: Any) -> Any:
    if not isinstance(value, str) or not is_condition(value):
        hint = "" if isinstance(value, str) else "labels are text: put it in quotes"
        raise fields.refusal(CONDITION_SHAPE, shown_value(value), hint=hint)
    return value


LabelKey: TypeAlias = Annotated[str, pydantic.AfterValidator(_key)]
ClassCondition: TypeAlias = Annotated[str, pydantic.BeforeValidator(_condition)]


def _is_misspelt_device(selector: str) -> bool:
    """Return whether `cpu` or `gpu` was meant: no hardware has such a short name."""
    word = selector.lower()
    is_word = word.isalpha() and len(word) <= len("cpus")
    return is_word and word not in ("cpu", "gpu") and bool(nearest(word, ("cpu", "gpu")))


class HardwareEntry(fields.Strict):
    """A hardware class, the nodes to use, and how a trial uses them.

    Without `class`, the `labels` choose the nodes: a node's GPUs are used, or its CPU if it has
    none. `cpus`, `threads`, `settings` and `measure` make another arm: `AMD EPYC [4 threads]`.
    """

    model_config = pydantic.ConfigDict(populate_by_name=True, serialize_by_alias=True)

    selector: fields.Text | None = pydantic.Field(
        None,
        alias="class",
        description=("cpu, gpu, a hardware class, a GPU's name, or a pattern such as *H200*."),
    )
    labels: Mapping[LabelKey, ClassCondition] = pydantic.Field(
        default_factory=dict, description='Labels of Ray nodes, such as {market-type: "!spot"}.'
    )
    cpus: fields.PositiveInt | None = pydantic.Field(
        None, description="CPUs of a trial on a GPU. The default is the GPU's share of the node."
    )
    threads: fields.PositiveInt | None = pydantic.Field(
        None, description="CPUs that the trainer uses, of the CPUs that it reserves."
    )
    settings: Mapping[fields.ParameterName, fields.IntOrFloat] = pydantic.Field(
        default_factory=dict,
        description=(
            "Amounts of work on this hardware, such as {epochs: 1}, instead of the sweep's."
        ),
    )
    measure: MeasureMode | None = pydantic.Field(
        None, description="full or timing on this hardware, instead of the sweep's measure."
    )
    wait_s: fields.PositiveFloat | None = pydantic.Field(
        None,
        description=("Seconds to wait for an autoscaler to start a first node of this kind."),
    )

    @classmethod
    def short_form(cls) -> fields.Json:
        """A class alone."""
        return {"type": "string", "pattern": r"\S"}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"class": data}
        if not isinstance(data, dict | HardwareEntry):
            raise fields.refusal("text (cpu, gpu, a class or pattern), or {class: …, threads: …}")
        return data

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.selector is None and not self.labels:
            raise fields.missing("class, labels or both")
        if self.selector is not None and _is_misspelt_device(self.selector):
            raise fields.refusal(
                "cpu, gpu, or the name of a hardware class or of a GPU",
                shown_value(self.selector),
                hint=nearest(self.selector.lower(), ("cpu", "gpu")),
            )
        if self.threads is not None and self.cpus is not None and self.threads > self.cpus:
            text = f"threads ({self.threads}) must not exceed cpus ({self.cpus})"
            raise fields.statement(text, key="threads")
        if self.cpus is not None and (self.selector or "").lower() == "cpu":
            hint = "a CPU arm takes its whole node: set threads to limit what the trainer uses"
            raise fields.statement("class: cpu takes no cpus", key="cpus", hint=hint)
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
DEFAULT_HARDWARE = (HardwareEntry(selector="cpu"), HardwareEntry(selector="gpu"))
"""The hardware of a spec that names none."""


_VARIANT = re.compile(r"(?!(cpu|gpu|mean|min|max)$)(?!.* on )[^\s/:*]([^/:*\n]{0,78}[^\s/:*])?")


class VariantEntry(fields.Strict):
    """A variant of the workload: its own settings, which replace the sweep's settings.

    The short form has the settings alone: `{cell: lstm}`. The variant is then named after them:
    `lstm` for a single text, otherwise names and values (`cell gru, layers 2`).
    """

    name: str = pydantic.Field(description="The name of the variant in reports.")
    settings: Mapping[fields.ParameterName, fields.ScalarValue] = pydantic.Field(
        default_factory=dict, description="The settings that the variant replaces."
    )

    @classmethod
    def short_form(cls) -> fields.Json:
        """Settings alone."""
        settings = {"type": "object", "description": "The settings that the variant replaces."}
        return {
            "type": "object",
            "minProperties": 1,
            "properties": {"name": False, "settings": settings},
            "additionalProperties": {"type": ["boolean", "integer", "number", "string"]},
        }

    @pydantic.model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, VariantEntry) or (isinstance(data, dict) and "name" in data):
            return data
        if not isinstance(data, dict) or not data:
            raise fields.refusal("settings, such as {cell: gru}, or {name: …, settings: {…}}")
        inner = data.get("settings")
        settings = inner if len(data) == 1 and isinstance(inner, dict) and inner else data
        texts = {key: v if isinstance(v, str) else json.dumps(v) for key, v in settings.items()}
        parts = (
            texts.values()
            if len(settings) == 1 and settings == texts
            else map(" ".join, texts.items())
        )
        return {"name": ", ".join(sorted(parts)), "settings": settings}

    @pydantic.field_validator("name")
    @classmethod
    def _readable(cls, name: str) -> str:
        if not _VARIANT.fullmatch(name):
            expected = "a name without / : * and ' on ', other than cpu, gpu, mean, min and max"
            hint = "give the variant a name: {name: …, settings: {…}}"
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
    ] = pydantic.Field(
        description=(
            "Backend, kernel and options, such as tensorflow/portable+xla. Each runs on all"
            " hardware."
        )
    )
    hardware: HardwareEntries = pydantic.Field(
        DEFAULT_HARDWARE,
        description=(
            "cpu, gpu, a hardware class or a pattern (rnnsweep hardware lists the classes); or a"
            " mapping with options."
        ),
    )
    variants: Annotated[tuple[VariantEntry, ...], pydantic.BeforeValidator(fields.as_tuple)] = (
        pydantic.Field(
            (), description="Settings of the model to compare, such as [{cell: lstm}, {cell: gru}]."
        )
    )

    @property
    def per_hardware(self) -> tuple[tuple[str, Variant | None], ...]:
        """Each implementation with each variant; with None if there are no variants."""
        variants = tuple(entry.variant for entry in self.variants) or (None,)
        return tuple((name, variant) for name in self.implementations for variant in variants)


class Limits(fields.Strict):
    """Limits of trials, of failures, and of waiting for hardware."""

    trial_s: fields.PositiveFloat = pydantic.Field(
        86_400.0, description="Seconds that a trial may take."
    )
    idle_s: fields.PositiveFloat = pydantic.Field(
        300.0, description="Seconds that a trial may go without progress."
    )
    memory_mib: fields.PositiveInt | None = pydantic.Field(
        None, description="Memory that a trainer process may use, in MiB."
    )
    attempts: fields.PositiveInt = pydantic.Field(
        3, description="How often a trial is started, in all, if its process dies."
    )
    failures: fields.PositiveInt | None = pydantic.Field(
        3, description="Stop an arm after this many identical failures in a row; null for never."
    )
    preemptions: Annotated[int, pydantic.Field(ge=0)] = pydantic.Field(
        10, description="How often a trial is started again because its node was lost."
    )
    node_wait_s: Annotated[float, pydantic.Field(ge=0)] = pydantic.Field(
        600.0,
        description=("Seconds to wait for a lost node to come back when nothing else can run."),
    )


_TIMING, _BLOCKS, _DISTURBED, _MARGINS = Timing(), AutoBlocks(), DisturbanceLimits(), Margins()

FEWEST_BLOCKS = 6
"""The smallest number of blocks for a verdict (see the report's statistics)."""

Share: TypeAlias = Annotated[float, pydantic.Field(gt=0, lt=1)]
Percent: TypeAlias = Annotated[float, pydantic.Field(ge=0, le=100)]
Words: TypeAlias = Mapping[str, Mapping[str, Any]]
Blocks: TypeAlias = Annotated[int, pydantic.Field(ge=FEWEST_BLOCKS)]


class WordedSection(fields.Strict):
    """A section for which one of some `words` may stand."""

    words: ClassVar[Words]

    @classmethod
    def short_form(cls) -> fields.Json:
        """One of the words."""
        return {"enum": list(cls.words)}

    @pydantic.model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, dict | fields.Strict):
            return data
        if isinstance(data, str) and data in cls.words:
            return cls.words[data]
        expected = f"{' or '.join(cls.words)}, or a mapping"
        raise fields.refusal(expected, shown_value(data), hint=nearest(data, cls.words))


class MeasureSpec(WordedSection):
    """The `measure` section: when the training of an arm ends, and how long its slices are."""

    words: ClassVar[Words] = {"full": {"mode": "full"}, "timing": {"mode": "timing"}}

    mode: MeasureMode = pydantic.Field(
        "full",
        description="full: train to the end. timing: train until the speed-ups are precise.",
    )
    of: TimedWork = pydantic.Field(
        _TIMING.timed_work,
        description=(
            "What is timed. train: training steps. predict: predictions of batches of"
            " settings.batch_size samples, without an optimizer."
        ),
    )
    interval: Share = pydantic.Field(
        _TIMING.interval,
        description="timing: stop when each speed-up is known to within this share: 0.01 is 1 %.",
    )
    slices: Annotated[tuple[Blocks, Blocks], pydantic.BeforeValidator(fields.as_tuple)] = (
        pydantic.Field(
            (
                _TIMING.least,
                _TIMING.most,
            ),
            description="timing: the fewest and the most slices of each arm in a round.",
        )
    )
    slice_s: Annotated[float, pydantic.Field(gt=0, le=60)] = pydantic.Field(
        _TIMING.slice_s,
        description="About how many seconds each arm trains before the next takes its turn.",
    )

    @pydantic.model_validator(mode="after")
    def _rising(self) -> Self:
        if self.slices[0] > self.slices[1]:
            least, most = self.slices
            text = f"the fewest slices ({least}) must not exceed the most ({most})"
            raise fields.statement(text, key="slices")
        return self


class AutoConfigs(WordedSection):
    """`search.configs: auto`: add configs until each speed-up is precise."""

    words: ClassVar[Words] = {"auto": {}}

    interval: Share = pydantic.Field(
        _BLOCKS.interval,
        description="Stop when each speed-up is known to within this share: 0.01 is 1 %.",
    )
    at_least: Blocks = pydantic.Field(_BLOCKS.least, description="The smallest number of configs.")
    at_most: Blocks = pydantic.Field(_BLOCKS.most, description="The largest number of configs.")

    @pydantic.model_validator(mode="after")
    def _rising(self) -> Self:
        if self.at_least > self.at_most:
            text = f"at_most ({self.at_most}) must not be below at_least ({self.at_least})"
            raise fields.statement(text, key="at_most")
        return self


class DisturbedSpec(fields.Strict):
    """The `disturbed` section: the limits beyond which a trial is marked as disturbed."""

    others_cpu_pct: Percent = pydantic.Field(
        _DISTURBED.others_cpu_pct,
        description="The most CPU time of other processes, in percent of the trainer's CPUs.",
    )
    steal_pct: Percent = pydantic.Field(
        _DISTURBED.steal_pct,
        description="The most CPU time that the host of a virtual machine takes, in percent.",
    )


_PERCENT = re.compile(r"(\d+(?:\.\d+)?) ?%")


def result_margin(margin: float | str) -> ResultMargin:
    """Return the margin that a number (absolute) or a text such as `5 %` means."""
    percent = _PERCENT.fullmatch(margin) if isinstance(margin, str) else None
    if percent:
        return ResultMargin(float(percent[1]) / 100, is_share=True)
    return ResultMargin(float(margin))


def _metric_margin(margin: Any) -> Any:
    is_text = isinstance(margin, str) and _PERCENT.fullmatch(margin)
    if not (is_text or is_number(margin)) or result_margin(margin).value <= 0:
        raise fields.refusal("a number above 0, or a share such as 5 %", shown_value(margin))
    return margin


MetricMargin: TypeAlias = Annotated[
    float | str,
    pydantic.BeforeValidator(_metric_margin),
    pydantic.WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": f"^{_PERCENT.pattern}$"},
            ],
            "description": "The difference of this metric that does not matter: 0.01, or 5 %.",
        }
    ),
]


class MarginsSpec(fields.Strict):
    """The `margins` section: differences that do not matter; any result may have its own."""

    speed: Share = pydantic.Field(
        _MARGINS.speed,
        description="Times per step that differ by less than this share are the same.",
    )
    accuracy: Share | None = pydantic.Field(
        _MARGINS.accuracy,
        description=(
            "Accuracies that differ by less than this are the same. The default is 0.005, or the"
            " standard error of an accuracy on the validation data if that is larger."
        ),
    )

    model_config = pydantic.ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, MetricMargin]

    @property
    def results(self) -> Mapping[str, MetricMargin]:
        """The margins of single metrics, by their names."""
        return self.__pydantic_extra__ or {}

    def values(self) -> Margins:
        """Return the margins as a report takes them."""
        results = {name: result_margin(margin) for name, margin in self.results.items()}
        return Margins(self.speed, self.accuracy, results)


class Published(fields.Strict):
    """One row of `published`: a result to show next to yours, in rnnsweep's names and units."""

    source: fields.Text = pydantic.Field(description="Who published the result, and where.")
    implementation: fields.Text = pydantic.Field(
        description=("The implementation, as in this sweep or in the words of the source.")
    )
    hardware: fields.Text = pydantic.Field(description="The hardware of the result.")
    config: Mapping[fields.ParameterName, fields.ScalarValue] = pydantic.Field(
        default_factory=dict, description="The sizes of the measured model."
    )
    metrics: Annotated[Mapping[fields.MetricName, float], pydantic.Field(min_length=1)] = (
        pydantic.Field(description="The results, with rnnsweep's names and units of metrics.")
    )
    note: str = pydantic.Field("", description="The conditions of the measurement, if known.")


PublishedRows: TypeAlias = Annotated[
    tuple[Published, ...], pydantic.BeforeValidator(fields.as_tuple)
]


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise fields.refusal(
            "the day of the price, such as 2026-11-21", shown_value(text)
        ) from error


class Price(fields.Strict):
    """The price of one kind of hardware, with its source and date.

    If both prices are given, they add up.
    """

    hardware: fields.Text = pydantic.Field(
        description=(
            "cpu, gpu, a hardware class, a GPU's name or a pattern. The first match counts."
        )
    )
    usd_per_hour: fields.PositiveFloat | None = pydantic.Field(
        None, description="The price of the whole machine; a CPU arm pays all of it."
    )
    gpus: fields.PositiveInt = pydantic.Field(
        1, description="The GPUs of that machine; a GPU arm pays for one of them."
    )
    usd_per_kwh: fields.PositiveFloat | None = pydantic.Field(
        None, description="The price of measured energy."
    )
    source: fields.Text = pydantic.Field(description="Where the price comes from.")
    date: Annotated[str, pydantic.AfterValidator(_date)] = pydantic.Field(
        description="The day of the price, such as 2026-11-21."
    )

    @pydantic.model_validator(mode="after")
    def _expect_price(self) -> Self:
        if self.usd_per_hour is None and self.usd_per_kwh is None:
            raise fields.missing("usd_per_hour, usd_per_kwh, or both")
        return self


Prices: TypeAlias = Annotated[tuple[Price, ...], pydantic.BeforeValidator(fields.as_tuple)]

SHORT_FORMS: Mapping[str, Words] = {
    "measure": MeasureSpec.words,
    "search.configs": AutoConfigs.words,
}
"""Short forms: for each key, as `--set` has it, the words for its section, and their meanings."""
