"""Test crossovers on sweeps with a known crossing, and on sweeps without one."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from math import ceil, exp, floor, log, prod
from pathlib import Path
from statistics import mean

import pytest
from scipy.special import stdtrit

from orchestrator.analysis.comparisons.crossover import Crossover, crossovers
from orchestrator.analysis.comparisons.speed import compare
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.statistics.stopping_looks import LEVEL
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.charts import plots_of
from orchestrator.report.render import render, summarise
from orchestrator.spec import load
from tests.orchestrator.analysis.known_sweeps import UNITS, crossing_at, obeying
from tests.orchestrator.sample_records import PORTABLE, XLA, changed, paired

TWICE: list[Config] = [{"units": size, "batch_size": 32} for size in UNITS * 2]


def crossover_of(record: SweepRecord, param: str = "units") -> Crossover:
    """Return the crossover that `summarise` would report, without the rest of the summary."""
    over = pick_baseline(record, None)
    assert over is not None
    fair = compare(record, match(record), over)
    configs = {finished.block: finished.config for finished in record.trials}
    (crossover,) = [row for row in crossovers(fair, configs, 0.02) if row.param == param]
    return crossover


def report_text(record: SweepRecord) -> str:
    """Return the whole report on one line."""
    return " ".join(render(summarise(record), "text").split())


@pytest.mark.parametrize(
    ("param", "sizes", "size", "phrase"),
    [
        ("units", UNITS, 70, "from {} units on"),
        ("layers", (1, 2, 3, 4, 6, 8), 3, "from {} layers on"),
        ("batch_size", (16, 32, 64, 128, 256), 90, "from batch size {} on"),
        ("sequence_length", (10, 20, 40, 80, 160), 50, "from sequence length {} on"),
    ],
)
def test_the_known_crossing_is_estimated_and_reported(
    param: str, sizes: tuple[int, ...], size: float, phrase: str
) -> None:
    """The report names the first whole size at which the arm is faster."""
    record = obeying(crossing_at(size, param=param), [{param: value} for value in sizes * 3])
    crossover = crossover_of(record, param)
    assert (crossover.verdict, crossover.faster) == ("crosses", "above")
    crossing = crossover.crossing
    assert crossing is not None
    assert crossing.low < size < crossing.high
    assert crossing.value == pytest.approx(size, rel=0.15)
    assert crossover.slope is not None
    assert crossover.slope.low < 0.3 < crossover.slope.high
    assert crossover in summarise(record).crossovers
    value, low, high = (ceil(bound) for bound in (crossing.value, crossing.low, crossing.high))
    assert (
        f"{phrase.format(value)} ({low}–{high}), tensorflow/portable+xla is faster than "
        f"tensorflow/portable, and slower below {low}"
    ) in report_text(record)


def test_an_arm_may_be_faster_below() -> None:
    record = obeying(crossing_at(70, slope=-0.3), TWICE)
    crossover = crossover_of(record)
    assert (crossover.verdict, crossover.faster) == ("crosses", "below")
    assert crossover.crossing is not None
    crossing = crossover.crossing
    value, low, high = (floor(bound) for bound in (crossing.value, crossing.low, crossing.high))
    shown = report_text(record)
    assert f"up to {value} units ({low}–{high}), tensorflow/portable+xla is faster" in shown
    assert f"and slower above {high}" in shown


def test_fractional_sizes_are_not_rounded_to_whole_numbers() -> None:
    rates: list[Config] = [{"rate": size} for size in (0.1, 0.2, 0.4, 0.8) * 4]
    record = obeying(crossing_at(0.3, param="rate"), rates)
    crossing = crossover_of(record, "rate").crossing
    assert crossing is not None
    assert f"from rate {crossing.value:.3g} on ({crossing.low:.3g}–" in report_text(record)


def test_a_crossing_at_a_certain_size_is_reported_without_interval() -> None:
    """The crossing lies between 2.4 and 2.6 layers, so 3 is the only possible first size."""
    layers: list[Config] = [{"layers": size} for size in (1, 2, 3, 4) * 3]
    shown = report_text(obeying(crossing_at(2.5, param="layers"), layers, noise=0.0005))
    assert "from 3 layers on, tensorflow/portable+xla is faster" in shown
    assert "and slower below 3" in shown


def test_plots_describe_the_crossing_in_the_same_sizes() -> None:
    layers: list[Config] = [{"layers": size} for size in (1, 2, 3, 4) * 3]
    summary = summarise(obeying(crossing_at(2.5, param="layers"), layers, noise=0.0005))
    (description,) = (
        plot.description for plot in plots_of(summary) if plot.key == "crossover-layers"
    )
    assert "faster from 3 layers on, slower below 3" in description


def test_the_interval_of_a_crossing_has_its_nominal_coverage() -> None:
    """Expect 95 % of 300: 270 is six standard errors lower, and 300 would be no interval."""
    sweeps = [crossover_of(obeying(crossing_at(60), TWICE, seed=seed)) for seed in range(300)]
    crossings = [crossover.crossing for crossover in sweeps if crossover.crossing is not None]
    assert len(crossings) == 300
    covered = sum(crossing.low <= 60 <= crossing.high for crossing in crossings)
    assert 270 <= covered < 300


def test_equal_arms_seldom_cross() -> None:
    """A crossing needs evidence at both ends, so fewer than 5 % of 200 sweeps show one."""
    verdicts = Counter(
        crossover_of(obeying(crossing_at(60, slope=0), TWICE, noise=0.1, seed=seed)).verdict
        for seed in range(200)
    )
    assert verdicts["crosses"] <= 10
    assert verdicts["inconclusive"] >= 150


def test_estimates_are_adjusted_for_other_params() -> None:
    """The batch size is correlated with the units, and makes XLA faster by itself."""
    draw = random.Random(1)
    configs: list[Config] = [
        {"units": size, "batch_size": draw.choice((16, 32, 64, 128)) * (1 + (size > 48))}
        for size in UNITS * 4
    ]
    law = crossing_at(60, slope=0.3)
    plain = law[XLA]
    law[XLA] = lambda config: plain(config) * (float(config["batch_size"]) / 64) ** -0.5
    crossover = crossover_of(obeying(law, configs, noise=0.02))
    assert crossover.slope is not None
    assert crossover.slope.value == pytest.approx(0.3, abs=0.05)
    assert set(crossover.held) == {"batch_size"}
    assert crossover.points[0].adjusted != crossover.points[0].speedup


FEW: list[Config] = [
    {"units": 16, "layers": 1, "batch_size": 32},
    {"units": 24, "layers": 1, "batch_size": 64},
    {"units": 32, "layers": 1, "batch_size": 32},
    {"units": 48, "layers": 2, "batch_size": 64},
    {"units": 64, "layers": 2, "batch_size": 32},
    {"units": 96, "layers": 2, "batch_size": 64},
]
"""Enough blocks for a verdict, but too few to adjust for every param, as in a quickstart."""


def test_with_few_blocks_only_the_most_correlated_params_are_adjusted_for() -> None:
    """XLA is faster with two layers at any units, but units and layers are correlated."""
    law = crossing_at(60, slope=0)
    law[XLA] = lambda config: law[PORTABLE](config) * (1.25 if config["layers"] == 1 else 0.8)
    crossover = crossover_of(obeying(law, FEW, noise=0.01))
    assert crossover.held == {"layers": 1.0}
    assert crossover.unadjusted == ("batch_size",)
    assert crossover.crossing is None
    assert crossover.slope is not None
    assert crossover.slope.low < 0 < crossover.slope.high


def test_a_sentence_names_the_params_without_adjustment() -> None:
    law = crossing_at(35, slope=1)
    shown = report_text(obeying(law, FEW, noise=0.01))
    assert "(at layers 1; not adjusted for batch_size: too few blocks)" in shown
    law[XLA] = lambda config: law[PORTABLE](config) / 2
    shown = report_text(obeying(law, FEW, noise=0.01))
    assert "at all units (16–96) tried (not adjusted for batch_size: too few blocks): " in shown


def test_a_param_that_is_tied_to_another_is_inconclusive() -> None:
    """Every row has as many features as units, as in sweeps/appleyard_lstm.yaml."""
    rows = [(512, 64), (256, 64), (384, 64), (768, 64), (512, 32), (512, 128)]
    configs: list[Config] = [
        {"units": units, "features": units, "batch_size": batch} for units, batch in rows
    ]
    record = obeying(crossing_at(400), configs, noise=0.01)
    for param, other in (("units", "features"), ("features", "units")):
        crossover = crossover_of(record, param)
        assert (crossover.verdict, crossover.slope) == ("inconclusive", None)
        assert crossover.reason == f"it varied only together with {other}"
    # Adjusting for one of the two adjusts for both
    by_batch_size = crossover_of(record, "batch_size")
    assert set(by_batch_size.held) == {"features", "units"}
    assert by_batch_size.unadjusted == ()


def test_numbers_that_may_be_zero_or_absent_are_adjusted_for() -> None:
    """As in the README, a dropout may be 0, and only one cell has a recurrent dropout."""
    draw = random.Random(2)
    configs: list[Config] = []
    for place in range(16):
        dropout = draw.choice((0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
        gru: Config = {"cell": "gru", "recurrent_dropout": draw.uniform(0, 0.3)}
        cell = gru if place % 5 in (1, 3) else {"cell": "lstm"}
        configs.append({"units": UNITS[place % 8], "dropout": dropout, **cell})
    law = crossing_at(60)
    plain = law[XLA]
    law[XLA] = lambda config: (
        plain(config)
        * exp(
            float(config["dropout"])
            + (config["cell"] == "gru") / 2
            - 2 * float(config.get("recurrent_dropout", 0))
        )
    )
    crossover = crossover_of(obeying(law, configs, noise=0.01))
    assert crossover.unadjusted == ()
    assert crossover.held == {
        "cell": "lstm", "dropout": crossover.held["dropout"], "recurrent_dropout": "absent",
    }  # fmt: skip
    assert crossover.slope is not None
    assert crossover.slope.value == pytest.approx(0.3, abs=0.03)


def layered_sweep(gain: float, seed: int = 0) -> SweepRecord:
    """Return a sweep in which XLA is `gain` times as fast with two layers as with one."""
    configs: list[Config] = [{"units": size, "layers": n} for n in (1, 2) for size in UNITS]
    law = crossing_at(60, slope=0.2)
    plain = law[XLA]
    law[XLA] = lambda config: plain(config) / (gain if config["layers"] == 2 else 1)
    return obeying(law, configs, seed=seed)


def test_a_param_with_two_values_has_a_ratio_of_speedups() -> None:
    crossover = crossover_of(layered_sweep(1.3), "layers")
    assert (crossover.verdict, crossover.crossing, crossover.curve) == ("inconclusive", None, ())
    assert "only 2 values of it were tried" in (crossover.reason or "")
    assert crossover.growth is not None
    assert crossover.growth.low < 1.3 < crossover.growth.high < 1.5
    shown = report_text(layered_sweep(1.3))
    assert re.search(
        r"with 2 layers instead of 1, the speed-up of tensorflow/portable\+xla over "
        r"tensorflow/portable is 1\.\d+ × as large \(1\.\d+–1\.\d+\) \(at units ",
        shown,
    )
    assert "by layers (only" not in shown
    held = f"(at units {crossover.held['units']:.0f})"
    unmoved = f"With 2 layers instead of 1 {held}, no change of the speed-up is shown: "
    assert unmoved in report_text(layered_sweep(1.0))
    assert unmoved not in shown
    assert crossover_of(layered_sweep(1.3)).growth is None


def test_the_ratio_of_two_values_has_its_nominal_coverage() -> None:
    """Expect 95 % of 300 within five standard errors of the binomial, but not all."""
    growths = [crossover_of(layered_sweep(1.3, seed), "layers").growth for seed in range(300)]
    covered = sum(ratio is not None and ratio.low < 1.3 < ratio.high for ratio in growths)
    assert 266 <= covered < 300


def test_disturbed_blocks_show_no_crossing() -> None:
    """A disturbance may slow one arm at some sizes only, and so imitate a crossing."""
    record = obeying(crossing_at(70), TWICE)
    disturbed = tuple(
        changed(finished, disturbance={"shared_gpu": 1.0}) for finished in record.trials
    )
    crossover = crossover_of(replace(record, trials=disturbed))
    assert (crossover.verdict, crossover.crossing) == ("inconclusive", None)
    assert "0 of 16 blocks were quiet" in (crossover.reason or "")


def test_inconclusive_params_with_one_reason_share_a_sentence() -> None:
    shown = report_text(obeying(crossing_at(60), FEW[:5]))
    together = "by batch_size, layers and units (at least 6 blocks are needed): tensorflow"
    assert f"Inconclusive: {together}" in shown


def test_a_crossing_is_not_extrapolated() -> None:
    """The arms would cross at 400 units, but no block was that large."""
    crossover = crossover_of(obeying(crossing_at(400), TWICE))
    assert (crossover.verdict, crossover.crossing) == ("slower throughout", None)
    assert (crossover.curve[0].at, crossover.curve[-1].at) == pytest.approx((16, 192))
    assert [region.verdict for region in crossover.regions] == ["slower"]


def test_arms_can_be_the_same_throughout() -> None:
    record = obeying(crossing_at(60, slope=0), TWICE * 3, noise=0.005)
    assert crossover_of(record).verdict == "same throughout"


def test_a_curve_has_regions_instead_of_a_slope() -> None:
    """XLA is faster in the middle and slower at both ends, which no line could show."""
    law = crossing_at(60, slope=0)
    law[XLA] = lambda config: (
        law[PORTABLE](config) * 0.6 * 2 ** (abs(UNITS.index(int(config["units"])) - 3.5) ** 2 / 7)
    )
    crossover = crossover_of(obeying(law, TWICE * 2, noise=0.02))
    assert crossover.slope is None
    assert [region.verdict for region in crossover.regions if region.verdict != "inconclusive"] == [
        "slower", "faster", "slower",
    ]  # fmt: skip
    assert crossover.verdict == "partly"
    shown = " ".join(render(summarise(obeying(law, TWICE * 2, noise=0.02)), "text").split())
    assert "by units: slower at 16" in shown


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        (TWICE[:5], "at least 6 blocks are needed"),
        ([{"units": size} for size in (16, 32) * 4], "only 2 values of it were tried"),
        (
            [{"units": size, "layers": size} for size in UNITS],
            "it varied only together with layers",
        ),
    ],
)
def test_an_inconclusive_crossover_has_a_reason(configs: list[Config], reason: str) -> None:
    crossover = crossover_of(obeying(crossing_at(60), configs))
    assert crossover.verdict == "inconclusive"
    assert reason in (crossover.reason or "")
    assert crossover.points


def test_only_params_with_positive_numbers_have_a_curve() -> None:
    configs: list[Config] = [
        {"units": size, "cell": "lstm" if size > 40 else "gru", "bias": True, "dropout": 0.0}
        for size in UNITS
    ]
    record = obeying(crossing_at(60), configs)
    assert [crossover.param for crossover in summarise(record).crossovers] == ["units"]


def test_ratios_without_noise_have_a_verdict() -> None:
    assert crossover_of(paired(8)).verdict == "faster throughout"


def test_a_sweep_that_its_intervals_stopped_has_wider_bands() -> None:
    record = obeying(crossing_at(70), TWICE)
    plain, wider = (
        crossover_of(record),
        crossover_of(replace(record, criteria=ReportCriteria(auto_blocks=AutoBlocks()))),
    )
    assert plain.slope is not None
    assert wider.slope is not None
    freedom = len(TWICE) - 2
    widening = stdtrit(freedom, (1 + LEVEL) / 2) / stdtrit(freedom, 0.975)
    half = wider.slope.high - wider.slope.value
    assert half == pytest.approx(widening * (plain.slope.high - plain.slope.value))
    assert all(w.low < p.low for w, p in zip(wider.curve, plain.curve, strict=True))


SWEEP = Path(__file__).resolve().parents[3] / "sweeps" / "crossover.yaml"
SLOPES = {"units": 0.4, "layers": -0.5, "batch_size": 0.2, "sequence_length": -0.3}


@pytest.mark.parametrize("param", SLOPES)
def test_the_shipped_sweep_separates_the_params(param: str) -> None:
    """All four params change the speed-up at once, and each slope is estimated separately."""
    configs = load(SWEEP).search.listed
    assert len(configs) >= 16
    middle = {name: exp(mean(log(float(config[name])) for config in configs)) for name in SLOPES}
    laws = crossing_at(100, slope=0)
    laws[XLA] = lambda config: (
        laws[PORTABLE](config)
        / prod((float(config[name]) / middle[name]) ** slope for name, slope in SLOPES.items())
    )
    crossover = crossover_of(obeying(laws, configs), param)
    assert len({config[param] for config in configs}) >= 3
    assert (crossover.unadjusted, set(crossover.held)) == ((), set(SLOPES) - {param})
    assert crossover.slope is not None
    assert crossover.slope.value == pytest.approx(SLOPES[param], abs=0.1)
    assert crossover.slope.high - crossover.slope.low < 0.2


def test_all_curves_of_a_report_are_corrected_as_one_family() -> None:
    """With two curves, each has half of the allowed error."""
    alone = crossover_of(obeying(crossing_at(60), TWICE))
    assert alone.confidence == pytest.approx(0.95)
    configs = [{"units": size, "layers": n} for n in (1, 2, 3) for size in UNITS]
    record = obeying(crossing_at(60), configs)
    assert crossover_of(record).confidence == pytest.approx(0.975)
    assert crossover_of(record, "layers").confidence == pytest.approx(0.975)


def test_equal_arms_have_a_wrong_region_in_at_most_one_sweep_of_twenty() -> None:
    """Allow 5 % of 400 sweeps with three curves each, plus three standard errors."""
    configs = [
        {"units": size, "layers": 1 + i % 3, "batch_size": 16 * 2 ** (i % 4)}
        for i, size in enumerate(UNITS * 2)
    ]
    wrong = 0
    for seed in range(400):
        record = obeying(crossing_at(60, slope=0), configs, seed=seed)
        over = pick_baseline(record, None)
        assert over is not None
        fair = compare(record, match(record), over)
        curves = crossovers(fair, {t.block: t.config for t in record.trials}, 0.0)
        assert len(curves) == 3
        regions = [region.verdict for curve in curves for region in curve.regions]
        wrong += any(verdict in ("faster", "slower") for verdict in regions)
    assert wrong <= 20 + 3 * 4.4
