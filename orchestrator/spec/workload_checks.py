"""Whether a workload takes a spec's settings and space, and reports what its objectives read."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from orchestrator.core.trial import Config
from orchestrator.spec import pydantic_errors
from orchestrator.spec.errors import Finding, Path, key_text, nearest, shown
from orchestrator.spec.space import activation, example
from orchestrator.spec.valid_parts import Draft
from workloads import registry

OUTSIDE_METRICS = ("queue_s", "setup_s", "energy_j", "mean_power_w", "energy_per_sample_j")
"""What a trial may have whatever its workload: measured outside of its trainer."""

COST_METRICS = ("cost_usd", "train_cost_usd")
"""What it has where the spec has prices."""

_NEEDS = {"time_to_accuracy_s": "target_accuracy"}
"""Metrics that are reported only where a setting asks for them."""


def misfits(draft: Draft, *, sound: bool) -> Iterator[Finding]:
    """Names and values that the workload does not take."""
    searched = _searched(draft)
    for path in searched:
        if path[-1] in draft.settings:
            received = f"both, here and as {key_text(path)}"
            yield Finding(
                ("settings", path[-1]), "a fixed setting or a searched parameter", received
            )
    if draft.workload is None:
        return
    try:
        workload = registry.find_workload(draft.workload)
    except registry.UnknownWorkload:
        names = [workload.name for workload in registry.built_in_workloads()]
        expected = f"{', '.join(names)}, or package.module:function"
        hint = nearest(draft.workload, names)
        yield Finding(("workload",), expected, shown(draft.workload), hint)
        return
    yield from _own_work(draft, workload, {path[-1] for path in searched})
    if workload.settings_model is None:
        return
    known = list(workload.settings_model.model_fields)
    for path in (*(("settings", name) for name in draft.settings), *searched):
        if path[-1] not in known:
            expected = f"a setting of {workload.name} ({', '.join(known)})"
            yield Finding(path, expected, repr(path[-1]), nearest(path[-1], known))
    for path in searched:
        if path[-1] in workload.data_settings:
            why = "a block's arms must read the same data, and a sweep has one digest"
            hint = f"move {path[-1]} to settings, and give another data set a sweep of its own"
            yield Finding(path, f"a fixed setting ({why})", f"the parameter {path[-1]!r}", hint)
    yield from _metrics(draft, workload)
    if draft.listed:
        yield from _listed_values(draft.listed, draft.settings, workload, known)
    else:
        yield from _values(draft, workload, known, sound=sound)


def _searched(draft: Draft) -> list[Path]:
    """Where parameters stand: in the space, and in the first listed config that has them."""
    listed = dict[str, Path]()
    for index, config in (draft.listed or {}).items():
        for name in config:
            listed.setdefault(name, ("search", "configs", index, name))
    return [*(("search", "space", name) for name in draft.names), *listed.values()]


def _metrics(draft: Draft, workload: registry.Workload) -> Iterator[Finding]:
    """Objectives on what no trial of the workload reports: every block would be a failure."""
    known = (*workload.metrics, *OUTSIDE_METRICS, *COST_METRICS)
    given = {*draft.settings, *(path[-1] for path in _searched(draft))}
    for name in draft.objectives:
        path = ("search", "objectives", name)
        if name not in known:
            expected = f"a metric of {workload.name} ({', '.join(known)})"
            yield Finding(path, expected, repr(name), nearest(name, known))
        elif name in _NEEDS and _NEEDS[name] not in given:
            expected = f"settings.{_NEEDS[name]} beside it, without which no trial reports it"
            yield Finding(path, expected, "nothing")
        elif name in COST_METRICS and not draft.has_prices:
            expected = "prices beside it (prices: prices.yaml), without which nothing has a cost"
            yield Finding(path, expected, "nothing")


def _own_work(
    draft: Draft, workload: registry.Workload, searched: Collection[str | int]
) -> Iterator[Finding]:
    """Settings of a hardware entry that are no amount of work, or no valid one."""
    for index, entry in draft.hardware.items():
        for name, value in entry.settings.items():
            path: Path = ("arms", "hardware", index, "settings", name)
            if name in searched:
                expected = "a setting that no config has (a block's arms share their config)"
                yield Finding(path, expected, f"the parameter {name!r}")
            elif not workload.is_built_in:
                if name not in draft.settings:
                    expected = "one of the sweep's settings, which it replaces on this hardware"
                    near = nearest(name, draft.settings)
                    yield Finding(path, expected, f"the unknown {name!r}", near)
            elif name not in workload.work_settings:
                expected = f"an amount of work ({', '.join(workload.work_settings)})"
                hint = nearest(name, workload.work_settings) or (
                    "an arm that differs in anything else would be no fair pair of the others"
                )
                yield Finding(path, expected, repr(name), hint)
            else:
                for finding in _refused(workload, {name: value}):
                    if finding.path[:1] == (name,):
                        yield dataclasses.replace(finding, path=path)


def _values(
    draft: Draft, workload: registry.Workload, known: Sequence[str], *, sound: bool
) -> Iterator[Finding]:
    """Settings and values of the space that the workload's model refuses."""
    fixed = {name: value for name, value in draft.settings.items() if name in known}
    space = {name: one for name, one in draft.space.items() if name in known and name not in fixed}
    usual = example(space, {}) if sound else {}
    general = set[str]()
    for finding in _refused(workload, {**fixed, **usual}):
        if not finding.path:
            general.add(finding.received)
            yield Finding(("settings",), finding.expected, finding.received, finding.hint)
        elif finding.path[0] in fixed or finding.path[0] not in draft.names:
            yield dataclasses.replace(finding, path=("settings", *finding.path))
    for name, dimension in space.items():
        if name in workload.data_settings:
            continue  # told as such, whatever its values
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
    known: Sequence[str],
) -> Iterator[Finding]:
    """Settings and listed configs that the workload's model refuses."""
    fixed = {name: value for name, value in settings.items() if name in known}
    alone = {finding.received for finding in _refused(workload, fixed) if not finding.path}
    for index, config in configs.items():
        ours = {n: v for n, v in config.items() if n in known and n not in workload.data_settings}
        for finding in _refused(workload, {**fixed, **ours}):
            is_ours = finding.path[0] in ours if finding.path else finding.received not in alone
            place: Path = ("search", "configs", index) if is_ours else ("settings",)
            yield dataclasses.replace(finding, path=(*place, *finding.path))


def _refused(workload: registry.Workload, settings: Mapping[str, Any]) -> list[Finding]:
    """What the workload's model says against `settings`, by paths inside of them."""
    try:
        workload.resolve(settings)
    except ValidationError as error:
        return [
            finding if finding.path else Finding((), "settings that fit together", finding.expected)
            for finding in pydantic_errors.from_pydantic(error, {})
        ]
    return []
