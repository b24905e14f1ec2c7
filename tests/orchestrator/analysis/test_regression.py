"""Test the fit of a value on the configs against statsmodels, and what it refuses."""

import random
from collections.abc import Sequence
from math import exp, log2
from typing import Any

import numpy as np
import pytest
from statsmodels.api import OLS

from orchestrator.analysis.statistics.regression import Design, Fit
from orchestrator.core.trial import Config
from tests.building.known_records import UNITS

Values = Sequence[bool | float | str]


def rows(**values: Values) -> list[dict[str, Any]]:
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


@pytest.mark.parametrize("is_ratio", [True, False])
def test_effects_match_least_squares_by_statsmodels(is_ratio: bool) -> None:
    logs = [
        0.7 * log2(float(c["units"])) + 0.4 * (c["cell"] == "lstm") + draw.gauss(0, 0.1)
        for c in DRAWN
    ]
    numbers = {block: exp(value) if is_ratio else value for block, value in enumerate(logs)}
    fit = Fit(Design(DRAWN), numbers, 0.9, is_ratio=is_ratio)
    x = np.array(
        [[1, log2(float(c["units"])), float(c["dropout"]), c["cell"] == "lstm"] for c in DRAWN]
    )
    expected = OLS(np.array(logs), x).fit()
    for place, (param, per) in enumerate({"units": 1, "dropout": 0.3, "cell": 1}.items(), 1):
        (change,) = fit.changes(param)
        ends = [expected.params[place], *expected.conf_int(alpha=0.1)[place]]
        figures = change.effect.value, change.effect.low, change.effect.high
        scaled = [float(np.exp(per * end)) if is_ratio else per * end for end in ends]
        assert figures == pytest.approx(scaled)


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        pytest.param([16, 24, 32, 48, 64, 96, 128, 192], [[None, None]], id="a doubled number"),
        pytest.param([*np.arange(0, 0.8, 0.1).tolist()], [[0.0, 0.7]], id="a number from zero"),
        pytest.param([2, 1, 3] * 4, [[1, 2], [1, 3]], id="a number with three values"),
        pytest.param([True, False] * 4, [[False, True]], id="a switch"),
        pytest.param([None, 1, None, 3] * 4, [[1, 3]], id="a param that only one cell has"),
        pytest.param(["off", 1, 2, "off"] * 3, [["off", 1], ["off", 2]], id="a text and numbers"),
    ],
)
def test_a_number_with_four_values_has_a_line_and_any_other_param_levels(
    values: list[Any], changes: list[list[Any]]
) -> None:
    configs = [{"x": x, "cell": "gru"} if x is not None else {"cell": "lstm"} for x in values]
    design = Design(configs)
    fit = Fit(design, dict(enumerate(map(float, range(1, len(values) + 1)))), 0.95, is_ratio=True)
    assert design.refusal("x") is None
    found = [[change.of, change.to] for change in fit.changes("x")]
    assert found == [pytest.approx(change) for change in changes]
    assert len(fit.points("x")) == sum(x is not None for x in values)


def test_null_and_lists_are_levels_and_no_absent_values() -> None:
    configs: list[Config] = [
        {"layers": (64,) if i % 2 else (64, 32), "dropout": (None, 0.1, None, 0.2)[i % 4]}
        for i in range(12)
    ]
    design = Design(configs)
    layers, dropout = design.params["layers"], design.params["dropout"]
    assert {layers.zero, *layers.levels} == {"[64,32]", "[64]"}
    assert (dropout.zero, dropout.levels) == ("null", (0.1, 0.2))
    assert None not in dropout.values


TWICE: list[Config] = [{"units": size, "batch_size": 32} for size in UNITS * 2]


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        (TWICE[:5], "at least 6 blocks are needed"),
        (
            [{"units": a * b, "heads": a, "width": b} for a in (2, 4, 16) for b in (3, 9, 10)],
            "it varied only together with heads and width",
        ),
        ([{"units": s, "label": f"run {s}"} for s in UNITS], "only together with label"),
        (
            [{"units": s, "layers": 1 + s // 40, "heads": 1 + s // 20 % 2} for s in UNITS[:6]],
            "too few blocks (6) to adjust for heads and layers",
        ),
    ],
)
def test_an_effect_that_cannot_be_estimated_has_a_reason(
    configs: list[Config], reason: str
) -> None:
    assert reason in (Design(configs).refusal("units") or "")
