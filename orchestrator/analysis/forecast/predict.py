"""What a config that a sweep did not run would take, from the trials that it did: for scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence

from orchestrator.analysis.cost_model import (
    TARGETS,
    Expectation,
    Models,
    NotPredicted,
    expect,
    observe,
)
from orchestrator.core.names import names_arm
from orchestrator.core.records import SweepRecord, TrialRecord
from orchestrator.core.trial import Config, FinishedTrial, Outcome, Telemetry, Trial
from orchestrator.storage.home import sweep_home
from orchestrator.storage.tracking import tracking_uri as usual_store
from orchestrator.storage.tracking.reader import read_sweep


def predict(
    sweep: str,
    config: Config,
    arm: str = "*",
    targets: Sequence[str] = TARGETS,
    *,
    generation: int | None = None,
    tracking_uri: str | None = None,
) -> list[Expectation]:
    """What a trial of a config that was not measured takes: time, memory and energy.

    Each is judged by a model of the sweep's complete trials, which was chosen and judged on configs
    that it was not shown. There is one entry for each arm and target: `value`, and `low` and `high`
    between which 90 % of such trials lie; or, where the config is too far from what was measured,
    or too little was, no number and the `reason`.

    Args:
        sweep: a sweep's name, or its label (`quickstart#2`).
        config: what the sweep varied (`units`, `layers`, …); settings that it did not vary may be
            given, and have no other value than its own.
        arm: an implementation, or `implementation on hardware`; `*` is all of the sweep's.
        targets: which of `trial_s` (a whole trial), `step_ms`, `peak_rss_mib`, `peak_gpu_mib` (of
            fresh trainers) and `energy_j` (of the timed epochs).
        generation: an earlier start with `--fresh`, counted from 1; the latest by default.
        tracking_uri: the MLflow store; by default MLFLOW_TRACKING_URI, else that of RNNSWEEP_HOME.

    Raises:
        NotPredicted: `arm` is none of the sweep's, or a target is not one of these.
        SweepNotFound: the store has no such sweep.
        TrackingError: the store cannot be read.

    Example:
        >>> from orchestrator.analysis.forecast.predict import predict
        >>> config = {"units": 34, "layers": 2, "learning_rate": 1e-3, "bidirectional": False}
        >>> (step,) = predict("quickstart", config, "tensorflow/portable", ["step_ms"])
        >>> step.low <= step.value <= step.high
        True
        >>> large = {**config, "units": 512}
        >>> (step,) = predict("quickstart", large, "tensorflow/portable", ["step_ms"])
        >>> step.reason.partition(": ")[2]
        'units 512 is too far from 32 to 43, which were measured'
    """
    record = read_sweep(tracking_uri or usual_store(sweep_home(), os.environ), sweep, generation)
    return predict_from(record, config, arm, targets)


def predict_from(
    record: SweepRecord, config: Config, arm: str = "*", targets: Sequence[str] = TARGETS
) -> list[Expectation]:
    """As `predict`, of a sweep that was read already."""
    if unknown := [target for target in targets if target not in TARGETS]:
        raise NotPredicted(f"targets: expected of {', '.join(TARGETS)}; received {unknown[0]!r}")
    meant = [candidate for candidate in record.arms if names_arm(arm, candidate)]
    if not meant:
        known = "; ".join(map(str, record.arms)) or "none, as none can run"
        raise NotPredicted(f"sweep {record.name!r}: expected an arm of it ({known}); got {arm!r}")
    finished = [_finished(trial) for trial in record.trials]
    models = Models(observe(finished, record.settings))
    return expect(models, [(config, each) for each in meant], record.settings, targets)


def _finished(record: TrialRecord) -> FinishedTrial:
    """What the cost model reads of a trial."""
    trial = Trial(
        record.trial_key, record.block, record.config, record.arm, record.repeat, record.seed
    )
    outcome = Outcome(
        record.status,
        record.started_s,
        record.ended_s,
        node=record.node,
        metrics=record.metrics,
        trainer_trials=record.trainer_trials,
        telemetry=Telemetry(notes=record.notes),
    )
    return FinishedTrial(trial, outcome)
