"""Which statistic over turns tells the ratio of two arms' times on a busy machine?

Arms take turns in random order: on the quiet machine, which is the truth, and beside processes
that take 50 or 100 % of one core or of each core, steadily, in bursts or in spells. From the raw
times come turns of several lengths and blocks of several numbers of turns. An error is the
logarithm of a ratio beside a load by the same processes' quiet ratio; the price of a statistic is
the width of quiet ratios, relative to the median's.

Chen and Revels, "Robust benchmarking in noisy environments" (2016), argue for the minimum, because
other processes only ever add time. The minimum falls with the number of turns, which is therefore
the same for the arms of a block.

The program ends after `--minutes`. The same command resumes with the missing groups, and with
`--minutes 0` it only reports.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from infra.benchmarks import rig
from infra.benchmarks.turns import analysis
from infra.benchmarks.turns.analysis import Error, Width, typical
from infra.benchmarks.turns.measuring import BASE, LOADS, QUIET, Group, measure
from infra.benchmarks.turns.statistics import STATISTICS
from orchestrator.storage.home import sweep_home

ARMS = (BASE, "torch/fused", "jax/portable")
SIZES = (24, 64, 160)
_REFERENCE = "mean of logs"
"""The statistic before turns: what the width of the others is compared with."""

_PLANS = ((8, 0.1), (8, 0.05), (16, 0.05), (32, 0.05), (16, 0.0125), (32, 0.0125))
"""The numbers and lengths of turns that have a table."""

_DETAILED = 16, 0.05
"""The number and the length of the turns whose ratios are listed."""


class Findings:
    """Errors and widths of a benchmark, by length and number of turns and by statistic."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.errors = analysis.errors(groups)
        self._by_place = defaultdict[tuple[float, int, str, str], list[Error]](list)
        for error in self.errors:
            place = error.length_s, error.turns, error.statistic, error.load
            self._by_place[place].append(error)
        self.widths = {
            (width.length_s, width.turns, width.statistic): width
            for width in analysis.widths(groups)
        }

    def of(self, length_s: float, turns: int, statistic: str, load: str) -> list[Error]:
        """Return the errors of all groups and arms."""
        return self._by_place[length_s, turns, statistic, load]

    def typical(
        self, length_s: float, turns: int, statistic: str, load: str
    ) -> tuple[float, float] | None:
        """Return the median and the largest absolute error; None if nothing is measured."""
        return typical([one.errors() for one in self.of(length_s, turns, statistic, load)])

    def width(self, length_s: float, turns: int, statistic: str) -> Width:
        """Return how the statistic varies on the quiet machine."""
        return self.widths[length_s, turns, statistic]

    def relative_width(self, length_s: float, turns: int, statistic: str) -> float:
        """Return the statistic's total width by the reference's; NaN if not known."""
        own, usual = (self.width(length_s, turns, one) for one in (statistic, _REFERENCE))
        return own.total / usual.total if usual.total else math.nan


def _main_table(findings: Findings, length_s: float, turns: int) -> str:
    rows = []
    for statistic in STATISTICS:
        width = findings.width(length_s, turns, statistic)
        row: dict[str, Any] = {"name": statistic}
        for load in LOADS:
            found = findings.typical(length_s, turns, statistic, load.name)
            row[load.name] = f"{found[0]:.2f} {found[1]:.2f}" if found else None
        relative = findings.relative_width(length_s, turns, statistic)
        widths = {"width": width.within, "total": width.total, "relative": relative}
        row |= {name: None if math.isnan(value) else value for name, value in widths.items()}
        rows.append(row)
    formats = {
        **{load.name: "" for load in LOADS},
        "width": ".3f",
        "total": ".3f",
        "relative": ".2f",
    }
    return rig.table(rows, formats)


