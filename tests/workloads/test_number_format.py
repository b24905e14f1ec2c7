"""Which implementations run a model whose file sets the number format of all layers."""

import pytest

from workloads.implementations import parse_implementation
from workloads.number_format import OwnNumberFormat

MIXED = OwnNumberFormat("mixed_bfloat16", None, "own.py:3")
DOUBLE = OwnNumberFormat(None, "float64", "own.py:3")


@pytest.mark.parametrize(
    ("own", "implementation", "runs"),
    [
        (MIXED, "torch/auto", True),
        (MIXED, "tensorflow/auto+xla", True),
        (MIXED, "torch/auto+bf16", True),
        (MIXED, "torch/fused+bf16", True),
        (MIXED, "torch/fused", False),
        (MIXED, "torch/auto+fp16", False),
        (MIXED, "torch/auto+tf32", False),
        (DOUBLE, "jax/auto", True),
        (DOUBLE, "jax/portable", False),
        (DOUBLE, "jax/auto+bf16", False),
    ],
)
def test_an_arm_runs_in_the_format_of_the_file_or_not_at_all(
    own: OwnNumberFormat, implementation: str, runs: bool
) -> None:
    reason = own.refusal_reason(parse_implementation(implementation))
    assert (reason is None) is runs
    assert runs or "own.py:3" in str(reason)
