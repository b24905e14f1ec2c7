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
    natural,
    number,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.report.document import PARTS, Bullet, Column, Kind, Section, Table, make_table
from orchestrator.report.sections.best import best_sentences
from orchestrator.report.sections.crossovers import crossover_sentence
from orchestrator.report.sections.effects import effect_bullets
from orchestrator.report.sections.headlines import Headline, headlines
from orchestrator.report.sections.progress import progress_sentence
from orchestrator.report.sections.speed import over
from orchestrator.report.verdicts import INCONCLUSIVE, RESULT_WORDS, speed_ratio, verdict_label
from orchestrator.report.wording import (
    ArmNames,
    arm_names,
    compared_results,
    deciding_interval,
    gain,
    grouped,
    result_name,
)

_ROUNDING = 1e-9
"""The half-width of an interval that has none but arithmetic's own."""

_MOST_BEST = 2
"""The most sentences of the short report on the best config."""

_MOST_SIZES = 2
"""The most sentences of the short report on sizes at which arms cross."""

_MOST_IMPLEMENTATIONS = 4
"""The most implementations on which two variants are compared in a sentence."""


def fastest_section(summary: ReportSummary, name: ArmNames) -> Section:
    """Make the first section of a full report: the answer, and the table of arms."""
    tables = (arms_table(summary),) if any(row.measures for row in summary.arms) else ()
    bullets = tuple(answer_bullets(summary, headlines(summary)))
    return Section(PARTS["fastest"], bullets, tables, (progress_sentence(summary),))


def answer_bullets(
    summary: ReportSummary, heads: Sequence[Headline], *, is_short: bool = False
) -> Iterator[Bullet]:
    """Write the headlines, the variants, the best config, and what sizes do."""
    name = arm_names(summary)
    yield from (headline.bullet for headline in heads)
    if summary.is_without_success:
        return
    if summary.models:
        yield from variant_bullets(summary, name)
    configs = best_sentences(summary)
    yield from (Bullet(Kind.BEST, text) for text in configs[: _MOST_BEST if is_short else None])
    crossings = [c for c in summary.crossovers if c.verdict == "crosses"]
    for crossing in crossings[: _MOST_SIZES if is_short else None]:
        yield Bullet(Kind.CROSSES, f"{crossover_sentence(crossing, name)}.")
    yield from effect_bullets(summary, name)


def variant_bullets(summary: ReportSummary, name: ArmNames) -> Iterator[Bullet]:
    """Write a sentence for each variant and its baseline: speed and accuracy by implementation."""
    compared = [c for c in summary.comparisons if c.is_of_variants and c.speedup]
    by_variant = grouped((str(c.arm.variant_name), c) for c in compared)
    for variant, comparisons in sorted(by_variant.items()):
        baseline = comparisons[0].baseline
        assert baseline is not None
        clauses = [
            _variant_clause(c, name, is_only=len(comparisons) == 1)
            for c in comparisons[:_MOST_IMPLEMENTATIONS]
        ]
        text = f"{variant} instead of {baseline.variant_name}: {'; '.join(clauses)}."
        if len(comparisons) > _MOST_IMPLEMENTATIONS:
            text += f" {len(comparisons) - _MOST_IMPLEMENTATIONS} more are in the table."
        yield Bullet(Kind.DIFFERENT_MODELS, text)


def _variant_clause(comparison: Comparison, name: ArmNames, *, is_only: bool) -> str:
    """Write `1.40 × (1.30–1.50) as fast and more accurate (+0.012) with torch/fused`."""
    shown = deciding_interval(comparison)
    assert shown is not None
    text = speed_ratio(shown)
    if natural(shown) is shown:
        text += " as fast"
    if comparison.verdict == "inconclusive":
        text += f" ({INCONCLUSIVE})"
    for result in comparison.results:
        noun = result_name(result.metric)
        if result.verdict == "equal":
            text += " and equally accurate" if noun == "accuracy" else f", with equal {noun}"
        elif result.corrected and result.verdict in ("better", "worse"):
            gained = difference_value(result.corrected)
            if noun == "accuracy":
                more = "more" if result.verdict == "better" else "less"
                text += f" and {more} accurate ({gained})"
            else:
                text += f", with the {RESULT_WORDS[result.verdict]} {noun} ({gained})"
    if is_only:
        return text
    text += f" with {comparison.arm.implementation}"
    return text if name.hardware else f"{text} on {comparison.arm.hardware}"


def arms_table(summary: ReportSummary, most: int | None = None) -> Table:
    """Make the compact table of the arms, the fastest first; at most so many rows."""
    comparisons = {comparison.arm: comparison for comparison in summary.comparisons}
    name = arm_names(summary)

    def middle(metric: str, row: ArmSummary, per: float = 1.0) -> float | None:
        return row.measures[metric].median / per if metric in row.measures else None

    def speedup(row: ArmSummary) -> Estimate | None:
        comparison = comparisons.get(row.arm)
        return deciding_interval(comparison) if comparison else None

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

    def verdict(row: ArmSummary) -> str | None:
        if not row.measures:
            return "no result"
        comparison = comparisons.get(row.arm)
        return verdict_label(comparison) if comparison else row.verdict or None

    def gained(metric: str, row: ArmSummary) -> str | None:
        comparison = comparisons.get(row.arm)
        return _gained(comparison, metric) if comparison else None

    columns: list[Column[ArmSummary]] = [
        Column("arm", lambda row: row.arm.short_name),
        Column("hardware", lambda row: None if name.hardware else name.place(row.arm.hardware)),
        Column("speed-up (95 % CI)", speedup, show=speed_ratio, numeric=True),
        Column("over", reference),
        *(
            Column(f"Δ {result_name(metric)}", partial(gained, metric), numeric=True)
            for metric in compared_results(summary)
        ),
        Column("ms per step", partial(middle, "step_ms")),
        Column("ms per prediction", partial(middle, "predict_ms")),
        Column("s to train", partial(middle, "train_s")),
        Column("peak MiB", memory, numeric=True),
        Column("mJ per sample", partial(middle, "energy_per_sample_j", per=1e-3)),
        Column("USD to train", partial(middle, "train_cost_usd")),
        Column("verdict", verdict),
    ]
    columns = [replace(column, optional=True) for column in columns]
    return make_table(columns, sorted(summary.arms, key=time)[:most])


def _gained(comparison: Comparison, metric: str) -> str | None:
    """Write `-0.0014 ± 0.0035`."""
    shown = gain(comparison, metric)
    if shown is None:
        return None
    value, half = difference_value(shown), (shown.high - shown.low) / 2
    return f"{value} ± {half:.2g}" if _ROUNDING < half < math.inf else value
