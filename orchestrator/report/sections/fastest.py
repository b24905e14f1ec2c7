"""The first section: the headlines, what else answers the question, and the table of arms."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from orchestrator.analysis.arms.arm_summary import ArmSummary
from orchestrator.analysis.comparisons.speed import Comparison
from orchestrator.analysis.statistics.estimates import Estimate
from orchestrator.analysis.statistics.formatting import (
    difference_value,
    number,
    plain,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import PARTS, Bullet, Column, Kind, Section, Table, make_table
from orchestrator.report.sections.best import best_sentences
from orchestrator.report.sections.crossovers import crossover_sentence
from orchestrator.report.sections.effects import effect_bullets
from orchestrator.report.sections.factors import bullets_on_results, factor_bullets
from orchestrator.report.sections.headlines import Headline, headlines
from orchestrator.report.sections.progress import progress_sentence
from orchestrator.report.sections.speed import over
from orchestrator.report.sections.whole_training import whole_training_bullets
from orchestrator.report.verdicts import RESULT_WORDS, speed_ratio, verdict_label
from orchestrator.report.wording import (
    ArmNames,
    arm_names,
    compared_results,
    deciding_interval,
    result_name,
)

_ROUNDING = 1e-9
"""The half-width of an interval that has none but arithmetic's own."""

_MOST_BEST = 2
"""The most sentences of the short report on the best config."""

_MOST_SIZES = 2
"""The most sentences of the short report on sizes at which arms cross."""


def fastest_section(summary: ReportSummary, name: ArmNames) -> Section:
    """Make the first section of a full report: the answer, and the table of arms."""
    has_figures = any(row.measures for row in summary.arms)
    tables = (arms_table(summary),) if has_figures else ()
    notes = (figures_note(summary),) if has_figures else ()
    bullets = tuple(answer_bullets(summary, headlines(summary)))
    return Section(PARTS["fastest"], bullets, tables, (*notes, progress_sentence(summary)))


def figures_note(summary: ReportSummary) -> str:
    """Write which statistic the figures in the table of arms are, and of what."""
    if any(comparison.speedup for comparison in summary.comparisons):
        return (
            "Figures of an arm are geometric means over the compared configs: the ratio of two "
            "times is their speed-up."
        )
    return "Figures of an arm are geometric means over its configs."


def answer_bullets(
    summary: ReportSummary, heads: Sequence[Headline], *, is_short: bool = False
) -> Iterator[Bullet]:
    """Write the headlines, the answer for each factor, the best config, and what sizes do."""
    if summary.is_without_success:
        yield from (headline.bullet for headline in heads)
        return
    name = arm_names(summary)
    is_open = heads[0].kind in (Kind.SAME, Kind.INCONCLUSIVE)
    on_results = bullets_on_results(summary) if is_open else ()
    yield from on_results  # what is decided comes first
    yield from (headline.bullet for headline in heads)
    trainings = [*whole_training_bullets(summary)]
    yield from trainings[: 1 if is_short else None]
    yield from (bullet for bullet in factor_bullets(summary) if bullet not in on_results)
    configs = best_sentences(summary)
    yield from (Bullet(Kind.BEST, text) for text in configs[: _MOST_BEST if is_short else None])
    crossings = [c for c in summary.crossovers if c.verdict == "crosses"]
    for crossing in crossings[: _MOST_SIZES if is_short else None]:
        yield Bullet(Kind.CROSSES, f"{crossover_sentence(crossing, name)}.")
    yield from effect_bullets(summary, name)


def arms_table(summary: ReportSummary, most: int | None = None) -> Table:
    """Make the compact table of the arms, the fastest first; at most so many rows."""
    comparisons = {comparison.arm: comparison for comparison in summary.comparisons}
    name = arm_names(summary)

    def mean(metric: str, row: ArmSummary, per: float = 1.0) -> float | None:
        return row.means[metric].value / per if metric in row.means else None

    def speedup(row: ArmSummary) -> Estimate | None:
        comparison = comparisons.get(row.arm)
        return deciding_interval(comparison) if comparison else None

    def reference(row: ArmSummary) -> str | None:
        is_shown = summary.models and row.arm in comparisons
        return over(comparisons[row.arm], name) if is_shown else None

    def memory(row: ArmSummary) -> str | None:
        used, on_gpu = mean("peak_rss_mib", row), mean("peak_gpu_mib", row)
        if on_gpu is not None:
            return f"{number(on_gpu)} (GPU)"
        return None if used is None else number(used)

    has_compiling = any("whole_train_s" in row.measures for row in summary.arms)
    whole_training = partial(mean, "whole_train_s" if has_compiling else "train_s")

    def time(row: ArmSummary) -> float:
        used = mean(summary.time_metric or "step_ms", row)
        return math.inf if used is None else used

    def verdict(row: ArmSummary) -> str | None:
        if not row.measures:
            return "no result"
        comparison = comparisons.get(row.arm)
        if comparison is None:
            return row.verdict or None
        return verdict_label(comparison) if summary.time_metric else None

    def gained(metric: str, row: ArmSummary) -> str | None:
        comparison = comparisons.get(row.arm)
        return _gained(comparison, metric) if comparison else None

    def per_sample(row: ArmSummary) -> float | None:
        metric = summary.time_metric
        return mean(metric, row) if metric and metric.endswith("sample_us") else None

    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: row.arm.short_name),
        Column(
            "hardware",
            lambda row: None if name.hardware else name.place(row.arm.hardware),
            key=True,
        ),
        Column("speed-up (95 % CI)", speedup, show=speed_ratio, numeric=True),
        Column("baseline", reference),
        Column("verdict", verdict),
        *(
            Column(f"Δ {result_name(metric)}", partial(gained, metric), numeric=True)
            for metric in compared_results(summary)
        ),
        Column("µs/sample", per_sample),
        Column("ms/step", partial(mean, "step_ms")),
        Column("ms/prediction", partial(mean, "predict_ms")),
        Column("s in all" if has_compiling else "s to train", whole_training),
        Column("peak MiB", memory, numeric=True),
        Column("mJ/sample", partial(mean, "energy_per_sample_j", per=1e-3)),
        Column("USD to train", partial(mean, "train_cost_usd"), show=plain, numeric=True),
    ]
    columns = [replace(column, optional=True) for column in columns]
    return make_table(columns, sorted(summary.arms, key=time)[:most])


def _gained(comparison: Comparison, metric: str) -> str | None:
    """Write `-0.0014 ± 0.0035`, or `+0.0205 ± 0.0012 better` where that is decided."""
    result = next((result for result in comparison.results if result.metric == metric), None)
    if result is None:
        return None
    shown, verdict = result.shown, result.verdict
    text, half = difference_value(shown), (shown.high - shown.low) / 2
    if _ROUNDING < half < math.inf:
        text += f" ± {half:.2g}"
    return f"{text} {RESULT_WORDS[verdict]}" if verdict in ("better", "worse") else text
