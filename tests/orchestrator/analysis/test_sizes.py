"""Test what sizes do to arms and their speed-ups, on sweeps whose crossing is known."""

import random
from dataclasses import replace
from math import log2, prod

import pytest
from scipy.stats import t

from orchestrator.analysis.contrasts.contrast import Contrast, Question, Verdict
from orchestrator.analysis.contrasts.sizes import SpeedCurve
from orchestrator.analysis.statistics.estimates import LEVEL, Estimate
from orchestrator.analysis.summary import ReportSummary, summarise
from orchestrator.core.criteria import AutoBlocks, Margins, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from tests.building.arms import PORTABLE, XLA
from tests.building.chance import fewest_by_chance, most_by_chance
from tests.building.known_records import UNITS, build_crossing_laws, build_record_by_laws
from tests.profiles import draws

TWICE: list[Config] = [{"units": size, "batch_size": 32} for size in UNITS * 2]
SWEEPS = draws(100, 200)


def curve_of(record: SweepRecord, size: str = "units") -> SpeedCurve:
    (curve,) = [curve for curve in summarise(record).curves if curve.size == size]
    assert (curve.arm, curve.baseline, curve.metric) == (XLA, PORTABLE, "step_ms")
    return curve


def speeds_along(summary: ReportSummary) -> list[Contrast]:
    """Return how the speed-up of XLA over PORTABLE changes with each size."""
    return [
        contrast
        for contrast in summary.contrasts
        if contrast.question == Question.SIZE
        and contrast.subject.startswith(f"{XLA}, ")
        and contrast.reference.startswith(f"{PORTABLE}, ")
    ]


def slope_of(record: SweepRecord) -> Estimate:
    """Return the power of the units with which the speed-up grows."""
    (doubled,) = [c for c in speeds_along(summarise(record)) if "units" in c.subject]
    assert doubled.subject == f"{XLA}, units doubled"
    effect = doubled.estimate
    return Estimate(effect.n, log2(effect.value), log2(effect.low), log2(effect.high))


@pytest.mark.parametrize(
    ("param", "sizes", "size", "slope"),
    [("units", UNITS, 70, -0.3), ("rate", (0.1, 0.2, 0.4, 0.8), 0.3, 0.3)],
)
def test_the_known_crossing_is_estimated(
    param: str, sizes: tuple[float, ...], size: float, slope: float
) -> None:
    record = build_record_by_laws(
        build_crossing_laws(size, slope, param), [{param: value} for value in sizes * 3]
    )
    curve, (effect,) = curve_of(record, param), speeds_along(summarise(record))
    assert curve.faster == ("above" if slope > 0 else "below")
    assert curve.crossing is not None
    assert curve.crossing.low < curve.crossing.value < curve.crossing.high
    assert curve.crossing.value == pytest.approx(size, rel=0.15)
    assert effect.estimate.low < 2**slope < effect.estimate.high
    assert effect.verdict == (Verdict.BETTER if slope > 0 else Verdict.WORSE)
    assert [point.at for point in (curve.curve[0], curve.curve[-1])] == [
        pytest.approx(min(sizes)), pytest.approx(max(sizes)),
    ]  # fmt: skip


def test_the_interval_of_a_crossing_has_its_nominal_coverage() -> None:
    crossings = [
        curve_of(build_record_by_laws(build_crossing_laws(60), TWICE, seed=seed)).crossing
        for seed in range(SWEEPS)
    ]
    assert None not in crossings
    covered = sum(
        crossing is not None and crossing.low <= 60 <= crossing.high for crossing in crossings
    )
    assert fewest_by_chance(SWEEPS, 0.95) <= covered < SWEEPS


def test_of_equal_arms_a_speed_up_depends_on_a_size_in_at_most_one_sweep_of_twenty() -> None:
    configs: list[Config] = [
        {"units": size, "layers": 1 + i % 3, "batch_size": 16 * 2 ** (i % 4)}
        for i, size in enumerate(UNITS * 2)
    ]
    criteria, wrong = ReportCriteria(margins=Margins(speed=1e-9)), 0
    for seed in range(SWEEPS):
        record = build_record_by_laws(build_crossing_laws(60, slope=0), configs, seed=seed)
        summary = summarise(replace(record, criteria=criteria))
        assert len(summary.curves) == 3
        crosses = any(curve.faster for curve in summary.curves)
        wrong += crosses or any(c.verdict != Verdict.OPEN for c in speeds_along(summary))
    assert wrong <= most_by_chance(SWEEPS, 0.05)


