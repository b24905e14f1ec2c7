"""The registry of metrics: every number that a trial is measured by, defined once.

A new metric is one `Metric` in `METRICS`, and the line that computes it: in the workload, in the
telemetry, or, for a metric that follows from others, in `orchestrator.analysis.measures.DERIVED`.
What reads the registry:

- the objectives and published metrics that a spec may name, and their descriptions in its schema;
- the metrics of the built-in workloads;
- the metrics that a pruned trial keeps, and the metrics of a timing trial;
- the columns that a query may name although no trial has them;
- the tables, rankings and trade-offs of the report;
- the table of metrics in `docs/mlflow.md`.

A workload of a user's own returns any metrics; one that is not in the registry has the label and
the unit that its name gives it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workloads.protocol import TimedWork

MeasuredBy: TypeAlias = Literal["trainer", "telemetry", "orchestrator", "prices", "report"]
"""What computes a metric: the trainer process, the sensors outside of it, the orchestrator from
times or from prices, or the report from other metrics."""

MeasuredIn: TypeAlias = Literal[
    "full", "slices", "predictions", "pruned", "each epoch", "each slice"
]
"""The trials that end with a metric: whole trainings, timing trials of training steps or of
predictions, trials that a pruner ended. And where it has a value more than once in a
trial: after each epoch or slice."""

ComparableOver: TypeAlias = Literal["any", "warm", "fresh", "alike"]
"""The trials whose values are comparable: all of them, all but the first one of their trainer
process (which includes its start-up), only the first one (later ones include its memory), or the
trials of a round whose trainers have all just started, or none."""

ReportTable: TypeAlias = Literal["measures", "expenses", "telemetry", "noise"]
"""The tables of the report: what arms achieve, what a trial costs, the medians of telemetry, and
the conditions whose spread tells how even the trials were."""

Better: TypeAlias = Literal["less", "more"]

ANY_WORKLOAD = "any"
TRAINING = "training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        name: The name that records, MLflow, queries and specs use. It ends in the recorded unit:
            `_s`, `_ms`, `_mib`, `_j`, `_pct`.
        description: What it is, as one sentence.
        label: The title in tables of the report, without the unit. The name if empty.
        unit: The unit in which the report shows it.
        recorded_per_unit: How many of the recorded unit are one `unit`: 1e9 for FLOP and GFLOP.
        better: Whether less or more of it is better. None where neither is, such as for a clock.
        measured_by: What computes it.
        measured_in: The trials that have it.
        workload: The built-in workloads whose trainer reports it: `any`, `training` (all that train
            a model by epochs), or the name of one.
        comparable_over: The trials whose values are comparable.
        reported_in: The tables of the report that show it.
        is_objective: Whether a spec may name it as an objective.
        needs_setting: A setting of the workload without which no trial reports it.
        has_energy_scope: Whether its values are comparable only within one `energy_scope` (the
            devices whose energy was measured).
        is_compared: Whether arms are compared by it, apart from times and results.
        is_traded_for_accuracy: Whether the report has the Pareto front of accuracy against it.
        is_result: Whether it tells how good the trained model is. The arms' results are compared.
    """

    name: str
    description: str
    label: str = ""
    unit: str = ""
    recorded_per_unit: float = 1.0
    better: Better | None = None
    measured_by: MeasuredBy = "trainer"
    measured_in: tuple[MeasuredIn, ...] = ("full",)
    workload: str = ANY_WORKLOAD
    comparable_over: ComparableOver = "any"
    reported_in: tuple[ReportTable, ...] = ()
    is_objective: bool = True
    needs_setting: str | None = None
    has_energy_scope: bool = False
    is_compared: bool = False
    is_traded_for_accuracy: bool = False
    is_result: bool = False

    @property
    def is_of_trials(self) -> bool:
        """Whether a trial ends with it, and so its row has a column of it."""
        is_recorded = self.measured_by != "report"
        kinds = {"full", "slices", "predictions", "pruned"}
        return is_recorded and not kinds.isdisjoint(self.measured_in)

    def is_of(self, workload: str, *, trains: bool) -> bool:
        """Return whether whole trials of a built-in workload end with it, each of them.

        `trains` is whether the workload trains a model by epochs. `import_s` is excluded, and so is
        what else cannot be an objective: only the first trial of a process has it.
        """
        is_its_own = self.workload in (ANY_WORKLOAD, workload)
        is_its_own = is_its_own or (trains and self.workload == TRAINING)
        is_from_trainer = self.measured_by == "trainer" and self.is_objective
        return is_its_own and is_from_trainer and "full" in self.measured_in


