"""The sections on configs chosen after the fact: the best of each arm, and the Pareto fronts."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.analysis.arms.best_config import Best
from orchestrator.analysis.arms.pareto import ParetoPoint
from orchestrator.analysis.arms.trade_offs import TradeOff
from orchestrator.analysis.statistics.formatting import ABSENT, joined, number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.trial import Config
from orchestrator.report.document import Section, Table
from orchestrator.report.wording.sentences import ArmNames

_ROWS = 40
"""The most rows of the table; the JSON format has all."""

_UNITS = {
    "train_s": "s",
    "energy_j": "J",
    "train_cost_usd": "USD",
    "peak_rss_mib": "MiB",
    "peak_gpu_mib": "MiB",
}


def best_of_arm(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the best config of every arm, by the first objective; this never compares arms."""
    objectives = list(dict.fromkeys(best.objective for best in summary.best_of_arm))
    chosen = [best for best in summary.best_of_arm if best.objective == objectives[0]]
    if not chosen:
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
        for best in chosen[:_ROWS]
    )
    notes = [
        "Not a comparison of arms: each arm is listed with its own best config, so the configs "
        "differ. The best is picked after the fact from all configs that the arm completed, and "
        "is therefore likely a little optimistic."
    ]
    if len(objectives) > 1:
        notes.append(f"The best configs by {joined(objectives[1:])} are in the JSON format.")
    if len(chosen) > _ROWS:
        notes.append(f"{len(chosen) - _ROWS} more are in the JSON format.")
    table = Table(headers, rows, frozenset({2, 3, 4}), divisible=True)
    return Section("Best of each arm", tables=(table,), paragraphs=tuple(notes))


def _step(best: Best) -> str:
    value = best.values.get("step_ms", best.value if best.objective == "step_ms" else None)
    return ABSENT if value is None else number(value)


def fronts(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the two ends of each front: the least expensive config, and the most accurate one."""
    if not summary.fronts:
        return None
    shown = _shown(summary.fronts)
    accuracy = shown[0].accuracy
    headers = ("arm", "end of the front", accuracy, "expense", "block")
    rows = tuple(row for trade_off in shown for row in _ends(trade_off, name))
    notes = [
        f"A front holds the configs × arms that no other beats in both {accuracy} and an expense. "
        "Listed are its least expensive config and its most accurate one. Both are picked after "
        "the fact, and so likely a little optimistic. All points are in the JSON format."
    ]
    if len(shown) < len(summary.fronts):
        notes.append(
            "The JSON format also has the fronts of each hardware class against the other expenses."
        )
    table = Table(headers, rows, frozenset({2, 3, 4}))
    return Section(f"Pareto fronts of {accuracy}", tables=(table,), paragraphs=tuple(notes))


def _shown(fronts: Sequence[TradeOff]) -> list[TradeOff]:
    """Return all fronts of one hardware class; of several, those over all and those by time."""
    if all(front.hardware is not None for front in fronts):
        return list(fronts)
    return [
        front for front in fronts if front.hardware is None or front.expense == fronts[0].expense
    ]


def _ends(trade_off: TradeOff, name: ArmNames) -> list[tuple[str, ...]]:
    sign = -1 if dict(trade_off.front.objectives)[trade_off.accuracy] == "maximize" else 1
    points = trade_off.front.points
    least = min(points, key=lambda p: p.values[trade_off.expense])
    best = min(points, key=lambda p: sign * p.values[trade_off.accuracy])
    is_only_class = trade_off.hardware is None or name.hardware == str(trade_off.hardware)
    where = "" if is_only_class else f", {trade_off.hardware}"
    scope = f" ({trade_off.scope})" if trade_off.scope else ""
    title = f"{trade_off.expense}{scope}{where}"
    size = f"({len(points)} of {trade_off.front.tried})"
    if least == best:
        return [_end(least, f"least {title}, and the most accurate {size}", trade_off, name)]
    return [
        _end(least, f"least {title} {size}", trade_off, name),
        _end(best, "the most accurate of this front", trade_off, name),
    ]


def _end(point: ParetoPoint, end: str, trade_off: TradeOff, name: ArmNames) -> tuple[str, ...]:
    expense = (
        f"{number(point.values[trade_off.expense])} {_UNITS.get(trade_off.expense, '')}".strip()
    )
    accuracy = number(point.values[trade_off.accuracy])
    return name(point.arm), end, accuracy, expense, str(point.block)


def config_text(config: Config) -> str:
    """Write a config: `batch_size 32, units 96`."""
    values = ((key, config[key]) for key in sorted(config))
    return ", ".join(f"{k} {number(v) if isinstance(v, float) else v}" for k, v in values)
