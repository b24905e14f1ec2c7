"""Checks across the keys of a spec: conditions, sampler, space, list, arms.

Every check reads the parts that are valid by themselves, so that no error hides another.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.names import ANY_IMPLEMENTATION, split_arm_text
from orchestrator.core.trial import Config, ConfigValue
from orchestrator.spec import precision_checks, workload_checks
from orchestrator.spec.dimensions import Choices, Range
from orchestrator.spec.errors import Finding, Path, nearest, shown
from orchestrator.spec.fields import ArmText
from orchestrator.spec.space import (
    AGGREGATES,
    MEMORY_METRICS,
    WITHOUT_OBJECTIVE,
    Search,
    activation,
    usual_sampler,
)
from orchestrator.spec.valid_parts import ValidParts, find_valid_parts
from workloads import implementations

MAX_GRID = 100_000
"""The largest grid: more configs than any sweep finishes, fewer than fill the memory."""

_ARM: TypeAdapter[str] = TypeAdapter(ArmText)
_SPACE: Path = ("search", "space")
_CONFIGS: Path = ("search", "configs")


def inconsistencies(data: Mapping[str, Any]) -> list[Finding]:
    """Return all findings about keys of a spec's plain data that do not fit together."""
    parts = find_valid_parts(data)
    conditions = list(_conditions(parts))
    findings = [*conditions, *_arms(parts), *_references(parts), *_trainer(parts)]
    sound = not conditions and len(parts.space) == len(parts.names)
    if parts.search is not None:
        findings += _search(parts.search, has_blocks=parts.has_blocks)
        findings += _size(parts.search, parts.space) if sound else ()
    findings += _listed_configs(parts.listed or {})
    findings += workload_checks.check_workload(parts, sound=sound)
    findings += precision_checks.check_precision(parts, sound=sound)
    return findings


def _is_absent(data: Mapping[str, Any], key: str) -> bool:
    """Return whether `key` is missing; a misspelt key is reported as unknown instead."""
    return key not in data and not difflib.get_close_matches(key, data)


def _conditions(parts: ValidParts) -> Iterator[Finding]:
    """Report conditions on unknown or later parameters, or on values that these never take."""
    sound = set[str]()
    for name, dimension in parts.space.items():
        findings = [
            finding
            for other, values in dimension.when.items()
            for finding in _condition(parts, name, other, values)
        ]
        yield from findings
        if findings or not sound.issuperset(dimension.when):
            continue  # conditions on a wrong parameter cannot be checked
        sound.add(name)
        if activation(parts.space, name) is None:
            received = " and ".join(dimension.when)
            hint = f"{name} would never take part: see what {received} depend on"
            at = (*_SPACE, name, "when")
            yield Finding(at, "conditions that can be met together", received, hint)


def _condition(
    parts: ValidParts, name: str, other: str, values: Sequence[ConfigValue]
) -> Iterator[Finding]:
    path = (*_SPACE, name, "when", other)
    earlier = parts.names[: parts.names.index(name)]
    if other not in earlier:
        expected = f"a parameter defined before {name}"
        if other == name:
            yield Finding(path, expected, f"{name} itself")
        elif other in parts.names:
            yield Finding(path, expected, f"the later {other!r}", f"move {other} above {name}")
        elif other in parts.settings:
            yield Finding(path, expected, f"the fixed setting {other!r}")
        else:
            hint = nearest(other, earlier)
            yield Finding(path, expected, f"the unknown parameter {other!r}", hint)
        return
    switch = parts.space.get(other)
    if switch is None:
        return  # invalid by itself, and reported there
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


def _search(search: Mapping[str, Any], *, has_blocks: bool) -> Iterator[Finding]:
    """Report missing objectives and numbers of configs, and keys that exclude a list."""
    usual = usual_sampler(search)
    sampler = usual if usual == "list" else search.get("sampler", usual)
    if sampler not in WITHOUT_OBJECTIVE and (
        _is_absent(search, "objectives") or search.get("objectives") == {}
    ):
        expected = "at least one objective, such as {val_accuracy: maximize}"
        hint = f"only {', '.join(WITHOUT_OBJECTIVE)} do without"
        yield Finding(("search", "objectives"), expected, "nothing", hint)
    yield from _list_or_sampler(search)
    written = "configs" in search and search["configs"] is None
    if has_blocks or sampler in ("grid", "list"):
        return
    if written or _is_absent(search, "configs"):
        hint = "or blocks: auto, at the top, for as many as it takes"
        yield Finding(("search", "configs"), "how many configs to try", "nothing", hint)


def _list_or_sampler(search: Mapping[str, Any]) -> Iterator[Finding]:
    """Report a sampler or a space together with a list, and the sampler `list` without one."""
    configs, sampler = search.get("configs"), search.get("sampler")
    if not isinstance(configs, list):
        if sampler == "list":
            hint = "list each config, such as - {units: 64}, or name a sampler that suggests them"
            yield Finding(_CONFIGS, "a list of configs, for sampler list", shown(configs), hint)
        return
    if "sampler" in search and sampler != "list":
        hint = "remove the sampler, or give the number of configs that it is to suggest"
        expected = "list, or no sampler, with a list of configs"
        yield Finding(("search", "sampler"), expected, shown(sampler), hint)
    if search.get("space", {}) != {}:
        hint = "values that all configs share belong in settings"
        received = shown(search["space"])
        yield Finding(("search", "space"), "no space with a list of configs", received, hint)


