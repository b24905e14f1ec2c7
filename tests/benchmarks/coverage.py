"""How often intervals cover the truth, on simulated data: the figures of the docstrings.

Rounds take turns in slices until their ratio's interval is narrow; reports have blocks of unlike
scatter; sweeps with `blocks: auto` stop at the first look whose interval is narrow. The simulations
are those of the tests (`tests/orchestrator/analysis/random_draws.py`).
"""

from collections.abc import Iterator

import numpy as np

from orchestrator.analysis.statistics.estimates import CONFIDENCE, LEVEL
from orchestrator.analysis.statistics.verdicts import judge
from tests.benchmarks import rig
from tests.orchestrator.analysis.random_draws import (
    TRUTH,
    correlated,
    drifting,
    heavy,
    one_sided,
    rounds,
    stop_sweeps,
)

_TURNS = {
    **{f"autoregression of {rho:g}": correlated(rho) for rho in (0.0, 0.3, 0.61, 0.9)},
    "slow drift (0.98) plus noise": drifting,
}
_BLOCKS = {"even, long tails": heavy, "one in ten half as slow again": one_sided}
_DEVIATIONS = (0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--draws", type=int, default=10_000)
    asked = parser.parse_args()
    environment = rig.environment("numpy", "scipy")
    rows = dict(_shares(asked.draws))
    title = f"The share of {asked.draws} intervals that hold the truth"
    lines = [title, rig.table([{"name": n, "share": s} for n, s in rows.items()], {"share": ".1%"})]
    rig.publish(asked.output, "coverage", environment, lines, draws=asked.draws, coverage=rows)


def _shares(count: int) -> Iterator[tuple[str, float]]:
    for name, draw in _TURNS.items():
        for wanted in (0.01, 0.02, 0.05):
            ended = rounds(draw, wanted, count)
            held = [abs(result.log_ratio - TRUTH) <= (result.half_width or 0.0) for result in ended]
            yield f"rounds to ± {wanted:.0%}, {name}", float(np.mean(held))
    for name, draw_blocks in _BLOCKS.items():
        for blocks in (6, 12, 40):
            drawn = draw_blocks(np.random.default_rng([6, blocks]), (count, blocks))
            intervals = [judge([values.tolist()], margin=1e-9)[0].corrected for values in drawn]
            held = [bool(interval and interval.low <= 0 <= interval.high) for interval in intervals]
            yield f"reports of {blocks} blocks, {name}", float(np.mean(held))
    for most in (60, 600):
        for deviation in _DEVIATIONS:
            random = np.random.default_rng([int(100 * deviation), most])
            values = deviation * random.standard_normal((count, most))
            what = f"sweeps of at most {most} blocks, deviation {deviation:g}"
            for level in (LEVEL, CONFIDENCE):
                share = float(stop_sweeps(values, level)[0].mean())
                yield f"{what}, level {level:.0%}", share


if __name__ == "__main__":
    main()
