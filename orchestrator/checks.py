"""What must fit together across a spec's keys: space, workload, sampler, arms.

Every check reads what is valid by itself, so that one wrong key never hides another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from orchestrator import refusals
from orchestrator.places import Finding, Path, nearest, shown
from orchestrator.space import (
    WITHOUT_OBJECTIVE,
    ArmText,
    Choices,
    Dimension,
    ImplementationText,
    Objective,
    Range,
    Search,
    is_met,
)
from orchestrator.trial import ConfigValue
from workloads import implementations, registry

MAX_GRID = 100_000
"""Configs of a grid: more than any sweep ends, fewer than fill the memory."""

Key = TypeVar("Key")
Value = TypeVar("Value")

_DIMENSION: TypeAdapter[Choices | Range] = TypeAdapter(Dimension)
_OBJECTIVE: TypeAdapter[Objective] = TypeAdapter(Objective)
_IMPLEMENTATION: TypeAdapter[str] = TypeAdapter(ImplementationText)
_ARM: TypeAdapter[str] = TypeAdapter(ArmText)
_SPACE: Path = ("search", "space")


@dataclass(frozen=True, slots=True)
class _Draft:
    """The parts of a spec that are valid by themselves; `names` are all parameters, in order."""

    workload: str | None
    settings: Mapping[str, Any]
    search: Mapping[str, Any]
    names: Sequence[str]
    space: Mapping[str, Choices | Range]
    objectives: Mapping[str, Objective]
    written: Sequence[Any]
    implementations: Mapping[int, str]
    hardware: Sequence[Any]
    baseline: Any

    @property
    def is_builtin(self) -> bool:
        return self.workload is None or ":" not in self.workload


def inconsistencies(data: Mapping[str, Any]) -> list[Finding]:
    """Everything in a spec's plain data that is wrong between its keys."""
    draft = _draft(data)
    conditions = list(_conditions(draft))
    findings = [*conditions, *_arms(draft), *_references(draft)]
    sound = not conditions and len(draft.space) == len(draft.names)
    findings += _search(draft, sound=sound)
    findings += _workload(draft, sound=sound)
    return findings


