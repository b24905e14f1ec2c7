"""The answer of a report: what is fastest on each hardware class, and what is missing or doubtful.

`answer` is the short report. The page, MLflow and the live view show parts of it.
"""

import math
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.ranking import Ranking
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import MIN_BLOCKS, Estimate
from orchestrator.analysis.statistics.formatting import difference, inverse, number, speed_ratio
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.arms import Arm
from orchestrator.report import wording
from orchestrator.report.document import PARTS, Column, Document, Section, Table, make_table
from orchestrator.report.sections.effects import crossover_sentence, effect_bullets
from orchestrator.report.sections.speedups import baseline_name, over

RUN = "rnnsweep run SPEC"
"""The command that resumes a sweep whose file is not known."""

MOST_HEADLINES = 4
_ROUNDING = 1e-9
"""The half-width of an interval that has none but arithmetic's own."""
_MOST_BEST = 2
_MOST_SIZES = 2
_MOST_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Headline:
    """The answer for one hardware class; `hardware` is empty for several, or if there is none.

    `kind` is `fastest`, `same` (several are), `inconclusive`, `provisional`, `one arm`, `failed` or
    `no trials`. `text` has one to three sentences. `leader` is the arm with the
    shortest time; None if nothing was measured.
    """

    hardware: str
    kind: str
    text: str
    leader: Arm | None


def headlines(summary: ReportSummary) -> tuple[Headline, ...]:
    """Return a headline over several hardware classes, and one for each; never empty."""
    if not summary.trials or summary.is_without_success:
        kind = "failed" if summary.trials else "no trials"
        text = wording.sentence("sections/nothing.j2", summary=summary)
        return (Headline("", kind, text, None),)
    timed = [r for r in summary.rankings if r.metric == summary.time_metric]
    rankings = {r.within: r for r in timed if r.among == "implementations"}
    rows = wording.grouped((str(row.arm.hardware), row) for row in summary.arms)
    own = [_headline(summary, place, rankings.get(place), arms) for place, arms in rows.items()]
    several = [r for among in ("arms", "hardware") for r in timed if r.among == among]
    if not several:
        return tuple(own)
    own = [headline for headline in own if headline.kind != "one arm"]
    return (_headline(summary, "", several[0], ()), *own)


def _headline(
    summary: ReportSummary, hardware: str, ranking: Ranking | None, rows: Sequence[ArmSummary]
) -> Headline:
    """Make the headline of one hardware class out of its ranking, or else out of its arms."""
    name = wording.arm_names(summary)
    place = re.sub(r", (\d+ CPUs?)(?= \[|$)", r" (\1)", name.place(hardware))
    place = place.replace(" [timing]", ", timed in slices")
    if ranking is None:
        measured = [row for row in rows if row.measures]
        open_ones = (c.reason for c in summary.comparisons if str(c.arm.hardware) == hardware)
        facts = {"place": place, "rows": rows, "measured": measured}
        text = wording.sentence("sections/alone.j2", reason=next(open_ones, None), **facts)
        kind = "one arm" if len(rows) == 1 and measured else "inconclusive"
        return Headline(hardware, kind, text, measured[0].arm if measured else None)
    rivals = [behind for behind in ranking.behind if behind.standing != "worse"]
    is_same = all(rival.standing == "same" for rival in rivals)
    kind = "inconclusive" if ranking.reason or not is_same else "same" if rivals else "fastest"
    lead = _lead(summary, ranking)
    text = wording.sentence(
        "sections/headline.j2",
        kind=kind,
        place=place,
        r=ranking,
        rivals=[rival.arm for rival in rivals],
        lead=lead,
        margin=summary.comparisons[0].margin if summary.comparisons else None,
        name=(lambda arm: arm.short_name) if hardware else name,
        compiled=[
            point
            for point in summary.break_evens
            if (point.arm, point.baseline, point.verdict) == (ranking.leader, lead["other"], "pays")
        ],
    )
    is_provisional = ranking.provisional and kind == "fastest"
    return Headline(hardware, "provisional" if is_provisional else kind, text, ranking.leader)


def _lead(summary: ReportSummary, ranking: Ranking) -> dict[str, Any]:
    """Compare the leader with its baseline or else with the next arm.

    A comparison of the report decides if there is one, so that no pair has two intervals.
    """
    leader, behind = ranking.leader, {rival.arm: rival for rival in ranking.behind}
    base = summary.baseline.of.get(leader) if summary.baseline else None
    other = base if base in behind and base is not None else ranking.behind[0].arm
    for c in summary.comparisons:
        is_turned = (c.arm, c.baseline) == (other, leader)
        shown = wording.deciding_interval(c)
        if shown and (is_turned or (c.arm, c.baseline) == (leader, other)):
            gained = c.accuracy.corrected if c.accuracy else None
            if is_turned and gained:
                gained = replace(gained, value=-gained.value, low=-gained.high, high=-gained.low)
            shown = inverse(shown) if is_turned else shown
            return {"other": other, "speedup": shown, "accuracy": c.accuracy, "gained": gained}
    return {"other": other, "speedup": behind[other].ratio, "accuracy": None, "gained": None}


