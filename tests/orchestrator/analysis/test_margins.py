"""Test the margins of results: given ones, shares, and those that the validation set widens."""

from typing import NamedTuple

import pytest

from orchestrator.analysis.pairing.margins import JudgedMargin, Widened
from orchestrator.analysis.summary import summarise
from orchestrator.core.criteria import Margins, ReportCriteria, ResultMargin
from orchestrator.core.trial import DatasetRecord
from tests.building.arms import PORTABLE, XLA
from tests.building.records import build_record
from tests.building.trials import build_trial


def margin_of(
    margins: Margins, samples: int, accuracies: tuple[float, float], metric: str = "val_accuracy"
) -> JudgedMargin:
    """Return the margin of XLA's and PORTABLE's values, the first one in odd blocks of XLA."""
    trials = [
        build_trial(block, arm, metrics={metric: accuracies[block % 2 and arm == XLA]})
        for block in range(12)
        for arm in (PORTABLE, XLA)
    ]
    data = DatasetRecord("digits", "ab" * 32, "scikit-learn", 256, samples)
    record = build_record(
        trials,
        datasets=(data,),
        criteria=ReportCriteria(margins=margins),
        objectives={metric: "maximize"},
    )
    return summarise(record).margins[metric]


class Widening(NamedTuple):
    """Validation samples, samples that were right, margins, and the margin that judges."""

    name: str
    samples: int
    right: tuple[float, float]
    margins: Margins
    margin: float
    widened: Widened | None = None


NARROW = Margins(accuracy=0.005)
WIDENINGS = [
    Widening("one sample", 64, (56, 60), NARROW, 1 / 64, "one sample"),
    Widening("a sample as wide as the margin", 200, (175, 180), NARROW, 0.005),
    Widening("an accuracy over tokens, not samples", 64, (56.3, 60), NARROW, 0.005),
    # the standard error of 0.9 on 100 samples, and on 10,000, where the usual margin is wider
    Widening("few samples", 100, (90, 90), Margins(), 0.03, "noise"),
    Widening("many samples", 10_000, (9_000, 9_000), Margins(), 0.005),
    Widening(
        "a margin of the metric",
        100,
        (90, 90),
        Margins(results={"val_accuracy": ResultMargin(0.02)}),
        0.02,
    ),
]


@pytest.mark.parametrize("case", WIDENINGS, ids=lambda case: case.name)
def test_a_margin_is_never_finer_than_the_validation_set_can_tell(case: Widening) -> None:
    first, second = case.right
    judged = margin_of(case.margins, case.samples, (first / case.samples, second / case.samples))
    assert judged.value == pytest.approx(case.margin)
    assert judged.widened == case.widened


@pytest.mark.parametrize(
    ("metric", "given", "value", "share"),
    [
        ("val_loss", ResultMargin(0.05, is_share=True), 0.1, 0.05),
        ("val_loss", ResultMargin(0.03), 0.03, None),
        ("val_mae", None, 0.02, 0.01),  # the default
    ],
)
def test_a_metric_has_its_own_margin_or_a_share_of_the_baseline(
    metric: str, given: ResultMargin | None, value: float, share: float | None
) -> None:
    margins = Margins(results={metric: given} if given else {})
    judged = margin_of(margins, 100, (2.0, 9.0), metric)
    assert judged.value == pytest.approx(value)
    assert judged.share == share
