"""Which statistic over turns tells the ratio of two arms' times on a busy machine?

Arms take turns in random order: on the quiet machine, which is the truth, and beside processes
that take 50 or 100 % of one core or of each core, steadily, in bursts or in spells. From the raw
times come turns of several lengths and blocks of several numbers of turns. An error is the
logarithm of a ratio beside a load by the same processes' quiet ratio; the price of a statistic is
the width of quiet ratios, relative to the median's.

Chen and Revels, "Robust benchmarking in noisy environments" (2016), argue for the minimum, because
other processes only ever add time. The minimum falls with the number of turns, which is therefore
the same for the arms of a block.

The program ends after so many minutes. The same command resumes with the groups that are missing,
and with `--minutes 0` it only reports.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
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
_WIDER = 1.1
"""A chosen statistic may be so much wider on the quiet machine than the reference."""

_LIKE = 0.01
"""Median errors that differ by no more are alike; then the largest error decides."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a statistic's quiet width is compared with."""

    reference: str
    with_processes: bool
    """Whether the width includes the spread over fresh processes, as an interval over blocks."""

    @property
    def column(self) -> str:
        """The heading of the column of widths by the reference's."""
        return f"{'total ' if self.with_processes else ''}× {self.reference}"

    def __str__(self) -> str:
        kind = "total width" if self.with_processes else "width"
        return f"{_WIDER - 1:.0%} more quiet {kind} than the {self.reference}"


PRICES = (Price("median", False), Price("median", True), Price("mean of logs", False))
_DETAILED = 0.1, 16
"""The length and the number of the turns that the detailed tables are about."""


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

    def is_measured(self, length_s: float, turns: int) -> bool:
        """Return whether a cell beside a load has so many turns."""
        return any(self.typical(length_s, turns, "median", load.name) for load in LOADS)

    def width(self, length_s: float, turns: int, statistic: str) -> Width:
        """Return how the statistic varies on the quiet machine."""
        return self.widths[length_s, turns, statistic]

    def relative_width(self, length_s: float, turns: int, statistic: str, price: Price) -> float:
        """Return the statistic's width by the reference's; NaN if not known."""
        own, usual = (self.width(length_s, turns, one) for one in (statistic, price.reference))
        if price.with_processes:
            return own.total / usual.total if usual.total else math.nan
        return own.within / usual.within if usual.within else math.nan

    def chosen(
        self, length_s: float, turns: int, loads: Sequence[str], price: Price
    ) -> tuple[str, float, float] | None:
        """Return the allowed statistic of the smallest error, with its median and largest error.

        Over several loads the mean of the median errors counts, and the largest of all.
        """
        candidates = list[tuple[str, float, float]]()
        for statistic in STATISTICS:
            if not self.relative_width(length_s, turns, statistic, price) <= _WIDER:  # or unknown
                continue
            found = [self.typical(length_s, turns, statistic, load) for load in loads]
            known = [one for one in found if one is not None]
            if known:
                middle, largest = fmean(one[0] for one in known), max(one[1] for one in known)
                candidates.append((statistic, middle, largest))
        if not candidates:
            return None
        smallest = min(middle for _, middle, _ in candidates)
        alike = [one for one in candidates if one[1] <= smallest + _LIKE]
        return min(alike, key=lambda one: one[2])


def _main_table(findings: Findings, length_s: float, turns: int) -> str:
    rows = []
    for statistic in STATISTICS:
        width = findings.width(length_s, turns, statistic)
        row: dict[str, Any] = {"name": statistic}
        for load in LOADS:
            found = findings.typical(length_s, turns, statistic, load.name)
            row[load.name] = f"{found[0]:.2f} {found[1]:.2f}" if found else None
        widths = {"width": width.within, "total": width.total}
        for price in PRICES:
            widths[price.column] = findings.relative_width(length_s, turns, statistic, price)
        row |= {name: None if math.isnan(value) else value for name, value in widths.items()}
        rows.append(row)
    formats = {
        **{load.name: "" for load in LOADS},
        "width": ".3f",
        "total": ".3f",
        **{price.column: ".2f" for price in PRICES},
    }
    return rig.table(rows, formats)


