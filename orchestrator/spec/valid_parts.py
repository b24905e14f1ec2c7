"""The parts of a spec's plain data that are valid by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.trial import Config
from orchestrator.spec.dimensions import Choices, Dimension, Range
from orchestrator.spec.fields import ImplementationText
from orchestrator.spec.hardware import USUAL, HardwareEntry
from orchestrator.spec.precision import BlocksSpec, MeasureSpec
from orchestrator.spec.space import ListedConfig, Objective

Key = TypeVar("Key")
Value = TypeVar("Value")

_DIMENSION: TypeAdapter[Choices | Range] = TypeAdapter(Dimension)
_CONFIG: TypeAdapter[Config] = TypeAdapter(ListedConfig)
_OBJECTIVE: TypeAdapter[Objective] = TypeAdapter(Objective)
_HARDWARE: TypeAdapter[HardwareEntry] = TypeAdapter(HardwareEntry)
_IMPLEMENTATION: TypeAdapter[str] = TypeAdapter(ImplementationText)
_MEASURE: TypeAdapter[MeasureSpec] = TypeAdapter(MeasureSpec)
_BLOCKS: TypeAdapter[BlocksSpec] = TypeAdapter(BlocksSpec)


@dataclass(frozen=True, slots=True)
class ValidParts:
    """The parts of a spec that are valid by themselves.

    `names` are all parameters of the space, in order. `listed` are configs by their place in
    `search.configs`, None if that is not a list. `has_blocks` is True if `blocks` is written,
    valid or not. `published` are the metrics of each row, as they were written.
    """

    workload: str | None
    settings: Mapping[str, Any]
    search: Mapping[str, Any] | None
    names: Sequence[str]
    space: Mapping[str, Choices | Range]
    listed: Mapping[int, Config] | None
    objectives: Mapping[str, Objective]
    written: Sequence[Any]
    implementations: Mapping[int, str]
    hardware: Mapping[int, HardwareEntry]
    baseline: Any
    trainer: Any
    has_prices: bool = False
    measure: MeasureSpec | None = None
    blocks: BlocksSpec | None = None
    has_blocks: bool = False
    published: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def entries(self) -> Mapping[int, HardwareEntry]:
        """The hardware by its place in the list, with its measure."""
        usual = self.measure.mode if self.measure else "full"
        entries = self.hardware or dict(enumerate(USUAL))
        return {index: entry.measured(usual) for index, entry in entries.items()}

    @property
    def is_builtin(self) -> bool:
        """True if the workload is a built-in one, or wrong: then names are checked."""
        return self.workload is None or ":" not in self.workload


def find_valid_parts(data: Mapping[str, Any]) -> ValidParts:
    """Return the parts of a spec's plain data that are valid by themselves."""
    search, arms = _mapping(data, "search"), _mapping(data, "arms")
    space, configs = _mapping(search, "space"), search.get("configs")
    written = _list(arms, "implementations")
    workload = data.get("workload")
    return ValidParts(
        workload=workload if isinstance(workload, str) else None,
        settings=_mapping(data, "settings"),
        search=search if isinstance(data.get("search"), dict) else None,
        names=list(space),
        space=_valid(_DIMENSION, space),
        listed=_valid(_CONFIG, dict(enumerate(configs))) if isinstance(configs, list) else None,
        objectives=_valid(_OBJECTIVE, _mapping(search, "objectives")),
        written=written,
        implementations=_valid(_IMPLEMENTATION, dict(enumerate(written))),
        hardware=_valid(_HARDWARE, dict(enumerate(_list(arms, "hardware")))),
        baseline=data.get("baseline"),
        trainer=data.get("trainer"),
        has_prices=bool(data.get("prices")),
        measure=_valid(_MEASURE, {"": data.get("measure", {})}).get(""),
        blocks=_valid(_BLOCKS, {"": data.get("blocks")}).get(""),
        has_blocks=data.get("blocks") is not None,
        published={
            index: row["metrics"]
            for index, row in enumerate(_list(data, "published"))
            if isinstance(row, dict) and isinstance(row.get("metrics"), dict)
        },
    )


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _valid(adapter: TypeAdapter[Value], parts: Mapping[Key, Any]) -> dict[Key, Value]:
    valid = {}
    for key, part in parts.items():
        try:
            valid[key] = adapter.validate_python(part)
        except ValidationError:
            continue  # reported where the whole spec is validated
    return valid