def _draft(data: Mapping[str, Any]) -> _Draft:
    search, arms = _mapping(data, "search"), _mapping(data, "arms")
    space = _mapping(search, "space")
    written = _list(arms, "implementations")
    workload = data.get("workload")
    return _Draft(
        workload=workload if isinstance(workload, str) else None,
        settings=_mapping(data, "settings"),
        search=search,
        names=list(space),
        space=_valid(_DIMENSION, space),
        objectives=_valid(_OBJECTIVE, _mapping(search, "objectives")),
        written=written,
        implementations=_valid(_IMPLEMENTATION, dict(enumerate(written))),
        hardware=_list(arms, "hardware"),
        baseline=data.get("baseline"),
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
            continue  # told where the whole spec is validated
    return valid


def _is_absent(data: Mapping[str, Any], key: str) -> bool:
    """Whether `key` is missing, rather than misspelt (which is told as an unknown key)."""
    return key not in data and not difflib.get_close_matches(key, data)


def _conditions(draft: _Draft) -> Iterator[Finding]:
    """Conditions on parameters that are unknown or later, or on values that these never take."""
    for name, dimension in draft.space.items():
        sound = True
        for other, values in dimension.when.items():
            for finding in _condition(draft, name, other, values):
                sound = False
                yield finding
        if sound and dimension.when and _activation(draft.space, name) is None:
            expected = "conditions that can be met together"
            received = " and ".join(dimension.when)
            hint = f"{name} would never take part: see what {received} depend on"
            yield Finding((*_SPACE, name, "when"), expected, received, hint)


def _condition(
    draft: _Draft, name: str, other: str, values: Sequence[ConfigValue]
) -> Iterator[Finding]:
    path = (*_SPACE, name, "when", other)
    earlier = draft.names[: draft.names.index(name)]
    if other not in earlier:
        expected = f"a parameter defined before {name}"
        if other == name:
            yield Finding(path, expected, f"{name} itself")
        elif other in draft.names:
            yield Finding(path, expected, f"the later {other!r}", f"move {other} above {name}")
        elif other in draft.settings:
            yield Finding(path, expected, f"the fixed setting {other!r}")
        else:
            hint = nearest(other, earlier)
            yield Finding(path, expected, f"the unknown parameter {other!r}", hint)
        return
    switch = draft.space.get(other)
    if switch is None:
        return  # wrong by itself, and told there
    if switch.count is None:
        hint = f"give {other} choices or a step"
        yield Finding(path, "a parameter with a finite number of values", f"{other}: a range", hint)
        return
    for value in values:
        if not switch.contains(value):
            yield Finding(
                path, f"values that {other} can take ({_described(switch)})", shown(value)
            )


def _described(dimension: Choices | Range) -> str:
    if isinstance(dimension, Choices):
        return ", ".join(shown(choice).removesuffix(" (text)") for choice in dimension.choices[:8])
    step = f" in steps of {dimension.step}" if dimension.step else ""
    return f"{dimension.low} to {dimension.high}{step}"


def _activation(
    space: Mapping[str, Choices | Range], name: str
) -> Mapping[str, ConfigValue] | None:
    """Values of the parameters that `name` depends on which switch it on; None if there are none.

    Only values that some condition asks for can matter; any other one stands for the rest.
    """
    needed, pending = set[str](), list(space[name].when)
    while pending:
        other = pending.pop()
        if other in space and other not in needed:
            needed.add(other)
            pending.extend(space[other].when)
    order = [other for other in space if other in needed]
    asked = {
        other: [value for one in space.values() for value in one.when.get(other, ())]
        for other in order
    }

    def extend(
        config: dict[str, ConfigValue], names: list[str]
    ) -> Iterator[dict[str, ConfigValue]]:
        if not names:
            yield config
        elif not is_met(space[names[0]].when, config):
            yield from extend(config, names[1:])
        else:
            for value in (*asked[names[0]], *space[names[0]].probes):
                yield from extend({**config, names[0]: value}, names[1:])

    tries = itertools.islice(extend({}, order), 100_000)
    return next((config for config in tries if is_met(space[name].when, config)), None)


def _search(draft: _Draft, *, sound: bool) -> Iterator[Finding]:
    """What the sampler needs, and whether the space has as many configs as are asked for."""
    if not draft.search:
        return
    sampler, configs = draft.search.get("sampler", "tpe"), draft.search.get("configs")
    if sampler not in WITHOUT_OBJECTIVE and (
        _is_absent(draft.search, "objectives") or draft.search.get("objectives") == {}
    ):
        expected = "at least one objective, such as {val_accuracy: maximize}"
        hint = f"only {', '.join(WITHOUT_OBJECTIVE)} do without"
        yield Finding(("search", "objectives"), expected, "nothing", hint)
    if sampler != "grid" and (
        _is_absent(draft.search, "configs") or draft.search.get("configs", 1) is None
    ):
        yield Finding(("search", "configs"), "how many configs to try", "nothing")
    if not sound:
        return
    size = Search.model_construct(space=draft.space).size()
    if size is None:
        if sampler == "grid":
            for name, dimension in draft.space.items():
                if dimension.count is None:
                    hint = "give choices or a step"
                    yield Finding(
                        (*_SPACE, name), "finitely many values, for a grid", "a range", hint
                    )
        return
    if sampler == "grid" and size > MAX_GRID:
        yield Finding(_SPACE, f"a grid of at most {MAX_GRID:,} configs", f"{size:,} configs")
    if not isinstance(configs, int) or isinstance(configs, bool) or configs < 1:
        return
    if sampler == "grid" and configs != size:
        expected = f"{size}, the size of the grid, or no configs at all"
        yield Finding(("search", "configs"), expected, str(configs))
    elif configs > size:
        expected = f"at most {size}, the number of different configs in the space"
        yield Finding(("search", "configs"), expected, str(configs))


def _arms(draft: _Draft) -> Iterator[Finding]:
    """Unknown implementations of built-in workloads, and what is listed twice."""
    path: Path = ("arms", "implementations")
    seen = dict[str, int]()
    for index, text in draft.implementations.items():
        if draft.is_builtin:
            yield from _unknown_names(text, (*path, index))
        if text in seen:
            yield Finding((*path, index), "each implementation once", f"{text!r} again")
        seen.setdefault(text, index)
    for index, name in enumerate(draft.hardware):
        if isinstance(name, str) and name in draft.hardware[:index]:
            at = ("arms", "hardware", index)
            yield Finding(at, "each hardware class once", f"{name!r} again")


def _unknown_names(text: str, path: Path) -> Iterator[Finding]:
    implementation = implementations.parse(text, known_only=False)
    parts = [
        ("a backend", implementation.backend, implementations.BACKENDS),
        ("a kernel", implementation.kernel, implementations.KERNELS),
        *(("an option", option, implementations.OPTIONS) for option in implementation.options),
    ]
    for what, name, known in parts:
        if name not in known:
            expected, received = f"{what} among {', '.join(known)}", f"{name!r} in {text!r}"
            yield Finding(path, expected, received, nearest(name, known))


def _references(draft: _Draft) -> Iterator[Finding]:
    """Arms that a baseline or an objective names, and that the sweep does not have."""
    if len(draft.implementations) < len(draft.written) or not draft.written:
        return  # which arms there are is not clear yet
    named: list[tuple[Path, str]] = [
        (("search", "objectives", name, "over"), objective.over)
        for name, objective in draft.objectives.items()
        if objective.over not in ("mean", "min", "max")
    ]
    with contextlib.suppress(ValidationError):  # absent, or told where the spec is validated
        named.append((("baseline",), _ARM.validate_python(draft.baseline)))
    known = list(draft.implementations.values())
    classes = draft.hardware or ["cpu", "gpu"]
    for path, text in named:
        implementation, _, hardware = text.partition(" on ")
        if implementation not in known:
            expected = f"an implementation of this sweep ({', '.join(known)})"
            yield Finding(path, expected, repr(implementation), nearest(implementation, known))
        elif hardware in ("cpu", "gpu") and set(classes) <= {"cpu", "gpu"} - {hardware}:
            expected = f"hardware of this sweep ({', '.join(classes)})"
            yield Finding(path, expected, repr(hardware))


def _workload(draft: _Draft, *, sound: bool) -> Iterator[Finding]:
    """Names and values that the workload does not take."""
    for name in draft.names:
        if name in draft.settings:
            received = f"both, here and as search.space.{name}"
            yield Finding(("settings", name), "a fixed setting or a searched parameter", received)
    if draft.workload is None:
        return
    try:
        workload = registry.find(draft.workload)
    except registry.UnknownWorkload:
        names = [workload.name for workload in registry.workloads()]
        expected = f"{', '.join(names)}, or package.module:function"
        hint = nearest(draft.workload, names)
        yield Finding(("workload",), expected, shown(draft.workload), hint)
        return
    if workload.settings_model is None:
        return
    known = list(workload.settings_model.model_fields)
    for path in (
        *(("settings", name) for name in draft.settings),
        *((*_SPACE, name) for name in draft.names),
    ):
        if path[-1] not in known:
            expected = f"a setting of {workload.name} ({', '.join(known)})"
            yield Finding(path, expected, repr(path[-1]), nearest(path[-1], known))
    yield from _values(draft, workload, known, sound=sound)


def _values(
    draft: _Draft, workload: registry.Workload, known: Sequence[str], *, sound: bool
) -> Iterator[Finding]:
    """Settings and values of the space that the workload's model refuses."""
    fixed = {name: value for name, value in draft.settings.items() if name in known}
    space = {name: one for name, one in draft.space.items() if name in known and name not in fixed}
    example = _example(space, {}) if sound else {}
    general = set[str]()
    for finding in _refused(workload, {**fixed, **example}):
        if not finding.path:
            general.add(finding.received)
            yield Finding(("settings",), finding.expected, finding.received, finding.hint)
        elif finding.path[0] in fixed or finding.path[0] not in draft.names:
            yield dataclasses.replace(finding, path=("settings", *finding.path))
    for name, dimension in space.items():
        switched_on = (_activation(space, name) or {}) if sound else {}
        for value in dimension.probes:
            chosen = {**switched_on, name: value}
            config = _example(space, chosen) if sound else chosen
            about = [
                finding
                for finding in _refused(workload, {**fixed, **config})
                if finding.path[:1] == (name,)
                or (not finding.path and finding.received not in general)
            ]
            if about:
                yield dataclasses.replace(about[0], path=(*_SPACE, name))
                break


def _example(
    space: Mapping[str, Choices | Range], chosen: Mapping[str, ConfigValue]
) -> dict[str, ConfigValue]:
    """A config of the space that holds `chosen`."""
    config = dict[str, ConfigValue]()
    for name, dimension in space.items():
        if name in chosen:
            config[name] = chosen[name]
        elif is_met(dimension.when, config):
            config[name] = dimension.probes[0]
    return config


def _refused(workload: registry.Workload, settings: Mapping[str, Any]) -> list[Finding]:
    """What the workload's model says against `settings`, by paths inside of them."""
    try:
        workload.resolve(settings)
    except ValidationError as error:
        return [
            finding if finding.path else Finding((), "settings that fit together", finding.expected)
            for finding in refusals.from_pydantic(error, {})
        ]
    return []