_EVERY_TRIAL: tuple[MeasuredIn, ...] = ("full", "slices", "predictions", "pruned")
_EVERY_TRAINING: tuple[MeasuredIn, ...] = ("full", "slices", "pruned")
_EVERY_SLICED: tuple[MeasuredIn, ...] = ("slices", "predictions")
_EVERY_FULL: tuple[MeasuredIn, ...] = ("full", "pruned")
_SLICES_OF: Mapping[TimedWork, MeasuredIn] = {"train": "slices", "predict": "predictions"}
_FULL_AND_EACH_EPOCH: tuple[MeasuredIn, ...] = ("full", "each epoch")

METRICS: tuple[Metric, ...] = (
    # Times per step, and rates
    Metric(
        name="step_ms",
        description="Time of a training step, in the fastest slice.",
        label="step",
        unit="ms",
        better="less",
        measured_in=_EVERY_TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="step_ms_median",
        description="Median time of single, synchronised steps.",
        label="median step",
        unit="ms",
        better="less",
        measured_in=_EVERY_FULL,
        reported_in=("measures",),
    ),
    Metric(
        name="step_ms_p95",
        description="95th percentile of the time of single, synchronised steps.",
        label="p95 step",
        unit="ms",
        better="less",
        measured_in=_EVERY_FULL,
        reported_in=("measures",),
    ),
    Metric(
        name="forward_ms",
        description="Time of a forward pass alone.",
        label="forward",
        unit="ms",
        better="less",
        workload="synthetic",
        reported_in=("measures",),
    ),
    Metric(
        name="sample_us",
        description="Training time per sample.",
        label="sample",
        unit="µs",
        better="less",
        measured_in=_EVERY_TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="samples_per_s",
        description="Training samples per second.",
        label="rate",
        unit="samples/s",
        better="more",
        measured_in=_EVERY_TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="predict_ms",
        description="Time to predict a batch, in the fastest slice.",
        label="prediction",
        unit="ms",
        better="less",
        measured_in=("predictions",),
        reported_in=("measures",),
    ),
    Metric(
        name="predict_sample_us",
        description="Prediction time per sample, in batches.",
        label="predicted sample",
        unit="µs",
        better="less",
        measured_in=("predictions",),
        reported_in=("measures",),
    ),
    Metric(
        name="predictions_per_s",
        description="Predicted samples per second.",
        label="prediction rate",
        unit="samples/s",
        better="more",
        measured_in=("predictions",),
        reported_in=("measures",),
    ),
    Metric(
        name="cpu_over_wall",
        description="CPU time of the trainer divided by elapsed time: how many CPUs it used.",
        measured_in=_EVERY_TRIAL,
    ),
    Metric(
        name="model_flops_per_step",
        description="Floating-point operations of a step or a predicted batch, calculated from the "
        "model's sizes.",
        measured_in=_EVERY_TRIAL,
    ),
    Metric(
        name="model_flops_per_s",
        description="Floating-point operations of the model per second.",
        label="model rate",
        unit="GFLOP/s",
        recorded_per_unit=1e9,
        better="more",
        measured_in=_EVERY_TRIAL,
        reported_in=("measures",),
    ),
    Metric(
        name="peak_flops_per_s",
        description="Measured peak of the GPU: floating-point operations per second of a matrix "
        "product.",
        better="more",
    ),
    Metric(
        name="model_flops_utilization_pct",
        description="model_flops_per_s as a share of peak_flops_per_s, on a GPU.",
        label="of the GPU's peak",
        unit="%",
        better="more",
        reported_in=("measures",),
    ),
    # Training and its result
    Metric(
        name="train_s",
        description="Time of the timed epochs, without validation.",
        label="train",
        unit="s",
        better="less",
        reported_in=("measures",),
        is_traded_for_accuracy=True,
    ),
    Metric(
        name="train_samples",
        description="Training samples of the timed epochs.",
    ),
    Metric(
        name="train_epochs",
        description="Timed epochs: fewer than settings.epochs if a callback stopped the training.",
    ),
    Metric(name="steps_s", description="Time spent on timing single steps.", better="less"),
    Metric(
        name="forward_s",
        description="Time spent on timing forward passes.",
        better="less",
        workload="synthetic",
    ),
    Metric(
        name="validate_s",
        description="Time of all validations after epochs.",
        label="validate",
        unit="s",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="callbacks_s",
        description="Total time of your callbacks between epochs; not part of train_s.",
        label="callbacks",
        unit="s",
        better="less",
        workload=TRAINING,
        reported_in=("expenses",),
        is_objective=False,
    ),
    Metric(
        name="time_to_accuracy_s",
        description="Training time until the validation accuracy reached target_accuracy.",
        label="time to accuracy",
        unit="s",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
        needs_setting="target_accuracy",
    ),
    Metric(
        name="loss",
        description="Loss on the training data; a trial has the value of its last epoch.",
        better="less",
        measured_in=_FULL_AND_EACH_EPOCH,
        workload=TRAINING,
        reported_in=("measures",),
        is_result=True,
    ),
    Metric(
        name="accuracy",
        description="Accuracy on the training data; a trial has the value of its last epoch.",
        better="more",
        measured_in=_FULL_AND_EACH_EPOCH,
        workload=TRAINING,
        reported_in=("measures",),
        is_result=True,
    ),
    Metric(
        name="val_loss",
        description="Loss on the validation data; a trial has the value after its last epoch.",
        better="less",
        measured_in=_FULL_AND_EACH_EPOCH,
        workload=TRAINING,
        reported_in=("measures",),
        is_result=True,
    ),
    Metric(
        name="val_accuracy",
        description="Accuracy on the validation data; a trial has the value after its last epoch.",
        better="more",
        measured_in=_FULL_AND_EACH_EPOCH,
        workload=TRAINING,
        reported_in=("measures",),
        is_result=True,
    ),
    Metric(
        name="bits_per_char",
        description="Loss on the training text, in bits per character.",
        better="less",
        workload="char_rnn",
        reported_in=("measures",),
        is_result=True,
    ),
    Metric(
        name="val_bits_per_char",
        description="Loss on the validation text, in bits per character.",
        better="less",
        workload="char_rnn",
        reported_in=("measures",),
        is_result=True,
    ),
    Metric(
        name="evaluate_s",
        description="Time of evaluate on the validation data, after the training.",
        label="evaluate",
        unit="s",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="predict_s",
        description="Time of predict on the validation data.",
        label="predict",
        unit="s",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="predict_sample_ms",
        description="Median time to predict a single sample, from host to host; none for stateful "
        "models.",
        label="predict one",
        unit="ms",
        better="less",
        workload=TRAINING,
        reported_in=("measures",),
    ),
    Metric(
        name="latency_s",
        description="Time spent on timing single predictions.",
        better="less",
        workload=TRAINING,
    ),
    Metric(
        name="sample_s",
        description="Time to generate the sample text.",
        better="less",
        workload="char_rnn",
    ),
    # Slices
    Metric(name="slices", description="Number of slices.", measured_in=_EVERY_SLICED),
    Metric(
        name="slice_steps",
        description="Mean number of steps in a slice.",
        measured_in=_EVERY_SLICED,
    ),
    Metric(
        name="timed_s",
        description="Total time of all slices.",
        better="less",
        measured_in=_EVERY_SLICED,
    ),
    Metric(
        name="ratio_interval",
        description="Half-width of the interval of the time ratio to the round's first arm, as a "
        "share.",
        better="less",
        measured_in=_EVERY_SLICED,
    ),
    Metric(
        name="slice_step_ms",
        description="Time of a step, or to predict a batch, in one slice.",
        better="less",
        measured_in=("each slice",),
        is_objective=False,
    ),
    Metric(
        name="slice_s",
        description="Time of one slice.",
        measured_in=("each slice",),
        is_objective=False,
    ),
    # The machine during a trial
    Metric(
        name="mean_gpu_utilization_pct",
        description="Mean share of the time that the GPU was in use.",
        label="GPU use",
        unit="%",
        better="more",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("measures", "telemetry"),
        is_objective=False,
    ),
    Metric(
        name="trainer_cpu_pct",
        description="CPU time of the trainer, in percent of its CPUs.",
        label="CPU use",
        unit="%",
        measured_by="telemetry",
        measured_in=_EVERY_FULL,
        reported_in=("telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="others_cpu_pct",
        description="CPU time of other processes, in percent of the trainer's CPUs.",
        label="other processes",
        unit="% of CPUs",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="steal_pct",
        description="CPU time that the host of a virtual machine took, in percent of the CPUs.",
        label="taken by the host",
        unit="%",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="sm_clock_mhz",
        description="Mean clock of the GPU's multiprocessors.",
        label="GPU clock",
        unit="MHz",
        better="more",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="clock_drop_pct",
        description="How far the mean clock was below the device's highest clock.",
        label="below full clock",
        unit="%",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="throttled_pct",
        description="Share of the time with a reduced clock.",
        label="throttled",
        unit="% of time",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="max_temperature_c",
        description="Highest temperature of the device.",
        label="hottest",
        unit="°C",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("measures", "telemetry", "noise"),
        is_objective=False,
    ),
    Metric(
        name="telemetry_cpu_pct",
        description="CPU time of the telemetry itself, in percent of one CPU.",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        is_objective=False,
    ),
    # Before the training
    Metric(
        name="queue_s",
        description="Time from the assignment of the trial to its start on the node.",
        better="less",
        measured_by="orchestrator",
        measured_in=_EVERY_TRIAL,
    ),
    Metric(
        name="setup_s",
        description="Time until a trainer process was ready.",
        better="less",
        measured_by="orchestrator",
        measured_in=_EVERY_TRIAL,
    ),
    Metric(
        name="import_s",
        description="Time to import the framework, next to the other trainers of the round; only in"
        " the first trial of a trainer process.",
        better="less",
        measured_in=("full", *_EVERY_SLICED),
        is_objective=False,
    ),
    Metric(
        name="load_s",
        description="Time to load the data.",
        label="load",
        unit="s",
        better="less",
        measured_in=_EVERY_TRIAL,
        comparable_over="warm",
        reported_in=("measures",),
    ),
    Metric(
        name="check_s",
        description="Time to compute the outputs and gradients that are compared between arms; "
        "only in the first trial of an arm in a block. No other time includes it.",
        better="less",
        measured_in=_EVERY_TRIAL,
        is_objective=False,
    ),
    Metric(
        name="compile_s",
        description="Time to build and compile the model: the first warm-up pass minus an "
        "identical second one.",
        label="compile",
        unit="s",
        better="less",
        measured_in=_EVERY_TRIAL,
        comparable_over="warm",
        reported_in=("measures",),
    ),
    Metric(
        name="whole_train_s",
        description="Time of a whole training: compile_s and train_s.",
        label="train with compiling",
        unit="s",
        better="less",
        measured_by="report",
        comparable_over="alike",
        reported_in=("measures",),
        is_objective=False,
    ),
    # Expenses
    Metric(
        name="epoch_s",
        description="Time of an epoch without validation; the report has the mean over a trial.",
        label="epoch",
        unit="s",
        better="less",
        measured_by="report",
        measured_in=_FULL_AND_EACH_EPOCH,
        reported_in=("expenses",),
        is_objective=False,
    ),
    Metric(
        name="epoch_validate_s",
        description="Time of the validation after an epoch.",
        better="less",
        measured_in=("each epoch",),
        is_objective=False,
    ),
    Metric(
        name="fit_s",
        description="Time of the timed epochs, including validation.",
        label="fit",
        unit="s",
        better="less",
        measured_by="report",
        reported_in=("expenses",),
        is_objective=False,
    ),
    Metric(
        name="energy_j",
        description="Energy of the devices in energy_scope during the timed part.",
        label="energy",
        unit="J",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("expenses", "telemetry"),
        has_energy_scope=True,
        is_traded_for_accuracy=True,
    ),
    Metric(
        name="energy_gpu_j",
        description="Energy of the GPUs during the timed part.",
        label="energy of the GPUs",
        unit="J",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("expenses",),
        is_objective=False,
    ),
    Metric(
        name="energy_cpu_package_j",
        description="Energy of the CPU packages during the timed part of a trial on a GPU.",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        is_objective=False,
    ),
    Metric(
        name="mean_power_w",
        description="energy_j divided by the time of its measurement.",
        label="power",
        unit="W",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_TRIAL,
        reported_in=("expenses", "telemetry"),
        has_energy_scope=True,
    ),
    Metric(
        name="energy_per_sample_j",
        description="Energy per training sample.",
        label="energy per sample",
        unit="mJ",
        recorded_per_unit=1e-3,
        better="less",
        measured_by="telemetry",
        reported_in=("expenses",),
        has_energy_scope=True,
        is_compared=True,
    ),
    Metric(
        name="train_cost_usd",
        description="Cost of the hardware and the energy of the timed epochs.",
        label="cost of the timed epochs",
        unit="USD",
        better="less",
        measured_by="prices",
        reported_in=("expenses",),
        is_compared=True,
        is_traded_for_accuracy=True,
    ),
    Metric(
        name="cost_usd",
        description="Cost of the hardware and the energy of the whole trial.",
        label="cost per trial",
        unit="USD",
        better="less",
        measured_by="prices",
        measured_in=_EVERY_TRIAL,
        reported_in=("expenses",),
    ),
    # Memory
    Metric(
        name="peak_rss_mib",
        description="Peak resident memory of the trainer process.",
        label="peak memory",
        unit="MiB",
        better="less",
        measured_in=_EVERY_TRIAL,
        comparable_over="fresh",
        reported_in=("measures",),
        is_compared=True,
        is_traded_for_accuracy=True,
    ),
    Metric(
        name="peak_gpu_mib",
        description="Peak GPU memory that the framework allocated.",
        label="peak GPU memory",
        unit="MiB",
        better="less",
        measured_in=_EVERY_TRIAL,
        comparable_over="fresh",
        reported_in=("measures",),
        is_compared=True,
        is_traded_for_accuracy=True,
    ),
    Metric(
        name="peak_gpu_used_mib",
        description="Peak GPU memory in use by all processes on the device.",
        better="less",
        measured_by="telemetry",
        measured_in=_EVERY_FULL,
        is_objective=False,
    ),
)
"""All metrics. The tables of the report have their rows and columns in this order."""

BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}

