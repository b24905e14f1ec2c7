"""The blocks of a sweep as a study in Optuna's SQLite format, for `optuna-dashboard`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from orchestrator.core.trial import Config, ConfigValue, Scalar, canonical, is_number

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

BlockState: TypeAlias = Literal["COMPLETE", "PRUNED", "FAIL"]
"""How a block ended, in Optuna's words."""

_Row: TypeAlias = tuple[Any, ...]


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

    distributions = param_distributions([block.config for block in blocks], logarithmic)
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
        database = storage.engine.raw_connection().driver_connection
        # `study.add_trial` runs several statements for each param and attribute, which is too
        # slow at the end of each start. The tables are those of Optuna 5; tests read them with it.
        for statement, rows in _inserts(blocks, distributions):
            database.executemany(statement, rows)
        database.commit()
        content: bytes = database.serialize()
        storage.engine.dispose()
        return content
    finally:
        optuna.logging.set_verbosity(verbosity)


def _inserts(
    blocks: Sequence[StudyBlock], distributions: Mapping[str, BaseDistribution]
) -> Iterator[tuple[str, list[_Row]]]:
    """Yield the statements that add the blocks, with their rows, to the tables of Optuna 5."""
    from optuna.distributions import distribution_to_json  # noqa: PLC0415

    texts = {name: distribution_to_json(of) for name, of in distributions.items()}
    numbered = [*enumerate(blocks, 1)]
    yield (
        "INSERT INTO trials (trial_id, number, study_id, state, datetime_start, datetime_complete)"
        " VALUES (?, ?, 1, ?, ?, ?)",
        [(i, i - 1, b.state, _time(b.started_s), _time(b.ended_s)) for i, b in numbered],
    )
    yield (
        "INSERT INTO trial_values (trial_id, objective, value, value_type)"
        " VALUES (?, ?, ?, 'FINITE')",
        [(i, objective, value) for i, b in numbered for objective, value in enumerate(b.values)],
    )
    yield (
        "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)"
        " VALUES (?, ?, ?, ?)",
        [
            (i, name, distributions[name].to_internal_repr(optuna_value(value)), texts[name])
            for i, b in numbered
            for name, value in b.config.items()
        ],
    )
    yield (
        "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (?, ?, ?)",
        [(i, key, json.dumps(value)) for i, b in numbered for key, value in b.attributes.items()],
    )


def _time(seconds: float) -> str:
    """Return a time as Optuna keeps it: UTC, without saying so."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S.%f}"


def optuna_value(value: ConfigValue) -> Scalar | None:
    """Return a value as Optuna takes it: a list, which it has none of, as JSON."""
    return canonical(value) if isinstance(value, tuple) else value


def param_distributions(
    configs: Sequence[Config], logarithmic: Collection[str] = ()
) -> dict[str, BaseDistribution]:
    """Return the distribution of each parameter over what was tried."""
    names = dict.fromkeys(name for config in configs for name in config)
    tried = {
        name: [optuna_value(config[name]) for config in configs if name in config] for name in names
    }
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
