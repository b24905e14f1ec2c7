"""The best config within limits: as text, as JSON, and as a spec that can be run."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from orchestrator.analysis.arms.best_configs import (
    ParetoPoint,
    config_points,
    means,
    sign_of,
)
from orchestrator.analysis.arms.mathematics import different_arms
from orchestrator.analysis.measures import MEASURES
from orchestrator.analysis.pairing.pairs import baseline_of_spec
from orchestrator.analysis.results import USUAL_RESULTS, direction_of
from orchestrator.analysis.statistics.formatting import joined, number
from orchestrator.core.arms import Arm
from orchestrator.core.errors import Refusal
from orchestrator.core.formats import Format
from orchestrator.core.names import names_arm
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.document import Document, Row, Section, Table
from orchestrator.report.usage import usage_lines, usage_program
from orchestrator.report.verdicts import DIFFERENT_MATHEMATICS
from orchestrator.report.wording import config_phrase, run_text
from orchestrator.spec import HardwareEntry
from orchestrator.spec.errors import nearest
from workloads.registry import UnknownWorkload, find_workload

BEST = Format("a best config", 1, id="rnnsweep-best")


class Limit(NamedTuple):
    """The least (`≥`) or the most (`≤`) that the mean of a metric may be."""

    metric: str
    sign: Literal["≥", "≤"]
    bound: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {number(self.bound)}"

    def allows(self, value: float) -> bool:
        """Return whether a mean is within the limit."""
        return value >= self.bound if self.sign == "≥" else value <= self.bound


def choose(
    record: SweepRecord, metric: str | None = None, limits: Sequence[Limit] = (), arm: str = "*"
) -> dict[str, Any]:
    """Return the config × arm with the best mean of a metric, among those within the limits.

    The metric is by default the first objective without a limit, else an accuracy, unless one has a
    limit, else the time per step or prediction. Limits are of means over repeats. An arm of
    different mathematics is chosen only if `arm` names it. The result is plain data, with the
    `spec` of a sweep of this config alone. `Refusal` if there is none.
    """
    different = different_arms(record.trials, baseline_of_spec(record)) if arm == "*" else ()
    trials = [t for t in record.trials if names_arm(arm, t.arm) and t.arm not in different]
    measured = {name for t in trials if t.status == "complete" for name in t.metrics}
    limited = [limit.metric for limit in limits]
    accuracies = () if USUAL_RESULTS.keys() & limited else tuple(USUAL_RESULTS)
    usual = [n for n in (*record.objectives, *accuracies) if n in measured and n not in limited]
    step = "step_ms" if "step_ms" in measured else "predict_ms"
    wanted = metric or next(iter(usual), step)
    for name in (wanted, *limited):
        if name not in measured:
            hint = nearest(name, measured) or f"they have {', '.join(sorted(measured)) or 'none'}"
            raise Refusal(
                f"{record.name}: expected a metric of its trials, received {name!r}: {hint}"
            )
    points = config_points(trials, dict.fromkeys((wanted, *limited)))
    within = [p for p in points if all(limit.allows(p.values[limit.metric]) for limit in limits)]
    scopes = sorted({point.scope for point in within})
    if len(scopes) != 1:
        reason = _several_scopes(scopes) if scopes else _none_within(wanted, limits, points)
        raise Refusal(f"{record.name}: {reason}")
    direction = record.objectives.get(wanted) or direction_of(wanted)
    sign = sign_of(direction)
    best = min(within, key=lambda point: point.order(sign * point.values[wanted]))
    of_choice = [trial for trial in trials if (trial.block, trial.arm) == (best.block, best.arm)]
    return {
        **BEST.head(),
        "sweep": record.name,
        "generation": record.generation,
        "metric": wanted,
        "direction": direction,
        "limits": limits,
        "within": len(within),
        "tried": len(points),
        "different_mathematics": sorted(map(str, different)),
        "block": best.block,
        "arm": str(best.arm),
        "config": best.config,
        "values": {**best.values, **means(of_choice, [measure.metric for measure in MEASURES])},
        "run_ids": best.run_ids,
        "disturbed_runs": sum(bool(trial.disturbance) for trial in of_choice),
        "code": usage_lines(best.arm, of_choice),
        "spec": _spec_of(record, best.arm, best.config),
    }


def _several_scopes(scopes: Sequence[str]) -> str:
    received = joined(scopes)
    return f"expected energies of one scope, received {received}: add an arm or another metric"


def _none_within(wanted: str, limits: Sequence[Limit], points: Sequence[ParetoPoint]) -> str:
    """Write that no config is within the limits, and which values configs have."""
    bounds = "".join(f", {limit}" for limit in limits)
    received = f"none among {len(points)} complete configs × arms"
    ranges = []
    for limit in limits if points else ():
        values = [point.values[limit.metric] for point in points]
        ranges.append(f"{limit.metric} {number(min(values))} to {number(max(values))}")
    measured = f" with {', '.join(ranges)}" if ranges else ""
    return f"expected a config with {wanted}{bounds}; received {received}{measured}"


def _spec_of(record: SweepRecord, arm: Arm, config: Config) -> dict[str, Any]:
    """Return the spec of a sweep of one config on one arm; it has no objectives."""
    hardware, usage = arm.hardware_class, arm.usage
    entry = HardwareEntry(selector=hardware.name, cpus=usage.cpus, threads=usage.threads)
    return {
        "name": f"{record.name[:59]}-best",  # a name has 64 characters at most
        **workload_keys(record.workload),
        "settings": {**record.settings, **arm.settings},
        "search": {"configs": [dict(config)]},
        "arms": {
            "implementations": [arm.implementation],
            "hardware": [entry.model_dump(mode="json", exclude_defaults=True)],
        },
        "measure": usage.measure,
        "seed": record.seed,
    }


def workload_keys(name: str) -> dict[str, str]:
    """Return the keys of a spec that name this workload: `workload`, or `model` and `data`."""
    try:
        workload = find_workload(name)
    except UnknownWorkload:  # of another version of rnnsweep
        return {"workload": name}
    if workload.model_entry is None:
        return {"workload": name}
    data = {"data": workload.data_entry} if workload.data_entry else {}
    return {"model": workload.model_entry, **data}


def to_code(chosen: Mapping[str, Any], record: SweepRecord) -> str:
    """Return the module of Python that puts a choice to use; `Refusal` if there is none."""
    (implementation,) = chosen["spec"]["arms"]["implementations"]
    trials = [trial for trial in record.trials if trial.run_id in chosen["run_ids"]]
    program = usage_program(trials[0].arm, trials)
    if not program:
        raise Refusal(
            f"--code: expected an implementation of a Keras backend; received {implementation},"
            " whose code is the workload itself"
        )
    head = f"# {chosen['arm']}, with {config_phrase(chosen['config'])}"
    doubt = [f"# {_busy_doubt(chosen)}"] if chosen["disturbed_runs"] else []
    return "\n".join((head, *doubt, program))


def _busy_doubt(chosen: Mapping[str, Any]) -> str:
    """Write that the times of a choice are of a busy machine, and where it says what is decided."""
    command = f"rnnsweep report {shlex.quote(chosen['sweep'])}"
    return f"measured on a busy machine: {command} says which times are decided"


def choice_document(chosen: Mapping[str, Any]) -> Document:
    """Return the choice as a document, whose table has its facts."""
    limits = ", ".join(map(str, chosen["limits"]))
    within = f" with {limits}" if limits else ""
    out_of = f"out of {chosen['within']} of {chosen['tried']} configs × arms"
    rows: list[Row] = [
        ("chosen", f"to {chosen['direction']} {chosen['metric']}{within}, {out_of}"),
        ("arm", chosen["arm"]),
        ("config", config_phrase(chosen["config"])),
        *((metric, number(value)) for metric, value in chosen["values"].items()),
        ("runs", ", ".join(map(run_text, chosen["run_ids"]))),
    ]
    if chosen["disturbed_runs"]:
        rows.append(("doubt", _busy_doubt(chosen)))
    if chosen["different_mathematics"]:
        rows.append((f"left out: {DIFFERENT_MATHEMATICS}", joined(chosen["different_mathematics"])))
    head = ("sweep", f"{chosen['sweep']}#{chosen['generation']}, block {chosen['block']}")
    note = "--format yaml writes it as a spec that `rnnsweep run` takes."
    section = Section("", tables=(Table(head, tuple(rows)),), paragraphs=(note,))
    return Document(f"Best config of {chosen['sweep']}", (section,))


def to_yaml(chosen: Mapping[str, Any]) -> str:
    """Return the spec as YAML, with the facts of the choice as comments."""
    import yaml  # noqa: PLC0415

    (table,) = choice_document(chosen).sections[0].tables
    facts = "".join(f"# {name}: {text}\n" for name, text in (table.headers, *table.rows))
    return facts + yaml.safe_dump(chosen["spec"], sort_keys=False, allow_unicode=True)
