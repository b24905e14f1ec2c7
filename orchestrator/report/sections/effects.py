"""The section on effects: what each param does to the time and the accuracy of each arm."""

from collections.abc import Iterator, Sequence
from functools import partial

from orchestrator.analysis.comparisons.effects import ParamEffect
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import difference, number, ratio
from orchestrator.analysis.statistics.regression import Change
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import joined
from orchestrator.report.document import Bullet, Column, Kind, Section, make_table
from orchestrator.report.wording import ArmNames, absent_arms, grouped

_UNITS = {
    "step_ms": "time per step",
    "sample_us": "time per sample",
    "predict_ms": "time per prediction",
    "predict_sample_us": "time per sample",
    "train_s": "training time",
}
_SHARES = ("val_accuracy", "accuracy")
"""Metrics whose differences are given in points, which are hundredths."""

_EXPLANATIONS = (
    "The factor by which the time changes, and the change of the accuracy, if one param changes "
    "and all others are held. For each arm one least-squares fit of all its blocks, repeats "
    "averaged first: the logarithm of the time, and the accuracy, on the logarithm of each size "
    "and a level for each other value. The t intervals are not corrected for their number, and "
    "give no verdict. There is none where one of two values has fewer than 4 blocks.",
    "Importance is the share of the variance between configs that the param alone explains, beyond "
    "what chance would explain (epsilon squared): the lowest and the highest one of the arms.",
)


def effects_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List the effects of each param on each metric and arm, and their importances."""
    every = summary.effects
    if not every:
        return None
    texts = _texts(every)
    columns_of_importance: list[Column[str]] = [Column("importance", str)]
    tables = []
    for metric in dict.fromkeys(effect.metric for effect in every):
        of_metric = [effect for effect in every if effect.metric == metric]
        columns: list[Column[str]] = [Column(f"{_unit(metric)} (95 %)", str)]
        for arm in dict.fromkeys(effect.arm for effect in of_metric):
            cell = partial(lambda key, change: texts[change].get(key), (metric, arm))
            columns.append(Column(name(arm), cell, numeric=True))
        tables.append(make_table(columns, texts))
        columns_of_importance.append(
            Column(_unit(metric), partial(_importance, of_metric), numeric=True)
        )
    params = [
        param
        for param, of_param in _ordered(every).items()
        if any(effect.changes for effect in of_param)
    ]
    tables.append(make_table(columns_of_importance, params))
    return Section(
        "Effects",
        tables=tuple(tables) if texts else (),
        paragraphs=(
            *_notes(summary),
            *absent_arms(summary, name, {effect.arm for effect in every}),
        ),
        explanations=_EXPLANATIONS if texts else (),
    )


def _notes(summary: ReportSummary) -> Iterator[str]:
    if summary.sweep.trials.pruned:
        yield "These are effects among the configs that the pruner let finish."
    if _is_busy(summary):
        yield "The times were taken on a busy machine."
    refused = grouped((effect.reason, effect.param) for effect in summary.effects if effect.reason)
    for reason, params in refused.items():
        yield f"No effect is estimated for {joined(list(dict.fromkeys(params)))}: {reason}."


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
            for (metric, of_arm), text in _texts(summary.effects)[change].items()
            if of_arm == arm
        ]
        head = change[:1].upper() + change[1:]
        busy = ", on a busy machine" if _is_busy(summary) else ""
        return [Bullet(Kind.EFFECT, f"{head}: {'; '.join(texts)}; on {name(arm)}{busy}.")]
    return []


def _is_busy(summary: ReportSummary) -> bool:
    return any(effect.qualifier == "busy" for effect in summary.effects)


def _texts(effects: Sequence[ParamEffect]) -> dict[str, dict[tuple[str, Arm], str]]:
    """Write the effects of each change by metric and arm, effects of important params first."""
    texts: dict[str, dict[tuple[str, Arm], str]] = {}
    for of_param in _ordered(effects).values():
        for effect in of_param:
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
    shares = [100 * (e.importance or 0) for e in effects if e.param == param and e.changes]
    if not shares:
        return None
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(shares), max(shares)))
    return f"{'–'.join(ends)} %"


def _unit(metric: str) -> str:
    return f"points of {metric}" if metric in _SHARES else _UNITS.get(metric, metric)


def _change(param: str, change: Change) -> str:
    """Write `doubling units`, `units from 92 to 112`, or `cell gru instead of lstm`.

    Of a range whose ends read alike: `the whole range of units, about 100`.
    """
    if change.of is None or change.to is None:
        return f"doubling {param.replace('_', ' ')}"
    of, to = (number(v) if isinstance(v, float) else str(v) for v in (change.of, change.to))
    if change.is_whole_range and of == to:
        return f"the whole range of {param.replace('_', ' ')}, about {of}"
    if change.is_whole_range:
        return f"{param.replace('_', ' ')} from {of} to {to}"
    return f"{sized(param, to)} instead of {of}"


def sized(param: str, size: str) -> str:
    """Write a size: `96 units`, `1 layer`, `batch size 64`."""
    words = param.replace("_", " ")
    if not param.endswith("s"):
        return f"{words} {size}"
    return f"{size} {words.removesuffix('s') if size == '1' else words}"
