"""Where an arm overtakes another: on sweeps whose crossing is known, and where there is none."""

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


def found(record: SweepRecord, param: str = "units") -> Crossover:
    """As `summarise` has it, without the rest of a summary."""
    over = pick_baseline(record, None)
    assert over is not None
    fair = compare(record, match(record), over)
    configs = {each.block: each.config for each in record.trials}
    (crossover,) = [each for each in crossovers(fair, configs, 0.02) if each.param == param]
    return crossover


def text(record: SweepRecord) -> str:
    """The whole report on one line."""
    return " ".join(render(summarise(record), "text").split())


@pytest.mark.parametrize(
    ("param", "sizes", "size", "said"),
    [
        ("units", UNITS, 70, "from {} units on"),
        ("layers", (1, 2, 3, 4, 6, 8), 3, "from {} layers on"),
        ("batch_size", (16, 32, 64, 128, 256), 90, "from batch size {} on"),
        ("sequence_length", (10, 20, 40, 80, 160), 50, "from sequence length {} on"),
    ],
)
def test_the_known_crossing_is_found_and_said(
    param: str, sizes: tuple[int, ...], size: float, said: str
) -> None:
    """In sizes that there are: the first whole one at which the arm is the faster."""
    record = obeying(crossing_at(size, param=param), [{param: each} for each in sizes * 3])
    crossover = found(record, param)
    assert (crossover.verdict, crossover.faster) == ("crosses", "above")
    crossing = crossover.crossing
    assert crossing is not None
    assert crossing.low < size < crossing.high
    assert crossing.value == pytest.approx(size, rel=0.15)
    assert crossover.slope is not None
    assert crossover.slope.low < 0.3 < crossover.slope.high
    assert crossover in summarise(record).crossovers
    value, low, high = (ceil(each) for each in (crossing.value, crossing.low, crossing.high))
    assert (
        f"{said.format(value)} ({low}–{high}), tensorflow/portable+xla is faster than "
        f"tensorflow/portable, and slower below {low}"
    ) in text(record)


def test_an_arm_may_be_faster_below() -> None:
    record = obeying(crossing_at(70, slope=-0.3), TWICE)
    crossover = found(record)
    assert (crossover.verdict, crossover.faster) == ("crosses", "below")
    assert crossover.crossing is not None
    crossing = crossover.crossing
    value, low, high = (floor(each) for each in (crossing.value, crossing.low, crossing.high))
    shown = text(record)
    assert f"up to {value} units ({low}–{high}), tensorflow/portable+xla is faster" in shown
    assert f"and slower above {high}" in shown


def test_sizes_that_are_no_whole_numbers_are_not_rounded_to_some() -> None:
    rates: list[Config] = [{"rate": size} for size in (0.1, 0.2, 0.4, 0.8) * 4]
    record = obeying(crossing_at(0.3, param="rate"), rates)
    crossing = found(record, "rate").crossing
    assert crossing is not None
    assert f"from rate {crossing.value:.3g} on ({crossing.low:.3g}–" in text(record)


def test_a_crossing_that_is_sure_to_a_size_has_no_interval_in_words() -> None:
    """Known to within 2.4 and 2.6 layers: 3 is the first, and the only one that it may be."""
    layers: list[Config] = [{"layers": size} for size in (1, 2, 3, 4) * 3]
    shown = text(obeying(crossing_at(2.5, param="layers"), layers, noise=0.0005))
    assert "from 3 layers on, tensorflow/portable+xla is faster" in shown
    assert "and slower below 3" in shown


def test_the_plots_tell_it_in_the_same_sizes() -> None:
    layers: list[Config] = [{"layers": size} for size in (1, 2, 3, 4) * 3]
    summary = summarise(obeying(crossing_at(2.5, param="layers"), layers, noise=0.0005))
    (told,) = (plot.description for plot in plots_of(summary) if plot.key == "crossover-layers")
    assert "faster from 3 layers on, slower below 3" in told


def test_the_interval_covers_the_crossing_as_often_as_it_promises() -> None:
    """95 % of 300; 270 is six standard errors of the binomial below, 300 would be no interval."""
    sweeps = [found(obeying(crossing_at(60), TWICE, seed=seed)) for seed in range(300)]
    crossings = [each.crossing for each in sweeps if each.crossing is not None]
    assert len(crossings) == 300
    covered = sum(each.low <= 60 <= each.high for each in crossings)
    assert 270 <= covered < 300


def test_equal_arms_are_seldom_said_to_cross() -> None:
    """Both ends have to be shown, so that fewer than 5 % of 200 do; and it is no constant."""
    verdicts = Counter(
        found(obeying(crossing_at(60, slope=0), TWICE, noise=0.1, seed=seed)).verdict
        for seed in range(200)
    )
    assert verdicts["crosses"] <= 10
    assert verdicts["inconclusive"] >= 150