def best(summary: ReportSummary, *, is_short: bool = False) -> str:
    """Write the config to choose, else the size of the Pareto front; empty if there is none.

    The short text has the first sentence.
    """
    return " ".join(_best(summary)[: 1 if is_short else None])


def _best(summary: ReportSummary) -> tuple[str, ...]:
    # Energies of unlike scopes are not comparable: each scope has a best config of its own.
    front, name = summary.front, wording.arm_names(summary)
    return wording.paragraphs(
        "sections/best.j2",
        choice=summary.choice,
        config=wording.config_text,
        front=front,
        kinds=wording.energy_kinds(summary),
        aims=[f"{metric} ({aim})" for metric, aim in front.objectives.items()],
        arms=sorted({name(point.arm) for point in front.points}),
        firsts=sorted({p.scope or "": p for p in reversed(front.points)}.items()),
        name=name,
    )


def counts(summary: ReportSummary) -> dict[str, int]:
    """Return how many trials ended, were expected, failed, and were disturbed."""
    trials = summary.sweep.trials
    return {
        "trials": trials.expected - trials.missing,
        "expected": trials.expected,
        "failed": trials.failed,
        "disturbed": sum(arm.disturbed for arm in summary.arms),
    }


def arms_table(summary: ReportSummary, most: int | None = None) -> Table:
    """Make the compact table of the arms, the fastest first; at most so many rows."""
    comparisons = {comparison.arm: comparison for comparison in summary.comparisons}
    name = wording.arm_names(summary)

    def middle(metric: str, row: ArmSummary, per: float = 1.0) -> float | None:
        return row.measures[metric].median / per if metric in row.measures else None

    def speedup(row: ArmSummary) -> Estimate | None:
        comparison = comparisons.get(row.arm)
        return wording.deciding_interval(comparison) if comparison else None

    def reference(row: ArmSummary) -> str | None:
        is_shown = summary.models and row.arm in comparisons
        return over(comparisons[row.arm], name) if is_shown else None

    def memory(row: ArmSummary) -> str | None:
        used, on_gpu = middle("peak_rss_mib", row), middle("peak_gpu_mib", row)
        if on_gpu is not None:
            return f"{number(on_gpu)} (GPU)"
        return None if used is None else number(used)

    def time(row: ArmSummary) -> float:
        used = middle(summary.time_metric or "step_ms", row)
        return math.inf if used is None else used

    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: row.arm.short_name),
        Column("hardware", lambda row: None if name.hardware else name.place(row.arm.hardware)),
        Column("speed-up (95 % CI)", speedup, show=speed_ratio, numeric=True),
        Column("over", reference),
        Column("Δ accuracy", lambda row: _accuracy(comparisons.get(row.arm)), numeric=True),
        Column("ms per step", partial(middle, "step_ms")),
        Column("s to train", partial(middle, "train_s")),
        Column("peak MiB", memory, numeric=True),
        Column("mJ per sample", partial(middle, "energy_per_sample_j", per=1e-3)),
        Column("USD to train", partial(middle, "train_cost_usd")),
        Column("verdict", lambda r: (r.verdict or None) if r.measures else "no result"),
    ]
    columns = [replace(column, optional=True) for column in columns]
    return make_table(columns, sorted(summary.arms, key=time)[:most])


def _accuracy(comparison: Comparison | None) -> str | None:
    """Write `-0.0014 ± 0.0035`."""
    shown = wording.gain(comparison) if comparison else None
    if shown is None:
        return None
    half, (value, *_) = (shown.high - shown.low) / 2, difference(shown).split(" (")
    return f"{value} ± {half:.2g}" if _ROUNDING < half < math.inf else value


