"""Checks across the keys of a valid spec: conditions, sampler, space, list, arms."""

from collections.abc import Iterator, Sequence

from orchestrator import sampling
from orchestrator.core.selectors import ANY_IMPLEMENTATION, split_arm_text
from orchestrator.core.trial import Config, ConfigValue, canonical
from orchestrator.spec import space, workload_checks
from orchestrator.spec.sections import HardwareEntry, MeasureSpec
from orchestrator.spec.spec_errors import (
    Path,
    ProblemAtPath,
    cut,
    nearest,
    nearest_name,
    shown_value,
    stated,
)
from orchestrator.spec.sweep_spec import SweepSpec
from workloads.backends.registry import parse_known_implementation
from workloads.implementations import ImplementationError
from workloads.metrics import EPOCH_METRICS, FRESH_ONLY, sliced_objectives

MAX_GRID = 100_000
"""The largest grid: more configs than any sweep finishes, fewer than fill the memory."""

_SPACE: Path = ("search", "space")
_CONFIGS: Path = ("search", "configs")


def inconsistencies(spec: SweepSpec) -> list[ProblemAtPath]:
    """Return all findings about keys of a spec that do not fit together."""
    if conditions := list(_conditions(spec)):
        return conditions  # what depends on a wrong condition cannot be checked
    arms = list(_arms(spec))
    return [
        *_search(spec),
        *_listed_configs(spec.search.listed),
        *_first_configs(spec.search),
        *_size(spec.search),
        *arms,
        *([] if arms else _references(spec)),  # they may name what is misspelt
        *_measures(spec),
        *_pruner(spec),
        *workload_checks.check_workload(spec),
    ]


