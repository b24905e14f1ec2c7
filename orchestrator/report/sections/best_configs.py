"""The sections of what was chosen after the fact: the best of each arm, and the fronts."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.arms.best_config import Best
from orchestrator.analysis.arms.pareto import Point
from orchestrator.analysis.arms.trade_offs import TradeOff
from orchestrator.analysis.statistics.formatting import ABSENT, joined, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import Config
from orchestrator.report.document import Section, Table
from orchestrator.report.wording.sentences import ArmNames

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
    """Every arm at its own best config, by the first objective; never a comparison of arms."""
    aims = list(dict.fromkeys(best.objective for best in summary.best_of_arm))
    found = [best for best in summary.best_of_arm if best.objective == aims[0]]
    if not found:
        return None
    headers = ("arm", "objective", "best", "step (ms)", "block", "config", "first run")
    rows = tuple(
        (
            name(best.arm),
            f"{best.objective} {'max' if best.direction == 'maximize' else 'min'}"
            + (f" of {best.scope}" if best.scope else ""),
            number(best.value),
            _step(best),
            str(best.block),
            config_text(best.config),
            best.run_ids[0],
        )
        for best in found[:_ROWS]
    )
    notes = [
        "Not matched blocks: each arm at the config that was best on it, chosen after the fact out "
        "of all configs that it completed. Arms stand here at unlike configs, so that their times "
        "are no comparison, and each best is likely a little optimistic."
    ]
    if len(aims) > 1:
        notes.append(f"Those by {joined(aims[1:])} are in the JSON format.")
    if len(found) > _ROWS:
        notes.append(f"{len(found) - _ROWS} more are in the JSON format.")
    table = Table(headers, rows, frozenset({2, 3, 4}), divisible=True)
    return Section("Best of each arm", tables=(table,), paragraphs=tuple(notes))


def _step(best: Best) -> str:
    value = best.values.get("step_ms", best.value if best.objective == "step_ms" else None)
    return ABSENT if value is None else number(value)


def fronts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Each front by its ends: what is had for least, and what the best costs."""
    if not summary.fronts:
        return None
    shown = _shown(summary.fronts)
    accuracy = shown[0].accuracy
    headers = ("arm", "end of the front", accuracy, "expense", "block")
    rows = tuple(row for each in shown for row in _ends(each, name))
    notes = [
        f"Configs × arms that none beats in both {accuracy} and an expense: the cheapest of them, "
        "and the most accurate. Chosen after the fact, and so a little optimistic; all their "
        "points are in the JSON format."
    ]
    if len(shown) < len(summary.fronts):
        notes.append("So are the fronts of each hardware class against the other expenses.")
    table = Table(headers, rows, frozenset({2, 3, 4}))
    return Section(f"Pareto fronts of {accuracy}", tables=(table,), paragraphs=tuple(notes))


def _shown(found: Sequence[TradeOff]) -> list[TradeOff]:
    """All where there is one hardware class; else those over all, and by time for each class."""
    if all(each.hardware is not None for each in found):
        return list(found)
    return [each for each in found if each.hardware is None or each.expense == found[0].expense]


def _ends(found: TradeOff, name: ArmNames) -> list[tuple[str, ...]]:
    sign = -1 if dict(found.front.objectives)[found.accuracy] == "maximize" else 1
    points = found.front.points
    least = min(points, key=lambda p: p.values[found.expense])
    best = min(points, key=lambda p: sign * p.values[found.accuracy])
    alone = found.hardware is None or name.hardware == str(found.hardware)
    where = "" if alone else f", {found.hardware}"
    scope = f" ({found.scope})" if found.scope else ""
    title = f"{found.expense}{scope}{where}"
    size = f"({len(points)} of {found.front.tried})"
    if least == best:
        return [_end(least, f"least {title}, and the most accurate {size}", found, name)]
    return [
        _end(least, f"least {title} {size}", found, name),
        _end(best, "the most accurate of it", found, name),
    ]


def _end(point: Point, end: str, found: TradeOff, name: ArmNames) -> tuple[str, ...]:
    expense = f"{number(point.values[found.expense])} {_UNITS.get(found.expense, '')}".strip()
    accuracy = number(point.values[found.accuracy])
    return name(point.arm), end, accuracy, expense, str(point.block)


def config_text(config: Config) -> str:
    """`batch_size 32, units 96`"""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in values)
