"""The columns of a trial's flat row, defined once for MLflow, Parquet, CSV, queries and the page.

A row also has a column for each setting of the config and for each metric. Their names depend on
the workload; metrics have their units in their names.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.core.disturbance import disturbance_text, neighbours_text, throttle_text
from orchestrator.core.trial import ConfigValue, FinishedTrial, Kernel
from workloads.implementations import ImplementationError, parse_implementation

Kind: TypeAlias = Literal["whole", "number", "text", "truth", "time"]
Getter: TypeAlias = Callable[[FinishedTrial], ConfigValue | None]


@dataclass(frozen=True, slots=True)
class TrialColumn:
    """A column of every trial's row.

    `get` returns None for a missing value; a time is in seconds since the epoch. `stored` is the
    place of the value in an MLflow run: a param, a tag, an attribute of the run, or only the
    trial's record.
    """

    name: str
    kind: Kind
    get: Getter
    stored: Literal["param", "tag", "attribute", "record"] = "tag"


def _implementation(
    name: Literal["backend", "kernel", "jit", "precision"], *, known_only: bool = False
) -> Getter:
    """Return a getter of a part, or of an option that only known implementations have."""

    def get(trial: FinishedTrial) -> ConfigValue | None:
        try:
            parsed = parse_implementation(trial.arm.implementation, known_only=known_only)
        except ImplementationError:
            return None
        value: ConfigValue | None = getattr(parsed, name)
        return value

    return get


def _kernel(read: Callable[[Kernel], str]) -> Getter:
    return lambda trial: read(trial.kernel) if trial.kernel else None


def _fact(name: str) -> Getter:
    return lambda trial: trial.outcome.environment.get(name)


COLUMNS: tuple[TrialColumn, ...] = (
    TrialColumn("run_id", "text", lambda trial: trial.run_id, "attribute"),
    TrialColumn("trial_key", "text", lambda trial: trial.key),
    TrialColumn("block", "whole", lambda trial: trial.block),
    TrialColumn("repeat", "whole", lambda trial: trial.repeat, "param"),
    TrialColumn("arm", "text", lambda trial: str(trial.arm)),
    TrialColumn("variant", "text", lambda trial: trial.arm.variant_name),
    TrialColumn("implementation", "text", lambda trial: trial.arm.implementation),
    TrialColumn("backend", "text", _implementation("backend"), "param"),
    TrialColumn("kernel", "text", _implementation("kernel"), "param"),
    TrialColumn("jit", "truth", _implementation("jit", known_only=True), "param"),
    TrialColumn("precision", "text", _implementation("precision", known_only=True), "param"),
    TrialColumn("hardware", "text", lambda trial: str(trial.arm.hardware)),
    TrialColumn("device", "text", lambda trial: trial.arm.device, "record"),
    TrialColumn("cpus", "whole", lambda trial: trial.arm.usage.cpus, "param"),
    TrialColumn("threads", "whole", lambda trial: trial.arm.usage.threads, "param"),
    TrialColumn("measure", "text", lambda trial: trial.arm.measure, "record"),
    TrialColumn("node", "text", lambda trial: trial.node or None),
    TrialColumn("seed", "whole", lambda trial: trial.seed, "param"),
    TrialColumn("outcome", "text", lambda trial: trial.status),
    TrialColumn("failure", "text", lambda trial: trial.failure.text if trial.failure else None),
    TrialColumn("attempt", "whole", lambda trial: trial.attempt),
    TrialColumn("trainer_trials", "whole", lambda trial: trial.trainer_trials),
    TrialColumn("started", "time", lambda trial: trial.started_s or None, "attribute"),
    TrialColumn("ended", "time", lambda trial: trial.ended_s or None, "attribute"),
    TrialColumn("kernel_asked", "text", _kernel(lambda kernel: kernel.asked), "record"),
    TrialColumn("kernel_ran", "text", _kernel(lambda kernel: kernel.ran)),
    TrialColumn("kernel_evidence", "text", _kernel(lambda kernel: kernel.evidence)),
    *(TrialColumn(name, "text", _fact(name)) for name in ("code", "code_commit", "packages")),
    TrialColumn("energy_method", "text", lambda trial: trial.telemetry.energy_method),
    TrialColumn("energy_scope", "text", lambda trial: trial.telemetry.energy_scope),
    TrialColumn("energy_absent", "text", lambda trial: trial.telemetry.energy_absent),
    TrialColumn("throttle_reasons", "text", lambda t: throttle_text(t.telemetry.throttle_reasons)),
    TrialColumn("neighbours", "text", lambda trial: neighbours_text(trial.telemetry)),
    TrialColumn("cost_basis", "text", lambda trial: trial.cost_basis),
    TrialColumn("disturbed", "text", lambda trial: disturbance_text(trial.disturbance)),
    TrialColumn("round", "text", lambda trial: trial.round_id),
)

PARAMS = tuple(column for column in COLUMNS if column.stored == "param")
TAGS = tuple(column for column in COLUMNS if column.stored == "tag")


def config_names(trials: Iterable[FinishedTrial]) -> list[str]:
    """Return the names of all settings in the configs and variants of these trials, sorted."""
    return sorted({name for trial in trials for name in trial.params})


def metric_names(trials: Iterable[FinishedTrial]) -> list[str]:
    """Return the names of all metrics of these trials, sorted."""
    return sorted({name for trial in trials for name in trial.metrics})


def free_name(name: str, part: Literal["config", "metric"], taken: Collection[str]) -> str:
    """Return a name for a setting or metric: `config.NAME` or `metric.NAME` if NAME is taken.

    Names that differ only in case count as taken, because SQL does not distinguish them.
    """
    lower = {other.lower() for other in taken}
    while name.lower() in lower:
        name = f"{part}.{name}"
    return name