def test_other_params_are_held() -> None:
    """The batch size goes with the units here, and makes XLA faster by itself."""
    draw = random.Random(1)
    configs: list[Config] = [
        {"units": size, "batch_size": draw.choice((16, 32, 64, 128)) * (1 + (size > 48))}
        for size in UNITS * 4
    ]
    law = crossing_at(60, slope=0.3)
    plain = law[XLA]
    law[XLA] = lambda config: plain(config) * (float(config["batch_size"]) / 64) ** -0.5
    crossover = found(obeying(law, configs, noise=0.02))
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
"""As many as a verdict needs, and too few for all that varies: as a quickstart has them."""


def test_with_few_blocks_what_goes_with_the_param_is_held_and_the_rest_named() -> None:
    """XLA is faster with two layers, whatever the units: these only grow with the layers."""
    law = crossing_at(60, slope=0)
    law[XLA] = lambda config: law[PORTABLE](config) * (1.25 if config["layers"] == 1 else 0.8)
    crossover = found(obeying(law, FEW, noise=0.01))
    assert crossover.held == {"layers": 1.0}
    assert crossover.unadjusted == ("batch_size",)
    assert crossover.crossing is None
    assert crossover.slope is not None
    assert crossover.slope.low < 0 < crossover.slope.high


def test_what_a_sentence_does_not_allow_for_stands_in_it() -> None:
    law = crossing_at(35, slope=1)
    shown = text(obeying(law, FEW, noise=0.01))
    assert "(at layers 1; not adjusted for batch_size: too few blocks)" in shown
    law[XLA] = lambda config: law[PORTABLE](config) / 2
    shown = text(obeying(law, FEW, noise=0.01))
    assert "at all units (16–96) tried (not adjusted for batch_size: too few blocks): " in shown


def test_a_param_that_goes_with_another_is_refused_however_few_the_blocks() -> None:
    """As in sweeps/appleyard_lstm.yaml: as many features as units, in every row."""
    rows = [(512, 64), (256, 64), (384, 64), (768, 64), (512, 32), (512, 128)]
    configs: list[Config] = [
        {"units": units, "features": units, "batch_size": batch} for units, batch in rows
    ]
    record = obeying(crossing_at(400), configs, noise=0.01)
    for param, other in (("units", "features"), ("features", "units")):
        crossover = found(record, param)
        assert (crossover.verdict, crossover.slope) == ("inconclusive", None)
        assert crossover.reason == f"it varied only together with {other}"
    along_batch = found(record, "batch_size")  # one of the two stands for both
    assert set(along_batch.held) == {"features", "units"}
    assert along_batch.unadjusted == ()


def test_numbers_that_may_be_zero_or_absent_are_held_too() -> None:
    """The README's own spec: a dropout from 0 on, and a setting that only one cell has."""
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
    crossover = found(obeying(law, configs, noise=0.01))
    assert crossover.unadjusted == ()
    assert crossover.held == {
        "cell": "lstm", "dropout": crossover.held["dropout"], "recurrent_dropout": "absent",
    }  # fmt: skip
    assert crossover.slope is not None
    assert crossover.slope.value == pytest.approx(0.3, abs=0.03)


def layered(gain: float, seed: int = 0) -> SweepRecord:
    """XLA is `gain` times as fast with two layers as it is with one, at every size."""
    configs: list[Config] = [{"units": size, "layers": n} for n in (1, 2) for size in UNITS]
    law = crossing_at(60, slope=0.2)
    plain = law[XLA]
    law[XLA] = lambda config: plain(config) / (gain if config["layers"] == 2 else 1)
    return obeying(law, configs, seed=seed)


def test_of_two_values_it_is_told_how_they_differ() -> None:
    crossover = found(layered(1.3), "layers")
    assert (crossover.verdict, crossover.crossing, crossover.curve) == ("inconclusive", None, ())
    assert "only 2 values of it were tried" in (crossover.reason or "")
    assert crossover.growth is not None
    assert crossover.growth.low < 1.3 < crossover.growth.high < 1.5
    shown = text(layered(1.3))
    assert re.search(
        r"with 2 layers instead of 1, the speed-up of tensorflow/portable\+xla over "
        r"tensorflow/portable is 1\.\d+ × as large \(1\.\d+–1\.\d+\) \(at units ",
        shown,
    )
    assert "by layers (only" not in shown
    held = f"(at units {crossover.held['units']:.0f})"
    unmoved = f"With 2 layers instead of 1 {held}, no change of the speed-up is shown: "
    assert unmoved in text(layered(1.0))
    assert unmoved not in shown
    assert found(layered(1.3)).growth is None