def _ratios(findings: Findings, length_s: float, turns: int) -> str:
    """Format the ratios by load, arm and size: the median over windows and processes."""
    rows = []
    for load in LOADS:
        of_load = [
            error
            for error in findings.errors
            if (error.length_s, error.turns, error.load) == (length_s, turns, load.name)
        ]
        for arm, units in sorted({(error.arm, error.units) for error in of_load}):
            of_arm = [error for error in of_load if (error.arm, error.units) == (arm, units)]
            row: dict[str, Any] = {"name": f"{load.name}: {arm}, {units}"}
            row["quiet"] = math.exp(median(error.quiet_median for error in of_arm))
            for statistic in STATISTICS:
                found = [
                    value
                    for error in of_arm
                    if error.statistic == statistic
                    for value in error.found
                ]
                row[statistic] = math.exp(median(found)) if found else None
            rows.append(row)
    return rig.table(rows, {"quiet": ".2f", **dict.fromkeys(STATISTICS, ".2f")})


def _observed(groups: Sequence[Group]) -> Iterator[str]:
    """Yield what others took in the cells of each load, and how many rounds there are."""
    for load in (QUIET, *LOADS):
        rounds = [
            one
            for group in groups
            for cell in group.cells
            if cell.load == load.name
            for one in cell.rounds
        ]
        shares = [
            100 * one.taken_s / one.total_s for one in rounds if one.taken_s and one.total_s
        ] or [0.0]
        disturbed = sum(analysis.excess(one) > 0 for one in rounds)
        yield (
            f"  {load.name}: {load.description()}; others took {median(shares):.0f} % of the CPUs"
            f" (median; at most {max(shares):.0f} %); {disturbed} of {len(rounds)} rounds disturbed"
        )


def report(groups: Sequence[Group], environment: dict[str, str], output: Path | None) -> None:
    """Print the tables and conclusions; with a folder, write them there."""
    findings = Findings(groups)
    if not findings.errors:
        print("Too few undisturbed rounds were measured on the quiet machine")
        return
    repeats = {group.repeat for group in groups}
    lines = [
        "Statistics over turns: errors of log ratios beside other processes",
        f"{len(groups)} groups of {len(repeats)} repeats, each in fresh processes;"
        f" base {BASE}; disturbed quiet rounds are left out of the truth",
        *_observed(groups),
        "milliseconds of a slice, of which turns are made (at least one pass over the data):",
        *(
            f"  {group.units} units: "
            + ", ".join(f"{arm} {1_000 * seconds:.0f}" for arm, seconds in group.slice_s.items())
            for group in groups
            if not group.repeat
        ),
        "",
        "columns: median and largest |log error| by load, against the statistic's own quiet value;",
        "width: standard deviation of a quiet log ratio over samples of the same processes;",
        f"total: with the spread over fresh processes; relative: total by that of the {_REFERENCE}",
    ]
    for turns, length_s in _PLANS:
        table = _main_table(findings, length_s, turns)
        lines += ["", f"{turns} turns of {length_s:g} s", table]
    turns, length_s = _DETAILED
    lines += [
        "",
        f"{turns} turns of {length_s:g} s, times as fast as the base arm",
        _ratios(findings, length_s, turns),
    ]
    rows = [
        {
            **asdict(error),
            "found": [round(value, 4) for value in error.found],
            "found_without_disturbed": [round(v, 4) for v in error.found_without_disturbed],
        }
        for error in findings.errors
    ]
    spread = [asdict(width) for width in findings.widths.values()]
    with pd.option_context("display.width", 250):
        rig.publish(output, "turn_statistics", environment, lines, errors=rows, widths=spread)


def main() -> None:
    parser = rig.arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="stop after this time")
    parser.add_argument("--repeats", type=int, default=3, help="how often all processes start anew")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="LSTM units")
    parser.add_argument("--arms", nargs="+", default=ARMS, help="including the base arm")
    asked: argparse.Namespace = parser.parse_args()
    folder = asked.output or sweep_home()
    folder.mkdir(parents=True, exist_ok=True)
    environment = rig.environment("keras", "tensorflow", "jax", "torch")
    wanted = [
        (repeat, units, tuple(asked.arms))
        for repeat in range(asked.repeats)
        for units in asked.sizes
    ]
    groups = measure(
        wanted,
        asked.minutes,
        folder / "turn_statistics.jsonl",
        lambda text: print(text, flush=True),
    )
    report(groups, environment, asked.output)


if __name__ == "__main__":
    main()
