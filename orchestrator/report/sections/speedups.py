"""The sections that compare arms: by speed, by accuracy, by the way to it, and by rank."""

from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial

from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.comparisons.targets import ExpenseToTarget, Target, TargetArm
from orchestrator.analysis.statistics import formatting
from orchestrator.analysis.statistics.estimates import CONFIDENCE, MIN_BLOCKS, Spread
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm, HardwareUse
from orchestrator.core.text import counted
from orchestrator.report import wording
from orchestrator.report.document import Column, Section, Table, make_table
from orchestrator.report.wording import ArmNames, deciding_interval, grouped, paragraphs
from workloads.metrics import find_metric

NAMED = 8
"""The most comparisons that get a sentence each; the table has all."""

_DAY_S = 86_400.0


def speed(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare the speed of every arm with that of its baseline."""
    comparisons = summary.comparisons
    if not comparisons or summary.baseline is None:
        return None
    plain = max(c.plain_confidence for c in comparisons)
    columns: list[Column[Comparison]] = [
        *_compared(summary, name),
        Column("speed-up (95 % CI)", deciding_interval, show=formatting.speed_ratio, numeric=True),
        Column("configs", lambda c: len(c.pairs)),
        Column("verdict", lambda c: c.label),
    ]
    notes = paragraphs(
        "sections/speedups.j2",
        summary=summary,
        judged=sum(comparison.confidence is not None for comparison in comparisons),
        plain=plain if plain > CONFIDENCE else None,
        blocks_needed=MIN_BLOCKS,
        block_notes=block_notes(summary, name),
    )
    named = comparisons if len(comparisons) <= NAMED else ()
    bullets = tuple((c.verdict, wording.verdict_sentence(c, name)) for c in named)
    title = f"Speed-up over {baseline_name(summary, name)}"
    tables = (make_table(columns, comparisons), *_matrix(summary, name))
    return Section(title, bullets, tables, notes)


def _matrix(summary: ReportSummary, name: ArmNames) -> list[Table]:
    """Show the verdict of each implementation by hardware class, if there are several."""
    rows = {(row.arm.short_name, row.arm.hardware): row for row in summary.arms}
    shown = {c.arm: deciding_interval(c) for c in summary.comparisons}
    places = dict.fromkeys(place for _, place in rows)
    if len(places) < 2:
        return []

    def cell(place: HardwareUse, implementation: str) -> str | None:
        row = rows.get((implementation, place))
        speedup = shown.get(row.arm) if row else None
        if row is None or speedup is None:
            return row.verdict if row else None
        return f"{formatting.speed_ratio(speedup).removesuffix(' slower')} {row.verdict}"

    columns: list[Column[str]] = [Column("implementation", str)]
    columns += [Column(name.place(place), partial(cell, place)) for place in places]
    return [make_table(columns, dict.fromkeys(own for own, _ in rows), divisible=True)]


def accuracy(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Compare the accuracy of every arm with that of its baseline."""
    compared = [c for c in summary.comparisons if c.accuracy]
    if not compared:
        return None
    columns: list[Column[Comparison]] = [
        *_compared(summary, name),
        Column("Δ val_accuracy (95 % CI)", wording.gain, show=formatting.difference, numeric=True),
        Column("configs", lambda c: c.accuracy and c.accuracy.difference.n),
        Column("accuracy", lambda c: c.accuracy and c.accuracy.verdict),
    ]
    notes = paragraphs("sections/accuracy.j2", accuracy=compared[0].accuracy)
    table = make_table(columns, compared)
    return Section(f"Accuracy compared with {baseline_name(summary, name)}", (), (table,), notes)


def _compared(summary: ReportSummary, name: ArmNames) -> list[Column[Comparison]]:
    reference: Column[Comparison] = Column("over", lambda c: over(c, name))
    return [Column("arm", lambda c: name(c.arm)), *([reference] if summary.models else [])]


def over(comparison: Comparison, name: ArmNames) -> str | None:
    """Return what an arm is compared with: the other variant, or its baseline."""
    base = comparison.baseline
    if base is None:
        return None
    if comparison.is_of_variants:
        return base.variant_name
    return base.implementation if base.hardware == comparison.arm.hardware else name(base)


def baseline_name(summary: ReportSummary, name: ArmNames) -> str:
    """Return the name of the baseline; empty if no arm can run."""
    base = summary.baseline
    if base is None:
        return ""
    place = " on the same hardware" if base.scope == "same hardware" else ""
    return next((name(a) for a in base.of.values() if str(a) == base.name), base.name) + place


def block_notes(summary: ReportSummary, name: ArmNames) -> tuple[str, ...]:
    """List the blocks and arms that the figures cover, and those that are excluded."""
    gaps = Counter(gap.missing for gap in summary.gaps)
    starts: dict[int, list[float]] = defaultdict(list)
    for trial in summary.trials:
        if trial.status == "complete" and trial.started_s > 0:
            starts[trial.block].append(trial.started_s)
    spans = [max(starts[b]) - min(starts[b]) for b in summary.complete_blocks if b in starts]
    return paragraphs(
        "sections/blocks.j2",
        summary=summary,
        gaps=[f"{counted(n, 'config')} ({_missing(own, name)})" for own, n in gaps.most_common()],
        set_aside=[name(arm) for arm in summary.set_aside] if summary.trials else [],
        former=[name(arm) for arm in summary.former],
        torn=max((c.not_interleaved_rounds for c in summary.comparisons), default=0),
        far_apart=[span / _DAY_S for span in spans if span > _DAY_S],
    )


def _missing(missing: tuple[tuple[Arm, str], ...], name: ArmNames) -> str:
    reasons = grouped((reason.replace("_", " "), name(arm)) for arm, reason in missing)
    texts = (f"{formatting.joined(arms)} {reason}" for reason, arms in reasons.items())
    return "; ".join(texts) or "no trial complete"


def ranked(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Rank the arms of each group by time, energy, cost and memory."""
    columns: list[Column[Ranking]] = [
        Column("of", lambda r: name.place(r.within) or "all arms"),
        Column("fastest", lambda r: _choice(r, name, r.leader)),
        Column("next", lambda r: _choice(r, name, r.behind[0].arm)),
        Column("it needs (95 % CI)", lambda r: r.behind[0].ratio, show=formatting.ratio),
        Column("verdict", _standing),
    ]
    tables = []
    for metric, own in grouped((r.metric, r) for r in summary.rankings).items():
        columns[1] = replace(columns[1], title=find_metric(metric).superlative or "fastest")
        tables.append(make_table(columns, own))
    left_out = dict.fromkeys(name(arm) for r in summary.rankings for arm in r.left_out)
    notes = paragraphs("sections/rankings.j2", left_out=[*left_out])
    return Section("Rankings", tables=tuple(tables), paragraphs=notes) if tables else None


def _choice(ranking: Ranking, name: ArmNames, arm: Arm) -> str:
    """Return the part of an arm's name that differs within the group."""
    if ranking.among == "implementations":
        return arm.short_name
    return name.place(arm.hardware) if ranking.among == "hardware" else name(arm)


def _standing(ranking: Ranking) -> str:
    if ranking.reason:
        return "too few configs"
    is_equal = all(behind.standing != "inconclusive" for behind in ranking.behind)
    text = "first" if ranking.sole else "equal" if is_equal else "inconclusive"
    return f"{text} (provisional)" if ranking.provisional else text


_NEVER = "never"
"""The text of a quartile among the trials that did not reach the target."""


def attainment(summary: ReportSummary, name: ArmNames) -> Section | None:
    """List what each arm needs to reach the targets."""
    if not summary.targets:
        return None
    tables = [_table(target, name) for target in summary.targets if target.arms]
    title = "To val_accuracy " + formatting.joined(
        [formatting.number(target.accuracy) for target in summary.targets]
    )
    notes = paragraphs(
        "sections/targets.j2",
        targets=summary.targets,
        has_expenses=any(a.energy_j or a.cost_usd for t in summary.targets for a in t.arms),
    )
    return Section(title, tables=tuple(tables), paragraphs=notes)


def _reached(arm: TargetArm) -> str:
    """Write `20 of 40`, and how many of the others diverged."""
    text = f"{arm.time_s.reached} of {arm.time_s.trials}"
    return f"{text}, {arm.diverged} diverged" if arm.diverged else text


def _table(target: Target, name: ArmNames) -> Table:
    scoped = len({arm.energy_scope for arm in target.arms if arm.energy_j}) > 1

    columns: list[Column[TargetArm]] = [
        Column(f"to {formatting.number(target.accuracy)}", lambda row: name(row.arm)),
        Column("reached", _reached, numeric=True),
        Column("time (s)", lambda row: row.time_s, show=_cell),
        Column("energy (J)", lambda row: row.energy_j, show=_cell, optional=True),
        Column("cost (USD)", lambda row: row.cost_usd, show=_cell, optional=True),
        Column("energy of", lambda row: (scoped and row.energy_scope) or None, optional=True),
    ]
    return make_table(columns, target.arms, divisible=True)


def _cell(reached: ExpenseToTarget) -> str:
    low, median, high = reached.lower_quartile, reached.median, reached.upper_quartile
    if low is not None and median is not None and high is not None:
        return formatting.quartiles(Spread(reached.trials, median, low, high))
    ends = [_NEVER if end is None else formatting.number(end) for end in (low, median, high)]
    return _NEVER if low is None else f"{ends[1]} ({ends[0]}–{ends[2]})"