PER_SAMPLE: Mapping[str, str] = {"step_ms": "samples_per_s", "predict_ms": "predictions_per_s"}
"""The times of a batch, with the rate of samples: what compares unlike batches."""

EPOCH_METRICS: tuple[str, ...] = tuple(
    metric.name for metric in METRICS if metric.is_objective and "each epoch" in metric.measured_in
)
"""What built-in workloads that train report after each epoch, too: a pruner decides by these."""

PRUNED_METRICS: frozenset[str] = frozenset(
    metric.name
    for metric in METRICS
    if metric.measured_by == "trainer" and "pruned" in metric.measured_in
)
"""What a pruned trial of any workload keeps of its trainer's metrics: the others describe a whole
training."""

OUTSIDE_OBJECTIVES: tuple[str, ...] = tuple(
    metric.name
    for metric in METRICS
    if metric.is_objective and metric.measured_by in ("telemetry", "orchestrator")
)
"""Objectives of trials of any workload, measured outside of the trainer."""

COST_METRICS: tuple[str, ...] = tuple(
    metric.name for metric in METRICS if metric.measured_by == "prices"
)
"""Objectives of trials of a spec with prices."""

DERIVED_METRICS: tuple[str, ...] = tuple(
    metric.name for metric in METRICS if metric.measured_by == "report"
)
"""What the report computes from the metrics and the epochs of a trial."""

