"""The best config within limits: as text, as JSON, and as a spec that can be run."""

import shlex
from collections.abc import Collection, Mapping, Sequence
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
from workloads.metrics import METRICS
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
    limit, else the time per step or prediction. If the trials have none of these, it is an
    objective in spite of its limit. Limits are of means over repeats. An arm of different
    mathematics is chosen only if `arm` names it. The result is plain data, with the `spec` of a
    sweep of this config alone. `Refusal` if there is none.
    """
    different = different_arms(record.trials, baseline_of_spec(record)) if arm == "*" else ()
    trials = [t for t in record.trials if names_arm(arm, t.arm) and t.arm not in different]
    measured = {name for t in trials if t.status == "complete" for name in t.metrics}
    limited = [limit.metric for limit in limits]
    accuracies = () if USUAL_RESULTS.keys() & limited else tuple(USUAL_RESULTS)
    if not measured:
        where = "" if arm == "*" else f" on {arm}"
        raise Refusal(f"{record.name}: no trial{where} is complete")
    unlimited = [name for name in (*record.objectives, *accuracies) if name not in limited]
    usual = (*unlimited, "step_ms", "predict_ms", *record.objectives, *limited)
    wanted = metric or next((name for name in usual if name in measured), "step_ms")
    for name in (wanted, *limited):
        if name not in measured:
            raise Refusal(f"{record.name}: {_not_measured(name, measured)}")
    points = config_points(trials, dict.fromkeys((wanted, *limited)))
    within = [p for p in points if all(limit.allows(p.values[limit.metric]) for limit in limits)]
    scopes = sorted({point.scope for point in within})
    if len(scopes) != 1:
        reason = _several_scopes(scopes) if scopes else _none_within(limits, points)
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


def _not_measured(name: str, measured: Collection[str]) -> str:
    """Write which metrics the trials have, or which one of them a misspelt name means."""
    is_known = name in {metric.name for metric in METRICS}
    meant = "" if is_known else nearest(name, measured)
    hint = meant or f"they have {', '.join(sorted(measured))}"
    return f"expected a metric of its trials, received {name!r}: {hint}"


def _none_within(limits: Sequence[Limit], points: Sequence[ParetoPoint]) -> str:
    """Write that no config is within the limits, and how near to each of them configs come."""
    if not points:
        return "no config has these metrics in all of its repeats"
    nearest_values = []
    for limit in limits:
        values = [point.values[limit.metric] for point in points]
        which, value = ("highest", max(values)) if limit.sign == "≥" else ("lowest", min(values))
        nearest_values.append(f"the {which} {limit.metric} is {number(value)}")
    bounds = joined([str(limit) for limit in limits])
    count = f"of {len(points)} complete configs × arms"
    return f"no config has {bounds}: {count}, {joined(nearest_values)}"


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
