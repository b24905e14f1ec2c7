"""The best config within limits: as text, as JSON, as code, and as a spec that can be run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from orchestrator.analysis.arms.best_configs import (
    ParetoPoint,
    config_points,
    means,
)
from orchestrator.analysis.arms.choice import ArmOnConfig, choose_arm
from orchestrator.analysis.arms.mathematics import compare_mathematics, has_equal_starts
from orchestrator.analysis.contrasts.contrast import Qualifier
from orchestrator.analysis.measures import MEASURES, by_arm
from orchestrator.analysis.pairing.baselines import baseline_of_spec
from orchestrator.analysis.pairing.complete_rounds import match, typical_disturbance
from orchestrator.analysis.pairing.margins import judged_margin
from orchestrator.analysis.results import USUAL_RESULTS, direction_of
from orchestrator.analysis.statistics.formatting import number
from orchestrator.core.arms import Arm
from orchestrator.core.caller import as_typed
from orchestrator.core.errors import Refusal
from orchestrator.core.formats import Format
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.core.selectors import names_arm
from orchestrator.core.text import counted, joined
from orchestrator.core.trial import Config, FinishedTrial
from orchestrator.report.best.program import implementation_program
from orchestrator.report.document import (
    Column,
    Document,
    Fact,
    Section,
    Table,
    Tone,
    make_table,
)
from orchestrator.report.formats.fragment import to_fragment
from orchestrator.report.formats.text import to_text
from orchestrator.report.names import config_phrase, run_text
from orchestrator.report.words import QUALIFIERS, busy_text
from orchestrator.spec import HardwareEntry
from orchestrator.spec.spec_errors import nearest
from workloads.metrics import COST_METRICS, METRICS, PER_SAMPLE, find_metric
from workloads.registry import UnknownWorkload, find_workload
from workloads.session_functions import SESSION_PACKAGE

_COMMENT_WIDTH = 98  # of a line of facts above the spec, without its comment sign

BEST = Format("a best config", 3, id="rnnsweep-best")


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


@dataclass(frozen=True, slots=True, repr=False)
class BestConfig:
    """A config and an arm, chosen by a `metric`; `print` and notebooks show it.

    Attributes:
        within: How many of the results (configs × arms) were within the `limits`.
        tried: How many results there were.
        other_mathematics: Arms that compute something else; they were left out.
        arm: The arm to use: of those that are equally good at this config, the fastest.
        values: The means of all metrics over the repeats.
        trials: The repeats.
        spec: A sweep of this config alone, for `run_sweep`.
        time_metric: The metric of the times in `arms`.
        arms: All arms on this config, with their means of the metric and the time.
        per_sample: The metric that compares times of batches of different sizes; empty if it is
            not needed.
    """

    sweep: str
    generation: int
    metric: str
    direction: Direction
    limits: tuple[Limit, ...]
    within: int
    tried: int
    other_mathematics: tuple[Arm, ...]
    block: int
    arm: Arm
    config: Config
    values: Mapping[str, float]
    trials: tuple[FinishedTrial, ...]
    spec: Mapping[str, Any]
    time_metric: str | None
    arms: tuple[ArmOnConfig, ...]
    per_sample: str = ""

    def __repr__(self) -> str:
        """Return what was chosen, in a line."""
        chosen = f"{config_phrase(self.config)} on {self.arm}"
        return f"<BestConfig of {self.label} by {self.metric}: {chosen}>"

    def __str__(self) -> str:
        """Return the choice, as `rnnsweep best` prints it."""
        return to_text(choice_document(self)).rstrip()

    def _repr_html_(self) -> str:
        return to_fragment(choice_document(self))

    @property
    def label(self) -> str:
        """The name of the sweep, with the generation if it is not the first: `quickstart#2`."""
        return self.sweep if self.generation == 1 else f"{self.sweep}#{self.generation}"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The IDs of its runs in MLflow."""
        return tuple(trial.run_id for trial in self.trials)

    @property
    def disturbed_runs(self) -> int:
        """The number of its runs that other processes disturbed."""
        return sum(bool(trial.disturbance) for trial in self.trials)

    def code(self) -> str:
        """Return Python code that uses the implementation, as `rnnsweep best --code` prints it.

        Raise `Refusal` for an implementation of your own workload.
        """
        program = implementation_program(self.arm, self.trials)
        if not program:
            raise Refusal(
                f"{as_typed('--code', 'code()')}: there is no code to print for"
                f" {self.arm.implementation}, because your own workload implements it"
            )
        head = f"# {self.arm}, with {config_phrase(self.config)}"
        doubts = (f"# {doubt.label}: {doubt.text}" for doubt in _doubts(self))
        return "\n".join((head, *doubts, program))

    def as_json(self) -> dict[str, Any]:
        """Return the choice as one versioned object; its `code` is empty if it has none."""
        return {
            **BEST.head(),
            "sweep": self.sweep,
            "generation": self.generation,
            "metric": self.metric,
            "direction": self.direction,
            "limits": self.limits,
            "within": self.within,
            "tried": self.tried,
            "other_mathematics": [*map(str, self.other_mathematics)],
            "block": self.block,
            "arm": str(self.arm),
            "config": self.config,
            "values": self.values,
            "run_ids": self.run_ids,
            "disturbed_runs": self.disturbed_runs,
            "code": implementation_program(self.arm, self.trials),
            "spec": self.spec,
            "time_metric": self.time_metric,
            "arms": [
                {
                    "arm": str(row.arm),
                    "candidacy": row.candidacy,
                    "value": row.value,
                    "time": row.time,
                    "reason": row.reason,
                }
                for row in self.arms
            ],
        }


