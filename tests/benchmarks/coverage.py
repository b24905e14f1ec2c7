"""How often intervals hold the truth, on draws whose truth is known: the docstrings' figures.

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
    Stopped,
    alike,
    drifting,
    heavy,
    one_sided,
    rounds,
    stopped,
)

_TURNS: dict[str, Draw] = {
    "independent": alike(0.0),
    "autoregression of 0.3": alike(0.3),
    "autoregression of 0.61": alike(0.61),
    "autoregression of 0.9": alike(0.9),
    "slow drift (0.98) beside noise": drifting,
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
class OfRounds:
    """Rounds that end at a wanted interval; the bias of their ratio in its standard errors."""

    turns: str
    wanted: float
    coverage: float
    bias: float


@dataclass(frozen=True, slots=True)
class OfReports:
    """Reports of one comparison, of so many blocks."""

    blocks: str
    count: int
    coverage: float


@dataclass(frozen=True, slots=True)
class OfSweeps:
    """Sweeps with `blocks: auto`, of a deviation in wanted half-widths.

    `more_blocks` is by how much the level takes more of them than 95 % does, as a share.
    """

    deviation: float
    at_most: int
    coverage: float
    coverage_at_95: float
    mean_blocks: float
    more_blocks: float
    bias: float


def main() -> None:
    """Draw, print the tables; keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--sweeps", type=int, default=40_000)
    parser.add_argument("--output", type=Path, help="write coverage.json and coverage.txt here")
    asked = parser.parse_args()
    environment = rig.told("numpy", "scipy")
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
        found = {
            "benchmark": "coverage",
            "environment": environment,
            "draws": {name: vars(asked)[name] for name in ("rounds", "reports", "sweeps")},
            "rounds": [asdict(each) for each in of_rounds],
            "reports": [asdict(each) for each in of_reports],
            "sweeps": [asdict(each) for each in of_sweeps],
        }
        rig.keep(asked.output, "coverage", found, text)


def of_all_rounds(count: int) -> Iterator[OfRounds]:
    """Every kind of turns, at every wanted interval."""
    for name, draw in _TURNS.items():
        for wanted in _WANTED:
            ended = rounds(draw, wanted, count)
            held = [abs(each.log_ratio - TRUTH) <= (each.half_width or 0.0) for each in ended]
            away = np.array([each.log_ratio - TRUTH for each in ended])
            yield OfRounds(name, wanted, float(np.mean(held)), _bias(away))


def of_all_reports(count: int) -> Iterator[OfReports]:
    """Every kind of blocks, in every number; their mean is 0."""
    for name, draw in _BLOCKS.items():
        for blocks in (6, 12, 40):
            drawn = draw(np.random.default_rng([6, blocks]), (count, blocks))
            yield OfReports(name, blocks, float(np.mean([_holds_0(each) for each in drawn])))


def _holds_0(values: Draws) -> bool:
    (found,) = judge([values.tolist()], margin=1e-9)  # nothing is the same
    assert found.corrected is not None
    return found.corrected.low <= 0 <= found.corrected.high


def of_all_sweeps(count: int) -> Iterator[OfSweeps]:
    """Every deviation, with few blocks at most and with many."""
    for at_most in _AT_MOST:
        for deviation in _DEVIATIONS:
            rng = np.random.default_rng([int(100 * deviation), at_most])
            sizes = [min(_AT_ONCE, count - begun) for begun in range(0, count, _AT_ONCE)]
            drawn = (deviation * rng.standard_normal((size, at_most)) for size in sizes)
            both = [(stopped(each, LEVEL), stopped(each, CONFIDENCE)) for each in drawn]
            ours, at_95 = (_joined(side) for side in zip(*both, strict=True))
            yield OfSweeps(
                deviation,
                at_most,
                float(ours.covered.mean()),
                float(at_95.covered.mean()),
                float(ours.blocks.mean()),
                float(ours.blocks.mean() / at_95.blocks.mean()) - 1,
                _bias(ours.means),
            )


def _joined(parts: Sequence[Stopped]) -> Stopped:
    return Stopped(
        np.concatenate([each.blocks for each in parts]),
        np.concatenate([each.means for each in parts]),
        np.concatenate([each.covered for each in parts]),
    )


def _bias(away: Draws) -> float:
    return float(away.mean() / (away.std(ddof=1) / math.sqrt(len(away))))


def rounds_table(rows: Sequence[OfRounds]) -> str:
    """A line for each kind of turns and wanted interval."""
    lines = [f"{'turns':<34}{'wanted':>8}{'coverage':>10}{'bias, in standard errors':>26}"]
    lines += [
        f"{each.turns:<34}{each.wanted:>8.0%}{each.coverage:>10.1%}{each.bias:>26.1f}"
        for each in rows
    ]
    return "\n".join(lines)


def reports_table(rows: Sequence[OfReports]) -> str:
    """A line for each kind and number of blocks."""
    lines = [f"{'blocks':<34}{'number':>8}{'coverage':>10}"]
    lines += [f"{each.blocks:<34}{each.count:>8}{each.coverage:>10.1%}" for each in rows]
    return "\n".join(lines)


def sweeps_table(rows: Sequence[OfSweeps]) -> str:
    """A line for each deviation and most blocks, and from where to where all of them reach."""
    level = f"at {100 * LEVEL:.0f} %"
    lines = [
        f"{'deviation, wanted half-widths':<34}{'at most':>8}{level:>10}{'at 95 %':>10}"
        f"{'blocks':>10}{'more than at 95 %':>20}{'bias, in standard errors':>26}"
    ]
    lines += [
        f"{each.deviation:<34}{each.at_most:>8}{each.coverage:>10.1%}{each.coverage_at_95:>10.1%}"
        f"{each.mean_blocks:>10.1f}{each.more_blocks:>20.0%}{each.bias:>26.1f}"
        for each in rows
    ]
    ours = [each.coverage for each in rows]
    at_95 = [each.coverage_at_95 for each in rows]
    lines.append(
        f"an interval {level} covers {min(ours):.1%} to {max(ours):.1%},"
        f" one at 95 % {min(at_95):.1%} at the worst; it takes at most"
        f" {max(each.more_blocks for each in rows):.0%} more blocks"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
