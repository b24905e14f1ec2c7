"""The first section of a report: its answers, and what is inconclusive."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.formatting import ABSENT, joined, ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.core.text import counted
from orchestrator.report import wording
from orchestrator.report.document import Section
from orchestrator.report.sections.effects import break_even_sentence, effect_bullets, size_bullets
from orchestrator.report.sections.speedups import target_verdicts

NAMED = 8
"""The most comparisons, or hardware classes, that get a sentence each; more are counted."""

_Pair: TypeAlias = tuple[str, frozenset[Arm]]
"""A metric, and two arms that it compares."""

_FIRST = {
    "energy_per_sample_j": ("uses the least energy per sample", "uses {}"),
    "train_cost_usd": ("is the cheapest to train on", "costs {}"),
    "peak_rss_mib": ("needs the least memory", "needs {}"),
    "peak_gpu_mib": ("needs the least GPU memory", "needs {}"),
}
_FASTEST = "is the fastest", "takes {} its time"


def verdicts(summary: ReportSummary, name: wording.ArmNames) -> Section:
    """Write the best config (variants before it), a sentence a comparison, rankings, crossovers."""
    if summary.is_without_success:
        failures = (
            ("failed", f"no trial of {name(row.arm)} succeeded: {row.reason}: {row.message}")
            for row in summary.left_out
        )
        return Section("Verdict", tuple(failures))
    comparisons = summary.comparisons
    of_variants = [c for c in comparisons if c.is_of_variants]
    others = [c for c in comparisons if not c.is_of_variants]
    cause = wording.sentence("sections/busy.j2", summary=summary)
    bullets: list[wording.Bullet] = [("provisional", cause)] if cause else []
    if summary.models:
        text = f"different models ({joined(summary.models)}): accuracy decides as well as speed"
        bullets.append(("different models", text))
    bullets += _compared(of_variants, "their variant of the baseline", name, summary)
    best = [("best", text)] if (text := _best(summary, name)) else []
    bullets = [*bullets, *best] if summary.models else [*best, *bullets]
    bullets += ranked(summary, name)
    bullets += _compared(others, summary.baseline.name if summary.baseline else "", name, summary)
    if not summary.trials:
        bullets = [("no trials", "no trial has ended yet")]
    elif bullets == best:
        bullets = [*best, ("one arm", "there is no second arm to compare with")]
    if len(comparisons) <= NAMED:
        bullets += target_verdicts(summary, name)
    bullets += effect_bullets(summary, name)
    pays_off = [
        (point.verdict, break_even_sentence(point, name))
        for point in summary.break_evens
        if point.verdict != "inconclusive" and _kernel(point.arm) == _kernel(point.baseline)
    ]
    bullets += pays_off[:NAMED]
    figures = [(c.speedup, wording.accuracy_of(c)) for c in comparisons]
    notes = wording.paragraphs(
        "sections/verdict.j2",
        summary=summary,
        configs=wording.ranges_text(summary.configs) if any(map(any, figures)) else "",
    )
    return Section("Verdict", tuple(bullets), paragraphs=notes)


def _compared(
    comparisons: Sequence[Comparison], baseline: str, name: wording.ArmNames, summary: ReportSummary
) -> Iterator[wording.Bullet]:
    """Write a sentence for each comparison, or one that counts them, and at which size it wins."""
    if is_crowded := len(comparisons) > NAMED:
        many = wording.sentence("sections/counted.j2", comparisons=comparisons, baseline=baseline)
        yield "counted", many
    for comparison in comparisons:
        if not is_crowded:
            yield comparison.verdict, wording.verdict_sentence(comparison, name)
        yield from size_bullets(
            [
                crossover
                for crossover in summary.crossovers
                if crossover.effect.arm == comparison.arm
                and crossover.baseline == comparison.baseline
                and (crossover.verdict == "crosses" or not is_crowded)
            ],
            name,
        )


def ranked(summary: ReportSummary, name: wording.ArmNames) -> Iterator[wording.Bullet]:
    """Write the best implementation on each hardware, the best hardware for each, and overall.

    A pair that a comparison with the baseline covers has an interval there, of another family of
    comparisons; a second one would only confuse.
    """
    margin = summary.comparisons[0].margin if summary.comparisons else None
    compared: set[_Pair] = {
        (summary.time_metric, frozenset((c.arm, c.baseline)))
        for c in summary.comparisons
        if summary.time_metric is not None and c.baseline is not None
    }
    groups = wording.grouped(
        ((ranking.among, ranking.within), ranking)
        for ranking in summary.rankings
        if len(ranking.behind) > 1 or _pairs(ranking)[0] not in compared
    )
    is_crowded = sum(among == "hardware" for among, _ in groups) > NAMED / 2
    for among in ("implementations", "hardware", "arms"):
        if among == "hardware" and is_crowded:
            yield from _hardware_counted(summary.rankings)
            continue
        for (kind, _), own in groups.items():
            if kind == among:
                yield from _group(own, name, margin, compared)
                compared |= {pair for ranking in own for pair in _pairs(ranking)}


def _group(
    rankings: Sequence[Ranking],
    name: wording.ArmNames,
    margin: float | None,
    compared: Collection[_Pair],
) -> Iterator[wording.Bullet]:
    """Write the sentences of one group; the first one names all that a sole leader leads in."""
    first = rankings[0]
    also = [r for r in rankings[1:] if r.sole and first.sole and r.leader == first.leader]
    more = [_FIRST[ranking.metric][0] for ranking in also if ranking.metric in _FIRST]
    for ranking in (ranking for ranking in rankings if ranking not in also):
        superlative, times = _FIRST.get(ranking.metric, _FASTEST)
        yield (
            "best" if ranking.sole else "inconclusive",
            wording.sentence(
                "sections/ranking.j2",
                r=ranking,
                superlative=superlative,
                times=times.format(ratio(ranking.behind[0].ratio)),
                rivals=[behind for behind in ranking.behind if behind.standing != "worse"],
                is_cost=ranking.metric in _FIRST,
                is_compared=[pair in compared for pair in _pairs(ranking)],
                choice=partial(_choice, ranking, name),
                left_out=[_choice(ranking, name, arm) for arm in ranking.left_out],
                margin=margin,
                also=joined(more) if ranking is first else "",
            ),
        )


def _pairs(ranking: Ranking) -> list[_Pair]:
    """Return the pairs of the leader with each of the others."""
    return [(ranking.metric, frozenset((ranking.leader, b.arm))) for b in ranking.behind]


def _choice(ranking: Ranking, name: wording.ArmNames, arm: Arm) -> str:
    """Return the part of an arm's name that differs within the group."""
    if ranking.among == "implementations":
        return arm.short_name
    return str(arm.hardware) if ranking.among == "hardware" else name(arm)


