"""Test crossovers on sweeps with a known crossing, and on sweeps without one."""

import random
from dataclasses import replace
from math import inf, log2, prod

import pytest
from scipy.stats import t

from orchestrator.analysis.comparisons.effects import Crossover, crossovers
from orchestrator.analysis.comparisons.speed import compare_arms
from orchestrator.analysis.pairing.complete_rounds import match
from orchestrator.analysis.pairing.baselines import pick_baseline
from orchestrator.analysis.statistics.estimates import LEVEL, Estimate
from orchestrator.analysis.statistics.regression import Design
from orchestrator.core.criteria import AutoBlocks, ReportCriteria
from orchestrator.core.records import SweepRecord
from orchestrator.core.trial import Config
from tests.building.arms import PORTABLE, XLA
from tests.building.chance import fewest_by_chance, most_by_chance
from tests.building.known_records import UNITS, build_crossing_laws, build_record_by_laws
from tests.profiles import draws

TWICE: list[Config] = [{"units": size, "batch_size": 32} for size in UNITS * 2]


def crossovers_of(record: SweepRecord, margin: float = 0.02) -> dict[str, Crossover]:
    """Return the crossovers that `summarise` would report, without the rest of the summary."""
    over = pick_baseline(record, None)
    assert over is not None
    configs = {finished.block: finished.config for finished in record.trials}

    def design_of(blocks: tuple[int, ...]) -> Design:
        return Design([configs[block] for block in blocks])

    curves = crossovers(compare_arms(record, match(record), over), design_of, margin)
    return {curve.effect.param: curve for curve in curves}


def crossover_of(record: SweepRecord, param: str = "units") -> Crossover:
    return crossovers_of(record)[param]


def slope_of(crossover: Crossover) -> Estimate:
    """Return the power of the size with which the speed-up grows."""
    (change,) = crossover.effect.changes
    assert (change.of, change.to) == (None, None)  # doubling
    effect = change.effect
    return Estimate(effect.n, log2(effect.value), log2(effect.low), log2(effect.high))


@pytest.mark.parametrize(
    ("param", "sizes", "size", "slope"),
    [
        ("units", UNITS, 70, -0.3),
        ("rate", (0.1, 0.2, 0.4, 0.8), 0.3, 0.3),
    ],
)
def test_the_known_crossing_is_estimated(
    param: str, sizes: tuple[float, ...], size: float, slope: float
) -> None:
    record = build_record_by_laws(
        build_crossing_laws(size, slope, param), [{param: value} for value in sizes * 3]
    )
    crossover = crossover_of(record, param)
    assert (crossover.verdict, crossover.faster) == ("crosses", "above" if slope > 0 else "below")
    crossing = crossover.crossing
    assert crossing is not None
    assert crossing.low < crossing.value < crossing.high
    assert crossing.value == pytest.approx(size, rel=0.15)
    assert slope_of(crossover).low < slope < slope_of(crossover).high


def test_the_interval_of_a_crossing_has_its_nominal_coverage() -> None:
    sweeps = draws(100, 200)
    curves = [
        crossover_of(build_record_by_laws(build_crossing_laws(60), TWICE, seed=seed))
        for seed in range(sweeps)
    ]
    crossings = [crossover.crossing for crossover in curves if crossover.crossing is not None]
    assert len(crossings) == sweeps
    covered = sum(crossing.low <= 60 <= crossing.high for crossing in crossings)
    assert fewest_by_chance(sweeps, 0.95) <= covered < sweeps


def test_equal_arms_have_a_wrong_region_in_at_most_one_sweep_of_twenty() -> None:
    configs: list[Config] = [
        {"units": size, "layers": 1 + i % 3, "batch_size": 16 * 2 ** (i % 4)}
        for i, size in enumerate(UNITS * 2)
    ]
    sweeps, wrong = draws(100, 200), 0
    for seed in range(sweeps):
        curves = crossovers_of(
            build_record_by_laws(build_crossing_laws(60, slope=0), configs, seed=seed), 0.0
        )
        assert len(curves) == 3
        regions = [region.verdict for curve in curves.values() for region in curve.regions]
        wrong += any(verdict in ("faster", "slower") for verdict in regions)
    assert wrong <= most_by_chance(sweeps, 0.05)


