"""Test comparisons of what training achieved: any objective, by its direction and its margin."""

import random
from collections.abc import Mapping

import pytest

from orchestrator.analysis.comparisons.results import ResultComparison
from orchestrator.core.criteria import Margins, ReportCriteria, ResultMargin
from orchestrator.core.records import Direction, SweepRecord
from orchestrator.report.render import summarise
from orchestrator.report.wording import compared_results
from tests.building.arms import PORTABLE, XLA
from tests.building.records import build_record
from tests.building.trials import build_trial


def build_measured_record(
    baseline: Mapping[str, float],
    arm: Mapping[str, float],
    objectives: Mapping[str, Direction],
    margins: Margins | None = None,
    noise: float = 0.001,
) -> SweepRecord:
    """Make a sweep of 12 blocks of two arms with these means of results."""
    dice = random.Random(3)
    trials = []
    for block in range(12):
        for side, values in ((PORTABLE, baseline), (XLA, arm)):
            results = {name: mean + dice.gauss(0, noise) for name, mean in values.items()}
            trials.append(build_trial(block, side, metrics={"step_ms": 10.0, **results}))
    criteria = ReportCriteria(margins=margins or Margins())
    return build_record(trials, objectives=objectives, criteria=criteria)


def compared(record: SweepRecord) -> dict[str, ResultComparison]:
    (comparison,) = summarise(record).comparisons
    return {result.metric: result for result in comparison.results}


@pytest.mark.parametrize(
    ("metric", "direction", "arm_value", "verdict"),
    [
        pytest.param("f1", "maximize", 0.91, "better", id="more of a metric of a user's own"),
        pytest.param("val_loss", "minimize", 0.40, "better", id="less loss"),
        pytest.param("val_mae", "minimize", 0.5102, "equal", id="within 1 % of the baseline"),
        pytest.param("val_mae", "minimize", 0.52, "worse", id="beyond 1 % of the baseline"),
    ],
)
def test_an_objective_has_a_verdict_by_its_direction(
    metric: str, direction: Direction, arm_value: float, verdict: str
) -> None:
    record = build_measured_record({metric: 0.51}, {metric: arm_value}, {metric: direction})
    result = compared(record)[metric]
    assert (result.metric, result.verdict) == (metric, verdict)
    assert result.difference.value == pytest.approx(arm_value - 0.51, abs=0.002)


@pytest.mark.parametrize(
    ("margin", "width", "verdict"),
    [
        pytest.param(ResultMargin(0.05, is_share=True), 0.05, "equal", id="a share"),
        pytest.param(ResultMargin(0.03), 0.03, "equal", id="absolute"),
    ],
)
def test_a_metric_has_its_own_margin(margin: ResultMargin, width: float, verdict: str) -> None:
    margins = Margins(results={"val_loss": margin})
    record = build_measured_record(
        {"val_loss": 1.0}, {"val_loss": 1.02}, {"val_loss": "minimize"}, margins
    )
    result = compared(record)["val_loss"]
    assert (result.verdict, result.share) == (verdict, margin.value if margin.is_share else None)
    assert result.margin == pytest.approx(width, rel=0.01)


@pytest.mark.parametrize(
    ("objectives", "results"),
    [
        pytest.param({"step_ms": "minimize"}, ("val_accuracy",), id="none is a result"),
        pytest.param(
            {"f1": "maximize", "step_ms": "minimize", "val_loss": "minimize"},
            ("f1", "val_loss"),
            id="several, in the order of the spec",
        ),
    ],
)
def test_the_results_are_those_that_the_objectives_name(
    objectives: Mapping[str, Direction], results: tuple[str, ...]
) -> None:
    values = {"f1": 0.9, "val_loss": 0.4, "val_accuracy": 0.8}
    record = build_measured_record(values, values, objectives)
    summary = summarise(record)
    assert compared_results(summary) == results
    assert {front.result for front in summary.fronts} <= {results[0]}


def test_the_arm_with_the_best_result_is_ranked_first_whatever_its_direction() -> None:
    record = build_measured_record(
        {"f1": 0.5, "val_mae": 0.2}, {"f1": 0.9, "val_mae": 0.3},
        {"f1": "maximize", "val_mae": "minimize"},
    )  # fmt: skip
    f1, mae = summarise(record).result_rankings
    assert (f1.metric, f1.leader, mae.metric, mae.leader) == ("f1", XLA, "val_mae", PORTABLE)
    for ranking, gap in ((f1, 0.4), (mae, -0.1)):
        (other,) = ranking.worse
        assert other.difference is not None and ranking.as_good == ()
        assert other.difference.value == pytest.approx(gap, abs=0.002)
        assert other.difference.low < gap < other.difference.high


def test_arms_with_equal_results_by_construction_have_no_best_one() -> None:
    objectives: dict[str, Direction] = {"f1": "maximize"}
    record = build_measured_record({"f1": 0.9}, {"f1": 0.9}, objectives, noise=0.0)
    (ranking,) = summarise(record).result_rankings
    assert (ranking.worse, len(ranking.as_good)) == ((), 1)


@pytest.mark.parametrize(
    ("gap", "noise_of_arm", "is_constant"),
    [
        pytest.param(0.02, 0.0, True, id="all noise is drawn from the seed alone"),
        pytest.param(0.02, 1e-3, False, id="each arm has noise of its own"),
        pytest.param(0.0, 0.0, False, id="the arms compute the same"),
    ],
)
def test_a_difference_that_is_the_same_in_every_block_is_marked(
    gap: float, noise_of_arm: float, is_constant: bool
) -> None:
    trials = []
    for block in range(8):
        dice = random.Random(block)
        mean = 0.5 + dice.gauss(0, 0.1)
        values = {PORTABLE: mean, XLA: mean + gap + dice.gauss(0, noise_of_arm)}
        trials += [build_trial(block, arm, f1=value) for arm, value in values.items()]
    result = compared(build_record(trials, objectives={"f1": "maximize"}))["f1"]
    assert result.constant_difference == is_constant
