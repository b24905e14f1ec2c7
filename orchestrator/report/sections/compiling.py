"""The section on compiling: after how many steps a longer compilation pays off."""

import math

from orchestrator.analysis.comparisons.ranking import BreakEven
from orchestrator.analysis.statistics.formatting import (
    difference_interval,
    difference_value,
    number,
)
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted
from orchestrator.report.document import Bullet, Kind, Section
from orchestrator.report.verdicts import INCONCLUSIVE, for_this_config, qualified
from orchestrator.report.wording import ArmNames, absent_arms, step_noun


def compiling_section(summary: ReportSummary, name: ArmNames) -> Section | None:
    """Report after how many steps a longer compilation pays off."""
    points = summary.break_evens
    if not points:
        return None
    noun = step_noun(summary)
    is_fresh = points[0].trainers == "fresh"
    trainers = "fresh trainer, including its start" if is_fresh else "warm trainer"
    together = ", all of them together (Bonferroni)" if len(points) > 1 else ""
    explanation = (
        f"Seconds of compiling in a {trainers}, against milliseconds saved per {noun}: the ratio "
        f"of their means over the matched blocks, with Fieller's 95 % interval{together}."
    )
    return Section(
        "Break-even of compiling",
        bullets=tuple(Bullet(Kind(p.verdict), break_even_sentence(p, name, noun)) for p in points),
        paragraphs=absent_arms(summary, name, {a for p in points for a in (p.arm, p.baseline)}),
        explanations=(explanation,),
    )


def break_even_sentence(point: BreakEven, name: ArmNames, noun: str = "step") -> str:
    """Write `A compiles 4.1 s longer than B, which pays off after 5,300 steps`.

    Where that is not decided, only the seconds. A `noun` other than step is the work that was
    timed.
    """
    arm, baseline, extra = name(point.arm), name(point.baseline), point.extra_compile_s
    if extra is None:
        return f"{INCONCLUSIVE}: whether {arm} compiles longer than {baseline} ({point.reason})"
    interval = difference_interval(extra, sign=False)
    if extra.high == math.inf:
        interval = "no interval"
    longer = f"{difference_value(extra, sign=False)} ({interval}) s longer than {baseline}"
    over = f"over {counted(len(point.blocks), point.unit)}"
    if point.verdict == "inconclusive":
        return f"{arm} compiles {longer}, {over} ({point.reason})"
    steps = point.steps
    if steps is None:
        pays = f"never pays off: {point.reason}"
    else:
        after = f"{number(steps.value)} {noun}s ({number(steps.low)}–{number(steps.high)})"
        averaged = ", averaged over the configs tried" if point.unit == "config" else ""
        pays = f"pays off after {after}{averaged}"
    text = f"{arm} compiles {longer}, which {pays}{for_this_config(point.unit)}, {over}"
    return qualified(text, point.qualifier)