def test_the_ratio_of_two_values_covers_as_often_as_it_promises() -> None:
    """95 % of 300, within five standard errors of the binomial, and not always."""
    found_in = [found(layered(1.3, seed), "layers").growth for seed in range(300)]
    covered = sum(each is not None and each.low < 1.3 < each.high for each in found_in)
    assert 266 <= covered < 300


def test_blocks_that_were_disturbed_tell_no_crossing() -> None:
    """As they tell no speed-up: what slows one arm at some sizes may not slow the other."""
    record = obeying(crossing_at(70), TWICE)
    disturbed = tuple(changed(each, disturbance={"shared_gpu": 1.0}) for each in record.trials)
    crossover = found(replace(record, trials=disturbed))
    assert (crossover.verdict, crossover.crossing) == ("inconclusive", None)
    assert "0 of 16 blocks were quiet" in (crossover.reason or "")


def test_params_of_which_nothing_is_told_for_one_reason_are_told_together() -> None:
    shown = text(obeying(crossing_at(60), FEW[:5]))
    together = "by batch_size, layers and units (at least 6 blocks are needed): tensorflow"
    assert f"Inconclusive: {together}" in shown


def test_nothing_is_said_beyond_what_was_tried() -> None:
    """It would cross at 400 units: none was that large."""
    crossover = found(obeying(crossing_at(400), TWICE))
    assert (crossover.verdict, crossover.crossing) == ("slower throughout", None)
    assert (crossover.curve[0].at, crossover.curve[-1].at) == pytest.approx((16, 192))
    assert [region.verdict for region in crossover.regions] == ["slower"]


def test_what_is_same_throughout_is_said() -> None:
    record = obeying(crossing_at(60, slope=0), TWICE * 3, noise=0.005)
    assert found(record).verdict == "same throughout"


def test_a_curve_is_followed() -> None:
    """Twice as fast in the middle and slower at both ends: no line could say so."""
    law = crossing_at(60, slope=0)
    law[XLA] = lambda config: (
        law[PORTABLE](config) * 0.6 * 2 ** (abs(UNITS.index(int(config["units"])) - 3.5) ** 2 / 7)
    )
    crossover = found(obeying(law, TWICE * 2, noise=0.02))
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
def test_it_says_why_it_cannot_tell(configs: list[Config], reason: str) -> None:
    crossover = found(obeying(crossing_at(60), configs))
    assert crossover.verdict == "inconclusive"
    assert reason in (crossover.reason or "")
    assert crossover.points


def test_params_that_are_no_positive_numbers_have_no_curve() -> None:
    configs: list[Config] = [
        {"units": size, "cell": "lstm" if size > 40 else "gru", "bias": True, "dropout": 0.0}
        for size in UNITS
    ]
    record = obeying(crossing_at(60), configs)
    assert [each.param for each in summarise(record).crossovers] == ["units"]


def test_ratios_without_noise_are_no_trouble() -> None:
    assert found(paired(8)).verdict == "faster throughout"


def test_a_sweep_that_ended_by_its_intervals_has_wider_bands_too() -> None:
    record = obeying(crossing_at(70), TWICE)
    plain, wider = (
        found(record),
        found(replace(record, criteria=ReportCriteria(auto_blocks=AutoBlocks()))),
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
def test_the_shipped_sweep_tells_the_params_apart(param: str) -> None:
    """All four at once make XLA faster or slower, and each is found with its own slope."""
    configs = load(SWEEP).search.listed
    assert len(configs) >= 16
    middle = {name: exp(mean(log(float(each[name])) for each in configs)) for name in SLOPES}
    laws = crossing_at(100, slope=0)
    laws[XLA] = lambda config: (
        laws[PORTABLE](config)
        / prod((float(config[name]) / middle[name]) ** slope for name, slope in SLOPES.items())
    )
    crossover = found(obeying(laws, configs), param)
    assert len({each[param] for each in configs}) >= 3
    assert (crossover.unadjusted, set(crossover.held)) == ((), set(SLOPES) - {param})
    assert crossover.slope is not None
    assert crossover.slope.value == pytest.approx(SLOPES[param], abs=0.1)
    assert crossover.slope.high - crossover.slope.low < 0.2


def test_all_curves_of_a_report_are_corrected_as_one_family() -> None:
    """Two params, each of them tested along one curve: half of the error for each."""
    alone = found(obeying(crossing_at(60), TWICE))
    assert alone.confidence == pytest.approx(0.95)
    configs = [{"units": size, "layers": n} for n in (1, 2, 3) for size in UNITS]
    record = obeying(crossing_at(60), configs)
    assert found(record).confidence == pytest.approx(0.975)
    assert found(record, "layers").confidence == pytest.approx(0.975)


def test_equal_arms_have_a_wrong_region_in_at_most_one_sweep_of_twenty() -> None:
    """Of 400 sweeps with three curves each, at most 5 % plus three standard errors."""
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
