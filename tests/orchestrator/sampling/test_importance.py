"""Importances of params, on values that follow a known law."""

import math
from typing import Any

import pytest

from orchestrator.core.trial import Config
from orchestrator.sampling.importance import param_importances

SIZES = (16, 32, 64, 128)
CONFIGS: list[dict[str, Any]] = [
    {"units": units, "cell": cell, "epochs": 3} for units in SIZES for cell in ("gru", "lstm")
]


def test_the_param_that_decides_the_values_has_the_largest_share() -> None:
    values = [math.log(float(c["units"])) + 0.1 * (c["cell"] == "lstm") for c in CONFIGS]
    shares = param_importances(CONFIGS, values)
    assert shares is not None and [*shares] == ["units", "cell"]  # epochs did not vary
    assert math.fsum(shares.values()) == pytest.approx(1)
    assert shares["units"] > 0.8
    assert shares == param_importances(CONFIGS, values)
    cells: dict[str, Any] = {"gru": (64, 32), "lstm": None}
    assert shares == param_importances([{**c, "cell": cells[c["cell"]]} for c in CONFIGS], values)


@pytest.mark.parametrize(
    ("configs", "values"),
    [
        pytest.param(CONFIGS[:5], range(5), id="few configs"),
        pytest.param(CONFIGS, [1.0] * len(CONFIGS), id="equal values"),
        pytest.param(CONFIGS[::2] * 2, range(8), id="one param"),
        pytest.param([], [], id="no config"),
    ],
)
def test_there_is_none_where_nothing_can_be_told_apart(
    configs: list[Config], values: list[float]
) -> None:
    assert param_importances(configs, [float(value) for value in values]) is None
