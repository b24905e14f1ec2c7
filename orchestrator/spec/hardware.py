"""One entry of `arms.hardware`: the nodes or devices of an arm, and how it uses them.

A text is short for `{class: text}`. As a mapping:

    hardware:
      - {class: cpu, threads: 4}                  # the whole node is reserved, four CPUs are used
      - {class: "*H200*", cpus: 8}                # eight CPUs with each GPU, not its share
      - {class: cpu, settings: {epochs: 1}}       # less work on slow hardware, and recorded as such
      - {class: cpu, measure: timing}             # timed in slices only, while others train
      - labels: {ray.io/accelerator-type: T4, market-type: "in(spot, on-demand)"}
        wait_s: 900                               # for nodes that an autoscaler may still start

Another number of threads or CPUs, or another amount of work, is another arm: its hardware is named
`AMD EPYC, 16 CPUs [4 threads]`; so is what is timed in slices (`[timing]`). Labels and waiting only
choose the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from orchestrator.core import labels
from orchestrator.core.arms import Usage
from orchestrator.core.criteria import MeasureMode
from orchestrator.spec.errors import shown
from orchestrator.spec.fields import (
    Count,
    Number,
    ParameterName,
    Positive,
    Strict,
    Text,
    as_tuple,
    refusal,
)


def _key(text: str) -> str:
    if not labels.is_key(text):
        raise refusal(labels.KEY_SHAPE)
    return text


def _condition(value: Any) -> Any:
    if not isinstance(value, str) or not labels.is_condition(value):
        hint = "" if isinstance(value, str) else "labels are text: put it in quotes"
        raise refusal(labels.CONDITION_SHAPE, shown(value), hint=hint)
    return value


LabelKey: TypeAlias = Annotated[str, AfterValidator(_key)]
Condition: TypeAlias = Annotated[str, BeforeValidator(_condition)]


class HardwareEntry(Strict):
    """Hardware classes, the nodes of them to use, and how a trial uses these.

    `class` is `cpu`, `gpu`, a class's or a GPU's name, or a pattern; without it, it is the GPUs of
    the nodes with these `labels`, and the CPU of those that have none. `cpus` go with a GPU;
    `threads` are CPUs that the trainer may use of those reserved. `settings` replace the sweep's
    own if they are an amount of work; `measure` replaces the sweep's. `wait_s` is how long a start
    of the sweep waits for a first node of this kind.
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    selector: Text | None = Field(None, alias="class")
    labels: Mapping[LabelKey, Condition] = Field(default_factory=dict)
    cpus: Count | None = None
    threads: Count | None = None
    settings: Mapping[ParameterName, Number] = Field(default_factory=dict)
    measure: MeasureMode | None = None
    wait_s: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"class": data}
        if not isinstance(data, dict | HardwareEntry):
            raise refusal("text (cpu, gpu, a class or pattern), or {class: …, threads: …}")
        return data

    @model_validator(mode="after")
    def _consistent(self) -> HardwareEntry:
        if self.selector is None and not self.labels:
            raise refusal("class, labels or both", "neither")
        if self.threads is not None and self.cpus is not None and self.threads > self.cpus:
            raise refusal(f"at most cpus ({self.cpus})", str(self.threads), key="threads")
        if self.cpus is not None and (self.selector or "").lower() == "cpu":
            hint = "a CPU arm takes its whole node: set threads to limit what the trainer uses"
            raise refusal("no cpus with class: cpu", str(self.cpus), key="cpus", hint=hint)
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Dump a class without options as its text, the short form."""
        short = self.selector is not None and self == HardwareEntry(selector=self.selector)
        return self.selector if short else handler(self)

    @property
    def usage(self) -> Usage:
        """How a trial uses the hardware, where not in the usual way."""
        work = dict(sorted(self.settings.items()))
        return Usage(self.cpus, self.threads, work, self.measure or "full")

    def measured(self, usual: MeasureMode) -> HardwareEntry:
        """Return the entry with the sweep's measure, unless it has its own."""
        return self if self.measure else self.model_copy(update={"measure": usual})

    def __str__(self) -> str:
        """Return the entry for a message, before its class is known."""
        chosen = [self.selector] if self.selector is not None else []
        chosen += [f"nodes with {labels.shown(self.labels)}"] if self.labels else []
        usage = f" [{self.usage}]" if str(self.usage) else ""
        return f"{' on '.join(chosen)}{usage}"


HardwareEntries: TypeAlias = Annotated[
    tuple[HardwareEntry, ...], BeforeValidator(as_tuple), Field(min_length=1)
]
USUAL = (HardwareEntry(selector="cpu"), HardwareEntry(selector="gpu"))
"""The hardware of a spec that names none."""