def _other_truths(findings: Findings, length_s: float, turns: int) -> str:
    """Format median errors against the median's quiet value, and without disturbed turns."""
    rows = []
    for statistic in STATISTICS:
        row: dict[str, Any] = {"name": statistic}
        for load in LOADS:
            found = findings.of(length_s, turns, statistic, load.name)
            own = typical([one.errors() for one in found])
            to_median = typical([one.errors_to_median() for one in found])
            aside = typical([one.errors_without_disturbed() for one in found])
            row[load.name] = (
                " ".join(f"{one[0]:.2f}" for one in (own, to_median, aside))
                if own and to_median and aside
                else None
            )
        rows.append(row)
    return rig.table(rows, {load.name: "" for load in LOADS})


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


def _by_time(findings: Findings, statistic: str) -> str:
    """Format a statistic's errors by the time that the turns of an arm take."""
    plans = sorted(
        ((length_s, turns) for length_s in analysis.LENGTHS_S for turns in analysis.NUMBERS),
        key=lambda plan: plan[0] * plan[1],
    )
    rows = []
    for length_s, turns in plans:
        if not findings.is_measured(length_s, turns):
            continue
        row: dict[str, Any] = {"name": f"{turns} × {length_s:g} s", "s": length_s * turns}
        for load in LOADS:
            found = findings.typical(length_s, turns, statistic, load.name)
            row[load.name] = f"{found[0]:.2f} {found[1]:.2f}" if found else None
        width = findings.width(length_s, turns, statistic).within
        row["width"] = None if math.isnan(width) else width
        rows.append(row)
    return rig.table(rows, {"s": ".1f", **{load.name: "" for load in LOADS}, "width": ".3f"})


def _conclusions(findings: Findings, price: Price) -> str:
    """Format the statistic of the smallest error by load, with its median and largest error."""
    columns = {load.name: [load.name] for load in LOADS}
    columns["measured loads"] = [load.name for load in LOADS]
    rows = []
    for length_s in analysis.LENGTHS_S:
        for turns in analysis.NUMBERS:
            row: dict[str, Any] = {}
            for name, loads in columns.items():
                if found := findings.chosen(length_s, turns, loads, price):
                    row[name] = f"{found[0]} {found[1]:.2f} {found[2]:.2f}"
            if row:
                rows.append({"name": f"{turns} × {length_s:g} s", **row})
    return rig.table(rows, dict.fromkeys(columns, ""))


def _conclusion(findings: Findings, price: Price) -> str:
    """Return one line: what has the smallest error over all loads, with the detailed turns."""
    length_s, turns = _DETAILED
    measured = [
        load.name
        for load in LOADS
        if findings.typical(length_s, turns, "median", load.name) is not None
    ]
    found = findings.chosen(length_s, turns, measured, price)
    name = f"{found[0]} ({found[1]:.2f}, at most {found[2]:.2f})" if found else "not measured"
    return (
        f"{turns} turns of {length_s:g} s, {len(measured)} of {len(LOADS)} loads measured,"
        f" at no more than {price}: {name}"
    )


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
        "total: with the spread over fresh processes",
    ]
    for length_s in analysis.LENGTHS_S:
        for turns in analysis.NUMBERS:
            if findings.is_measured(length_s, turns):
                table = _main_table(findings, length_s, turns)
                lines += ["", f"{turns} turns of {length_s:g} s", table]
    length_s, detailed = _DETAILED
    overall = findings.chosen(*_DETAILED, [load.name for load in LOADS], PRICES[0])
    statistic = overall[0] if overall else "median"
    lines += [
        "",
        f"{detailed} turns of {length_s:g} s, median |log error|: against the own quiet value;",
        "against the median's quiet value; against the own one when disturbed turns are set aside",
        f"(others over {analysis.LIMIT_PCT:.0f} % of the CPUs, while {analysis.LEAST} are left)",
        _other_truths(findings, *_DETAILED),
        "",
        f"{detailed} turns of {length_s:g} s, times as fast as the base arm",
        _ratios(findings, *_DETAILED),
        "",
        f"{statistic}, by the time that an arm's turns take",
        _by_time(findings, statistic),
        "",
        *(
            line
            for price in PRICES
            for line in (
                f"smallest error at no more than {price} (median, largest error)",
                _conclusions(findings, price),
                "",
            )
        ),
        "smallest error over the measured loads (mean of the loads' median errors, largest error):",
        *(_conclusion(findings, price) for price in PRICES),
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
    parser.add_argument("--minutes", type=float, default=20, help="end after so long")
    parser.add_argument("--repeats", type=int, default=3, help="times that all processes are fresh")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="LSTM units")
    parser.add_argument("--arms", nargs="+", default=ARMS, help="the base arm is among them")
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
