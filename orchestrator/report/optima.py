"""The sections of what was chosen after the fact: the best of each arm, and the fronts."""

from __future__ import annotations

from orchestrator.report.best import Best
from orchestrator.report.document import Section, Table
from orchestrator.report.numbers import ABSENT, number
from orchestrator.report.pareto import Point
from orchestrator.report.records import Direction
from orchestrator.report.summary import ReportSummary
from orchestrator.report.trade_offs import TradeOff
from orchestrator.report.wording import ArmNames
from orchestrator.trial import Config

_ROWS = 40
"""More are in the JSON format."""

_UNITS = {
    "train_s": "s",
    "energy_j": "J",
    "train_cost_usd": "USD",
    "peak_rss_mib": "MiB",
    "peak_gpu_mib": "MiB",
}


def best_of_arm(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Every arm at its own best config; never a comparison of arms."""
    found = summary.best_of_arm
    if not found:
        return None
    headers = ("arm", "objective", "best", "step (ms)", "block", "config")
    rows = tuple(
        (
            name(best.arm),
            f"{best.objective} {'max' if best.direction == 'maximize' else 'min'}",
            number(best.value),
            _step(best),
            str(best.block),
            config_text(best.config),
        )
        for best in found[:_ROWS]
    )
    notes = [
        "Not matched blocks: each arm at the config that was best on it, chosen after the fact out "
        "of all configs that it completed. Arms stand here at unlike configs, so that their times "
        "are no comparison, and each best is likely a little optimistic."
    ]
    if len(found) > _ROWS:
        notes.append(f"{len(found) - _ROWS} more are in the JSON format.")
    table = Table(headers, rows, frozenset({2, 3, 4}))
    return Section("Best of each arm", tables=(table,), paragraphs=tuple(notes))


def _step(best: Best) -> str:
    value = best.values.get("step_ms", best.value if best.objective == "step_ms" else None)
    return ABSENT if value is None else number(value)


def fronts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Each front by its ends: what is had for least, and what the best costs."""
    if not summary.fronts:
        return None
    several = any(each.hardware is None for each in summary.fronts)
    accuracy = summary.fronts[0].accuracy
    headers = ("against", *(["hardware"] if several else []), "front", "least", "most accurate")
    rows = tuple(
        (
            f"{each.expense}{f' ({each.scope})' if each.scope else ''}",
            *([each.hardware or "all"] if several else []),
            f"{len(each.front.points)} of {each.front.tried}",
            *_ends(each, name),
        )
        for each in summary.fronts
    )
    notes = (
        f"Configs × arms that none beats in both {accuracy} and an expense: by the cheapest of "
        "them and by the most accurate. Chosen after the fact, and so a little optimistic; all "
        "their points are in the JSON format.",
    )
    table = Table(headers, rows, frozenset({len(headers) - 3}))
    return Section(f"Pareto fronts of {accuracy}", tables=(table,), paragraphs=notes)


def _ends(found: TradeOff, name: ArmNames) -> tuple[str, str]:
    aims: dict[str, Direction] = dict(found.front.objectives)
    sign = -1 if aims[found.accuracy] == "maximize" else 1
    points = found.front.points
    least = min(points, key=lambda p: p.values[found.expense])
    best = min(points, key=lambda p: sign * p.values[found.accuracy])
    return _end(least, found, name), _end(best, found, name)


def _end(point: Point, found: TradeOff, name: ArmNames) -> str:
    expense = f"{number(point.values[found.expense])} {_UNITS.get(found.expense, '')}".strip()
    accuracy = number(point.values[found.accuracy])
    return f"{accuracy} for {expense}: {name(point.arm)}, block {point.block}"


def config_text(config: Config) -> str:
    """`batch_size 32, units 96`"""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in values)
