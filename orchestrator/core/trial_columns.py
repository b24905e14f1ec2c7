"""The columns of a trial's flat row, defined once for MLflow, Parquet and queries.

A new column is one `TrialColumn` in `COLUMNS`: all of these, and the table in `docs/mlflow.md`,
have it from there. A row also has a column for each setting of the config and for each metric;
metrics are defined in `workloads.metrics`.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestrator.core.disturbance import disturbance_text, neighbours_text, throttle_text
from orchestrator.core.selectors import known_implementation
from orchestrator.core.trial import FinishedTrial, Scalar
from workloads.backends.registry import is_compiled
from workloads.implementations import Implementation, ImplementationError, parse_implementation

CellKind: TypeAlias = Literal["whole", "number", "text", "truth", "time"]
Getter: TypeAlias = Callable[[FinishedTrial], Scalar | None]


@dataclass(frozen=True, slots=True)
class TrialColumn:
    """A column of every trial's row.

    Attributes:
        name: Its name in queries and Parquet, and the name of the param or tag in MLflow.
        kind: The type of its cells; a time is in seconds since the epoch.
        get: The trial's value, or None where it has none.
        description: What it is, for the documents.
        stored: Where an MLflow run has it: as a param (what was asked for), as a tag (what came
            of it), as an attribute of the run, or only in the record of the whole trial.
    """

    name: str
    kind: CellKind
    get: Getter
    description: str
    stored: Literal["param", "tag", "attribute", "record"] = "tag"


def _implementation_of(trial: FinishedTrial) -> Implementation | None:
    """Return the parts of the name of an arm's implementation; None for a name of another form.

    The parts of a name that a user's own workload chose may mean something else than ours.
    """
    try:
        return parse_implementation(trial.arm.implementation)
    except ImplementationError:
        return None


def _backend(trial: FinishedTrial) -> str | None:
    implementation = _implementation_of(trial)
    return implementation.backend if implementation else None


def _kernel(trial: FinishedTrial) -> str | None:
    implementation = _implementation_of(trial)
    return implementation.kernel if implementation else None


def _jit(trial: FinishedTrial) -> bool | None:
    implementation = known_implementation(trial.arm)
    return is_compiled(implementation) if implementation else None


def _precision(trial: FinishedTrial) -> str | None:
    """Return the precision that ran: the file of an own model may set it for the kernel auto."""
    implementation = known_implementation(trial.arm)
    return str(_fact(trial, "precision") or implementation.precision) if implementation else None


def _fact(trial: FinishedTrial, name: str) -> Scalar | None:
    """Return a fact of the environment in which the trial ran."""
    return trial.outcome.environment.get(name)


def _user_commit(trial: FinishedTrial) -> Scalar | None:
    """Return the commit of the user's repository; in 0.1.0 `git_commit` was rnnsweep's."""
    is_of_0_1 = "rnnsweep_commit" not in trial.outcome.environment
    return _fact(trial, "code_commit" if is_of_0_1 else "git_commit")


COLUMNS: tuple[TrialColumn, ...] = (
    TrialColumn(
        "run_id",
        "text",
        lambda trial: trial.run_id,
        "ID of the run in MLflow.",
        stored="attribute",
    ),
    TrialColumn(
        "trial_key",
        "text",
        lambda trial: trial.key,
        "Key of the trial, the same in every start of its sweep.",
    ),
    TrialColumn(
        "block",
        "whole",
        lambda trial: trial.block,
        "Number of the block (and of its config), from 0.",
    ),
    TrialColumn(
        "repeat",
        "whole",
        lambda trial: trial.repeat,
        "Number of the repeat in the block, from 0.",
        stored="param",
    ),
    TrialColumn(
        "arm",
        "text",
        lambda trial: str(trial.arm),
        "Variant, implementation, hardware and options.",
    ),
    TrialColumn(
        "variant",
        "text",
        lambda trial: trial.arm.variant_name,
        "Name of the variant, in sweeps with variants.",
    ),
    TrialColumn(
        "implementation",
        "text",
        lambda trial: trial.arm.implementation,
        "Backend, kernel and options: tensorflow/portable+xla.",
    ),
    TrialColumn(
        "backend",
        "text",
        _backend,
        "Backend of the implementation.",
        stored="param",
    ),
    TrialColumn(
        "kernel",
        "text",
        _kernel,
        "Requested kernel of the implementation.",
        stored="param",
    ),
    TrialColumn(
        "jit",
        "truth",
        _jit,
        "Whether XLA compiles the program.",
        stored="param",
    ),
    TrialColumn(
        "precision",
        "text",
        _precision,
        "Precision of the matrix products.",
        stored="param",
    ),
    TrialColumn(
        "hardware",
        "text",
        lambda trial: str(trial.arm.hardware),
        "Hardware class, with CPUs and threads if the spec sets them.",
    ),
    TrialColumn(
        "device",
        "text",
        lambda trial: trial.arm.device,
        "cpu or gpu.",
        stored="record",
    ),
    TrialColumn(
        "cpus",
        "whole",
        lambda trial: trial.arm.usage.cpus,
        "CPUs of the trial, if the spec sets them.",
        stored="param",
    ),
    TrialColumn(
        "threads",
        "whole",
        lambda trial: trial.arm.usage.threads,
        "Threads of the trainer, if the spec sets them.",
        stored="param",
    ),
    TrialColumn(
        "measure",
        "text",
        lambda trial: trial.arm.measure,
        "full or timing.",
        stored="record",
    ),
    TrialColumn(
        "node",
        "text",
        lambda trial: trial.node or None,
        "Name of the node.",
    ),
    TrialColumn(
        "seed",
        "whole",
        lambda trial: trial.seed,
        "Seed of the weights and the order of the batches, the same on all arms of a round.",
        stored="param",
    ),
    TrialColumn(
        "outcome",
        "text",
        lambda trial: trial.status,
        "complete, failed, wrong_kernel or pruned.",
    ),
    TrialColumn(
        "failure",
        "text",
        lambda trial: trial.failure.text if trial.failure else None,
        "Why the trial failed: a reason, and the first line of its message.",
    ),
    TrialColumn(
        "attempt",
        "whole",
        lambda trial: trial.attempt,
        "Number of attempts at the trial.",
    ),
    TrialColumn(
        "trainer_trials",
        "whole",
        lambda trial: trial.trainer_trials,
        "Earlier trials of the same trainer process; 0 in a fresh one.",
    ),
    TrialColumn(
        "started",
        "time",
        lambda trial: trial.started_s or None,
        "Start of the trial.",
        stored="attribute",
    ),
    TrialColumn(
        "ended",
        "time",
        lambda trial: trial.ended_s or None,
        "End of the trial.",
        stored="attribute",
    ),
    TrialColumn(
        "kernel_asked",
        "text",
        lambda trial: trial.kernel.asked if trial.kernel else None,
        "Requested kernel with its options.",
        stored="record",
    ),
    TrialColumn(
        "kernel_ran",
        "text",
        lambda trial: trial.kernel.ran if trial.kernel else None,
        "Kernel that ran.",
    ),
    TrialColumn(
        "kernel_evidence",
        "text",
        lambda trial: trial.kernel.evidence if trial.kernel else None,
        "Proof of the kernel that ran.",
    ),
    TrialColumn(
        "code",
        "text",
        lambda trial: _fact(trial, "code"),
        "Digest of the code of your own workload.",
    ),
    TrialColumn(
        "git_commit",
        "text",
        _user_commit,
        "Commit of the code of your own workload, with -dirty if files differ from it.",
    ),
    TrialColumn(
        "packages",
        "text",
        lambda trial: _fact(trial, "packages"),
        "Versions of the packages that your own workload imports.",
    ),
    TrialColumn(
        "energy_method",
        "text",
        lambda trial: trial.telemetry.energy_method,
        "How energy was measured.",
    ),
    TrialColumn(
        "energy_scope",
        "text",
        lambda trial: trial.telemetry.energy_scope,
        "Devices whose energy was measured: gpu, gpu+cpu_package or cpu_package.",
    ),
    TrialColumn(
        "energy_absent",
        "text",
        lambda trial: trial.telemetry.energy_absent,
        "Why energy was not measured.",
    ),
    TrialColumn(
        "throttle_reasons",
        "text",
        lambda trial: throttle_text(trial.telemetry.throttle_reasons),
        "Why GPU clocks were reduced, each reason with its share of the time.",
    ),
    TrialColumn(
        "neighbours",
        "text",
        lambda trial: neighbours_text(trial.telemetry),
        "Other trainers on the node, and other processes on the GPU.",
    ),
    TrialColumn(
        "cost_basis",
        "text",
        lambda trial: trial.cost_basis,
        "Prices from which the costs were computed.",
    ),
    TrialColumn(
        "disturbed",
        "text",
        lambda trial: disturbance_text(trial.disturbance),
        "What disturbed the trial, with figures; absent for a quiet trial.",
    ),
    TrialColumn(
        "round",
        "text",
        lambda trial: trial.round_id,
        "ID of the round; trials with the same ID took turns.",
    ),
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
    lower = {taken_name.lower() for taken_name in taken}
    while name.lower() in lower:
        name = f"{part}.{name}"
    return name
