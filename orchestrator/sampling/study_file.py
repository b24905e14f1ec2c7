"""The blocks of a sweep as a study in Optuna's SQLite format, for `optuna-dashboard`."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orchestrator.core.trial import Config, is_number

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

BlockState: TypeAlias = Literal["COMPLETE", "PRUNED", "FAIL"]
"""How a block ended, in Optuna's words."""


@dataclass(frozen=True, slots=True)
class StudyBlock:
    """A block that has ended: one trial of the study.

    A complete block has a finite value for each objective. `attributes` are shown next to the
    trial, by name.
    """

    config: Config
    state: BlockState
    values: Sequence[float]
    started_s: float
    ended_s: float
    attributes: Mapping[str, float | int] = field(default_factory=dict)


def study_database(
    name: str,
    objectives: Mapping[str, Literal["maximize", "minimize"]],
    blocks: Sequence[StudyBlock],
    logarithmic: Collection[str] = (),
) -> bytes:
    """Return the SQLite file of a study with these blocks as its trials, in this order.

    `objectives` are the metrics, with the better direction. The range of a parameter is what the
    blocks have tried, on a logarithmic scale if it is one of `logarithmic`.
    """
    import optuna  # noqa: PLC0415  (its import takes a second)

    distributions = _distributions([block.config for block in blocks], logarithmic)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.RDBStorage("sqlite://")  # in memory
        study = optuna.create_study(
            storage=storage, study_name=name, directions=[*objectives.values()]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([*objectives])
        study.add_trials(_trial(block, distributions) for block in blocks)
        content: bytes = storage.engine.raw_connection().driver_connection.serialize()
        storage.engine.dispose()
        return content
    finally:
        optuna.logging.set_verbosity(verbosity)


def _trial(block: StudyBlock, distributions: Mapping[str, BaseDistribution]) -> FrozenTrial:
    """Return the block as a trial of the study."""
    import optuna  # noqa: PLC0415

    trial = optuna.trial.create_trial(
        state=optuna.trial.TrialState[block.state],
        values=block.values or None,
        params=dict(block.config),
        distributions={name: distributions[name] for name in block.config},
        user_attrs=dict(block.attributes),
    )
    trial.datetime_start = datetime.fromtimestamp(block.started_s)
    trial.datetime_complete = datetime.fromtimestamp(block.ended_s)
    return trial


def _distributions(
    configs: Sequence[Config], logarithmic: Collection[str]
) -> dict[str, BaseDistribution]:
    """Return the distribution of each parameter over what was tried."""
    names = dict.fromkeys(name for config in configs for name in config)
    tried = {name: [config[name] for config in configs if name in config] for name in names}
    return {
        name: _distribution(values, is_logarithmic=name in logarithmic)
        for name, values in tried.items()
    }


def _distribution(values: Sequence[Any], *, is_logarithmic: bool) -> BaseDistribution:
    """Return the range of numbers, or a choice among other values."""
    from optuna.distributions import (  # noqa: PLC0415
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if not all(map(is_number, values)):
        return CategoricalDistribution([*dict.fromkeys(values)])
    low, high = min(values), max(values)
    if all(isinstance(value, int) for value in values):
        return IntDistribution(low, high, log=is_logarithmic)
    return FloatDistribution(float(low), float(high), log=is_logarithmic)
