"""A plan as text: what runs where, what cannot and why, at what price, and what may wait."""

from collections import Counter
from collections.abc import Iterable, Iterator

from orchestrator.core.selectors import different_models
from orchestrator.core.text import counted
from orchestrator.planning.lanes import make_lanes
from orchestrator.planning.objectives import arms_that_speak, open_limit
from orchestrator.planning.plan import Plan
from orchestrator.planning.pricing import describe_prices
from orchestrator.spec import SweepSpec
from orchestrator.spec.sections import FEWEST_BLOCKS
from workloads.metrics import PER_SAMPLE, find_metric
from workloads.model_facts import ModelFacts
from workloads.script_scan import autologging_calls, callbacks_of_fit

_MOST_NAMED = 3
"""Up to this many arms that cannot run for one reason are named; more are counted."""


def describe_plan(spec: SweepSpec, plan: Plan, stopped: Iterable[str] = ()) -> str:
    """Return the plan as text, with its `stopped` arms, prices, pruner and open blocks."""
    lines = [
        _size(spec, plan),
        *(f"  {line}" for line in _arms(plan)),
        *(f"  {line}" for line in _too_few(spec, plan)),
        *(f"  {line}" for line in _data(spec)),
        *(f"  {line}" for line in _order(spec)),
        *(f"  {line}" for line in _callbacks(spec, plan)),
        *(f"  {line}" for line in _graphs(spec)),
        *(f"  {line}" for line in _left_out(spec)),
        *(f"  {line}" for line in _unlike_batches(spec)),
        *(f"  {line}" for line in (*_models(spec, plan), *_measuring(plan))),
        *stopped,
        *describe_prices(spec.prices, (arm.hardware for arm in plan.arms)),
        *(f"  {line}" for line in _search(spec, plan)),
        *(f"  {line}" for line in _open_blocks(spec, plan)),
    ]
    return "\n".join(lines).rstrip()


def _size(spec: SweepSpec, plan: Plan) -> str:
    """Write `sweep mine: 8 to 20 blocks × 2 arms × 3 repeats = at most 120 trials`."""
    blocks, trials = counted(plan.blocks, "block"), counted(plan.trials, "trial")
    if plan.auto:
        blocks = f"{min(plan.auto.least, plan.blocks)} to {blocks}"
        trials = f"at most {trials}"
    factors = [blocks, counted(len(plan.possible), "arm")]
    if plan.repeats > 1:
        factors.append(counted(plan.repeats, "repeat"))
    return f"sweep {spec.name}: {' × '.join(factors)} = {trials}"


def _arms(plan: Plan) -> Iterator[str]:
    """Write how many blocks are added, and what runs, what waits, and what cannot run and why."""
    if plan.auto:
        interval = f"{100 * plan.auto.interval:.3g} %"
        yield f"blocks are added until the interval of every speed-up is within ± {interval}"
    for planned in plan.possible:
        nodes = len(planned.hardware.nodes)
        yield f"runs   {planned.arm}" + (f" ({nodes} nodes)" if nodes != 1 else "")
    awaited = Counter((arm.arm.hardware, arm.entry.wait_s) for arm in plan.awaited)
    for (hardware, wait_s), arms in awaited.items():
        yield f"waits  up to {wait_s:g} s for {hardware} ({counted(arms, 'arm')} not counted above)"
    refused: dict[tuple[str, str], list[str]] = {}
    for arm in plan.impossible:
        refused.setdefault((arm.arm.hardware, arm.reason), []).append(arm.arm.short_name)
    for (hardware, reason), names in refused.items():
        shown = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} arms"
        yield f"cannot run {shown} on {hardware}: {reason}"


def _too_few(spec: SweepSpec, plan: Plan) -> Iterator[str]:
    """Write that no comparison can be decided, and what changes that."""
    if plan.can_decide or not plan.blocks:
        return
    few, enough = counted(plan.blocks, "config"), f"{FEWEST_BLOCKS} configs"
    size = spec.search.size()
    if plan.blocks == 1:
        few += f" with {counted(plan.repeats, 'repeat')}"
        enough, how = f"{FEWEST_BLOCKS} repeats", f"--set repeats={FEWEST_BLOCKS}"
    elif spec.search.listed:
        how = "add configs to the list search.configs"
    elif spec.search.is_grid:
        how = "add values to search.space"
    else:
        how = f"--set search.configs={FEWEST_BLOCKS}"
        if size is not None and size < FEWEST_BLOCKS:
            how += ", with more values in search.space"
    yield f"{few} give no verdict, {enough} can: {how}"


def _models(spec: SweepSpec, plan: Plan) -> Iterator[str]:
    """Write which different models are compared, and by which results besides speed."""
    results = [name for name in spec.search.objectives if find_metric(name).is_result]
    if models := different_models(plan.arms):
        what = " and ".join(results) or "accuracy"
        yield f"different models ({', '.join(models)}): compare {what}, not only speed"


def _data(spec: SweepSpec) -> Iterator[str]:
    if spec.model is not None and spec.data is None:
        yield "random data: only times are compared, not losses or metrics"


