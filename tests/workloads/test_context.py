"""What a workload may report."""

import pytest

from workloads.context import Context, expect_distinct, expect_possible
from workloads.implementations import parse_implementation


@pytest.mark.parametrize(
    "names", [("loss", ""), ("loss", " "), ("Loss", "loss"), ("Step_ms",)], ids=repr
)
def test_names_of_metrics_are_names_of_columns(names: tuple[str, ...]) -> None:
    expect_distinct(("step_ms", "loss", "f1"))
    with pytest.raises(ValueError, match=repr(names[-1])):
        expect_distinct(names)


def test_metrics_of_epochs_have_such_names_too() -> None:
    trial = Context(
        settings={},
        implementation=parse_implementation("python/plain"),
        device="cpu",
        seed=1,
        emit=lambda _: None,
    )
    trial.epoch(0, 1.0, loss=1.0)
    with pytest.raises(ValueError, match="'Loss'"):
        trial.epoch(1, 1.0, Loss=1.0)


def test_no_time_and_no_rate_is_negative() -> None:
    expect_possible({"val_loss": -1.0, "own_s": -1.0, "step_ms": 0.0}, "result")
    with pytest.raises(ValueError, match="step_ms is -1"):
        expect_possible({"step_ms": -1.5}, "result")
