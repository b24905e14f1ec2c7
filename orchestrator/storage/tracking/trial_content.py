"""A finished trial as the content of a tracker's run. Pure: nothing here speaks to a tracker.

`docs/mlflow.md` lists the names; `orchestrator.core.trial_columns` defines most params and tags.
Everything is derived from the trial and its outcome, so that writing a run again changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import ValidationError

from orchestrator.core.arms import Arm
from orchestrator.core.trial import (
    Config,
    FinishedTrial,
    Outcome,
    SweepIdentity,
    Trial,
    canonical,
    digest,
    value_text,
)
from orchestrator.core.trial_columns import PARAMS, TAGS, TrialColumn
from orchestrator.storage.tracking.limits import (
    NAME_LIMIT,
    PARAM_LIMIT,
    TAG_LIMIT,
    entity_name,
    storable_text,
)
from orchestrator.storage.tracking.stored_records import RECORD_TAG, record_tag
from orchestrator.storage.tracking.tracker import Point, TrialContent
from workloads import registry

OUTPUT_FILE = "trainer_output.txt"
EVIDENCE_FILE = "kernel_evidence.txt"
ARTIFACT_FOLDER = "texts"
"""The folder of the texts that a workload keeps, separate from ours whatever their names are."""

_READABLE_LIMIT = 1000

TRIAL_TAGS = tuple(column.name for column in TAGS)
"""Tags of an outcome. A later outcome must not keep a tag of an earlier outcome that it lacks."""


def trial_content(
    identity: SweepIdentity, finished: FinishedTrial, arms: Sequence[Arm] = ()
) -> TrialContent:
    """Return the content of a trial's run; `arms` are all arms of the sweep."""
    trial, outcome = finished.trial, finished.outcome
    record, texts = record_tag(finished)
    if outcome.failure is not None:
        failure = outcome.failure
        output = f"{failure.text}\n\n{failure.output_tail}"
        texts[OUTPUT_FILE] = output.encode(errors="replace").decode()
    if outcome.kernel is not None and len(outcome.kernel.evidence) > _READABLE_LIMIT:
        texts[EVIDENCE_FILE] = outcome.kernel.evidence
    for name, text in outcome.artifacts.items():
        texts[f"{ARTIFACT_FOLDER}/{name}"] = text.encode(errors="replace").decode()
    return TrialContent(
        name=run_name(identity, trial),
        start_ms=_ms(outcome.started_s),
        end_ms=_ms(outcome.ended_s),
        status="failed" if outcome.status == "failed" else "finished",
        params=_params(identity, finished),
        tags={
            "sweep": identity.label,
            **{
                name: storable_text(text, _READABLE_LIMIT)
                for name, text in _cells(TAGS, finished).items()
            },
            "config": storable_text(canonical(finished.config), TAG_LIMIT),
            "environment": digest(outcome.environment),
            RECORD_TAG: record,
        },
        points=tuple(_points(outcome)),
        dataset=outcome.dataset,
        texts=texts,
        arm_index=arms.index(trial.arm) if trial.arm in arms else None,
    )


def run_name(identity: SweepIdentity, trial: Trial) -> str:
    """Return a name for people: `lstm 96×2 batch_size 32 · tensorflow/portable · AMD EPYC 7763`."""
    settings = all_settings(identity, trial.params)
    config = dict(trial.config)
    words = [str(settings["cell"])] if "cell" in settings else []
    config.pop("cell", None)
    if "units" in config and "layers" in settings:
        words.append(f"{config.pop('units')}×{settings['layers']}")
        config.pop("layers", None)
    words += [
        f"{key} {f'{value:.3g}' if isinstance(value, float) else value_text(value)}"
        for key, value in config.items()
    ]
    head = storable_text(" ".join(words) or f"block {trial.block}", 80)
    parts = [head, trial.arm.short_name, str(trial.arm.hardware)]
    if trial.repeat:
        parts.append(f"repeat {trial.repeat}")
    return storable_text(" · ".join(parts), NAME_LIMIT)


