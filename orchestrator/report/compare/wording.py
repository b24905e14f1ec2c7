"""The sentences on what changed between two sweeps, and the notes below them."""

from collections.abc import Iterator, Mapping

from orchestrator.analysis.statistics.formatting import difference, ratio, share
from orchestrator.core.caller import as_typed
from orchestrator.core.text import counted, joined
from orchestrator.report.compare.changes import NEEDS, ArmChange, Changes
from orchestrator.report.document import Bullet, Kind
from orchestrator.report.verdicts import (
    DIFFERENT_MATHEMATICS,
    INCONCLUSIVE,
    RESULT_WORDS,
    change_sentence,
    for_this_config,
    over_units,
)
from orchestrator.report.wording import ArmNames, deciding_interval, result_name

_RESULT_KINDS: Mapping[str, Kind] = {"better": Kind.FASTER, "worse": Kind.SLOWER}
"""Changes of a result have the colours of changes of the speed."""


def change_bullets(changes: Changes, name: ArmNames) -> Iterator[Bullet]:
    """Write the changes of all arms: first of speed, then of accuracy, then of memory."""
    if not changes.arms:
        yield Bullet(Kind.INCONCLUSIVE, "no arm is on both sides: nothing can be compared")
    elif not any(arm.configs for arm in changes.arms):
        text = (
            "the two sides share no config that is complete on both: arms are compared config by"
            " config, so nothing can be compared. Give both sweeps the same seed and space, or"
            " list the configs"
        )
        yield Bullet(Kind.INCONCLUSIVE, text)
        return
    for arm in changes.arms:
        if arm.is_of_results_alone:
            continue
        comparison, lost = arm.comparison, _lost(arm)
        text = change_sentence(comparison, _named(arm, name), changes.margin, lost)
        yield Bullet(Kind(comparison.verdict), text)
    for arm in changes.arms:
        yield from _results(arm, name)
    for arm in changes.arms:
        yield from _needs(arm, name)


def _named(arm: ArmChange, name: ArmNames) -> str:
    """Return the name of an arm, and its earlier hardware if that was another."""
    before = f", before on {arm.before.hardware}" if arm.is_on_other_hardware else ""
    return f"{name(arm.after)}{before}"


def _lost(arm: ArmChange) -> str:
    if not arm.lost:
        return ""
    return f"; at {counted(arm.lost, 'other')} it no longer completes a trial"


def _results(arm: ArmChange, name: ArmNames) -> Iterator[Bullet]:
    for result in arm.results:
        if result.verdict in _RESULT_KINDS:
            shown = difference(result.shown)
            word = RESULT_WORDS[result.verdict]
            text = f"{_named(arm, name)} became {word}: {result.metric} {shown}"
            yield Bullet(_RESULT_KINDS[result.verdict], text)
        elif arm.is_of_results_alone and result.verdict == "equal":
            yield Bullet(Kind.SAME, f"{_named(arm, name)} has the same {result.metric} as before")
        elif reason := arm.diverged_alone or (arm.is_of_results_alone and result.reason):
            change = f"whether the {result_name(result.metric)} of {_named(arm, name)} became worse"
            yield Bullet(Kind.INCONCLUSIVE, f"{INCONCLUSIVE}: {change} ({reason})")


def _needs(arm: ArmChange, name: ArmNames) -> Iterator[Bullet]:
    """Write the changes of memory and time to compile. A need that grew is `faster`: above 1."""
    for metric, need in arm.needs.items():
        if need.verdict not in ("faster", "slower"):
            continue
        has_grown = need.verdict == "faster"
        factor = f"{ratio(deciding_interval(need))} as much as before"
        yield Bullet(
            Kind.SLOWER if has_grown else Kind.FASTER,
            f"{_named(arm, name)} needs {'more' if has_grown else 'less'} {NEEDS[metric]}: "
            f"{factor}{for_this_config(need.unit)}, {over_units(need)}",
        )


def change_notes(changes: Changes, name: ArmNames) -> Iterator[str]:
    """Write what limits the comparison."""
    for label, state in changes.incomplete.items():
        yield f"{label} is {state}: some of its trials may be missing."
    sides = ((changes.before, changes.only_before), (changes.after, changes.only_after))
    for label, arms in sides:
        if arms:
            yield f"Only {label} has {joined([str(arm) for arm in arms])}."
    for arm in changes.arms:
        if arm.different_mathematics:
            yield (
                f"{_named(arm, name)} computes something else than the baseline in "
                f"{joined(arm.different_mathematics)} ({DIFFERENT_MATHEMATICS})."
            )
    if changes.moved_together:
        yield (
            "All arms changed by the same factor: the cause is more likely the machine than the "
            "code."
        )
    yield (
        "The two sweeps ran at different times. Other changes in between affect the ratios, too. A "
        "change of the time per step, or of the memory, within "
        f"{share(changes.margin)} counts as the same."
    )
    if any(arm.is_on_other_hardware for arm in changes.arms):
        yield "Arms whose hardware differs are compared, but never fail a comparison."
    if any(arm.comparison.qualifier == "busy" for arm in changes.arms):
        yield (
            "Verdicts marked busy include disturbed trials, because too few were quiet. They count "
            f"with {as_typed('--busy-counts', 'busy_counts=True')} only."
        )
    if changes.unlike_inputs:
        yield f"Accuracies are not compared: the {changes.unlike_inputs} differ."
