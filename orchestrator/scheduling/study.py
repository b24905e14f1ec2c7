"""The study of a sweep: its blocks as `optuna-dashboard` shows them."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from orchestrator.analysis.measures import TIMES
from orchestrator.analysis.results import USUAL_RESULTS
from orchestrator.core.arms import Arm
from orchestrator.core.trial import FinishedTrial, Outcome, pruned_blocks
from orchestrator.planning.objectives import arms_that_speak, block_value
from orchestrator.sampling.study_file import BlockState, StudyBlock, study_database
from orchestrator.spec import Objective, Range, SweepSpec
from orchestrator.storage.journal import JournalState
from workloads.data.cache import atomic_write

STUDY_FILE = "study.db"


def write_study(folder: Path, spec: SweepSpec, state: JournalState, arms: Collection[Arm]) -> None:
    """Write the blocks that have ended on these arms into the folder; raise `OSError` if it cannot.

    A file of an earlier start is replaced: the journal has its blocks, too.
    """
    finished = [*state.finished.values()]
    objectives = spec.search.objectives or _time_objective(finished)
    blocks = study_blocks(objectives, spec.repeats, arms, finished)
    ranges = {name: of for name, of in spec.search.space.items() if isinstance(of, Range)}
    content = study_database(
        state.identity.label,
        {name: objective.direction for name, objective in objectives.items()},
        blocks,
        logarithmic=[name for name, of in ranges.items() if of.log],
    )
    with atomic_write(folder / STUDY_FILE) as file:
        file.write(content)


def _time_objective(finished: Collection[FinishedTrial]) -> Mapping[str, Objective]:
    """Return the objective of a sweep that has none: the mean time per step over all arms."""
    return {_first_measured(TIMES, finished) or TIMES[0]: Objective(direction="minimize")}


def _first_measured(metrics: Collection[str], finished: Collection[FinishedTrial]) -> str | None:
    measured = {name for trial in finished for name in trial.metrics}
    return next((name for name in metrics if name in measured), None)


def study_blocks(
    objectives: Mapping[str, Objective],
    repeats: int,
    arms: Collection[Arm],
    finished: Collection[FinishedTrial],
) -> list[StudyBlock]:
    """Return the blocks that have ended, in their order, with the values that a sampler gets.

    A block has ended once all `arms` that decide its values have run it, or if it was pruned.
    """
    deciding = arms_that_speak(objectives.values(), [*arms])
    pruned = pruned_blocks(finished)
    of_block = defaultdict[int, list[FinishedTrial]](list)
    for trial in finished:
        of_block[trial.block].append(trial)
    shown = [_first_measured(TIMES, finished), _first_measured(USUAL_RESULTS, finished)]
    metrics = dict.fromkeys(name for name in [*objectives, *shown] if name)
    names = _arm_names({trial.arm for trial in finished})
    blocks = []
    for index, trials in sorted(of_block.items()):
        outcomes = defaultdict[Arm, list[Outcome]](list)
        for trial in trials:
            outcomes[trial.arm].append(trial.outcome)
        has_ended = all(len(outcomes.get(arm, ())) >= repeats for arm in deciding)
        if not has_ended and index not in pruned:
            continue
        values = _values(objectives, outcomes) if index not in pruned else None
        state: BlockState = (
            "PRUNED" if index in pruned else "FAIL" if values is None else "COMPLETE"
        )
        means = {
            f"{metric} {names[arm]}": mean
            for metric in metrics
            for arm, of_arm in outcomes.items()
            if (mean := _mean(metric, of_arm)) is not None
        }
        blocks.append(
            StudyBlock(
                trials[0].config,
                state,
                values or (),
                started_s=min(trial.started_s for trial in trials),
                ended_s=max(trial.ended_s for trial in trials),
                attributes={"block": index, **means},
            )
        )
    return blocks


def _arm_names(arms: Collection[Arm]) -> Mapping[Arm, str]:
    """Return the names of arms, with their hardware where it differs."""
    is_alike = len({arm.hardware for arm in arms}) == 1
    return {arm: arm.short_name if is_alike else str(arm) for arm in arms}


def _values(
    objectives: Mapping[str, Objective], outcomes: Mapping[Arm, Sequence[Outcome]]
) -> list[float] | None:
    """Return the value of each objective; None if one has no value, or none that is finite."""
    values = [block_value(name, objective, outcomes) for name, objective in objectives.items()]
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return finite if len(finite) == len(values) else None


def _mean(metric: str, outcomes: Sequence[Outcome]) -> float | None:
    """Return the mean of a metric over the repeats that have it."""
    values = [outcome.metrics[metric] for outcome in outcomes if metric in outcome.metrics]
    finite = [value for value in values if math.isfinite(value)]
    return statistics.fmean(finite) if finite else None