FRESH_ONLY: tuple[str, ...] = tuple(
    metric.name for metric in METRICS if metric.comparable_over == "fresh"
)
"""Peaks of memory: comparable only between first trials of their trainer process."""

WITH_ENERGY_SCOPE: frozenset[str] = frozenset(
    metric.name for metric in METRICS if metric.has_energy_scope
)
"""Metrics whose values are not comparable if they have different scopes of energy."""


def sliced_metrics(timed_work: TimedWork) -> tuple[str, ...]:
    """Return what the trainer reports of a timing trial, for built-in workloads.

    Such a trial has no loss or accuracy.
    """
    kind = _SLICES_OF[timed_work]
    return tuple(
        metric.name
        for metric in METRICS
        if metric.measured_by == "trainer" and metric.is_objective and kind in metric.measured_in
    )


def sliced_objectives(timed_work: TimedWork) -> frozenset[str]:
    """Return the objectives that timing trials have."""
    kind = _SLICES_OF[timed_work]
    return frozenset(
        metric.name for metric in METRICS if metric.is_objective and kind in metric.measured_in
    )


def find_metric(name: str) -> Metric:
    """Return the metric of this name; one without label and unit if the registry lacks it.

    A metric of a user's own is a result. It is better with more if its name ends like the name of
    an accuracy, a rate or a utilization, else with less. The spec has the direction of an
    objective.
    """
    if name in BY_NAME:
        return BY_NAME[name]
    is_more_better = name.endswith(("accuracy", "_per_s", "utilization_pct"))
    return Metric(
        name=name, description="", better="more" if is_more_better else "less", is_result=True
    )


def metrics_of(workload: str, *, trains: bool) -> tuple[str, ...]:
    """Return the names of what a whole trial of a built-in workload ends with."""
    return tuple(metric.name for metric in METRICS if metric.is_of(workload, trains=trains))