def _hardware_counted(rankings: Sequence[Ranking]) -> Iterator[wording.Bullet]:
    """Write `NVIDIA H200 is the fastest for 9 of 10 implementations`."""
    for metric in dict.fromkeys(ranking.metric for ranking in rankings):
        own = [r for r in rankings if r.metric == metric and r.among == "hardware"]
        for hardware, n in Counter(r.leader.hardware for r in own if r.sole).most_common():
            superlative, _ = _FIRST.get(metric, _FASTEST)
            former = dict.fromkeys(str(arm.hardware) for r in own for arm in r.left_out)
            unranked = f"; no longer run and not ranked: {joined(list(former))}" if former else ""
            of = f"{n} of {counted(len(own), 'implementation')}"
            yield "best", f"{hardware} {superlative} for {of}{unranked}"


def _kernel(arm: Arm) -> str:
    """Return `tensorflow/portable` for `tensorflow/portable+xla`."""
    return arm.implementation.partition("+")[0]


def _best(summary: ReportSummary, name: wording.ArmNames) -> str:
    """Write the config to choose, else the size of the Pareto front; empty if there is none."""
    # Energies of unlike scopes are not comparable: each scope has a best config of its own.
    front = summary.front
    return wording.sentence(
        "sections/best.j2",
        choice=summary.choice,
        config=wording.config_text,
        front=front,
        kinds=wording.energy_kinds(summary),
        aims=[f"{metric} ({aim})" for metric, aim in front.objectives.items()],
        arms=sorted({name(point.arm) for point in front.points}),
        firsts=sorted({p.scope or ABSENT: p for p in reversed(front.points)}.items()),
        name=name,
    )
