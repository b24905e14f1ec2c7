"""The sections on effects of params, on crossovers, and on when compiling pays off."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from statistics import fmean

from orchestrator.analysis.comparisons.effects import Crossover, ParamEffect, Region
from orchestrator.analysis.comparisons.ranking import BreakEven
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import difference, number, ratio
from orchestrator.analysis.statistics.regression import Change
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report.document import Column, Section, make_table
from orchestrator.report.wording import ArmNames, Bullet, config_text, grouped, paragraphs, sentence

_UNITS = {"step_ms": "time per step", "sample_us": "time per sample", "train_s": "training time"}
_LISTED = 20
"""The most configs that are listed."""
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
        pruned=summary.sweep.trials.pruned,
    )
    return Section("Effects", tables=tuple(tables) if texts else (), paragraphs=notes)


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
            f"{_unit(metric)} {text}"
            for (metric, other), text in _texts(summary.effects)[change].items()
            if other == arm
        ]
        head = change[:1].upper() + change[1:]
        return [("effect", f"{head}: {'; '.join(texts)}; on {name(arm)}{_busy(summary)}.")]
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


def configs(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the sizes of each config with the time on each arm, repeats averaged."""
    metric, rows = summary.time_metric, [row.arm for row in summary.arms if row.measures]
    if metric is None:
        return None
    times = grouped(
        ((trial.block, trial.arm), trial.metrics[metric])
        for trial in summary.trials
        if trial.status == "complete" and metric in trial.metrics
    )

    def mean(arm: Arm, block: int) -> float | None:
        return fmean(times[block, arm]) if (block, arm) in times else None

    sizes = {trial.block: config_text(trial.config) for trial in summary.trials}
    columns: list[Column[int]] = [Column(f"{metric} with", sizes.__getitem__)]
    columns += [Column(name(arm), partial(mean, arm)) for arm in rows]
    table = make_table(columns, sorted(sizes)[:_LISTED], divisible=True)
    notes = paragraphs("sections/configs.j2", summary=summary, more=len(sizes) - _LISTED)
    return Section("Configs tried", tables=(table,), paragraphs=notes)


_SENTENCES = 24
"""The JSON format has the rest."""
_ROUNDING = 1e-9
"""Relative tolerance within which a size counts as whole."""


def crossovers(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Make a sentence for each arm and param along which something changes; crossings first."""
    curves = summary.crossovers
    if not curves:
        return None
    changes = [c for kind in ("crosses", "partly") for c in curves if c.verdict == kind]
    notes = paragraphs(
        "sections/crossovers.j2",
        throughout=grouped(
            ((c.verdict, f"{_plural(c.effect.param)} ({_span(c)})"), name(c.effect.arm))
            for c in curves
            if c.verdict in ("faster", "slower", "same")
        ),
        inconclusive=Counter(c.effect.param for c in curves if c.verdict == "inconclusive"),
        changes=len(changes),
        most=_SENTENCES,
    )
    bullets = tuple(("crosses", crossover_sentence(c, name)) for c in changes[:_SENTENCES])
    return Section("Crossovers", bullets, paragraphs=notes)


def compiling(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Report after how many steps a longer compilation pays off."""
    points = summary.break_evens
    if not points:
        return None
    bullets = tuple((point.verdict, break_even_sentence(point, name)) for point in points)
    notes = paragraphs("sections/compiling.j2", trainers=points[0].trainers, points=len(points))
    return Section("Break-even of compiling", bullets, paragraphs=notes)


def crossover_sentence(crossover: Crossover, name: ArmNames) -> str:
    """Write `from 96 units on (70–130), A is faster than B`, or another result along the param."""
    where, beyond = _sides(crossover, crossover.crossing) if crossover.crossing else ("", "")
    return sentence(
        "sections/crossover.j2",
        c=crossover,
        name=name,
        where=where,
        beyond=beyond,
        plural=_plural(crossover.effect.param),
        span=_span(crossover) if crossover.regions else "",
        regions=list(filter(None, (_region(region, crossover) for region in crossover.regions))),
        held=config_text(crossover.effect.held),
    )


def break_even_sentence(point: BreakEven, name: ArmNames) -> str:
    """Write `A compiles 4.1 s longer than B, which pays off after 5,300 steps`."""
    steps = point.steps
    ends = (steps.value, steps.low, steps.high) if steps else ()
    return sentence("sections/break_even.j2", p=point, name=name, steps=[*map(number, ends)])


def _sides(crossover: Crossover, crossing: Estimate) -> tuple[str, str]:
    """Write `from 96 units on (70–130)` and `below 70`; the interval itself is undecided."""
    # If only whole sizes were tried, these are the first (or last) whole sizes at which the arm is
    # faster: there are no 1.41 layers.
    ends = (crossing.value, crossing.low, crossing.high)
    is_above = crossover.faster == "above"
    if any(float(point.at) % 1 for point in crossover.effect.points):
        value, low, high = map(number, ends)
    elif is_above:
        value, low, high = (str(math.ceil(end * (1 - _ROUNDING))) for end in ends)
    else:
        value, low, high = (str(math.floor(end * (1 + _ROUNDING))) for end in ends)
    within = f" ({low}–{high})" if low != high else ""
    at = sized(crossover.effect.param, value)
    if is_above:
        return f"From {at} on{within}", f"below {low}"
    return f"Up to {at}{within}", f"above {high}"


def _region(region: Region, crossover: Crossover) -> str:
    """Write the verdict of a range with the sizes tried in it; empty if none was tried."""
    at = {float(point.at) for point in crossover.effect.points}
    sizes = sorted(size for size in at if region.low <= size <= region.high)
    if not sizes:
        return ""
    ends = number(sizes[0]) if len(sizes) == 1 else f"{number(sizes[0])}–{number(sizes[-1])}"
    return f"{'as fast' if region.verdict == 'same' else region.verdict} at {ends}"


def sized(param: str, size: str) -> str:
    """Write a size: `96 units`, `1 layer`, `batch size 64`."""
    words = param.replace("_", " ")
    if not param.endswith("s"):
        return f"{words} {size}"
    return f"{size} {words.removesuffix('s') if size == '1' else words}"


def _plural(param: str) -> str:
    """Write the plural of a param: `units`, `batch sizes`."""
    return param.replace("_", " ") + ("" if param.endswith("s") else "s")


def _span(crossover: Crossover) -> str:
    """Write the sizes tried: `16–192`."""
    return f"{number(crossover.regions[0].low)}–{number(crossover.regions[-1].high)}"