def test_intervals_allow_for_stopping_by_width() -> None:
    one = build_record_by_laws(build_crossing_laws(60), TWICE)
    slope = slope_of(one)
    wider = slope_of(replace(one, criteria=ReportCriteria(auto_blocks=AutoBlocks())))
    widening = t.ppf((1 + LEVEL) / 2, len(TWICE) - 2) / t.ppf(0.975, len(TWICE) - 2)
    assert wider.high - wider.value == pytest.approx(widening * (slope.high - slope.value))


def test_other_params_of_any_kind_are_adjusted_for() -> None:
    """Only one cell has a recurrent dropout, and features follow the width."""
    draw = random.Random(2)
    configs: list[Config] = []
    for place in range(16):
        width = draw.choice((8, 16, 32)) * (1 + (UNITS[place % 8] > 48))
        sizes: Config = {"units": UNITS[place % 8], "width": width, "features": 2 * width}
        gru: Config = {"cell": "gru", "recurrent_dropout": draw.uniform(0.1, 0.3)}
        configs.append({**sizes, **(gru if place % 5 in (1, 3) else {"cell": "lstm"})})
    powers = {"units": 0.3, "width": 0.5, "recurrent_dropout": -0.4}
    laws = build_crossing_laws(100, slope=0)
    laws[XLA] = lambda config: (
        laws[PORTABLE](config) / prod(float(config.get(n, 1)) ** p for n, p in powers.items())
    )
    record = build_record_by_laws(laws, configs, noise=0.01)
    curves = {curve.size: curve for curve in summarise(record).curves}
    assert curves.keys() == {"units", "width", "features"}  # positive numbers in every config
    assert curves["width"].reason == "it varied only together with features"
    held, point = curves["units"].held, curves["units"].points[0]
    assert held.keys() == {"cell", "features", "recurrent_dropout", "width"}
    assert (held["cell"], held["recurrent_dropout"]) == ("lstm", "absent")
    assert slope_of(record).value == pytest.approx(0.3, abs=0.03)
    assert point.adjusted != point.value


def test_up_to_three_values_have_a_level_each_and_no_line() -> None:
    configs: list[Config] = [
        {"units": size, "layers": n} for n in (1, 2, 3) for size in UNITS[: 5 + n]
    ]
    record = build_record_by_laws(build_crossing_laws(1.4, slope=1, param="layers"), configs)
    curve = curve_of(record, "layers")
    assert (curve.faster, curve.crossing) == (None, None)
    assert [point.at for point in curve.curve] == [1, 2, 3]
    effects = {c.subject: c.estimate for c in speeds_along(summarise(record))}
    two, three = effects[f"{XLA}, layers 2, not 1"], effects[f"{XLA}, layers 3, not 1"]
    assert two.low < 2 < two.high
    assert three.low < 3 < three.high


def test_what_a_size_does_to_the_baseline_itself() -> None:
    """Its time is proportional to its units, and its accuracy does not change."""
    record = build_record_by_laws(
        build_crossing_laws(60),
        TWICE,
        noise=0.01,
        val_accuracy=lambda arm, draw: draw.gauss(0.9, 1e-4),
    )
    found = {c.metric: c for c in summarise(record).contrasts if c.reference == str(PORTABLE)
             and c.question == Question.SIZE}  # fmt: skip
    time, accuracy = found["step_ms"], found["val_accuracy"]
    assert time.subject == f"{PORTABLE}, units doubled"
    assert time.estimate.value == pytest.approx(0.5, rel=0.01)
    assert (time.verdict, accuracy.verdict) == (Verdict.WORSE, Verdict.SAME)
    assert accuracy.estimate.low < 0 < accuracy.estimate.high


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (
            build_record_by_laws(build_crossing_laws(60, slope=0), TWICE * 3, noise=0.005),
            Verdict.SAME,
        ),
        (build_record_by_laws(build_crossing_laws(16, 0.1), TWICE * 2, noise=0.02), Verdict.BETTER),
        (build_record_by_laws(build_crossing_laws(60), TWICE[:5]), None),
    ],
    ids=["equal arms", "the slower size was not tried", "too few configs"],
)
def test_a_crossing_is_claimed_only_between_sizes_that_were_tried(
    record: SweepRecord, verdict: Verdict | None
) -> None:
    curve = curve_of(record)
    assert (curve.faster, curve.crossing) == (None, None)
    assert [contrast.verdict for contrast in speeds_along(summarise(record))] == (
        [verdict] if verdict else []
    )
    assert bool(curve.reason) == (verdict is None) != bool(curve.curve)
    assert curve.points
