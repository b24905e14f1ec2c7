"""Test crossovers on sweeps with a known crossing, and on sweeps without one."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, exp, log, prod
from pathlib import Path
from statistics import mean

import pytest
from scipy.stats import t

from orchestrator.analysis.comparisons.crossover import Crossover, crossovers
from orchestrator.analysis.comparisons.speed import compare
from orchestrator.analysis.pairing.baseline import pick_baseline
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.statistics.estimates import LEVEL
from orchestrator.core.arms import Arm
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from orchestrator.report.render import render, summarise
from orchestrator.spec import load
from tests.benchmarks.trusting.findings import fewest_by_chance, most_by_chance
from tests.orchestrator.analysis.known_sweeps import UNITS, StepTime, crossing_at, obeying
from tests.orchestrator.sample_records import PORTABLE, XLA, paired
from tests.profiles import draws

TWICE: list[Config] = [{"units": size, "batch_size": 32} for size in UNITS * 2]


def crossovers_of(record: SweepRecord, margin: float = 0.02) -> dict[str, Crossover]:
    """Return the crossovers that `summarise` would report, without the rest of the summary."""
    over = pick_baseline(record, None)
    assert over is not None
    configs = {finished.block: finished.config for finished in record.trials}
    curves = crossovers(compare(record, match(record), over), configs, margin)
    return {curve.param: curve for curve in curves}


def crossover_of(record: SweepRecord, param: str = "units") -> Crossover:
    return crossovers_of(record)[param]


def with_slopes(slopes: Mapping[str, float], configs: list[Config]) -> dict[Arm, StepTime]:
    """Return laws by which XLA's speed-up has these slopes, and is 1 in the middle of the configs.

    The default of an absent param is 1.
    """

    def log_of(config: Config, name: str) -> float:
        return log(float(config.get(name, 1)))

    middle = {name: mean(log_of(config, name) for config in configs) for name in slopes}
    laws = crossing_at(100, slope=0)
    laws[XLA] = lambda config: (
        laws[PORTABLE](config)
        / prod(exp(slope * (log_of(config, name) - middle[name])) for name, slope in slopes.items())
    )
    return laws


@pytest.mark.parametrize(
    ("param", "sizes", "size", "slope", "phrase"),
    [
        ("units", UNITS, 70, 0.3, "from {} units on"),
        ("units", UNITS, 70, -0.3, "up to {} units"),
        ("batch_size", (16, 32, 64, 128, 256), 90, 0.3, "from batch size {} on"),
        ("rate", (0.1, 0.2, 0.4, 0.8), 0.3, 0.3, "from rate {} on"),
    ],
)
def test_the_known_crossing_is_estimated_and_reported(
    param: str, sizes: tuple[float, ...], size: float, slope: float, phrase: str
) -> None:
    """The size in the report is a whole number unless fractions were tried."""
    record = obeying(crossing_at(size, slope, param), [{param: value} for value in sizes * 3])
    crossover = crossover_of(record, param)
    assert (crossover.verdict, crossover.faster) == ("crosses", "above" if slope > 0 else "below")
    crossing = crossover.crossing
    assert crossing is not None and crossover.slope is not None
    assert crossing.low < crossing.value < crossing.high
    assert crossing.value == pytest.approx(size, rel=0.15)
    assert crossover.slope.low < slope < crossover.slope.high
    whole = ceil(crossing.value) if slope > 0 else int(crossing.value)
    shown = " ".join(render(summarise(record), "text").split())
    assert phrase.format(f"{crossing.value:.3g}" if param == "rate" else whole) in shown


def test_the_interval_of_a_crossing_has_its_nominal_coverage() -> None:
    sweeps = draws(100, 400)
    curves = [crossover_of(obeying(crossing_at(60), TWICE, seed=seed)) for seed in range(sweeps)]
    crossings = [crossover.crossing for crossover in curves if crossover.crossing is not None]
    assert len(crossings) == sweeps
    covered = sum(crossing.low <= 60 <= crossing.high for crossing in crossings)
    assert fewest_by_chance(sweeps, 0.95) <= covered < sweeps


def test_equal_arms_have_a_wrong_region_in_at_most_one_sweep_of_twenty() -> None:
    """Each sweep has three curves."""
    configs: list[Config] = [
        {"units": size, "layers": 1 + i % 3, "batch_size": 16 * 2 ** (i % 4)}
        for i, size in enumerate(UNITS * 2)
    ]
    sweeps, wrong = draws(100, 400), 0
    for seed in range(sweeps):
        curves = crossovers_of(obeying(crossing_at(60, slope=0), configs, seed=seed), 0.0)
        assert len(curves) == 3
        regions = [region.verdict for curve in curves.values() for region in curve.regions]
        wrong += any(verdict in ("faster", "slower") for verdict in regions)
    assert wrong <= most_by_chance(sweeps, 0.05)


def test_the_level_allows_for_all_curves_and_for_stopping() -> None:
    """With two curves, each has half of the allowed error."""
    one = obeying(crossing_at(60), TWICE)
    configs: list[Config] = [{"units": size, "layers": n} for n in (1, 2, 3) for size in UNITS]
    two = obeying(crossing_at(60), configs)
    stopped = replace(one, criteria=ReportCriteria(auto_blocks=AutoBlocks()))
    levels = [[c.confidence for c in crossovers_of(r).values()] for r in (one, two, stopped)]
    assert levels == [pytest.approx(own) for own in ([0.95], [0.975] * 2, [LEVEL])]
    slope, wider = (crossover_of(record).slope for record in (one, stopped))
    assert slope is not None and wider is not None
    widening = t.ppf((1 + LEVEL) / 2, len(TWICE) - 2) / t.ppf(0.975, len(TWICE) - 2)
    assert wider.high - wider.value == pytest.approx(widening * (slope.high - slope.value))


def test_the_shipped_sweep_separates_its_params() -> None:
    """All four params change the speed-up at once, and each slope is estimated separately."""
    sweep_file = Path(__file__).resolve().parents[3] / "sweeps" / "crossover.yaml"
    configs = list(load(sweep_file).search.listed)
    slopes = {"units": 0.4, "layers": -0.5, "batch_size": 0.2, "sequence_length": -0.3}
    curves = crossovers_of(obeying(with_slopes(slopes, configs), configs))
    assert curves.keys() == slopes.keys()
    for param, crossover in curves.items():
        assert len({config[param] for config in configs}) >= 3
        assert crossover.slope is not None
        assert crossover.slope.value == pytest.approx(slopes[param], abs=0.1)


def test_other_params_of_any_kind_are_adjusted_for() -> None:
    """A dropout may be 0, only one cell has a recurrent dropout, and features follow the width."""
    draw = random.Random(2)
    configs: list[Config] = []
    for place in range(16):
        gru: Config = {"cell": "gru", "recurrent_dropout": draw.uniform(0, 0.3)}
        cell = gru if place % 5 in (1, 3) else {"cell": "lstm"}
        width = draw.choice((8, 16, 32)) * (1 + (UNITS[place % 8] > 48))
        sizes: Config = {"units": UNITS[place % 8], "width": width, "features": 2 * width}
        configs.append({**sizes, "dropout": draw.randrange(6) / 10, "bias": True, **cell})
    law = with_slopes({"units": 0.3, "width": 0.5}, configs)
    plain = law[XLA]
    law[XLA] = lambda config: (
        plain(config)
        * exp(float(config["dropout"]) + (config["cell"] == "gru") / 2)
        * exp(-2 * float(config.get("recurrent_dropout", 0)))
    )
    curves = crossovers_of(obeying(law, configs, noise=0.01))
    assert curves.keys() == {"units", "width", "features"}  # positive numbers
    crossover = curves["units"]
    assert crossover.held.keys() == {"cell", "dropout", "features", "recurrent_dropout", "width"}
    assert (crossover.held["cell"], crossover.held["recurrent_dropout"]) == ("lstm", "absent")
    assert crossover.slope is not None
    assert crossover.slope.value == pytest.approx(0.3, abs=0.03)
    assert crossover.points[0].adjusted != crossover.points[0].speedup


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        (TWICE[:5], "at least 6 blocks are needed"),
        ([{"units": size} for size in (16, 32) * 4], "only 2 values of it were tried"),
        ([{"units": s, "layers": s} for s in UNITS], "it varied only together with layers"),
        (
            [{"units": a * b, "heads": a, "width": b} for a in (2, 4, 16) for b in (3, 9, 10)],
            "it varied only together with heads and width",
        ),
        ([{"units": s, "label": f"run {s}"} for s in UNITS], "only together with label"),
        (
            [
                {"units": size, "layers": 1 + i // 3, "batch_size": 32 * (1 + i % 2)}
                for i, size in enumerate(UNITS[:6])
            ],
            "6 blocks are too few to adjust for batch_size and layers",
        ),
    ],
)
def test_an_inconclusive_crossover_has_a_reason(configs: list[Config], reason: str) -> None:
    crossover = crossover_of(obeying(crossing_at(60), configs))
    assert crossover.verdict == "inconclusive"
    assert reason in (crossover.reason or "")
    assert crossover.points


def test_a_param_with_two_values_has_a_ratio_of_speedups() -> None:
    configs: list[Config] = [{"units": size, "layers": n} for n in (1, 2) for size in UNITS]
    record = obeying(with_slopes({"units": 0.2, "layers": log(1.3, 2)}, configs), configs)
    crossover = crossover_of(record, "layers")
    assert (crossover.verdict, crossover.crossing, crossover.curve) == ("inconclusive", None, ())
    growth, slope = crossover.growth, crossover.slope
    assert growth is not None and slope is not None
    assert (growth.low, growth.high) == pytest.approx((2**slope.low, 2**slope.high))
    assert growth.low < 1.3 < growth.high
    shown = " ".join(render(summarise(record), "text").split())
    assert "with 2 layers instead of 1, the speed-up of" in shown


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (obeying(crossing_at(400), TWICE), "slower throughout"),  # it would cross at 400
        (obeying(crossing_at(60, slope=0), TWICE * 3, noise=0.005), "same throughout"),
        (paired(8), "faster throughout"),  # ratios without noise
        (obeying(crossing_at(UNITS[0], 0.1), TWICE * 2, noise=0.02), "partly"),
    ],
)
def test_verdicts_are_limited_to_the_sizes_tried(record: SweepRecord, verdict: str) -> None:
    crossover = crossover_of(record)
    assert (crossover.verdict, crossover.crossing) == (verdict, None)
    assert crossover.throughout == (None if verdict == "partly" else verdict.split(maxsplit=1)[0])
    sizes = [float(finished.config["units"]) for finished in record.trials]
    ends = pytest.approx((min(sizes), max(sizes)))
    assert (crossover.curve[0].at, crossover.curve[-1].at) == ends
    assert (crossover.regions[0].low, crossover.regions[-1].high) == ends
