"""Ray's label selectors, read without Ray, and as Ray reads them."""

from __future__ import annotations

import pytest
from ray._private.label_utils import validate_label_key, validate_label_selector_value

from orchestrator.core.labels import carries, is_condition, is_key

SPOT_T4 = {"ray.io/accelerator-type": "T4", "market-type": "spot"}


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ({}, True),
        ({"market-type": "spot"}, True),
        ({"market-type": "!spot"}, False),
        ({"market-type": "in(on-demand, spot)"}, True),
        ({"market-type": "in(on-demand,spot)"}, True),
        ({"market-type": "!in(on-demand, spot)"}, False),
        ({"market-type": "spot", "ray.io/accelerator-type": "L4"}, False),
        ({"market-type": "spot", "ray.io/accelerator-type": "!L4"}, True),
        ({"region": "eu"}, False),
        ({"region": "in(eu, us)"}, False),
        ({"region": "!eu"}, True),
        ({"region": "!in(eu, us)"}, True),
    ],
)
def test_a_node_meets_a_selector(selector: dict[str, str], meant: bool) -> None:
    assert carries(SPOT_T4, selector) is meant


CONDITIONS = ["spot", "!GPU", "in(A123, B456)", "!in(spot,on-demand)", "a._b"]
NO_CONDITIONS = ["-spot", "spot_", "in()", "in(spot,", "in(H100, TPU!GPU)", "!!in(H100)", "a b"]


@pytest.mark.parametrize("text", CONDITIONS + NO_CONDITIONS + ["a" * 63, "a" * 64])
def test_ray_takes_the_same_conditions(text: str) -> None:
    assert is_condition(text) is (validate_label_selector_value(text) is None)


@pytest.mark.parametrize(
    "text", ["market-type", "ray.io/accelerator-type", "-a", "a/b/c", "a_", "a" * 64, "a b"]
)
def test_ray_takes_the_same_keys(text: str) -> None:
    assert is_key(text) is (validate_label_key(text) is None)
