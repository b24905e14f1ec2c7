"""Arms that fail in the same way again and again."""

import pytest

from orchestrator.core.failure_limit import OF_A_NODE, FailureLimit, describe_failures
from tests.building.arms import PORTABLE, XLA
from tests.building.trials import build_trial

SAME, OTHER = "error: ValueError: odd, at mine.py:3\n  its calls", "protocol: an odd line"


@pytest.mark.parametrize(
    ("most", "failures", "stops_at"),
    [
        (3, [SAME, SAME, f"{SAME} of another config", SAME], 2),
        (3, [SAME, OTHER, SAME, SAME, None, SAME, SAME, SAME], 7),
        *((3, [f"{reason}: the same"] * 4, None) for reason in OF_A_NODE),
        (2, [SAME, "non_finite: loss is nan", SAME], None),
        (1, [None, OTHER], 1),
        (None, [SAME] * 9, None),
    ],
)
def test_an_arm_is_stopped_after_equal_failures_in_a_row(
    most: int | None, failures: list[str | None], stops_at: int | None
) -> None:
    limit = FailureLimit(most)
    for block, failure in enumerate(failures):
        limit.add_outcome(build_trial(block, XLA))
        ended = build_trial(
            block, PORTABLE, status="failed" if failure else "complete", failure=failure
        )
        assert limit.add_outcome(ended) == (block == stops_at)
    assert list(limit.stopped) == ([] if stops_at is None else [PORTABLE])


def test_failures_of_other_code_do_not_count_and_equal_ones_are_described_once() -> None:
    ended = [
        build_trial(block, PORTABLE, status="failed", failure=SAME, environment={"code": code})
        for block, code in enumerate("aaab")
    ]
    assert [FailureLimit(2, "b").add_outcome(outcome) for outcome in ended] == [False] * 4
    assert [FailureLimit(1, "b").add_outcome(outcome) for outcome in ended] == [
        False,
        False,
        False,
        True,
    ]
    (text,) = describe_failures([*ended, build_trial(0, XLA)])
    place = "error: ValueError: odd, at mine.py:3"
    assert text == f"failed: {PORTABLE}, block 0, 1, 2, 3: {place}\n    its calls"