def _listed_configs(configs: Mapping[int, Config]) -> Iterator[Finding]:
    """Report configs with other parameters than the first one, and configs listed twice.

    Args:
        configs: the valid ones, by their place in the list.
    """
    if 0 not in configs:
        return  # the first config is invalid, and reported as such
    names = list(configs[0])
    for index, config in configs.items():
        missing = [name for name in names if name not in config]
        expected = f"the parameters of search.configs[0] ({', '.join(names) or 'none'})"
        for name in config:
            if name not in names:
                near = nearest(name, missing)
                missing = [other for other in missing if repr(other) not in near]
                yield Finding((*_CONFIGS, index, name), expected, f"the parameter {name!r}", near)
        if missing:
            hint = "each config gives every parameter, its default included"
            yield Finding((*_CONFIGS, index), expected, f"no {' and no '.join(missing)}", hint)
    seen = dict[object, int]()
    for index, config in configs.items():
        first = seen.setdefault(_comparable(config), index)
        if first != index:
            yield Finding((*_CONFIGS, index), "each config once", f"search.configs[{first}] again")


def _comparable(config: Config) -> object:
    """Return a key that is equal for equal configs: 1 is 1.0, and true is not 1."""
    return frozenset((name, isinstance(value, bool), value) for name, value in config.items())


def _size(search: Mapping[str, Any], space: Mapping[str, Choices | Range]) -> Iterator[Finding]:
    """Report a space with fewer configs than the search asks for, and grids without an end."""
    is_grid, path = search.get("sampler") == "grid", ("search", "configs")
    size = Search.model_construct(space=space).size()
    if size is None:
        for name, dimension in space.items():
            if is_grid and dimension.count is None:
                at, expected = (*_SPACE, name), "finitely many values, for a grid"
                yield Finding(at, expected, "a continuous range", "give choices or a step")
        return
    if is_grid and size > MAX_GRID:
        yield Finding(_SPACE, f"a grid of at most {MAX_GRID:,} configs", f"{size:,} configs")
    configs = search.get("configs")
    if type(configs) is not int or configs < 1:
        return
    if is_grid and configs != size:
        yield Finding(path, f"{size}, the size of the grid, or no configs at all", str(configs))
    elif configs > size:
        expected = f"at most {size}, the number of different configs in the space"
        yield Finding(path, expected, str(configs))


def _trainer(parts: ValidParts) -> Iterator[Finding]:
    """Report warm trainers where memory is compared."""
    memory = [name for name in parts.objectives if name in MEMORY_METRICS]
    if memory and parts.trainer == "warm":
        expected = f"fresh, or no trainer at all, with the objective {memory[0]}"
        hint = "a warm trainer's peak memory is that of all its trials so far"
        yield Finding(("trainer",), expected, "warm", hint)


def _arms(parts: ValidParts) -> Iterator[Finding]:
    """Report unknown implementations of built-in workloads, and entries listed twice."""
    path: Path = ("arms", "implementations")
    seen = dict[str, int]()
    for index, text in parts.implementations.items():
        if parts.is_builtin:
            yield from _unknown_names(text, (*path, index))
        if text in seen:
            yield Finding((*path, index), "each implementation once", f"{text!r} again")
        seen.setdefault(text, index)
    for index, entry in parts.hardware.items():
        alike = parts.entries[index]
        if any(alike == parts.entries[other] for other in parts.hardware if other < index):
            at = ("arms", "hardware", index)
            yield Finding(at, "each hardware class once", f"{str(entry)!r} again")


def _unknown_names(text: str, path: Path) -> Iterator[Finding]:
    implementation = implementations.parse_implementation(text, known_only=False)
    names = [
        ("a backend", implementation.backend, implementations.BACKENDS),
        ("a kernel", implementation.kernel, implementations.KERNELS),
        *(("an option", option, implementations.OPTIONS) for option in implementation.options),
    ]
    unknown = [(kind, name, valid) for kind, name, valid in names if name not in valid]
    for kind, name, valid in unknown:
        expected, received = f"{kind} among {', '.join(valid)}", f"{name!r} in {text!r}"
        yield Finding(path, expected, received, nearest(name, valid))
    if unknown:
        return
    try:
        implementations.parse_implementation(text)
    except implementations.ImplementationError as error:  # options that exclude each other
        yield Finding(path, error.expected, error.received)


def _references(parts: ValidParts) -> Iterator[Finding]:
    """Report arms that a baseline or an objective names and the sweep does not have."""
    if len(parts.implementations) < len(parts.written) or not parts.written:
        return  # the arms are not known yet
    named: list[tuple[Path, str]] = [
        (("search", "objectives", name, "over"), objective.over)
        for name, objective in parts.objectives.items()
        if objective.over not in AGGREGATES
    ]
    with contextlib.suppress(ValidationError):  # absent, or reported where the spec is validated
        named.append((("baseline",), _ARM.validate_python(parts.baseline)))
    available = list(parts.implementations.values())
    classes = [entry.selector or str(entry) for entry in parts.hardware.values()] or ["cpu", "gpu"]
    for path, text in named:
        implementation, hardware = split_arm_text(text)
        if implementation not in (*available, ANY_IMPLEMENTATION):
            expected = f"an implementation of this sweep ({', '.join(available)})"
            near = nearest(implementation, available)
            yield Finding(path, expected, repr(implementation), near)
        elif hardware in ("cpu", "gpu") and set(classes) <= {"cpu", "gpu"} - {hardware}:
            expected = f"hardware of this sweep ({', '.join(classes)})"
            yield Finding(path, expected, repr(hardware))
