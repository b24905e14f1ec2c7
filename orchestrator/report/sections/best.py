"""The config to choose: the most accurate one, and faster ones that are as accurate."""

from collections.abc import Iterator

from orchestrator.analysis.arms.best_configs import Front, ParetoPoint
from orchestrator.analysis.arms.choice import ArmChoice, Choice
from orchestrator.analysis.statistics.formatting import number
from orchestrator.analysis.summary import ReportSummary
from orchestrator.core.text import counted, is_or_are, joined
from orchestrator.report.wording import (
    ArmNames,
    arm_names,
    config_phrase,
    energy_kinds,
    margin_with_origin,
)


def best_sentences(summary: ReportSummary) -> tuple[str, ...]:
    """Write the config to choose, else the best one or the size of the Pareto front."""
    name, front, best = arm_names(summary), summary.front, summary.best
    if summary.choice and best:
        return tuple(_chosen(summary.choice, best, name))
    if not front.points:
        return ()
    if len(front.objectives) > 1:
        return (_front_size(front, energy_kinds(summary), name),)
    if summary.best_by_objective:
        return (_best_on_arm(summary.best_by_objective, front, name),)
    return tuple(_best_of_objective(front, energy_kinds(summary), name))


def _chosen(choice: Choice, on_arm: ArmChoice, name: ArmNames) -> Iterator[str]:
    best = _trained(choice, choice.best, name)
    tried = counted(choice.configs, "config")
    tried += f" on {choice.arms} arms" if choice.arms > 1 else ""
    others = other_arms_sentence(on_arm)
    yield f"Best {choice.result}: {best}, the best of {tried}.{others}{_noise(choice)}"
    given, knee = choice.margin, choice.knee
    margin = margin_with_origin(given.value, given.share, choice.samples)
    if choice.fastest == choice.best:
        yield f"No config within {margin} of the best trains faster."
    else:
        fastest = _trained(choice, choice.fastest, name)
        is_knee = ", the knee of the Pareto front" if choice.fastest == knee else ""
        yield f"Within {margin} of the best, the fastest to train is {fastest}{is_knee}."
    if knee and knee not in (choice.best, choice.fastest):
        yield f"The knee of the Pareto front is {_trained(choice, knee, name)}."


def other_arms_sentence(choice: ArmChoice) -> str:
    """Count the arms that were not chosen on the best config; empty for a single arm.

    ` Other arms on it: 2 equal (0.281–0.283) but not faster, 1 worse, 1 without a result.`
    """
    equal, worse, left_out = (choice.of(kind) for kind in ("equal", "worse", "left out"))
    counts = []
    if equal:
        values = [arm.value for arm in equal if arm.value is not None]
        ends = dict.fromkeys(number(end) for end in (min(values), max(values)))
        slower = " but not faster" if choice.time_metric else ""
        counts.append(f"{len(equal)} equal ({'–'.join(ends)}){slower}")
    if worse:
        counts.append(f"{len(worse)} worse")
    if left_out:
        counts.append(f"{len(left_out)} without a result")
    return f" Other arms on it: {', '.join(counts)}." if counts else ""


def _best_on_arm(choice: ArmChoice, front: Front, name: ArmNames) -> str:
    """Write the best config by the only objective, a result, on the arm that was chosen for it."""
    best = choice.chosen
    value = number(best.values[choice.metric])
    chosen = f"{value} with {config_phrase(best.config)} on {name(best.arm)}"
    others = other_arms_sentence(choice)
    return f"Best {choice.metric}: {chosen}, the best of {front.tried} tried.{others}"


def _noise(choice: Choice) -> str:
    """Write how many other configs the validation set cannot tell from the best one."""
    if not choice.within_noise or choice.lowest_within_noise is None or choice.samples is None:
        return ""
    others = counted(choice.within_noise, "other config")
    lowest = number(choice.lowest_within_noise)
    verb = is_or_are(choice.within_noise)
    return (
        f" {others} {verb} within the noise of {choice.samples:,} validation samples (down to"
        f" {lowest})."
    )


def _trained(choice: Choice, point: ParetoPoint, name: ArmNames) -> str:
    """Write `0.91 with units 64 on torch/fused (1.2 ms per step, 30 s of training)`."""
    times = []
    if "step_ms" in point.values:
        times.append(f"{number(point.values['step_ms'])} ms per step")
    if "train_s" in point.values:
        times.append(f"{number(point.values['train_s'])} s of training")
    value = number(point.values[choice.result])
    return f"{value} with {config_phrase(point.config)} on {name(point.arm)} ({', '.join(times)})"


def _front_size(front: Front, kinds: list[str], name: ArmNames) -> str:
    aims = joined([f"{metric} ({aim})" for metric, aim in front.objectives.items()])
    separately = f", each kind of energy separately ({joined(kinds)})" if len(kinds) > 1 else ""
    arms = joined(sorted({name(point.arm) for point in front.points}))
    return (
        f"Pareto-best in {aims}{separately}: {len(front.points)} of {front.tried} tried, on {arms}."
    )


def _best_of_objective(front: Front, kinds: list[str], name: ArmNames) -> Iterator[str]:
    """Write the best config by one objective, for each scope of its energy.

    Energies of unlike scopes are not comparable: each scope has a best config of its own.
    """
    (metric,) = front.objectives
    first_of_scope = {point.scope or "": point for point in reversed(front.points)}
    for scope, point in sorted(first_of_scope.items()):
        of_scope = f" of {scope}" if scope and len(kinds) > 1 else ""
        value = number(point.values[metric])
        chosen = f"{value} with {config_phrase(point.config)} on {name(point.arm)}"
        yield f"Best {metric}{of_scope}: {chosen}, the best of {front.tried} tried."