def doubts(
    summary: ReportSummary, resume: str = RUN, retry: str | None = None
) -> tuple[wording.Bullet, ...]:
    """Write what is missing or doubtful, each with the command that cures it.

    `resume` is the command that resumes the sweep, `retry` the one that runs failed trials again.
    """
    name = wording.arm_names(summary)
    causes = wording.grouped(((r.status, r.reason, r.message), r) for r in summary.left_out)
    needs = [(c.arm, c.blocks_needed) for c in summary.comparisons if c.blocks_needed]
    least = min((need for _, need in needs), key=lambda need: need.more_blocks, default=None)
    impossible = wording.grouped((row.reason, name(row.arm)) for row in summary.impossible)
    return wording.bullets(
        "sections/doubts.j2",
        summary=summary,
        label=shlex.quote(summary.sweep.label),
        resume=resume,
        extend=re.sub(r" --set search\.configs=\d+", "", resume),
        retry=retry or f"{resume} --retry-failed",
        causes=[
            (*cause, sum(r.trials for r in rows), {r.arm.short_name: r for r in rows}, rows[0])
            for cause, rows in causes.items()
            if cause[0] != "pruned"
        ],
        most_causes=_MOST_FAILURES,
        few=[c for c in summary.comparisons if c.baseline and not c.corrected and c.pairs],
        more=least.more_blocks if least else 0,
        width=math.expm1(least.half_width) if least else 0.0,
        needs=[name(arm) for arm, _ in needs],
        blocks_needed=MIN_BLOCKS,
        torn=max((c.not_interleaved_rounds for c in summary.comparisons), default=0),
        impossible=[*impossible.items()],
        cause=wording.sentence("sections/busy.j2", summary=summary, resume=resume),
    )


def fastest(summary: ReportSummary, _: wording.ArmNames) -> Section:
    """Make the first section of a full report: the answer, and the table of arms."""
    table = (arms_table(summary),) if any(row.measures for row in summary.arms) else ()
    bullets = tuple(_bullets(summary, headlines(summary)))
    return Section(PARTS["fastest"], bullets, table, _progress(summary))


def doubtful(summary: ReportSummary, _: wording.ArmNames) -> Section | None:
    """List what is missing or doubtful."""
    bullets = doubts(summary)
    return Section("Missing or doubtful", bullets) if bullets else None


def answer(
    summary: ReportSummary,
    most: int | None = None,
    *,
    resume: str = RUN,
    retry: str | None = None,
    rest: str | None = None,
) -> Document:
    """Make the short report, with at most so many rows of arms; `rest` names its place."""
    label = shlex.quote(summary.sweep.label)
    heads = headlines(summary)
    more = len(heads) - MOST_HEADLINES
    bullets = [*_bullets(summary, heads[:MOST_HEADLINES], is_short=True)]
    if more > 0:
        text = f"{more} more on other hardware: rnnsweep report {label} --section fastest"
        bullets.append(("more", text))
    sections = [Section("", tuple(bullets), paragraphs=_progress(summary))]
    if most != 0 and any(row.measures for row in summary.arms):
        hidden = len(summary.arms) - (most or len(summary.arms))
        shown = f"{hidden} more arms: rnnsweep report {label} --section fastest"
        notes = (shown,) if hidden > 0 else ()
        base = baseline_name(summary, wording.arm_names(summary))
        head = f"Arms, compared with {base}" if summary.comparisons else "Arms"
        sections.append(Section(head, tables=(arms_table(summary, most),), paragraphs=notes))
    if missing := doubts(summary, resume, retry):
        sections.append(Section("Missing or doubtful", missing))
    texts = (rest,) if rest else wording.paragraphs("sections/more.j2", label=label, parts=PARTS)
    sections.append(Section("More", paragraphs=texts))
    return Document(title(summary), tuple(sections))


def title(summary: ReportSummary) -> str:
    """Return the title of a report."""
    return f"Sweep {summary.sweep.label}: {summary.sweep.workload}"


def _bullets(
    summary: ReportSummary, heads: Sequence[Headline], *, is_short: bool = False
) -> Iterator[wording.Bullet]:
    """Write the headlines, the variants, the best config, and what sizes do."""
    name = wording.arm_names(summary)
    yield from ((headline.kind, headline.text) for headline in heads)
    if summary.is_without_success:
        return
    if summary.models:
        yield from wording.bullets("sections/variants.j2", summary=summary, name=name)
    configs = _best(summary)
    yield from (("best", text) for text in (configs[:_MOST_BEST] if is_short else configs))
    crossings = [c for c in summary.crossovers if c.verdict == "crosses"]
    for crossing in crossings[: _MOST_SIZES if is_short else None]:
        yield "crosses", f"{crossover_sentence(crossing, name)}."
    yield from effect_bullets(summary, name)


def _progress(summary: ReportSummary) -> tuple[str, ...]:
    return wording.paragraphs(
        "sections/progress.j2",
        summary=summary,
        counts=counts(summary),
        configs=wording.ranges_text(summary.configs),
    )