def test_the_level_allows_for_all_curves_and_for_stopping() -> None:
    one = build_record_by_laws(build_crossing_laws(60), TWICE)
    configs: list[Config] = [{"units": size, "layers": n} for n in (1, 2, 3) for size in UNITS]
    two = build_record_by_laws(build_crossing_laws(60), configs)
    stopped = replace(one, criteria=ReportCriteria(auto_blocks=AutoBlocks()))
    levels = [[c.effect.confidence for c in crossovers_of(r).values()] for r in (one, two, stopped)]
    assert levels == [pytest.approx(own) for own in ([0.95], [0.975] * 2, [LEVEL])]
    slope, wider = (slope_of(crossover_of(record)) for record in (one, stopped))
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
    curves = crossovers_of(build_record_by_laws(laws, configs, noise=0.01))
    assert curves.keys() == {"units", "width", "features"}  # positive numbers in every config
    held, point = curves["units"].effect.held, curves["units"].effect.points[0]
    assert held.keys() == {"cell", "features", "recurrent_dropout", "width"}
    assert (held["cell"], held["recurrent_dropout"]) == ("lstm", "absent")
    assert slope_of(curves["units"]).value == pytest.approx(0.3, abs=0.03)
    assert point.adjusted != point.value


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        (TWICE[:5], "at least 6 blocks are needed"),
        (
            [{"units": a * b, "heads": a, "width": b} for a in (2, 4, 16) for b in (3, 9, 10)],
            "it varied only together with heads and width",
        ),
        ([{"units": s, "label": f"run {s}"} for s in UNITS], "only together with label"),
        (
            [{"units": s, "layers": 1 + s // 40, "heads": 1 + s // 20 % 2} for s in UNITS[:6]],
            "6 blocks are too few to adjust for heads and layers",
        ),
    ],
)
def test_an_inconclusive_crossover_has_a_reason(configs: list[Config], reason: str) -> None:
    crossover = crossover_of(build_record_by_laws(build_crossing_laws(60), configs))
    assert crossover.verdict == "inconclusive"
    assert reason in (crossover.reason or "")
    assert crossover.effect.points


def test_up_to_three_values_have_a_level_each_and_no_line() -> None:
    configs: list[Config] = [
        {"units": size, "layers": n}
        for n, sizes in ((1, UNITS), (2, UNITS), (3, UNITS[:3]))
        for size in sizes
    ]
    laws = build_crossing_laws(1.4, slope=1, param="layers")
    record = build_record_by_laws(laws, configs)
    crossover = crossover_of(record, "layers")
    assert (crossover.verdict, crossover.crossing) == ("partly", None)
    assert [point.at for point in crossover.effect.curve] == [1, 2, 3]
    assert [r.verdict for r in crossover.regions] == ["slower", "faster", "inconclusive"]
    two, three = (change.effect for change in crossover.effect.changes)
    assert two.low < 2 < two.high
    assert three.value == pytest.approx(3, rel=0.2)
    assert (three.low, three.high) == (0, inf)


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (build_record_by_laws(build_crossing_laws(60, slope=0), TWICE * 3, noise=0.005), "same"),
        (build_record_by_laws(build_crossing_laws(UNITS[0], 0.1), TWICE * 2, noise=0.02), "partly"),
    ],
)
def test_verdicts_are_limited_to_the_sizes_tried(record: SweepRecord, verdict: str) -> None:
    crossover = crossover_of(record)
    assert (crossover.verdict, crossover.crossing) == (verdict, None)
    sizes = [float(finished.config["units"]) for finished in record.trials]
    ends = pytest.approx((min(sizes), max(sizes)))
    assert (crossover.effect.curve[0].at, crossover.effect.curve[-1].at) == ends
    assert (crossover.regions[0].low, crossover.regions[-1].high) == ends
