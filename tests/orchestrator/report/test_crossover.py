"""Where an arm overtakes another: on sweeps whose crossing is known, and where there is none."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from scipy.special import stdtrit

from orchestrator.aims import Aims, AutoBlocks
from orchestrator.report.baseline import pick_baseline
from orchestrator.report.blocks import match
from orchestrator.report.comparison import compare
from orchestrator.report.crossover import Crossover, crossovers
from orchestrator.report.records import SweepRecord
from orchestrator.report.rendering import render, summarise
from orchestrator.report.sequential import LEVEL
from orchestrator.trial import Config
from tests.orchestrator.report.known import UNITS, crossing_at, obeying
from tests.orchestrator.report.records import PORTABLE, XLA, paired

TWICE: list[Config] = [{"units": size, "batch_size": 32} for size in UNITS * 2]


def found(record: SweepRecord, param: str = "units") -> Crossover:
    """As `summarise` has it, without the rest of a summary."""
    over = pick_baseline(record, None)
    assert over is not None
    fair = compare(record, match(record), over)
    configs = {each.block: each.config for each in record.trials}
    (crossover,) = [each for each in crossovers(fair, configs, 0.02) if each.param == param]
    return crossover


def test_the_known_crossing_is_found_and_said() -> None:
    record = obeying(crossing_at(70), TWICE)
    crossover = found(record)
    assert (crossover.verdict, crossover.faster) == ("crosses", "above")
    assert crossover.crossing is not None
    assert crossover.crossing.low < 70 < crossover.crossing.high
    assert crossover.crossing.value == pytest.approx(70, rel=0.15)
    assert crossover.slope is not None
    assert crossover.slope.low < 0.3 < crossover.slope.high
    assert crossover in summarise(record).crossovers
    shown = " ".join(render(summarise(record), "text").split())
    said = f"from {crossover.crossing.value:.3g} units on"
    assert said in shown
    assert "tensorflow/portable+xla is faster than tensorflow/portable, elsewhere slower" in shown


def test_an_arm_may_be_faster_below() -> None:
    crossover = found(obeying(crossing_at(70, slope=-0.3), TWICE))
    assert (crossover.verdict, crossover.faster) == ("crosses", "below")


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
    assert verdicts["cannot tell"] >= 150


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


def test_nothing_is_said_beyond_what_was_tried() -> None:
    """It would cross at 400 units: none was that large."""
    crossover = found(obeying(crossing_at(400), TWICE))
    assert (crossover.verdict, crossover.crossing) == ("slower throughout", None)
    assert (crossover.curve[0].at, crossover.curve[-1].at) == pytest.approx((16, 192))
    assert [region.told for region in crossover.regions] == ["slower"]


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
    assert [region.told for region in crossover.regions if region.told != "cannot tell"] == [
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
            "it varied only together with other params",
        ),
    ],
)
def test_it_says_why_it_cannot_tell(configs: list[Config], reason: str) -> None:
    crossover = found(obeying(crossing_at(60), configs))
    assert crossover.verdict == "cannot tell"
    assert reason in crossover.reason
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
    plain, wider = found(record), found(replace(record, aims=Aims(auto_blocks=AutoBlocks())))
    assert plain.slope is not None
    assert wider.slope is not None
    freedom = len(TWICE) - 2
    widening = stdtrit(freedom, (1 + LEVEL) / 2) / stdtrit(freedom, 0.975)
    half = wider.slope.high - wider.slope.value
    assert half == pytest.approx(widening * (plain.slope.high - plain.slope.value))
    assert all(w.low < p.low for w, p in zip(wider.curve, plain.curve, strict=True))