def choose(
    record: SweepRecord, metric: str | None = None, limits: Sequence[Limit] = (), arm: str = "*"
) -> BestConfig:
    """Return the config with the best mean of a metric within the limits, on its fastest equal arm.

    The metric is by default the first objective without a limit, else an accuracy, unless one has a
    limit, else the time per step or prediction. If the trials have none of these, it is an
    objective in spite of its limit. Limits are of means over repeats. Of the arms that are equal at
    a result on the best config (see `ArmChoice`), the one that takes least time is chosen. An arm
    of other mathematics is chosen only if `arm` names it. `Refusal` if there is none.
    """
    ended = by_arm(record)
    mathematics = compare_mathematics(ended, baseline_of_spec(record))
    different = [a for a, m in mathematics.items() if m.is_different] if arm == "*" else []
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
    has_equal_mathematics = find_metric(wanted).is_result and has_equal_starts(
        record.workload, record.settings
    )
    choice = choose_arm(
        within,
        wanted,
        direction,
        margin_of=partial(_margin, record, wanted),
        mathematics=mathematics if has_equal_mathematics else {},
        trials={name: of_arm for name, of_arm in ended.items() if names_arm(arm, name)},
        left_out=dict.fromkeys(different, QUALIFIERS[Qualifier.OTHER_MATHEMATICS]),
        outside=[point for point in points if point not in within],
    )
    best = choice.chosen
    batch_sizes = {trial.params.get("batch_size") for trial in trials}
    of_choice = [trial for trial in trials if (trial.block, trial.arm) == (best.block, best.arm)]
    return BestConfig(
        sweep=record.name,
        generation=record.generation,
        metric=wanted,
        direction=direction,
        limits=tuple(limits),
        within=len(within),
        tried=len(points),
        other_mathematics=tuple(sorted(different, key=str)),
        block=best.block,
        arm=best.arm,
        config=best.config,
        values={**best.values, **means(of_choice, [measure.metric for measure in MEASURES])},
        trials=tuple(of_choice),
        spec=_spec_of(record, best.arm, best.config, of_choice),
        time_metric=choice.time_metric,
        arms=choice.arms,
        per_sample=PER_SAMPLE.get(wanted, "") if len(batch_sizes) > 1 else "",
    )


def _margin(record: SweepRecord, metric: str, value: float) -> float:
    """Return the difference of a result that does not matter; 0 for a time or another expense."""
    if not find_metric(metric).is_result:
        return 0.0
    return judged_margin(record, match(record), metric, value).value


def _several_scopes(scopes: Sequence[str]) -> str:
    option = as_typed("--arm", "arm=")
    return f"the energies are of different devices ({joined(scopes)}): choose an arm ({option})"


def _not_measured(name: str, measured: Collection[str]) -> str:
    """Write which metrics the trials have, or which one of them a misspelt name means."""
    is_known = name in {metric.name for metric in METRICS}
    meant = "" if is_known else nearest(name, measured)
    hint = meant or f"metrics: {', '.join(sorted(measured))}"
    return f"no trial has the metric {name!r}; {hint}"


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
    count = f"of {len(points)} complete results"
    return f"no config has {bounds}: {count}, {joined(nearest_values)}"


def _spec_of(
    record: SweepRecord, arm: Arm, config: Config, trials: Sequence[FinishedTrial]
) -> dict[str, Any]:
    """Return the spec of a sweep of one config on one arm, with the objectives of its trials.

    Without prices it has no cost.
    """
    hardware, usage = arm.hardware_class, arm.usage
    objectives = {
        name: direction
        for name, direction in record.objectives.items()
        if name not in COST_METRICS and any(name in trial.metrics for trial in trials)
    }
    entry = HardwareEntry(selector=hardware.name, cpus=usage.cpus, threads=usage.threads)
    return {
        "name": f"{record.name[:59]}-best",  # a name has 64 characters at most
        **workload_keys(record.workload),
        "settings": {**record.settings, **arm.settings},
        "search": {"configs": [dict(config)], "objectives": objectives},
        "arms": {
            "implementations": [arm.implementation],
            "hardware": [entry.model_dump(mode="json", exclude_defaults=True)],
        },
        "measure": usage.measure,
        "seed": record.seed,
    }


