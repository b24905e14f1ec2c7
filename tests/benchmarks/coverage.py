"""How often intervals cover the truth, on simulated data: the figures of the docstrings.

    python -m tests.benchmarks.coverage [--rounds 10000] [--reports 20000] [--sweeps 40000]
                                        [--output FOLDER]

* rounds: two arms take turns in slices until their ratio's interval is as narrow as wanted, or all
  turns are taken (`orchestrator.analysis.statistics.batch_means`), where turns resemble those
  before them.
* reports: an arm's interval over blocks of unlike scatter
(`orchestrator.analysis.statistics.verdicts`).
* sweeps: `blocks: auto`, which stops at the first look whose interval is narrow
  (`orchestrator.analysis.statistics.stopping_looks`), with intervals of its level and of 95 %.

Draws and rules are those of the suite, `tests/orchestrator/analysis/random_draws.py`, in larger
numbers.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from orchestrator.analysis.statistics.estimates import CONFIDENCE
from orchestrator.analysis.statistics.stopping_looks import LEVEL
from orchestrator.analysis.statistics.verdicts import judge
from tests.benchmarks import rig
from tests.orchestrator.analysis.random_draws import (
    TRUTH,
    Draw,
    Draws,
    StoppedSweeps,
    correlated,
    drifting,
    heavy,
    one_sided,
    rounds,
    stop_sweeps,
)

_TURNS: dict[str, Draw] = {
    "independent": correlated(0.0),
    "autoregression of 0.3": correlated(0.3),
    "autoregression of 0.61": correlated(0.61),
    "autoregression of 0.9": correlated(0.9),
    "slow drift (0.98) plus noise": drifting,
}
_WANTED = (0.01, 0.02, 0.05)
_BLOCKS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Draws]] = {
    "even, long tails": heavy,
    "one in ten half as slow again": one_sided,
}
_DEVIATIONS = (0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
_AT_MOST = (60, 600)
_AT_ONCE = 4000


@dataclass(frozen=True, slots=True)
class RoundCoverage:
    """Rounds that end at a given interval, with the bias of their ratio in standard errors."""

    turns: str
    wanted: float
    coverage: float
    bias: float


@dataclass(frozen=True, slots=True)
class ReportCoverage:
    """Reports of one comparison with this number of blocks."""

    blocks: str
    count: int
    coverage: float


@dataclass(frozen=True, slots=True)
class SweepCoverage:
    """Sweeps with `blocks: auto`, with a deviation in units of the target half-width.

    `more_blocks` is the share of additional blocks, compared with a level of 95 %.
    """

    deviation: float
    at_most: int
    coverage: float
    coverage_at_95: float
    mean_blocks: float
    more_blocks: float
    bias: float


def main() -> None:
    """Simulate, print the tables, and write them if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--sweeps", type=int, default=40_000)
    parser.add_argument("--output", type=Path, help="write coverage.json and coverage.txt here")
    asked = parser.parse_args()
    environment = rig.environment("numpy", "scipy")
    of_rounds = list(of_all_rounds(asked.rounds))
    of_reports = list(of_all_reports(asked.reports))
    of_sweeps = list(of_all_sweeps(asked.sweeps))
    text = "\n\n".join(
        [
            f"Coverage: the share of intervals that hold the truth\n{rig.heading(environment)}",
            f"{asked.rounds} rounds each\n{rounds_table(of_rounds)}",
            f"{asked.reports} reports each\n{reports_table(of_reports)}",
            f"{asked.sweeps} sweeps each\n{sweeps_table(of_sweeps)}",
        ]
    )
    print(text)
    if asked.output is not None:
        result = {
            "benchmark": "coverage",
            "environment": environment,
            "draws": {name: vars(asked)[name] for name in ("rounds", "reports", "sweeps")},
            "rounds": [asdict(row) for row in of_rounds],
            "reports": [asdict(row) for row in of_reports],
            "sweeps": [asdict(row) for row in of_sweeps],
        }
        rig.keep(asked.output, "coverage", result, text)


