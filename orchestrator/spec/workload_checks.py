"""Checks that a workload accepts the settings and space of a spec, and has its metrics."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from orchestrator.core.trial import Config
from orchestrator.spec.space import activation, example
from orchestrator.spec.spec_errors import (
    Path,
    ProblemAtPath,
    from_pydantic,
    key_text,
    nearest,
    shown_value,
    stated,
)
from orchestrator.spec.sweep_spec import SweepSpec
from workloads import registry
from workloads.metrics import (
    BY_NAME,
    COST_METRICS,
    DERIVED_METRICS,
    METRICS,
    OUTSIDE_OBJECTIVES,
    find_metric,
)
from workloads.own_code import PACKAGES, packages_of

_SEARCHED = "the arms of a block share their config, and it has this parameter"


def is_built_in(spec: SweepSpec) -> bool:
    """Return whether the workload is one of ours, whose settings and metrics are known."""
    return spec.workload_name in [workload.name for workload in registry.BUILT_IN]


def names_own_implementations(spec: SweepSpec) -> bool:
    """Return whether the workload is a user's function, with implementations of its own."""
    return not is_built_in(spec) and spec.model is None


def check_workload(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report names and values that the workload does not accept; conditions have to be valid."""
    searched = _searched(spec)
    for name, path in searched.items():
        if name in spec.settings:
            hint = f"remove it here, or remove {key_text(path)}"
            yield stated(("settings", name), "the search varies this setting", hint)
    try:
        workload = registry.find_workload(spec.workload_name)
    except registry.UnknownWorkload:
        names = [workload.name for workload in registry.BUILT_IN]
        expected = f"{', '.join(names)}, or package.module:function"
        hint = nearest(spec.workload_name, names)
        yield ProblemAtPath(("workload",), expected, shown_value(spec.workload_name), hint)
        return
    yield from _packages(spec)
    yield from _margins(spec)
    yield from _own_work(spec, workload, searched)
    yield from _variants(spec, workload, searched)
    if workload.settings_model is None:
        return
    names = list(workload.settings_model.model_fields)
    settings: dict[str, Path] = {name: ("settings", name) for name in spec.settings}
    unknown = [(n, path) for paths in (settings, searched) for n, path in paths.items()]
    for name, path in unknown:
        if name not in names and not workload.is_own_model:
            expected = f"a setting of {workload.name} ({', '.join(names)})"
            yield ProblemAtPath(path, expected, repr(name), nearest(name, names))
    for name in searched.keys() & workload.data_settings:
        hint = f"move {name} to settings, and use another sweep for another data set"
        yield stated(searched[name], "all trials of a sweep must read the same data", hint)
    yield from _metrics(spec, workload, given={*spec.settings, *searched})
    checked = [n for n in names if n not in workload.data_settings or n not in searched]
    yield from _values(spec, workload, checked)


def _searched(spec: SweepSpec) -> dict[str, Path]:
    """Return each parameter's path: in the space, or in the first listed config with it."""
    paths: dict[str, Path] = {name: ("search", "space", name) for name in spec.search.space}
    for index, config in enumerate(spec.search.listed):
        for name in config:
            paths.setdefault(name, ("search", "configs", index, name))
    return paths


def _packages(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report a package of the user's with the name of one of ours, and an own model as workload."""
    if spec.workload is not None and " with " in spec.workload:
        names = zip(("model", "data", "callbacks"), spec.workload.split(" with "), strict=False)
        keys = [f"{key}: {entry}" for key, entry in names if entry != registry.RANDOM_DATA]
        hint = f"write {' and '.join(keys)}, without workload"
        yield stated(("workload",), "a model of your own has keys of its own", hint)
    for key in ("workload", "model", "data", "callbacks"):
        text: str | None = getattr(spec, key)
        for package in packages_of(text or ""):
            if package == "__main__":
                hint = (
                    "in a notebook or a script, give run_sweep the function itself instead of its"
                    " name; for a spec file, write it into a module"
                )
                yield stated((key,), f"a new process cannot import {text}", hint)
            if package in PACKAGES:
                hint = "rename your package"
                yield stated((key,), f"rnnsweep has a package named {package!r}, too", hint)


def _metrics(
    spec: SweepSpec, workload: registry.Workload, given: set[str]
) -> Iterator[ProblemAtPath]:
    """Report objectives on metrics that no trial has, and published ones that are not ours."""
    metrics = (*workload.metrics, *OUTSIDE_OBJECTIVES, *COST_METRICS)
    for name in spec.search.objectives:
        path: Path = ("search", "objectives", name)
        if name not in metrics:
            if workload.is_own_model:  # the model decides, once it is built
                continue
            expected = f"a metric of {workload.name} ({', '.join(metrics)})"
            yield ProblemAtPath(path, expected, repr(name), nearest(name, metrics))
        elif (setting := BY_NAME[name].needs_setting) is not None and setting not in given:
            yield stated(path, f"needs settings.{setting}")
        elif name in COST_METRICS and not spec.prices:
            yield stated(path, "needs prices", "such as prices: prices.yaml")
    valid = [
        metric.name for metric in METRICS if metric.is_objective or metric.name in DERIVED_METRICS
    ]
    for index, row in enumerate(spec.published):
        for name in row.metrics:
            if name not in valid:
                path = ("published", index, "metrics", name)
                hint = nearest(name, valid) or "docs/mlflow.md lists them; a note may have others"
                yield ProblemAtPath(path, "a metric of rnnsweep", repr(name), hint)


def _margins(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report margins of metrics that are no result of this sweep: nothing would use them."""
    known = [metric.name for metric in METRICS if metric.is_result]
    results = [n for n in (*spec.search.objectives, *known) if find_metric(n).is_result]
    for name in spec.margins.results:
        if name not in results:
            names = ("speed", "accuracy", *dict.fromkeys(results))
            yield ProblemAtPath(
                ("margins", name),
                f"speed, accuracy, an objective that is a result, or one of {', '.join(known)}",
                repr(name),
                nearest(name, names),
            )


def _own_work(
    spec: SweepSpec, workload: registry.Workload, searched: Mapping[str, Path]
) -> Iterator[ProblemAtPath]:
    """Report settings of a hardware entry that are no valid amount of work."""
    entries = enumerate(spec.arms.hardware)
    of_variants = {name for variant in spec.arms.variants for name in variant.settings}
    for index, name, value in [
        (i, *item) for i, entry in entries for item in entry.settings.items()
    ]:
        path: Path = ("arms", "hardware", index, "settings", name)
        if name in searched:
            yield stated(path, _SEARCHED)
        elif name in of_variants:
            yield stated(path, "a variant has this setting, so hardware cannot change it")
        elif workload.names_own_implementations:
            if name not in spec.settings:
                expected = f"one of the sweep's settings ({', '.join(spec.settings) or 'none'})"
                yield ProblemAtPath(path, expected, repr(name), nearest(name, spec.settings))
        elif name not in workload.work_settings:
            expected = f"an amount of work ({', '.join(workload.work_settings)})"
            hint = nearest(name, workload.work_settings) or (
                "arms with any other difference would not be comparable"
            )
            yield ProblemAtPath(path, expected, repr(name), hint)
        else:
            for finding in _refused(workload, {name: value}):
                if finding.path[:1] == (name,):
                    yield dataclasses.replace(finding, path=path)


def _variants(
    spec: SweepSpec, workload: registry.Workload, searched: Mapping[str, Path]
) -> Iterator[ProblemAtPath]:
    """Report settings of variants that are no settings of their own, or that are refused."""
    entries = spec.arms.variants
    names = list(workload.settings_model.model_fields) if workload.settings_model else []
    for index, name in [(i, name) for i, entry in enumerate(entries) for name in entry.settings]:
        path: Path = ("arms", "variants", index, "settings", name)
        if name in searched:
            yield stated(path, _SEARCHED)
        elif name in workload.data_settings:
            yield stated(path, "all arms of a block must read the same data")
        elif name in workload.work_settings:
            hint = "hardware can differ in it: {class: cpu, settings: {epochs: 1}}"
            yield stated(path, "variants must do the same amount of work", hint)
        elif workload.is_built_in and name not in names:
            expected = f"a setting of {workload.name} ({', '.join(names)})"
            yield ProblemAtPath(path, expected, repr(name), nearest(name, names))
        elif not workload.is_built_in and name not in (*names, *spec.settings):
            others = {n for entry in entries for n in entry.settings} | spec.settings.keys()
            if not all(name in entry.settings for entry in entries):
                hint = nearest(name, others - {name}) or "add its usual value to settings"
                yield stated(path, "neither settings nor every variant has this setting", hint)
    for index, entry in enumerate(entries):
        finding = _first_refusal(spec, workload, entry.settings)
        if finding is not None:
            yield dataclasses.replace(finding, path=("arms", "variants", index, *finding.path))


def _first_refusal(
    spec: SweepSpec, workload: registry.Workload, changed: Mapping[str, Any]
) -> ProblemAtPath | None:
    """Return the first error of a variant's settings, alone or with a config of the search."""
    for _, config, _ in _configs(spec):
        usual = {**spec.settings, **config}
        before = {finding.received for finding in _refused(workload, usual)}
        for finding in _refused(workload, {**usual, **changed}):
            if finding.path[:1] and finding.path[0] in changed:
                return dataclasses.replace(finding, path=("settings", *finding.path))
            if not finding.path and finding.received not in before:
                return finding
    return None


def _values(
    spec: SweepSpec, workload: registry.Workload, names: list[str]
) -> Iterator[ProblemAtPath]:
    """Report settings, values of the space and listed configs that the workload refuses."""
    fixed = {name: value for name, value in spec.settings.items() if name in names}
    refused_settings, reported = _refused(workload, fixed), set[str]()
    yield from (
        dataclasses.replace(finding, path=("settings", *finding.path))
        for finding in refused_settings
    )
    for path, config, varied in _configs(spec):
        ours = {name: value for name, value in config.items() if name in names}
        for finding in _refused(workload, {**fixed, **ours}):
            if finding in refused_settings or varied in reported:
                continue
            if varied is None:
                yield dataclasses.replace(finding, path=(*path, *finding.path))
            elif finding.path[:1] in ((), (varied,)):
                reported.add(varied)
                yield dataclasses.replace(finding, path=path)


def _configs(spec: SweepSpec) -> Iterator[tuple[Path, Config, str | None]]:
    """Yield configs that are checked on behalf of all: path, config, and the varied parameter."""
    yield (), {}, None
    for index, config in enumerate(spec.search.listed):
        yield ("search", "configs", index), config, None
    space = spec.search.space
    for name, dimension in space.items():
        for value in dimension.probes:
            config = example(space, {**(activation(space, name) or {}), name: value})
            yield ("search", "space", name, *dimension.origin(value)), config, name


def _refused(workload: registry.Workload, settings: Mapping[str, Any]) -> list[ProblemAtPath]:
    """Return the errors of the workload's model in `settings`, by paths inside of them."""
    try:
        workload.resolve(settings)
    except ValidationError as error:
        return [
            finding if finding.path else stated((), finding.expected)
            for finding in from_pydantic(error)
        ]
    return []
