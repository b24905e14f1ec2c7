"""What must fit together across a spec's keys: conditions, sampler, space, list, arms.

Every check reads what is valid by itself, so that one wrong key never hides another.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.core.names import ANY_IMPLEMENTATION
from orchestrator.core.trial import ConfigValue
from orchestrator.spec import config_list, precision_checks, workload_checks
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
from orchestrator.spec.valid_parts import Draft, draw
from workloads import implementations

MAX_GRID = 100_000
"""Configs of a grid: more than any sweep ends, fewer than fill the memory."""

_ARM: TypeAdapter[str] = TypeAdapter(ArmText)
_SPACE: Path = ("search", "space")


def inconsistencies(data: Mapping[str, Any]) -> list[Finding]:
    """Everything in a spec's plain data that is wrong between its keys."""
    draft = draw(data)
    conditions = list(_conditions(draft))
    findings = [*conditions, *_arms(draft), *_references(draft), *_trainer(draft)]
    sound = not conditions and len(draft.space) == len(draft.names)
    if draft.search is not None:
        findings += _search(draft.search, has_blocks=draft.has_blocks)
        findings += _size(draft.search, draft.space) if sound else ()
    findings += config_list.unlike(draft.listed or {})
    findings += workload_checks.misfits(draft, sound=sound)
    findings += precision_checks.undecided(draft, sound=sound)
    return findings


def _is_absent(data: Mapping[str, Any], key: str) -> bool:
    """Whether `key` is missing, rather than misspelt (which is told as an unknown key)."""
    return key not in data and not difflib.get_close_matches(key, data)


def _conditions(draft: Draft) -> Iterator[Finding]:
    """Conditions on parameters that are unknown or later, or on values that these never take."""
    sound = set[str]()
    for name, dimension in draft.space.items():
        findings = [
            finding
            for other, values in dimension.when.items()
            for finding in _condition(draft, name, other, values)
        ]
        yield from findings
        if findings or not sound.issuperset(dimension.when):
            continue  # what depends on a wrong parameter cannot be judged
        sound.add(name)
        if activation(draft.space, name) is None:
            received = " and ".join(dimension.when)
            hint = f"{name} would never take part: see what {received} depend on"
            at = (*_SPACE, name, "when")
            yield Finding(at, "conditions that can be met together", received, hint)


def _condition(
    draft: Draft, name: str, other: str, values: Sequence[ConfigValue]
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


def _search(search: Mapping[str, Any], *, has_blocks: bool) -> Iterator[Finding]:
    """What the sampler cannot do without, and what a list of configs stands alone for."""
    usual = usual_sampler(search)
    sampler = usual if usual == "list" else search.get("sampler", usual)
    if sampler not in WITHOUT_OBJECTIVE and (
        _is_absent(search, "objectives") or search.get("objectives") == {}
    ):
        expected = "at least one objective, such as {val_accuracy: maximize}"
        hint = f"only {', '.join(WITHOUT_OBJECTIVE)} do without"
        yield Finding(("search", "objectives"), expected, "nothing", hint)
    yield from config_list.beside(search)
    written = "configs" in search and search["configs"] is None
    if has_blocks or sampler in ("grid", "list"):
        return
    if written or _is_absent(search, "configs"):
        hint = "or blocks: auto, at the top, for as many as it takes"
        yield Finding(("search", "configs"), "how many configs to try", "nothing", hint)


def _size(search: Mapping[str, Any], space: Mapping[str, Choices | Range]) -> Iterator[Finding]:
    """Whether the space has as many configs as the search asks for."""
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


def _trainer(draft: Draft) -> Iterator[Finding]:
    """Warm trainers where memory is compared."""
    memory = [name for name in draft.objectives if name in MEMORY_METRICS]
    if memory and draft.trainer == "warm":
        expected = f"fresh, or no trainer at all, beside the objective {memory[0]}"
        hint = "a warm trainer's peak memory is that of all its trials so far"
        yield Finding(("trainer",), expected, "warm", hint)


def _arms(draft: Draft) -> Iterator[Finding]:
    """What is no implementation of a built-in workload, and what is listed twice."""
    path: Path = ("arms", "implementations")
    seen = dict[str, int]()
    for index, text in draft.implementations.items():
        if draft.is_builtin:
            yield from _not_of_the_grammar(text, (*path, index))
        if text in seen:
            yield Finding((*path, index), "each implementation once", f"{text!r} again")
        seen.setdefault(text, index)
    for index, entry in draft.hardware.items():
        alike = draft.entries[index]
        if any(alike == draft.entries[other] for other in draft.hardware if other < index):
            at = ("arms", "hardware", index)
            yield Finding(at, "each hardware class once", f"{str(entry)!r} again")


def _not_of_the_grammar(text: str, path: Path) -> Iterator[Finding]:
    implementation = implementations.parse_implementation(text, known_only=False)
    parts = [
        ("a backend", implementation.backend, implementations.BACKENDS),
        ("a kernel", implementation.kernel, implementations.KERNELS),
        *(("an option", option, implementations.OPTIONS) for option in implementation.options),
    ]
    unknown = [(what, name, known) for what, name, known in parts if name not in known]
    for what, name, known in unknown:
        expected, received = f"{what} among {', '.join(known)}", f"{name!r} in {text!r}"
        yield Finding(path, expected, received, nearest(name, known))
    if unknown:
        return
    try:
        implementations.parse_implementation(text)
    except implementations.ImplementationError as error:  # options that exclude each other
        said, _, received = str(error).partition("; received ")
        yield Finding(path, said.removeprefix("expected "), received)


def _references(draft: Draft) -> Iterator[Finding]:
    """Arms that a baseline or an objective names, and that the sweep does not have."""
    if len(draft.implementations) < len(draft.written) or not draft.written:
        return  # which arms there are is not clear yet
    named: list[tuple[Path, str]] = [
        (("search", "objectives", name, "over"), objective.over)
        for name, objective in draft.objectives.items()
        if objective.over not in AGGREGATES
    ]
    with contextlib.suppress(ValidationError):  # absent, or told where the spec is validated
        named.append((("baseline",), _ARM.validate_python(draft.baseline)))
    known = list(draft.implementations.values())
    classes = [entry.selector or str(entry) for entry in draft.hardware.values()] or ["cpu", "gpu"]
    for path, text in named:
        implementation, _, hardware = text.partition(" on ")
        if implementation not in (*known, ANY_IMPLEMENTATION):
            expected = f"an implementation of this sweep ({', '.join(known)})"
            yield Finding(path, expected, repr(implementation), nearest(implementation, known))
        elif hardware in ("cpu", "gpu") and set(classes) <= {"cpu", "gpu"} - {hardware}:
            expected = f"hardware of this sweep ({', '.join(classes)})"
            yield Finding(path, expected, repr(hardware))