def _conditions(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report conditions on unknown or later parameters, or on values that these never take."""
    dimensions = spec.search.space
    for name, dimension in dimensions.items():
        findings = [
            finding
            for condition_name, values in dimension.when.items()
            for finding in _check_condition(spec, name, condition_name, values)
        ]
        yield from findings
        if findings:
            return
        if space.activation(dimensions, name) is None:
            names = " and ".join(dimension.when)
            text = f"no config meets the conditions on {names}, so {name} would never be used"
            hint = f"see what {names} depend on"
            yield stated((*_SPACE, name, "when"), text, hint)


def _check_condition(
    spec: SweepSpec, name: str, condition_name: str, values: Sequence[ConfigValue]
) -> Iterator[ProblemAtPath]:
    """Yield what is wrong with `when: {condition_name: values}` of the parameter `name`."""
    path, names = (*_SPACE, name, "when", condition_name), list(spec.search.space)
    earlier = names[: names.index(name)]
    if condition_name not in earlier:
        if condition_name == name:
            hint = "a parameter cannot depend on itself"
        elif condition_name in names:
            hint = f"move {condition_name} above {name}"
        elif condition_name in spec.settings:
            hint = f"{condition_name} is fixed by settings"
        else:
            hint = nearest(condition_name, earlier)
        expected = f"a parameter defined before {name}"
        yield ProblemAtPath(path, expected, repr(condition_name), hint)
        return
    switch = spec.search.space[condition_name]
    if switch.count is None:
        text = f"{condition_name} is continuous, so it cannot be a condition"
        yield stated(path, text, f"give {condition_name} choices or a step")
        return
    for value in values:
        if not switch.contains(value):
            expected = f"values that {condition_name} can take ({_described(switch)})"
            yield ProblemAtPath(path, expected, shown_value(value))


def _described(dimension: space.Choices | space.Range) -> str:
    if isinstance(dimension, space.Choices):
        shown = (cut(canonical(choice)) for choice in dimension.choices[:8])
        return ", ".join(shown)
    step = f" in steps of {dimension.step}" if dimension.step else ""
    return f"{dimension.low} to {dimension.high}{step}"


def _search(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report a missing objective, and a number of configs or a list that does not fit."""
    search = spec.search
    needs_objective = search.sampler.learns and not search.listed
    if needs_objective and not search.objectives:
        without = [kind.word() for kind in sampling.SAMPLERS if not kind.learns]
        text = "missing: at least one objective, such as {val_accuracy: maximize}"
        hint = f"samplers that need no objective: {', '.join(without)}"
        yield stated(("search", "objectives"), text, hint)
    if search.listed:
        if search.sampler.configs_from != "list":
            hint = "remove the sampler, or write the number of configs for it to suggest"
            text = f"{search.sampler.name} has nothing to suggest: search.configs lists the configs"
            yield stated(("search", "sampler"), text, hint)
        if search.space:
            hint = "remove it: values that all configs share belong in settings"
            yield stated(_SPACE, "a list of configs has no space", hint)
    elif search.sampler.configs_from == "list":
        hint = "list each config, such as - {units: 64}, or name a sampler that suggests them"
        expected = "a list of configs, for sampler list"
        received = "auto" if search.auto else shown_value(search.configs)
        yield ProblemAtPath(_CONFIGS, expected, received, hint)
    elif search.configs is None and not search.is_grid:
        hint = "auto tries as many as the comparison needs"
        yield stated(_CONFIGS, "missing: the number of configs to try", hint)
    elif search.auto is not None and search.space:
        size, least = search.size(), search.auto.at_least
        if size is not None and size < least:
            expected = f"a space of at least {least} configs (search.configs.at_least)"
            yield ProblemAtPath(_SPACE, expected, f"a space of {size}")


def _listed_configs(configs: Sequence[Config]) -> Iterator[ProblemAtPath]:
    """Report configs with other parameters than the first one, and configs listed twice."""
    names = list(configs[0]) if configs else []
    seen = dict[object, int]()
    for index, config in enumerate(configs):
        missing = [name for name in names if name not in config]
        expected = f"the parameters of search.configs[0] ({', '.join(names) or 'none'})"
        for name in config:
            if name not in names:
                hint = nearest(name, missing)
                meant = nearest_name(name, missing)
                missing = [still_missing for still_missing in missing if still_missing != meant]
                yield ProblemAtPath((*_CONFIGS, index, name), expected, repr(name), hint)
        if missing:
            hint = "each config needs every parameter, even where it has the default"
            yield stated((*_CONFIGS, index), f"missing: {', '.join(missing)}", hint)
        # A key that is equal for equal configs: 1 is 1.0, and true is not 1.
        key = frozenset((name, isinstance(value, bool), value) for name, value in config.items())
        first = seen.setdefault(key, index)
        if first != index:
            yield stated((*_CONFIGS, index), f"the same config as search.configs[{first}]")


def _first_configs(search: space.Search) -> Iterator[ProblemAtPath]:
    """Report first configs without a sampler that suggests others, or outside of the space."""
    path = ("search", "first")
    if search.first and search.sampler.configs_from != "sampler":
        yield stated(path, f"sampler {search.sampler.name} takes no first configs", "remove them")
        return
    for index, config in enumerate(search.first):
        names = [name for name in search.space if search.is_active(name, config)]
        expected = f"the parameters of search.space ({', '.join(names)})"
        for name, value in config.items():
            if name not in names:
                hint = nearest(name, names)
                yield ProblemAtPath((*path, index, name), expected, repr(name), hint)
            elif not search.space[name].contains(value):
                values = f"a value of search.space.{name} ({_described(search.space[name])})"
                yield ProblemAtPath((*path, index, name), values, shown_value(value))
        if missing := [name for name in names if name not in config]:
            yield stated((*path, index), f"missing: {', '.join(missing)}")


def _size(search: space.Search) -> Iterator[ProblemAtPath]:
    """Report a space with fewer configs than the search asks for, and grids without an end."""
    is_grid, size = search.is_grid, search.size()
    if size is None:
        for name, dimension in search.space.items():
            if is_grid and dimension.count is None:
                text = "a grid cannot have a continuous range"
                yield stated((*_SPACE, name), text, "give choices or a step")
        return
    if is_grid and size > MAX_GRID:
        yield ProblemAtPath(_SPACE, f"a grid of at most {MAX_GRID:,} configs", f"{size:,} configs")
    if not isinstance(search.configs, int):
        return
    received = str(search.configs)
    if is_grid and search.configs != size:
        hint = "or remove it: a grid has all of its configs"
        yield ProblemAtPath(_CONFIGS, f"{size}, the size of the grid", received, hint)
    elif search.configs > size:
        expected = f"at most {size}, the number of different configs in the space"
        yield ProblemAtPath(_CONFIGS, expected, received)


def _arms(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report unknown implementations of built-in workloads, and arms listed twice."""
    names = spec.arms.implementations
    for index, text in enumerate(names):
        path: Path = ("arms", "implementations", index)
        if not workload_checks.names_own_implementations(spec):
            try:
                parse_known_implementation(text)
            except ImplementationError as error:
                yield ProblemAtPath(path, error.expected, error.received)
        if text in names[:index]:
            yield stated(path, f"{text!r} is listed twice")
    for index, entry in enumerate(spec.hardware):
        if entry in spec.hardware[:index]:
            text = f"{str(spec.arms.hardware[index])!r} is listed twice"
            yield stated(("arms", "hardware", index), text)
    variants = [entry.name for entry in spec.arms.variants]
    for index, name in enumerate(variants):
        if name in variants[:index]:
            hint = "to run it twice (A/A test), give it another name: {name: …, settings: {…}}"
            yield stated(("arms", "variants", index), f"{name!r} is listed twice", hint)


def _references(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report arms that a baseline or an objective names and the sweep does not have."""
    named: dict[Path, str] = {
        ("search", "objectives", name, "over"): objective.over
        for name, objective in spec.search.objectives.items()
        if objective.over not in space.AGGREGATES
    }
    if spec.baseline is not None:
        named["baseline",] = spec.baseline
    arms, variants = spec.arms.per_hardware, [entry.name for entry in spec.arms.variants]
    available = [*spec.arms.implementations, *variants]
    full_names = [f"{variant}: {name}" for name, variant in arms if variant]
    classes = [entry.selector or str(entry) for entry in spec.arms.hardware]
    for path, text in named.items():
        name, hardware = split_arm_text(text)
        is_any = name == ANY_IMPLEMENTATION and hardware is not None and path[-1] == "over"
        if name not in (*available, *full_names) and not is_any:
            kind = "an implementation or a variant" if variants else "an implementation"
            expected = f"{kind} of this sweep ({', '.join(available)})"
            words = () if path == ("baseline",) else (*space.AGGREGATES, "cpu", "gpu")
            if words:
                expected = f"{', '.join(words)}, * on HARDWARE, or {expected}"
            near = nearest(name, (*words, *available, *full_names))
            yield ProblemAtPath(path, expected, repr(name), near)
        elif hardware in ("cpu", "gpu") and set(classes) <= {"cpu", "gpu"} - {hardware}:
            expected = f"hardware of this sweep ({', '.join(classes)})"
            yield ProblemAtPath(path, expected, repr(hardware))


def _measures(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report options of timing without timing arms, whole trainings without one, warm memory."""
    if all(entry.measure == "full" for entry in spec.hardware):
        usual = MeasureSpec(mode=spec.measure.mode)  # a dump has the options that nobody gave
        changed = {name for name, value in spec.measure if value != getattr(usual, name)}
        for name in sorted(changed - {"slice_s"}):
            hint = "add mode: timing, or measure: timing in an entry of arms.hardware"
            yield stated(("measure", name), "only timing uses it, and no arm is timed", hint)
    elif spec.measure.of == "predict" and any(entry.measure == "full" for entry in spec.hardware):
        text = "predict needs measure: timing on every arm"
        hint = "remove measure: full from arms.hardware, or compare trainings in another sweep"
        yield stated(("measure", "of"), text, hint)
    for name, objective in spec.search.objectives.items():
        entries = _entries_read(spec.hardware, objective.over)
        if name in sliced_objectives(spec.measure.of) or not entries:
            continue
        if all(entry.measure == "timing" for entry in entries):
            text = "needs an arm that trains to the end, and all of them are only timed"
            hint = "add measure: full to an entry of arms.hardware, or choose an objective such as "
            hint += "step_ms"
            if spec.measure.of == "predict":
                hint = "predictions are timed: choose an objective such as predict_ms"
            yield stated(("search", "objectives", name), text, hint)
    memory = [name for name in spec.search.objectives if name in FRESH_ONLY]
    if memory and spec.trainer == "warm":
        expected = f"fresh, for the objective {memory[0]}"
        hint = "a warm trainer's peak memory is the peak of all its trials so far"
        yield ProblemAtPath(("trainer",), expected, "warm", hint)


def _pruner(spec: SweepSpec) -> Iterator[ProblemAtPath]:
    """Report a pruner of variants, without one objective of each epoch, or with too few epochs."""
    pruner, path, metrics = spec.search.pruner, ("search", "pruner"), list(spec.search.objectives)
    if pruner is None:
        return
    if len(metrics) != 1:
        yield stated(path, f"Optuna prunes by one objective, and there are {len(metrics)}")
    if all(entry.measure == "timing" for entry in spec.hardware):
        yield stated(path, "arms with measure: timing have no epochs to prune", "remove the pruner")
    if workload_checks.is_built_in(spec) and not {*metrics} <= {*EPOCH_METRICS}:
        expected = f"a metric of each epoch ({', '.join(EPOCH_METRICS)}) as objective"
        yield ProblemAtPath(path, expected, ", ".join(metrics))
    if spec.arms.variants:
        hint = "pruning by one variant's accuracy would favor the configs that suit this variant"
        yield stated(path, "a sweep of variants cannot have a pruner", hint)
    epochs, first = spec.settings.get("epochs"), pruner.first_epoch
    if isinstance(epochs, int) and epochs <= first:
        text = f"{pruner.name} prunes after epoch {first} at the earliest, of {epochs}"
        yield stated(path, text, f"set settings.epochs to more than {first}")


def _entries_read(entries: Sequence[HardwareEntry], over: str) -> Sequence[HardwareEntry]:
    """Return the entries whose arms an objective reads, as far as their names show."""
    _, hardware = split_arm_text(over)
    if over in space.AGGREGATES or hardware is None:
        return entries
    return [entry for entry in entries if (entry.selector or "").lower() == hardware.lower()]
