"""Checks that a workload accepts the settings and space of a spec, and has its metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from orchestrator.core.trial import Config
from orchestrator.spec import pydantic_errors
from orchestrator.spec.errors import Finding, Path, key_text, nearest, shown
from orchestrator.spec.space import activation, example
from orchestrator.spec.valid_parts import ValidParts
from workloads import registry

TELEMETRY_OBJECTIVES = ("queue_s", "setup_s", "energy_j", "mean_power_w", "energy_per_sample_j")
"""Metrics of trials of any workload, measured outside of the trainer."""

COST_METRICS = ("cost_usd", "train_cost_usd")
"""Metrics of trials of a spec with prices."""

_NEEDS = {"time_to_accuracy_s": "target_accuracy"}
"""Metrics that are reported only where a setting asks for them."""


def check_workload(parts: ValidParts, *, sound: bool) -> Iterator[Finding]:
    """Report names and values that the workload does not accept."""
    searched = _searched(parts)
    for path in searched:
        if path[-1] in parts.settings:
            received = f"both, here and as {key_text(path)}"
            yield Finding(
                ("settings", path[-1]), "a fixed setting or a searched parameter", received
            )
    if parts.workload is None:
        return
    try:
        workload = registry.find_workload(parts.workload)
    except registry.UnknownWorkload:
        names = [workload.name for workload in registry.built_in_workloads()]
        expected = f"{', '.join(names)}, or package.module:function"
        hint = nearest(parts.workload, names)
        yield Finding(("workload",), expected, shown(parts.workload), hint)
        return
    yield from _own_work(parts, workload, {path[-1] for path in searched})
    if workload.settings_model is None:
        return
    names = list(workload.settings_model.model_fields)
    for path in (*(("settings", name) for name in parts.settings), *searched):
        if path[-1] not in names:
            expected = f"a setting of {workload.name} ({', '.join(names)})"
            yield Finding(path, expected, repr(path[-1]), nearest(path[-1], names))
    for path in searched:
        if path[-1] in workload.data_settings:
            reason = "the arms of a block must read the same data, and a sweep has one digest"
            hint = f"move {path[-1]} to settings, and use another sweep for another data set"
            yield Finding(path, f"a fixed setting ({reason})", f"the parameter {path[-1]!r}", hint)
    yield from _metrics(parts, workload)
    if parts.listed:
        yield from _listed_values(parts.listed, parts.settings, workload, names)
    else:
        yield from _values(parts, workload, names, sound=sound)


def _searched(parts: ValidParts) -> list[Path]:
    """Return the paths of parameters: in the space, or in the first listed config with them."""
    listed = dict[str, Path]()
    for index, config in (parts.listed or {}).items():
        for name in config:
            listed.setdefault(name, ("search", "configs", index, name))
    return [*(("search", "space", name) for name in parts.names), *listed.values()]


def _metrics(parts: ValidParts, workload: registry.Workload) -> Iterator[Finding]:
    """Report objectives on metrics that no trial has: every block would fail."""
    metrics = (*workload.metrics, *TELEMETRY_OBJECTIVES, *COST_METRICS)
    given = {*parts.settings, *(path[-1] for path in _searched(parts))}
    for name in parts.objectives:
        path = ("search", "objectives", name)
        if name not in metrics:
            expected = f"a metric of {workload.name} ({', '.join(metrics)})"
            yield Finding(path, expected, repr(name), nearest(name, metrics))
        elif name in _NEEDS and _NEEDS[name] not in given:
            expected = f"settings.{_NEEDS[name]} as well, without which no trial reports it"
            yield Finding(path, expected, "nothing")
        elif name in COST_METRICS and not parts.has_prices:
            expected = "prices as well (prices: prices.yaml), without which nothing has a cost"
            yield Finding(path, expected, "nothing")


def _own_work(
    parts: ValidParts, workload: registry.Workload, searched: Collection[str | int]
) -> Iterator[Finding]:
    """Report settings of a hardware entry that are no valid amount of work."""
    for index, entry in parts.hardware.items():
        for name, value in entry.settings.items():
            path: Path = ("arms", "hardware", index, "settings", name)
            if name in searched:
                expected = "a setting that no config has (the arms of a block share their config)"
                yield Finding(path, expected, f"the parameter {name!r}")
            elif not workload.is_built_in:
                if name not in parts.settings:
                    expected = "one of the sweep's settings, which it replaces on this hardware"
                    near = nearest(name, parts.settings)
                    yield Finding(path, expected, f"the unknown {name!r}", near)
            elif name not in workload.work_settings:
                expected = f"an amount of work ({', '.join(workload.work_settings)})"
                hint = nearest(name, workload.work_settings) or (
                    "arms that differ in anything else cannot be compared in pairs"
                )
                yield Finding(path, expected, repr(name), hint)
            else:
                for finding in _refused(workload, {name: value}):
                    if finding.path[:1] == (name,):
                        yield dataclasses.replace(finding, path=path)


def _values(
    parts: ValidParts, workload: registry.Workload, names: Sequence[str], *, sound: bool
) -> Iterator[Finding]:
    """Report settings and values of the space that the workload refuses."""
    fixed = {name: value for name, value in parts.settings.items() if name in names}
    space = {
        name: dimension
        for name, dimension in parts.space.items()
        if name in names and name not in fixed
    }
    usual = example(space, {}) if sound else {}
    general = set[str]()
    for finding in _refused(workload, {**fixed, **usual}):
        if not finding.path:
            general.add(finding.received)
            yield Finding(("settings",), finding.expected, finding.received, finding.hint)
        elif finding.path[0] in fixed or finding.path[0] not in parts.names:
            yield dataclasses.replace(finding, path=("settings", *finding.path))
    for name, dimension in space.items():
        if name in workload.data_settings:
            continue  # reported as such, whatever its values
        switched_on = (activation(space, name) or {}) if sound else {}
        for value in dimension.probes:
            chosen = {**switched_on, name: value}
            config = example(space, chosen) if sound else chosen
            about = [
                finding
                for finding in _refused(workload, {**fixed, **config})
                if finding.path[:1] == (name,)
                or (not finding.path and finding.received not in general)
            ]
            if about:
                at = ("search", "space", name, *dimension.origin(value))
                yield dataclasses.replace(about[0], path=at)
                break


def _listed_values(
    configs: Mapping[int, Config],
    settings: Mapping[str, Any],
    workload: registry.Workload,
    names: Sequence[str],
) -> Iterator[Finding]:
    """Report settings and listed configs that the workload refuses."""
    fixed = {name: value for name, value in settings.items() if name in names}
    own_errors = {finding.received for finding in _refused(workload, fixed) if not finding.path}
    for index, config in configs.items():
        ours = {n: v for n, v in config.items() if n in names and n not in workload.data_settings}
        for finding in _refused(workload, {**fixed, **ours}):
            is_ours = (
                finding.path[0] in ours if finding.path else finding.received not in own_errors
            )
            place: Path = ("search", "configs", index) if is_ours else ("settings",)
            yield dataclasses.replace(finding, path=(*place, *finding.path))


def _refused(workload: registry.Workload, settings: Mapping[str, Any]) -> list[Finding]:
    """Return the errors of the workload's model in `settings`, by paths inside of them."""
    try:
        workload.resolve(settings)
    except ValidationError as error:
        return [
            finding if finding.path else Finding((), "settings that fit together", finding.expected)
            for finding in pydantic_errors.from_pydantic(error, {})
        ]
    return []
