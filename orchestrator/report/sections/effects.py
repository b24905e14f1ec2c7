"""The section on what each param does to time and accuracy, and the verdict's lines on sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from orchestrator.analysis.comparisons.crossover import Crossover
from orchestrator.analysis.comparisons.effects import ParamEffect
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import difference, number, ratio
from orchestrator.analysis.statistics.regression import Change
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.prose import Bullet, paragraphs
from orchestrator.report.sections.crossovers import crossover_sentence, sized
from orchestrator.report.wording import ArmNames, config_text, grouped

_UNITS = {"step_ms": "time per step", "sample_us": "time per sample", "train_s": "training time"}
_FEW = 12
"""Up to so many blocks are listed if no effect can be estimated."""
_SHARES = ("val_accuracy", "accuracy")
"""Metrics whose differences are given in points, which are hundredths."""


def effects(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the effects of each param on each metric and arm, and their importances."""
    every = summary.effects
    if not every:
        return None
    texts = _texts(every)
    importances: list[Column[str]] = [Column("importance", str)]
    tables = []
    for metric in dict.fromkeys(effect.metric for effect in every):
        own = [effect for effect in every if effect.metric == metric]
        columns: list[Column[str]] = [Column(f"{_unit(metric)} (95 %)", str)]
        for arm in dict.fromkeys(effect.arm for effect in own):
            cell = partial(lambda key, change: texts[change].get(key), (metric, arm))
            columns.append(Column(name(arm), cell, numeric=True))
        tables.append(make_table(columns, texts, divisible=True))
        importances.append(Column(_unit(metric), partial(_importance, own), numeric=True))
    params = [param for param, own in _ordered(every).items() if any(e.changes for e in own)]
    tables.append(make_table(importances, params))
    refused = grouped((e.reason, e.param) for e in every if e.reason)
    notes = paragraphs(
        "sections/effects.j2",
        refused=[(reason, list(dict.fromkeys(own))) for reason, own in refused.items()],
        has_effects=bool(texts),
        busy=_busy(summary),
    )
    tables = tables if texts else _by_config(summary, name)
    return Section("Effects", tables=tuple(tables), paragraphs=notes)


def size_bullets(crossovers: Sequence[Crossover], name: ArmNames) -> Iterator[Bullet]:
    """Write at which size which one of two arms is the faster one."""
    shown = [crossover for crossover in crossovers if crossover.verdict == "crosses"]
    decided = [crossover for crossover in crossovers if crossover.verdict != "inconclusive"]
    if decided and not shown:
        shown = [max(decided, key=lambda c: (c.verdict == "partly", c.effect.importance or 0))]
    for crossover in shown:
        yield crossover.verdict, crossover_sentence(crossover, name)


def effect_bullets(summary: ReportSummary, name: ArmNames) -> list[Bullet]:
    """Write the most important effect that is shown on a baseline, if there is one."""
    baselines = summary.baseline.of.values() if summary.baseline else ()
    shown_effects = [
        (effect.importance or 0, effect.arm, _change(effect.param, change))
        for effect in summary.effects
        for change in effect.changes
        if effect.arm in baselines
        and not change.effect.low <= float(effect.is_ratio) <= change.effect.high
    ]
    for _, arm, change in sorted(shown_effects, key=lambda item: -item[0])[:1]:
        texts = [
            f"{value} {'the ' * value.endswith('×')}{_unit(metric)}{bracket}{interval}"
            for (metric, other), text in _texts(summary.effects)[change].items()
            for value, bracket, interval in [text.partition(" (")]
            if other == arm
        ]
        return [("effect", f"{change}: {', '.join(texts)}, on {name(arm)}{_busy(summary)}")]
    return []


def _busy(summary: ReportSummary) -> str:
    return ", on a busy machine" if any(c.bias is not None for c in summary.comparisons) else ""


def _texts(effects: Sequence[ParamEffect]) -> dict[str, dict[tuple[str, Arm], str]]:
    """Write the effects of each change by metric and arm, those of important params first."""
    texts: dict[str, dict[tuple[str, Arm], str]] = {}
    for own in _ordered(effects).values():
        for effect in own:
            for change in effect.changes:
                e, per = change.effect, 100.0 if effect.metric in _SHARES else 1.0
                scaled = Estimate(e.n, e.value * per, e.low * per, e.high * per)
                text = ratio(scaled) if effect.is_ratio else difference(scaled)
                by_arm = texts.setdefault(_change(effect.param, change), {})
                by_arm[effect.metric, effect.arm] = text
    return texts


def _ordered(effects: Sequence[ParamEffect]) -> dict[str, list[ParamEffect]]:
    """Return the effects by param, the most important param first."""
    params = grouped((effect.param, effect) for effect in effects).items()
    return dict(sorted(params, key=lambda item: -max(e.importance or 0 for e in item[1])))


def _importance(effects: Sequence[ParamEffect], param: str) -> str | None:
    """Write the importance of a param over several arms: `85–91 %`."""
    own = [100 * (e.importance or 0) for e in effects if e.param == param and e.changes]
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(own), max(own))) if own else ()
    return f"{'–'.join(ends)} %" if own else None


def _unit(metric: str) -> str:
    return f"points of {metric}" if metric in _SHARES else _UNITS.get(metric, metric)


def _change(param: str, change: Change) -> str:
    """Write `doubling units`, `2 layers instead of 1` or `cell gru instead of lstm`."""
    if change.of is None or change.to is None:
        return f"doubling {param.replace('_', ' ')}"
    of, to = (number(v) if isinstance(v, float) else str(v) for v in (change.of, change.to))
    return f"{sized(param, to)} instead of {of}"


def _by_config(summary: ReportSummary, name: ArmNames) -> list[Table]:
    """List the times, or else the accuracies, of few blocks as they are."""
    metric = summary.effects[0].metric
    own = [effect for effect in summary.effects if effect.metric == metric]
    values = {(p.block, effect.arm): p.value for effect in own for p in effect.points}
    configs = {trial.block: config_text(trial.config) for trial in summary.trials}
    blocks = list(dict.fromkeys(block for block, _ in values))
    columns: list[Column[int]] = [Column(f"{metric} at", lambda block: configs[block])]
    for arm in dict.fromkeys(effect.arm for effect in own):
        columns.append(Column(name(arm), partial(lambda a, block: values.get((block, a)), arm)))
    return [make_table(columns, blocks, divisible=True)] if len(blocks) <= _FEW else []
