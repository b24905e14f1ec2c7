"""`rnnsweep plan`: what a spec would run, where, and for how long."""

# ruff: noqa: PLC0415

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.cli import options
from orchestrator.cli.command import command
from orchestrator.cli.messages import show, show_progress
from orchestrator.cli.output import write
from orchestrator.core.formats import Format
from orchestrator.storage.home import sweep_home

if TYPE_CHECKING:
    from orchestrator.hardware import Look, Node, OtherWork
    from orchestrator.planning.plan import Plan
    from orchestrator.scheduling.remaining import RemainingWork
    from orchestrator.spec import SweepSpec

PLAN = Format("a plan", 4, id="rnnsweep-plan")


@command(
    examples=["rnnsweep plan quickstart", "rnnsweep plan mine.yaml --set search.configs=12"],
    notes=f"""
A spec that `rnnsweep run` would refuse is refused with the same message. It writes nothing, and
does not look whether it could.
{options.SPEC_NOTES}""",
)
@options.spec_argument
@options.spec_set_option
@options.address_option
@options.same_code_option
@click.option(
    "--nodes",
    "fleets",
    multiple=True,
    metavar="FLEET",
    help=(
        "Predict the rest of the sweep on these nodes too, such as '4 x NVIDIA T4, 8 x lab.json'"
        " (a class with measured trials, or a file of hardware --format json); may be repeated."
    ),
)
@options.json_option
def plan(
    spec: Path,
    overrides: tuple[str, ...],
    address: str | None,
    same_code: bool,
    fleets: tuple[str, ...],
    form: str | None,
) -> None:
    """Show what would run where, what cannot run, and how long it takes."""
    from orchestrator.hardware import Look, classify

    look = None if address is not None else Look()  # its seconds pass meanwhile
    from orchestrator.cluster import connection
    from orchestrator.execution.workload_check import check_spec_file
    from orchestrator.planning.lanes import make_lanes
    from orchestrator.planning.objectives import open_limit
    from orchestrator.planning.plan import make_plan
    from orchestrator.scheduling.forecast import Forecaster
    from orchestrator.scheduling.forecast_text import describe_forecast
    from orchestrator.scheduling.remaining import remaining_work
    from orchestrator.storage import resume
    from orchestrator.storage.home import SweepFolder
    from orchestrator.storage.tracking.trackers import tracking_uri

    checked = check_spec_file(spec, overrides, on_cluster=address is not None, tell=show_progress)
    with contextlib.ExitStack() as stack:
        nodes = connection.this_machine()
        if address is not None:
            cluster = connection.connect(address, may_be_empty=checked.may_wait)
            nodes = stack.enter_context(cluster)
        made = make_plan(checked, classify(nodes), "to come" if address is not None else None)
        seen = _other_work(look, nodes, made)
    folder = SweepFolder(sweep_home(), checked.name)
    store = tracking_uri(folder.home, os.environ)
    state = resume.preview(folder, checked, store, same_code=same_code)
    work = remaining_work(checked, made, state, retry_failed=False)
    made = work.running
    forecaster = Forecaster(checked, state)
    expected = forecaster.forecast(work, each_config=form == "json")
    others = forecaster.fleets(fleets, nodes, options.start_command("run", spec, overrides))
    if form == "json":
        pruner = checked.search.pruner.name if checked.search.pruner else None
        opening = {"open_blocks": open_limit(checked, made, make_lanes(made)), "pruner": pruner}
        rest = dataclasses.asdict(expected) | {"fleets": list(map(dataclasses.asdict, others))}
        taken = {host: dataclasses.asdict(work) for host, work in seen().items()}
        write({**PLAN.head(), **made.as_json(), **opening, **rest, "other_work": taken})
    elif fleets or work.plan.possible or work.plan.awaited:
        show(_plan_text(checked, work, expected.waits))
    if not fleets:
        _expect_a_start(checked, work, on_cluster=address is not None)
    if form == "json":
        return
    if work.plan.possible and not made.possible:
        show("every arm is stopped: nothing is left to run\n")
        return
    at_most = made.ending == "open" or checked.search.pruner is not None
    show(f"{describe_forecast(expected, others, at_most=at_most)}\n")
    if work.missing or fleets:
        show(_busy_line(seen(), made, checked.disturbance_limits.others_cpu_pct))


def _plan_text(spec: SweepSpec, work: RemainingWork, waits: Mapping[str, float]) -> str:
    """Return what runs and what cannot, with the arms that are stopped or replace the baseline."""
    from orchestrator.planning.description import describe_plan
    from orchestrator.scheduling.runnable import replaced_baseline

    notes = [
        *(work.failures.describe(arm) for arm in work.failures.stopped),
        *replaced_baseline(spec, work.plan),
    ]
    return f"{describe_plan(spec, work.running, waits, [f'  {note}' for note in notes])}\n"


def _expect_a_start(spec: SweepSpec, work: RemainingWork, *, on_cluster: bool) -> None:
    """Refuse what a start would refuse: a spec that cannot run, or whose data are missing."""
    from orchestrator.scheduling.runnable import expect_runnable, refuse_missing_data

    expect_runnable(spec, work.plan)
    if work.missing and not on_cluster:
        refuse_missing_data(spec)


def _busy_line(seen: Mapping[str, OtherWork], made: Plan, limit_pct: float) -> str:
    """Return what others take of busy machines, and what follows; empty if none is busy."""
    from orchestrator.analysis.statistics.bias import effect_of_other_work
    from orchestrator.cluster.other_work import describe_busy, warn_of

    busy = describe_busy(seen, limit_pct)
    if busy is None:
        return ""
    then = "A start does not wait until it is quiet, unless with --wait-quiet 30m"
    effect = effect_of_other_work(made.possible, seen, limit_pct)
    return f"{warn_of(busy, effect.ratio, effect.names, then)}\n"


def _other_work(
    look: Look | None, nodes: Sequence[Node], made: Plan
) -> Callable[[], dict[str, OtherWork]]:
    """Return a function that returns what others take of the machines of the plan, by host name.

    It waits for the look at this machine. Without one the nodes of the connected cluster are looked
    at now.
    """
    from orchestrator.cluster.other_work import observe_nodes

    if look is None:
        working = {node.id: node for arm in made.possible for node in arm.hardware.nodes}
        seen = observe_nodes([*working.values()]) if working else {}
        return lambda: seen

    def here() -> dict[str, OtherWork]:
        work = look.result()
        return {} if work is None else {nodes[0].profile.hostname: work}

    return here