def of_all_rounds(count: int) -> Iterator[RoundCoverage]:
    """Simulate every kind of turns at every target interval."""
    for name, draw in _TURNS.items():
        for wanted in _WANTED:
            ended = rounds(draw, wanted, count)
            held = [abs(result.log_ratio - TRUTH) <= (result.half_width or 0.0) for result in ended]
            away = np.array([result.log_ratio - TRUTH for result in ended])
            yield RoundCoverage(name, wanted, float(np.mean(held)), _bias(away))


def of_all_reports(count: int) -> Iterator[ReportCoverage]:
    """Simulate every kind and number of blocks, with a true mean of 0."""
    for name, draw in _BLOCKS.items():
        for blocks in (6, 12, 40):
            drawn = draw(np.random.default_rng([6, blocks]), (count, blocks))
            yield ReportCoverage(
                name, blocks, float(np.mean([_holds_0(values) for values in drawn]))
            )


def _holds_0(values: Draws) -> bool:
    (result,) = judge([values.tolist()], margin=1e-9)  # no verdict can be "same"
    assert result.corrected is not None
    return result.corrected.low <= 0 <= result.corrected.high


def of_all_sweeps(count: int) -> Iterator[SweepCoverage]:
    """Simulate every deviation, with a low and a high maximum of blocks."""
    for at_most in _AT_MOST:
        for deviation in _DEVIATIONS:
            rng = np.random.default_rng([int(100 * deviation), at_most])
            sizes = [min(_AT_ONCE, count - begun) for begun in range(0, count, _AT_ONCE)]
            drawn = (deviation * rng.standard_normal((size, at_most)) for size in sizes)
            both = [
                (stop_sweeps(values, LEVEL), stop_sweeps(values, CONFIDENCE)) for values in drawn
            ]
            ours, at_95 = (_joined(side) for side in zip(*both, strict=True))
            yield SweepCoverage(
                deviation,
                at_most,
                float(ours.covered.mean()),
                float(at_95.covered.mean()),
                float(ours.blocks.mean()),
                float(ours.blocks.mean() / at_95.blocks.mean()) - 1,
                _bias(ours.means),
            )


def _joined(parts: Sequence[StoppedSweeps]) -> StoppedSweeps:
    return StoppedSweeps(
        np.concatenate([part.blocks for part in parts]),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.covered for part in parts]),
    )


def _bias(away: Draws) -> float:
    return float(away.mean() / (away.std(ddof=1) / math.sqrt(len(away))))


def rounds_table(rows: Sequence[RoundCoverage]) -> str:
    """Return a line for each kind of turns and target interval."""
    lines = [f"{'turns':<34}{'wanted':>8}{'coverage':>10}{'bias, in standard errors':>26}"]
    lines += [
        f"{row.turns:<34}{row.wanted:>8.0%}{row.coverage:>10.1%}{row.bias:>26.1f}" for row in rows
    ]
    return "\n".join(lines)


def reports_table(rows: Sequence[ReportCoverage]) -> str:
    """Return a line for each kind and number of blocks."""
    lines = [f"{'blocks':<34}{'number':>8}{'coverage':>10}"]
    lines += [f"{row.blocks:<34}{row.count:>8}{row.coverage:>10.1%}" for row in rows]
    return "\n".join(lines)


def sweeps_table(rows: Sequence[SweepCoverage]) -> str:
    """Return a line for each deviation and maximum of blocks, and the range of all coverages."""
    level = f"at {100 * LEVEL:.0f} %"
    lines = [
        f"{'deviation, wanted half-widths':<34}{'at most':>8}{level:>10}{'at 95 %':>10}"
        f"{'blocks':>10}{'more than at 95 %':>20}{'bias, in standard errors':>26}"
    ]
    lines += [
        f"{row.deviation:<34}{row.at_most:>8}{row.coverage:>10.1%}{row.coverage_at_95:>10.1%}"
        f"{row.mean_blocks:>10.1f}{row.more_blocks:>20.0%}{row.bias:>26.1f}"
        for row in rows
    ]
    ours = [row.coverage for row in rows]
    at_95 = [row.coverage_at_95 for row in rows]
    lines.append(
        f"an interval {level} covers {min(ours):.1%} to {max(ours):.1%},"
        f" one at 95 % {min(at_95):.1%} at the worst; it takes at most"
        f" {max(row.more_blocks for row in rows):.0%} more blocks"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