def workload_keys(name: str) -> dict[str, str]:
    """Return the keys of a spec that name this workload: `workload`, or `model` and its others."""
    try:
        workload = find_workload(name)
    except UnknownWorkload:  # of another version of rnnsweep
        return {"workload": name}
    if workload.model_entry is None:
        return {"workload": name}
    entries = {
        "model": workload.model_entry,
        "data": workload.data_entry,
        "callbacks": workload.callbacks_entry,
    }
    return {key: entry for key, entry in entries.items() if entry}


def _doubts(chosen: BestConfig) -> tuple[Fact, ...]:
    """Return what limits the times of a choice, with the command that has the verdicts on them."""
    doubts = list[Fact]()
    if chosen.per_sample:
        text = f"larger ones take longer; to compare times per sample: --metric {chosen.per_sample}"
        doubts.append(Fact("batch sizes", text, Tone.DOUBT))
    if not chosen.disturbed_runs:
        return tuple(doubts)
    disturbed = [trial.disturbance for trial in chosen.trials if trial.disturbance]
    runs = f"{len(disturbed)} of {counted(len(chosen.trials), 'run')}"
    command = f"rnnsweep report {shlex.quote(chosen.sweep)}"
    text = f"{busy_text(typical_disturbance(disturbed))} in {runs}; for verdicts: {command}"
    return (*doubts, Fact(QUALIFIERS[Qualifier.BUSY], text, Tone.DOUBT))


def _use(chosen: BestConfig) -> str:
    """Return how a choice is run as a sweep, and put to use."""
    if of_session := _use_in_session(chosen):
        return of_session
    uses = [as_typed("as a spec: --format yaml", "as a spec: `spec`")]
    if implementation_program(chosen.arm, chosen.trials):
        uses.append(as_typed("as code: --code", "as code: `code()`"))
    return " · ".join(uses)


def _use_in_session(chosen: BestConfig) -> str:
    """Return how a sweep of functions of a notebook or a script is run; empty for other code."""
    prefix = f"{SESSION_PACKAGE}:"
    keys = ("workload", "model", "data", "callbacks")
    names = {key: str(chosen.spec.get(key, "")) for key in keys}
    functions = ", ".join(
        f'"{key}": {name.removeprefix(prefix)}'
        for key, name in names.items()
        if name.startswith(prefix)
    )
    if not functions:
        return ""
    call = f"run_sweep({{**choice.spec, {functions}}})"
    return f"as a sweep, in the session that defines its functions: `{call}`"


def choice_document(chosen: BestConfig) -> Document:
    """Return the choice as a document: its facts, the other arms, and its means."""
    section = replace(_choice_section(chosen), notes=(_use(chosen),))
    return Document(f"Best config of {chosen.sweep}", (section,))


def _choice_section(chosen: BestConfig) -> Section:
    limits = ", ".join(map(str, chosen.limits))
    within = f" with {limits}" if limits else ""
    out_of = f"among the {chosen.within} of {chosen.tried} results that qualify"
    return Section(
        "",
        facts=(
            Fact("chosen", f"to {chosen.direction} {chosen.metric}{within}, {out_of}", Tone.GOOD),
            Fact("arm", str(chosen.arm)),
            Fact("config", config_phrase(chosen.config)),
            Fact("sweep", f"{chosen.sweep}#{chosen.generation}, block {chosen.block}"),
            Fact("runs", ", ".join(map(run_text, chosen.run_ids))),
        ),
        tables=(*_table_of_arms(chosen), _table_of_values(chosen)),
        doubts=_doubts(chosen),
    )


def _table_of_arms(chosen: BestConfig) -> Iterator[Table]:
    """Yield a table of all arms on the config; none for one arm."""
    if len(chosen.arms) < 2:
        return
    columns: list[Column[ArmOnConfig]] = [
        Column("arm on this config", lambda row: str(row.arm)),
        Column("", lambda row: row.candidacy),
        Column(chosen.metric, lambda row: row.value),
    ]
    if chosen.time_metric not in (None, chosen.metric):
        columns.append(Column(chosen.time_metric, lambda row: row.time))
    columns.append(Column("reason", lambda row: row.reason, optional=True))
    yield make_table(columns, chosen.arms)


def _table_of_values(chosen: BestConfig) -> Table:
    runs = counted(len(chosen.trials), "run")
    columns: list[Column[tuple[str, float]]] = [
        Column("metric", itemgetter(0)),
        Column(f"mean of {runs}", itemgetter(1)),
    ]
    return make_table(columns, chosen.values.items())


def to_yaml(chosen: BestConfig) -> str:
    """Return the spec as YAML, with the facts of the choice as comments."""
    import yaml  # noqa: PLC0415

    section = _choice_section(chosen)
    if of_session := _use_in_session(chosen):
        section = replace(section, notes=(of_session,))
    text = to_text(Document("", (section,)), _COMMENT_WIDTH)
    comments = "".join(f"{f'# {line}'.rstrip()}\n" for line in text.splitlines())
    return comments + yaml.safe_dump(dict(chosen.spec), sort_keys=False, allow_unicode=True)
