"""Test the effects of params on time and accuracy against statsmodels, and which ones there are."""

import random
from collections.abc import Sequence
from math import log2
from typing import Any

import numpy as np
import pytest
from statsmodels.api import OLS

from orchestrator.analysis.summary import summarise
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from tests.building.arms import PORTABLE, XLA
from tests.building.known_records import UNITS, build_record_by_laws
from tests.building.records import build_record
from tests.building.trials import change_trial

Values = Sequence[bool | float | str]


def learned(configs: Sequence[Config], seed: int = 0) -> SweepRecord:
    """Return trials whose time grows as units ^ 0.7, and 1.5-fold for an LSTM."""

    def step_ms(config: Config) -> float:
        is_lstm = config.get("cell") == "lstm"
        return float(config.get("units", 32)) ** 0.7 * (1.5 if is_lstm else 1.0)

    laws = {PORTABLE: step_ms, XLA: step_ms}
    return build_record_by_laws(
        laws, configs, seed=seed, val_accuracy=lambda _, draw: draw.gauss(0.9, 0.01)
    )


def rows(**values: Values) -> list[Config]:
    """Return a config for each place of the longest of these values; the others repeat."""
    most = max(map(len, values.values()))
    return [
        {name: choices[i % len(choices)] for name, choices in values.items()} for i in range(most)
    ]


draw = random.Random(3)
DRAWN = rows(
    units=draw.choices(UNITS, k=24),
    dropout=draw.choices([0.0, 0.1, 0.2, 0.3], k=24),
    cell=["gru", "lstm", "gru"] * 8,
)


@pytest.mark.parametrize(
    ("metric", "scale", "unscale"), [("step_ms", np.log, np.exp), ("val_accuracy", float, float)]
)
def test_effects_and_importances_match_least_squares_by_statsmodels(
    metric: str, scale: Any, unscale: Any
) -> None:
    """Repeats are averaged first."""
    repeated = [
        change_trial(t, repeat=1, run_id="r", key="k") for t in learned(DRAWN, seed=1).trials
    ]
    trials = [*learned(DRAWN).trials, *repeated]
    by_block = [[t for t in trials if (t.arm, t.block) == (XLA, b)] for b in range(len(DRAWN))]
    y = np.array([np.mean([scale(t.metrics[metric]) for t in block]) for block in by_block])
    x = np.array(
        [[1, log2(float(c["units"])), float(c["dropout"]), c["cell"] == "lstm"] for c in DRAWN]
    )
    fit = OLS(y, x).fit()
    effects = {e.param: e for e in summarise(build_record(trials)).effects if e.metric == metric}
    for place, (param, per) in enumerate({"units": 1, "dropout": 0.3, "cell": 1}.items(), 1):
        (change,) = effects[param].changes
        ends = [fit.params[place], *fit.conf_int()[place]]
        figures = change.effect.value, change.effect.low, change.effect.high
        assert figures == pytest.approx([unscale(per * end) for end in ends])
        without = OLS(y, np.delete(x, place, axis=1)).fit().ssr
        share = (without - fit.ssr - fit.mse_resid) / fit.centered_tss
        assert effects[param].importance == pytest.approx(max(0, share), abs=1e-9)


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        pytest.param([16, 24, 32, 48, 64, 96, 128, 192], [[None, None]], id="a doubled number"),
        pytest.param(
            [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [[0.0, 0.7]], id="a number from zero"
        ),
        pytest.param(
            [2, 1, 3, 2, 1, 3, 2, 1, 3, 2, 1, 3], [[1, 2], [1, 3]], id="a number with three values"
        ),
        pytest.param(
            [True, False, True, False, True, False, True, False], [[False, True]], id="a switch"
        ),
        pytest.param(
            [None, 1, None, 3, None, 1, None, 3, None, 1, None, 3, None, 1, None, 3],
            [[1, 3]],
            id="a param that only one cell has",
        ),
        pytest.param([16, 24, 32, 48, 64], [], id="too few blocks"),
    ],
)
def test_a_number_with_four_values_has_a_line_and_any_other_param_levels(
    values: list[Any], changes: list[list[Any]]
) -> None:
    configs = [{"x": x, "cell": "gru"} if x is not None else {"cell": "lstm"} for x in values]
    effects = [e for e in summarise(learned(configs)).effects if e.param == "x"]
    assert len(effects) == 4  # the time and the accuracy of two arms
    for effect in effects:
        assert [[change.of, change.to] for change in effect.changes] == changes
        assert (effect.reason is None) == bool(changes) == bool(effect.curve)
        assert len(effect.points) == sum(x is not None for x in values)