def _order(spec: SweepSpec) -> Iterator[str]:
    """Write why the batches of an own model keep the order of the data."""
    facts, chosen = spec.model_facts, spec.settings.get("shuffle")
    carried = facts.carried if facts else ()
    if carried and chosen is None:
        yield f"batches keep the order of the data, because {', '.join(carried)} is stateful"
    elif carried and chosen:
        yield f"batches are shuffled, although {', '.join(carried)} is stateful"
    elif spec.model is not None and chosen is False:
        yield "batches keep the order of the data (settings.shuffle)"


def _callbacks(spec: SweepSpec, plan: Plan) -> Iterator[str]:
    """Write which callbacks of the user's trials have."""
    facts = spec.model_facts
    if spec.callbacks is None or facts is None:
        return
    names = ", ".join(facts.callbacks) or "none"
    if any(arm.measure == "full" for arm in plan.arms):
        yield f"callbacks between the epochs ({spec.callbacks}): {names}"
    if any(arm.measure == "timing" for arm in plan.arms):
        yield f"[timing]: callbacks are not called: {names}"


def _graphs(spec: SweepSpec) -> Iterator[str]:
    """Write what `+compile` makes of a PyTorch module, and what breaks its graphs."""
    for found in spec.inspections.values():
        if not isinstance(found, ModelFacts) or found.graphs is None:
            continue
        graphs = found.graphs
        if graphs.reason is not None:
            yield f"+compile: graphs not counted: {graphs.reason}"
            continue
        counts = f"{counted(graphs.graphs, 'graph')}, {counted(graphs.breaks, 'graph break')}"
        first_cause = f" ({graphs.causes[0]})" if graphs.causes else ""
        yield f"+compile: {counts}{first_cause}"


def _left_out(spec: SweepSpec) -> Iterator[str]:
    """Write what the user's files do in a training of their own, and trials do not."""
    has_none = spec.model is not None and spec.callbacks is None
    for line, names in callbacks_of_fit(spec.workload_name) if has_none else ():
        module = (spec.model or "").partition(":")[0]
        yield (
            f"trials train without the callbacks of fit at {line}: {', '.join(names)}; the key"
            f" callbacks: {module}:FUNCTION takes a function that returns them"
        )
    if lines := [*autologging_calls(spec.workload_name)]:
        yield f"MLflow's autologging at {', '.join(lines)} is switched off in trials"


def _unlike_batches(spec: SweepSpec) -> Iterator[str]:
    """Write which objectives prefer the smallest batch, and what compares batches of any size."""
    of_configs = {config.get("batch_size") for config in spec.search.listed}
    of_variants = {variant.settings.get("batch_size") for variant in spec.arms.variants}
    if "batch_size" not in spec.search.space and max(len(of_configs), len(of_variants)) < 2:
        return
    for objective, per_sample in PER_SAMPLE.items():
        if objective in spec.search.objectives:
            yield (
                f"objective {objective} prefers small batches, as it is per batch; across values"
                f" of batch_size use {per_sample}: maximize"
            )


def _measuring(plan: Plan) -> Iterator[str]:
    """Write how arms are timed, and why trainers are fresh."""
    if any(arm.measure == "timing" for arm in plan.arms):
        timing = plan.timing
        work = "predict whole batches" if timing.timed_work == "predict" else "train"
        yield (
            f"[timing]: arms take turns and {work} for {timing.least} to {timing.most} slices of "
            f"{timing.slice_s:g} s each, until each ratio of a round is known to ± "
            f"{100 * timing.interval:.3g} %"
        )
    if plan.fresh_trainer_reason:
        yield f"each trial has a fresh trainer process, because {plan.fresh_trainer_reason}"


def _search(spec: SweepSpec, plan: Plan) -> Iterator[str]:
    """Write what the sampler learns from, and when the pruner ends a block."""
    sampler, pruner = spec.search.sampler, spec.search.pruner
    if sampler.learns and sampler.sees and plan.blocks > sampler.sees:
        yield (
            f"{sampler.name} learns from the {sampler.sees} latest finished blocks, to stay fast"
        )
    if pruner:
        start = f"{pruner.name} may prune blocks from epoch {pruner.first_epoch} on"
        if pruner.startup_blocks:
            start += f", after {pruner.startup_blocks} complete blocks"
        yield f"{start}; one arm decides, the baseline if the objectives read it"


def _open_blocks(spec: SweepSpec, plan: Plan) -> Iterator[str]:
    """Write how many blocks are open at once, if hardware may wait for that, and what helps."""
    groups = make_lanes(plan)
    limit = open_limit(spec, plan, groups) if spec.search.sampler.learns else None
    if len(groups) < 2 or limit is None or limit >= plan.blocks:
        return
    yield (
        f"open   {limit} of {plan.blocks} blocks at once (search.open_blocks), so that "
        f"{spec.search.sampler.name} learns from their results. Fast hardware may wait for slow "
        f"hardware that the objectives read. To avoid that: {_cure(spec, plan)}"
    )


def _cure(spec: SweepSpec, plan: Plan) -> str:
    """Write what keeps fast hardware from waiting for results of open blocks."""
    cure = "more open blocks (the sampler learns less)"
    if set(arms_that_speak(spec.search.objectives.values(), plan.arms)) == {*plan.arms}:
        fewer = "objectives over the fast arms only (over: gpu)"
        cure = f"{fewer}, less work on the slow ones (settings in arms.hardware) or {cure}"
    return cure
