"""Test the importance of params by fANOVA on values whose causes are known."""

import random

import pytest

from orchestrator.core.trial import Config
from orchestrator.sampling.importance import FEWEST_CONFIGS, param_importances

DICE = random.Random(2)
CONFIGS: list[Config] = [
    {"units": DICE.randint(8, 128), "rate": DICE.uniform(0.0, 1.0), "cell": DICE.choice("ab")}
    for _ in range(3 * FEWEST_CONFIGS)
]


@pytest.mark.parametrize("cause", ["units", "rate", "cell"])
def test_the_param_that_decides_the_values_is_the_most_important_one(cause: str) -> None:
    scale = {"a": 0.0, "b": 1.0}
    values = [
        float(scale[str(c[cause])] if cause == "cell" else float(c[cause]) / 128) for c in CONFIGS
    ]
    shares = param_importances(CONFIGS, values)
    assert max(shares, key=lambda name: shares[name]) == cause
    assert shares[cause] > 0.8
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("configs", "values"),
    [
        (CONFIGS[: FEWEST_CONFIGS - 1], list(range(FEWEST_CONFIGS - 1))),
        (CONFIGS, [1.0] * len(CONFIGS)),
        ([{"units": 8}] * FEWEST_CONFIGS, list(range(FEWEST_CONFIGS))),
    ],
)
def test_where_nothing_can_be_estimated_there_is_nothing(
    configs: list[Config], values: list[float]
) -> None:
    assert param_importances(configs, values) == {}