def _cells(columns: Iterable[TrialColumn], finished: FinishedTrial) -> dict[str, str]:
    cells = {column.name: column.get(finished) for column in columns}
    return {name: value_text(cell) for name, cell in cells.items() if cell is not None}


def _params(identity: SweepIdentity, finished: FinishedTrial) -> dict[str, str]:
    trial, dataset = finished.trial, finished.outcome.dataset
    params = {"workload": identity.workload, **_cells(PARAMS, finished)}
    for key, value in all_settings(identity, {**trial.config, **trial.arm.settings}).items():
        # A workload may call a setting "seed": the trial's own keeps the plain name.
        name = f"settings.{key}" if key in params else key
        params |= param_texts({name: value})
    if dataset is not None:
        # A param cannot change: the setting's text wins, so that a failed attempt, which may
        # have no data, and a later one agree.
        params.setdefault("dataset", storable_text(dataset.name, PARAM_LIMIT))
    return params


def param_texts(values: Mapping[str, object]) -> dict[str, str]:
    """Return params with names and texts that trackers accept."""
    return {
        entity_name(name): storable_text(value_text(value), PARAM_LIMIT)
        for name, value in values.items()
    }


def all_settings(identity: SweepIdentity, config: Config) -> Mapping[str, object]:
    """Return all settings of a trial: the spec's, the config's, and the workload's defaults.

    Settings without a value are left out, unless the config has null for them.
    """
    written = {**identity.settings, **config}
    try:
        resolved = registry.find_workload(identity.workload).resolve(written)
    except (registry.UnknownWorkload, ValidationError):  # of another version of rnnsweep
        return written
    # A workload of the user's own has no settings of ours.
    settings = written if resolved is None else resolved.model_dump()
    return {n: value for n, value in settings.items() if value is not None or n in config}


def _points(outcome: Outcome) -> Iterator[Point]:
    """Yield the values of epochs and slices, then the final values, and the load over time."""
    measured = tuple(_measured_points(outcome))
    yield from measured
    # A tracker shows the value with the highest (step, time). So a final value of a name that has a
    # curve goes to the curve's last step with the trial's end as its time.
    latest = {point.name: point.value for point in measured}
    last_step = max((point.step for point in measured), default=0)
    last_ms = measured[-1].at_ms if measured else _ms(outcome.started_s)
    end_ms = max(_ms(outcome.ended_s), last_ms + 1)
    for name, value in outcome.metrics.items():
        entity = entity_name(name)
        if latest.get(entity) != value:
            yield Point(entity, value, end_ms, last_step if entity in latest else 0)
    yield from _load_points(outcome)


def _measured_points(outcome: Outcome) -> Iterator[Point]:
    clock_s = outcome.started_s
    for epoch in outcome.epochs:
        clock_s = min(clock_s + epoch.seconds + (epoch.validate_s or 0.0), outcome.ended_s)
        values = {**epoch.metrics, "epoch_s": epoch.seconds}
        if epoch.validate_s is not None:
            values["epoch_validate_s"] = epoch.validate_s
        for name, value in values.items():
            yield Point(entity_name(name), value, _ms(clock_s), epoch.index)
    for index, part in enumerate(outcome.slices):
        clock_s = min(clock_s + part.seconds, outcome.ended_s)
        for name, value in {"slice_step_ms": part.step_ms, "slice_s": part.seconds}.items():
            yield Point(name, value, _ms(clock_s), index)


def _load_points(outcome: Outcome) -> Iterator[Point]:
    for name, curve in outcome.telemetry.curves.items():
        for step, (at_s, at) in enumerate(zip(outcome.telemetry.at_s, curve, strict=True)):
            if at is not None:
                yield Point(entity_name(name), at, _ms(outcome.started_s + at_s), step)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
